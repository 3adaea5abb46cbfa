#include "train/parallel/gather.h"

#include <stdlib.h>
#include <string.h>

enum { ROW = 16 }; /* elements: parameters begin at multiples of 64 bytes */
enum { MARK_EARLY = MARK_REDUCED + 1, MARK_LATE };

static bool overlaps(FlatRange a, FlatRange b) { return a.begin < b.end && b.begin < a.end; }

static FlatRange range_of(const Param *param) {
    return (FlatRange){param->offset, param->offset + param_stored(param)};
}

/* Finds the buckets that hold nothing but parameters of blocks. */
static void find_late(Gather *g, const ParamTable *params) {
    const Reducer *r = g->shards->reducer;
    g->late = xcalloc((size_t)r->n_buckets, sizeof *g->late);
    for (int k = 0; k < r->n_buckets; k++) {
        bool any = false, other = false;
        for (const Param *p = params->items; p < params->items + params->count; p++)
            if (overlaps(range_of(p), reducer_bucket(r, k))) *(p->reader == READ_ANYWHERE ? &other : &any) = true;
        g->late[k] = any && !other;
    }
}

static Tensor upload_rows(Device *device, const int32_t *rows, int64_t n) {
    Tensor t = tensor_1d(device->allocate(device, (size_t)n * sizeof *rows), DTYPE_I32, n);
    device->upload(device, t.data, rows, tensor_bytes(t));
    device->synchronize(device);
    return t;
}

/* Lists the rows that blocks read as f32 and that are in late buckets. */
static void list_rows(Gather *g, const ParamTable *params) {
    const Reducer *r = g->shards->reducer;
    int64_t n = 0, most = g->weights.dims[0] / ROW;
    OWNED int32_t *rows = xmalloc((size_t)most * sizeof *rows), *own = xmalloc((size_t)most * sizeof *own);
    for (const Param *p = params->items; p < params->items + params->count; p++)
        for (int64_t at = p->offset; p->reader == READ_BY_BLOCK_AS_F32 && at < p->offset + p->count; at += ROW) {
            int bucket = (int)(at / r->bucket);
            FlatRange piece = reducer_piece(r, bucket, r->group->rank);
            if (!g->late[bucket]) continue;
            rows[n] = (int32_t)(at / ROW);
            own[n++] = at >= piece.begin && at < piece.end ? (int32_t)(at / ROW) : -1;
        }
    if (!n) return;
    size_t bytes = (size_t)(n * ROW) * sizeof(float);
    g->rows = upload_rows(r->device, rows, n);
    g->own = upload_rows(r->device, own, n);
    g->packed = tensor_2d(r->device->allocate(r->device, bytes), DTYPE_F32, n, ROW);
}

Gather gather_open(const Shards *shards, const ParamTable *params, Tensor weights, Tensor copies) {
    Gather g = {.shards = shards, .weights = weights, .copies = copies};
    find_late(&g, params);
    /* A matrix of Muon lies in several pieces: f32 goes to their owners, who cast. */
    g.halves = tensor_given(copies) && !shards->n_matrices;
    if (g.halves) list_rows(&g, params);
    return g;
}

void gather_close(Gather *g) {
    if (!g->shards) return;
    Device *device = g->shards->reducer->device;
    Tensor parts[] = {g->rows, g->own, g->packed};
    for (int i = 0; i < 3; i++)
        if (tensor_given(parts[i])) device->release(device, parts[i].data, tensor_bytes(parts[i]));
    free(g->late);
    *g = (Gather){0};
}

static void gather_bucket(const Gather *g, int bucket) {
    const Reducer *r = g->shards->reducer;
    FlatRange all = reducer_bucket(r, bucket), mine = reducer_piece(r, bucket, r->group->rank);
    bool half = g->halves && g->late[bucket];
    Tensor flat = half ? g->copies : g->weights;
    group_all_gather(r->group, r->device, flat_part(flat, all), flat_part(flat, mine));
    if (tensor_given(g->copies) && !half) cast(r->device, flat_part(g->copies, all), flat_part(g->weights, all));
}

/* Each row is that of one rank and zeros elsewhere: added as integers, it keeps its bits. */
static void share_rows(const Gather *g) {
    const Reducer *r = g->shards->reducer;
    Tensor flat = tensor_2d(g->weights.data, DTYPE_F32, g->weights.dims[0] / ROW, ROW);
    if (!tensor_given(g->rows)) return;
    gather_rows(r->device, g->packed, flat, g->own);
    group_all_reduce(r->group, r->device, tensor_1d(g->packed.data, DTYPE_I32, tensor_numel(g->packed)), REDUCE_SUM);
    scatter_rows(r->device, flat, g->packed, g->rows);
}

void gather_begin(Gather *g) {
    const Reducer *r = g->shards->reducer;
    Device *device = r->device;
    g->awaited = -1;
    device_beside(device, true);
    shards_send_matrices(g->shards, g->weights);
    for (int k = 0; k < r->n_buckets; k++)
        if (!g->late[k]) gather_bucket(g, k);
    share_rows(g);
    device_mark(device, MARK_EARLY);
    for (int k = 0; k < r->n_buckets; k++) {
        if (!g->late[k]) continue;
        gather_bucket(g, k);
        device_mark(device, MARK_LATE + k);
    }
    device_beside(device, false);
    device_await(device, MARK_EARLY);
}

/* Waits for the buckets up to one, and so for all that were gathered before it. */
static void await_bucket(Gather *g, int bucket) {
    while (bucket > g->awaited && !g->late[bucket]) bucket--;
    if (bucket <= g->awaited) return;
    device_await(g->shards->reducer->device, MARK_LATE + bucket);
    g->awaited = bucket;
}

void gather_needed(void *gather, int64_t begin, int64_t end) {
    Gather *g = gather;
    if (begin < end) await_bucket(g, (int)((end - 1) / g->shards->reducer->bucket));
}

void gather_end(Gather *g) { await_bucket(g, g->shards->reducer->n_buckets - 1); }
