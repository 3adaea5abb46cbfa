#include "train/parallel/exchange.h"

#include <stdlib.h>
#include <string.h>

/* ---- facts ---- */

/* A double goes as two floats, whose sum has 48 of its bits; of all ranks but one it is 0, or it is a sum. */
enum { HALVES = 2 };

static void split(float *to, double value) {
    to[0] = (float)value;
    to[1] = (float)(value - (double)to[0]);
}

static double join(const float *from) { return (double)from[0] + (double)from[1]; }

/* The facts behind the counts: FLOPs and stops of all, and of each rank tokens and seconds. */
enum { FLOPS, STOP, OF_RANKS, TOKENS = 0, BUSY, PER_RANK };

int64_t exchange_facts_count(int64_t micro_batches, int ranks) {
    return HALVES * (micro_batches * BATCH_MAX_COUNTS + OF_RANKS + PER_RANK * ranks);
}

void exchange_facts(Exchange *x, StepFacts *facts) {
    int64_t n_counts = x->micro_batches * BATCH_MAX_COUNTS;
    size_t bytes = tensor_bytes(x->facts);
    float *all = x->host + HALVES * n_counts, *ranks = all + HALVES * OF_RANKS,
          *own = ranks + HALVES * PER_RANK * x->group->rank;
    memset(x->host, 0, bytes);
    for (int64_t i = 0; i < n_counts; i++) split(x->host + HALVES * i, facts->counts[i]);
    split(all + HALVES * FLOPS, facts->flops);
    split(all + HALVES * STOP, facts->stop);
    split(own + HALVES * TOKENS, facts->tokens);
    split(own + HALVES * BUSY, facts->busy);
    x->device->upload(x->device, x->facts.data, x->host, bytes);
    group_all_reduce(x->group, x->device, x->facts, REDUCE_SUM);
    x->device->download(x->device, x->host, x->facts.data, bytes);
    for (int64_t i = 0; i < n_counts; i++) facts->counts[i] = join(x->host + HALVES * i);
    facts->flops = join(all + HALVES * FLOPS);
    facts->stop = join(all + HALVES * STOP);
    for (int r = 0; r < x->group->size; r++, ranks += HALVES * PER_RANK) {
        x->speeds[r].tokens += join(ranks + HALVES * TOKENS);
        x->speeds[r].busy += join(ranks + HALVES * BUSY);
    }
}

/* ---- opening ---- */

Exchange *exchange_open(Group *group, Device *device, Model *model, const ExchangeOptions *o) {
    Exchange *x = xcalloc(1, sizeof *x);
    *x = (Exchange){.group = group, .device = device, .model = model, .micro_batches = o->micro_batches};
    x->reducer = reducer_open(group, device, model->gradients, o->bucket_mb, o->half);
    x->sharded = o->sharded;
    if (x->sharded) {
        ParamUpdates updates = params_updates(&model->params, device, 0, o->muon);
        x->shards = shards_open(&x->reducer, &updates);
        params_updates_free(&updates);
        x->gather = gather_open(&x->shards, &model->params, model->weights, model->half_weights);
    }
    int64_t n = exchange_facts_count(o->micro_batches, group->size);
    x->facts = tensor_1d(device->allocate(device, (size_t)n * sizeof *x->host), DTYPE_F32, n);
    x->host = xcalloc((size_t)n, sizeof *x->host);
    x->speeds = xcalloc((size_t)group->size, sizeof *x->speeds);
    exchange_forget_speeds(x);
    return x;
}

void exchange_close(Exchange *x) {
    if (!x) return;
    gather_close(&x->gather);
    if (x->sharded) shards_close(&x->shards);
    x->device->release(x->device, x->facts.data, tensor_bytes(x->facts));
    statistics_close(&x->statistics);
    reducer_close(&x->reducer);
    FREE(x->host, x->speeds, x);
}

void exchange_use(Exchange *x, const ParamUpdates *updates, const Segment *moving, int n_moving) {
    x->updates = updates;
    if (x->sharded) shards_use(&x->shards, updates);
    statistics_close(&x->statistics);
    x->statistics = statistics_open(x->group, x->device, &x->model->params, moving, n_moving, x->micro_batches);
}

void exchange_begin(Exchange *x) { statistics_begin(&x->statistics); }

/* Returns whether a step's first pass gathers weights: where it may be recorded, always. */
static bool gathers(const Exchange *x, bool first) { return first && x->sharded && (x->stale || x->device->repeat); }

void exchange_before_pass(Exchange *x, bool first, bool last) {
    if (gathers(x, first)) {
        gather_begin(&x->gather);
        x->stale &= x->gather.halves;
    }
    if (last) reducer_begin(&x->reducer);
    statistics_before_pass(&x->statistics, x->model->gradients);
}

void exchange_end_pass(Exchange *x, bool first) {
    if (gathers(x, first)) gather_end(&x->gather);
}

void exchange_needs(Exchange *x, Pass *pass) {
    if (!gathers(x, true)) return;
    pass->needed = gather_needed;
    pass->needed_context = &x->gather;
}

void exchange_after_pass(Exchange *x, int64_t micro) {
    statistics_after_pass(&x->statistics, x->model->gradients, micro);
}

void exchange_gradients(Exchange *x, bool all) {
    reducer_finish(&x->reducer);
    if (all) reducer_gather(&x->reducer);
    statistics_apply(&x->statistics, x->model->gradients, x->model->weights);
}

/* ---- sums ---- */

void exchange_forget_speeds(Exchange *x) {
    memset(x->speeds, 0, (size_t)x->group->size * sizeof *x->speeds);
    x->before = x->group->seconds;
}

void exchange_sum(Exchange *x, Tensor numbers) {
    group_all_reduce(x->group, x->device, tensor_1d(numbers.data, numbers.dtype, tensor_numel(numbers)), REDUCE_SUM);
}

void exchange_sum_doubles(Exchange *x, double *values, int64_t n) {
    size_t bytes = (size_t)(HALVES * n) * sizeof(float);
    OWNED float *host = xmalloc(bytes);
    Tensor sums = tensor_1d(x->device->allocate(x->device, bytes), DTYPE_F32, HALVES * n);
    for (int64_t i = 0; i < n; i++) split(host + HALVES * i, values[i]);
    x->device->upload(x->device, sums.data, host, bytes);
    exchange_sum(x, sums);
    x->device->download(x->device, host, sums.data, bytes);
    for (int64_t i = 0; i < n; i++) values[i] = join(host + HALVES * i);
    x->device->release(x->device, sums.data, bytes);
}

/* ---- the norm ---- */

void exchange_norm(Exchange *x, Tensor norm, Tensor squares) {
    const ParamUpdates *u = x->updates;
    x->device->clear(x->device, squares.data, tensor_bytes(squares));
    for (int k = 0; k < x->reducer.n_buckets; k++) {
        FlatRange piece = reducer_piece(&x->reducer, k, x->group->rank);
        sum_squares(x->device, squares, x->model->gradients, u->segments, u->n_segments, piece.begin, piece.end);
    }
    /* The sums are doubles: added as integers, those of one rank and the zeros of the others keep all their bits. */
    squares.dtype = DTYPE_I32;
    group_all_reduce(x->group, x->device, squares, REDUCE_SUM);
    squares.dtype = DTYPE_F32;
    finish_norm(x->device, norm, squares, x->model->loss_scale);
}

void exchange_update(Exchange *x, AdamWBuffers buffers, Tensor norm, AdamW adamw, Muon muon) {
    shards_update(&x->shards, buffers, norm, x->model->loss_scale, adamw, muon);
    x->stale = true;
}

void exchange_weights(Exchange *x) {
    Model *model = x->model;
    if (!x->stale) return;
    shards_gather(&x->shards, model->weights);
    if (tensor_given(model->half_weights)) cast(x->device, model->half_weights, model->weights);
    x->stale = false;
}

void exchange_collect(Exchange *x, Tensor m, Tensor v, float *whole_m, float *whole_v) {
    bool first = !x->group->rank;
    shards_collect(&x->shards, m, v, first ? whole_m : NULL, first ? whole_v : NULL);
}
