#include "train/gradient_norm.h"

/* Elements that are summed at once while a pass runs: 8 MB, whose reading takes longer than a launch on any card. */
enum { AT_ONCE = 1 << 21 };

GradientNorm gradient_norm_open(Device *device, Tensor gradients, const Segment *segments, int n_segments) {
    int64_t n = NORM_FLOATS * norm_parts(segments, n_segments);
    return (GradientNorm){.device = device,
                          .gradients = gradients,
                          .segments = segments,
                          .n_segments = n_segments,
                          .squares = tensor_1d(device->allocate(device, (size_t)n * sizeof(float)), DTYPE_F32, n)};
}

void gradient_norm_close(GradientNorm *norm) {
    norm->device->release(norm->device, norm->squares.data, tensor_bytes(norm->squares));
    *norm = (GradientNorm){0};
}

void gradient_norm_begin(GradientNorm *norm) { norm->n_runs = 0; }

static void sum(const GradientNorm *norm, int64_t begin, int64_t end) {
    if (begin < end)
        sum_squares(norm->device, norm->squares, norm->gradients, norm->segments, norm->n_segments, begin, end);
}

/* A part that begins in front of `to`, NORM_PIECE elements before the end of its run, does not reach beyond the run. */
void gradient_norm_finished(void *context, int64_t begin, int64_t end) {
    GradientNorm *norm = context;
    int last = norm->n_runs - 1;
    if (last < 0 || norm->runs[last].final != end) {
        if (norm->n_runs == NORM_RUNS) return;
        last = norm->n_runs++;
        norm->runs[last].from = norm->runs[last].to = end > NORM_PIECE ? end - NORM_PIECE : 0;
    }
    norm->runs[last].final = begin;
    if (norm->runs[last].from - begin < AT_ONCE) return;
    sum(norm, begin, norm->runs[last].from);
    norm->runs[last].from = begin;
}

void gradient_norm_finish(GradientNorm *norm, Tensor out, Tensor loss_scale) {
    int64_t end = norm->gradients.dims[0];
    for (int i = 0; i < norm->n_runs; i++) {
        if (norm->runs[i].from == norm->runs[i].to) continue; /* nothing of it is summed */
        sum(norm, norm->runs[i].to, end);
        end = norm->runs[i].from;
    }
    sum(norm, 0, end);
    finish_norm(norm->device, out, norm->squares, loss_scale);
}
