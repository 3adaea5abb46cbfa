/* The windows of a convolution as a matrix product: the position of the inputs at which each row begins, and the taps
 * that lie inside. Used by the kernels of conv3d_kernel.h and of conv3d_runs.h. */
#pragma once

#include "kernels/cuda/conv3d/conv3d_product.h"
#include "kernels/cuda/gemm/gemm_kernel.h"

namespace {

/* n / divisor for n < 2^31 without a division (Granlund and Montgomery, 1994). */
struct Divider {
    uint32_t divisor, multiplier, shift;
    GPU_INLINE int divide(int n) const { return (int)((__umulhi((uint32_t)n, multiplier) + (uint32_t)n) >> shift); }
};

Divider divider_of(int divisor) {
    Divider d = {(uint32_t)divisor, 0, 0};
    while ((int64_t)1 << d.shift < divisor) d.shift++;
    d.multiplier = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << d.shift) - d.divisor)) / d.divisor + 1);
    return d;
}

/* Along one axis: row i of the product is output first + step i; its tap j sees input stride i + base + j, and has the
 * weights of torch's tap first_tap + step_tap j. */
struct Axis {
    int rows, first, step, outputs, inputs, stride, base, taps, first_tap, step_tap, all_taps;
};

/* The windows of a product. channels: those of the tensor that the windows read. */
struct Windows {
    Axis t, h, w;
    Divider rows_t, rows_h, rows_w;
    int channels;
    int k, rows, inputs; /* numbers of a window; windows, and input rows, of all samples */
};

/* A row of the product: its sample, and indices along the axes. */
struct Place {
    int sample, t, h, w;
    GPU_INLINE Place(const Windows &windows, int row) {
        int plane = windows.rows_w.divide(row), volume = windows.rows_h.divide(plane);
        sample = windows.rows_t.divide(volume);
        w = row - plane * windows.w.rows;
        h = plane - volume * windows.h.rows;
        t = volume - sample * windows.t.rows;
    }
    GPU_INLINE int output(const Windows &v) const {
        return ((sample * v.t.outputs + v.t.first + t * v.t.step) * v.h.outputs + v.h.first + h * v.h.step) *
                   v.w.outputs +
               v.w.first + w * v.w.step;
    }
};

/* The position of a window's first taps; `row` of the inputs may be negative. */
struct Corner {
    int t, h, w, row;
    GPU_INLINE Corner() {}
    GPU_INLINE Corner(const Windows &v, int row_of_product, int end) {
        Place place(v, row_of_product);
        t = place.t * v.t.stride + v.t.base;
        h = place.h * v.h.stride + v.h.base;
        w = place.w * v.w.stride + v.w.base;
        row = ((place.sample * v.t.inputs + t) * v.h.inputs + h) * v.w.inputs + w;
        if (row_of_product >= end) t = -(1 << 30); /* sees nothing */
    }
};

/* A position in a window: k counts taps, and channels fastest. */
struct Tap {
    int t, h, w, channel;
    GPU_INLINE Tap(const Windows &v, int k) : t(0), h(0), w(0), channel(0) { advance(v, k); }
    GPU_INLINE void advance(const Windows &v, int k) {
        channel += k;
        while (channel >= v.channels) {
            channel -= v.channels;
            if (++w < v.w.taps) continue;
            w = 0;
            if (++h < v.h.taps) continue;
            h = 0, t++;
        }
    }
    GPU_INLINE bool sees(const Windows &v, const Corner &c) const {
        return t < v.t.taps && (unsigned)(c.t + t) < (unsigned)v.t.inputs &&
               (unsigned)(c.h + h) < (unsigned)v.h.inputs && (unsigned)(c.w + w) < (unsigned)v.w.inputs;
    }
    GPU_INLINE int64_t index(const Windows &v, const Corner &c) const {
        return (int64_t)(c.row + (t * v.h.inputs + h) * v.w.inputs + w) * v.channels + channel;
    }
};

/* Stores the sums of a block whose tile begins in this row and column. */
template <class T, class Sums>
GPU_INLINE void write_products(const Output<T> &output, const Sums &products, const Windows &v, int row, int column,
                               bool add) {
    products.each([&](int i, int j, auto sums) {
        if (row + i >= v.rows || column + j >= output.n) return;
        int to = Place(v, row + i).output(v);
        if (add) sums = output.added(output.c + (int64_t)to * output.n + column + j, column + j, sums);
        output.write(0, to, column + j, sums);
    });
}

} // namespace
