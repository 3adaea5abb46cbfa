/* Streams, events and graphs inside the emulator, and what their captures allow. */
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/cuda/emulate/internal.h"

struct CUstream_st;

namespace emulate {

struct EventState {
    uint64_t recorded = 0, completed = 0; /* how many times it was put into a stream, how many of them have been met */
    CUstream_st *stream = NULL;           /* into which the program has put it last; NULL: it is the emulator's own */
    double seconds = 0;
};

/* How many works of each captured stream precede something. */
typedef std::map<const CUstream_st *, uint64_t> Frontier;

struct Work {
    enum { RUN, RECORD, WAIT, POLL } kind;
    std::function<bool()> run; /* returns whether the work is done: of kind POLL it is called until it is */
    std::shared_ptr<EventState> event;
    uint64_t number;            /* of the event's recordings the one that is meant; of a captured stream's works */
    const void *kernel = NULL;  /* that it launches */
    CUstream_st *stream = NULL; /* of the event that is waited for; in which it was captured */
    std::shared_ptr<Frontier> after = NULL; /* of captured work */
};

struct Capture {
    std::unique_ptr<CUgraph_st> graph;
    const CUstream_st *origin;
    enum cudaStreamCaptureMode mode;
    std::thread::id thread; /* that began it */
    uint64_t number;        /* among all captures, from 1 */
    bool invalid, ended;
};

} // namespace emulate

struct CUgraph_st {
    std::vector<emulate::Work> work;         /* in an order that its dependencies allow */
    std::shared_ptr<const uint64_t> capture; /* its number; shared with what is made of the graph */
};
struct CUgraphExec_st {
    std::shared_ptr<const uint64_t> capture;
    std::vector<emulate::Work> work;
    size_t bytes;                              /* of the device's memory */
    bool branches;                             /* several streams were captured */
    bool uploaded;                             /* launches need no more memory */
    std::shared_ptr<emulate::EventState> done; /* counts launches: one begins when the last has ended */
    CUstream_st *last;                         /* stream of the last launch */
};
struct CUstream_st {
    bool blocking = true; /* waits for the default stream, and it for this one */
    std::deque<emulate::Work> queue;
    std::shared_ptr<emulate::Capture> capture; /* that is under way */
    emulate::Frontier frontier;                /* before its next work in the capture */
};
struct CUevent_st {
    std::shared_ptr<emulate::EventState> state = std::make_shared<emulate::EventState>();
    std::shared_ptr<emulate::Capture> capture; /* in which it was recorded last, even if that has ended */
    emulate::Frontier frontier;
};

namespace emulate {

typedef std::lock_guard<std::recursive_mutex> Hold;
extern std::recursive_mutex streams_lock; /* the host may call from several threads */
extern CUstream_st default_stream;
extern std::vector<CUstream_st *> streams; /* in the order of their creation */
CUstream_st &stream_of(cudaStream_t handle);

/* Errors are set, and invalidate the captures that they concern. */
cudaError_t capture_allows_use(CUstream_st &stream);
cudaError_t capture_allows_wait(CUstream_st &stream);
cudaError_t capture_allows_wait(CUevent_st &event);
cudaError_t capture_allows_device_wait();
void capture_work(CUstream_st &stream, const Work &work);
/* Waits for the event if that is a matter of a capture; *done: whether it is. */
cudaError_t capture_wait(CUstream_st &stream, const CUevent_st &event, bool *done);

} // namespace emulate
