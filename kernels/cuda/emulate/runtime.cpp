/* The part of the CUDA runtime that host code uses, with the prototypes of cuda_runtime_api.h: a program linked with
 * this instead of libcudart runs unchanged. Device memory is memory of the host, filled with NaN when it is allocated.
 */
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <mutex>

#include "kernels/cuda/emulate/emulate_streams.h"
#include "kernels/cuda/emulate/internal.h"

namespace emulate {

typedef std::map<const char *, size_t> Allocations;
static std::mutex lock;
static Allocations device_memory, pinned_memory;
static std::map<const void *, size_t> shared_limits; /* of kernels that have asked for more than everybody gets */

/* Returns whether all `bytes` from p on lie in one allocation. */
static bool lies_in(const Allocations &allocations, const void *p, size_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    const char *begin = static_cast<const char *>(p);
    auto after = allocations.upper_bound(begin);
    if (after == allocations.begin()) return false;
    auto at = std::prev(after);
    return begin + bytes <= at->first + at->second;
}

void add_device_memory(void *memory, size_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    device_memory[static_cast<char *>(memory)] = bytes;
}

bool find_memory(uint64_t address, uint64_t *begin, uint64_t *end) {
    std::lock_guard<std::mutex> hold(lock);
    for (const Allocations *allocations : {&device_memory, &pinned_memory}) {
        auto after = allocations->upper_bound(reinterpret_cast<const char *>(address));
        if (after == allocations->begin()) continue;
        auto at = std::prev(after);
        *begin = reinterpret_cast<uint64_t>(at->first);
        *end = *begin + at->second;
        if (address < *end) return true;
    }
    return false;
}

void *(*symbol_memory)(const void *symbol);

cudaError_t launch(Launch l, cudaStream_t stream) {
    const dim3 &grid = l.grid, &block = l.block;
    size_t threads = (size_t)block.x * block.y * block.z;
    {
        std::lock_guard<std::mutex> hold(lock);
        auto allowed = shared_limits.find(l.kernel);
        if (allowed != shared_limits.end()) l.shared_asked = allowed->second;
    }
    if (!threads || threads > MAX_THREADS || block.z > 64) return capture_error(stream, cudaErrorInvalidConfiguration);
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535)
        return capture_error(stream, cudaErrorInvalidConfiguration);
    size_t limit = l.shared_asked ? l.shared_asked : SHARED_WITHOUT_ASKING;
    size_t in_all = l.shared_asked ? card_shared_limit() : SHARED_WITHOUT_ASKING;
    if (l.shared_bytes > limit || l.static_bytes + l.shared_bytes > in_all)
        return capture_error(stream, cudaErrorInvalidValue);
    return enqueue_launch(stream, l);
}

cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void (*call)(const void *), std::shared_ptr<const void> arguments, size_t arguments_bytes) {
    return launch({kernel, grid, block, shared_bytes, 0, call, arguments, arguments_bytes, NULL, NULL, 0}, stream);
}

} // namespace emulate

using namespace emulate;

extern "C" {

/* ---- memory ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    if (capture_allows_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    std::lock_guard<std::mutex> hold(lock);
    *memory = NULL;
    if (!bytes) return cudaSuccess;
    if (memory_call_fails() || bytes > card_available()) return set_error(cudaErrorMemoryAllocation);
#ifdef EMULATE_CHECK
    *memory = check::allocate(bytes);
    if (!*memory) return set_error(cudaErrorMemoryAllocation);
#else
    if (posix_memalign(memory, 256, bytes)) return set_error(cudaErrorMemoryAllocation);
#endif
    memset(*memory, 0xFF, bytes);
    device_memory[static_cast<char *>(*memory)] = bytes;
    card_take_memory(bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    if (!memory) return cudaSuccess;
    if (capture_allows_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    synchronize_device(); /* as CUDA does */
    std::lock_guard<std::mutex> hold(lock);
    auto at = device_memory.find(static_cast<char *>(memory));
    if (at == device_memory.end()) return set_error(cudaErrorInvalidValue);
    card_release_memory(at->second);
#ifdef EMULATE_CHECK
    check::release(memory, at->second);
#else
    free(memory);
#endif
    device_memory.erase(at);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    if (capture_allows_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    if (memory_call_fails() || posix_memalign(memory, 4096, bytes ? bytes : 1))
        return set_error(cudaErrorMemoryAllocation);
    std::lock_guard<std::mutex> hold(lock);
    pinned_memory[static_cast<char *>(*memory)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **memory, size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }

cudaError_t cudaFreeHost(void *memory) {
    if (!memory) return cudaSuccess;
    if (capture_allows_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    synchronize_device();
    std::lock_guard<std::mutex> hold(lock);
    if (!pinned_memory.erase(static_cast<char *>(memory))) return set_error(cudaErrorInvalidValue);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned) {
    if (capture_allows_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    if (memory_call_fails()) return set_error(cudaErrorMemoryAllocation);
    std::lock_guard<std::mutex> hold(lock);
    pinned_memory[static_cast<char *>(memory)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *memory) {
    if (capture_allows_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    std::lock_guard<std::mutex> hold(lock);
    return pinned_memory.erase(static_cast<char *>(memory)) ? cudaSuccess : set_error(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    std::lock_guard<std::mutex> hold(lock);
    *total = card_memory();
    *free_bytes = card_available();
    return cudaSuccess;
}

/* Returns whether both ends of a copy agree with its stated direction. */
static bool copy_is_valid(const void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    bool to_device = lies_in(device_memory, to, bytes), from_device = lies_in(device_memory, from, bytes);
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
        return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
        return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    default:
        return true;
    }
}

/* Reads or writes host memory when the stream reaches the copy. If it is not pinned, the call may wait for that: "API
 * synchronization behavior" in NVIDIA's documentation of the runtime says of the asynchronous form that it "might be
 * synchronous" and that the driver "may" stage the memory. Seed 0 waits, seed 1 does not, others draw. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    if (!bytes) return cudaSuccess;
    if (!copy_is_valid(to, from, bytes, kind)) return capture_error(stream, cudaErrorInvalidValue);
    bool from_device = lies_in(device_memory, from, bytes), to_device = lies_in(device_memory, to, bytes);
    bool from_pageable = !from_device && !lies_in(pinned_memory, from, bytes);
    bool to_pageable = !to_device && !lies_in(pinned_memory, to, bytes);
    if ((from_pageable || to_pageable) && is_capturing(stream))
        return capture_error(stream, cudaErrorStreamCaptureUnsupported);
    cudaError_t status = enqueue_copy(stream, to, from, bytes);
    bool waits = (from_pageable && to_pageable) || ((from_pageable || to_pageable) && waits_for_pageable_copy());
    return status == cudaSuccess && waits ? cudaStreamSynchronize(stream) : status;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return status == cudaSuccess ? cudaStreamSynchronize(NULL) : status;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    if (!bytes) return cudaSuccess;
    if (!lies_in(device_memory, to, bytes)) return capture_error(stream, cudaErrorInvalidValue);
    return enqueue_fill(stream, to, value, bytes);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

bool emulate_is_device_memory(const void *memory, size_t bytes) { return lies_in(device_memory, memory, bytes); }

/* ---- the device ---- */

static thread_local int current_device;

cudaError_t cudaGetDeviceCount(int *count) {
    *count = card_devices();
    return cudaSuccess;
}
static bool is_device(int device) { return device >= 0 && device < card_devices(); }
cudaError_t cudaSetDevice(int device) {
    if (!is_device(device)) return set_error(cudaErrorInvalidDevice);
    cudaError_t status = make_context();
    if (status != cudaSuccess) return set_error(status);
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
    if (!is_device(device)) return set_error(cudaErrorInvalidDevice);
    snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned)device);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { /* most drivers are newer than the runtime */
    *version = CUDART_VERSION < 13000 ? 13000 : CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    if (!is_device(device)) return set_error(cudaErrorInvalidDevice);
    char uuid[32];
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "%s", card_name());
    properties->totalGlobalMem = card_memory();
    snprintf(uuid, sizeof uuid, "emulated card %02d", device);
    memcpy(properties->uuid.bytes, uuid, sizeof properties->uuid.bytes);
    properties->pciBusID = device;
    opened_capability = card_capability();
    properties->major = card_capability() / 10;
    properties->minor = card_capability() % 10;
    properties->multiProcessorCount = card_multiprocessors();
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = MAX_THREADS;
    properties->maxThreadsDim[2] = 64;
    properties->maxThreadsPerMultiProcessor = 1536;
    properties->maxGridSize[0] = 0x7FFFFFFF;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->sharedMemPerBlock = SHARED_WITHOUT_ASKING;
    properties->sharedMemPerBlockOptin = card_shared_limit();
    properties->regsPerBlock = 65536;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    if (!is_device(device)) return set_error(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)card_shared_limit();
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)SHARED_WITHOUT_ASKING;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = card_multiprocessors();
        return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
        *value = MAX_THREADS;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = card_capability() / 10;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = card_capability() % 10;
        return cudaSuccess;
    default:
        return set_error(cudaErrorInvalidValue);
    }
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    cudaError_t loaded = load_code(kernel);
    if (loaded != cudaSuccess) return set_error(loaded);
    if (value < 0 || (size_t)value > card_shared_limit()) return set_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> hold(lock);
    shared_limits[kernel] = (size_t)value;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel) {
    memset(attributes, 0, sizeof *attributes);
    cudaError_t status = load_code(kernel);
    return status == cudaSuccess ? status : set_error(status);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind) {
    if (memory_call_fails()) return set_error(cudaErrorMemoryAllocation); /* loads the module */
    void *to = symbol_memory ? symbol_memory(symbol) : const_cast<void *>(symbol);
    cudaError_t status = enqueue_copy(NULL, static_cast<char *>(to) + offset, from, bytes);
    return status == cudaSuccess ? cudaStreamSynchronize(NULL) : status;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads, size_t) {
    *blocks = 1536 / threads;
    return cudaSuccess;
}
}

/* ---- emulate_control.h: what waits for queued work. Tests name these functions weakly, which takes nothing from an
 * archive: they lie in a file that every program takes for other reasons. ---- */

void emulate_set_seed(uint64_t seed) {
    emulate::synchronize_device();
    emulate::settings().seed = seed;
}
void emulate_set_inexact(uint64_t seed) {
    emulate::synchronize_device();
    emulate::inexact_seed = seed;
}
EmulateCounts emulate_counts(void) {
    emulate::synchronize_device();
    return emulate::launch_totals();
}
