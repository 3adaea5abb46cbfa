#include "train/parallel/shards.h"

#include <stdlib.h>
#include <string.h>

/* Appends the part of a segment in a range, counted from the range's beginning. Its first row may be cut off: that
 * becomes a segment of its own, so that the rows of the rest begin where the mask says. Returns the number of all. */
static int cut(Segment *out, int n, const Segment *s, FlatRange range) {
    int64_t begin = s->begin > range.begin ? s->begin : range.begin, end = s->end < range.end ? s->end : range.end;
    while (begin < end) {
        Segment part = *s;
        int64_t row = s->used ? (begin - s->begin) / s->width : 0, into = s->used ? (begin - s->begin) % s->width : 0;
        int64_t stop = into && begin + s->width - into < end ? begin + s->width - into : end;
        part.begin = begin - range.begin, part.end = stop - range.begin;
        if (s->used) {
            part.used = s->used + row;
            part.count = (int64_t)((double)s->count * (double)(stop - begin) / (double)(s->end - s->begin));
        }
        out[n++] = part;
        begin = stop;
    }
    return n;
}

void shards_use(Shards *s, const ParamUpdates *updates) {
    const Reducer *r = s->reducer;
    int n = 0;
    s->updates = updates;
    FREE(s->segments, s->first);
    s->segments = xcalloc(2 * (size_t)(s->updates->n_adamw + 1) * (size_t)r->n_buckets, sizeof *s->segments);
    s->first = xcalloc((size_t)r->n_buckets + 1, sizeof *s->first);
    for (int k = 0; k < r->n_buckets; k++) {
        FlatRange piece = reducer_piece(r, k, r->group->rank);
        for (int i = 0; i < s->updates->n_adamw; i++) n = cut(s->segments, n, &s->updates->segments[i], piece);
        s->first[k + 1] = n;
    }
}

/* Lists the matrices: the columns of one parameter together. */
static void list_matrices(Shards *s, const ParamUpdates *u) {
    s->matrices = xcalloc((size_t)u->n_matrices + 1, sizeof *s->matrices);
    for (int i = 0; i < u->n_matrices; i++) {
        const MuonMatrix *w = &u->matrices[i];
        int64_t end = w->offset + (w->rows - 1) * w->stride + w->columns;
        ShardedMatrices *last = s->n_matrices ? &s->matrices[s->n_matrices - 1] : NULL;
        if (last && w->offset < last->range.end) {
            last->end = i + 1;
            if (end > last->range.end) last->range.end = end;
        } else {
            s->matrices[s->n_matrices++] = (ShardedMatrices){i, i + 1, {w->offset, end}, 0, 0};
        }
    }
}

/* Deals out the matrices, each to the rank that has the fewest elements so far, and has the buckets that hold them
 * gathered. */
static void deal_matrices(Shards *s, Reducer *r) {
    OWNED int64_t *loads = xcalloc((size_t)r->group->size, sizeof *loads);
    for (ShardedMatrices *w = s->matrices; w < s->matrices + s->n_matrices; w++) {
        int64_t n = w->range.end - w->range.begin;
        for (int rank = 1; rank < r->group->size; rank++)
            if (loads[rank] < loads[w->owner]) w->owner = rank;
        loads[w->owner] += n;
        w->place = s->pieces + s->momenta;
        if (w->owner == r->group->rank) s->momenta += (n + 15) / 16 * 16;
    }
    for (int k = 0; k < r->n_buckets; k++) {
        FlatRange whole = reducer_bucket(r, k);
        r->gathered[k] = false;
        for (const ShardedMatrices *w = s->matrices; w < s->matrices + s->n_matrices; w++)
            r->gathered[k] |= w->range.begin < whole.end && w->range.end > whole.begin;
    }
}

Shards shards_open(Reducer *reducer, const ParamUpdates *updates) {
    Shards s = {.reducer = reducer};
    s.pieces = reducer->gradients.dims[0] / reducer->group->size;
    list_matrices(&s, updates);
    deal_matrices(&s, reducer);
    return s;
}

void shards_close(Shards *s) {
    FREE(s->matrices, s->segments, s->first);
    *s = (Shards){0};
}

int64_t shards_m_count(const Shards *s) { return s->pieces + s->momenta; }
int64_t shards_v_count(const Shards *s) { return s->pieces; }

static FlatRange own(const Shards *s, int bucket) { return reducer_piece(s->reducer, bucket, s->reducer->group->rank); }

static Tensor part_or_none(Tensor flat, FlatRange range) { return tensor_given(flat) ? flat_part(flat, range) : flat; }

/* Returns buffers whose first element is the first of a range; its moments are elements `moments` of m and, if it has
 * any, of v. */
static AdamWBuffers buffers_of(AdamWBuffers b, FlatRange range, FlatRange moments, bool has_v) {
    b.params = flat_part(b.params, range), b.grads = flat_part(b.grads, range), b.copy = part_or_none(b.copy, range);
    b.m = flat_part(b.m, moments), b.v = has_v ? flat_part(b.v, moments) : tensor_none();
    return b;
}

/* Returns where the momenta of a rank's own matrices lie in m. */
static FlatRange momenta(const ShardedMatrices *w) {
    return (FlatRange){w->place, w->place + w->range.end - w->range.begin};
}

static bool is_own(const Shards *s, const ShardedMatrices *w) { return w->owner == s->reducer->group->rank; }

static void update_matrices(const Shards *s, AdamWBuffers buffers, Tensor norm, Tensor loss_scale, Muon muon) {
    for (const ShardedMatrices *w = s->matrices; w < s->matrices + s->n_matrices; w++) {
        if (!is_own(s, w)) continue;
        AdamWBuffers own_buffers = buffers_of(buffers, w->range, momenta(w), false);
        for (int i = w->first; i < w->end; i++) {
            MuonMatrix matrix = s->updates->matrices[i];
            matrix.offset -= w->range.begin;
            muon_update(s->reducer->device, own_buffers, norm, loss_scale, matrix, muon);
        }
    }
}

void shards_update(const Shards *s, AdamWBuffers buffers, Tensor norm, Tensor loss_scale, AdamW adamw, Muon muon) {
    int64_t at = 0;
    for (int k = 0; k < s->reducer->n_buckets; k++) {
        FlatRange piece = own(s, k), moments = {at, at + piece.end - piece.begin};
        int n = s->first[k + 1] - s->first[k];
        if (n)
            adamw_update(s->reducer->device, buffers_of(buffers, piece, moments, true), norm, loss_scale,
                         s->segments + s->first[k], n, adamw);
        at = moments.end;
    }
    update_matrices(s, buffers, norm, loss_scale, muon);
}

void shards_send_matrices(const Shards *s, Tensor params) {
    const Reducer *r = s->reducer;
    for (const ShardedMatrices *w = s->matrices; w < s->matrices + s->n_matrices; w++)
        group_broadcast(r->group, r->device, flat_part(params, w->range), w->owner);
}

/* The owner of a piece sends the matrices in it, too, so it must have them first. */
void shards_gather(const Shards *s, Tensor params) {
    const Reducer *r = s->reducer;
    shards_send_matrices(s, params);
    for (int k = 0; k < r->n_buckets; k++)
        group_all_gather(r->group, r->device, flat_part(params, reducer_bucket(r, k)), flat_part(params, own(s, k)));
}

/* Copies a bucket that has been gathered on the device to a whole buffer on the host. */
static void collect(const Shards *s, Tensor pieces, float *whole) {
    const Reducer *r = s->reducer;
    int64_t at = 0, room = r->bucket;
    Tensor scratch = tensor_1d(r->device->allocate(r->device, (size_t)room * sizeof(float)), DTYPE_F32, room);
    for (int k = 0; k < r->n_buckets; k++) {
        FlatRange bucket = reducer_bucket(r, k), piece = own(s, k);
        int64_t n = piece.end - piece.begin;
        Tensor all = flat_part(scratch, (FlatRange){0, bucket.end - bucket.begin});
        group_all_gather(r->group, r->device, all, flat_part(pieces, (FlatRange){at, at + n}));
        if (whole) r->device->download(r->device, whole + bucket.begin, all.data, tensor_bytes(all));
        at += n;
    }
    r->device->release(r->device, scratch.data, tensor_bytes(scratch));
}

/* Copies the momenta of matrices to a whole buffer on the host. */
static void collect_matrices(const Shards *s, const ShardedMatrices *w, Tensor m, float *whole) {
    const Reducer *r = s->reducer;
    int64_t n = w->range.end - w->range.begin;
    Tensor scratch = tensor_1d(r->device->allocate(r->device, (size_t)n * sizeof(float)), DTYPE_F32, n);
    if (is_own(s, w)) cast(r->device, scratch, flat_part(m, momenta(w)));
    group_broadcast(r->group, r->device, scratch, w->owner);
    if (whole) r->device->download(r->device, whole + w->range.begin, scratch.data, tensor_bytes(scratch));
    r->device->release(r->device, scratch.data, tensor_bytes(scratch));
}

void shards_collect(const Shards *s, Tensor m, Tensor v, float *whole_m, float *whole_v) {
    collect(s, m, whole_m);
    collect(s, v, whole_v);
    for (int i = 0; i < s->n_matrices; i++) collect_matrices(s, &s->matrices[i], m, whole_m);
}

void shards_take(const Shards *s, Tensor m, Tensor v, const float *whole_m, const float *whole_v) {
    const Reducer *r = s->reducer;
    int64_t at = 0;
    for (int k = 0; k < r->n_buckets; k++) {
        FlatRange piece = own(s, k), to = {at, at + piece.end - piece.begin};
        Tensor parts[] = {flat_part(m, to), flat_part(v, to)};
        r->device->upload(r->device, parts[0].data, whole_m + piece.begin, tensor_bytes(parts[0]));
        r->device->upload(r->device, parts[1].data, whole_v + piece.begin, tensor_bytes(parts[1]));
        at = to.end;
    }
    for (const ShardedMatrices *w = s->matrices; w < s->matrices + s->n_matrices; w++) {
        if (!is_own(s, w)) continue;
        Tensor to = flat_part(m, momenta(w));
        r->device->upload(r->device, to.data, whole_m + w->range.begin, tensor_bytes(to));
    }
    r->device->synchronize(r->device);
}
