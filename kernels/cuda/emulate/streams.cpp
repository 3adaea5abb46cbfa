/* Streams, events and graphs of the emulated runtime.
 *
 * What is put into a stream may run at once or not before somebody waits for it; a program is right only if it is right
 * either way. Seed 0 runs everything at once. Seed 1 runs nothing until it must: a missing wait then reads what was
 * there before. Random seeds draw at each call whether some of the streams get on.
 *
 * Polled work may keep its stream waiting for another process. Then a call that waits gives the lock back and tries
 * again; meanwhile all other streams get on, under every seed, as time goes by. */
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/cuda/emulate/capture.h"
#include "kernels/cuda/emulate/emulate_streams.h"

namespace emulate {

static uint64_t random_state = 0x9E3779B97F4A7C15u;

static double (*clock_of_test)(void);

static double now() {
    struct timespec t;
    if (clock_of_test) return clock_of_test();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool advance(CUstream_st &stream);

/* Runs a stream to one of an event's recordings in it. Returns false if polled work comes before and is not done. */
static bool reach(EventState &event, uint64_t number, CUstream_st *stream) {
    while (event.completed < number)
        if (!advance(*stream)) return false;
    return true;
}

/* Runs the oldest work of a stream; before it, in other streams, what it waits for. Returns false if polled work is not
 * done. */
static bool advance(CUstream_st &stream) {
    Work &first = stream.queue.front();
    if (first.kind == Work::WAIT && !reach(*first.event, first.number, first.stream)) return false;
    if (first.kind == Work::POLL && !is_lost() && !first.run()) return false;
    Work work = std::move(first);
    stream.queue.pop_front();
    if (work.kind == Work::RUN) work.run();
    if (work.kind != Work::RECORD) return true;
    work.event->completed = std::max(work.event->completed, work.number);
    if (work.event->stream) work.event->seconds = now();
    return true;
}

/* Returns false if polled work is not done. */
static bool drain(CUstream_st &stream) {
    while (!stream.queue.empty())
        if (!advance(stream)) return false;
    return true;
}
static bool drain_all() {
    bool drained = true;
    for (CUstream_st *stream : streams) drained &= drain(*stream);
    return drained;
}

static void advance_at_random() {
    CUstream_st &stream = *streams[random_next(random_state) % streams.size()];
    for (uint64_t steps = random_next(random_state) % 4; steps && !stream.queue.empty(); steps--)
        if (!advance(stream)) break;
}

/* Returns when `done`, which runs what it can, returns true. The caller must not hold the lock: other threads may call
 * meanwhile. */
template <class Done> static void wait_until(Done done) {
    while (true) {
        {
            Hold hold(streams_lock);
            if (done()) return;
            drain_all();
        }
        usleep(50);
    }
}

void synchronize_device() { wait_until(drain_all); }

bool waits_for_pageable_copy() {
    Hold hold(streams_lock);
    return emulate_seed() == 0 || (emulate_seed() > 1 && random_next(random_state) & 1);
}

/* Has what comes into a stream next run when all is done that another holds now. */
static void order_behind(CUstream_st &stream, CUstream_st &other) {
    if (drain(other)) return;
    auto reached = std::make_shared<EventState>();
    other.queue.push_back({Work::RECORD, {}, reached, 1});
    stream.queue.push_back({Work::WAIT, {}, reached, 1, NULL, &other});
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
            if (other->blocking && other != &stream) order_behind(stream, *other);
    } else if (stream.blocking) {
        order_behind(stream, default_stream);
    }
    stream.queue.push_back(work);
    if (emulate_seed() == 0) drain_all();
    if (emulate_seed() > 1) advance_at_random();
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

template <class Run> static cudaError_t enqueue_run(cudaStream_t stream, Run run) {
    Hold hold(streams_lock);
    auto whole = [run] {
        run();
        return true;
    };
    return enqueue(stream_of(stream), {Work::RUN, whole, NULL, 0});
}

/* Count what the host has put into streams one by one, kernels and fills, and graphs. */
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
    auto run = [launch] {
        run_launch(launch);
        return true;
    };
    return enqueue(s, {Work::RUN, run, NULL, 0, launch.kernel});
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

/* Asks whether a stream or an event may be waited for. */
template <class T> static cudaError_t allows_wait(T &waited) {
    Hold hold(streams_lock);
    return capture_allows_wait(waited);
}

/* The works of one captured stream, while a graph is put into streams. */
struct Branch {
    const CUstream_st *captured;
    CUstream_st *stream;                 /* where they run now */
    std::shared_ptr<EventState> reached; /* how many of them are done */
    Frontier waited;                     /* how many of other branches' are waited for */
};

/* Returns the k-th stream, from 0, of those in which branches of graphs run besides the one of the launch. */
static CUstream_st &branch_stream(size_t k) {
    static std::vector<CUstream_st *> of_branches;
    while (of_branches.size() <= k) {
        of_branches.push_back(new CUstream_st());
        of_branches.back()->blocking = false;
        streams.push_back(of_branches.back());
    }
    return *of_branches[k];
}

static void enqueue_record(CUstream_st &stream, const std::shared_ptr<EventState> &event, uint64_t number) {
    enqueue(stream, {Work::RECORD, {}, event, number});
}
static void enqueue_wait(CUstream_st &stream, const std::shared_ptr<EventState> &event, uint64_t number,
                         CUstream_st &of) {
    enqueue(stream, {Work::WAIT, {}, event, number, NULL, &of});
}

/* Puts each captured stream's works into a stream of their own: each work waits for those that it was captured behind,
 * all of them for what the launching stream holds, and the launching stream for all of them. */
static void enqueue_branches(const std::vector<Work> &works, CUstream_st &launching) {
    std::vector<Branch> branches;
    auto find = [&](const CUstream_st *captured) {
        return std::find_if(branches.begin(), branches.end(), [=](Branch &b) { return b.captured == captured; });
    };
    auto begin = std::make_shared<EventState>();
    enqueue_record(launching, begin, 1);
    for (const Work &work : works) {
        auto branch = find(work.stream);
        if (branch == branches.end()) {
            CUstream_st &own = branches.empty() ? launching : branch_stream(branches.size() - 1);
            branches.push_back({work.stream, &own, std::make_shared<EventState>(), {}});
            branch = branches.end() - 1;
            branch->reached->completed = work.number - 1; /* a stream that joined counts the event that it waited for */
            if (&own != &launching) enqueue_wait(own, begin, 1, launching);
        }
        for (const auto &before : *work.after) {
            auto other = find(before.first);
            if (other == branches.end() || other == branch || branch->waited[before.first] >= before.second) continue;
            branch->waited[before.first] = before.second;
            enqueue_wait(*branch->stream, other->reached, before.second, *other->stream);
        }
        enqueue(*branch->stream, work);
        enqueue_record(*branch->stream, branch->reached, work.number);
    }
    for (const Branch &branch : branches) {
        auto end = std::make_shared<EventState>();
        if (branch.stream == &launching) continue;
        enqueue_record(*branch.stream, end, 1);
        enqueue_wait(launching, end, 1, *branch.stream);
    }
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
    cudaError_t allowed = allows_wait(*stream);
    if (allowed != cudaSuccess) return allowed;
    wait_until([=] { return drain(*stream); });
    Hold hold(streams_lock);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    CUstream_st &s = stream_of(stream);
    cudaError_t allowed = allows_wait(s);
    if (allowed != cudaSuccess) return allowed;
    wait_until([&] { return drain(s); });
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { /* each call runs queued work, so that polling loops end */
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    cudaError_t allowed = capture_allows_wait(s);
    if (allowed == cudaSuccess && emulate_seed() == 0) drain_all();
    if (allowed != cudaSuccess || s.queue.empty()) return allowed;
    if (!advance(s)) drain_all();
    return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    bool captured;
    if (flags) return set_error(cudaErrorNotSupported);
    cudaError_t status = capture_wait(s, *event, &captured);
    EventState &state = *event->state;
    return captured ? status : enqueue(s, {Work::WAIT, {}, event->state, state.recorded, NULL, state.stream});
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument) {
    return enqueue_run(stream, [=] { function(argument); });
}

cudaError_t emulate_enqueue_poll(cudaStream_t stream, bool (*poll)(void *argument), void *argument) {
    Hold hold(streams_lock);
    return enqueue(stream_of(stream), {Work::POLL, [=] { return poll(argument); }, NULL, 0});
}

void emulate_advance_streams(void) {
    Hold hold(streams_lock);
    drain_all();
}

cudaError_t cudaDeviceSynchronize(void) {
    {
        Hold hold(streams_lock);
        cudaError_t allowed = capture_allows_device_wait();
        if (allowed != cudaSuccess) return allowed;
    }
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
    cudaError_t allowed = allows_wait(*event);
    if (allowed != cudaSuccess) return allowed;
    std::shared_ptr<EventState> state = event->state;
    uint64_t number = state->recorded;
    wait_until([&] { return reach(*state, number, state->stream); });
    return is_lost() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    Hold hold(streams_lock);
    cudaError_t allowed = capture_allows_wait(*event);
    if (allowed == cudaSuccess && emulate_seed() == 0) drain_all();
    if (allowed != cudaSuccess || event->state->completed == event->state->recorded) return allowed;
    if (!advance(*event->state->stream)) drain_all();
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

/* ---- graphs: what was captured is kept as it is and put into streams again at each launch ---- */

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
    size_t bytes, kernels = 0;
    cudaError_t status = cudaSuccess;
    bool branches = false;
    for (const Work &work : graph->work) {
        branches |= work.stream != graph->work[0].stream;
        if (work.kernel && status == cudaSuccess) status = load_code(work.kernel);
        kernels += work.kernel != NULL;
    }
    if (status != cudaSuccess) return set_error(status);
    status = take_graph(kernels, &bytes);
    if (status == cudaSuccess)
        *executable = new CUgraphExec_st{
            graph->capture, graph->work, bytes, branches, false, std::make_shared<EventState>(), NULL};
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

/* Takes the memory of a launch, which those that follow then have. */
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
    Hold hold(streams_lock);
    if (graph_launch_fails()) return set_error(cudaErrorMemoryAllocation);
    executable->uploaded = true;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    EventState &done = *executable->done;
    if (!executable->uploaded && graph_launch_fails()) return set_error(cudaErrorMemoryAllocation);
    graph_launches++;
    if (done.completed < done.recorded) enqueue_wait(s, executable->done, done.recorded, *executable->last);
    if (executable->branches && !s.capture)
        enqueue_branches(executable->work, s);
    else
        for (const Work &work : executable->work) enqueue(s, work);
    executable->last = &s;
    if (!s.capture) enqueue_record(s, executable->done, ++done.recorded);
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
