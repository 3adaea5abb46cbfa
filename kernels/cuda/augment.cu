/* The augmentation of volumes of counts (the arithmetic of a pixel: kernels/augment.h), and mixup.
 *
 * One kernel finds what holds for all bins of a sample: its footprint, its field of displacements, the weights of its
 * blur, which it leaves in scratch memory. In the other a block has K bins of a sample in shared memory, as pixels of K
 * numbers: a thread that has found where a pixel comes from makes K bins of it. */
#include "kernels/augment.h"
#include "kernels/cuda/check_index.h"
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256, PREPARE_BLOCK = 512 };

/* The arguments of both kernels. In scratch a sample has its blur, [2, H W] dx, dy and [H W] footprint, 0 or 1. */
struct Volumes {
    const void *counts; /* [n_volumes, T, H W] */
    bool wide;          /* u16, not u8 */
    int64_t n_volumes;
    const int32_t *volumes;
    const AugmentDraws *draws;
    AugmentShape shape;
    float *scratch;
    GPU_INLINE int pixels() const { return shape.H * shape.W; }
    GPU_INLINE float *of_sample(int64_t sample) const { return scratch + sample * (SIZE_OF_BLUR + 3 * pixels()); }
    GPU_INLINE int count(int64_t at) const {
        return wide ? static_cast<const uint16_t *>(counts)[at] : static_cast<const uint8_t *>(counts)[at];
    }
    enum { SIZE_OF_BLUR = sizeof(AugmentGaussian) / 4 };
};

/* out = each pixel from its four of `in`. Here and below, what is read has been waited for, and so has what is written
 * when the function returns. */
template <int K>
GPU_INLINE void interpolate(Pack<float, K> *out, const Pack<float, K> *in, const AugmentDraws &d, const float *field,
                            int n, bool elastic) {
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
        AugmentTap tap =
            elastic ? augment_elastic_tap(i, field[n * n + i], field[i], n) : augment_zoom_tap(i, d.side, n);
        Pack<float, K> sum = in[tap.at[0]];
#pragma unroll
        for (int k = 0; k < K; k++) sum[k] *= tap.weight[0];
#pragma unroll
        for (int c = 1; c < 4; c++) {
            Pack<float, K> more = in[tap.at[c]];
#pragma unroll
            for (int k = 0; k < K; k++) sum[k] = fmaf(tap.weight[c], more[k], sum[k]);
        }
        out[i] = sum;
    }
    __syncthreads();
}

/* Smooths one axis by a Gaussian, y if `down`, times `size`. Beyond the edge the image is mirrored, or zero. */
template <int K>
GPU_INLINE void smooth_axis(Pack<float, K> *out, const Pack<float, K> *in, const AugmentGaussian &g, int n, bool down,
                            bool mirrored, float size) {
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
        int along = down ? i / n : i % n, first = down ? i % n : i - along, step = down ? n : 1;
        Pack<float, K> sum = zeros<K>();
        for (int j = -g.radius; j <= g.radius; j++) {
            int at = mirrored ? augment_mirror(along + j, n) : along + j;
            if (at < 0 || at >= n) continue;
            Pack<float, K> more = in[first + at * step];
#pragma unroll
            for (int k = 0; k < K; k++) sum[k] = fmaf(g.weight[j + g.radius], more[k], sum[k]);
        }
#pragma unroll
        for (int k = 0; k < K; k++) sum[k] *= size;
        out[i] = sum;
    }
    __syncthreads();
}

/* Applies all steps that combine pixels with other pixels. Returns the buffer of the result: a or b. */
template <int K>
GPU_INLINE Pack<float, K> *resample(Pack<float, K> *a, Pack<float, K> *b, const AugmentDraws &d, const float *field,
                                    const AugmentGaussian &blur, int n) {
    for (int elastic = 0; elastic < 2; elastic++) {
        if (elastic ? !d.elastic : !d.side) continue;
        interpolate(b, a, d, field, n, elastic);
        Pack<float, K> *made = b;
        b = a, a = made;
    }
    if (d.blur > 0) {
        smooth_axis(b, a, blur, n, true, true, 1.0f);
        smooth_axis(a, b, blur, n, false, true, 1.0f);
    }
    return a;
}

/* Transforms the footprint: takes the nearest pixel instead of interpolating. */
GPU_INLINE Pack<float, 1> *take_nearest(Pack<float, 1> *a, Pack<float, 1> *b, const AugmentDraws &d, const float *field,
                                        int n) {
    for (int elastic = 0; elastic < 2; elastic++) {
        if (elastic ? !d.elastic : !d.side) continue;
        for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
            AugmentTap tap =
                elastic ? augment_elastic_tap(i, field[n * n + i], field[i], n) : augment_zoom_tap(i, d.side, n);
            int at = augment_nearest(&tap);
            b[i][0] = at < 0 ? 0.0f : a[at][0];
        }
        __syncthreads();
        Pack<float, 1> *made = b;
        b = a, a = made;
    }
    return a;
}

/* A block a sample, which reads the volume once: where a pixel has photons in bins that stay in the picture. Weights
 * are the same at every time, so that what bins become wherever they are lit, their union becomes. Bytes: T H W of the
 * counts' type a sample. */
__global__ void __launch_bounds__(PREPARE_BLOCK) prepare(Volumes c, bool dilated, AugmentGaussian of_field) {
    DYNAMIC_SHARED(float, planes);
    SHARED(AugmentGaussian, blur, );
    int n = c.shape.H, pixels = n * n;
    int64_t sample = blockIdx.x, volume = c.volumes[sample];
    AugmentDraws d = c.draws[sample];
    check_index("augment_volumes: volumes", sample, volume, c.n_volumes);
    if (!augment_draws_fit(&d, c.shape)) complain("augment_volumes: draws", sample, 0, OUT_OF_RANGE);
    Pack<float, 1> *a = reinterpret_cast<Pack<float, 1> *>(planes), *b = a + pixels;
    float *to = c.of_sample(sample), *field = to + Volumes::SIZE_OF_BLUR, *footprint = field + 2 * pixels;
    if (threadIdx.x == blockDim.x - 1 && d.blur > 0) blur = augment_gaussian(d.blur);
    for (int axis = 0; axis < 2 && d.elastic; axis++) {
        for (int i = threadIdx.x; i < pixels; i += blockDim.x) a[i][0] = augment_field_noise(&d, c.shape, axis, i);
        __syncthreads();
        smooth_axis(b, a, of_field, n, true, false, 1.0f);
        smooth_axis(reinterpret_cast<Pack<float, 1> *>(field + axis * pixels), b, of_field, n, false, false,
                    AUGMENT_FIELD_SIZE);
    }
    int first = dilated ? max(0, -d.shift) : 0, end = c.shape.T - (dilated ? max(0, d.shift) : 0);
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
        int64_t from = volume * c.shape.T * pixels + augment_moved(&d, i, n);
        int seen = 0;
#pragma unroll 16
        for (int t = first; t < end; t++) seen |= c.count(from + t * pixels);
        a[i][0] = seen ? 1.0f : 0.0f;
    }
    __syncthreads();
    a = dilated ? resample(a, b, d, field, blur, n) : take_nearest(a, b, d, field, n);
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) footprint[i] = a[i][0] > 0 ? 1.0f : 0.0f;
    for (int i = threadIdx.x; i < Volumes::SIZE_OF_BLUR && d.blur > 0; i += blockDim.x)
        to[i] = reinterpret_cast<const float *>(&blur)[i];
}

/* Returns number `which` of a block of four normal numbers. */
GPU_INLINE float normal_of(const Philox &r, int which) {
    float a, b;
    augment_normals(which < 2 ? r.x[0] : r.x[2], which < 2 ? r.x[1] : r.x[3], &a, &b);
    return which % 2 ? b : a;
}

/* K bins of a pixel, shifted, scaled, moved, made noisy. K is 4, whose bins share a block of random numbers, or 1. */
template <int K>
GPU_INLINE Pack<float, K> load_bins(const Volumes &c, const AugmentDraws &d, int64_t volume, int first, int i) {
    int pixels = c.pixels(), moved = augment_moved(&d, i, c.shape.H);
    Pack<float, K> bins;
    bool dark = true;
#pragma unroll
    for (int k = 0; k < K; k++) {
        uint32_t from = (uint32_t)(first + k) - (uint32_t)d.shift, T = c.shape.T;
        bool inside = (uint32_t)(first + k) < T && from < T;
        bins[k] = inside ? d.scale * (float)c.count((volume * T + from) * pixels + moved) : 0.0f;
        dark = dark && !(bins[k] > 0);
    }
    if (!d.poisson || dark) return bins;
    Philox r = philox(augment_number(d.seed), augment_purpose(AUGMENT_STREAM_POISSON), d.epoch,
                      augment_poisson_block(&d, c.shape, first, i));
#pragma unroll
    for (int k = 0; k < K; k++) bins[k] = augment_poisson(bins[k], normal_of(r, K == 4 ? k : first % 4));
    return bins;
}

/* x [samples, T, H W, 2]. Grid: samples times T / K. Bytes: a count and two numbers of T a voxel. */
template <class T, int K>
__global__ void __launch_bounds__(BLOCK) augment(T *x, Volumes c, unsigned chunks, bool paired) {
    only_where_used<T>();
    DYNAMIC_SHARED(float, planes);
    SHARED(AugmentGaussian, blur, );
    int n = c.shape.H, pixels = n * n, first = blockIdx.x % chunks * K;
    int64_t sample = blockIdx.x / chunks, volume = c.volumes[sample];
    const float *from = c.of_sample(sample), *field = from + Volumes::SIZE_OF_BLUR, *footprint = field + 2 * pixels;
    AugmentDraws d = c.draws[sample];
    Pack<float, K> *a = reinterpret_cast<Pack<float, K> *>(planes), *b = a + pixels;
    for (int i = threadIdx.x; i < Volumes::SIZE_OF_BLUR && d.blur > 0; i += blockDim.x)
        reinterpret_cast<float *>(&blur)[i] = from[i];
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) a[i] = load_bins<K>(c, d, volume, first, i);
    __syncthreads();
    a = resample(a, b, d, field, blur, n);
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
        Pack<float, K> bins = a[i];
        float inside = footprint[i];
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (first + k >= c.shape.T) break;
            T *at = x + ((sample * c.shape.T + first + k) * pixels + i) * 2;
            Pack<float, 2> both = {{inside * augment_packed(bins[k]), inside}};
            if (paired)
                store_pack(at, convert<T>(both));
            else
                at[0] = from_float<T>(both[0]), at[1] = from_float<T>(both[1]);
        }
    }
}

/* y[s] = share x[s] + (1 - share) x[partners[s]], of n numbers each. Grid: samples times `blocks`. Bytes: three
 * numbers an element. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK)
    mix(T *y, const T *x, const int32_t *partners, const float *share, int64_t samples, int64_t n, unsigned blocks) {
    only_where_used<T>();
    int64_t s = blockIdx.x / blocks, partner = partners[s];
    int64_t i = ((int64_t)(blockIdx.x % blocks) * BLOCK + threadIdx.x) * W;
    check_index("mixup: partners", s, partner, samples);
    if (i >= n) return;
    float mine = *share, others = 1.0f - mine;
    Pack<float, W> a = convert<float>(load_pack<W>(x + s * n + i)),
                   b = convert<float>(load_pack<W>(x + partner * n + i));
#pragma unroll
    for (int k = 0; k < W; k++) a[k] = fmaf(mine, a[k], others * b[k]);
    store_pack(y + s * n + i, convert<T>(a));
}

template <class T, int K> void launch_augment(Device *device, T *x, const Volumes &c, int64_t samples) {
    int64_t chunks = ceil_div(c.shape.T, K);
    bool paired = reinterpret_cast<uintptr_t>(x) % (2 * sizeof(T)) == 0;
    cuda_check(gpu_launch(augment<T, K>, grid_of("augment_volumes", samples * chunks), BLOCK,
                          (size_t)(2 * c.shape.H * c.shape.W) * K * sizeof(float), cuda_stream(device), x, c,
                          (unsigned)chunks, paired),
               "augment_volumes");
}

} // namespace

void cuda_augment_volumes(Device *device, Tensor x, Tensor counts, Tensor volumes, Tensor draws, AugmentShape shape,
                          bool dilated) {
    int64_t samples = volumes.dims[0], pixels = (int64_t)shape.H * shape.W;
    if (!samples) return;
    size_t bytes = (size_t)samples * (Volumes::SIZE_OF_BLUR + 3 * (size_t)pixels) * sizeof(float);
    Volumes c = {counts.data,
                 counts.dtype == DTYPE_U16,
                 counts.dims[0],
                 (const int32_t *)volumes.data,
                 (const AugmentDraws *)draws.data,
                 shape,
                 (float *)cuda_scratch(device, bytes)};
    cuda_check(gpu_launch(prepare, grid_of("augment_volumes", samples), PREPARE_BLOCK,
                          (size_t)(2 * pixels) * sizeof(float), cuda_stream(device), c, dilated,
                          augment_gaussian(AUGMENT_FIELD_SIGMA)),
               "augment_volumes");
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (2 * pixels * 4 * (int64_t)sizeof(float) <= 46 << 10) /* of the 48 KB that every card has */
            launch_augment<T, 4>(device, (T *)x.data, c, samples);
        else
            launch_augment<T, 1>(device, (T *)x.data, c, samples);
    });
}

void cuda_mixup(Device *device, Tensor y, Tensor x, Tensor partners, Tensor share) {
    int64_t samples = partners.dims[0], n = samples ? tensor_numel(x) / samples : 0;
    if (!n) return;
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int WIDEST = Vector<T>::SIZE;
        with_width<WIDEST>(packs_fit(WIDEST, n, x.data, y.data), [&](auto width) {
            int64_t blocks = ceil_div(n, BLOCK * decltype(width)::value);
            cuda_check(gpu_launch(mix<T, decltype(width)::value>, grid_of("mixup", samples * blocks), BLOCK, 0,
                                  cuda_stream(device), (T *)y.data, (const T *)x.data, (const int32_t *)partners.data,
                                  (const float *)share.data, samples, n, (unsigned)blocks),
                       "mixup");
        });
    });
}
