/* The device side of CUDA for kernels built by a C++ compiler for the CPU: gpu.h includes this in place of CUDA's.
 *
 * The types and the 16-bit arithmetic are those of CUDA's headers, which a plain compiler can read. The functions of
 * the device are here, the short ones whole; what needs other threads calls the emulator. The last argument of those, a
 * Site, says where in the kernel the call stands; nobody passes it. Functions that no kernel has needed yet do not
 * exist: using one is an error of the compiler, and the place to add it is the end of this file. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#undef __noinline__
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
/* CUDA's headers define __shared__ as empty for other compilers, which would make each variable private to a thread. */
#define __shared__ EMULATE_ERROR_use_SHARED_or_DYNAMIC_SHARED_of_gpu_h

namespace emulate {

struct Site {
    const char *file;
    int line;
};
/* Gives a function the site of its caller, as a default argument: the functions need not be macros. */
#define EMULATE_SITE ::emulate::Site site = {__builtin_FILE(), __builtin_LINE()}

struct Thread {
    uint3 index;
    uint32_t lane, number; /* in its warp, in its block */
};
struct Block {
    uint3 index;
    dim3 size, grid;
    void *dynamic_shared;
};
/* __thread, since thread_local would need a call per access. Fibers never move between threads of the system. */
extern __thread Thread *current_thread; /* NULL: the host */
extern __thread Block *current_block;
extern int opened_capability; /* of the card when its properties were asked for last */

enum Vote { COUNT, ALL, ANY };
int block_barrier(int predicate, Vote vote, Site site);
void warp_barrier(uint32_t mask, Site site);
uint64_t shuffle(uint32_t mask, uint64_t value, int source_lane, Site site);
uint32_t ballot(uint32_t mask, bool predicate, Site site);
uint32_t match_any(uint32_t mask, uint64_t value, Site site);
enum Reduction { SUM, MIN, MAX, AND, OR, XOR };
int64_t reduce(uint32_t mask, int64_t value, Reduction reduction, Site site);
void *shared_variable(const void *key, size_t bytes);
void load_matrix(uint32_t *r, const void *row, int count, bool transposed, Site site);
void multiply_matrix(float *d, const uint32_t *a, const uint32_t *b, bool bf16, Site site);
void multiply_matrix_tf32(float *d, const uint32_t *a, const uint32_t *b, Site site);
void copy_async(void *shared, const void *global, int bytes, int source_bytes, Site site);
void copy_async_commit();
void copy_async_wait(int pending);
[[noreturn]] void trap(); /* the device is lost: calls of the runtime fail from now on */
void misaligned(const void *p, size_t alignment, Site site);
void require_capability(int least, const char *what, Site site);
inline void require_aligned(const void *p, size_t alignment, Site site) {
    if ((uintptr_t)p % alignment) misaligned(p, alignment, site);
}

/* A kernel and its arguments, converted to the kernel's types. */
template <class... P> struct Call {
    void (*kernel)(P...);
    std::tuple<P...> arguments;
    static void make(const void *call) {
        const Call *self = static_cast<const Call *>(call);
        std::apply(self->kernel, self->arguments);
    }
};
cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void (*call)(const void *), std::shared_ptr<const void> arguments, size_t arguments_bytes);

template <class T> inline uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8, "warp functions take up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> inline T from_bits(uint64_t bits) {
    T value;
    memcpy(static_cast<void *>(&value), &bits, sizeof value);
    return value;
}

} // namespace emulate

#define threadIdx (::emulate::current_thread->index)
#define blockIdx  (::emulate::current_block->index)
#define blockDim  (::emulate::current_block->size)
#define gridDim   (::emulate::current_block->grid)
#define warpSize  32

template <class... P, class... A>
inline cudaError_t gpu_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes, cudaStream_t stream,
                              A &&...arguments) {
    typedef emulate::Call<P...> Call;
    std::shared_ptr<const void> call(new Call{kernel, std::tuple<P...>(static_cast<P>(arguments)...)});
    emulate::launch(reinterpret_cast<const void *>(kernel), grid, block, bytes, stream, &Call::make, call,
                    sizeof(Call));
    return cudaGetLastError(); /* which may be that of an earlier call: <<<>>> leaves no other way to ask */
}

#define SHARED(T, name, ...)                                                                                           \
    typedef T name##_type __VA_ARGS__;                                                                                 \
    static char name##_key;                                                                                            \
    name##_type &name = *static_cast<name##_type *>(::emulate::shared_variable(&name##_key, sizeof(name##_type)))
#define DYNAMIC_SHARED(T, name) T *name = static_cast<T *>(::emulate::current_block->dynamic_shared)

/* ---- the block and the warp ---- */

inline void __syncthreads(EMULATE_SITE) { emulate::block_barrier(0, emulate::COUNT, site); }
inline int __syncthreads_count(int p, EMULATE_SITE) { return emulate::block_barrier(p, emulate::COUNT, site); }
inline int __syncthreads_and(int p, EMULATE_SITE) { return emulate::block_barrier(p, emulate::ALL, site); }
inline int __syncthreads_or(int p, EMULATE_SITE) { return emulate::block_barrier(p, emulate::ANY, site); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMULATE_SITE) { emulate::warp_barrier(mask, site); }

/* Sources outside the segment of `width` lanes: __shfl_sync wraps round, the others keep their own value. */
template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATE_SITE) {
    int first = (int)emulate::current_thread->lane & ~(width - 1);
    return emulate::from_bits<T>(emulate::shuffle(mask, emulate::to_bits(value), first + (source & (width - 1)), site));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMULATE_SITE) {
    int lane = (int)emulate::current_thread->lane, source = lane ^ lanes;
    if (source >= (lane & ~(width - 1)) + width) source = lane;
    return emulate::from_bits<T>(emulate::shuffle(mask, emulate::to_bits(value), source, site));
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, EMULATE_SITE) {
    int lane = (int)emulate::current_thread->lane, source = lane + (int)lanes;
    if (source >= (lane & ~(width - 1)) + width) source = lane;
    return emulate::from_bits<T>(emulate::shuffle(mask, emulate::to_bits(value), source, site));
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, EMULATE_SITE) {
    int lane = (int)emulate::current_thread->lane, source = lane - (int)lanes;
    if (source < (lane & ~(width - 1))) source = lane;
    return emulate::from_bits<T>(emulate::shuffle(mask, emulate::to_bits(value), source, site));
}
inline unsigned __ballot_sync(unsigned mask, int p, EMULATE_SITE) { return emulate::ballot(mask, p, site); }
inline int __any_sync(unsigned mask, int p, EMULATE_SITE) { return emulate::ballot(mask, p, site) != 0; }
inline int __all_sync(unsigned mask, int p, EMULATE_SITE) { return emulate::ballot(mask, !p, site) == 0; }
template <class T> inline unsigned __match_any_sync(unsigned mask, T value, EMULATE_SITE) {
    return emulate::match_any(mask, emulate::to_bits(value), site);
}
/* T: int or unsigned. */
template <class T> inline T __reduce_add_sync(unsigned mask, T x, EMULATE_SITE) {
    return (T)emulate::reduce(mask, x, emulate::SUM, site);
}
template <class T> inline T __reduce_min_sync(unsigned mask, T x, EMULATE_SITE) {
    return (T)emulate::reduce(mask, x, emulate::MIN, site);
}
template <class T> inline T __reduce_max_sync(unsigned mask, T x, EMULATE_SITE) {
    return (T)emulate::reduce(mask, x, emulate::MAX, site);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned x, EMULATE_SITE) {
    return (unsigned)emulate::reduce(mask, x, emulate::AND, site);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned x, EMULATE_SITE) {
    return (unsigned)emulate::reduce(mask, x, emulate::OR, site);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned x, EMULATE_SITE) {
    return (unsigned)emulate::reduce(mask, x, emulate::XOR, site);
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] inline void __trap() { emulate::trap(); }
inline void __threadfence_system() { __threadfence(); }
[[noreturn]] inline void wait_for_trap() { emulate::trap(); }
#define __CUDA_ARCH_LIST__ 750, 800, 890 /* what nvcc was asked to build for */

#include "kernels/cuda/emulate/emulate_functions.h"
