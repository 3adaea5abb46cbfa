#include "train/plan/buckets.h"

#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "train/parallel/shards.h"

/* A recording under way. */
typedef struct {
    Device *dry, *sender; /* of the pass; of what the reducer does besides, which is not counted */
    Reducer reducer;
    BucketWorks works;
    int64_t *told; /* [n_buckets] elements of a bucket that Pass.needed has told of */
    int *place;    /* [n_buckets] of a bucket in works; -1: it is not sent yet */
} Recorder;

static Work work_so_far(const Recorder *r) {
    Work work = {0};
    work_add_counters(&work, r->dry, 1);
    return work;
}

/* Adds the buckets that have been sent since the last call, the last of the flat buffer first. */
static void add_sent(Recorder *r) {
    for (int k = r->reducer.n_buckets; k-- > 0;) {
        if (!r->reducer.reduced[k] || r->place[k] >= 0) continue;
        FlatRange range = reducer_bucket(&r->reducer, k);
        r->place[k] = r->works.n++;
        r->works.of[r->place[k]] = (BucketWork){
            .elements = range.end - range.begin, .gathered = r->reducer.gathered[k], .final = work_so_far(r)};
    }
}

static void finished(void *context, int64_t begin, int64_t end) {
    Recorder *r = context;
    reducer_finished(&r->reducer, begin, end);
    add_sent(r);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Counts the elements of each bucket that Pass.needed tells of, and remembers when the first of them were. A pass may
 * go through blocks twice, and tells of them again. */
typedef struct {
    Recorder *recorder;
    Work *first; /* [n_buckets] */
    int64_t latest;
} Needs;

static void needed(void *context, int64_t begin, int64_t end) {
    Needs *needs = context;
    Recorder *r = needs->recorder;
    if (begin < needs->latest) return;
    needs->latest = end;
    for (int k = 0; k < r->reducer.n_buckets; k++) {
        FlatRange b = reducer_bucket(&r->reducer, k);
        int64_t from = begin > b.begin ? begin : b.begin, to = smaller(end, b.end);
        if (from >= to) continue;
        if (!r->told[k]) needs->first[k] = work_so_far(r);
        r->told[k] += to - from;
    }
}

/* Records when buckets are read. One that also holds weights which nobody tells of may be read at any time. */
static void record_needs(Recorder *r, const TrainSpec *spec, const Batch *batch) {
    Needs needs = {.recorder = r};
    needs.first = xcalloc((size_t)r->reducer.n_buckets, sizeof *needs.first);
    const PassListener listener = {.needed = needed, .context = &needs};
    device_reset_counters(r->dry);
    memory_dry_pass_told(spec->model, r->dry, batch, PASS_FIRST, spec->options->grad_checkpointing, &listener);
    int64_t flat = spec->model->params.flat_count;
    for (int k = 0; k < r->reducer.n_buckets; k++) {
        FlatRange b = reducer_bucket(&r->reducer, k);
        if (r->told[k] == smaller(b.end, flat) - b.begin) r->works.of[r->place[k]].needed = needs.first[k];
    }
    free(needs.first);
}

static void record_finals(Recorder *r, const TrainSpec *spec, const Batch *batch, PassKind kind) {
    const PassListener listener = {.finished = finished, .context = r};
    memory_dry_pass_told(spec->model, r->dry, batch, kind, spec->options->grad_checkpointing, &listener);
    r->works.pass = work_so_far(r);
    reducer_finish(&r->reducer);
    add_sent(r);
}

/* Has the buckets of whole matrices gathered, as --zero 1 does. */
static void mark_matrices(Recorder *r, const TrainSpec *spec) {
    ParamUpdates updates = params_updates(&spec->model->params, r->dry, 0, spec->optimizer.muon);
    Shards shards = shards_open(&r->reducer, &updates);
    shards_close(&shards);
    params_updates_free(&updates);
}

static bool has_statistics(const Model *model) {
    Segment *moving = NULL;
    int n = params_moving(&model->params, &moving);
    free(moving);
    return n > 0;
}

BucketWorks buckets_record(const TrainSpec *spec, const Batch *batch, int ranks, PassKind kind) {
    const TrainOptions *o = spec->options;
    Group *group = group_dry(0, ranks);
    Recorder r = {.dry = dry_device_open(), .sender = dry_device_open()};
    r.dry->half = train_half(spec), r.sender->half = DTYPE_BF16;
    int64_t room = reducer_room(spec->model->params.flat_count, ranks);
    Tensor gradients = tensor_1d(r.sender->allocate(r.sender, (size_t)room * sizeof(float)), DTYPE_F32, room);
    DType sent = strcmp(o->reduce_type, "bf16") ? DTYPE_F32 : DTYPE_BF16;
    r.reducer = reducer_open(group, r.sender, gradients, o->bucket_mb, sent);
    size_t n = (size_t)r.reducer.n_buckets;
    r.works.of = xcalloc(n, sizeof *r.works.of);
    r.works.statistics = has_statistics(spec->model);
    r.told = xcalloc(n, sizeof *r.told);
    r.place = xmalloc(n * sizeof *r.place);
    memset(r.place, -1, n * sizeof *r.place);
    mark_matrices(&r, spec);
    reducer_begin(&r.reducer);
    record_finals(&r, spec, batch, kind);
    record_needs(&r, spec, batch);
    reducer_close(&r.reducer);
    group_close(group);
    device_close(r.dry);
    device_close(r.sender);
    FREE(r.told, r.place);
    return r.works;
}

void buckets_free(BucketWorks *buckets) {
    free(buckets->of);
    *buckets = (BucketWorks){0};
}

/* Returns the seconds of work whose operations have the traffic of `like`. */
static double seconds_of(const Machine *machine, Work work, const Work *like) {
    double seconds = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        work.ops[op].traffic = like->ops[op].traffic;
        seconds += cost_of_op(machine, op, &work.ops[op]).seconds;
    }
    return seconds;
}

void buckets_time(const BucketWorks *buckets, const Machine *machine, const Work *like, StepParts *parts) {
    parts->n_buckets = buckets->n;
    parts->buckets = xcalloc((size_t)buckets->n, sizeof *parts->buckets);
    parts->pass = seconds_of(machine, buckets->pass, like);
    for (int i = 0; i < buckets->n; i++) {
        const BucketWork *b = &buckets->of[i];
        parts->buckets[i] = (TimedBucket){.elements = (double)b->elements,
                                          .final = seconds_of(machine, b->final, like),
                                          .needed = seconds_of(machine, b->needed, like),
                                          .gathered = b->gathered};
        if (parts->buckets[i].final > parts->pass) parts->buckets[i].final = parts->pass;
    }
}

/* Returns the seconds of what a dry device has counted. */
static double counted(const Device *dry, const Machine *machine, const Work *like) {
    Work work = {0};
    work_add_counters(&work, dry, 1);
    return seconds_of(machine, work, like);
}

StepParts buckets_step(const TrainSpec *spec, const Batch *batch, const Machine *machine, int ranks) {
    const TrainOptions *o = spec->options;
    const Batch none = {0};
    Device *dry = dry_device_open();
    double seconds[PASS_LATER + 1], copy = (double)batch->size / machine_copy_rate(machine);
    OWNED Work *like = xcalloc(1, sizeof *like);
    dry->half = train_half(spec);
    train_follow(spec, batch, like);
    for (int kind = PASS_FIRST; kind <= PASS_LATER; kind++) {
        device_reset_counters(dry);
        memory_dry_pass(spec->model, dry, batch, kind, o->grad_checkpointing);
        seconds[kind] = counted(dry, machine, like) + copy;
    }
    device_reset_counters(dry);
    memory_dry_step(spec->model, dry, &none, 0, train_step_options(spec, o));
    StepParts parts = {.first = seconds[PASS_FIRST],
                       .later = seconds[PASS_LATER],
                       .update = counted(dry, machine, like),
                       .multiprocessors = machine->card->multiprocessors};
    BucketWorks works = buckets_record(spec, batch, ranks, o->grad_accumulation > ranks ? PASS_LATER : PASS_FIRST);
    buckets_time(&works, machine, like, &parts);
    buckets_free(&works);
    device_close(dry);
    return parts;
}
