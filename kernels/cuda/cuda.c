/* Shared by the operations of the cuda device: checked calls, error messages of kernels, memory. */
#include "kernels/cuda/cuda.h"

#include <string.h>

/* The variables of kernels that point to where they complain, and that place: pinned memory of the host, which outlives
 * the device that a trap has lost. One for the whole program, as its kernels are. */
static struct {
    const void *symbols[16];
    int n;
    Complaint *heard;
} complaints;

bool cuda_hear_complaints(const void *symbol) {
    if (complaints.n == (int)(sizeof complaints.symbols / sizeof *complaints.symbols))
        die("too many files of kernels complain");
    complaints.symbols[complaints.n++] = symbol;
    return true;
}

void cuda_listen_to_complaints(void) {
    if (!complaints.heard) {
        cuda_check(cudaMallocHost((void **)&complaints.heard, sizeof *complaints.heard), "taking pinned memory");
        memset(complaints.heard, 0, sizeof *complaints.heard);
    }
    for (int i = 0; i < complaints.n; i++)
        cuda_check(cudaMemcpyToSymbol(complaints.symbols[i], &complaints.heard, sizeof complaints.heard, 0,
                                      cudaMemcpyHostToDevice),
                   "setting a variable of kernels");
}

void cuda_check(cudaError_t status, const char *what) {
    const Complaint *c = complaints.heard;
    if (status == cudaSuccess) return;
    if (c && c->what[0] && c->limit == OUT_OF_RANGE)
        die("CUDA: %s: %s[%lld] has a number out of range", what, c->what, (long long)c->at);
    if (c && c->what[0])
        die("CUDA: %s: %s[%lld] is %lld, expected less than %lld and not negative", what, c->what, (long long)c->at,
            (long long)c->index, (long long)c->limit);
    die("CUDA: %s: %s", what, cudaGetErrorString(status));
}

void *cuda_take_memory(Device *device, size_t bytes) {
    size_t available, total;
    void *memory;
    cudaError_t status = cudaMalloc(&memory, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        cuda_check(cudaMemGetInfo(&available, &total), "reading the free memory");
        die("out of memory: the GPU was asked for %zu bytes, %zu of %zu are free", bytes, available, total);
    }
    cuda_check(status, "taking memory");
    device->allocated += bytes;
    device->allocation_calls++;
    if (device->allocated > device->peak_allocated) device->peak_allocated = device->allocated;
    return memory;
}

/* Keeps the scratch memory handed out earlier, because queued operations and recorded graphs still use it. Each piece
 * is at least twice as large as the last, so all pieces together are smaller than twice the largest. */
void *cuda_scratch(Device *device, size_t bytes) {
    CudaState *state = cuda_state(device);
    bytes += state->kept;
    if (state->measuring) {
        if (bytes > state->measured) state->measured = bytes;
        return (void *)256; /* aligned; never accessed */
    }
    Scratch *last = &state->scratches[state->n_scratches ? state->n_scratches - 1 : 0];
    if (bytes <= last->bytes) return (char *)last->memory + state->kept;
    Scratch larger = {.bytes = bytes > 2 * last->bytes ? bytes : 2 * last->bytes};
    enum cudaStreamCaptureMode mode =
        cudaStreamCaptureModeRelaxed; /* a capture may be under way: it is not disturbed */
    cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "taking memory");
    larger.memory = cuda_take_memory(device, larger.bytes);
    cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "taking memory");
    state->scratches[state->n_scratches++] = larger; /* no more than bits of a size */
    return (char *)larger.memory + state->kept;
}

void *cuda_keep_scratch(Device *device, size_t bytes) {
    void *memory = cuda_scratch(device, bytes);
    cuda_state(device)->kept = (bytes + 255) / 256 * 256;
    return memory;
}

void cuda_release_scratch(Device *device) { cuda_state(device)->kept = 0; }

float cuda_milliseconds(Device *device, bool (*work)(Device *device, const void *argument), const void *argument) {
    cudaEvent_t begin, end;
    float milliseconds = INFINITY;
    cuda_check(cudaEventCreate(&begin), "timing");
    cuda_check(cudaEventCreate(&end), "timing");
    cuda_check(cudaEventRecord(begin, cuda_stream(device)), "timing");
    if (work(device, argument)) {
        cuda_check(cudaEventRecord(end, cuda_stream(device)), "timing");
        cuda_check(cudaEventSynchronize(end), "timing");
        cuda_check(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    }
    cuda_check(cudaEventDestroy(begin), "timing");
    cuda_check(cudaEventDestroy(end), "timing");
    return milliseconds;
}
