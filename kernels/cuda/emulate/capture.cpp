/* Captures of streams, and what is refused while they last. Every rule is NVIDIA's: "Prohibited and Unhandled
 * Operations", "Invalidation" and "Cross-stream Dependencies and Events" of the CUDA programming guide's chapter on
 * graphs, and the comments of cudaStreamBeginCapture, cudaStreamEndCapture, cudaStreamIsCapturing and
 * cudaThreadExchangeStreamCaptureMode in cuda_runtime_api.h.
 *
 * Captured streams and events are not there to be waited for:
 *   cudaStreamSynchronize, cudaStreamQuery of a captured stream; here also
 *     cudaStreamDestroy, about which NVIDIA says nothing                     cudaErrorStreamCaptureUnsupported
 *   cudaEventSynchronize, cudaEventQuery, cudaEventElapsedTime of an event
 *     that was recorded in a capture last, which may have ended              cudaErrorCapturedEvent
 *   cudaDeviceSynchronize, in any thread and mode                            cudaErrorStreamCaptureUnsupported
 *   anything of the legacy stream while a stream without
 *     cudaStreamNonBlocking is captured; cudaStreamIsCapturing, too, which
 *     alone invalidates nothing                                              cudaErrorStreamCaptureImplicit
 *
 * Dependencies do not cross the bounds of a capture:
 *   a captured stream waits for an event recorded outside                    cudaErrorStreamCaptureIsolation
 *     (cudaEventWaitExternal, which allows it, is cudaErrorNotSupported here)
 *   a stream waits for an event of another capture, which ends both          cudaErrorStreamCaptureMerge
 *   a stream waits for an event of a capture that has ended                  cudaErrorCapturedEvent
 *   a stream that is not captured waits for a captured event: it joins the capture, and the first stream must wait, at
 *     last, for an event behind all that is put into it: else at the end     cudaErrorStreamCaptureUnjoined
 *
 * Calls that may be unsafe (cudaMalloc, cudaFree, cudaHostAlloc and its kin, and for events outside of captures
 * cudaEventQuery and cudaEventSynchronize)                                   cudaErrorStreamCaptureUnsupported
 *   if the thread's mode is not Relaxed and the thread itself has a capture that was not begun as Relaxed; in mode
 *   Global also if another thread has one that was begun as Global
 *
 * Besides: copies from and to pageable memory, and a capture of the legacy stream, are refused
 * (cudaErrorStreamCaptureUnsupported), and so is a second capture of a stream (cudaErrorIllegalState). The end must be
 * called for the first stream (cudaErrorStreamCaptureUnmatched), and, unless the capture is Relaxed, by the thread that
 * began it (cudaErrorStreamCaptureWrongThread).
 *
 * What is refused, and a launch or copy with wrong arguments, invalidates the captures concerned: using their streams
 * and events is cudaErrorStreamCaptureInvalidated until the end, which then gives no graph and the same error. */
#include <algorithm>

#include "kernels/cuda/emulate/capture.h"
#include "kernels/cuda/emulate/emulate_streams.h"

namespace emulate {

std::recursive_mutex streams_lock;
CUstream_st default_stream;
std::vector<CUstream_st *> streams = {&default_stream};
static thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
static uint64_t captures;                                          /* begun so far */
static std::map<uint64_t, std::weak_ptr<const uint64_t>> captured; /* by their numbers */

CUstream_st &stream_of(cudaStream_t handle) {
    bool is_default = !handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
    return is_default ? default_stream : *handle;
}

static cudaError_t invalidate(Capture &capture, cudaError_t status) {
    if (capture.invalid) return set_error(cudaErrorStreamCaptureInvalidated);
    capture.invalid = !capture.ended;
    return set_error(status);
}

/* Invalidates all captures for which `concerned` holds; success if there is none. */
template <class Concerned> static cudaError_t invalidate_all(cudaError_t status, Concerned concerned) {
    bool any = false;
    for (CUstream_st *s : streams)
        if (s->capture && concerned(*s)) any = s->capture->invalid = true;
    return any ? set_error(status) : cudaSuccess;
}

cudaError_t capture_allows_use(CUstream_st &stream) {
    if (&stream == &default_stream)
        return invalidate_all(cudaErrorStreamCaptureImplicit, [](const CUstream_st &s) { return s.blocking; });
    bool broken = stream.capture && stream.capture->invalid;
    return broken ? set_error(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}

cudaError_t capture_allows_wait(CUstream_st &stream) {
    if (stream.capture) return invalidate(*stream.capture, cudaErrorStreamCaptureUnsupported);
    return capture_allows_use(stream);
}

cudaError_t capture_allows_wait(CUevent_st &event) {
    if (event.capture) return invalidate(*event.capture, cudaErrorCapturedEvent);
    return capture_allows_unsafe();
}

cudaError_t capture_allows_device_wait() {
    return invalidate_all(cudaErrorStreamCaptureUnsupported, [](const CUstream_st &) { return true; });
}

cudaError_t capture_allows_unsafe() {
    Hold hold(streams_lock);
    return invalidate_all(cudaErrorStreamCaptureUnsupported, [](const CUstream_st &s) {
        bool own = s.capture->thread == std::this_thread::get_id();
        if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
        return own ? s.capture->mode != cudaStreamCaptureModeRelaxed
                   : thread_mode == cudaStreamCaptureModeGlobal && s.capture->mode == cudaStreamCaptureModeGlobal;
    });
}

cudaError_t capture_error(cudaStream_t stream, cudaError_t status) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    return s.capture ? invalidate(*s.capture, status) : set_error(status);
}

bool is_capturing(cudaStream_t stream) {
    Hold hold(streams_lock);
    return stream_of(stream).capture != NULL;
}

void capture_work(CUstream_st &stream, const Work &work) {
    std::vector<Work> &works = stream.capture->graph->work;
    works.push_back(work);
    works.back().after = std::make_shared<Frontier>(stream.frontier);
    works.back().stream = &stream;
    works.back().number = ++stream.frontier[&stream];
}

cudaError_t capture_wait(CUstream_st &stream, const CUevent_st &event, bool *done) {
    *done = stream.capture || event.capture;
    if (!*done) return cudaSuccess;
    if (!event.capture) return invalidate(*stream.capture, cudaErrorStreamCaptureIsolation);
    if (event.capture->invalid) return set_error(cudaErrorStreamCaptureInvalidated);
    if (event.capture->ended)
        return stream.capture ? invalidate(*stream.capture, cudaErrorCapturedEvent) : set_error(cudaErrorCapturedEvent);
    if (&stream == &default_stream) return invalidate(*event.capture, cudaErrorStreamCaptureImplicit);
    if (stream.capture && stream.capture != event.capture) {
        invalidate(*event.capture, cudaErrorStreamCaptureMerge);
        return invalidate(*stream.capture, cudaErrorStreamCaptureMerge);
    }
    if (!stream.capture) stream.frontier = {{&stream, 1}}; /* the wait itself must be joined */
    stream.capture = event.capture;
    for (auto &reached : event.frontier)
        stream.frontier[reached.first] = std::max(stream.frontier[reached.first], reached.second);
    return cudaSuccess;
}

/* Returns whether all that was put into the streams of a capture precedes the end of its first stream. */
static bool is_joined(const CUstream_st &origin) {
    for (const CUstream_st *s : streams) {
        auto waited = origin.frontier.find(s);
        if (s->capture != origin.capture || s == &origin) continue;
        if (waited == origin.frontier.end() || waited->second < s->frontier.at(s)) return false;
    }
    return true;
}

} // namespace emulate

using namespace emulate;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    if (&s == &default_stream) return set_error(cudaErrorStreamCaptureUnsupported);
    if (s.capture) return set_error(cudaErrorIllegalState);
    s.capture.reset(
        new Capture{std::make_unique<CUgraph_st>(), &s, mode, std::this_thread::get_id(), ++captures, false, false});
    s.frontier.clear();
    s.capture->graph->capture = std::make_shared<const uint64_t>(captures);
    captured[captures] = s.capture->graph->capture;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    Hold hold(streams_lock);
    CUstream_st &s = stream_of(stream);
    std::shared_ptr<Capture> capture = s.capture;
    *graph = NULL;
    if (!capture) return set_error(cudaErrorIllegalState);
    if (capture->origin != &s) return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
        return set_error(cudaErrorStreamCaptureWrongThread);
    bool joined = is_joined(s);
    for (CUstream_st *other : streams)
        if (other->capture == capture) other->capture = NULL;
    capture->ended = true;
    std::unique_ptr<CUgraph_st> made = std::move(capture->graph);
    if (capture->invalid) return set_error(cudaErrorStreamCaptureInvalidated);
    if (!joined) return set_error(cudaErrorStreamCaptureUnjoined);
    *graph = made.release();
    return cudaSuccess;
}

bool emulate_capture_is_alive(uint64_t number) {
    Hold hold(streams_lock);
    auto capture = captured.find(number);
    return capture != captured.end() && !capture->second.expired();
}

uint64_t emulate_capture_number(cudaStream_t stream) {
    Hold hold(streams_lock);
    const CUstream_st &s = stream_of(stream);
    return s.capture ? s.capture->number : 0;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    std::swap(*mode, thread_mode);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    Hold hold(streams_lock);
    const CUstream_st &s = stream_of(stream);
    for (const CUstream_st *other : streams)
        if (&s == &default_stream && other->capture && other->blocking)
            return set_error(cudaErrorStreamCaptureImplicit);
    *status = !s.capture           ? cudaStreamCaptureStatusNone
              : s.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
}
