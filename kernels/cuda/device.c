/* The cuda device: its memory, its stream, its graphs, and the table of its operations. Host code in C: the same file
 * links against the CUDA runtime and, in tests, against the emulator's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "kernels/cards.h"
#include "kernels/cuda/conv3d/conv3d.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm/gelu_choice.h"
#include "kernels/cuda/libraries/cublas.h"
#include "kernels/cuda/libraries/cudnn.h"
#include "kernels/cuda/libraries/nccl.h"
#include "kernels/cuda/startup.h"

/* Lets a group look after the other ranks until a stream, or an event, is through. */
static void watch(Device *device, cudaEvent_t event) {
    double start = device->waiting ? seconds_now() : 0;
    for (int64_t tries = 0; device->waiting; tries++) {
        cudaError_t status = event ? cudaEventQuery(event) : cudaStreamQuery(cuda_stream(device));
        if (status != cudaErrorNotReady) return; /* an error is told by who waits then */
        (void)cudaGetLastError();
        device->waiting(device->context, tries ? seconds_now() - start : 0);
        rest_between_tries(tries);
    }
}

static void wait_for_operations(Device *device) {
    watch(device, NULL);
    cuda_check(cudaStreamSynchronize(cuda_stream(device)), "waiting for the GPU");
}

enum { MOST_TIMED = 4096 };

static void cuda_synchronize(Device *device) {
    CudaState *state = cuda_state(device);
    wait_for_operations(device);
    for (int i = 0; i < state->n_timed; i++) {
        float milliseconds;
        cuda_check(cudaEventElapsedTime(&milliseconds, state->timed[i].begin, state->timed[i].end), "timing");
        *state->timed[i].seconds += (double)milliseconds * 1e-3;
    }
    state->n_timed = 0;
}

/* Measures by events and does not wait, so that the host's own time is not measured. */
static void cuda_stopwatch(Device *device, double *seconds) {
    CudaState *state = cuda_state(device);
    if (state->measuring) return;
    if (!seconds && state->n_timed == MOST_TIMED) cuda_synchronize(device);
    if (!state->timed) state->timed = xcalloc(MOST_TIMED, sizeof *state->timed);
    Timed *timed = &state->timed[state->n_timed];
    if (!timed->begin) {
        cuda_check(cudaEventCreate(&timed->begin), "timing");
        cuda_check(cudaEventCreate(&timed->end), "timing");
    }
    cuda_check(cudaEventRecord(seconds ? timed->end : timed->begin, cuda_stream(device)), "timing");
    if (!seconds) return;
    timed->seconds = seconds;
    state->n_timed++;
}

static void *cuda_allocate(Device *device, size_t bytes) {
    void *memory = cuda_take_memory(device, bytes);
    cuda_check(cudaMemsetAsync(memory, 0, bytes ? bytes : 1, cuda_stream(device)), "clearing new memory");
    wait_for_operations(device); /* a failure is this allocation's */
    return memory;
}

static void cuda_release(Device *device, void *memory, size_t bytes) {
    watch(device, NULL); /* cudaFree waits for what is queued */
    cuda_check(cudaFree(memory), "freeing memory");
    device->allocated -= bytes;
}

/* The runtime may wait for what was queued before it copies from memory that is not pinned, and to it always. */
static void cuda_upload(Device *device, void *to, const void *from, size_t bytes) {
    watch(device, NULL);
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, cuda_stream(device)), "copying to the GPU");
}

static void grow_stage(Device *device, Stage *stage, size_t bytes) {
    if (bytes <= stage->bytes) return;
    if (stage->pinned) cuda_check(cudaFreeHost(stage->pinned), "freeing pinned memory");
    cuda_check(cudaMallocHost(&stage->pinned, bytes), "taking pinned memory");
    stage->bytes = bytes;
    device->allocation_calls++;
}

/* Copies in the stream of the operations. A copy beside them would hide some microseconds, but take events of two
 * streams that wait for each other, and a second place, for which everything would be recorded again. */
static void cuda_stage(Device *device, void *to, const void *head, size_t head_bytes, const void *from, size_t bytes) {
    CudaState *state = cuda_state(device);
    Stage *stage = &state->stages[state->n_staged++ % 2];
    size_t all = head_bytes + bytes;
    watch(device, stage->copied);
    cuda_check(cudaEventSynchronize(stage->copied), "waiting for an earlier copy");
    grow_stage(device, stage, all);
    memcpy(stage->pinned, head, head_bytes);
    memcpy((char *)stage->pinned + head_bytes, from, bytes);
    cuda_check(cudaMemcpyAsync(to, stage->pinned, all, cudaMemcpyHostToDevice, state->stream), "copying to the GPU");
    cuda_check(cudaEventRecord(stage->copied, state->stream), "ordering a copy");
}

static void cuda_download(Device *device, void *to, const void *from, size_t bytes) {
    watch(device, NULL);
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, cuda_stream(device)), "copying from the GPU");
    wait_for_operations(device);
}

static void cuda_clear(Device *device, void *memory, size_t bytes) {
    if (cuda_state(device)->measuring || !device->ops) return; /* there may be no such memory; it is only counted */
    cuda_check(cudaMemsetAsync(memory, 0, bytes, cuda_stream(device)), "clearing memory");
}

/* ---- the second queue ---- */

/* Opens its stream. A higher priority lets the few blocks of a transfer in between those of large kernels. */
static void open_second_queue(CudaState *state) {
    int least, greatest;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the priorities of streams");
    cuda_check(cudaStreamCreateWithPriority(&state->other, cudaStreamNonBlocking, greatest), "opening a stream");
    cuda_check(cudaEventCreateWithFlags(&state->forked, cudaEventDisableTiming), "opening an event");
}

static void cuda_beside(Device *device, bool yes) {
    CudaState *state = cuda_state(device);
    if (!state->other) open_second_queue(state);
    if (yes) {
        cuda_check(cudaEventRecord(state->forked, state->stream), "ordering streams");
        cuda_check(cudaStreamWaitEvent(state->other, state->forked, 0), "ordering streams");
    }
    cudaStream_t stream = state->stream;
    state->stream = state->other;
    state->other = stream;
    state->is_beside = yes;
}

static void cuda_mark(Device *device, int number) {
    CudaState *state = cuda_state(device);
    if (number >= state->n_marks) {
        state->marks = xrealloc(state->marks, (size_t)(number + 1) * sizeof *state->marks);
        for (; state->n_marks <= number; state->n_marks++)
            cuda_check(cudaEventCreateWithFlags(&state->marks[state->n_marks], cudaEventDisableTiming),
                       "opening an event");
    }
    cuda_check(cudaEventRecord(state->marks[number], state->is_beside ? state->stream : state->other),
               "ordering streams");
}

static void cuda_await(Device *device, int number) {
    CudaState *state = cuda_state(device);
    cuda_check(cudaStreamWaitEvent(state->is_beside ? state->other : state->stream, state->marks[number], 0),
               "ordering streams");
}

static void close_second_queue(CudaState *state) {
    for (int i = 0; i < state->n_marks; i++) cuda_check(cudaEventDestroy(state->marks[i]), "closing an event");
    free(state->marks);
    if (!state->other) return;
    cuda_check(cudaEventDestroy(state->forked), "closing an event");
    cuda_check(cudaStreamDestroy(state->other), "closing a stream");
}

static void cuda_poke(Device *device, void *to, const void *from_host, size_t bytes) {
    cudaStream_t stream;
    (void)device;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "opening a stream");
    cuda_check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream), "copying to the GPU");
    cuda_check(cudaStreamSynchronize(stream), "copying to the GPU");
    cuda_check(cudaStreamDestroy(stream), "closing a stream");
}

static void *cuda_allocate_host(Device *device, size_t bytes) {
    void *memory;
    (void)device;
    cudaError_t status = cudaMallocHost(&memory, bytes);
    if (status != cudaErrorMemoryAllocation) {
        cuda_check(status, "taking pinned memory");
        return memory;
    }
    (void)cudaGetLastError();
    return xaligned(bytes);
}

static void cuda_release_host(Device *device, void *memory) {
    (void)device;
    cudaError_t status = cudaFreeHost(memory);
    if (status != cudaErrorInvalidValue) {
        cuda_check(status, "freeing pinned memory");
        return;
    }
    (void)cudaGetLastError(); /* it is not pinned */
    free(memory);
}

static size_t cuda_available(const Device *device) {
    size_t available, total;
    (void)device;
    cuda_check(cudaMemGetInfo(&available, &total), "reading the free memory");
    return available;
}

/* Waits for recordings that still run. */
static void cuda_forget(Device *device) {
    CudaState *state = cuda_state(device);
    wait_for_operations(device);
    for (int i = 0; i < RECORDINGS + TOGETHER; i++) {
        Recording *r = i < RECORDINGS ? &state->recordings[i] : &state->together[i - RECORDINGS];
        if (r->graph) cuda_check(cudaGraphExecDestroy(r->graph), "forgetting a graph");
        *r = (Recording){0};
    }
}

/* Ends a recording that is under way, without a result. */
static void end_capture(cudaStream_t stream) {
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph = NULL;
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess || status == cudaStreamCaptureStatusNone) return;
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) (void)cudaGetLastError();
    if (graph) cuda_check(cudaGraphDestroy(graph), "forgetting a graph");
}

/* Graphs that still run are freed by the runtime when they have ended. */
static void cuda_abandon(Device *device) {
    CudaState *state = cuda_state(device);
    if (state->is_beside) cuda_beside(device, false);
    end_capture(state->stream);
    for (int i = 0; i < TOGETHER; i++) {
        if (state->together[i].graph) cuda_check(cudaGraphExecDestroy(state->together[i].graph), "forgetting a graph");
        state->together[i] = (Recording){0};
    }
}

/* Opens NVML with the first call: only trainings read sensors. */
static void cuda_read_sensors(Device *device, DeviceSensors *sensors) {
    CudaState *state = cuda_state(device);
    if (!state->sought_nvml) state->nvml = nvml_open(state->uuid);
    state->sought_nvml = true;
    nvml_read(state->nvml, sensors);
}

static void cuda_close(Device *device) {
    CudaState *state = cuda_state(device);
    nvml_close(state->nvml);
    cuda_forget(device);
    cublas_close(device);
    gelu_choices_close(device);
    cudnn_close(device);
    for (int i = 0; state->timed && i < MOST_TIMED && state->timed[i].begin; i++) {
        cuda_check(cudaEventDestroy(state->timed[i].begin), "closing an event");
        cuda_check(cudaEventDestroy(state->timed[i].end), "closing an event");
    }
    free(state->timed);
    for (int i = 0; i < state->n_scratches; i++)
        cuda_release(device, state->scratches[i].memory, state->scratches[i].bytes);
    for (int i = 0; i < 2; i++) {
        if (state->stages[i].pinned) cuda_check(cudaFreeHost(state->stages[i].pinned), "freeing pinned memory");
        cuda_check(cudaEventDestroy(state->stages[i].copied), "closing an event");
    }
    close_second_queue(state);
    cuda_check(cudaStreamDestroy(state->stream), "closing the stream");
    free(state);
    free(device);
}

/* Loads the code of a graph's kernels, which is otherwise done when they are first used, and takes memory. */
static void load_kernels(cudaGraph_t graph) {
    size_t count = 0;
    struct cudaFuncAttributes attributes;
    cuda_check(cudaGraphGetNodes(graph, NULL, &count), "measuring");
    cudaGraphNode_t *nodes = xcalloc(count + 1, sizeof *nodes);
    if (count) cuda_check(cudaGraphGetNodes(graph, nodes, &count), "measuring");
    for (size_t i = 0; i < count; i++) {
        enum cudaGraphNodeType type;
        struct cudaKernelNodeParams kernel;
        cuda_check(cudaGraphNodeGetType(nodes[i], &type), "measuring");
        if (type != cudaGraphNodeTypeKernel) continue;
        if (cudaGraphKernelNodeGetParams(nodes[i], &kernel) != cudaSuccess ||
            cudaFuncGetAttributes(&attributes, kernel.func) != cudaSuccess)
            (void)cudaGetLastError();
    }
    free(nodes);
}

/* Captures the launches in a graph that is never run. */
static void measure(Device *device, void (*work)(void *argument), void *argument) {
    CudaState *state = cuda_state(device);
    cudaGraph_t graph;
    state->measuring = state->at_most = true;
    state->measured = 0;
    cuda_check(cudaStreamBeginCapture(state->stream, cudaStreamCaptureModeRelaxed), "measuring");
    work(argument);
    cuda_check(cudaStreamEndCapture(state->stream, &graph), "measuring");
    load_kernels(graph);
    cuda_check(cudaGraphDestroy(graph), "measuring");
    state->measuring = state->at_most = false;
}

static size_t cuda_measure(Device *device, void (*work)(void *argument), void *argument) {
    CudaState *state = cuda_state(device);
    gemm_prepare(device);
    measure(device, work, argument);
    bool convolves = device->counters[OP_conv3d_forward].calls > 0; /* cuDNN's algorithms need scratch, too */
    if (convolves && conv3d_prepare(device)) measure(device, work, argument);
    size_t there = state->n_scratches ? state->scratches[state->n_scratches - 1].bytes : 0; /* see cuda_scratch */
    return state->measured <= there ? 0 : state->measured > 2 * there ? state->measured : 2 * there;
}

static void cuda_reserve(Device *device, size_t measured, size_t staged) {
    CudaState *state = cuda_state(device);
    cuda_scratch(device, measured);
    state->reserved = state->n_scratches > 0;
    for (int i = 0; i < 2; i++) grow_stage(device, &state->stages[i], staged);
}

/* Returns the recording of this key among n, or else empties and returns the least recently used one: of those seen
 * only once, if there are any. */
static Recording *find_recording(Recording *recordings, int n, const uint64_t hashes[2]) {
    Recording *oldest = recordings;
    for (Recording *r = recordings; r < recordings + n; r++) {
        if (!memcmp(r->key, hashes, sizeof r->key)) return r;
        bool less_worth = r->graph ? oldest->graph && r->last_used < oldest->last_used
                                   : oldest->graph || r->last_used < oldest->last_used;
        if (less_worth) oldest = r;
    }
    if (oldest->graph) cuda_check(cudaGraphExecDestroy(oldest->graph), "forgetting a graph");
    *oldest = (Recording){.key = {hashes[0], hashes[1]}};
    return oldest;
}

/* Returns whether graphs may be made. They take memory that no plan knows: until CUDA 12.4 and driver 550 64 KB for
 * each kernel, 36 MB for a micro-batch of 24 blocks, of which RECORDINGS could be gigabytes. None is made that finds
 * less than half of the headroom: the rest is for what else comes later. */
static bool has_room_to_record(const Device *device) { return cuda_available(device) >= device->headroom / 2; }

/* Puts what `work` queues into a graph, and that, if it is launched together with other ranks, on the device. False if
 * there is no memory for that, or if an algorithm has to be chosen first. */
static bool record(Device *device, Recording *r, bool together, void (*work)(void *argument), void *argument) {
    cudaStream_t stream = cuda_stream(device);
    cudaGraph_t graph;
    cuda_state(device)->unrecordable = false;
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "recording a graph");
    work(argument);
    cuda_check(cudaStreamEndCapture(stream, &graph), "recording a graph");
    bool complete = !cuda_state(device)->unrecordable;
    cudaError_t status = complete ? cudaGraphInstantiateWithFlags(&r->graph, graph, 0) : cudaSuccess;
    cuda_check(cudaGraphDestroy(graph), "recording a graph");
    if (status == cudaSuccess && complete && together) status = cudaGraphUpload(r->graph, stream);
    if (status == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        if (r->graph) cuda_check(cudaGraphExecDestroy(r->graph), "forgetting a graph");
        r->graph = NULL;
        return false;
    }
    cuda_check(status, "recording a graph");
    return complete;
}

/* Forgets the graph and returns false if there is no memory for it. */
static bool launch(CudaState *state, Recording *r) {
    cudaError_t status = cudaGraphLaunch(r->graph, state->stream);
    if (status != cudaErrorMemoryAllocation) {
        cuda_check(status, "repeating a graph");
        return true;
    }
    (void)cudaGetLastError();
    cuda_check(cudaGraphExecDestroy(r->graph), "forgetting a graph");
    r->graph = NULL;
    return false;
}

/* Records and launches together with the other ranks: all of them, or none. Returns whether it was done. */
static bool record_together(Device *device, Recording *r, void (*work)(void *argument), void *argument) {
    bool seen = r->last_used > 0;
    if (!seen || device->profile) return false;
    if (!r->graph) {
        bool room = has_room_to_record(device);
        if (!device->agree(room) || !room) return false;
        bool recorded = record(device, r, true, work, argument);
        if (!device->agree(recorded) || !recorded) {
            if (r->graph) cuda_check(cudaGraphExecDestroy(r->graph), "forgetting a graph");
            r->graph = NULL;
            return false;
        }
    }
    cuda_check(cudaGraphLaunch(r->graph, cuda_stream(device)), "repeating a graph");
    return true;
}

/* Does the same as far as other ranks have the same to do. */
static bool repeat_together(Device *device, const uint64_t hashes[2], void (*work)(void *argument), void *argument) {
    CudaState *state = cuda_state(device);
    if (!device->agree || !device->agree(hashes[0] ^ (uint64_t)device->profile)) return false;
    Recording *r = find_recording(state->together, TOGETHER, hashes);
    bool done = record_together(device, r, work, argument);
    r->last_used = ++state->repeats;
    return done;
}

static bool repeat_alone(Device *device, const uint64_t hashes[2], void (*work)(void *argument), void *argument) {
    CudaState *state = cuda_state(device);
    Recording *r = find_recording(state->recordings, RECORDINGS, hashes);
    bool seen = r->last_used > 0;
    r->last_used = ++state->repeats;
    if (!seen || device->profile) return false;
    if (!r->graph && !(has_room_to_record(device) && record(device, r, false, work, argument))) return false;
    return launch(state, r);
}

/* Calls operations directly the first time, when algorithms are chosen, and records them the second time: recording is
 * not worth it for batches whose sizes never recur. */
static void cuda_repeat(Device *device, const void *key, size_t bytes, bool together, void (*work)(void *argument),
                        void *argument) {
    const uint64_t hashes[2] = {hash_bytes(HASH_START, key, bytes), hash_bytes(~HASH_START, key, bytes)};
    const DeviceOps *ops = device->ops;
    device->uncounted = true;
    if (!(together ? repeat_together : repeat_alone)(device, hashes, work, argument)) work(argument);
    device->uncounted = false;
    device->ops = NULL; /* with --profile, too: seconds are those of padding as well */
    work(argument);
    device->ops = ops;
}

static const char *cuda_convolutions(Device *device) {
    conv3d_prepare(device);
    return cudnn_description(device);
}

static const char CARD[] = "card ";

/* The card; choices between convolutions, and between products, which begin with the names of their libraries. */
static char *cuda_autotune_cache(const Device *device) {
    OWNED char *convolutions = cudnn_autotune_cache(device), *products = gelu_choices_text(device);
    if (!convolutions && !products) return NULL;
    return xformat("%s%s\n%s%s", CARD, device->product, convolutions ? convolutions : "", products ? products : "");
}

/* Removes the first line, which is missing in files of earlier versions. Returns NULL if it names another card. */
static const char *without_card(const Device *device, const char *text, Error *error) {
    if (strncmp(text, CARD, strlen(CARD)) != 0) return text;
    return library_choices(text + strlen(CARD), device->product, error);
}

static bool cuda_load_autotune_cache(Device *device, const char *text, Error *error) {
    text = without_card(device, text, error);
    if (!text) return false;
    const char *products = strncmp(text, "cuBLASLt ", 9) ? strstr(text, "\ncuBLASLt ") : text;
    if (products && *products == '\n') products++;
    OWNED char *convolutions = xformat("%.*s", products ? (int)(products - text) : (int)strlen(text), text);
    bool ok = true;
    if (products) {
        gemm_prepare(device);
        ok = gelu_choices_load(device, products, error);
    }
    if (!products || *convolutions) {
        conv3d_prepare(device);
        ok = cudnn_load_autotune_cache(device, convolutions, error) && ok;
    }
    return ok;
}

#define OP_ENTRY(op) .op = cuda_##op,
static const DeviceOps cuda_operations = {FOR_EACH_OP(OP_ENTRY)};

#ifndef CUDA_BUILT_FOR /* by a C++ compiler, with kernels/cuda/emulate */
#define CUDA_BUILT_FOR "the emulated card"
#endif

const char *cuda_built_for(void) { return CUDA_BUILT_FOR; }

int cuda_find_libraries(CudaLibrary found[CUDA_LIBRARIES]) {
    static const struct {
        const char *name;
        void (*find)(char text[LIBRARY_DESCRIPTION]);
    } libraries[CUDA_LIBRARIES] = {{"NVIDIA driver", startup_find_driver},
                                   {"cuBLASLt", cublas_find},
                                   {"cuDNN", cudnn_find},
                                   {"NCCL", nccl_find},
                                   {"NVML", nvml_find}};
    for (int i = 0; i < CUDA_LIBRARIES; i++) {
        found[i].name = libraries[i].name;
        libraries[i].find(found[i].text);
    }
    return CUDA_LIBRARIES;
}

static DType half_of(int capability) {
#if defined CUDA_HALF_F16 && !defined CUDA_HALF_BF16
    (void)capability;
    return DTYPE_F16;
#elif defined CUDA_HALF_BF16 && !defined CUDA_HALF_F16
    (void)capability;
    return DTYPE_BF16;
#else
    return capability >= 80 ? DTYPE_BF16 : DTYPE_F16;
#endif
}

/* "NVIDIA GeForce RTX 4090" -> "RTX 4090". */
static void card_name(char out[32], const char *full) {
    static const char *const makers[] = {"NVIDIA ", "Tesla ", "GeForce "};
    for (int i = 0; i < 3; i++)
        if (!strncmp(full, makers[i], strlen(makers[i]))) full += strlen(makers[i]);
    snprintf(out, 32, "%.31s", full);
}

Device *cuda_device_open(int index) {
    const char *missing = cuda_missing();
    if (missing) die("--device cuda: %s", missing);
    struct cudaDeviceProp properties;
    Device *device = xcalloc(1, sizeof *device);
    CudaState *state = xcalloc(1, sizeof *state);
    int shared;
    cuda_check(cudaSetDevice(index), "choosing the GPU");
    cuda_listen_to_complaints();
    cuda_check(cudaGetDeviceProperties(&properties, index), "asking for the GPU's properties");
    cuda_check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
               "asking for its limits");
    cuda_check(cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking), "opening a stream");
    for (int i = 0; i < 2; i++) {
        cuda_check(cudaEventCreateWithFlags(&state->stages[i].copied, cudaEventDisableTiming), "opening an event");
    }
    state->capability = 10 * properties.major + properties.minor;
    state->n_multiprocessors = properties.multiProcessorCount;
    state->shared_limit = (size_t)shared;
    memcpy(state->uuid, properties.uuid.bytes, NVML_UUID);
    *device = (Device){.name = "cuda",
                       .n_threads = 1,
                       .ops = &cuda_operations,
                       .half = half_of(state->capability),
                       .tf32 = half_of(state->capability) == DTYPE_BF16, /* cards with it, and builds for them */
                       .allocate = cuda_allocate,
                       .release = cuda_release,
                       .upload = cuda_upload,
                       .stage = cuda_stage,
                       .download = cuda_download,
                       .clear = cuda_clear,
                       .synchronize = cuda_synchronize,
                       .stopwatch = cuda_stopwatch,
                       .available = cuda_available,
                       .measure = cuda_measure,
                       .reserve = cuda_reserve,
                       .repeat = cuda_repeat,
                       .forget = cuda_forget,
                       .abandon = cuda_abandon,
                       .convolutions = cuda_convolutions,
                       .autotune_cache = cuda_autotune_cache,
                       .load_autotune_cache = cuda_load_autotune_cache,
                       .allocate_host = cuda_allocate_host,
                       .release_host = cuda_release_host,
                       .read_sensors = cuda_read_sensors,
                       .beside = cuda_beside,
                       .mark = cuda_mark,
                       .await = cuda_await,
                       .poke = cuda_poke,
                       .close = cuda_close,
                       .state = state};
    card_name(device->card, properties.name);
    snprintf(device->product, sizeof device->product, "%.63s", properties.name);
    device->total_memory = properties.totalGlobalMem;
    device->headroom = CARD_HEADROOM;
    snprintf(device->notes, sizeof device->notes, "TF32 %s",
             device->tf32 ? "enabled" : "is not in this card: f32 products are exact");
    snprintf(device->description, sizeof device->description, "cuda: %.48s, %.1f GB, sm_%d, %d multiprocessors",
             properties.name, (double)properties.totalGlobalMem * 1e-9, state->capability, state->n_multiprocessors);
    return device;
}
