#include "tests/nccl/rig.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_IDS = 64 };

static struct {
    pthread_barrier_t barrier;
    NcclId ids[MOST_IDS];
} * shared;
static int n_ids;

NcclFunctions nccl;
int rank, ranks;

static void load_functions(void) {
    const char *build = getenv("BUILD");
    char *path = path_join(build ? build : "build/release", "tests/nccl/libnccl.so.2");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) die("%s", dlerror());
#define LOAD(result, name, arguments)                                                                                  \
    *(void **)&nccl.name = dlsym(library, #name);                                                                      \
    REQUIRE(nccl.name);
    FOR_EACH_NCCL_FUNCTION(LOAD)
#undef LOAD
    free(path);
}

/* Sets variables: "A=1 B=2". */
static void set(const char *settings) {
    char *text = xstrdup(settings), *rest = text;
    for (char *one; (one = strtok_r(rest, " ", &rest));) {
        char *value = strchr(one, '=');
        *value++ = 0;
        setenv(one, value, 1);
    }
    free(text);
}

static _Noreturn void run_rank(const char *output, const char *settings, void (*function)(void)) {
    char count[16];
    int file = open(output, O_WRONLY | O_CREAT | O_APPEND, 0666);
    dup2(file, 1);
    dup2(file, 2);
    alarm(60); /* a rank that waits for ever ends all */
    snprintf(count, sizeof count, "%d", ranks);
    setenv("EMULATE_DEVICES", count, 1);
    if (settings) set(settings);
    load_functions();
    REQUIRE(cudaSetDevice(rank) == cudaSuccess);
    function();
    fflush(NULL);
    _exit(0);
}

const char *run_ranks(int count, const char *settings, void (*function)(void)) {
    char *output = kept_path(run_directory(), "output");
    pthread_barrierattr_t attributes;
    pid_t children[16];
    int failed = 0, status;
    remove(output);
    write_text(output, "%s", "");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, (unsigned)count);
    fflush(NULL);
    ranks = count;
    for (rank = 0; rank < count; rank++)
        if (!(children[rank] = fork())) run_rank(output, settings, function);
    for (int i = 0; i < count; i++) {
        REQUIRE(wait(&status) > 0);
        if (!status) continue;
        if (!failed++) usleep(500000); /* the others may say something, too, or wait for it */
        for (int k = 0; k < count; k++) kill(children[k], SIGTERM);
    }
    munmap(shared, sizeof *shared);
    const char *text = kept_text(output);
    if (failed)
        fail_msg("%d of %d ranks failed%s%s: %s", failed, count, settings ? " with " : "", settings ? settings : "",
                 text);
    return text;
}

void rank_fails(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: rank %d: %s\n", file, line, rank, what);
    _exit(1);
}

void rank_expects(const char *file, int line, const char *what, unsigned want, unsigned got) {
    if (got == want) return;
    fprintf(stderr, "%s:%d: rank %d: %s is %u, not %u (%s)\n", file, line, rank, what, got, want,
            nccl.ncclGetLastError(NULL));
    _exit(1);
}

void all_ranks(void) { pthread_barrier_wait(&shared->barrier); }

NcclId shared_id(void) {
    if (rank == 0) OK(nccl.ncclGetUniqueId(&shared->ids[n_ids]));
    all_ranks();
    return shared->ids[n_ids++];
}

unsigned settled(NcclComm *comm) {
    unsigned status;
    do OK(nccl.ncclCommGetAsyncError(comm, &status));
    while (status == COLL_IN_PROGRESS);
    return status;
}

NcclComm *communicator(int blocking) {
    NcclConfig config = {sizeof config, COLL_CONFIG_MAGIC, COLL_CONFIG_VERSION, blocking};
    NcclComm *comm;
    EXPECT(blocking ? COLL_SUCCESS : COLL_IN_PROGRESS,
           nccl.ncclCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    EXPECT(COLL_SUCCESS, settled(comm));
    all_ranks();
    return comm;
}

void await_failure(NcclComm *comm, unsigned want, const char *part) {
    unsigned status = COLL_SUCCESS;
    while (status == COLL_SUCCESS || status == COLL_IN_PROGRESS) {
        OK(nccl.ncclCommGetAsyncError(comm, &status));
        emulate_advance_streams();
        usleep(100);
    }
    EXPECT(want, status);
    if (!strstr(nccl.ncclGetLastError(comm), part)) {
        fprintf(stderr, "rank %d: \"%s\" without \"%s\"\n", rank, nccl.ncclGetLastError(comm), part);
        _exit(1);
    }
}

cudaStream_t new_stream(void) {
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    return stream;
}

float *numbers(size_t n) {
    float *memory;
    REQUIRE(cudaMalloc((void **)&memory, n * sizeof *memory) == cudaSuccess);
    for (size_t i = 0; i < n; i++) memory[i] = (float)(1000 * rank) + (float)(i + 1);
    return memory;
}
