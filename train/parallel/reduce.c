#include "train/parallel/reduce.h"

#include <stdlib.h>
#include <string.h>

static int64_t unit_of(int ranks) { return (int64_t)NORM_PIECE * ranks; }

int64_t reducer_room(int64_t flat_count, int ranks) {
    int64_t unit = unit_of(ranks);
    return (flat_count + unit - 1) / unit * unit;
}

Reducer reducer_open(Group *group, Device *device, Tensor gradients, double bucket_mb, DType half) {
    int64_t unit = unit_of(group->size), room = gradients.dims[0];
    int64_t bucket = (int64_t)(bucket_mb * 1e6) / (int64_t)sizeof(float) / unit * unit;
    if (room % unit) die("the gradients' %lld elements are no whole pieces", (long long)room);
    if (bucket < unit) bucket = unit;
    if (bucket > room) bucket = room;
    int n = (int)((room + bucket - 1) / bucket);
    Reducer r = {.group = group, .device = device, .gradients = gradients, .bucket = bucket, .n_buckets = n};
    r.final = xcalloc((size_t)n, sizeof *r.final);
    r.reduced = xcalloc((size_t)n, sizeof *r.reduced);
    r.gathered = xcalloc((size_t)n, sizeof *r.gathered);
    memset(r.gathered, true, (size_t)n * sizeof *r.gathered);
    if (half != DTYPE_F32)
        r.half = tensor_1d(device->allocate(device, (size_t)bucket * dtype_size(half)), half, bucket);
    return r;
}

void reducer_close(Reducer *r) {
    if (tensor_given(r->half)) r->device->release(r->device, r->half.data, tensor_bytes(r->half));
    FREE(r->final, r->reduced, r->gathered);
    *r = (Reducer){0};
}

FlatRange reducer_bucket(const Reducer *r, int bucket) {
    int64_t begin = bucket * r->bucket, end = begin + r->bucket, room = r->gradients.dims[0];
    return (FlatRange){begin, end < room ? end : room};
}

FlatRange reducer_piece(const Reducer *r, int bucket, int rank) {
    FlatRange whole = reducer_bucket(r, bucket);
    int64_t each = (whole.end - whole.begin) / r->group->size;
    return (FlatRange){whole.begin + rank * each, whole.begin + (rank + 1) * each};
}

Tensor flat_part(Tensor flat, FlatRange range) {
    return tensor_1d((char *)flat.data + (size_t)range.begin * dtype_size(flat.dtype), flat.dtype,
                     range.end - range.begin);
}

/* Reduces a bucket in the 16-bit type. */
static void reduce_half(const Reducer *r, Tensor all, FlatRange mine, bool gathered) {
    Tensor half = tensor_1d(r->half.data, r->half.dtype, all.dims[0]);
    cast(r->device, half, all);
    group_reduce_scatter(r->group, r->device, flat_part(half, mine), half, REDUCE_SUM);
    if (gathered) group_all_gather(r->group, r->device, half, flat_part(half, mine));
    if (gathered)
        cast(r->device, all, half);
    else
        cast(r->device, flat_part(all, mine), flat_part(half, mine));
}

static void reduce(Reducer *r, int bucket) {
    FlatRange whole = reducer_bucket(r, bucket), piece = reducer_piece(r, bucket, r->group->rank);
    Tensor all = flat_part(r->gradients, whole), mine = flat_part(r->gradients, piece);
    r->reduced[bucket] = true;
    device_beside(r->device, true);
    if (tensor_given(r->half)) {
        reduce_half(r, all, (FlatRange){piece.begin - whole.begin, piece.end - whole.begin}, r->gathered[bucket]);
    } else {
        group_reduce_scatter(r->group, r->device, mine, all, REDUCE_SUM);
        if (r->gathered[bucket]) group_all_gather(r->group, r->device, all, mine);
    }
    device_beside(r->device, false);
}

void reducer_begin(Reducer *r) {
    memset(r->final, 0, (size_t)r->n_buckets * sizeof *r->final);
    memset(r->reduced, 0, (size_t)r->n_buckets * sizeof *r->reduced);
}

void reducer_finished(void *context, int64_t begin, int64_t end) {
    Reducer *r = context;
    if (begin >= end) return;
    for (int k = (int)((end - 1) / r->bucket); k >= begin / r->bucket; k--) {
        FlatRange whole = reducer_bucket(r, k);
        int64_t from = begin > whole.begin ? begin : whole.begin, to = end < whole.end ? end : whole.end;
        r->final[k] += to - from;
        if (r->final[k] == whole.end - whole.begin && !r->reduced[k]) reduce(r, k);
    }
}

void reducer_finish(Reducer *r) {
    for (int k = r->n_buckets; k-- > 0;)
        if (!r->reduced[k]) reduce(r, k);
    device_mark(r->device, MARK_REDUCED);
    device_await(r->device, MARK_REDUCED);
}

void reducer_gather(Reducer *r) {
    for (int k = 0; k < r->n_buckets; k++)
        if (!r->gathered[k])
            group_all_gather(r->group, r->device, flat_part(r->gradients, reducer_bucket(r, k)),
                             flat_part(r->gradients, reducer_piece(r, k, r->group->rank)));
}
