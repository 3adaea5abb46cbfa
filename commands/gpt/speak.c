/* train_gpt speak: the trained model says a text, in the voice of a recording or of a prepared sample.
 *
 *   ./train_gpt speak --checkpoint run --text "..." --prompt-audio voice.wav -o said.wav
 *
 * The text is normalised and tokenised as prepare does, the voice mapped by the codebook's own statistics. The model
 * generates audio codes until it ends the speech, and the codebook makes sound of them, as in train_gpt decode. A model
 * that was trained on the features of prepare --indextts2 speaks in IndexTTS2, and the error says how. */
#include "commands/gpt/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/format.h"
#include "base/program.h"
#include "commands/gpt/options.h"
#include "commands/gpt/origin.h"
#include "commands/gpt/sound.h"
#include "commands/gpt/trained.h"
#include "commands/trainer.h"
#include "data/formats/json_records.h"
#include "data/formats/text_source.h"
#include "data/gpt/dataset.h"
#include "data/gpt/manifest.h"
#include "data/gpt/speech_coder.h"
#include "data/text/normalize.h"
#include "data/text/unknown.h"
#include "data/text/utf8.h"
#include "train/plan/memory.h"
#include "train/train.h"

typedef struct {
    TrainOptions train;
    GptTrainedOptions trained;
    const char *text, *output, *prompt_audio, *sample, *manifest, *codebook;
    double temperature, top_p, repetition_penalty;
    int64_t top_k, max_codes, iterations;
    OptionSet set;
} SpeakOptions;

#define FIELD(name) offsetof(SpeakOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "text", .heading = "Speech", .type = OPTION_TEXT, .offset = FIELD(text), .metavar = "TEXT", .required = true,
     .help = "what to say"},
    {.name = "output", .heading = "Files", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "FILE",
     .required = true,
     .help = "the WAV file, 24 kHz"},
    {.name = "prompt-audio", .heading = "Voice", .usual = true, .type = OPTION_TEXT, .offset = FIELD(prompt_audio), .metavar = "PATH",
     .help = "speak in the voice of this recording"},
    {.name = "sample", .usual = true, .type = OPTION_TEXT, .offset = FIELD(sample), .metavar = "ID",
     .help = "speak in the voice of this sample of the manifest; default: of its first one"},
    {.name = "manifest", .letter = 'm', .type = OPTION_TEXT, .offset = FIELD(manifest), .metavar = "PATH",
     .help = "the manifest with the sample; default: the first one of the training"},
    {.name = "codebook", .heading = "Model", .type = OPTION_TEXT, .offset = FIELD(codebook), .metavar = "PATH",
     .help = "codebook.npy of the training (codebook.json lies beside it); default: where the training found it"},
    {.name = "temperature", .heading = "Speech", .usual = true, .type = OPTION_FLOAT, .offset = FIELD(temperature), .default_value = "0.8", .max = 100,
     .metavar = "X",
     .help = "divides the logits of the codes; 0: the most probable code, always"},
    {.name = "top-k", .type = OPTION_INT, .offset = FIELD(top_k), .default_value = "30", .max = 1e6, .metavar = "N",
     .help = "draw from the N most probable codes; 0: from all"},
    {.name = "top-p", .type = OPTION_FLOAT, .offset = FIELD(top_p), .default_value = "0.8", .min = 1e-6, .max = 1,
     .metavar = "X",
     .help = "and of them from the fewest that together have this share of the probability"},
    {.name = "repetition-penalty", .type = OPTION_FLOAT, .offset = FIELD(repetition_penalty), .default_value = "1",
     .min = 0.01, .max = 100, .metavar = "X",
     .help = "makes codes that have been spoken less probable; 1: no penalty (IndexTTS2 speaks its own codes with 10)"},
    {.name = "max-codes", .type = OPTION_INT, .offset = FIELD(max_codes), .default_value = "0", .max = 1e6,
     .metavar = "N",
     .help = "end after N codes, 50 a second; 0: where the model's positions end"},
    {.name = "iterations", .type = OPTION_INT, .offset = FIELD(iterations), .default_value = "60", .max = 1e5,
     .metavar = "N",
     .help = "iterations of the Griffin-Lim algorithm"},
};
// clang-format on

static void parse(SpeakOptions *o, int argc, char **argv) {
    static const OptionsHeader header = {"train_gpt speak", "--checkpoint run --text TEXT -o said.wav [options]",
                                         "--checkpoint run --text \"...\" --prompt-audio voice.wav -o said.wav",
                                         "Says a text with a trained model."};
    static const char *const kept[] = {"config", "device", "threads", "amp", "no-tf32", "seed", NULL};
    static const OptionOverride seed = {
        .name = "seed", .default_value = "1", .metavar = "N", .help = "of the codes and the phases"};
    train_options_add(&o->set, &o->train);
    options_override(&o->set, &seed, 1);
    options_keep(&o->set, 0, kept);
    gpt_trained_options_add(&o->set, &o->trained);
    options_add(&o->set, table, sizeof table / sizeof *table, o);
    options_parse(&header, &o->set, argc, argv);
    train_options_resolve(&o->train, &o->set);
    gpt_sound_check(o->output);
    if (o->prompt_audio && (o->sample || o->manifest))
        die_usage("--prompt-audio and --%s: give one voice", o->sample ? "sample" : "manifest");
}

/* ---- the text ---- */

/* Returns start, the ids of --text, stop. */
static TokenIds text_ids(const SpeakOptions *o, const GptTrained *trained) {
    Error error;
    TokenIds ids = {0};
    OWNED char *path = gpt_trained_tokenizer(trained, o->trained.tokenizer),
               *text = text_normalize_amharic(o->text, &error);
    SentencePiece *tokenizer = gpt_tokenizer_open(path);
    token_ids_add(&ids, GPT_START_TEXT);
    const TokenIds before = ids;
    if (!text)
        die("--text: %s", error.text);
    else
        sentencepiece_encode(tokenizer, text, strlen(text), false, &ids);
    if (ids.n == 1) die_usage("--text '%s' has no words", o->text);
    if (ids.n - 1 > trained->config.max_text_tokens)
        die("--text has %lld tokens, and the model reads at most %d: say it in parts", (long long)ids.n - 1,
            trained->config.max_text_tokens);
    Unknown missing = {.encode = sentencepiece_encode_plain, .tokenizer = tokenizer};
    unknown_add(&missing, text, strlen(text), &before, &ids);
    unknown_warn("--text", &missing);
    unknown_free(&missing);
    token_ids_add(&ids, GPT_STOP_TEXT);
    sentencepiece_close(tokenizer);
    return ids;
}

/* ---- the voice ---- */

/* Reads an array that a line of the manifest names. */
static void read_vectors(const char *manifest, const char *path, int64_t rows, int64_t width, float *out) {
    OWNED char *bytes = NULL, *folder = path_directory(manifest), *resolved = path_join(folder, path);
    size_t size;
    Npy npy;
    MUST_OR(read_file(resolved, &bytes, &size, &error) && npy_parse(bytes, size, &npy, &error) &&
                gpt_vectors_parse(&npy, rows, width, out, &error),
            "%s: %s", resolved, error.text);
}

static bool is_sample(const SpeakOptions *o, const ManifestRecord *r) {
    return !o->sample || !strcmp(r->id, o->sample) || (r->prompt_id && !strcmp(r->prompt_id, o->sample));
}

/* Reads the vectors of --sample from the manifest. */
static void voice_of_sample(const SpeakOptions *o, const char *manifest, int64_t width, float *condition,
                            float *emotion) {
    OWNED char *text = NULL;
    size_t size;
    Error error;
    bool found = false;
    if (!text_read(manifest, &text, &size, &error)) die("%s: %s", manifest, error.text);
    size_t mark = utf8_mark(text, size);
    JsonRecords records = json_records_open(text + mark, size - mark, 1, true);
    while (!found && json_records_next(&records, &error)) {
        ManifestRecord record;
        int column = records.is_array ? records.column : 0;
        if (!manifest_parse_line(records.text, records.size, &record, &records.line, &column, &error)) {
            if (column) die("%s:%lld:%d: %s", manifest, (long long)records.line, column, error.text);
            die("%s:%lld: %s", manifest, (long long)records.line, error.text);
        }
        if ((found = is_sample(o, &record))) {
            printf("[Voice] %s of %s\n", record.prompt_id ? record.prompt_id : record.id, manifest);
            read_vectors(manifest, record.condition_path, CONDITIONING_ROWS, width, condition);
            read_vectors(manifest, record.emo_vec_path, 1, width, emotion);
        }
        manifest_record_close(&record);
    }
    if (!found && error.text[0]) die("%s:%s", manifest, error.text);
    if (!found) die("--sample %s: %s has no such line", o->sample ? o->sample : "", manifest);
}

/* Returns the conditioning with the emotion added, [CONDITIONING_ROWS, width]; free(). */
static float *voice_vectors(const SpeakOptions *o, const GptTrained *trained, const SpeechCoder *coder,
                            const Mel *mel) {
    int64_t width = trained->config.d_model;
    float *condition = xmalloc((size_t)(CONDITIONING_ROWS * width) * sizeof *condition);
    OWNED float *emotion = xmalloc((size_t)width * sizeof *emotion);
    OWNED char *manifest = o->manifest ? xstrdup(o->manifest) : gpt_trained_manifest(trained);
    if (o->prompt_audio) {
        int64_t n;
        OWNED float *frames = gpt_frames_of_recording(mel, o->prompt_audio, &n);
        printf("[Voice] %s, %.2f s\n", o->prompt_audio, (double)n * MEL_HOP / MEL_RATE);
        PromptMap map = prompt_map_open(coder, width);
        prompt_map_apply(&map, frames, n, condition, emotion);
        prompt_map_close(&map);
    } else if (manifest) {
        voice_of_sample(o, manifest, width, condition, emotion);
    } else
        die_usage("--checkpoint %s does not say what it was trained on: give --prompt-audio, or --manifest",
                  trained->path);
    for (int64_t i = 0; i < CONDITIONING_ROWS * width; i++) condition[i] += emotion[i % width];
    return condition;
}

/* Ends the program because the model speaks in codes that no codebook makes sound of. */
static _Noreturn void die_of_codes(const SpeakOptions *o, const char *kind) {
    const char *checkpoint = o->trained.checkpoint;
    OWNED char *word = shell_path(checkpoint);
    if (!gpt_codes_are_indextts2(kind))
        die("--checkpoint %s: the model speaks in %s", checkpoint, gpt_codes_decoder(kind));
    die("--checkpoint %s: the model speaks in IndexTTS2's semantic codes, and IndexTTS2's networks s2mel and vocoder, "
        "which make sound of them, are not part of train_gpt. Speak in IndexTTS2: %s export --checkpoint %s --output "
        "exported, copy the folder exported into IndexTTS2's folder checkpoints, make config_new.yaml as its "
        "config.yaml says, and in Python IndexTTS2(cfg_path=\"checkpoints/config_new.yaml\", "
        "model_dir=\"checkpoints\").infer(spk_audio_prompt=\"voice.wav\", text=\"...\", output_path=\"said.wav\")",
        checkpoint, program_as_called(), word);
}

/* Returns the path of the codebook, free(), and reads it. Dies unless the model speaks in its codes. */
static char *read_codebook(const SpeakOptions *o, const GptTrained *trained, SpeechCoder *coder) {
    const char *kind = gpt_trained_fact(trained, GPT_CODES_FACT);
    if (kind && !gpt_codes_are_own(kind)) die_of_codes(o, kind);
    char *path = gpt_trained_codebook(trained, o->codebook);
    if (!path)
        die_usage("--checkpoint %s does not say which codebook it was trained with: give --codebook", trained->path);
    MUST(speech_coder_read(path, coder, &error));
    if (coder->codebook.entries != trained->config.mel_codes - GPT_SPECIAL_CODES)
        die("%s has %lld entries, and the model of %s has %d codes beside start and stop", path,
            (long long)coder->codebook.entries, trained->path, trained->config.mel_codes - GPT_SPECIAL_CODES);
    return path;
}

/* ---- the speech ---- */

typedef struct {
    int64_t n; /* codes so far */
    double begin;
} Progress;

/* Shows how far the speech is, in the line at the bottom of the terminal. */
static void show_progress(void *context, int prompt, int32_t id) {
    enum { SHOWN = 10 /* codes from line to line */ };
    Progress *p = context;
    (void)prompt, (void)id;
    if (p->n++ % SHOWN) return;
    terminal_progress("[Speak] %lld codes, %.1f s of speech\t%.0f codes/s", (long long)p->n,
                      (double)p->n * MEL_HOP / MEL_RATE, (double)p->n / (seconds_now() - p->begin));
}

/* Generates the codes of one text. */
static Generated generate(const SpeakOptions *o, Model *model, Device *device, const GptConfig *c, const TokenIds *text,
                          const float *voice) {
    const int32_t start = c->mel_codes - 2, stop = c->mel_codes - 1, speed[] = {1, 0};
    GenerationModel m = gpt_generation(model, CONDITIONING_ROWS);
    GenerationPrompt prompt = {.parts = {{.vectors = voice, .n = CONDITIONING_ROWS},
                                         {.ids = speed, .n = 2, .table = GPT_SPEED},
                                         {.ids = text->ids, .n = text->n, .table = GPT_TEXT},
                                         {.ids = &start, .n = 1, .table = GPT_MEL}},
                               .n_parts = 4};
    GenerationOptions options = {.sampling = {.repetition_penalty = (float)o->repetition_penalty,
                                              .temperature = (float)o->temperature,
                                              .top_k = (int)o->top_k,
                                              .top_p = (float)o->top_p,
                                              .seed = (uint64_t)o->train.seed},
                                 .forbidden = &start,
                                 .n_forbidden = 1,
                                 .stops = &stop,
                                 .n_stops = 1,
                                 .max_new = o->max_codes ? o->max_codes : m.context,
                                 .on_id = show_progress,
                                 .context = &(Progress){.begin = seconds_now()}};
    Generated speech;
    Error error;
    char bytes[32];
    GenerationSize size = generation_size(&m, &prompt, 1, 1, options.max_new);
    GenerationMemory memory = generation_memory(&m, o->train.amp ? device->half : DTYPE_F32, &size);
    printf("[Memory] generation: %s\n", format_bytes((double)(memory.cache + memory.activations), bytes));
    Generator *generator = generator_open(&m, device, &size, memory_available(device), &error);
    if (!generator || !generator_run(generator, &prompt, 1, &options, &speech, &error)) die("%s", error.text);
    terminal_progress_end();
    generator_close(generator);
    return speech;
}

/* Returns the codes of the text, spoken by the checkpoint's weights. */
static Generated speak(SpeakOptions *o, const GptTrained *trained, const TokenIds *text, const float *voice) {
    const char *why;
    Device *device = train_device_open(&o->train, &why);
    GptLayout layout = gpt_layout(&trained->config);
    o->train.base_checkpoint = trained->path;
    TrainSpec spec = {TRAINER_INFERENCE(&o->train, &o->set, device, why), .model = gpt_open(&trained->config),
                      .train = gpt_dataset_lengths(&layout, (int32_t[]){1}, (int32_t[]){1}, 1),
                      .batch = {.largest = gpt_largest_batch}, .import = GPT_IMPORT};
    Training *training = train_open_inference(&spec);
    double begin = seconds_now();
    Generated speech = generate(o, spec.model, device, &trained->config, text, voice);
    double seconds = seconds_now() - begin;
    static const char *const ends[] = {[GENERATION_STOP] = "the model ended the speech",
                                       [GENERATION_LIMIT] = "--max-codes was reached before the model ended it",
                                       [GENERATION_CONTEXT] = "the model's positions were used up before it ended"};
    printf("[Speak] %lld text tokens, %lld codes in %.2f s (%.0f codes/s, speech takes 50/s): %s\n",
           (long long)text->n - 2, (long long)speech.n, seconds, (double)speech.n / seconds, ends[speech.end]);
    train_close(training);
    trainer_close(&spec);
    device_close(device);
    return speech;
}

int gpt_speak(int argc, char **argv) {
    static SpeakOptions o;
    SpeechCoder coder;
    Error error;
    parse(&o, argc, argv);
    trainer_begin(&o.train, NULL);
    GptTrained trained = gpt_trained_read(&o.trained);
    Mel *mel = mel_open();
    OWNED char *codebook = read_codebook(&o, &trained, &coder);
    TokenIds text = text_ids(&o, &trained);
    OWNED float *voice = voice_vectors(&o, &trained, &coder, mel);
    Generated speech = speak(&o, &trained, &text, voice);
    if (!speech.n) die("the model ended the speech before its first code: give another --seed or --temperature");
    OWNED float *frames = gpt_frames_of_codes(&coder.codebook, codebook, speech.ids, speech.n, &error);
    if (!frames) die("%s", error.text);
    gpt_sound_write(mel, frames, speech.n, "codes", (GriffinLim){(int)o.iterations, (uint64_t)o.train.seed}, o.output);
    generated_free(&speech, 1);
    token_ids_free(&text);
    speech_coder_close(&coder);
    mel_close(mel);
    gpt_trained_close(&trained);
    options_free(&o.set, argc, argv);
    return 0;
}
