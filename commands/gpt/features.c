#include "commands/gpt/features.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/program.h"
#include "commands/gpt/feature_passes.h"
#include "data/gpt/prepare_outputs.h"
#include "data/indextts2/front.h"
#include "kernels/device_open.h"
#include "train/plan/memory.h"

enum { ROWS_A_SECOND = FEATURE_ROWS_A_SECOND };

void feature_run_find(FeatureRun *run, const char *folder) {
    *run = (FeatureRun){.folder = folder};
    MUST(index_weights_find(folder, &run->weights, &error));
    MUST(index_weights_check(&run->weights, &error));
    printf("[Weights]"); /* some may have been found in a cache, or by config.yaml */
    for (int i = 0; i < INDEX_FILES; i++) printf("%s %s", i ? "," : "", run->weights.paths[i]);
    printf("\n");
}

void feature_run_close(FeatureRun *run) {
    if (run->device) { /* the networks may not have been needed */
        if (run->features.device) features_close(&run->features);
        device_close(run->device);
    }
    index_weights_close(&run->weights);
    free(run->todo);
}

/* ---- passes ---- */

/* A pass: clips that are computed together. Its results are those of each clip alone. */
typedef struct {
    Clip **clips; /* [n], in the order of the list */
    int n;
    FrontClip *fronts;
    FeatureClip *items;
    float *vectors; /* the results of all clips but their codes */
} Work;

/* Returns the rows that a clip has, or one more. */
static int64_t rows_at_most(const Clip *clip) { return clip->samples * ROWS_A_SECOND / MEL_RATE + 1; }

static int64_t vector_floats(const Features *features) {
    const VoiceConfig *voice = &features->voice.config;
    return (int64_t)voice->condition_latents.latents * voice->condition_latents.width + voice->emotion_width;
}

/* Reads the sounds of a pass, with several threads. Returns false with the reason. */
static bool read_pass(const FeatureRun *run, IndexFront *front, Work *work, int n_threads, Error *error) {
    bool ok = true;
    work->fronts = xcalloc((size_t)work->n, sizeof *work->fronts);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int i = 0; i < work->n; i++) {
        Error why;
        Audio audio;
        Clip *clip = work->clips[i];
        bool read = clip_sound(clip, 0, &audio, &why);
        bool made = read && index_front_features(front, audio.samples, audio.count, audio.rate, &work->fronts[i], &why);
        if (read) audio_close(&audio);
        if (made) continue;
        if (read) error_before(&why, "%s: ", clip->audio_path);
#pragma omp critical(reading)
        {
            if (ok) *error = why;
            ok = false;
        }
    }
    if (!ok) return false;
    work->items = xcalloc((size_t)work->n, sizeof *work->items);
    work->vectors = xmalloc((size_t)(work->n * vector_floats(&run->features)) * sizeof *work->vectors);
    return true;
}

static void forget_pass(Work *work) {
    for (int i = 0; i < work->n && work->fronts; i++) free(work->fronts[i].x);
    for (int i = 0; i < work->n && work->items; i++) FREE(work->items[i].h, work->items[i].margins);
    FREE(work->fronts, work->items, work->vectors);
    work->fronts = NULL, work->items = NULL, work->vectors = NULL;
}

static void compute_pass(FeatureRun *run, Work *work, bool with_features) {
    const VoiceConfig *voice = &run->features.voice.config;
    int64_t latents = (int64_t)voice->condition_latents.latents * voice->condition_latents.width;
    for (int i = 0; i < work->n; i++) {
        Clip *clip = work->clips[i];
        const FrontClip *front = &work->fronts[i];
        float *vectors = work->vectors + i * vector_floats(&run->features);
        clip->n_codes = front->rows;
        clip->codes = xmalloc((size_t)front->rows * sizeof *clip->codes);
        int64_t hidden = run->features.w2v.config.hidden;
        work->items[i] =
            (FeatureClip){.x = front->x,
                          .length = {front->rows, front->valid},
                          .codes = clip->codes,
                          .condition = vectors,
                          .emotion = vectors + latents,
                          .h = with_features ? xmalloc((size_t)(front->rows * hidden) * sizeof(float)) : NULL,
                          .margins = xmalloc((size_t)front->rows * sizeof(float))};
    }
    features_compute(&run->features, work->items, work->n);
}

static bool are_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Ends the program if a result of a pass is not a finite number. */
static void check_pass(const FeatureRun *run, const Work *work) {
    int64_t floats = vector_floats(&run->features);
    for (int i = 0; i < work->n; i++) {
        const Clip *clip = work->clips[i];
        bool codes = are_finite(work->items[i].margins, clip->n_codes);
        if (codes && are_finite(work->items[i].condition, floats)) continue;
        if (run->type == DTYPE_F16)
            die("%s: its features are not finite: a number was too large for f16; run again with --no-half",
                clip->audio_path);
        die("%s: its features are not finite: the weights of %s in %s are damaged, or those of another model",
            clip->audio_path, codes ? "the GPT's encoders" : "w2v-BERT or the semantic codec", run->folder);
    }
}

/* Writes the results of a pass. Returns false with the reason. */
static bool write_pass(const Prepare *p, const Work *work, const char *setup, Error *error) {
    bool ok = true;
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers)
    for (int i = 0; i < work->n; i++) { /* each clip is flushed to the disk: several wait for it at once */
        const FeatureClip *item = &work->items[i];
        Error why;
        if (clip_write(&p->work, work->clips[i], item->condition, item->emotion, p->sizes.d_model, setup, &why))
            continue;
#pragma omp critical(writing)
        {
            if (ok) *error = why;
            ok = false;
        }
    }
    return ok;
}

/* ---- the statistics of the first minutes ---- */

enum { JUDGED_ROWS = 120 * ROWS_A_SECOND, LEAST_ROWS = 30 * ROWS_A_SECOND };

typedef struct {
    double *sums; /* [2, hidden]: of numbers and of squares */
    int64_t rows, hidden;
    bool judged;
} Judgement;

static void add_features(Judgement *j, const Work *work) {
    for (int i = 0; i < work->n; i++)
        for (int64_t e = 0; work->items[i].h && e < work->items[i].length.valid * j->hidden; e++) {
            double value = (double)work->items[i].h[e];
            j->sums[e % j->hidden] += value;
            j->sums[j->hidden + e % j->hidden] += value * value;
        }
    for (int i = 0; i < work->n; i++) j->rows += work->items[i].length.valid;
}

/* Prints the mean and the variance of a channel, over all channels, and ends the program if these are not features that
 * the statistics are of: then a wrong layer or another file was read. Speech of less than half a minute is only told.
 */
static void judge(Judgement *j, const char *statistics) {
    double means = 0, variances = 0;
    if (j->judged || !j->rows) return;
    j->judged = true;
    for (int64_t c = 0; c < j->hidden; c++) {
        double mean = j->sums[c] / (double)j->rows;
        means += fabs(mean) / (double)j->hidden;
        variances += (j->sums[j->hidden + c] / (double)j->rows - mean * mean) / (double)j->hidden;
    }
    char duration[32];
    format_duration((double)j->rows / ROWS_A_SECOND, duration);
    printf(
        "[Features] of the first %s: channels have the mean %.2f (absolute) and the variance %.2f; the statistics of "
        "IndexTTS2 say 0 and 1\n",
        duration, means, variances);
    if (j->rows >= LEAST_ROWS && !(variances >= 0.5 && variances <= 2))
        die("the features are not those that %s is of: a variance of 0.5 to 2 was expected. Look whether "
            "w2v-bert-2.0 is the whole, unchanged model, and whether the recordings are speech",
            statistics);
}

/* ---- the loop: reading ahead, computing, writing behind ---- */

/* A thread that reads pass k + 1 and writes pass k - 1 while pass k is computed. Until the features are judged nothing
 * is written: a later run would reuse it. */
typedef struct {
    FeatureRun *run;
    Prepare *p;
    IndexFront *front;
    Work *to_read;           /* NULL: nothing */
    Work *to_write, *behind; /* passes from the one up to the other, which is left out */
    const char *setup;
    int n_threads;
    bool ok;
    Error error;
} Beside;

static void *work_beside(void *argument) {
    Beside *b = argument;
    b->ok = true;
    for (const Work *pass = b->to_write; pass < b->behind && b->ok; pass++)
        b->ok = write_pass(b->p, pass, b->setup, &b->error);
    if (b->ok && b->to_read) b->ok = read_pass(b->run, b->front, b->to_read, b->n_threads, &b->error);
    return NULL;
}

/* Writes ", 0.12 USD", the cost of some seconds, or "" without a price. Returns text. */
static const char *add_cost(const FeatureRun *run, double seconds, char text[80]) {
    char amount[64];
    text[0] = 0;
    if (run->price.per_hour > 0)
        snprintf(text, 80, ", %s", price_amount(&run->price, price_cost(&run->price, seconds), amount));
    return text;
}

static void show_progress(const FeatureRun *run, double begin, double done, double total) {
    double seconds = seconds_now() - begin, rate = run->audio_seconds / fmax(seconds, 1e-3);
    char left[32], cost[80];
    format_duration(seconds * (total - done) / fmax(done, 1), left);
    terminal_progress("[Features] %.1f of %.1f h, %.0f x real time, %s left%s", done / 3600, total / 3600, rate, left,
                      add_cost(run, seconds, cost));
}

static void tell_time(const FeatureRun *run, double seconds) {
    char speech[32], time[32], cost[80];
    format_duration(run->audio_seconds, speech);
    format_duration(seconds, time);
    printf("[Features] %s of speech in %s, %.0f x real time%s\n", speech, time,
           run->audio_seconds / fmax(seconds, 1e-3), add_cost(run, seconds, cost));
}

static double seconds_of(const Work *passes, int64_t n) {
    double seconds = 0;
    for (int64_t k = 0; k < n; k++)
        for (int i = 0; i < passes[k].n; i++) seconds += (double)passes[k].clips[i]->samples / MEL_RATE;
    return seconds;
}

static void run_passes(FeatureRun *run, Prepare *p, Work *passes, int64_t n, const char *setup) {
    int64_t hidden = run->features.w2v.config.hidden;
    double total = seconds_of(passes, n), done = 0;
    Beside b = {.run = run,
                .p = p,
                .front = index_front_open(),
                .setup = setup,
                .n_threads = (int)p->options->num_workers,
                .to_write = passes,
                .behind = passes};
    Judgement j = {.sums = xcalloc((size_t)hidden * 2, sizeof *j.sums), .hidden = hidden};
    double begin = seconds_now();
    for (int64_t k = -1; k <= n; k++) { /* computes pass k */
        pthread_t thread;
        b.to_read = k + 1 < n ? &passes[k + 1] : NULL;
        if (j.judged) b.behind = passes + k;
        if (pthread_create(&thread, NULL, work_beside, &b)) die("no thread can be started");
        bool judging = j.rows < JUDGED_ROWS;
        if (k >= 0 && k < n) compute_pass(run, &passes[k], judging);
        pthread_join(thread, NULL);
        if (!b.ok) die("%s", b.error.text);
        for (; b.to_write < b.behind; b.to_write++) forget_pass(b.to_write);
        if (k < 0 || k == n) continue;
        check_pass(run, &passes[k]);
        if (judging) add_features(&j, &passes[k]);
        if (j.rows >= JUDGED_ROWS || k == n - 1) judge(&j, run->weights.paths[INDEX_STATISTICS]);
        run->audio_seconds += seconds_of(&passes[k], 1);
        done += seconds_of(&passes[k], 1);
        show_progress(run, begin, done, total);
    }
    terminal_progress_end();
    tell_time(run, seconds_now() - begin);
    free(j.sums);
    index_front_close(b.front);
}

/* ---- the device ---- */

/* Divides the clips that are to be coded into passes of as many rows as there is memory for, and says so if `tell`.
 * Returns their number; free(*clips, *passes). */
static int64_t plan_passes(FeatureRun *run, const Prepare *p, const bool *todo, bool tell, Clip ***clips,
                           Work **passes) {
    PassTarget target = {.type = run->type,
                         .voice_type = run->voice_type,
                         .host_memory = run->device->host_memory,
                         .available = memory_available(run->device)};
    PassPlan plan;
    char need[32], have[32], of_pass[32];
    int64_t n = 0;
    OWNED int64_t *rows = xcalloc((size_t)p->n + 1, sizeof *rows);
    *clips = xcalloc((size_t)p->n + 1, sizeof **clips);
    for (int64_t i = 0; i < p->n; i++) {
        if (!todo[i]) continue;
        rows[n] = rows_at_most(&p->clips[i]);
        (*clips)[n++] = &p->clips[i];
    }
    bool fits = pass_plan(&plan, &target, rows, n);
    run->pass_rows = plan.rows;
    run->pass_bytes = plan.bytes;
    format_bytes((double)plan.weights, need);
    format_bytes((double)plan.bytes, of_pass);
    format_bytes((double)target.available, have);
    if (!fits)
        die("the networks of IndexTTS2 need %s for weights and %s for the longest clip, and %s are available", need,
            of_pass, have);
    if (tell)
        printf("[Memory] weights %s + a pass of %.0f s of sound %s, of %s\n", need, (double)plan.rows / ROWS_A_SECOND,
               of_pass, have);
    *passes = xcalloc((size_t)plan.n, sizeof **passes);
    for (int64_t k = 0; k < plan.n; k++)
        (*passes)[k] = (Work){.clips = *clips + plan.first[k], .n = (int)(plan.first[k + 1] - plan.first[k])};
    pass_plan_free(&plan);
    return plan.n;
}

/* Opens the networks and reads their weights, after plan_passes. */
static void read_weights(FeatureRun *run) {
    MUST(index_weights_read(&run->weights, &run->features, run->device, run->type, run->voice_type, run->pass_bytes,
                            &error));
}

/* Returns the fingerprint of all files that features depend on beside the recordings. */
static Fingerprint setup_of(const FeatureRun *run) {
    Fingerprint f = fingerprint_of("IndexTTS2");
    for (int i = 0; i < INDEX_FILES; i++)
        f = fingerprint_of("%s %s", f.text, fingerprint_file(run->weights.paths[i]).text);
    return f;
}

static void open_device(FeatureRun *run, const Prepare *p, const FeatureDevice *on) {
    const char *why;
    run->device = device_open(on->device, (int)p->options->num_workers, on->no_tf32, &why);
    PassTarget types;
    pass_types(on->no_half ? DTYPE_F32 : run->device->half, &types);
    run->type = types.type;
    run->voice_type = types.voice_type;
    run->price = price_list_find_product(&on->prices, run->device->product)->price;
    printf("[Device] %s%s%s; products of %s, of the conditioning %s\n", run->device->description, why ? ": " : "",
           why ? why : "", dtype_name(run->type), dtype_name(run->voice_type));
}

void feature_run_plan(FeatureRun *run, Prepare *p, const FeatureDevice *on, bool anyway) {
    p->entries = FEATURES_INDEXTTS2.codec.codebook;
    run->setup = setup_of(run);
    run->todo = prepare_find_uncoded(p, run->setup.text);
    p->coded_now = 0;
    for (int64_t i = 0; i < p->n; i++) p->coded_now += run->todo[i];
    if (p->coded_now || anyway) open_device(run, p, on);
}

void feature_run_compute(FeatureRun *run, Prepare *p) {
    OWNED Clip **clips = NULL;
    OWNED Work *passes = NULL;
    if (!p->coded_now) return;
    int64_t n = plan_passes(run, p, run->todo, true, &clips, &passes);
    read_weights(run);
    run_passes(run, p, passes, n, run->setup.text);
}

/* ---- computing without writing ---- */

void feature_run_try(FeatureRun *run, Prepare *p, bool alone, TriedClip *tried) {
    OWNED bool *todo = xcalloc((size_t)p->n, sizeof *todo);
    OWNED Clip **clips = NULL;
    OWNED Work *passes = NULL;
    int64_t floats, n, done = 0;
    for (int64_t i = 0; i < p->n; i++) todo[i] = true;
    n = plan_passes(run, p, todo, false, &clips, &passes);
    if (alone) {
        free(passes);
        n = p->n;
        passes = xcalloc((size_t)n, sizeof *passes);
        for (int64_t i = 0; i < n; i++) passes[i] = (Work){.clips = clips + i, .n = 1};
    }
    read_weights(run);
    floats = vector_floats(&run->features);
    IndexFront *front = index_front_open();
    for (int64_t k = 0; k < n; k++) {
        Work *pass = &passes[k];
        MUST(read_pass(run, front, pass, (int)p->options->num_workers, &error));
        compute_pass(run, pass, true);
        check_pass(run, pass);
        for (int i = 0; i < pass->n; i++) {
            TriedClip *to = &tried[done++];
            *to = (TriedClip){.length = pass->items[i].length,
                              .codes = pass->items[i].codes,
                              .h = pass->items[i].h,
                              .margins = pass->items[i].margins,
                              .vectors = xmalloc((size_t)floats * sizeof(float))};
            memcpy(to->vectors, pass->items[i].condition, (size_t)floats * sizeof(float));
            pass->items[i].h = pass->items[i].margins = NULL;
        }
        forget_pass(pass);
    }
    index_front_close(front);
    features_close(&run->features);
}

void tried_clip_free(TriedClip *clip) { FREE(clip->codes, clip->h, clip->margins, clip->vectors); }
