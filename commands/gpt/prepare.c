#include "commands/gpt/commands.h"

#include "base/options.h"
#include "base/threads.h"
#include "commands/gpt/features.h"
#include "commands/gpt/features_compare.h"
#include "commands/gpt/features_estimate.h"
#include "commands/gpt/features_verify.h"
#include "commands/gpt/prepare_report.h"
#include "commands/max_unknown.h"
#include "data/gpt/manifest_write.h"
#include "data/gpt/prepare.h"

typedef struct {
    PrepareOptions prepare;
    const char *language, *input_format;
    int64_t pairs_per_target;
    const char *indextts2, *compare;
    FeatureDevice on;
    FeatureEstimateOptions estimate;
    bool verify;
} Options;

#define FIELD(name) offsetof(Options, name)
#define UNLESS      "; unless given, less for fewer than three hours of speech"

// clang-format off
static const OptionRow table[] = {
    {.name = "input", .heading = "Data", .usual = true, .letter = 'i', .type = OPTION_TEXT, .offset = FIELD(prepare.input.path), .metavar = "PATH",
     .help = "the recordings, required: .tsv (id, speaker, audio file, text), .csv, .jsonl, .json, Common Voice, LJSpeech, lists between bars, a folder of Kaldi, or of sounds and texts"},
    {.name = "input-format", .type = OPTION_CHOICE, .offset = FIELD(input_format), .default_value = "auto",
     .metavar = "auto|list|table|common-voice|ljspeech|jsonl|folder|bars|fleurs|kaldi",
     .help = "format of the input; auto: by its name and its first line"},
    {.name = "id-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_ID]), .metavar = "NAME",
     .help = "JSON field or column, by its name or number (1 is the first), with the id; default: id if there is one, else the names of the audio files; none: leave it alone, also below"},
    {.name = "speaker-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_SPEAKER]),
     .metavar = "NAME",
     .help = "JSON field or column with the speaker; default: speaker, speaker_name or the like (Common Voice: client_id), else one speaker"},
    {.name = "audio-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_AUDIO]), .metavar = "NAME",
     .help = "JSON field or column with the audio file; default: audio, audio_file, file_name or the like (Common Voice: path)"},
    {.name = "text-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_TEXT]), .metavar = "NAME",
     .help = "JSON field or column with the text; default: text, transcription or the like (Common Voice: sentence)"},
    {.name = "language-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_LANGUAGE]),
     .metavar = "NAME",
     .help = "JSON field or column with the language; default: language or lang (Common Voice: locale), else --language"},
    {.name = "start-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_START]), .metavar = "NAME",
     .help = "JSON field or column with the second of its file at which a recording begins; default: start, offset or the like, else the whole file"},
    {.name = "end-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_END]), .metavar = "NAME",
     .help = "JSON field or column with the second at which it ends; default: end, else by its duration, else the end of the file"},
    {.name = "duration-field", .type = OPTION_TEXT, .offset = FIELD(prepare.input.names[FIELD_DURATION]),
     .metavar = "NAME",
     .help = "JSON field or column with the seconds that it lasts; default: duration"},
    {.name = "output", .heading = "Files", .usual = true, .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(prepare.output), .metavar = "DIR",
     .help = "directory for all output, required"},
    {.name = "language", .heading = "Data", .type = OPTION_TEXT, .offset = FIELD(language), .default_value = "am", .metavar = "CODE",
     .help = "language of recordings whose line names none"},
    {.name = "tokenizer", .heading = "Tokenizer and codebook", .type = OPTION_TEXT, .offset = FIELD(prepare.tokenizer), .metavar = "PATH",
     .help = "use this SentencePiece model instead of training one"},
    MAX_UNKNOWN_ROW(FIELD(prepare.max_unknown)),
    {.name = "vocabulary", .usual = true, .type = OPTION_INT, .offset = FIELD(prepare.sizes.vocabulary), .default_value = "12000", .min = 4,
     .max = 1e6, .metavar = "N",
     .help = "pieces of the tokenizer to train, at most: fewer if the texts have no more pairs" UNLESS},
    {.name = "codebook", .type = OPTION_TEXT, .offset = FIELD(prepare.codebook), .metavar = "PATH",
     .help = "use this codebook.npy (codebook.json lies beside it) instead of training one"},
    {.name = "codebook-size", .usual = true, .type = OPTION_INT, .offset = FIELD(prepare.sizes.codebook_size),
     .default_value = OPTION_DEFAULT(PREPARE_FULL_ENTRIES), .min = 2, .max = 1e6, .metavar = "N",
     .help = "entries of the codebook to train" UNLESS},
    {.name = "indextts2", .usual = true, .type = OPTION_TEXT, .offset = FIELD(indextts2), .metavar = "DIR",
     .help = "compute codes and vectors with IndexTTS2's own networks, from its folder of published weights, instead of a codebook: IndexTTS2 can speak with what is trained on them"},
    {.name = "kmeans-iterations", .type = OPTION_INT, .offset = FIELD(prepare.kmeans_iterations), .default_value = "25",
     .min = 1, .max = 1e5, .metavar = "N",
     .help = "maximum number of iterations; training ends earlier if one gains less than 0.01 %"},
    {.name = "frames-per-entry", .type = OPTION_INT, .offset = FIELD(prepare.frames_per_entry),
     .default_value = OPTION_DEFAULT(PREPARE_FRAMES_PER_ENTRY), .min = 1, .max = 1e5, .metavar = "N",
     .help = "frames per entry to train the codebook on; a random choice if there are more"},
    {.name = "d-model", .type = OPTION_INT, .offset = FIELD(prepare.sizes.d_model),
     .default_value = OPTION_DEFAULT(PREPARE_FULL_WIDTH), .min = 8, .max = 65536, .metavar = "N",
     .help = "width of conditioning and emotion vectors, and of the model" UNLESS},
    {.name = "val-ratio", .heading = "Manifests", .usual = true, .type = OPTION_FLOAT, .offset = FIELD(prepare.sizes.val_ratio), .default_value = "0.01", .max = 0.9,
     .metavar = "X",
     .help = "share of the clips held out for validation, by the hash of their id; unless given, more if there are fewer than "
             "three hours"},
    {.name = "min-duration", .heading = "Clips to use", .type = OPTION_FLOAT, .offset = FIELD(prepare.min_duration), .default_value = "1",
     .max = 36.32, .metavar = "SECONDS",
     .help = "reject shorter clips"},
    {.name = "max-duration", .type = OPTION_FLOAT, .offset = FIELD(prepare.max_duration), .default_value = "30",
     .min = 0.02, .max = 36.32, .metavar = "SECONDS",
     .help = "reject longer clips; the model takes at most 1816 codes, 36.32 s"},
    {.name = "min-words", .type = OPTION_INT, .offset = FIELD(prepare.min_words), .default_value = "1", .max = 1e6,
     .metavar = "N",
     .help = "reject texts with fewer words"},
    {.name = "min-chars-per-second", .type = OPTION_FLOAT, .offset = FIELD(prepare.min_chars), .default_value = "3",
     .max = 1e6, .metavar = "X",
     .help = "reject slower clips: their text is too short for the sound"},
    {.name = "max-chars-per-second", .type = OPTION_FLOAT, .offset = FIELD(prepare.max_chars), .default_value = "25",
     .max = 1e6, .metavar = "X",
     .help = "reject faster clips: their text is too long for the sound"},
    {.name = "max-silence", .type = OPTION_FLOAT, .offset = FIELD(prepare.max_silence), .default_value = "1", .max = 1,
     .metavar = "X",
     .help = "reject clips with a larger share of silence (40 dB below their loudest 20 ms)"},
    {.name = "max-clipping", .type = OPTION_FLOAT, .offset = FIELD(prepare.max_clipping), .default_value = "0.01",
     .max = 1, .metavar = "X",
     .help = "audio is bad if a larger share of its samples exceeds 0.99 of full scale"},
    {.name = "skip-bad", .usual = true, .type = OPTION_FLAG, .offset = FIELD(prepare.skip_bad), .default_value = "false",
     .help = "reject recordings with bad audio, and lines of a list that cannot be used, instead of stopping"},
    {.name = "pairs-per-target", .heading = "Manifests", .type = OPTION_INT, .offset = FIELD(pairs_per_target), .default_value = "2",
     .min = 1, .max = 1000, .metavar = "N",
     .help = "prompts per clip in the manifests of pairs"},
    {.name = "seed", .heading = "Tokenizer and codebook", .type = OPTION_INT, .offset = FIELD(prepare.seed), .default_value = "2025", .max = 9e15,
     .metavar = "N",
     .help = "seed of the codebook, the map to vectors and the pairs"},
    {.name = "device", .heading = "Device", .type = OPTION_CHOICE, .offset = FIELD(on.device), .default_value = "auto", .metavar = "auto|cpu|cuda",
     .help = "where the networks of --indextts2 are computed"},
    {.name = "no-tf32", .type = OPTION_FLAG, .offset = FIELD(on.no_tf32), .default_value = "false",
     .help = "compute their f32 products exactly, without TF32"},
    {.name = "no-half", .type = OPTION_FLAG, .offset = FIELD(on.no_half), .default_value = "false",
     .help = "compute none of their products in 16 bits"},
    {.name = "verify", .heading = "Checks", .type = OPTION_FLAG, .offset = FIELD(verify), .default_value = "false",
     .help = "with --indextts2: compute the first minute also clip by clip in exact f32, print how far codes and vectors agree, and stop if TF32 or 16 bits spoil them"},
    {.name = "compare", .type = OPTION_TEXT, .offset = FIELD(compare), .metavar = "DIR",
     .help = "with --indextts2: compare the features with those that IndexTTS2's own preprocessing has written there; a table per clip goes to comparison.tsv"},
    {.name = "num-workers", .heading = "Device", .usual = true, .type = OPTION_INT, .offset = FIELD(prepare.num_workers), .default_value = "0", .max = 1024,
     .metavar = "N",
     .help = "threads; 0: all cores; does not change the output"},
    {.name = "estimate", .heading = "Estimates", .usual = true, .type = OPTION_FLAG, .offset = FIELD(estimate.estimate), .default_value = "false",
     .help = "prepare nothing: print the time, the memory and the cost of --indextts2 on a card, for --input or --hours; needs no weights and no GPU"},
    {.name = "hours", .type = OPTION_FLOAT, .offset = FIELD(estimate.hours), .default_value = "0", .max = 1e5, .metavar = "X",
     .help = "for --estimate without --input: hours of speech, in recordings of 10 s"},
    {.name = "gpu", .type = OPTION_TEXT, .offset = FIELD(estimate.gpu), .default_value = "all", .metavar = "NAME|all|here",
     .help = "for --estimate: t4, l4, a100-40, rtx4090, ...; here: what --device is on this machine"},
    {.name = "price", .type = OPTION_TEXT, .offset = FIELD(estimate.price), .metavar = "X|CARD=X,...",
     .help = "price of an hour, 0.80 (USD) or '0.80 EUR', or of cards, l4=0.80,h200=3.50: --indextts2 shows what it costs, also with --estimate"},
    {.name = "prices", .type = OPTION_TEXT, .offset = FIELD(estimate.prices_file), .metavar = "FILE",
     .help = "instead of --price: a table (CSV) with the columns card, price, and perhaps currency, provider, date"},
    {.name = "json", .type = OPTION_FLAG, .offset = FIELD(estimate.json), .default_value = "false",
     .help = "for --estimate: print the estimate as JSON, and everything else to stderr"},
    {.name = "calibration", .type = OPTION_TEXT, .offset = FIELD(estimate.calibration), .metavar = "FILE",
     .help = "file of the rates that train_gpt --calibrate has measured; none: use none; default: train.c/rates.json in ~/.cache"},
};
// clang-format on

/* In seconds: what data/indextts2/front.h needs, and the rounding of resamplers. */
static const double SHORTEST = 0.11;

/* Refuses options of networks where there are none. */
static void refuse_device(const OptionSet *set) {
    static const char *const of_networks[] = {"device", "no-tf32", "no-half", "verify", "compare", "price", "prices"};
    for (int i = 0; i < 7; i++)
        if (options_given(set, of_networks[i]))
            die_usage("--%s is of the networks of --indextts2, which is not given%s", of_networks[i],
                      i < 3 ? ": a codebook is always computed on the CPU" : "");
}

/* Has codes and vectors come from IndexTTS2's networks, which decide their number and their width. */
static void take_features(Options *o, const OptionSet *set, FeatureRun *features, GptBase *base) {
    static const char *const of_codebook[] = {"codebook", "codebook-size", "kmeans-iterations", "frames-per-entry",
                                              "d-model"};
    for (int i = 0; i < 5; i++)
        if (options_given(set, of_codebook[i]))
            die_usage("--%s is of a codebook, and with --indextts2 the codes are those of IndexTTS2", of_codebook[i]);
    if (o->prepare.min_duration < SHORTEST)
        die_usage("--min-duration %g: the networks of --indextts2 take no clip of less than %g s",
                  o->prepare.min_duration, SHORTEST);
    feature_run_find(features, o->indextts2);
    o->prepare.foreign_codes = FEATURES_INDEXTTS2.codec.codebook;
    o->prepare.sizes.d_model = FEATURES_INDEXTTS2.voice.emotion_width;
    o->prepare.fit.codebook_size = o->prepare.fit.d_model = false;
    o->prepare.gpt_checkpoint = features->weights.paths[INDEX_GPT];
    *base = gpt_base_read(o->prepare.gpt_checkpoint, "--indextts2", true);
}

int gpt_prepare(int argc, char **argv) {
    static const OptionsHeader header = {"train_gpt prepare", "--input recordings.tsv --output prepared [options]",
                                         "--input recordings.tsv --output prepared",
                                         "Makes text ids, audio codes, vectors and manifests from recordings."};
    Options o = {0};
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    o.prepare.input.format = recordings_format(o.input_format);
    o.prepare.input.skip_bad = o.prepare.skip_bad;
    o.prepare.fit = (PrepareFit){.vocabulary = !o.prepare.tokenizer && !options_given(&set, "vocabulary"),
                                 .codebook_size = !o.prepare.codebook && !options_given(&set, "codebook-size"),
                                 .d_model = !options_given(&set, "d-model"),
                                 .val_ratio = !options_given(&set, "val-ratio")};
    feature_estimate_check(&o.estimate, &set);
    feature_prices(&o.estimate, &o.on.prices);
    if (o.estimate.estimate) {
        feature_estimate(&o.estimate, &o.prepare, &o.on, (int)o.prepare.num_workers);
        options_free(&set, argc, argv);
        return 0;
    }
    o.prepare.num_workers = threads_take((int)o.prepare.num_workers, "--num-workers");
    FeatureRun features = {0};
    GptBase base = {.ours = false};
    Reference reference = {NULL};
    if (o.indextts2)
        take_features(&o, &set, &features, &base);
    else
        refuse_device(&set);
    if (o.compare) features_compare_open(&reference, o.compare, o.prepare.output);

    Prepare p;
    prepare_open(&p, &o.prepare);
    prepare_list(&p);
    prepare_report_list(&p);
    prepare_outputs(&p);
    prepare_frames(&p);
    prepare_report_filters(&p);
    prepare_report_sizes(&p);
    prepare_tokenizer(&p);
    prepare_texts(&p);
    prepare_check_spelling(&p, o.language);
    if (o.indextts2) {
        feature_run_plan(&features, &p, &o.on, o.verify);
        if (o.verify) features_verify(&features, &p);
        feature_run_compute(&features, &p);
    } else {
        prepare_codebook(&p);
        prepare_codes(&p);
    }

    ManifestOptions options = {o.prepare.output, o.language, p.sizes.val_ratio, o.pairs_per_target,
                               (uint64_t)o.prepare.seed};
    ManifestReport manifests;
    MUST(manifests_write(p.clips, p.n, &options, &manifests, &error));
    prepare_report_write(&p, &manifests, &base);
    if (o.compare) features_compare(&reference, o.compare, &p);
    prepare_close(&p);
    feature_run_close(&features);
    gpt_base_close(&base);
    reference_close(&reference);
    options_free(&set, argc, argv);
    return 0;
}
