/* Streams, events and graphs of the emulated runtime.
 *
 * What is put into a stream may run at once or not before somebody waits for it; a program is right only if it is right
 * either way. Seed 0 runs everything at once. Seed 1 runs nothing until it must: a missing wait then reads what was
 * there before. Random seeds draw at each call whether some of the streams get on. */
#include <time.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>

#include "kernels/cuda/emulate/internal.h"

struct CUstream_st;

namespace emulate {

struct EventState {
    uint64_t recorded = 0, completed = 0; /* how many times it was put into a stream, how many of them have been met */
    CUstream_st *stream = NULL;           /* into which it was put last */
    double seconds = 0;
};

struct Work {
    enum { RUN, RECORD, WAIT } kind;
    std::function<void()> run;
    std::shared_ptr<EventState> event;
    uint64_t number;           /* of the event's recordings: the one that is meant */
    const void *kernel = NULL; /* that it launches */
};

} // namespace emulate

struct CUgraph_st {
    std::vector<emulate::Work> work; /* in an order that its dependencies allow */
};
struct CUgraphExec_st {
    std::vector<emulate::Work> work;
    size_t bytes; /* of the device's memory */
};
struct CUstream_st {
    bool blocking = true; /* waits for the default stream, and it for this one */
    std::deque<emulate::Work> queue;
    CUgraph_st *capture = NULL;
};
struct CUevent_st {
    std::shared_ptr<emulate::EventState> state = std::make_shared<emulate::EventState>();
    CUgraph_st *capture = NULL; /* recorded in a stream that is being captured */
};

namespace emulate {

static std::recursive_mutex lock; /* the host may call from several threads */
typedef std::lock_guard<std::recursive_mutex> Hold;
static CUstream_st default_stream;
static std::vector<CUstream_st *> streams = {&default_stream}; /* in the order of their creation */
static thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
static uint64_t random_state = 0x9E3779B97F4A7C15u;

static CUstream_st &stream_of(cudaStream_t handle) {
    bool is_default = !handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
    return is_default ? default_stream : *handle;
}

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
    Hold hold(lock);
    for (CUstream_st *stream : streams) drain(*stream);
}

/* Puts work into a stream, or into the graph for which it is being captured. */
static cudaError_t enqueue(CUstream_st &stream, const Work &work) {
    if (stream.capture) {
        stream.capture->work.push_back(work);
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
    Hold hold(lock);
    return enqueue(stream_of(stream), {Work::RUN, std::move(run), NULL, 0});
}

cudaError_t enqueue_launch(cudaStream_t stream, const Launch &launch) {
    Hold hold(lock);
    CUstream_st &s = stream_of(stream);
    cudaError_t loaded = s.capture ? cudaSuccess : load_code(launch.kernel);
    if (loaded != cudaSuccess) return set_error(loaded);
    return enqueue(s, {Work::RUN, [launch] { run_launch(launch); }, NULL, 0, launch.kernel});
}

cudaError_t enqueue_copy(cudaStream_t stream, void *to, const void *from, size_t bytes) {
    return enqueue_run(stream, [=] {
        check::host_copies(to, from, bytes);
        memmove(to, from, bytes);
    });
}

cudaError_t enqueue_fill(cudaStream_t stream, void *to, int value, size_t bytes) {
    return enqueue_run(stream, [=] {
        check::host_copies(to, NULL, bytes);
        memset(to, value, bytes);
    });
}

bool is_capturing(cudaStream_t stream) { return stream_of(stream).capture != NULL; }

/* Returns whether a capture is under way that forbids this thread to take memory. */
bool capture_forbids_memory() {
    Hold hold(lock);
    if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
    for (CUstream_st *s : streams)
        if (s->capture) return true;
    return false;
}

} // namespace emulate

using namespace emulate;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    Hold hold(lock);
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
    Hold hold(lock);
    drain(*stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    Hold hold(lock);
    if (is_capturing(stream)) return set_error(cudaErrorStreamCaptureUnsupported);
    drain(stream_of(stream));
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { /* each call runs queued work, so that polling loops end */
    Hold hold(lock);
    CUstream_st &s = stream_of(stream);
    if (s.queue.empty()) return cudaSuccess;
    advance(s);
    return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    Hold hold(lock);
    CUstream_st &s = stream_of(stream);
    if (event->capture) { /* the stream joins the capture */
        s.capture = event->capture;
        return cudaSuccess;
    }
    return enqueue(s, {Work::WAIT, {}, event->state, event->state->recorded});
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument) {
    return enqueue_run(stream, [=] { function(argument); });
}

cudaError_t cudaDeviceSynchronize(void) {
    synchronize_device();
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

/* ---- events ---- */

void emulate_set_clock(double (*seconds)(void)) { clock_of_test = seconds; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = new CUevent_st();
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    Hold hold(lock);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    Hold hold(lock);
    CUstream_st &s = stream_of(stream);
    event->capture = s.capture;
    if (s.capture) return cudaSuccess;
    event->state->stream = &s;
    return enqueue(s, {Work::RECORD, {}, event->state, ++event->state->recorded});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    Hold hold(lock);
    reach(*event->state, event->state->recorded);
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    Hold hold(lock);
    if (event->state->completed == event->state->recorded) return cudaSuccess;
    advance(*event->state->stream);
    return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    Hold hold(lock);
    if (!from->state->recorded || !to->state->recorded) return set_error(cudaErrorInvalidResourceHandle);
    if (from->state->completed < from->state->recorded || to->state->completed < to->state->recorded)
        return set_error(cudaErrorNotReady);
    *milliseconds = (float)(1e3 * (to->state->seconds - from->state->seconds));
    return cudaSuccess;
}

/* ---- graphs: what is captured is kept as it is and put into a stream again at each launch ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode) {
    Hold hold(lock);
    CUstream_st &s = stream_of(stream);
    if (&s == &default_stream || s.capture) return set_error(cudaErrorStreamCaptureUnsupported);
    s.capture = new CUgraph_st();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    Hold hold(lock);
    *graph = stream_of(stream).capture;
    if (!*graph) return set_error(cudaErrorIllegalState);
    for (CUstream_st *s : streams)
        if (s->capture == *graph) s->capture = NULL;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    std::swap(*mode, thread_mode);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    Hold hold(lock);
    *status = is_capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
    size_t bytes;
    cudaError_t status = cudaSuccess;
    for (const Work &work : graph->work)
        if (work.kernel && status == cudaSuccess) status = load_code(work.kernel);
    if (status != cudaSuccess) return set_error(status);
    status = take_graph(&bytes);
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
    Hold hold(lock);
    if (graph_launch_fails()) return set_error(cudaErrorMemoryAllocation);
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
    Hold hold(lock);
    release_graph(executable->bytes);
    delete executable;
    return cudaSuccess;
}
}
