/* prepare_tts: from recordings and their texts to everything that train_gpt reads.
 *
 *   ./prepare_tts --input recordings.tsv --output prepared --num-workers 8
 *
 * main is the whole way: the list, the frames of every clip, the tokenizer, the codebook, the codes and vectors of
 * every clip, the manifests, the summary. The steps themselves are in data/tts_prepare.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/program.h"
#include "base/threads.h"
#include "data/manifest_write.h"
#include "data/tts_prepare.h"
#include "train/log.h"
#include "train/options.h"

typedef struct {
    PrepareOptions prepare;
    const char *config, *language;
    double val_ratio;
    int64_t pairs_per_target;
} Options;

static int option_rows(Options *all, Option *rows) {
    PrepareOptions *o = &all->prepare;
#define ROW(name, type, value, preset, least, most, argument, help)                                                    \
    { name, 0, NULL, type, value, preset, least, most, argument, help, false, false }
    const Option table[] = {
        {"input", 'i', NULL, OPTION_TEXT, &o->input, NULL, 0, 0, "PATH",
         "the recordings: .tsv (id, speaker, audio file, text) or .jsonl (id, speaker, audio, text; language)", true,
         false},
        {"output", 'o', NULL, OPTION_TEXT, &o->output, NULL, 0, 0, "DIR", "where everything is written", true, false},
        ROW("config", OPTION_TEXT, &all->config, NULL, 0, 0, "PATH",
            "YAML file with any of these options; the command line wins"),
        ROW("language", OPTION_TEXT, &all->language, "am", 0, 0, "CODE", "of recordings whose line names none"),
        ROW("tokenizer", OPTION_TEXT, &o->tokenizer, NULL, 0, 0, "PATH",
            "use this SentencePiece model instead of training one"),
        ROW("vocabulary", OPTION_INT, &o->vocabulary, "12000", 4, 1e6, "N",
            "pieces of the tokenizer that is trained; fewer if the texts do not fill it"),
        ROW("codebook", OPTION_TEXT, &o->codebook, NULL, 0, 0, "PATH",
            "use this codebook.npy (codebook.json lies beside it) instead of training one"),
        ROW("codebook-size", OPTION_INT, &o->codebook_size, "8192", 2, 1e6, "N",
            "entries of the codebook that is trained"),
        ROW("kmeans-iterations", OPTION_INT, &o->kmeans_iterations, "25", 1, 1e5, "N",
            "at most; it ends sooner when one gains less than 0.01 %"),
        ROW("frames-per-entry", OPTION_INT, &o->frames_per_entry, "64", 1, 1e5, "N",
            "frames that the codebook is trained on, for each entry: a seeded choice if there are more"),
        ROW("d-model", OPTION_INT, &o->d_model, "1280", 8, 65536, "N",
            "width of conditioning and emotion vectors: the model's"),
        ROW("val-ratio", OPTION_FLOAT, &all->val_ratio, "0.01", 0, 0.9, "X",
            "share of the clips held out, by the hash of their id"),
        ROW("min-duration", OPTION_FLOAT, &o->min_duration, "1", 0, 36.32, "SECONDS", "leave out shorter clips"),
        ROW("max-duration", OPTION_FLOAT, &o->max_duration, "30", 0.02, 36.32, "SECONDS",
            "leave out longer clips; a model takes at most 1816 codes, 36.32 s"),
        ROW("min-words", OPTION_INT, &o->min_words, "1", 0, 1e6, "N", "leave out texts of fewer words"),
        ROW("min-chars-per-second", OPTION_FLOAT, &o->min_chars, "3", 0, 1e6, "X",
            "leave out slower clips: their text is too short for the sound"),
        ROW("max-chars-per-second", OPTION_FLOAT, &o->max_chars, "25", 0, 1e6, "X",
            "leave out faster clips: their text is too long for the sound"),
        ROW("max-silence", OPTION_FLOAT, &o->max_silence, "1", 0, 1, "X",
            "leave out clips with a larger share of silence (40 dB below their loudest 20 ms)"),
        ROW("max-clipping", OPTION_FLOAT, &o->max_clipping, "0.01", 0, 1, "X",
            "audio is bad if a larger share of its samples is beyond 0.99 of full scale"),
        ROW("skip-bad", OPTION_FLAG, &o->skip_bad, "false", 0, 0, NULL,
            "leave out recordings with bad audio instead of stopping"),
        ROW("pairs-per-target", OPTION_INT, &all->pairs_per_target, "2", 1, 1000, "N",
            "prompts for each clip in the pair manifests"),
        ROW("seed", OPTION_INT, &o->seed, "2025", 0, 9e15, "N", "of the codebook, the map to vectors and the pairs"),
        ROW("num-workers", OPTION_INT, &o->num_workers, "0", 0, 1024, "N",
            "threads; 0: all cores. What is written does not depend on it")};
#undef ROW
    memcpy(rows, table, sizeof table);
    return sizeof table / sizeof *table;
}

/* What the clips that are left amount to. */
typedef struct {
    int64_t clips, fates[CLIP_FATES], speakers, tokens, unknown, codes, entries_used;
    double seconds, entropy, squared_error; /* entropy of the codes' frequencies in nats; error a frame and band */
} Totals;

static int64_t count_speakers(const Prepare *p) {
    json_t *speakers = json_object();
    for (int64_t i = 0; i < p->n; i++)
        if (p->clips[i].fate == CLIP_KEPT) json_object_set_new(speakers, p->clips[i].recording->speaker, json_true());
    int64_t n = (int64_t)json_object_size(speakers);
    json_decref(speakers);
    return n;
}

static Totals total_of(const Prepare *p) {
    Totals t = {.speakers = count_speakers(p)};
    int64_t entries = p->coder.codebook.entries, *counts = xcalloc((size_t)entries, sizeof *counts);
    for (int64_t i = 0; i < p->n; i++) {
        const Clip *clip = &p->clips[i];
        t.fates[clip->fate]++;
        if (clip->fate != CLIP_KEPT) continue;
        t.clips++;
        t.seconds += (double)clip->samples / MEL_RATE;
        t.tokens += clip->n_ids;
        t.codes += clip->n_codes;
        t.squared_error += clip->squared_error;
        for (int j = 0; j < clip->n_ids; j++) t.unknown += clip->ids[j] == tokenizer_unknown_id(p->tokenizer);
        for (int64_t j = 0; j < clip->n_codes; j++) counts[clip->codes[j]]++;
    }
    for (int64_t k = 0; k < entries; k++) {
        double share = (double)counts[k] / (double)t.codes;
        t.entries_used += counts[k] > 0;
        if (counts[k]) t.entropy -= share * log(share);
    }
    t.squared_error /= (double)t.codes * MEL_BANDS;
    free(counts);
    return t;
}

/* A log-mel difference in decibels: 20 / ln 10 a unit. */
static double decibels(double squared_error) { return 20 / log(10) * sqrt(squared_error); }

static void write_stats(const Prepare *p, const Totals *t, const ManifestReport *m) {
    json_t *left_out = json_object();
    for (int fate = CLIP_KEPT + 1; fate < CLIP_FATES; fate++)
        if (t->fates[fate])
            json_object_set_new(left_out, clip_fate_name((ClipFate)fate), json_integer((json_int_t)t->fates[fate]));
    json_t *stats = json_build(
        "stats.json",
        "{s:I, s:I, s:I, s:s, s:n, s:s, s:I, s:f, s:I, s:I, s:I, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I}",
        "total", (json_int_t)t->clips, "train", (json_int_t)m->train, "val", (json_int_t)m->val, "tokenizer",
        "bpe.model", "gpt_checkpoint", "codebook", "codebook.npy", "recordings", (json_int_t)p->n, "hours",
        t->seconds / 3600, "speakers", (json_int_t)t->speakers, "train_pairs", (json_int_t)m->train_pairs, "val_pairs",
        (json_int_t)m->val_pairs, "left_out", left_out, "vocabulary", tokenizer_vocabulary(p->tokenizer), "text_tokens",
        (json_int_t)t->tokens, "unknown_tokens", (json_int_t)t->unknown, "codes", (json_int_t)t->codes, "entries",
        (json_int_t)p->coder.codebook.entries, "entries_used", (json_int_t)t->entries_used, "code_entropy", t->entropy,
        "error_db", decibels(t->squared_error), "d_model", (json_int_t)p->options->d_model);
    char *path = path_join(p->options->output, "stats.json");
    char *text = json_text(path, stats, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    Error error;
    if (!file_write_atomic(path, text, strlen(text), &error)) die("%s", error.text);
    free(path);
    free(text);
    json_decref(stats);
}

static void print_list(const Prepare *p) {
    printf("[Audio] %lld clips read, %lld known from before\n", (long long)p->read_now, (long long)p->read_before);
    int64_t fates[CLIP_FATES] = {0};
    for (int64_t i = 0; i < p->n; i++) fates[p->clips[i].fate]++;
    for (int fate = CLIP_KEPT + 1; fate < CLIP_FATES; fate++)
        if (fates[fate]) printf("[Filter] %lld left out: %s\n", (long long)fates[fate], clip_fate_name((ClipFate)fate));
}

static void print_totals(const Options *o, const Prepare *p, const Totals *t, const ManifestReport *m) {
    char duration[32];
    if (t->fates[CLIP_LONG_TEXT])
        printf("[Filter] %lld left out: %s\n", (long long)t->fates[CLIP_LONG_TEXT], clip_fate_name(CLIP_LONG_TEXT));
    printf("[Tokenizer] %d pieces%s; %lld tokens, %.3f %% unknown\n", tokenizer_vocabulary(p->tokenizer),
           o->prepare.tokenizer  ? " (given)"
           : p->tokenizer_before ? " (from before)"
                                 : "",
           (long long)t->tokens, 100 * (double)t->unknown / (double)t->tokens);
    printf("[Codebook] %lld entries%s, %lld frames and %d iterations; %lld entries used, error %.2f dB (rms, a band)\n",
           (long long)p->coder.codebook.entries,
           o->prepare.codebook  ? " (given)"
           : p->codebook_before ? " (from before)"
                                : "",
           (long long)p->coder.frames, p->coder.iterations, (long long)t->entries_used, decibels(t->squared_error));
    printf("[Codes] %lld clips coded, %lld done before", (long long)p->coded_now, (long long)p->coded_before);
    if (p->coded_again)
        printf("; %lld of them again, as their audio, text, tokenizer, codebook or --d-model have changed, or files "
               "are gone or damaged",
               (long long)p->coded_again);
    printf("\n[Codes] %lld codes, unigram entropy %.3f nats\n", (long long)t->codes, t->entropy);
    printf("[Data] %lld of %lld clips, %s, %lld speakers: %lld to train, %lld to validate\n", (long long)t->clips,
           (long long)p->n, format_duration(t->seconds, duration), (long long)t->speakers, (long long)m->train,
           (long long)m->val);
    printf("[Data] %lld and %lld pairs; %lld and %lld clips have none, being their speaker's only one\n",
           (long long)m->train_pairs, (long long)m->val_pairs, (long long)m->lone_train, (long long)m->lone_val);
    if (!m->val) printf("[Data] nothing to validate with: raise --val-ratio\n");
}

/* Heads for a width: of 64 numbers each, as in the full model, or as many as divide it. */
static int64_t heads_of(int64_t width) {
    int64_t heads = width / 64 > 0 ? width / 64 : 1;
    while (width % heads) heads--;
    return heads;
}

static void print_manifest(const char *option, const char *output, const char *part, const char *kind) {
    char *path = xformat("%s/%s_%s.jsonl", output, part, kind), *word = shell_path(path);
    printf(" %s %s", option, word);
    free(path);
    free(word);
}

/* The next command; pairs if there are any, and whatever differs from train_gpt's defaults. */
static void print_next(const Prepare *p, const ManifestReport *m) {
    bool pairs = m->train_pairs > 0 && (m->val_pairs > 0 || !m->val);
    const char *output = p->options->output, *kind = pairs ? "pairs" : "manifest";
    printf("Next: ./train_gpt");
    print_manifest("-m", output, "train", kind);
    if (m->val) print_manifest("--val-manifest", output, "val", kind);
    if (p->coder.codebook.entries != 8192) printf(" --number-mel-codes %lld", (long long)p->coder.codebook.entries + 2);
    if (p->options->d_model != 1280)
        printf(" --model-dim %lld --heads %lld", (long long)p->options->d_model,
               (long long)heads_of(p->options->d_model));
    printf(" -b 8 -g 4 --output-dir run\n");
}

int main(int argc, char **argv) {
    static const OptionsHeader header = {"prepare_tts",
                                         "./prepare_tts --input recordings.tsv --output prepared [options]",
                                         "Makes text ids, audio codes, vectors and manifests from recordings."};
    Options o = {0};
    Option rows[OPTIONS_MOST];
    program_start();
    options_parse(&header, rows, option_rows(&o, rows), argc, argv);
    o.prepare.num_workers = threads_take((int)o.prepare.num_workers, "--num-workers");

    Prepare p;
    prepare_open(&p, &o.prepare);
    prepare_list(&p);
    printf("[List] %s: %lld recordings\n", o.prepare.input, (long long)p.n);
    prepare_frames(&p);
    print_list(&p);
    prepare_tokenizer(&p);
    prepare_texts(&p);
    prepare_codebook(&p);
    prepare_codes(&p);

    ManifestOptions options = {o.prepare.output, o.language, o.val_ratio, o.pairs_per_target, (uint64_t)o.prepare.seed};
    ManifestReport report;
    Error error;
    Totals totals = total_of(&p);
    if (!manifests_write(p.clips, p.n, &options, &report, &error)) die("%s", error.text);
    write_stats(&p, &totals, &report);
    print_totals(&o, &p, &totals, &report);
    print_next(&p, &report);
    prepare_close(&p);
    return 0;
}
