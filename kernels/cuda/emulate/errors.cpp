/* The errors of the CUDA runtime: the last one of a thread, names and texts. */
#include "kernels/cuda/emulate/internal.h"

static thread_local cudaError_t last_error = cudaSuccess;

cudaError_t emulate::set_error(cudaError_t status) { return last_error = status; }

extern "C" {

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
