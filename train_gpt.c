/* train_gpt: trains the Amharic TTS GPT (IndexTTS2's UnifiedVoice).
 *
 *   ./train_gpt -m manifest.jsonl -b 8 -g 4 --amp
 *
 * The whole training, top to bottom: options, data, model, loop, report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program.h"
#include "base/stop.h"
#include "data/manifest.h"
#include "data/tokenizer.h"
#include "data/tts_dataset.h"
#include "model/gpt.h"
#include "train/estimate.h"
#include "train/log.h"
#include "train/loop.h"

typedef struct {
    TrainOptions train;
    const char *tokenizer, *freeze;
    double text_loss_weight, mel_loss_weight, dropout;
    int64_t model_dim, layers, heads, max_text_tokens, max_mel_tokens, number_text_tokens, number_mel_codes;
    int64_t frozen_text_rows;
    const char *lengths;
    int unknown_id; /* of the tokenizer */
    bool repair_codes;
} GptOptions;

enum { CONDITIONING_LATENTS = 32, CODES_PER_SECOND = 50, START_TEXT = 0, STOP_TEXT = 1, SPECIAL_MEL_CODES = 2 };

static int gpt_option_rows(GptOptions *o, Option *rows) {
    int n = train_option_rows(&o->train, rows);
    const Option own[] = {
        {"tokenizer", 0, NULL, OPTION_TEXT, &o->tokenizer, NULL, 0, 0, "PATH",
         "SentencePiece model, for the size of the vocabulary; without one: bpe.model beside the manifest, else "
         "number-text-tokens",
         false, false},
        {"text-loss-weight", 0, NULL, OPTION_FLOAT, &o->text_loss_weight, "0.2", 0, 1e6, "X", "weight of the text loss",
         false, false},
        {"mel-loss-weight", 0, NULL, OPTION_FLOAT, &o->mel_loss_weight, "0.8", 0, 1e6, "X",
         "weight of the loss on the audio codes", false, false},
        {"repair-codes", 0, NULL, OPTION_FLAG, &o->repair_codes, "false", 0, 0, NULL,
         "cut codes that go on behind the end of the audio (padding stored as data)", false, false},
        {"freeze", 0, NULL, OPTION_CHOICE, &o->freeze, "both", 0, 0, "both|embedding|head|none",
         "which text tables keep the base vocabulary's rows when it is extended", false, false},
        {"frozen-text-rows", 0, NULL, OPTION_INT, &o->frozen_text_rows, "-1", -1, 1e9, "N",
         "rows that --freeze keeps; -1: the base checkpoint's, if the vocabulary is larger", false, false},
        {"lengths", 0, NULL, OPTION_TEXT, &o->lengths, NULL, 0, 0, "MEAN,SD,MAX",
         "for --estimate and --dry-run without a manifest: of the audio codes of an epoch that is made up", false,
         false},
        {"model-dim", 0, "gpt", OPTION_INT, &o->model_dim, "1280", 8, 65536, "N", "width of the model", false, false},
        {"layers", 0, "gpt", OPTION_INT, &o->layers, "24", 1, 1000, "N", "transformer blocks", false, false},
        {"heads", 0, "gpt", OPTION_INT, &o->heads, "20", 1, 1000, "N", "attention heads", false, false},
        {"max-text-tokens", 0, "gpt", OPTION_INT, &o->max_text_tokens, "600", 1, 1e6, "N", "longest text", false,
         false},
        {"max-mel-tokens", 0, "gpt", OPTION_INT, &o->max_mel_tokens, "1815", 1, 1e6, "N",
         "longest row of audio codes, less one", false, false},
        {"number-text-tokens", 0, "gpt", OPTION_INT, &o->number_text_tokens, "12000", 2, 1e9, "N",
         "pieces of the tokenizer, when there is none to ask", false, false},
        {"number-mel-codes", 0, "gpt", OPTION_INT, &o->number_mel_codes, "8194", 3, 1e9, "N",
         "audio codes, start and stop included", false, false},
        {"dropout", 0, "gpt", OPTION_FLOAT, &o->dropout, "0.1", 0, 0.99, "X",
         "on embeddings, attention probabilities, attention and MLP outputs", false, false},
    };
    memcpy(rows + n, own, sizeof own);
    return n + (int)(sizeof own / sizeof *own);
}

/* V and the unknown piece: from --tokenizer, from bpe.model beside the first manifest, or as configured. */
static void resolve_vocabulary(GptOptions *o) {
    o->unknown_id = 2; /* of every tokenizer that prepare_tts trains */
    char *beside = NULL;
    if (!o->tokenizer && o->train.manifest.count) {
        char *directory = path_directory(o->train.manifest.text[0]);
        beside = path_join(directory, "bpe.model");
        free(directory);
        if (!access(beside, R_OK)) o->tokenizer = beside;
        file_keep(beside, "beside the manifest");
    }
    if (o->tokenizer) {
        Error error;
        Tokenizer *tokenizer = tokenizer_open(o->tokenizer, &error);
        if (!tokenizer) die("--tokenizer %s: %s", o->tokenizer, error.text);
        o->number_text_tokens = tokenizer_vocabulary(tokenizer);
        o->unknown_id = tokenizer_unknown_id(tokenizer);
        if (o->unknown_id == START_TEXT || o->unknown_id == STOP_TEXT)
            warn(
                "%s: the id of unknown pieces, %d, is also that of the %s token: a text with an unknown piece looks as "
                "if it %s there; train the tokenizer with unk_id 2",
                o->tokenizer, o->unknown_id, o->unknown_id == START_TEXT ? "start" : "stop",
                o->unknown_id == START_TEXT ? "began" : "ended");
        tokenizer_close(tokenizer);
    }
    printf("[Text] %lld pieces (%s)\n", (long long)o->number_text_tokens,
           o->tokenizer ? o->tokenizer : "number-text-tokens");
    if (o->tokenizer != beside) free(beside);
}

static TtsLayout layout_of(const GptOptions *o) {
    return (TtsLayout){.d_model = (int)o->model_dim,
                       .n_conditioning = CONDITIONING_LATENTS,
                       .max_text = (int)o->max_text_tokens,
                       .max_codes = (int)o->max_mel_tokens + 1,
                       .text_vocabulary = (int)o->number_text_tokens,
                       .audio_vocabulary = (int)o->number_mel_codes - SPECIAL_MEL_CODES,
                       .start_text = START_TEXT,
                       .stop_text = STOP_TEXT,
                       .start_mel = (int)o->number_mel_codes - 2,
                       .stop_mel = (int)o->number_mel_codes - 1};
}

static Model *model_of(const GptOptions *o) {
    TtsGptConfig config = {.d_model = (int)o->model_dim,
                           .n_layers = (int)o->layers,
                           .n_heads = (int)o->heads,
                           .text_vocabulary = (int)o->number_text_tokens,
                           .mel_codes = (int)o->number_mel_codes,
                           .max_text_tokens = (int)o->max_text_tokens,
                           .max_mel_tokens = (int)o->max_mel_tokens,
                           .dropout = (float)o->dropout,
                           .text_weight = (float)o->text_loss_weight,
                           .mel_weight = (float)o->mel_loss_weight};
    return tts_gpt_open(&config);
}

static void print_report(const char *what, const TtsDatasetReport *r, bool repair, bool lengths_only) {
    char duration[32], read[64];
    double unknown = r->text_tokens ? 100.0 * (double)r->unknown_tokens / (double)r->text_tokens : 0.0;
    if (lengths_only)
        snprintf(read, sizeof read, "lengths as the manifest has them, no file is read");
    else
        snprintf(read, sizeof read, "%.2f %% unknown", unknown);
    printf("[Data] %s: %lld samples (%lld paired, %lld single) of %lld lines, %s of audio an epoch, %lld text tokens "
           "(%s), %lld codes; text %lld..%lld..%lld, codes %lld..%lld..%lld\n",
           what, (long long)r->samples, (long long)r->paired, (long long)r->single, (long long)r->lines,
           format_duration(r->seconds_of_audio, duration), (long long)r->text_tokens, read, (long long)r->codes,
           (long long)r->text_length_quantiles[0], (long long)r->text_length_quantiles[2],
           (long long)r->text_length_quantiles[4], (long long)r->code_length_quantiles[0],
           (long long)r->code_length_quantiles[2], (long long)r->code_length_quantiles[4]);
    if (r->padded_codes || r->equal_code_runs)
        printf("[Data] %s: %lld lines have more or fewer codes than their duration says, %lld runs of equal code_len: "
               "the mark "
               "of padding stored as data; %lld repaired%s\n",
               what, (long long)r->padded_codes, (long long)r->equal_code_runs, (long long)r->repaired,
               repair ? "" : " (--repair-codes cuts them)");
    if (r->no_duration)
        printf("[Data] %s: %lld lines have no duration: their padding cannot be checked\n", what,
               (long long)r->no_duration);
}

static Dataset *open_data(const GptOptions *o, const OptionList *manifests, Split split, const char *what) {
    TtsDatasetOptions options = {.layout = layout_of(o),
                                 .split = split,
                                 .val_ratio = o->train.val_ratio,
                                 .n_threads = (int)o->train.num_workers,
                                 .unknown_id = o->unknown_id,
                                 .lengths_only = o->train.estimate,
                                 .repair_codes = o->repair_codes};
    TtsDatasetReport report;
    Dataset *dataset = tts_dataset_open(manifests->text, manifests->count, &options, &report);
    print_report(what, &report, o->repair_codes, options.lengths_only);
    return dataset;
}

/* The entropy of the codes' frequencies in nats: the loss of a model that has learned nothing else. */
static double floor_of(const GptOptions *o, const Dataset *dataset) {
    if (o->train.estimate || !o->train.manifest.count) return 0; /* there are none, or they are not read */
    int64_t classes = o->number_mel_codes;
    int64_t *counts = xcalloc((size_t)classes, sizeof *counts), total = 0;
    double entropy = 0;
    tts_code_histogram(dataset, counts);
    for (int64_t i = 0; i < classes; i++) total += counts[i];
    for (int64_t i = 0; i < classes; i++)
        if (counts[i]) entropy -= (double)counts[i] / (double)total * log((double)counts[i] / (double)total);
    free(counts);
    return entropy;
}

/* Rows of the base vocabulary: known from the base checkpoint at a fresh start, from the checkpoint when resuming. */
static void freeze_base_rows(const GptOptions *o, Training *training) {
    static const char *const names[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
    ParamTable *table = &training->model->params;
    int64_t base = training->import.base_rows - 1; /* the last row is no token */
    if (o->frozen_text_rows >= 0)
        training->state.frozen_rows = o->frozen_text_rows;
    else if (!training->resumed_from)
        training->state.frozen_rows = base > 0 && base < o->number_text_tokens ? base : 0;
    for (int i = 0; i < 3; i++) {
        bool chosen = !strcmp(o->freeze, "both") || !strcmp(o->freeze, i ? "head" : "embedding");
        table->items[params_find(table, names[i])].frozen_rows = chosen ? training->state.frozen_rows : 0;
    }
    if (training->state.frozen_rows && strcmp(o->freeze, "none"))
        printf("[Freeze] %s: rows 0..%lld of the text tables stay as they are\n", o->freeze,
               (long long)training->state.frozen_rows - 1);
}

/* A measure of the samples that are trained on looks better than it is. */
static void warn_of_shared(const OptionList *trained, const OptionList *validated) {
    for (int i = 0; i < trained->count; i++)
        for (int j = 0; j < validated->count; j++) {
            char *a, *b, *language[2];
            manifest_spec_split(trained->text[i], &a, &language[0]);
            manifest_spec_split(validated->text[j], &b, &language[1]);
            if (file_is_same(a, b))
                warn("--val-manifest %s is the same file as --manifest %s: validation is on samples that are trained "
                     "on; give another file, or leave it out, so that --val-ratio holds samples out",
                     b, a);
            char *owned[] = {a, b, language[0], language[1]};
            for (int k = 0; k < 4; k++) free(owned[k]);
        }
}

/* The data to train on and to validate on (NULL: none), with a line on each. */
static void open_both(const GptOptions *o, Dataset **train, Dataset **validation) {
    bool own = o->train.val_manifest.count > 0, split = !own && o->train.val_ratio > 0;
    if (own) warn_of_shared(&o->train.manifest, &o->train.val_manifest);
    *train = open_data(o, &o->train.manifest, split ? SPLIT_TRAIN : SPLIT_ALL, "train");
    *validation = own     ? open_data(o, &o->train.val_manifest, SPLIT_ALL, "val")
                  : split ? open_data(o, &o->train.manifest, SPLIT_VALIDATION, "val")
                          : NULL;
    if (!(*train)->n_samples) die("no sample to train on: all of them fall to the validation; lower --val-ratio");
    if (!*validation || (*validation)->n_samples) return;
    printf("[Data] no sample falls to the validation: none will be done (raise --val-ratio, or give --val-manifest)\n");
    (*validation)->close(*validation);
    *validation = NULL;
}

typedef struct {
    double mean, deviation, most; /* codes */
} Lengths;

static Lengths read_lengths(const GptOptions *o) {
    Lengths l;
    char rest;
    int longest = layout_of(o).max_codes;
    if (sscanf(o->lengths, "%lf,%lf,%lf%c", &l.mean, &l.deviation, &l.most, &rest) != 3 || !(l.mean >= 1) ||
        !(l.deviation >= 0) || !isfinite(l.deviation) || !isfinite(l.most))
        die_usage("--lengths %s: expected MEAN,SD,MAX, three numbers of audio codes (%d a second) as 250,120,800",
                  o->lengths, CODES_PER_SECOND);
    if (l.mean > l.most) die_usage("--lengths %s: the mean is more than the longest", o->lengths);
    if (l.most > longest)
        die_usage("--lengths %s: the model's longest row of codes is %d; raise --max-mel-tokens, or give less",
                  o->lengths, longest);
    return l;
}

/* The z of which `share` of a normal distribution is below, by bisection. */
static double normal_quantile(double share) {
    double low = -9, high = 9;
    while (high - low > 1e-9) {
        double z = (low + high) / 2;
        *(erfc(-z / sqrt(2)) / 2 < share ? &low : &high) = z;
    }
    return low;
}

static void print_lengths(const char *what, const int32_t *lengths, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += lengths[i];
        squares += (double)lengths[i] * lengths[i];
    }
    double mean = sum / (double)n;
    printf("%s %.1f +- %.1f, %d..%d..%d", what, mean, sqrt(fmax(squares / (double)n - mean * mean, 0)), lengths[0],
           lengths[n / 2], lengths[n - 1]);
}

/* Without --lengths as many samples as a step's largest micro-batch, all of 100 text tokens and 5 s of audio: those of
 * the reference's own figures. With them an epoch at the quantiles of a normal distribution, held within 1 and the
 * longest, and text as it was counted in 20 hours of read Amharic: 2.3 pieces a second. */
static Dataset *typical_data(const GptOptions *o) {
    enum { TEXT = 100, CODES = 5 * CODES_PER_SECOND, EPOCH = 1024 };
    double text_of_code = o->lengths ? 2.3 / CODES_PER_SECOND : (double)TEXT / CODES;
    TtsLayout layout = layout_of(o);
    int64_t n = o->train.batch_size ? o->train.batch_size : 1 + o->train.token_budget / (TEXT + CODES);
    Lengths l = o->lengths ? read_lengths(o) : (Lengths){CODES, 0, CODES < layout.max_codes ? CODES : layout.max_codes};
    if (o->lengths) n *= (EPOCH + n - 1) / n; /* whole micro-batches */
    int32_t *text = xcalloc((size_t)n, sizeof *text), *codes = xcalloc((size_t)n, sizeof *codes);
    for (int64_t i = 0; i < n; i++) {
        double z = l.deviation > 0 ? normal_quantile(((double)i + 0.5) / (double)n) : 0;
        codes[i] = (int32_t)lrint(fmin(fmax(l.mean + z * l.deviation, 1), floor(l.most)));
        text[i] = (int32_t)fmin(fmax(round(codes[i] * text_of_code), 1), layout.max_text);
    }
    if (o->lengths) {
        printf("[Data] made up: %lld samples;", (long long)n);
        print_lengths(" codes", codes, n);
        print_lengths(", text tokens", text, n);
        printf("\n");
    }
    Dataset *data = tts_dataset_lengths(&layout, text, codes, n);
    free(text);
    free(codes);
    return data;
}

int main(int argc, char **argv) {
    static const OptionsHeader header = {"train_gpt", "./train_gpt -m manifest.jsonl -b 8 -g 4 [options]",
                                         "Trains the Amharic TTS GPT on text ids and audio codes."};
    static const char *const text_tables[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
    static GptOptions o; /* static: texts of a YAML file live as long as the process */
    Option rows[TRAIN_MAX_OPTIONS];
    int n_rows = gpt_option_rows(&o, rows);
    cpu_limit_spinning(argv);
    program_start();
    options_parse(&header, rows, n_rows, argc, argv);
    train_options_resolve(&o.train, rows, n_rows);
    resolve_vocabulary(&o);
    if (o.frozen_text_rows > o.number_text_tokens + 1)
        die_usage("--frozen-text-rows %lld: the text tables have %lld", (long long)o.frozen_text_rows,
                  (long long)o.number_text_tokens + 1);
    if (o.lengths && o.train.manifest.count)
        die_usage("--lengths %s: the manifest has lengths of its own; leave one of them out", o.lengths);
    const char *why;
    Device *device = train_device_open(&o.train, &why);
    Dataset *train, *validation = NULL;
    if (o.train.manifest.count)
        open_both(&o, &train, &validation);
    else
        train = typical_data(&o); /* for --dry-run and --estimate */
    static const char *const fixed_options[] = {"repair-codes", NULL};
    Training training = {.options = &o.train,
                         .rows = rows,
                         .n_rows = n_rows,
                         .fixed_options = fixed_options,
                         .model = model_of(&o),
                         .device = device,
                         .device_why = why,
                         .train = train,
                         .validation = validation,
                         .floor_name = "unigram entropy of the codes",
                         .typical = !o.train.manifest.count,
                         .floor_value = floor_of(&o, validation ? validation : train),
                         .floor_metric = 1,
                         .monitor = -1,
                         .largest_batch = tts_largest_batch,
                         .resizable = text_tables,
                         .n_resizable = 3};
    int status = 0;
    if (o.train.estimate) {
        train_estimate(&training);
    } else if (o.train.dry_run) {
        train_dry_run(&training);
    } else {
        train_prepare(&training);
        freeze_base_rows(&o, &training);
        status = train_run(&training);
        if (training.ended) stop_forget();
        train_close(&training);
    }
    training.model->close(training.model);
    device_close(training.device);
    train->close(train);
    if (validation) validation->close(validation);
    return status;
}
