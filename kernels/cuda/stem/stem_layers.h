/* Shared by the kernels of the temporal stem (stem_forward of ops.h). stem.cu has the statistics and the gradients
 * from sums; stem_half.cu and stem_f32.cu have the layers on tensor cores and by FMAs.
 *
 * A column is one position of the plane through all frames of a sample. No position depends on another column, so
 * every thread or warp has its own columns and walks along time. */
#pragma once

#include "kernels/cuda/memory.h"

/* c and o: channels between the two layers, and after the second. */
struct StemShape {
    int64_t sums; /* of a block of the backward pass: dw2 as [3, c, o], then S [c, 16], whose column 14 is D */
    int columns, frames, halved, plane, c, o; /* 32 bits: longer divisions are calls */
    float slope;

    /* Row of x, or of y with `frames` halved, of a column in frame 0; frames are `plane` rows apart. */
    GPU_INLINE int64_t row(int column, int frames) const {
        int sample = column / plane;
        return (int64_t)sample * frames * plane + (column - sample * plane);
    }
};

inline StemShape stem_shape(const char *op, Tensor x, int64_t c, int64_t o, Stem stem) {
    int64_t columns = x.dims[0] / stem.frames;
    if (stem.frames > 1 << 20 || columns > INT32_MAX / 2)
        die("%s: %lld columns of %lld frames are too many", op, (long long)columns, (long long)stem.frames);
    return {c * (STEM_HALVING_TAPS * o + STEM_WINDOW + 2),
            (int)columns,
            (int)stem.frames,
            (int)stem_frames(stem),
            (int)stem.plane,
            (int)c,
            (int)o,
            stem.slope};
}

/* The parameters of both layers, as they are stored. */
template <class T> struct StemParams {
    const T *w, *w2;
    const float *mean, *rstd, *gain, *bias;

    /* Weight of number j of a window: channel j % 2 under tap j / 2, of which there are 7. */
    GPU_INLINE float first(const StemShape &shape, int c, int j) const {
        return c < shape.c && j < STEM_WINDOW ? to_float(w[c * STEM_WINDOW + j % 2 * STEM_TAPS + j / 2]) : 0.0f;
    }
    GPU_INLINE float second(const StemShape &shape, int o, int c, int tap) const {
        return o < shape.o && c < shape.c ? to_float(w2[(o * shape.c + c) * STEM_HALVING_TAPS + tap]) : 0.0f;
    }
    /* The norm is s scale + shift. */
    GPU_INLINE float scale(const StemShape &shape, int c) const { return c < shape.c ? rstd[c] * gain[c] : 0.0f; }
    GPU_INLINE float shift(const StemShape &shape, int c) const {
        return c < shape.c ? bias[c] - mean[c] * scale(shape, c) : 0.0f;
    }
};

/* The division of the backward's work among blocks: each of `blocks` gets `each` consecutive of `items`. There are just
 * enough blocks to keep the card busy, because every block writes its sums to memory. */
struct StemItems {
    int items, each, blocks;
    int most; /* the largest `blocks` for these items or fewer */
};

/* Divides the work into items of `across` columns and `piece` outputs each. */
inline StemItems stem_items(const Device *device, const StemShape &shape, int across, int piece) {
    int64_t items = ceil_div(shape.columns, across) * ceil_div(shape.halved, piece);
    if (items > INT32_MAX / 2) die("stem_backward: too large, %lld pieces", (long long)items);
    int64_t wanted = 4 * cuda_state(device)->n_multiprocessors, each = ceil_div(items, wanted);
    return {(int)items, (int)each, (int)ceil_div(items, each), (int)(items < wanted ? items : wanted)};
}

/* The layers in one type. backward writes the sums of its blocks one after the other to scratch memory, after
 * `doubles` free doubles, and returns the number of blocks. */
template <class T> struct StemLayers {
    static void forward(Device *device, T *y, const T *x, const StemParams<T> &params, const StemShape &shape);
    static int64_t backward(Device *device, int64_t doubles, double **scratch, const T *dy, const T *x,
                            const StemParams<T> &params, const StemShape &shape);
};
extern template struct StemLayers<float>; /* instantiated in stem_f32.cu and stem_half.cu */
extern template struct StemLayers<bf16>;
extern template struct StemLayers<f16>;
