/* The part of the CUDA runtime that host code uses, with the prototypes of cuda_runtime_api.h: a program linked with
 * this instead of libcudart runs unchanged. Device memory is memory of the host, filled with NaN when it is allocated.
 */
#include <stdlib.h>

#include <map>
#include <mutex>

#include "kernels/cuda/emulate/internal.h"

namespace emulate {

cudaError_t enqueue_copy(cudaStream_t stream, void *to, const void *from, size_t bytes);
cudaError_t enqueue_fill(cudaStream_t stream, void *to, int value, size_t bytes);
bool is_capturing(cudaStream_t stream);
bool capture_forbids_memory();

/* The card, which the environment may describe: read whenever it is asked for, so that a test may change it before it
 * opens the device. */
static uint64_t of_card(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}
static size_t memory_of_card() { return of_card("EMULATE_MEMORY", (uint64_t)16 << 30); /* as a T4 has */ }
/* Few, so that grids as large as the device still loop. */
static int multiprocessors() { return (int)of_card("EMULATE_MULTIPROCESSORS", 4); }
static int capability() { return (int)of_card("EMULATE_CAPABILITY", 89); }
int opened_capability = 89;

/* Bytes of shared memory of a block that has asked for it: the CUDA programming guide's table of capabilities. */
static size_t shared_limit() {
    static const struct { int capability, kilobytes; } limits[] = {{90, 227}, {86, 99}, {80, 163}, {75, 64}, {70, 96}};
    for (auto limit : limits)
        if (capability() >= limit.capability) return (size_t)limit.kilobytes << 10;
    return SHARED_WITHOUT_ASKING;
}

/* Whether the program has code for the card. EMULATE_BUILT_FOR lists capabilities ("75 80"): code of one runs on cards
 * of the same generation that are no older, and the last is there as PTX too, which all later cards take. None: it has.
 */
static bool has_code() {
    const char *text = getenv("EMULATE_BUILT_FOR");
    int card = capability(), built = 0;
    if (!text) return true;
    for (char *end; (built = (int)strtol(text, &end, 10)), end != text; text = end) {
        bool last = !end[strspn(end, " ")];
        if (built <= card && (last || built / 10 == card / 10)) return true;
    }
    return false;
}

typedef std::map<const char *, size_t> Allocations;
static std::mutex lock;
static Allocations device_memory, pinned_memory;
static size_t allocated;
static std::map<const void *, size_t> code; /* of kernels that have been used: what it takes of the device's memory */
static size_t code_and_graphs;
static int failing_graphs, failing_graph_launches;
static std::map<const void *, size_t> shared_limits; /* of kernels that have asked for more than everybody gets */
static thread_local cudaError_t last_error = cudaSuccess;

cudaError_t set_error(cudaError_t status) { return last_error = status; }

static size_t available() {
    size_t all = memory_of_card(), taken = allocated + code_and_graphs;
    return taken < all ? all - taken : 0;
}

/* As CUDA does by default, a kernel's code is loaded when it is first used: EMULATE_CODE bytes. */
cudaError_t load_code(const void *kernel) {
    std::lock_guard<std::mutex> hold(lock);
    if (!has_code()) return cudaErrorNoKernelImageForDevice;
    if (code.count(kernel)) return cudaSuccess;
    size_t bytes = of_card("EMULATE_CODE", 0);
    if (bytes > available()) return cudaErrorMemoryAllocation;
    code_and_graphs += code[kernel] = bytes;
    return cudaSuccess;
}

/* EMULATE_GRAPH bytes for each. */
cudaError_t take_graph(size_t *bytes) {
    std::lock_guard<std::mutex> hold(lock);
    *bytes = of_card("EMULATE_GRAPH", 0);
    if (failing_graphs > 0 ? failing_graphs-- : *bytes > available()) return set_error(cudaErrorMemoryAllocation);
    code_and_graphs += *bytes;
    return cudaSuccess;
}
void release_graph(size_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    code_and_graphs -= bytes;
}
bool graph_launch_fails() { return failing_graph_launches > 0 && failing_graph_launches--; }

/* Do all `bytes` from p on lie in one allocation? */
static bool lies_in(const Allocations &allocations, const void *p, size_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    const char *begin = static_cast<const char *>(p);
    auto after = allocations.upper_bound(begin);
    if (after == allocations.begin()) return false;
    auto at = std::prev(after);
    return begin + bytes <= at->first + at->second;
}

cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void (*call)(const void *), std::shared_ptr<const void> arguments, size_t arguments_bytes) {
    size_t threads = (size_t)block.x * block.y * block.z, limit = SHARED_WITHOUT_ASKING;
    {
        std::lock_guard<std::mutex> hold(lock);
        auto asked = shared_limits.find(kernel);
        if (asked != shared_limits.end()) limit = asked->second;
    }
    if (!threads || threads > MAX_THREADS || block.z > 64) return set_error(cudaErrorInvalidConfiguration);
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535)
        return set_error(cudaErrorInvalidConfiguration);
    if (shared_bytes > limit) return set_error(cudaErrorInvalidValue);
    return enqueue_launch(stream, {kernel, grid, block, shared_bytes, call, arguments, arguments_bytes});
}

} // namespace emulate

using namespace emulate;

extern "C" {

/* ---- memory ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    if (capture_forbids_memory()) return set_error(cudaErrorStreamCaptureUnsupported);
    std::lock_guard<std::mutex> hold(lock);
    *memory = NULL;
    if (!bytes) return cudaSuccess;
    if (bytes > available()) return set_error(cudaErrorMemoryAllocation);
#ifdef EMULATE_CHECK
    *memory = check::allocate(bytes);
    if (!*memory) return set_error(cudaErrorMemoryAllocation);
#else
    if (posix_memalign(memory, 256, bytes)) return set_error(cudaErrorMemoryAllocation);
#endif
    memset(*memory, 0xFF, bytes);
    device_memory[static_cast<char *>(*memory)] = bytes;
    allocated += bytes;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    if (!memory) return cudaSuccess;
    synchronize_device(); /* as CUDA does */
    std::lock_guard<std::mutex> hold(lock);
    auto at = device_memory.find(static_cast<char *>(memory));
    if (at == device_memory.end()) return set_error(cudaErrorInvalidValue);
    allocated -= at->second;
#ifdef EMULATE_CHECK
    check::release(memory, at->second);
#else
    free(memory);
#endif
    device_memory.erase(at);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    if (posix_memalign(memory, 4096, bytes ? bytes : 1)) return set_error(cudaErrorMemoryAllocation);
    std::lock_guard<std::mutex> hold(lock);
    pinned_memory[static_cast<char *>(*memory)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **memory, size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }

cudaError_t cudaFreeHost(void *memory) {
    if (!memory) return cudaSuccess;
    synchronize_device();
    std::lock_guard<std::mutex> hold(lock);
    if (!pinned_memory.erase(static_cast<char *>(memory))) return set_error(cudaErrorInvalidValue);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned) {
    std::lock_guard<std::mutex> hold(lock);
    pinned_memory[static_cast<char *>(memory)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *memory) {
    std::lock_guard<std::mutex> hold(lock);
    return pinned_memory.erase(static_cast<char *>(memory)) ? cudaSuccess : set_error(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    std::lock_guard<std::mutex> hold(lock);
    *total = memory_of_card();
    *free_bytes = available();
    return cudaSuccess;
}

/* A copy names its direction, and both ends must be what it says. */
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

/* Pinned memory is read or written when the stream gets there. Other host memory is read before the call returns, and
 * when it has been written to the call returns. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    if (!bytes) return cudaSuccess;
    if (!copy_is_valid(to, from, bytes, kind)) return set_error(cudaErrorInvalidValue);
    bool from_device = lies_in(device_memory, from, bytes), to_device = lies_in(device_memory, to, bytes);
    bool from_pageable = !from_device && !lies_in(pinned_memory, from, bytes);
    bool to_pageable = !to_device && !lies_in(pinned_memory, to, bytes);
    if ((from_pageable || to_pageable) && is_capturing(stream)) return set_error(cudaErrorStreamCaptureUnsupported);
    cudaError_t status = enqueue_copy(stream, to, from, bytes);
    if (status == cudaSuccess && (from_pageable || to_pageable)) status = cudaStreamSynchronize(stream);
    return status;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return status == cudaSuccess ? cudaStreamSynchronize(NULL) : status;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    if (!bytes) return cudaSuccess;
    if (!lies_in(device_memory, to, bytes)) return set_error(cudaErrorInvalidValue);
    return enqueue_fill(stream, to, value, bytes);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

/* ---- the device ---- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : set_error(cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    if (device != 0) return set_error(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    const char *name = getenv("EMULATE_CARD");
    snprintf(properties->name, sizeof properties->name, "%s", name ? name : "emulated");
    properties->totalGlobalMem = memory_of_card();
    opened_capability = capability();
    properties->major = capability() / 10;
    properties->minor = capability() % 10;
    properties->multiProcessorCount = multiprocessors();
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = MAX_THREADS;
    properties->maxThreadsDim[2] = 64;
    properties->maxThreadsPerMultiProcessor = 1536;
    properties->maxGridSize[0] = 0x7FFFFFFF;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->sharedMemPerBlock = SHARED_WITHOUT_ASKING;
    properties->sharedMemPerBlockOptin = shared_limit();
    properties->regsPerBlock = 65536;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    if (device != 0) return set_error(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)shared_limit();
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)SHARED_WITHOUT_ASKING;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = multiprocessors();
        return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
        *value = MAX_THREADS;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = capability() / 10;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = capability() % 10;
        return cudaSuccess;
    default:
        return set_error(cudaErrorInvalidValue);
    }
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || (size_t)value > shared_limit()) return set_error(cudaErrorInvalidValue);
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
    memcpy(static_cast<char *>(const_cast<void *>(symbol)) + offset, from, bytes);
    return cudaSuccess;
}

void emulate_fail_graphs(int graphs, int launches) {
    failing_graphs = graphs;
    failing_graph_launches = launches;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads, size_t) {
    *blocks = 1536 / threads;
    return cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaPeekAtLastError(void) { return last_error; }
cudaError_t cudaGetLastError(void) {
    cudaError_t status = last_error;
    last_error = cudaSuccess;
    return status;
}

static const struct {
    cudaError_t status;
    const char *name, *text; /* CUDA's own */
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};

const char *cudaGetErrorString(cudaError_t status) {
    for (const auto &error : errors)
        if (error.status == status) return error.text;
    return "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t status) {
    for (const auto &error : errors)
        if (error.status == status) return error.name;
    return "unrecognized error code";
}
}
