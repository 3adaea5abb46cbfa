/* Door functions of the optimizer: sums, norms, AdamW, Muon, the loss scale, copies. */
#include "kernels/door.h"

void sum_forward(Device *device, Tensor out, Tensor x) {
    door_expect("sum_forward", "out", out, DTYPE_F32, 1, 0);
    door_expect("sum_forward", "x", x, DTYPE_F32, -1, 0);
    DISPATCH(sum_forward, (double)tensor_numel(x), door_bytes(x) + 4, device, out, x);
}

typedef struct {
    double elements; /* that take part */
    double masks;    /* bytes */
} SegmentWork;

static SegmentWork segment_work(const char *op, Tensor flat, const Segment *segments, int n_segments) {
    SegmentWork work = {0};
    for (int i = 0; i < n_segments; i++) {
        const Segment *s = &segments[i];
        if (s->begin < 0 || s->begin > s->end || s->end > flat.dims[0])
            die("%s: segment %d is %lld .. %lld, the buffer has %lld elements", op, i, (long long)s->begin,
                (long long)s->end, (long long)flat.dims[0]);
        if (s->used && (s->width < 1 || s->width > INT32_MAX || s->count < 0 || s->count > s->end - s->begin))
            die("%s: %lld elements in rows of %lld take part in segment %d of %lld elements", op, (long long)s->count,
                (long long)s->width, i, (long long)(s->end - s->begin));
        work.elements += (double)segment_count(s);
        if (s->used) work.masks += (double)segment_rows(s);
    }
    return work;
}

void sum_squares(Device *device, Tensor squares, Tensor grads, const Segment *segments, int n_segments, int64_t begin,
                 int64_t end) {
    const char *op = "sum_squares";
    door_expect(op, "squares", squares, DTYPE_F32, NORM_FLOATS * norm_parts(segments, n_segments), 0);
    door_expect(op, "grads", grads, DTYPE_F32, -1, 0);
    if (begin < 0 || begin > end || end > grads.dims[0])
        die("%s: elements %lld .. %lld of %lld", op, (long long)begin, (long long)end, (long long)grads.dims[0]);
    SegmentWork work = {0};
    for (int i = 0; i < n_segments; i++) {
        const Segment *s = &segments[i];
        NormPieces p = norm_pieces(s, begin, end);
        SegmentWork all = segment_work(op, grads, s, 1);
        if (p.first == p.end) continue;
        int64_t from = p.first * NORM_PIECE, to = p.end * NORM_PIECE;
        double taken = (double)((to < s->end ? to : s->end) - (from > s->begin ? from : s->begin));
        work.elements += all.elements * taken / (double)(s->end - s->begin);
        work.masks += all.masks * taken / (double)(s->end - s->begin);
    }
    DISPATCH(sum_squares, 2 * work.elements, 4 * work.elements + work.masks, device, squares, grads, segments,
             n_segments, begin, end);
}

void finish_norm(Device *device, Tensor norm, Tensor squares, Tensor loss_scale) {
    door_expect("finish_norm", "norm", norm, DTYPE_F32, 1, 0);
    door_expect("finish_norm", "squares", squares, DTYPE_F32, -1, 0);
    door_expect_loss_scale("finish_norm", loss_scale);
    DISPATCH(finish_norm, 0, 4, device, norm, squares, loss_scale);
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
    for (int i = 0; i < n_segments; i++) check_group(op, segments[i].group, buffers.rates);
    door_expect(op, "v", buffers.v, DTYPE_F32, check_update(device, op, buffers, norm, loss_scale), 0);
    SegmentWork work = segment_work(op, buffers.grads, segments, n_segments);
    DISPATCH(adamw_update, 14 * work.elements, (tensor_given(buffers.copy) ? 30 : 28) * work.elements + work.masks + 4,
             device, buffers, norm, loss_scale, segments, n_segments, options);
}

/* Multiply-adds of a step with s the shorter side and l the longer one: A and its product with X s s l each, A A s s s;
 * the sum of the three is 3 s s. The rest is 13 a number: momentum, length, division, update. */
static double muon_flops(MuonMatrix w) {
    double l = (double)w.rows, s = (double)w.columns;
    if (s > l) l = s, s = (double)w.rows;
    return MUON_STEPS * s * s * (4 * l + 2 * s + 3) + 13 * s * l;
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
    double n = (double)w.rows * (double)w.columns, bytes = tensor_given(buffers.copy) ? 22 : 20;
    DISPATCH(muon_update, muon_flops(w), bytes * n + 4, device, buffers, norm, loss_scale, w, options);
}

void loss_scale_update(Device *device, Tensor loss_scale, Tensor norm, Tensor stopped) {
    const char *op = "loss_scale_update";
    door_expect(op, "loss_scale", loss_scale, DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    door_expect(op, "norm", norm, DTYPE_F32, 1, 0);
    door_expect_optional(op, "stopped", stopped, DTYPE_F32, 1, 0);
    DISPATCH(loss_scale_update, 0, 2 * door_bytes(loss_scale) + 4 + door_bytes(stopped), device, loss_scale, norm,
             stopped);
}

void norm_guard(Device *device, Tensor norm, Tensor stopped, Tensor sums, bool overflow_is_fine) {
    door_expect("norm_guard", "norm", norm, DTYPE_F32, 1, 0);
    door_expect_optional("norm_guard", "stopped", stopped, DTYPE_F32, 1, 0);
    door_expect("norm_guard", "sums", sums, DTYPE_F32, -1, 0);
    DISPATCH(norm_guard, 0, 8 + 2 * door_bytes(stopped) + door_bytes(sums), device, norm, stopped, sums,
             overflow_is_fine);
}

void copy_segments(Device *device, Tensor to, Tensor from, Tensor norm, const Segment *segments, int n_segments) {
    door_expect("copy_segments", "to", to, DTYPE_F32, -1, 0);
    door_expect("copy_segments", "from", from, DTYPE_F32, to.dims[0], 0);
    door_expect_optional("copy_segments", "norm", norm, DTYPE_F32, 1, 0);
    SegmentWork work = segment_work("copy_segments", to, segments, n_segments);
    DISPATCH(copy_segments, 0, 8 * work.elements + work.masks + door_bytes(norm), device, to, from, norm, segments,
             n_segments);
}

void clear_segments(Device *device, Tensor x, const Segment *segments, int n_segments) {
    door_expect("clear_segments", "x", x, DTYPE_F32, -1, 0);
    SegmentWork work = segment_work("clear_segments", x, segments, n_segments);
    DISPATCH(clear_segments, 0, 4 * work.elements + work.masks, device, x, segments, n_segments);
}
