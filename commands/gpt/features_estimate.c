#include "commands/gpt/features_estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/program.h"
#include "data/audio/audio.h"
#include "estimate/estimate.h"

void feature_estimate_check(const FeatureEstimateOptions *o, const OptionSet *set) {
    static const char *const of_estimates[] = {"hours", "gpu", "json", "calibration"};
    bool listed = options_given(set, "input");
    for (size_t i = 0; i < sizeof of_estimates / sizeof *of_estimates && !o->estimate; i++)
        if (options_given(set, of_estimates[i])) die_usage("--%s belongs to --estimate", of_estimates[i]);
    if (o->estimate && !options_given(set, "indextts2"))
        die_usage("--estimate is of the networks of --indextts2: give that, too; its folder need not be there yet");
    if (o->estimate && listed && o->hours > 0)
        die_usage("--input and --hours exclude each other: the recordings say how long they are");
    if (!listed && !(o->hours > 0))
        die_usage("--input is missing: the recordings%s", o->estimate ? "; without them give --hours" : "");
    if (!o->estimate && !options_given(set, "output")) die_usage("--output is missing: directory for all output");
}

/* ---- recordings ---- */

static int64_t rows_of(double seconds) { return (int64_t)(seconds * FEATURE_ROWS_A_SECOND) + 1; }

/* Returns how long a recording is: by the list, else by the head of its file. Dies if neither says it. */
static double seconds_of(const Recordings *all, const Recording *r) {
    OWNED char *path = path_join(all->directory, r->audio);
    double seconds;
    Error error;
    if (isfinite(r->to)) return r->to - r->from;
    if (r->stated > 0) return r->stated;
    if (!audio_seconds(path, &seconds, &error))
        die("%s: %s; a list may say how long recordings are (--duration-field), and --hours estimates without any",
            path, error.text);
    return seconds - r->from;
}

static Speech read_speech(const PrepareOptions *o) {
    Recordings all;
    MUST(recordings_read(&o->input, &all, &error));
    Speech speech = {.rows = xcalloc((size_t)all.count, sizeof *speech.rows)};
    for (int64_t i = 0; i < all.count; i++) {
        double seconds = seconds_of(&all, &all.items[i]);
        if (seconds < o->min_duration || seconds > o->max_duration) {
            speech.left_out++;
            continue;
        }
        speech.rows[speech.n++] = rows_of(seconds);
        speech.seconds += seconds;
    }
    recordings_close(&all);
    if (!speech.n)
        die("no recording is left: all %lld are shorter than --min-duration or longer than --max-duration",
            (long long)speech.left_out);
    return speech;
}

static Speech typical_speech(double hours) {
    Speech speech = {.n = (int64_t)ceil(hours * 3600 / FEATURE_CLIP_SECONDS), .seconds = hours * 3600};
    speech.rows = xcalloc((size_t)speech.n, sizeof *speech.rows);
    for (int64_t i = 0; i < speech.n; i++) speech.rows[i] = rows_of(FEATURE_CLIP_SECONDS);
    return speech;
}

/* ---- work ---- */

typedef struct {
    Device *dry;
    Work *networks;
    double times; /* that a pass counts */
    bool followed;
} Counting;

/* Adds what a network has done in a pass; of the pass that is followed, keeps what moved. */
static void count(void *context, FeatureNetwork network) {
    const Counting *c = context;
    Work *work = &c->networks[network];
    if (!c->followed) work_add_counters(work, c->dry, c->times);
    for (int op = 0; op < OP_COUNT && c->followed; op++) {
        const OpTraffic *traffic = traffic_of(c->dry->traffic, op);
        if (traffic->counted > 0) work->ops[op].traffic = xkeep(traffic, sizeof *traffic);
    }
    device_reset_counters(c->dry);
}

static void rehearse(Features *features, const FeatureWork *work, const Speech *speech, int64_t k) {
    OWNED ClipLength *lengths = pass_lengths(&work->plan, speech->rows, k);
    features_rehearse(features, lengths, (int)(work->plan.first[k + 1] - work->plan.first[k]));
}

/* Sends all passes through a dry device, and follows one in the middle. */
static void count_passes(FeatureWork *work, const Speech *speech) {
    const ClipLength shortest = {FEATURE_ROWS_A_SECOND, FEATURE_ROWS_A_SECOND};
    const PassTarget *target = &work->target;
    Features features;
    Counting counting = {.dry = dry_device_open(), .networks = work->networks};
    counting.dry->host_memory = target->host_memory;
    features_rehearsal(&features, &FEATURES_INDEXTTS2, counting.dry, target->type, target->voice_type, &shortest, 1);
    device_reset_counters(counting.dry);
    features.finished = count;
    features.context = &counting;
    for (int64_t k = 0, repeats; k < work->plan.n; k += repeats) {
        repeats = pass_repeats(&work->plan, speech->rows, k);
        counting.times = (double)repeats / (double)work->plan.n;
        rehearse(&features, work, speech, k);
    }
    counting.followed = true;
    device_follow(counting.dry);
    rehearse(&features, work, speech, work->plan.n / 2);
    double rows = 0;
    for (int64_t i = 0; i < speech->n; i++) rows += (double)speech->rows[i] / (double)work->plan.n;
    work->networks[FEATURE_W2V].batch_bytes = rows * FEATURES_INDEXTTS2.w2v.input * sizeof(float);
    features_close(&features);
    device_close(counting.dry);
}

/* Computes the work for a card, unless that of one before is the same. Returns whose it is. */
static int work_of(FeatureWork *works, int i, const PassTarget *target, const Speech *speech) {
    for (int j = 0; j < i; j++)
        if (works[j].fits && pass_plan_serves(&works[j].plan, &works[j].target, target)) return j;
    works[i].target = *target;
    works[i].fits = pass_plan(&works[i].plan, target, speech->rows, speech->n);
    count_passes(&works[i], speech);
    return i;
}

/* ---- time ---- */

static void add_time(WorkTime *sum, const WorkTime *t) {
    for (int op = 0; op < OP_COUNT; op++) {
        OpTime *to = &sum->ops[op];
        const OpTime *more = &t->ops[op];
        to->compute += more->compute;
        to->memory += more->memory;
        to->launches += more->launches;
        to->seconds += more->seconds;
        to->bound = to->launches > fmax(to->compute, to->memory) ? BY_LAUNCHES
                    : to->compute > to->memory                   ? BY_COMPUTE
                                                                 : BY_MEMORY;
    }
    for (int b = 0; b <= BY_LAUNCHES; b++) {
        sum->parts[b] += t->parts[b];
        if (sum->parts[b] > sum->parts[sum->bound]) sum->bound = (Bound)b;
    }
    sum->copy += t->copy;
    sum->flops += t->flops;
    sum->seconds += t->seconds;
}

static void time_run(FeatureTime *t, const Speech *speech) {
    const PassTarget *target = &t->work->target;
    double passes = (double)t->work->plan.n, workers = t->machine.workers;
    for (int i = 0; i < FEATURE_NETWORKS; i++) {
        t->on[i] = t->machine;
        t->on[i].half = i == FEATURE_VOICE ? target->voice_type : target->type;
        t->networks[i] = cost_of_work(&t->on[i], &t->work->networks[i]);
        t->floor += passes * cost_floor(&t->on[i], &t->work->networks[i]);
        add_time(&t->pass, &t->networks[i]);
    }
    t->measuring = speech->seconds / FEATURE_MEASURING_RATE / workers;
    t->reading = speech->seconds / FEATURE_READING_RATE / workers;
    t->computing = passes * t->pass.seconds;
    t->seconds = t->measuring + fmax(t->computing, t->reading);
}

void feature_prices(const FeatureEstimateOptions *o, PriceList *prices) {
    Error error;
    if (o->price && o->prices_file) die_usage("--price and --prices exclude each other: give one of them");
    if (o->prices_file && !price_list_read(o->prices_file, prices, &error)) die("--prices %s", error.text);
    if (!o->prices_file && !price_list_parse(o->price, prices, &error)) die_usage("--price: %s", error.text);
}

void feature_estimate(const FeatureEstimateOptions *o, const PrepareOptions *prepare, const FeatureDevice *on,
                      int workers) {
    MachineOptions options = {.gpu = o->gpu,
                              .device = on->device,
                              .calibration = o->calibration,
                              .threads = workers,
                              .workers = workers ? workers : FEATURE_WORKERS,
                              .amp = !on->no_half,
                              .no_tf32 = on->no_tf32};
    int n;
    FILE *results = o->json ? program_results() : NULL;
    program_end_with_reader();
    OWNED Machine *machines = machines_named(&options, &n);
    Speech speech = o->hours > 0 ? typical_speech(o->hours) : read_speech(prepare);
    OWNED FeatureWork *works = xcalloc((size_t)n, sizeof *works);
    OWNED FeatureTime *times = xcalloc((size_t)n, sizeof *times);
    for (int i = 0; i < n; i++) {
        PassTarget target = {.host_memory = !machines[i].card->capability, .available = (size_t)machines[i].available};
        pass_types(machines[i].half, &target);
        int same = work_of(works, i, &target, &speech);
        times[i] = (FeatureTime){
            .machine = machines[i], .work = &works[same], .price = price_list_find(&on->prices, machines[i].card)};
        time_run(&times[i], &speech);
    }
    if (results) {
        OWNED char *text = feature_estimate_json(o, &speech, times, n);
        program_put(results, text, strlen(text), "the estimate");
        program_put(results, "\n", 1, "the estimate");
        program_flush(results, true, "the estimate");
    } else {
        feature_estimate_print(o, &speech, times, n);
    }
    for (int i = 0; i < n; i++) pass_plan_free(&works[i].plan);
    free(speech.rows);
}
