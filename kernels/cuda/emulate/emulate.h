// emulate.h - run CUDA kernels on the CPU.  Host compilers only (g++/clang++, C++17).
// Blocks run one after another (or one per OS thread); the threads of a block are fibers.
// API half: what a kernel can see.  The scheduler lives in emulate.cpp.
#pragma once
#if defined(__CUDACC__)
#error "emulate.h is for the host compiler; nvcc uses the real thing"
#endif
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h> // dim3, float4, cudaError_t, cudaStream_t ... (plain C API)
#include <tuple>
#include <utility>
#include <vector_functions.h>

#define EMULATE 1
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __launch_bounds__
#undef __managed__
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __launch_bounds__(...)
#define __shared__ EMULATE_ERROR_use_the_SHARED_macro
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif
#ifndef __noinline__
#define __noinline__ __attribute__((noinline))
#endif

namespace emulate {
struct Thread {
    uint3 tid;
    uint32_t lane, linear;
}; // public prefix of the runtime's struct
struct Grid {
    uint3 bid;
    dim3 bdim, gdim;
    void *dyn;
};
extern __thread Thread *cur; // null on the host side
extern __thread Grid *grid;

#define EMULATE_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
int sync_block(int pred, int kind, const char *file, int line); // kind: 0 plain/count 1 and 2 or
void sync_warp(uint32_t mask, const char *file, int line);
uint64_t shfl(uint32_t mask, uint64_t v, int src, const char *file, int line);
uint32_t ballot(uint32_t mask, int pred, const char *file, int line);
uint32_t match_any(uint32_t mask, uint64_t v, const char *file, int line);
int64_t reduce(uint32_t mask, int64_t v, int kind, const char *file, int line);
void *shared_static(const void *key, size_t bytes, size_t align);
// tensor-core / async-copy emulation (documented PTX fragment layouts)
enum ElemType { F16, BF16 };
void mma16816(float *d, const uint32_t *a, const uint32_t *b, ElemType, const char *file, int line);
void ldmatrix(uint32_t *r, const void *smem, int num, bool trans, const char *file, int line);
void cp_async(void *dst, const void *src, int bytes, int src_bytes, const char *file, int line);
void cp_commit();
void cp_wait(int allow_pending);

typedef void (*Invoke)(const void *closure);
cudaError_t launch_raw(const void *fn, dim3 g, dim3 b, size_t smem, Invoke, const void *closure);
struct Stats {
    uint64_t blocks, threads, switches, collectives, barriers, mma, ldm, ldm_conflict, reports;
};
extern Stats stats;
void set_seed(uint64_t seed); // 0: ascending lanes and warps; 1: descending; else random
void set_workers(int n);

template <class... P> struct Closure {
    void (*fn)(P...);
    std::tuple<P...> args;
    static void call(const void *c) {
        auto *s = (const Closure *)c;
        std::apply(s->fn, s->args);
    }
};
} // namespace emulate

#define threadIdx (::emulate::cur->tid)
#define blockIdx  (::emulate::grid->bid)
#define blockDim  (::emulate::grid->bdim)
#define gridDim   (::emulate::grid->gdim)
#define warpSize  32

// one launch spelling for both worlds
template <class... P, class... A>
inline cudaError_t gpu_launch(void (*k)(P...), dim3 g, dim3 b, size_t smem, cudaStream_t, A &&...a) {
    emulate::Closure<P...> c{k, std::tuple<P...>(std::forward<A>(a)...)};
    return emulate::launch_raw((const void *)k, g, b, smem, &emulate::Closure<P...>::call, &c);
}
// SHARED(float, tile, [64][72]);   SHARED(float, mean, );
#define SHARED(T, name, ...)                                                                                           \
    using name##_sh_t = T __VA_ARGS__;                                                                                 \
    static char name##_sh_key;                                                                                         \
    name##_sh_t &name = *(name##_sh_t *)::emulate::shared_static(                                                      \
        &name##_sh_key, sizeof(name##_sh_t), alignof(name##_sh_t) < 16 ? 16 : alignof(name##_sh_t))
#define DYNAMIC_SHARED(T, name) T *name = (T *)::emulate::grid->dyn

// ---- block and warp primitives -------------------------------------------------------
inline void __syncthreads(EMULATE_SITE) { emulate::sync_block(0, 0, file, line); }
inline int __syncthreads_count(int p, EMULATE_SITE) { return emulate::sync_block(p, 0, file, line); }
inline int __syncthreads_and(int p, EMULATE_SITE) { return emulate::sync_block(p, 1, file, line); }
inline int __syncthreads_or(int p, EMULATE_SITE) { return emulate::sync_block(p, 2, file, line); }
inline void __syncwarp(unsigned m = 0xffffffffu, EMULATE_SITE) { emulate::sync_warp(m, file, line); }
namespace emulate {
template <class T> inline uint64_t to_bits(T v) {
    static_assert(sizeof(T) <= 8, "shfl of <= 8 bytes");
    uint64_t b = 0;
    memcpy(&b, &v, sizeof v);
    return b;
}
template <class T> inline T from_bits(uint64_t b) {
    T v;
    memcpy((void *)&v, &b, sizeof v);
    return v;
}
inline int seg(int lane, int w) { return lane & ~(w - 1); }
} // namespace emulate
template <class T> inline T __shfl_sync(unsigned m, T v, int s, int w = 32, EMULATE_SITE) {
    int l = emulate::cur->lane;
    return emulate::from_bits<T>(emulate::shfl(m, emulate::to_bits(v), emulate::seg(l, w) + (s & (w - 1)), file, line));
}
template <class T> inline T __shfl_xor_sync(unsigned m, T v, int x, int w = 32, EMULATE_SITE) {
    int l = emulate::cur->lane, s = l ^ x;
    if (s >= emulate::seg(l, w) + w) s = l;
    return emulate::from_bits<T>(emulate::shfl(m, emulate::to_bits(v), s, file, line));
}
template <class T> inline T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32, EMULATE_SITE) {
    int l = emulate::cur->lane, s = l + (int)d;
    if (s >= emulate::seg(l, w) + w) s = l;
    return emulate::from_bits<T>(emulate::shfl(m, emulate::to_bits(v), s, file, line));
}
template <class T> inline T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32, EMULATE_SITE) {
    int l = emulate::cur->lane, s = l - (int)d;
    if (s < emulate::seg(l, w)) s = l;
    return emulate::from_bits<T>(emulate::shfl(m, emulate::to_bits(v), s, file, line));
}
inline unsigned __ballot_sync(unsigned m, int p, EMULATE_SITE) { return emulate::ballot(m, p, file, line); }
inline int __any_sync(unsigned m, int p, EMULATE_SITE) { return emulate::ballot(m, p, file, line) != 0; }
inline int __all_sync(unsigned m, int p, EMULATE_SITE) { return emulate::ballot(m, !p, file, line) == 0; }
template <class T> inline unsigned __match_any_sync(unsigned m, T v, EMULATE_SITE) {
    return emulate::match_any(m, emulate::to_bits(v), file, line);
}
inline int __reduce_add_sync(unsigned m, int v, EMULATE_SITE) { return (int)emulate::reduce(m, v, 0, file, line); }
inline unsigned __reduce_add_sync(unsigned m, unsigned v, EMULATE_SITE) {
    return (unsigned)emulate::reduce(m, v, 0, file, line);
}
inline int __reduce_min_sync(unsigned m, int v, EMULATE_SITE) { return (int)emulate::reduce(m, v, 1, file, line); }
inline int __reduce_max_sync(unsigned m, int v, EMULATE_SITE) { return (int)emulate::reduce(m, v, 2, file, line); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() { __builtin_trap(); }

// ---- atomics: real ones, so blocks may run on several OS threads ----------------------
inline int atomicAdd(int *p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline unsigned atomicAdd(unsigned *p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
inline int atomicExch(int *p, int v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
inline unsigned atomicExch(unsigned *p, unsigned v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
inline int atomicOr(int *p, int v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
inline int atomicCAS(int *p, int c, int v) {
    __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return c;
}
inline unsigned atomicCAS(unsigned *p, unsigned c, unsigned v) {
    __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return c;
}
namespace emulate {
template <class U, class T, class F> inline T cas_loop(T *p, F f) {
    U *q = (U *)p;
    U o = __atomic_load_n(q, __ATOMIC_RELAXED), n;
    T t;
    do {
        memcpy((void *)&t, &o, sizeof t);
        T r = f(t);
        memcpy((void *)&n, &r, sizeof r);
    } while (!__atomic_compare_exchange_n(q, &o, n, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return t;
}
} // namespace emulate
inline float atomicAdd(float *p, float v) {
    return emulate::cas_loop<uint32_t>(p, [=](float x) { return x + v; });
}
inline double atomicAdd(double *p, double v) {
    return emulate::cas_loop<uint64_t>(p, [=](double x) { return x + v; });
}
inline int atomicMax(int *p, int v) {
    return emulate::cas_loop<uint32_t>(p, [=](int x) { return x > v ? x : v; });
}
inline __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 v) {
    return emulate::cas_loop<uint32_t>(p, [=](__nv_bfloat162 x) { return x + v; });
}

// ---- maths and load/store hints --------------------------------------------------------
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline unsigned __float_as_uint(float f) {
    unsigned u;
    memcpy(&u, &f, 4);
    return u;
}
inline float __uint_as_float(unsigned u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
template <class T> inline T __ldg(const T *p) { return *p; }
template <class T> inline T __ldcs(const T *p) { return *p; }
template <class T> inline T __ldcg(const T *p) { return *p; }
template <class T> inline void __stcs(T *p, const T &v) { *p = v; }
template <class T> inline void __stcg(T *p, const T &v) { *p = v; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline size_t min(size_t a, size_t b) { return a < b ? a : b; }
inline size_t max(size_t a, size_t b) { return a > b ? a : b; }
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __float2bfloat16(fmaf(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
}
inline __half __hfma(__half a, __half b, __half c) {
    return __float2half(fmaf(__half2float(a), __half2float(b), __half2float(c)));
}
