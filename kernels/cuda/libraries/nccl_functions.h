/* The part of NCCL's binary interface that a trainer on several GPUs needs, the same in its versions 2.16 and 2.32: its
 * enums are passed as unsigned integers. tests/contracts/nccl.c compares all of it with the headers and libraries of
 * both. */
#pragma once

#include <cuda_runtime_api.h>

enum {
    COLL_SUCCESS = 0, /* statuses */
    COLL_CUDA_ERROR = 1,
    COLL_INVALID_ARGUMENT = 4,
    COLL_REMOTE_ERROR = 6,
    COLL_IN_PROGRESS = 7,
    COLL_I32 = 2, /* types of numbers */
    COLL_F16 = 6,
    COLL_F32 = 7,
    COLL_BF16 = 9,
    COLL_SUM = 0, /* reductions */
    COLL_MAX = 2,
    COLL_ID_BYTES = 128,
    COLL_CONFIG_VERSION = 21602 /* of NcclConfig: its settings are those that 2.16.2 knows */
};
#define COLL_CONFIG_MAGIC 0xcafebeefu

typedef struct ncclComm NcclComm; /* a rank's membership in a group of GPUs */

typedef struct {
    char bytes[COLL_ID_BYTES]; /* made by one rank, given to all; passed by value */
} NcclId;

/* Settings of a communicator. The library reads as many as the version says, and takes its own for the rest. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking; /* 0: calls return COLL_IN_PROGRESS, and ncclCommGetAsyncError tells when they are done */
} NcclConfig;

/* X(result, name, arguments); counts are numbers of elements */
#define FOR_EACH_NCCL_FUNCTION(X)                                                                                      \
    X(unsigned, ncclGetVersion, (int *version))                                                                        \
    X(const char *, ncclGetErrorString, (unsigned status))                                                             \
    X(const char *, ncclGetLastError, (NcclComm * comm))                                                               \
    X(unsigned, ncclGetUniqueId, (NcclId * id))                                                                        \
    X(unsigned, ncclCommInitRankConfig, (NcclComm * *comm, int ranks, NcclId id, int rank, NcclConfig *config))        \
    X(unsigned, ncclCommGetAsyncError, (NcclComm * comm, unsigned *status))                                            \
    X(unsigned, ncclCommFinalize, (NcclComm * comm))                                                                   \
    X(unsigned, ncclCommDestroy, (NcclComm * comm))                                                                    \
    X(unsigned, ncclCommAbort, (NcclComm * comm))                                                                      \
    X(unsigned, ncclGroupStart, (void))                                                                                \
    X(unsigned, ncclGroupEnd, (void))                                                                                  \
    X(unsigned, ncclBroadcast,                                                                                         \
      (const void *from, void *to, size_t count, unsigned type, int root, NcclComm *comm, cudaStream_t stream))        \
    X(unsigned, ncclAllReduce,                                                                                         \
      (const void *from, void *to, size_t count, unsigned type, unsigned reduction, NcclComm *comm,                    \
       cudaStream_t stream))                                                                                           \
    X(unsigned, ncclReduceScatter,                                                                                     \
      (const void *from, void *to, size_t count_per_rank, unsigned type, unsigned reduction, NcclComm *comm,           \
       cudaStream_t stream))                                                                                           \
    X(unsigned, ncclAllGather,                                                                                         \
      (const void *from, void *to, size_t count_per_rank, unsigned type, NcclComm *comm, cudaStream_t stream))

#define NCCL_FIELD(result, name, arguments) result(*name) arguments;
typedef struct {
    FOR_EACH_NCCL_FUNCTION(NCCL_FIELD)
} NcclFunctions;
#undef NCCL_FIELD
