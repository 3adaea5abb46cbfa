/* For tests of the stand-in for NCCL: ranks that are forked processes with cards of one emulated machine. The test
 * program itself calls no function of CUDA and begins no thread. */
#pragma once

#include "kernels/cuda/emulate/emulate_control.h"
#include "kernels/cuda/emulate/emulate_streams.h"
#include "kernels/cuda/libraries/nccl_functions.h"
#include "tests/test.h"

enum { SYSTEM_ERROR = 2, INVALID_USAGE = 5 }; /* statuses besides those of nccl_functions.h */

extern NcclFunctions nccl; /* of the stand-in, in a rank */
extern int rank, ranks;    /* of this process */

/* Runs a function in so many ranks, with `settings` ("STAND_IN_NCCL_HANG_AT=2", NULL: none) in their environment.
 * Fails the test unless each ends with status 0. Returns what they have printed, kept. */
const char *run_ranks(int count, const char *settings, void (*function)(void));

/* ---- in a rank ---- */

/* Ends the rank with a message and status 1 unless the condition holds. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) rank_fails(__FILE__, __LINE__, #condition);                                                  \
    } while (0)
/* Ends it unless a call returns a status. */
#define EXPECT(status, call) rank_expects(__FILE__, __LINE__, #call, status, call)
#define OK(call)             EXPECT(COLL_SUCCESS, call)
_Noreturn void rank_fails(const char *file, int line, const char *what);
void rank_expects(const char *file, int line, const char *what, unsigned want, unsigned got);

/* Waits until all ranks have called it. */
void all_ranks(void);
/* Returns the id that rank 0 has made: the first call of each rank gets the first, and so on. */
NcclId shared_id(void);
/* Makes a communicator of all ranks, each on its own card. Waits for all. */
NcclComm *communicator(int blocking);
/* Calls ncclCommGetAsyncError until it does not say COLL_IN_PROGRESS. Returns what it says. */
unsigned settled(NcclComm *comm);
/* Waits for an asynchronous error with a text that has this part. */
void await_failure(NcclComm *comm, unsigned status, const char *part);
cudaStream_t new_stream(void);
/* Returns device memory of n floats: rank * 1000 + 1, rank * 1000 + 2 ... */
float *numbers(size_t n);
