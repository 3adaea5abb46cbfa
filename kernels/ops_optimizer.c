/* Door functions of the optimizer: sums, norms, AdamW, Muon, the loss scale, copies. */
#include "kernels/door.h"

#include <stdlib.h>

void sum_forward(Device *device, Tensor out, Tensor x) {
    door_expect("sum_forward", "out", out, DTYPE_F32, 1, 0);
    door_expect("sum_forward", "x", x, DTYPE_F32, -1, 0);
    DISPATCH(sum_forward, (double)tensor_numel(x), ACCESSES(door_reads(x), door_writes(out)), device, out, x);
}

enum { SEGMENT_BUFFERS = 5 };

/* A call's work in segments: of each buffer the elements that take part, the masks, and a number that all share. */
typedef struct {
    double elements;
    Accesses accesses;
    TrafficAccess few[SEGMENT_BUFFERS + 2]; /* in all */
    TrafficAccess *list;                    /* by segment, for a device that follows where they lie */
} SegmentWork;

static void segment_work_free(SegmentWork *work) { free(work->list); }

static void check_segment(const char *op, int64_t length, const Segment *s, int i) {
    if (s->begin < 0 || s->begin > s->end || s->end > length)
        die("%s: segment %d is %lld .. %lld, the buffer has %lld elements", op, i, (long long)s->begin,
            (long long)s->end, (long long)length);
    if (s->used && (s->width < 1 || s->width > INT32_MAX || s->count < 0 || s->count > s->end - s->begin))
        die("%s: %lld elements in rows of %lld take part in segment %d of %lld elements", op, (long long)s->count,
            (long long)s->width, i, (long long)(s->end - s->begin));
}

/* The part of a flat buffer's access from element `begin` to `end`, of which so many take part: at its beginning, as
 * far as the list knows. */
static TrafficAccess access_to(TrafficAccess buffer, int64_t length, int64_t begin, int64_t end, double taking) {
    size_t size = length ? buffer.span / (size_t)length : 0;
    if (buffer.at) buffer.at = (const char *)buffer.at + (size_t)begin * size;
    buffer.span = (size_t)(end - begin) * size;
    buffer.bytes = buffer.at ? taking * (double)size : 0;
    return buffer;
}

/* Checks the segments, and lists what a call accesses: of the parts of segments that begin at elements begin .. end - 1
 * (norm_pieces), the masks and those parts of `buffers`, flat ones of `length` elements, and `shared`. */
static void segment_work(SegmentWork *work, const Device *device, const char *op, int64_t length,
                         const Segment *segments, int n_segments, int64_t begin, int64_t end, Accesses buffers,
                         TrafficAccess shared) {
    double masks = 0;
    if (device->traffic) work->list = xcalloc((size_t)n_segments * ((size_t)buffers.n + 1) + 1, sizeof *work->list);
    TrafficAccess *to = work->list;
    for (int i = 0; i < n_segments; i++) {
        const Segment *s = &segments[i];
        check_segment(op, length, s, i);
        NormPieces p = norm_pieces(s, begin, end);
        if (p.first == p.end) continue;
        int64_t from = p.first * NORM_PIECE, until = p.end * NORM_PIECE;
        if (from < s->begin) from = s->begin;
        if (until > s->end) until = s->end;
        double share = (double)(until - from) / (double)(s->end - s->begin);
        double taking = share * (double)segment_count(s), rows = s->used ? share * (double)segment_rows(s) : 0;
        work->elements += taking;
        masks += rows;
        if (!to) continue;
        if (s->used) *to++ = (TrafficAccess){.at = s->used, .span = (size_t)rows, .bytes = rows, .reads = true};
        for (int b = 0; b < buffers.n; b++) *to++ = access_to(buffers.each[b], length, from, until, taking);
    }
    if (!to) {
        to = work->few;
        for (int b = 0; b < buffers.n; b++) *to++ = access_to(buffers.each[b], length, 0, length, work->elements);
        *to++ = (TrafficAccess){.bytes = masks, .reads = true};
    }
    *to++ = shared;
    const TrafficAccess *first = work->list ? work->list : work->few;
    work->accesses = (Accesses){first, (int)(to - first)};
}

void sum_squares(Device *device, Tensor squares, Tensor grads, const Segment *segments, int n_segments, int64_t begin,
                 int64_t end) {
    const char *op = "sum_squares";
    door_expect(op, "squares", squares, DTYPE_F32, NORM_FLOATS * norm_parts(segments, n_segments), 0);
    door_expect(op, "grads", grads, DTYPE_F32, -1, 0);
    if (begin < 0 || begin > end || end > grads.dims[0])
        die("%s: elements %lld .. %lld of %lld", op, (long long)begin, (long long)end, (long long)grads.dims[0]);
    OWNED_BY(segment_work_free) SegmentWork work = {0};
    segment_work(&work, device, op, grads.dims[0], segments, n_segments, begin, end, ACCESSES(door_reads(grads)),
                 door_reads(tensor_none()));
    DISPATCH(sum_squares, 2 * work.elements, work.accesses, device, squares, grads, segments, n_segments, begin, end);
}

void finish_norm(Device *device, Tensor norm, Tensor squares, Tensor loss_scale) {
    door_expect("finish_norm", "norm", norm, DTYPE_F32, 1, 0);
    door_expect("finish_norm", "squares", squares, DTYPE_F32, -1, 0);
    door_expect_loss_scale("finish_norm", loss_scale);
    DISPATCH(finish_norm, 0, ACCESSES(door_writes(norm)), device, norm, squares, loss_scale);
}

/* Checks what both optimizers read and write. Returns the length of the buffers. */
static int64_t check_update(const Device *device, const char *op, AdamWBuffers buffers, Tensor norm,
                            Tensor loss_scale) {
    door_expect(op, "params", buffers.params, DTYPE_F32, -1, 0);
    int64_t length = buffers.params.dims[0];
    door_expect_optional(op, "copy", buffers.copy, door_activation_type(device, op, "copy", buffers.copy), length, 0);
    door_expect(op, "m", buffers.m, DTYPE_F32, length, 0);
    door_expect(op, "grads", buffers.grads, DTYPE_F32, length, 0);
    door_expect_optional(op, "rates", buffers.rates, DTYPE_F32, -1, 0);
    door_expect(op, "norm", norm, DTYPE_F32, 1, 0);
    door_expect_loss_scale(op, loss_scale);
    return length;
}

static void check_group(const char *op, int group, Tensor rates) {
    if (tensor_given(rates) && (group < 0 || group >= rates.dims[0]))
        die("%s: group %d of %lld", op, group, (long long)rates.dims[0]);
}

void adamw_update(Device *device, AdamWBuffers buffers, Tensor norm, Tensor loss_scale, const Segment *segments,
                  int n_segments, AdamW options) {
    const char *op = "adamw_update";
    int64_t length = check_update(device, op, buffers, norm, loss_scale);
    door_expect(op, "v", buffers.v, DTYPE_F32, length, 0);
    for (int i = 0; i < n_segments; i++) check_group(op, segments[i].group, buffers.rates);
    OWNED_BY(segment_work_free) SegmentWork work = {0};
    segment_work(&work, device, op, length, segments, n_segments, 0, length,
                 ACCESSES(door_reads(buffers.grads), door_adds(buffers.params), door_adds(buffers.m),
                          door_adds(buffers.v), door_writes(buffers.copy)),
                 door_reads(norm));
    DISPATCH(adamw_update, 14 * work.elements, work.accesses, device, buffers, norm, loss_scale, segments, n_segments,
             options);
}

/* Multiply-adds of a step with s the shorter side and l the longer one: A and its product with X s s l each, A A s s s;
 * the sum of the three is 3 s s. The rest is 13 a number: momentum, length, division, update. */
static double muon_flops(MuonMatrix w) {
    double l = (double)w.rows, s = (double)w.columns;
    if (s > l) l = s, s = (double)w.rows;
    return MUON_STEPS * s * s * (4 * l + 2 * s + 3) + 13 * s * l;
}

/* Returns the access to a matrix of a flat buffer, with its rows taken to follow each other. */
static TrafficAccess matrix_part(TrafficAccess flat, int64_t length, MuonMatrix w) {
    size_t size = flat.span / (size_t)length, elements = (size_t)(w.rows * w.columns);
    if (flat.at) flat.at = (const char *)flat.at + (size_t)w.offset * size;
    flat.span = elements * size;
    return door_part(flat, (double)flat.span);
}

void muon_update(Device *device, AdamWBuffers buffers, Tensor norm, Tensor loss_scale, MuonMatrix w, Muon options) {
    const char *op = "muon_update";
    int64_t length = check_update(device, op, buffers, norm, loss_scale);
    if (w.rows < 1 || w.columns < 1 || w.stride < w.columns || w.offset < 0 ||
        w.offset + (w.rows - 1) * w.stride + w.columns > length)
        die("%s: a matrix [%lld, %lld] with rows %lld apart at element %lld, the buffer has %lld elements", op,
            (long long)w.rows, (long long)w.columns, (long long)w.stride, (long long)w.offset, (long long)length);
    if (!(options.momentum >= 0 && options.momentum < 1))
        die("%s: the momentum is %g, expected at least 0 and less than 1", op, (double)options.momentum);
    check_group(op, w.group, buffers.rates);
    DISPATCH(muon_update, muon_flops(w),
             ACCESSES(matrix_part(door_reads(buffers.grads), length, w),
                      matrix_part(door_adds(buffers.params), length, w), matrix_part(door_adds(buffers.m), length, w),
                      matrix_part(door_writes(buffers.copy), length, w), door_reads(norm)),
             device, buffers, norm, loss_scale, w, options);
}

void loss_scale_update(Device *device, Tensor loss_scale, Tensor norm, Tensor stopped) {
    const char *op = "loss_scale_update";
    door_expect(op, "loss_scale", loss_scale, DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    door_expect(op, "norm", norm, DTYPE_F32, 1, 0);
    door_expect_optional(op, "stopped", stopped, DTYPE_F32, 1, 0);
    DISPATCH(loss_scale_update, 0, ACCESSES(door_adds(loss_scale), door_reads(norm), door_reads(stopped)), device,
             loss_scale, norm, stopped);
}

void norm_guard(Device *device, Tensor norm, Tensor stopped, Tensor sums, bool overflow_is_fine) {
    door_expect("norm_guard", "norm", norm, DTYPE_F32, 1, 0);
    door_expect_optional("norm_guard", "stopped", stopped, DTYPE_F32, 1, 0);
    door_expect("norm_guard", "sums", sums, DTYPE_F32, -1, 0);
    DISPATCH(norm_guard, 0, ACCESSES(door_adds(norm), door_adds(stopped), door_reads(sums)), device, norm, stopped,
             sums, overflow_is_fine);
}

void copy_segments(Device *device, Tensor to, Tensor from, Tensor norm, const Segment *segments, int n_segments) {
    door_expect("copy_segments", "to", to, DTYPE_F32, -1, 0);
    door_expect("copy_segments", "from", from, DTYPE_F32, to.dims[0], 0);
    door_expect_optional("copy_segments", "norm", norm, DTYPE_F32, 1, 0);
    OWNED_BY(segment_work_free) SegmentWork work = {0};
    segment_work(&work, device, "copy_segments", to.dims[0], segments, n_segments, 0, to.dims[0],
                 ACCESSES(door_reads(from), door_writes(to)), door_reads(norm));
    DISPATCH(copy_segments, 0, work.accesses, device, to, from, norm, segments, n_segments);
}

void clear_segments(Device *device, Tensor x, const Segment *segments, int n_segments) {
    door_expect("clear_segments", "x", x, DTYPE_F32, -1, 0);
    OWNED_BY(segment_work_free) SegmentWork work = {0};
    segment_work(&work, device, "clear_segments", x.dims[0], segments, n_segments, 0, x.dims[0],
                 ACCESSES(door_writes(x)), (TrafficAccess){0});
    DISPATCH(clear_segments, 0, work.accesses, device, x, segments, n_segments);
}
