#include "commands/gpt/prepare_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/json.h"
#include "base/program.h"
#include "commands/gpt/origin.h"
#include "data/gpt/prepare_outputs.h"
#include "data/gpt/recordings_folder.h"

/* Sums over the kept clips. */
typedef struct {
    int64_t clips, rejects[CLIP_REASONS], speakers, tokens, unknown, codes, entries_used;
    double seconds, entropy, squared_error; /* entropy of the codes in nats; error per frame and band */
} Totals;

static int64_t count_speakers(const Prepare *p) {
    json_auto_t *speakers = json_object();
    for (int64_t i = 0; i < p->n; i++)
        if (p->clips[i].reject == CLIP_KEPT) json_object_set_new(speakers, p->clips[i].recording->speaker, json_true());
    return (int64_t)json_object_size(speakers);
}

static Totals total_of(const Prepare *p) {
    Totals t = {.speakers = count_speakers(p)};
    int64_t entries = p->entries, *counts = xcalloc((size_t)entries, sizeof *counts);
    for (int64_t i = 0; i < p->n; i++) {
        const Clip *clip = &p->clips[i];
        t.rejects[clip->reject]++;
        if (clip->reject != CLIP_KEPT) continue;
        t.clips++;
        t.seconds += (double)clip->samples / MEL_RATE;
        t.tokens += clip->n_ids;
        t.codes += clip->n_codes;
        t.squared_error += clip->squared_error;
        for (int j = 0; j < clip->n_ids; j++) t.unknown += clip->ids[j] == sentencepiece_unknown_id(p->tokenizer);
        for (int64_t j = 0; j < clip->n_codes; j++) counts[clip->codes[j]]++;
    }
    for (int64_t k = 0; k < entries; k++) t.entries_used += counts[k] > 0;
    t.entropy = codebook_entropy(counts, entries);
    t.squared_error /= (double)t.codes * MEL_BANDS; /* 0 without a codebook */
    free(counts);
    return t;
}

/* ---- the training that fits ---- */

/* Returns the number of heads for a width: 64 numbers per head, as in the full model, or the next number of heads that
 * divides the width. */
static int64_t heads_for(int64_t width) {
    int64_t heads = width / 64 > 0 ? width / 64 : 1;
    while (width % heads) heads--;
    return heads;
}

/* Options of the training that differ from their defaults. */
typedef struct {
    struct {
        const char *name;
        double value;
    } items[GPT_NEXT_OPTIONS];
    int n;
} NextOptions;

static void add_option(NextOptions *next, GptNextOption option, double value) {
    next->items[next->n].name = gpt_next_options[option];
    next->items[next->n++].value = value;
}

/* Adds the options of a network that is narrower than the full one, and is therefore trained from scratch: fewer
 * layers, and a higher learning rate, in proportion to the width. */
static void add_small_model(NextOptions *next, int64_t width) {
    enum { FULL_LAYERS = 24, LEAST_LAYERS = 4 };
    if (width == PREPARE_FULL_WIDTH) return;
    int64_t layers = width * FULL_LAYERS / PREPARE_FULL_WIDTH;
    char rate[32];
    snprintf(rate, sizeof rate, "%.2g", fmin(1e-3, 0.128 / (double)width));
    add_option(next, GPT_NEXT_WIDTH, (double)width);
    add_option(next, GPT_NEXT_HEADS, (double)heads_for(width));
    add_option(next, GPT_NEXT_LAYERS,
               (double)(layers < LEAST_LAYERS  ? LEAST_LAYERS
                        : layers > FULL_LAYERS ? FULL_LAYERS
                                               : layers));
    add_option(next, GPT_NEXT_LEARNING_RATE, strtod(rate, NULL));
}

/* Adds the options of a run that is too short for the defaults: a warm-up of a tenth of its steps, a validation each
 * epoch. */
static void add_short_run(NextOptions *next, int64_t samples) {
    enum { SAMPLES_PER_STEP = 8 * 4, EPOCHS = 10, WARMUP = 1000, LEAST_STEPS = 300, MOST_EPOCHS = 50 };
    int64_t epoch = samples > SAMPLES_PER_STEP ? (samples + SAMPLES_PER_STEP - 1) / SAMPLES_PER_STEP : 1,
            epochs = (LEAST_STEPS + epoch - 1) / epoch;
    epochs = epochs < EPOCHS ? EPOCHS : epochs > MOST_EPOCHS ? MOST_EPOCHS : epochs;
    int64_t warmup = epoch * epochs / 10;
    if (epochs != EPOCHS) add_option(next, GPT_NEXT_EPOCHS, (double)epochs);
    if (warmup >= WARMUP) return;
    add_option(next, GPT_NEXT_WARMUP, (double)(warmup > 0 ? warmup : 1));
    add_option(next, GPT_NEXT_VAL_INTERVAL, 0);
    add_option(next, GPT_NEXT_LOG_INTERVAL, (double)(warmup / 3 > 0 ? warmup / 3 : 1));
}

static NextOptions next_options(const Prepare *p, const ManifestReport *m) {
    NextOptions next = {.n = 0};
    int64_t entries = p->entries;
    if (entries != PREPARE_FULL_ENTRIES) add_option(&next, GPT_NEXT_CODES, (double)entries + 2);
    if (!p->options->foreign_codes) add_small_model(&next, p->sizes.d_model);
    add_short_run(&next, m->train_pairs ? m->train_pairs : m->train);
    return next;
}

/* Returns the options by which train_gpt trains on a small corpus if it is told nothing else. */
static json_t *options_of_training(const Prepare *p, const ManifestReport *m) {
    NextOptions next = next_options(p, m);
    json_t *options = json_object();
    for (int i = 0; i < next.n; i++) {
        double value = next.items[i].value;
        bool whole = value == floor(value);
        json_object_set_new(options, next.items[i].name, whole ? json_integer((json_int_t)value) : json_real(value));
    }
    return options;
}

/* ---- what was prepared ---- */

/* Returns a log-mel difference in decibels: 20 / ln 10 per unit. */
static double decibels(double squared_error) { return 20 / log(10) * sqrt(squared_error); }

static void write_stats(const Prepare *p, const Totals *t, const ManifestReport *m) {
    json_t *rejected = json_object();
    for (int reason = CLIP_KEPT + 1; reason < CLIP_REASONS; reason++)
        if (t->rejects[reason])
            json_object_set_new(rejected, clip_reject_reason((ClipReject)reason),
                                json_integer((json_int_t)t->rejects[reason]));
    if (p->recordings.bad) json_object_set_new(rejected, "on bad lines", json_integer((json_int_t)p->recordings.bad));
    json_auto_t *stats = json_build(
        "stats.json",
        "{s:I, s:I, s:I, s:s, s:s?, s:s?, s:I, s:f, s:I, s:I, s:I, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I}",
        "total", (json_int_t)t->clips, "train", (json_int_t)m->train, "val", (json_int_t)m->val, "tokenizer",
        prepare_output_name(OUTPUT_TOKENIZER), "gpt_checkpoint", p->options->gpt_checkpoint, "codebook",
        p->options->foreign_codes ? NULL : prepare_output_name(OUTPUT_CODEBOOK), "recordings", (json_int_t)p->n,
        "hours", t->seconds / 3600, "speakers", (json_int_t)t->speakers, "train_pairs", (json_int_t)m->train_pairs,
        "val_pairs", (json_int_t)m->val_pairs, "left_out", rejected, "vocabulary",
        sentencepiece_vocabulary(p->tokenizer), "text_tokens", (json_int_t)t->tokens, "unknown_tokens",
        (json_int_t)t->unknown, "codes", (json_int_t)t->codes, "entries", (json_int_t)p->entries, "entries_used",
        (json_int_t)t->entries_used, "code_entropy", t->entropy, "error_db", decibels(t->squared_error), "d_model",
        (json_int_t)p->sizes.d_model);
    if (p->small) json_object_set_new(stats, GPT_PREPARED_OPTIONS, options_of_training(p, m));
    OWNED char *path = prepare_output_path(p->options->output, OUTPUT_STATS);
    MUST(json_write_file(path, stats, JSON_INDENT(1) | JSON_REAL_PRECISION(9), &error));
}

void prepare_report_list(const Prepare *p) {
    const Recordings *r = &p->recordings;
    printf("[List] %s: %s, %lld recording%s, %lld without audio, %lld without text", r->list ? r->list : r->directory,
           recordings_description(r), (long long)p->n, format_plural(p->n), (long long)p->without_audio,
           (long long)p->without_text);
    if (r->lone_texts)
        printf(", %lld text%s without audio (the first: %s)", (long long)r->lone_texts, format_plural(r->lone_texts),
               r->first_lone_text);
    if (r->other_files)
        printf(", %lld other file%s (the first: %s)", (long long)r->other_files, format_plural(r->other_files),
               r->first_other_file);
    if (r->bad)
        printf(", %lld bad line%s left out (the first: %s)", (long long)r->bad, format_plural(r->bad), r->first_bad);
    if (r->speakers_changed)
        printf("; speakers written otherwise than before (not composed, no-break or outer blanks): %lld",
               (long long)r->speakers_changed);
    if (r->read_as) printf("; its fields are %s", r->read_as);
    if (r->moved)
        printf("; %lld audio file%s found as %s", (long long)r->moved, r->moved == 1 ? " was" : "s were", r->moved_to);
    if (!r->has_ids) printf("; ids are the names of the audio files");
    if (!r->has_speakers || r->format == RECORDINGS_FOLDER)
        printf("; %s", r->has_speakers ? "speakers are the names of the folders" : "one speaker");
    printf("\n");
    OWNED char *words = r->subtitles ? recordings_subtitles(r) : NULL;
    if (words) warn("%s: %s", r->directory, words);
}

static void print_rejected(const int64_t *rejects, ClipReject reason) {
    if (rejects[reason]) printf("[Filter] %lld rejected: %s\n", (long long)rejects[reason], clip_reject_reason(reason));
}

void prepare_report_filters(const Prepare *p) {
    printf("[Audio] %lld clips read, %lld reused\n", (long long)p->read_now, (long long)p->read_reused);
    int64_t rejects[CLIP_REASONS] = {0};
    for (int64_t i = 0; i < p->n; i++) rejects[p->clips[i].reject]++;
    for (int reason = CLIP_KEPT + 1; reason < CLIP_REASONS; reason++) print_rejected(rejects, (ClipReject)reason);
}

void prepare_report_sizes(const Prepare *p) {
    const PrepareFit *fit = &p->options->fit;
    const PrepareSizes *s = &p->sizes;
    char duration[32], full[32];
    double seconds = 0;
    if (!p->small) return;
    for (int64_t i = 0; i < p->n; i++)
        if (p->clips[i].reject == CLIP_KEPT) seconds += (double)p->clips[i].samples / MEL_RATE;
    printf("[Sizes] %s of speech is little (the full model needs %s), and not given, so chosen to fit it:",
           format_duration(seconds, duration), format_duration(prepare_full_seconds(), full));
    if (fit->vocabulary) printf(" --vocabulary %lld", (long long)s->vocabulary);
    if (fit->codebook_size) printf(" --codebook-size %lld", (long long)s->codebook_size);
    if (fit->d_model) printf(" --d-model %lld", (long long)s->d_model);
    if (fit->val_ratio) printf(" --val-ratio %g", s->val_ratio);
    printf("\n");
}

static void print_codebook(const Prepare *p, const Totals *t) {
    if (p->options->foreign_codes) {
        printf("[Codes] of IndexTTS2's semantic codec: %lld of %lld are used\n", (long long)t->entries_used,
               (long long)p->entries);
        return;
    }
    printf(
        "[Codebook] %lld entries%s, %lld frames and %d iterations; %lld entries used, error %.2f dB (rms per band)\n",
        (long long)p->entries,
        p->options->codebook ? " (given)"
        : p->codebook_reused ? " (reused)"
                             : "",
        (long long)p->coder.frames, p->coder.iterations, (long long)t->entries_used, decibels(t->squared_error));
}

static void print_totals(const Prepare *p, const Totals *t, const ManifestReport *m) {
    char duration[32];
    print_rejected(t->rejects, CLIP_LONG_TEXT);
    printf("[Tokenizer] %d pieces%s; %lld tokens, %.3f %% unknown\n", sentencepiece_vocabulary(p->tokenizer),
           p->options->tokenizer ? " (given)"
           : p->tokenizer_reused ? " (reused)"
                                 : "",
           (long long)t->tokens, 100 * (double)t->unknown / (double)t->tokens);
    if (!p->options->tokenizer && sentencepiece_vocabulary(p->tokenizer) < p->sizes.vocabulary)
        printf("[Tokenizer] fewer pieces than --vocabulary %lld: the texts have no more pairs\n",
               (long long)p->sizes.vocabulary);
    print_codebook(p, t);
    printf("[Codes] %lld clips coded, %lld reused", (long long)p->coded_now, (long long)p->codes_reused);
    if (p->recoded)
        printf("; %lld of them were coded before, but their audio, %s has changed, or a "
               "file is missing or damaged",
               (long long)p->recoded,
               p->options->foreign_codes ? "or the weights of IndexTTS2" : "text, tokenizer, codebook or --d-model");
    if (p->texts_written) printf("; of %lld of them only the text ids were written", (long long)p->texts_written);
    printf("\n[Codes] %lld codes, unigram entropy %.3f nats\n", (long long)t->codes, t->entropy);
    printf("[Data] %lld of %lld clips, %s, %lld speaker%s: %lld for training, %lld for validation\n",
           (long long)t->clips, (long long)p->n, format_duration(t->seconds, duration), (long long)t->speakers,
           format_plural(t->speakers), (long long)m->train, (long long)m->val);
    printf("[Data] %lld and %lld pairs; %lld and %lld clips have none, because their speaker has no other clip\n",
           (long long)m->train_pairs, (long long)m->val_pairs, (long long)m->lone_train, (long long)m->lone_val);
    if (m->own_prompts) printf("[Data] of a side where no speaker has two clips, each clip is its own prompt\n");
    if (!m->val) printf("[Data] no clip is held out for validation: raise --val-ratio\n");
    if (!m->train) printf("[Data] no clip is left for training: lower --val-ratio\n");
}

static void print_manifest(const char *option, const char *directory, PrepareOutput output) {
    OWNED char *path = prepare_output_path(directory, output), *word = shell_path(path);
    printf(" %s %s", option, word);
}

/* Prints the options of a training that goes on from a base checkpoint: it takes the sizes from there, of which a file
 * may not tell the heads. */
static void print_base(const GptBase *base) {
    OWNED char *path = shell_path(base->size.checkpoint);
    const json_t *width = json_object_get(base->size.options, "model-dim");
    printf(" --base-checkpoint %s", path);
    if (!json_object_get(base->size.options, "heads"))
        printf(" --heads %lld", (long long)heads_for(json_integer_value(width)));
}

/* Prints the command that trains: on pairs if there are any, with the options whose defaults do not fit. */
static void print_next(const Prepare *p, const ManifestReport *m, const GptBase *base) {
    bool pairs = m->train_pairs > 0 && (m->val_pairs > 0 || !m->val);
    const char *output = p->options->output;
    printf("Next: %s", program_as_called());
    print_manifest("-m", output, pairs ? OUTPUT_TRAIN_PAIRS : OUTPUT_TRAIN_MANIFEST);
    if (m->val) print_manifest("--val-manifest", output, pairs ? OUTPUT_VAL_PAIRS : OUTPUT_VAL_MANIFEST);
    if (json_object_get(base->size.options, "layers")) print_base(base); /* else it has the encoders alone */
    NextOptions next = next_options(p, m);
    for (int i = 0; i < next.n; i++) printf(" --%s %.10g", next.items[i].name, next.items[i].value);
    printf(" -b 8 -g 4 --output-dir run\n");
}

void prepare_report_write(const Prepare *p, const ManifestReport *manifests, const GptBase *base) {
    Totals totals = total_of(p);
    write_stats(p, &totals, manifests);
    print_totals(p, &totals, manifests);
    if (manifests->train) print_next(p, manifests, base);
}
