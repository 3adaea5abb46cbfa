#include "commands/gpt/features_verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "commands/gpt/agreement.h"

/* Codes that lead by less are decided by rounding: f32 itself changes them. */
static const float SURE_MARGIN = 1e-4f;
static const double VERIFIED_SECONDS = 60;

typedef enum { OF_FEATURES, OF_CONDITION, OF_EMOTION, COSINES } CosineKind;

/* Agreement of two computations of the same clips. */
typedef struct {
    int64_t codes, equal, sure, sure_equal;
    double *cosines[COSINES]; /* of each row; of each clip */
    int64_t n[COSINES];
    bool same_bits;
    const char *first_path; /* of a clip whose bits differ */
} Verdict;

/* Copies the first minute of the kept clips, which own nothing. Returns their number. */
static int64_t choose(const Prepare *p, Clip *to, double *seconds) {
    int64_t n = 0;
    *seconds = 0;
    for (int64_t i = 0; i < p->n && *seconds < VERIFIED_SECONDS; i++) {
        if (p->clips[i].reject != CLIP_KEPT) continue;
        to[n++] = p->clips[i];
        *seconds += (double)p->clips[i].samples / MEL_RATE;
    }
    return n;
}

static void add_cosine(Verdict *v, CosineKind kind, const float *x, const float *y, int64_t n) {
    v->cosines[kind][v->n[kind]++] = agreement_cosine(x, y, n);
}

static void add_clip(Verdict *v, const Clip *clip, const TriedClip *a, const TriedClip *exact) {
    const VoiceConfig *voice = &FEATURES_INDEXTTS2.voice;
    int64_t hidden = FEATURES_INDEXTTS2.w2v.hidden, rows = exact->length.rows,
            latents = (int64_t)voice->condition_latents.latents * voice->condition_latents.width,
            floats = latents + voice->emotion_width;
    for (int64_t t = 0; t < rows; t++) {
        bool equal = a->codes[t] == exact->codes[t], sure = exact->margins[t] >= SURE_MARGIN;
        v->equal += equal;
        v->sure += sure;
        v->sure_equal += equal && sure;
    }
    v->codes += rows;
    for (int64_t t = 0; t < exact->length.valid; t++)
        add_cosine(v, OF_FEATURES, a->h + t * hidden, exact->h + t * hidden, hidden);
    add_cosine(v, OF_CONDITION, a->vectors, exact->vectors, latents);
    add_cosine(v, OF_EMOTION, a->vectors + latents, exact->vectors + latents, voice->emotion_width);
    bool same = !memcmp(a->codes, exact->codes, (size_t)rows * sizeof *a->codes) &&
                !memcmp(a->h, exact->h, (size_t)(rows * hidden) * sizeof *a->h) &&
                !memcmp(a->vectors, exact->vectors, (size_t)floats * sizeof *a->vectors);
    if (!same && v->same_bits) v->first_path = clip->audio_path;
    v->same_bits &= same;
}

static double per_cent(int64_t part, int64_t all) { return all ? 100 * (double)part / (double)all : 100; }

/* Dies with the options that make the part exact that is not. */
static _Noreturn void die_inexact(const FeatureRun *run, const Prepare *p, const char *changed, DType type) {
    bool half = type != DTYPE_F32, tf32 = run->device->tf32;
    if (!half && !tf32) die("--verify: %s, though both are exact: this is an error of %s", changed, run->device->name);
    die("--verify: %s than rounding may: with these weights and recordings %s is not exact enough; run again with %s%s",
        changed, half ? dtype_name(type) : "TF32",
        !half  ? "--no-tf32"
        : tf32 ? "--no-half, and --no-tf32 if that is not enough"
               : "--no-half",
        p->codes_reused ? ", and with another --output: this one has features of an earlier run" : "");
}

static void judge(const FeatureRun *run, const Prepare *p, Verdict *v) {
    static const char *const names[COSINES] = {"features", "condition", "emotion"};
    Agreement of[COSINES];
    printf("[Verify] %.2f %% of %lld codes are equal, %.2f %% of the %lld that lead by %g or more\n",
           per_cent(v->equal, v->codes), (long long)v->codes, per_cent(v->sure_equal, v->sure), (long long)v->sure,
           (double)SURE_MARGIN);
    printf("[Verify] cosines, median and smallest:");
    for (int k = 0; k < COSINES; k++) {
        of[k] = agreement_of(v->cosines[k], v->n[k]);
        printf("%s %s %.6f, %.6f", k ? ";" : "", names[k], of[k].median, of[k].least);
    }
    printf("\n");
    if (agreement_is_bad(v->codes - v->equal, v->codes)) die_inexact(run, p, "more codes change", run->type);
    if (of[OF_CONDITION].median < LEAST_COSINE || of[OF_EMOTION].median < LEAST_COSINE)
        die_inexact(run, p, "conditions or emotions change more",
                    run->voice_type != DTYPE_F32 ? run->voice_type : run->type);
}

/* Computes the clips in both ways, one after the other, so that the memory of one is enough. */
static void compute(const FeatureRun *run, Prepare *some, TriedClip *fast, TriedClip *exact) {
    FeatureRun trial = *run;
    feature_run_try(&trial, some, false, fast);
    bool tf32 = trial.device->tf32;
    trial.device->tf32 = false;
    trial.type = trial.voice_type = DTYPE_F32;
    feature_run_try(&trial, some, true, exact);
    trial.device->tf32 = tf32;
}

void features_verify(const FeatureRun *run, const Prepare *p) {
    Prepare some = *p;
    OWNED Clip *clips = xmalloc((size_t)p->n * sizeof *clips);
    double seconds;
    int64_t rows = 0;
    char duration[32];
    some.clips = clips;
    some.n = choose(p, clips, &seconds);
    OWNED TriedClip *fast = xcalloc((size_t)some.n, sizeof *fast), *exact = xcalloc((size_t)some.n, sizeof *exact);
    bool is_exact = run->type == DTYPE_F32 && run->voice_type == DTYPE_F32 && !run->device->tf32;
    printf("[Verify] %lld clip%s, %s: %s, packed, beside exact f32, each alone\n", (long long)some.n,
           format_plural(some.n), format_duration(seconds, duration),
           is_exact                 ? "exact f32"
           : run->type != DTYPE_F32 ? dtype_name(run->type)
           : run->device->tf32      ? "TF32"
                                    : "f32");
    compute(run, &some, fast, exact);
    for (int64_t i = 0; i < some.n; i++) rows += exact[i].length.rows;
    Verdict v = {.same_bits = true};
    OWNED double *cosines = xmalloc((size_t)(rows + 2 * some.n) * sizeof *cosines);
    v.cosines[OF_FEATURES] = cosines;
    v.cosines[OF_CONDITION] = cosines + rows;
    v.cosines[OF_EMOTION] = cosines + rows + some.n;
    for (int64_t i = 0; i < some.n; i++) add_clip(&v, &clips[i], &fast[i], &exact[i]);
    for (int64_t i = 0; i < some.n; i++) {
        tried_clip_free(&fast[i]);
        tried_clip_free(&exact[i]);
    }
    if (!is_exact)
        judge(run, p, &v);
    else if (v.same_bits)
        printf("[Verify] the run computes in exact f32 itself: there is nothing to compare it with%s\n",
               some.n > 1 ? " but clips alone, and they have the same bits" : "");
    else
        die("--verify: %s has other features alone than packed with other clips, though both are exact: this is an "
            "error of %s",
            v.first_path, run->device->description);
}
