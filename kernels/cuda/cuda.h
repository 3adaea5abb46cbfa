/* Shared by the operations of the cuda device. Each family of operations has a .cu file, which exports only its
 * functions cuda_<operation>, with the signatures of ops.h. The door checks shapes and types before it calls them. */
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>

#ifdef __cplusplus
#define _Static_assert static_assert
#define _Noreturn [[noreturn]]
extern "C" {
#endif

#include "base/base.h"
#include "kernels/cuda/libraries/nvml.h"
#include "kernels/ops_table.h"
#include "kernels/philox.h"

/* One of the two buffers that batches are copied through. */
typedef struct {
    void *pinned;
    size_t bytes;
    cudaEvent_t copied; /* the copy from it is done */
} Stage;

/* The operations that calls with one key have queued. */
typedef struct {
    uint64_t key[2];       /* its hashes; 0, 0: unused */
    int64_t last_used;     /* counts calls of Device.repeat */
    cudaGraphExec_t graph; /* NULL: seen once */
} Recording;

enum { RECORDINGS = 256, TOGETHER = 32 /* of work that has operations between ranks */ };

/* Memory that operations share, see cuda_scratch. */
typedef struct {
    void *memory;
    size_t bytes;
} Scratch;

/* An operation that is being timed. */
typedef struct {
    cudaEvent_t begin, end;
    double *seconds; /* to add to */
} Timed;

/* The reason why a kernel has stopped: check_index.h. */
enum { COMPLAINT = 96, OUT_OF_RANGE = -1 };
typedef struct {
    char what[COMPLAINT]; /* the array; "": nothing */
    int64_t at, index;    /* the element and its value ... */
    int64_t limit;        /* ... which should be below this; OUT_OF_RANGE: an element is several numbers */
} Complaint;

/* The device's own state. */
typedef struct {
    cudaStream_t stream; /* of operations: the first queue's, or the second's (Device.beside) */
    cudaStream_t other;  /* the other queue's; NULL: not opened yet */
    bool is_beside;      /* operations go into the second */
    cudaEvent_t forked;  /* the second queue begins behind it */
    cudaEvent_t *marks;  /* [n_marks] */
    int n_marks;
    int capability; /* 89 is 8.9 */
    int n_multiprocessors;
    size_t shared_limit;   /* bytes of shared memory that a block can ask for */
    Scratch scratches[64]; /* the last is in use */
    int n_scratches;
    bool reserved;   /* the scratch that was planned has been taken */
    size_t kept;     /* bytes at the beginning of the scratch: cuda_keep_scratch */
    bool measuring;  /* operations are called to learn how much scratch they need ... */
    size_t measured; /* ... which is this many bytes */
    bool at_most;    /* and must be enough for all smaller batches too */
    Stage stages[2];
    int64_t n_staged; /* the next call takes stage n_staged % 2 */
    Recording recordings[RECORDINGS], together[TOGETHER];
    int64_t repeats;
    bool unrecordable; /* what is being recorded needs a choice that only a direct call can make */
    Timed *timed;      /* with Device.profile */
    int n_timed;
    void *library;      /* cuBLASLt's: kernels/cuda/libraries/cublas.c */
    void *gelu_choices; /* kernels/cuda/gemm/gelu_choice.cu; NULL: none yet */
    void *convolutions; /* cuDNN's: kernels/cuda/libraries/cudnn.c */
    char uuid[NVML_UUID];
    Nvml *nvml; /* NULL: not opened yet, or not there */
    bool sought_nvml;
} CudaState;

static inline CudaState *cuda_state(const Device *device) { return (CudaState *)device->state; }
static inline cudaStream_t cuda_stream(const Device *device) { return cuda_state(device)->stream; }

/* Returns at least `bytes` of uninitialised device memory, 256-byte aligned, for the current operation: valid until the
 * next operation calls this. Allowed while a graph is captured.
 *
 * The memory plan measures the largest batch, so no smaller batch may ask for more. But a smaller batch can need more,
 * because it is divided into more parts that work at the same time. Such an operation asks for the most that any
 * smaller batch needs: always, or if that takes long to compute, only with CudaState.at_most. */
void *cuda_scratch(Device *device, size_t bytes);
/* Does the same for an operation that calls others as its parts: the memory stays valid until cuda_release_scratch. */
void *cuda_keep_scratch(Device *device, size_t bytes);
void cuda_release_scratch(Device *device);

/* Returns device memory, not cleared, and counts it; dies, naming the size, if there is not enough. */
void *cuda_take_memory(Device *device, size_t bytes);

/* Returns the milliseconds that the device takes for what work queues; INFINITY if work returns false. */
float cuda_milliseconds(Device *device, bool (*work)(Device *device, const void *argument), const void *argument);

/* Dies, naming `what`, if a call of the runtime or a launch failed. */
void cuda_check(cudaError_t status, const char *what);

/* Remembers a file's variable of kernels whose first member will point to where they complain. */
bool cuda_hear_complaints(const void *symbol);
/* Sets these variables of all files; call it when a device is opened. */
void cuda_listen_to_complaints(void);

/* Asks the runtime for the code of a kernel on the current GPU. */
cudaError_t cuda_find_code(void);
/* Returns the architectures that this program has code for, ascending (750 is 7.5); the last one also has PTX. */
const int *cuda_architectures(int *n);

/* Returns whether operations go into a graph: nothing can be waited for. */
static inline bool is_capturing(const Device *device) {
    enum cudaStreamCaptureStatus status;
    cuda_check(cudaStreamIsCapturing(cuda_stream(device), &status), "asking whether a graph is captured");
    return status != cudaStreamCaptureStatusNone;
}

#define OP_DECLARATION(op) __typeof__(op) cuda_##op;
FOR_EACH_OP(OP_DECLARATION)
#undef OP_DECLARATION

#ifdef __cplusplus
}

#include "kernels/cuda/gpu.h"

/* nvcc names what is local to a file by the first name in it that is not, and where there is none by a process number:
 * objects would depend on chance. */
#ifdef CUDA_FILE
extern "C" {
extern const char CUDA_FILE;
const char CUDA_FILE = 0;
}
#endif

/* Libraries compute on a GPU only: the emulator's device has none unless a test opens one. */
#if defined __CUDACC__ && !defined EMULATED_CARD
constexpr bool LOOK_FOR_LIBRARY = true;
#else
constexpr bool LOOK_FOR_LIBRARY = false;
#endif

/* The 16-bit types that this build has: the preset's, or both. */
#if !defined CUDA_HALF_BF16 && !defined CUDA_HALF_F16
#define CUDA_HALF_BF16
#define CUDA_HALF_F16
#endif

/* Must be the first statement of a kernel of T that takes long to compile. A program for all cards computes in one
 * 16-bit type on each (half_of in device.c): there the other type's kernels are nothing but a trap. */
template <class T> GPU_INLINE void only_where_used() {
#if defined CUDA_HALF_BY_CARD && defined __CUDA_ARCH__
    if constexpr (sizeof(T) == 2 && is_bf16<T>::value != (__CUDA_ARCH__ >= 800)) {
        __trap();
        __builtin_unreachable();
    }
#endif
}

/* Calls f(T()) for the type that dtype names: with_type(x.dtype, [&](auto zero) { using T = decltype(zero); ... }). */
template <class Function> inline void with_type(DType dtype, Function f) {
    switch (dtype) {
    case DTYPE_F32:
        return f(float());
#ifdef CUDA_HALF_BF16
    case DTYPE_BF16:
        return f(bf16());
#endif
#ifdef CUDA_HALF_F16
    case DTYPE_F16:
        return f(f16());
#endif
    default:
        die("the cuda device was not built for %s", dtype_name(dtype));
    }
}

#endif
