/* Streams, events and graphs of the emulated runtime.
 *
 * What is put into a stream may run at once or not before somebody waits for it; a program is right only if it is right
 * either way. Seed 0 runs everything at once. Seed 1 runs nothing until it must: a missing wait then reads what was
 * there before. Random seeds draw at each call whether some of the streams get on. */
#include <time.h>

#include <algorithm>

#include "kernels/cuda/emulate/capture.h"

namespace emulate {

static uint64_t random_state = 0x9E3779B97F4A7C15u;

static double (*clock_of_test)(void);

static double now() {
    struct timespec t;
    if (clock_of_test) return clock_of_test();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void advance(CUstream_st &stream);

static void reach(EventState &event, uint64_t number) {
    while (event.completed < number) advance(*event.stream);
}

/* Runs the oldest work of a stream; before it, in other streams, what it waits for. */
static void advance(CUstream_st &stream) {
    Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    switch (work.kind) {
    case Work::RUN:
        work.run();
        break;
    case Work::RECORD:
        work.event->completed = std::max(work.event->completed, work.number);
        work.event->seconds = now();
        break;
    case Work::WAIT:
        reach(*work.event, work.number);
        break;
    }
}

static void drain(CUstream_st &stream) {
    while (!stream.queue.empty()) advance(stream);
}

static void advance_at_random() {
    CUstream_st &stream = *streams[random_next(random_state) % streams.size()];
    for (uint64_t steps = random_next(random_state) % 4; steps && !stream.queue.empty(); steps--) advance(stream);
}

void synchronize_device() {
    Hold hold(streams_lock);
    for (CUstream_st *stream : streams) drain(*stream);
}

bool waits_for_pageable_copy() {
    Hold hold(streams_lock);
    return emulate_seed() == 0 || (emulate_seed() > 1 && random_next(random_state) & 1);
}

/* Puts work into a stream, or into the graph for which it is being captured. */
static cudaError_t enqueue(CUstream_st &stream, const Work &work) {
    cudaError_t allowed = capture_allows_use(stream);
    if (allowed != cudaSuccess) return allowed;
    if (stream.capture) {
        capture_work(stream, work);
        return cudaSuccess;
    }
    if (&stream == &default_stream) {
        for (CUstream_st *other : streams)
            if (other->blocking && other != &stream) drain(*other);
    } else if (stream.blocking) {
        drain(default_stream);
    }
    stream.queue.push_back(work);
    if (emulate_seed() == 0) drain(stream);
    if (emulate_seed() > 1) advance_at_random();
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

static cudaError_t enqueue_run(cudaStream_t stream, std::function<void()> run) {
    Hold hold(streams_lock);
    return enqueue(stream_of(stream), {Work::RUN, std::move(run), NULL, 0});
}

/* What the host has put into streams one by one, kernels and fills, and graphs. */
static int64_t single_launches, graph_launches;

/* Tells of them in the end, if the environment asks for it. */
__attribute__((destructor)) static void report_launches() {
    if (getenv("EMULATE_LAUNCHES"))
        fprintf(stderr, "emulate: %lld launches, and %lld of graphs\n", (long long)single_launches,
                (long long)graph_launches);
}

cudaError_t enqueue_launch(cudaStream_t stream, const Launch &launch) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    cudaError_t loaded = load_code(launch.kernel, s.capture != NULL);
    if (loaded != cudaSuccess) return capture_error(stream, loaded);
    single_launches += !s.capture;
    return enqueue(s, {Work::RUN, [launch] { run_launch(launch); }, NULL, 0, launch.kernel});
}

cudaError_t enqueue_copy(cudaStream_t stream, void *to, const void *from, size_t bytes) {
    return enqueue_run(stream, [=] {
        check::host_copies(to, from, bytes);
        memmove(to, from, bytes);
    });
}

cudaError_t enqueue_fill(cudaStream_t stream, void *to, int value, size_t bytes) {
    {
        Hold hold(streams_lock);
        single_launches += !stream_of(stream).capture;
    }
    return enqueue_run(stream, [=] {
        check::host_copies(to, NULL, bytes);
        memset(to, value, bytes);
    });
}

} // namespace emulate

using namespace emulate;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    Hold hold(streams_lock);
    if (memory_call_fails()) return set_error(cudaErrorMemoryAllocation);
    *stream = new CUstream_st();
    (*stream)->blocking = !(flags & cudaStreamNonBlocking);
    streams.push_back(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    Hold hold(streams_lock);
    cudaError_t allowed = capture_allows_wait(*stream);
    if (allowed != cudaSuccess) return allowed;
    drain(*stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    Hold hold(streams_lock);
    cudaError_t allowed = capture_allows_wait(stream_of(stream));
    if (allowed != cudaSuccess) return allowed;
    drain(stream_of(stream));
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { /* each call runs queued work, so that polling loops end */
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    cudaError_t allowed = capture_allows_wait(s);
    if (allowed != cudaSuccess || s.queue.empty()) return allowed;
    advance(s);
    return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    bool captured;
    if (flags) return set_error(cudaErrorNotSupported);
    cudaError_t status = capture_wait(s, *event, &captured);
    return captured ? status : enqueue(s, {Work::WAIT, {}, event->state, event->state->recorded});
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument) {
    return enqueue_run(stream, [=] { function(argument); });
}

cudaError_t cudaDeviceSynchronize(void) {
    Hold hold(streams_lock);
    cudaError_t allowed = capture_allows_device_wait();
    if (allowed != cudaSuccess) return allowed;
    synchronize_device();
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

/* ---- events ---- */

void emulate_set_clock(double (*seconds)(void)) { clock_of_test = seconds; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    if (memory_call_fails()) return set_error(cudaErrorMemoryAllocation);
    *event = new CUevent_st();
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    Hold hold(streams_lock);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    cudaError_t allowed = capture_allows_use(s);
    if (allowed != cudaSuccess) return allowed;
    event->capture = s.capture;
    event->frontier = s.frontier;
    if (s.capture) return cudaSuccess;
    event->state->stream = &s;
    return enqueue(s, {Work::RECORD, {}, event->state, ++event->state->recorded});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    Hold hold(streams_lock);
    cudaError_t allowed = capture_allows_wait(*event);
    if (allowed != cudaSuccess) return allowed;
    reach(*event->state, event->state->recorded);
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    Hold hold(streams_lock);
    cudaError_t allowed = capture_allows_wait(*event);
    if (allowed != cudaSuccess || event->state->completed == event->state->recorded) return allowed;
    advance(*event->state->stream);
    return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    Hold hold(streams_lock);
    for (cudaEvent_t event : {from, to})
        if (event->capture) return capture_allows_wait(*event);
    if (!from->state->recorded || !to->state->recorded) return set_error(cudaErrorInvalidResourceHandle);
    if (from->state->completed < from->state->recorded || to->state->completed < to->state->recorded)
        return set_error(cudaErrorNotReady);
    *milliseconds = (float)(1e3 * (to->state->seconds - from->state->seconds));
    return cudaSuccess;
}

/* ---- graphs: what was captured is kept as it is and put into a stream again at each launch ---- */

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
    size_t bytes, kernels = 0;
    cudaError_t status = cudaSuccess;
    for (const Work &work : graph->work) {
        if (work.kernel && status == cudaSuccess) status = load_code(work.kernel);
        kernels += work.kernel != NULL;
    }
    if (status != cudaSuccess) return set_error(status);
    status = take_graph(kernels, &bytes);
    if (status == cudaSuccess) *executable = new CUgraphExec_st{graph->work, bytes};
    return status;
}
#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, cudaGraphNode_t *, char *, size_t) {
    return cudaGraphInstantiateWithFlags(executable, graph, 0);
}
#endif

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    Hold hold(streams_lock);
    if (graph_launch_fails()) return set_error(cudaErrorMemoryAllocation);
    graph_launches++;
    for (const Work &work : executable->work) enqueue(stream_of(stream), work);
    return is_lost() ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    if (!nodes) *count = graph->work.size();
    for (size_t i = 0; nodes && i < *count; i++) nodes[i] = reinterpret_cast<cudaGraphNode_t>(&graph->work[i]);
    return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
    *type = reinterpret_cast<Work *>(node)->kernel ? cudaGraphNodeTypeKernel : cudaGraphNodeTypeEmpty;
    return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *parameters) {
    *parameters = cudaKernelNodeParams();
    parameters->func = const_cast<void *>(reinterpret_cast<Work *>(node)->kernel);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    Hold hold(streams_lock);
    release_graph(executable->bytes);
    delete executable;
    return cudaSuccess;
}
}
