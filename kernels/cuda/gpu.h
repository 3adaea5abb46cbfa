/* All that a kernel file needs. nvcc makes of it what it says; a C++ compiler, together with emulate/, a program that
 * runs the same kernels on the CPU, in which tests see every wrong barrier and index.
 *
 * What a kernel may use: templates, shared memory by the two macros below, warp functions with `_sync`, __syncthreads,
 * atomics, and the wrappers at the end, which hold the only inline PTX. What it may not: raw __shared__, <<<>>>,
 * __activemask, cooperative groups, and waiting for another block, because emulated blocks run one after another. */
#pragma once

#include <stdint.h>

#if defined __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
/* SHARED(float, tile, [64][72]): a variable of the block, 16-byte aligned. Not an array: SHARED(int, flag, ). */
#define SHARED(T, name, ...) __shared__ __align__(16) T name __VA_ARGS__
/* DYNAMIC_SHARED(T, name): T *name = the shared memory that the launch asked for. */
#define DYNAMIC_SHARED(T, name)                                                                                        \
    extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];                                             \
    T *name = reinterpret_cast<T *>(dynamic_shared_memory)

/* Queues kernel(arguments...), each converted to its parameter's type, with `bytes` of dynamic shared memory. */
template <class... P, class... A>
inline cudaError_t gpu_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes, cudaStream_t stream,
                              A &&...arguments) {
    kernel<<<grid, block, bytes, stream>>>(static_cast<P>(arguments)...);
    return cudaGetLastError();
}

/* Blocks a thread that must not continue while another one stops the kernel. */
__device__ __forceinline__ void wait_for_trap() {
    while (true) __nanosleep(1000);
}
#else
#include "kernels/cuda/emulate/emulate.h"
#endif

#define GPU_INLINE __device__ __forceinline__

typedef __nv_bfloat16 bf16;
typedef __half f16;

template <class T> struct is_bf16 { static constexpr bool value = false; };
template <> struct is_bf16<bf16> { static constexpr bool value = true; };

GPU_INLINE float to_float(float x) { return x; }
GPU_INLINE float to_float(bf16 x) { return __bfloat162float(x); }
GPU_INLINE float to_float(f16 x) { return __half2float(x); }

template <class T> GPU_INLINE T from_float(float x);
template <> GPU_INLINE float from_float<float>(float x) { return x; }
template <> GPU_INLINE bf16 from_float<bf16>(float x) { return __float2bfloat16_rn(x); }
template <> GPU_INLINE f16 from_float<f16>(float x) { return __float2half_rn(x); }

/* 16 bytes of T: the widest access of a thread. */
template <class T> struct alignas(16) Vector {
    static constexpr int SIZE = 16 / sizeof(T);
    T values[SIZE];
    GPU_INLINE T &operator[](int i) { return values[i]; }
    GPU_INLINE const T &operator[](int i) const { return values[i]; }
};
#if defined __CUDACC__
template <class T> GPU_INLINE Vector<T> load_vector(const T *p) { return *reinterpret_cast<const Vector<T> *>(p); }
template <class T> GPU_INLINE void store_vector(T *p, const Vector<T> &v) { *reinterpret_cast<Vector<T> *>(p) = v; }
/* Stores 16 or 8 bytes of global memory with one instruction. The compiler may split an assignment into one store per
 * number: it does so where conditions choose the numbers or the place. */
GPU_INLINE void store_at_once(uint4 *to, uint4 x) {
    asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(to)), "r"(x.x), "r"(x.y),
                 "r"(x.z), "r"(x.w)
                 : "memory");
}
GPU_INLINE void store_at_once(uint2 *to, uint2 x) {
    asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::"l"(__cvta_generic_to_global(to)), "r"(x.x), "r"(x.y) : "memory");
}
#else /* checks the address */
template <class T> GPU_INLINE Vector<T> load_vector(const T *p, EMULATE_SITE) {
    return __ldg(reinterpret_cast<const Vector<T> *>(p), site);
}
template <class T> GPU_INLINE void store_vector(T *p, const Vector<T> &v, EMULATE_SITE) {
    __stwb(reinterpret_cast<Vector<T> *>(p), v, site);
}
#endif

/* Packs two numbers of a 16-bit type into one register, x in the lower half. */
template <class T> GPU_INLINE uint32_t pack_pair(float x, float y) {
    if constexpr (is_bf16<T>::value) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
        return *reinterpret_cast<uint32_t *>(&pair);
    } else {
        __half2 pair = __floats2half2_rn(x, y);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
}
template <class T> GPU_INLINE float2 unpack_pair(uint32_t bits) {
    if constexpr (is_bf16<T>::value) /* the upper half of an f32 */
        return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000u));
    else
        return __half22float2(*reinterpret_cast<__half2 *>(&bits));
}

/* 2^x to about 2 units in the last place, 0 where that is subnormal: one instruction, where exp2f takes four. */
GPU_INLINE float exp2_approximate(float x) {
#if defined __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return emulate::exp2_approximate(x);
#endif
}

/* ---- sums and maxima; every lane or thread gets the result ---- */

GPU_INLINE float warp_sum(float x) {
#pragma unroll
    for (int lanes = 16; lanes; lanes /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, lanes);
    return x;
}

GPU_INLINE float warp_max(float x) {
#pragma unroll
    for (int lanes = 16; lanes; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, lanes));
    return x;
}

/* Returns the sum over a block of whole warps, added in a fixed order. scratch: 32 floats of shared memory, free again
 * on return. */
GPU_INLINE float block_sum(float x, float *scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    x = warp_sum(lane < warps ? scratch[lane] : 0.0f);
    __syncthreads();
    return x;
}

GPU_INLINE float block_max(float x, float *scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_max(x);
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    x = warp_max(scratch[lane < warps ? lane : 0]);
    __syncthreads();
    return x;
}

/* ---- tensor cores and asynchronous copies ----
 *
 * load_matrix_x4            four 8x8 matrices of 16-bit numbers from shared memory; lane 8 i + j points to row j of
 *                           matrix i (16 bytes, aligned). Lane l gets of each the numbers 2 (l % 4) and the next of row
 *                           l / 4; `_transposed`: of column l / 4.
 * mma_16x8x16<T>            d += a b, d f32. a: 16x16, register r holds rows +8 (r % 2), columns +8 (r / 2); b: 16x8,
 *                           register r holds rows +8 r of column l / 4; d[0..1] row l / 4, d[2..3] row 8 + l / 4,
 *                           columns 2 (l % 4) and the next.
 * mma_16x8x8_tf32           the same of f32 numbers that to_tf32 has rounded, from 8.0 on. a: 16x8, register r holds
 *                           row l / 4 + 8 (r % 2), column l % 4 + 4 (r / 2); b: 8x8, register r holds row l % 4 + 4 r
 *                           of column l / 4. load_matrix_x4, 4 numbers a row, makes such fragments.
 * to_tf32                   x with 10 bits behind the point, the nearest, of two the larger in size.
 * transpose_matrix          of an 8x8 matrix: lane l gives the numbers 2 (l % 4) and the next of row l / 4, and gets
 *                           those of column l / 4.
 * copy_async_16             16 bytes from global to shared memory; the bytes from source_bytes (0 or 16) on are zeros.
 *                           They are there after copy_async_wait<N> (all but the newest N committed groups) and, for
 *                           other threads, a barrier. */

/* Volta has neither ldmatrix nor these fragments: the same by shuffles and plain arithmetic. Correct, not fast. Blocks
 * are a multiple of 32 threads wide. */
GPU_INLINE void load_matrix_x4_slowly(uint32_t (&r)[4], const void *row, bool transposed) {
    int lane = threadIdx.x % 32, first = transposed ? 2 * (lane % 4) : lane / 4;
    unsigned long long mine = reinterpret_cast<unsigned long long>(row);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned long long low = __shfl_sync(0xFFFFFFFFu, mine, 8 * i + first);
        if (!transposed) { /* for all lanes or for none */
            r[i] = reinterpret_cast<const uint32_t *>(low)[lane % 4];
            continue;
        }
        unsigned long long high = __shfl_sync(0xFFFFFFFFu, mine, 8 * i + first + 1);
        r[i] = reinterpret_cast<const uint16_t *>(low)[lane / 4] |
               (uint32_t) reinterpret_cast<const uint16_t *>(high)[lane / 4] << 16;
    }
}

GPU_INLINE uint32_t transpose_matrix_slowly(uint32_t x) {
    int lane = threadIdx.x % 32, from = lane % 4 * 8 + lane / 8, half = lane / 4 % 2 * 16;
    uint32_t low = __shfl_sync(0xFFFFFFFFu, x, from) >> half, high = __shfl_sync(0xFFFFFFFFu, x, from + 4) >> half;
    return (low & 0xFFFFu) | high << 16;
}

/* A call, not inlined: a kernel has hundreds of them, and would take many minutes to compile. */
template <class T> __device__ __noinline__ float4 mma_16x8x16_slowly(float4 d, uint4 a, uint32_t b0, uint32_t b1) {
    int lane = threadIdx.x % 32, row = lane / 4, column = 2 * (lane % 4);
#pragma unroll
    for (int k = 0; k < 8; k++) { /* pairs (2k, 2k + 1) of the sum's index */
        int at = k % 4;
        float2 a_low = unpack_pair<T>(__shfl_sync(0xFFFFFFFFu, k < 4 ? a.x : a.z, 4 * row + at));
        float2 a_high = unpack_pair<T>(__shfl_sync(0xFFFFFFFFu, k < 4 ? a.y : a.w, 4 * row + at));
        float2 b_left = unpack_pair<T>(__shfl_sync(0xFFFFFFFFu, k < 4 ? b0 : b1, 4 * column + at));
        float2 b_right = unpack_pair<T>(__shfl_sync(0xFFFFFFFFu, k < 4 ? b0 : b1, 4 * (column + 1) + at));
        d.x += a_low.x * b_left.x + a_low.y * b_left.y;
        d.y += a_low.x * b_right.x + a_low.y * b_right.y;
        d.z += a_high.x * b_left.x + a_high.y * b_left.y;
        d.w += a_high.x * b_right.x + a_high.y * b_right.y;
    }
    return d;
}

template <class T> GPU_INLINE void mma_16x8x16_slowly(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    float4 sums =
        mma_16x8x16_slowly<T>(make_float4(d[0], d[1], d[2], d[3]), make_uint4(a[0], a[1], a[2], a[3]), b0, b1);
    d[0] = sums.x, d[1] = sums.y, d[2] = sums.z, d[3] = sums.w;
}

#if defined __CUDACC__

GPU_INLINE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

GPU_INLINE void load_matrix_x4(uint32_t (&r)[4], const void *row) {
#if __CUDA_ARCH__ >= 750
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
#else
    load_matrix_x4_slowly(r, row, false);
#endif
}

GPU_INLINE void load_matrix_x4_transposed(uint32_t (&r)[4], const void *row) {
#if __CUDA_ARCH__ >= 750
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
#else
    load_matrix_x4_slowly(r, row, true);
#endif
}

GPU_INLINE uint32_t transpose_matrix(uint32_t x) {
#if __CUDA_ARCH__ >= 750
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
#else
    return transpose_matrix_slowly(x);
#endif
}

template <class T> GPU_INLINE void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    if constexpr (is_bf16<T>::value)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 750 /* Turing: f16 in two halves of k, whose registers are the same */
    if constexpr (!is_bf16<T>::value) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b0));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2]), "r"(a[3]), "r"(b1));
    } else {
        __trap(); /* no preset chooses bf16 for such a card */
    }
#else
    mma_16x8x16_slowly<T>(d, a, b0, b1);
#endif
}

GPU_INLINE uint32_t to_tf32(float x) {
    uint32_t y = 0;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
#else
    __trap(); /* the device says whether its card has TF32 */
#endif
    return y;
}

GPU_INLINE void mma_16x8x8_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    __trap();
#endif
}

GPU_INLINE void copy_async_16(void *shared, const void *global, int source_bytes = 16) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(source_bytes)
                 : "memory");
#else
    *reinterpret_cast<uint4 *>(shared) =
        source_bytes ? *reinterpret_cast<const uint4 *>(global) : make_uint4(0, 0, 0, 0);
#endif
}

GPU_INLINE void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int N> GPU_INLINE void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#else

inline void load_matrix_x4(uint32_t (&r)[4], const void *row, EMULATE_SITE) {
    emulate::load_matrix(r, row, 4, false, site);
}
inline void load_matrix_x4_transposed(uint32_t (&r)[4], const void *row, EMULATE_SITE) {
    emulate::load_matrix(r, row, 4, true, site);
}
inline uint32_t transpose_matrix(uint32_t x) { return transpose_matrix_slowly(x); }
template <class T>
inline void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATE_SITE) {
    uint32_t b[2] = {b0, b1};
    emulate::multiply_matrix(d, a, b, is_bf16<T>::value, site);
}
inline uint32_t to_tf32(float x, EMULATE_SITE) {
    emulate::require_capability(80, "TF32", site);
    return isnan(x) ? 0x7FFFFFFFu : (__float_as_uint(x) + 0x1000u) & ~0x1FFFu;
}
inline void mma_16x8x8_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATE_SITE) {
    uint32_t b[2] = {b0, b1};
    emulate::multiply_matrix_tf32(d, a, b, site);
}
inline void copy_async_16(void *shared, const void *global, int source_bytes = 16, EMULATE_SITE) {
    emulate::copy_async(shared, global, 16, source_bytes, site);
}
inline void copy_async_commit() { emulate::copy_async_commit(); }
template <int N> inline void copy_async_wait() { emulate::copy_async_wait(N); }

#endif
