#include "commands/gpt/features_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/format.h"
#include "base/program.h"
#include "base/text_file.h"
#include "commands/gpt/agreement.h"
#include "data/gpt/prepare_outputs.h"

/* A code depends on the features of so many rows to each side: 13 convolutions of 7 taps. */
enum { REACH = 39, WORST = 5 };

void features_compare_open(Reference *reference, const char *folder, const char *output) {
    if (file_is_same(folder, output)) die("--compare %s: is the --output itself", folder);
    MUST_OR(reference_open(folder, reference, &error), "--compare %s", error.text);
}

/* ---- a clip ---- */

typedef struct {
    bool there;
    char *problem;                     /* NULL: it was compared */
    int64_t n;                         /* codes there */
    int64_t both, equal;               /* codes that both have */
    int64_t early, early_equal;        /* those that no row behind the clip can have changed */
    bool odd;                          /* its frames, so that its last row is masked */
    double condition, emotion;         /* cosines */
    double condition_off, emotion_off; /* relative differences */
} Comparison;

static double share(int64_t part, int64_t all) { return all ? (double)part / (double)all : 1; }

/* Returns how far a clip is off, in units of what rounding explains. */
static double badness(const Comparison *c) {
    return fmax((1 - share(c->equal, c->both)) / (1 - ALIKE_CODES),
                (1 - fmin(c->condition, c->emotion)) / (1 - ALIKE_COSINE));
}

static void compare_codes(Comparison *c, const Clip *clip, const int32_t *codes) {
    int64_t early = clip->n_codes - REACH, frames = 1 + ((2 * clip->samples + 2) / 3 - 400) / 160;
    c->both = clip->n_codes < c->n ? clip->n_codes : c->n;
    for (int64_t t = 0; t < c->both; t++) {
        bool equal = clip->codes[t] == codes[t];
        c->equal += equal;
        c->early += t < early;
        c->early_equal += equal && t < early;
    }
    c->odd = frames % 2;
}

static bool compare_floats(const Prepare *p, const Clip *clip, PrepareOutput folder, const char *path, int rank,
                           double *cosine, double *off, Error *error) {
    const int64_t d = p->sizes.d_model, dims[2] = {rank == 2 ? CONDITIONING_ROWS : d, d};
    OWNED char *own = xformat("%s/%s/%s.npy", p->options->output, prepare_output_name(folder), clip->recording->id);
    OWNED float *ours = reference_read_floats(own, rank, dims, error);
    OWNED float *theirs = ours ? reference_read_floats(path, rank, dims, error) : NULL;
    if (!theirs) return false;
    int64_t n = rank == 2 ? dims[0] * dims[1] : d;
    *cosine = agreement_cosine(ours, theirs, n);
    *off = agreement_difference(ours, theirs, n);
    return true;
}

static void compare_clip(const Prepare *p, const Clip *clip, const Reference *reference, Comparison *c) {
    const char *id = clip->recording->id, *path = reference_path(reference, id, REFERENCE_CODES);
    Error error;
    if (!path) return;
    c->there = true;
    OWNED int32_t *codes = reference_read_codes(path, &c->n, p->entries, &error);
    if (codes) compare_codes(c, clip, codes);
    if (!codes ||
        !compare_floats(p, clip, OUTPUT_CONDITION, reference_path(reference, id, REFERENCE_CONDITION), 2, &c->condition,
                        &c->condition_off, &error) ||
        !compare_floats(p, clip, OUTPUT_EMO_VEC, reference_path(reference, id, REFERENCE_EMOTION), 1, &c->emotion,
                        &c->emotion_off, &error))
        c->problem = xstrdup(error.text);
}

/* ---- all clips ---- */

typedef struct {
    int64_t clips, only_here, bad, shorter, longer;
    int64_t codes, equal, early, early_equal;
    int64_t parity[2], parity_equal[2]; /* of clips with even, odd frames */
    Agreement shares, condition, emotion, lengths;
    const char *first_bad;
    const Comparison *worst[WORST];
    int n_worst;
} Summary;

static void add_worst(Summary *s, const Comparison *c) {
    int at = s->n_worst;
    while (at > 0 && badness(c) > badness(s->worst[at - 1])) at--;
    if (at == WORST) return;
    if (s->n_worst < WORST) s->n_worst++;
    memmove(&s->worst[at + 1], &s->worst[at], (size_t)(s->n_worst - at - 1) * sizeof(Comparison *));
    s->worst[at] = c;
}

static void add(Summary *s, const Comparison *c, int64_t n_codes, double *values[4]) {
    values[0][s->clips] = share(c->equal, c->both);
    values[1][s->clips] = c->condition;
    values[2][s->clips] = c->emotion;
    values[3][s->clips++] = (double)c->n / (double)n_codes;
    s->shorter += c->n < n_codes;
    s->longer += c->n > n_codes;
    s->codes += c->both;
    s->equal += c->equal;
    s->early += c->early;
    s->early_equal += c->early_equal;
    s->parity[c->odd] += c->both;
    s->parity_equal[c->odd] += c->equal;
    add_worst(s, c);
}

static Summary sum(const Prepare *p, const Comparison *all) {
    Summary s = {.clips = 0};
    double *values[4];
    for (int k = 0; k < 4; k++) values[k] = xmalloc((size_t)(p->n + 1) * sizeof(double));
    for (int64_t i = 0; i < p->n; i++) {
        if (p->clips[i].reject != CLIP_KEPT) continue;
        s.only_here += !all[i].there;
        s.bad += all[i].problem != NULL;
        if (all[i].problem && !s.first_bad) s.first_bad = all[i].problem;
        if (all[i].there && !all[i].problem) add(&s, &all[i], p->clips[i].n_codes, values);
    }
    s.shares = agreement_of(values[0], s.clips);
    s.condition = agreement_of(values[1], s.clips);
    s.emotion = agreement_of(values[2], s.clips);
    s.lengths = agreement_of(values[3], s.clips);
    for (int k = 0; k < 4; k++) free(values[k]);
    return s;
}

/* ---- what is told ---- */

static void write_table(const Prepare *p, const Comparison *all) {
    OWNED char *path = prepare_output_path(p->options->output, OUTPUT_COMPARISON);
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "id\tfound\tcodes\tcodes_there\tequal\tshare\tshare_before_end\tcondition_cosine\t"
                      "condition_difference\temotion_cosine\temotion_difference\n");
    for (int64_t i = 0; i < p->n; i++) {
        const Comparison *c = &all[i];
        const Clip *clip = &p->clips[i];
        if (clip->reject != CLIP_KEPT) continue;
        fprintf(file.out, "%s\t%s\t%lld", clip->recording->id,
                !c->there    ? "here"
                : c->problem ? "unusable"
                             : "both",
                (long long)clip->n_codes);
        if (c->there && !c->problem)
            fprintf(file.out, "\t%lld\t%lld\t%.6f\t%.6f\t%.8f\t%.3e\t%.8f\t%.3e", (long long)c->n, (long long)c->equal,
                    share(c->equal, c->both), share(c->early_equal, c->early), c->condition, c->condition_off,
                    c->emotion, c->emotion_off);
        else
            fprintf(file.out, "\t\t\t\t\t\t\t\t");
        fprintf(file.out, "\n");
    }
    MUST(text_file_end(&file, path, &error));
    printf("[Compare] of each clip: %s\n", path);
}

static void print_summary(const Prepare *p, const Comparison *all, const Summary *s, int64_t only_there) {
    printf("[Compare] %lld clip%s in both, %lld only here, %lld only there", (long long)(s->clips + s->bad),
           format_plural(s->clips + s->bad), (long long)s->only_here, (long long)only_there);
    if (s->shorter || s->longer)
        printf("; of other lengths: %lld with more codes there, %lld with fewer", (long long)s->longer,
               (long long)s->shorter);
    if (!s->clips) {
        printf("\n");
        return;
    }
    printf("\n[Compare] codes: %.2f %% of %lld are equal, %.2f %% of those more than %d before the end; of a clip in "
           "the median %.2f %%, at least %.2f %%\n",
           100 * share(s->equal, s->codes), (long long)s->codes, 100 * share(s->early_equal, s->early), REACH,
           100 * s->shares.median, 100 * s->shares.least);
    printf("[Compare] cosines, median and smallest: condition %.6f, %.6f; emotion %.6f, %.6f\n", s->condition.median,
           s->condition.least, s->emotion.median, s->emotion.least);
    for (int k = 0; k < s->n_worst; k++) {
        const Comparison *c = s->worst[k];
        if (badness(c) < 0.01) break;
        printf("[Compare] %s %s: %.2f %% of %lld codes, condition %.6f, emotion %.6f\n", k ? "then" : "worst",
               p->clips[c - all].recording->id, 100 * share(c->equal, c->both), (long long)c->both, c->condition,
               c->emotion);
    }
}

static bool is_bad(int64_t equal, int64_t n) { return agreement_is_bad(n - equal, n); }

/* Returns whether codes differ only in clips whose last row is masked. */
static bool only_odd_differ(const Summary *s) {
    return s->parity[0] && !is_bad(s->parity_equal[0], s->parity[0]) && is_bad(s->parity_equal[1], s->parity[1]);
}

static bool has_half_as_many(const Summary *s) { return s->lengths.median > 0.4 && s->lengths.median < 0.6; }

/* Returns the likely cause of codes that differ where the end of the clip cannot be the reason. */
static const char *cause_of_codes(const Summary *s) {
    bool vectors = fmin(s->condition.median, s->emotion.median) >= LEAST_COSINE;
    if (has_half_as_many(s)) return "there are half as many codes, 25 a second: IndexTTS 2.5 has made them";
    if (vectors && share(s->early_equal, s->early) >= 0.5)
        return "some codes differ all over, and vectors hardly: the reference was computed in 16 bits, or its sound "
               "was "
               "decoded or resampled otherwise";
    if (vectors) return "vectors agree, and so do the features: another semantic codec was used there";
    return "the features differ: another hidden state of w2v-BERT than the 17th, other statistics, or other sound "
           "under "
           "the same ids";
}

static const char *cause_of_vectors(const Summary *s) {
    bool condition = s->condition.median < LEAST_COSINE, emotion = s->emotion.median < LEAST_COSINE;
    return !emotion     ? "codes agree, conditions do not: another gpt.pth was used there"
           : !condition ? "codes agree, emotions do not: another gpt.pth was used there"
                        : "codes agree, conditions and emotions do not: another gpt.pth was used there, or one whose "
                          "encoders were not loaded, which the reference does not tell";
}

static void print_verdict(const char *folder, const Summary *s) {
    const char *cause = NULL;
    if (only_odd_differ(s))
        cause =
            "only clips with an odd number of frames differ: their last row, half a pair, is masked otherwise there";
    else if (is_bad(s->early_equal, s->early) || has_half_as_many(s))
        cause = cause_of_codes(s);
    else if (fmin(s->condition.median, s->emotion.median) < LEAST_COSINE)
        cause = cause_of_vectors(s);
    else if (s->shorter)
        cause = "clips are shorter there: their sound is another, or was cut";
    if (cause)
        warn("--compare %s: the features are not alike: %s", folder, cause);
    else if (is_bad(s->equal, s->codes) || s->longer)
        printf("[Compare] alike, but for what padded batches of the reference change: the last %d codes of a clip, "
               "codes behind it, and vectors a little; --batch-size 1 avoids it\n",
               REACH);
    else if (fmin(s->condition.median, s->emotion.median) < ALIKE_COSINE)
        printf("[Compare] alike, but for a little of the vectors, which padded batches of the reference change, and "
               "products of bf16 here; --batch-size 1 there and --no-half here avoid it\n");
    else
        printf("[Compare] alike: at least %g %% of the codes are equal, and cosines are %g or more in the median\n",
               100 * ALIKE_CODES, ALIKE_COSINE);
}

/* Returns how many clips of the reference are not kept here. */
static int64_t count_only_there(const Reference *reference, const Prepare *p) {
    int64_t n = (int64_t)json_object_size(reference->paths);
    for (int64_t i = 0; i < p->n; i++)
        n -= p->clips[i].reject == CLIP_KEPT && reference_path(reference, p->clips[i].recording->id, REFERENCE_CODES);
    return n;
}

void features_compare(const Reference *reference, const char *folder, const Prepare *p) {
    OWNED Comparison *all = xcalloc((size_t)p->n, sizeof *all);
    int64_t done = 0;
    double shown = 0;
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers)
    for (int64_t i = 0; i < p->n; i++) {
        if (p->clips[i].reject == CLIP_KEPT) compare_clip(p, &p->clips[i], reference, &all[i]);
#pragma omp critical(progress)
        {
            done++;
            if (seconds_now() - shown > 0.5) {
                terminal_progress("[Compare] %lld of %lld clips", (long long)done, (long long)p->n);
                shown = seconds_now();
            }
        }
    }
    terminal_progress_end();
    Summary s = sum(p, all);
    int64_t only_there = count_only_there(reference, p);
    print_summary(p, all, &s, only_there);
    write_table(p, all);
    if (s.clips) print_verdict(folder, &s);
    if (s.bad)
        die("--compare %s: files of %lld clip%s cannot be used; the first: %s", folder, (long long)s.bad,
            format_plural(s.bad), s.first_bad);
    if (!s.clips)
        die("--compare %s: has no clip of this run: its ids are others; the first here is %s", folder,
            p->clips[0].recording->id);
    for (int64_t i = 0; i < p->n; i++) free(all[i].problem);
}
