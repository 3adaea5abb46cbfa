/* The cpu device: its memory, its threads, and the choice of the instruction set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "base/limits.h"
#include "base/threads.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/device.h"

/* Bytes that a run leaves free under a memory limit: for threads' stacks, code that oneDNN compiles, and buffers of
 * files. */
static const size_t CPU_HEADROOM = (size_t)128 << 20;

extern const DeviceOps cpu_operations_avx512, cpu_operations_avx2, cpu_operations_sse4, cpu_operations_baseline;

typedef struct {
    const char *name;
    const DeviceOps *ops;
    bool supported;
} CpuSet;

/* Returns the best instruction set of this processor; TRAINC_CPU_SET names another one, for tests. */
static CpuSet choose_set(void) {
#if defined __x86_64__
    CpuSet sets[] = {
        {"avx512", &cpu_operations_avx512,
         __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512cd")},
        {"avx2", &cpu_operations_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
        {"sse4", &cpu_operations_sse4, __builtin_cpu_supports("sse4.2")},
    };
#else
    CpuSet sets[] = {{"baseline", &cpu_operations_baseline, true}};
#endif
    const char *wanted = getenv("TRAINC_CPU_SET");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (sets[i].supported && (!wanted || !strcmp(wanted, sets[i].name))) return sets[i];
    char known[64] = "";
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (sets[i].supported) strcat(strcat(known, " "), sets[i].name);
    if (wanted) die("TRAINC_CPU_SET=%s: unknown, or not in this processor, which has:%s", wanted, known);
    die("this processor has none of the instruction sets that were built (SSE4.2 at least)");
}

/* The system provides zeroed pages when they are first touched, so a large buffer costs nothing until it is used. */
static void *cpu_allocate(Device *device, size_t bytes) {
    size_t size = (bytes ? bytes : 1);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        limits_require(size, "the cpu device");
        die("out of memory: the cpu device was asked for %zu bytes more than its %zu", bytes, device->allocated);
    }
    if (size >= (size_t)4 << 20) madvise(memory, size, MADV_HUGEPAGE);
    device->allocated += bytes;
    device->allocation_calls++;
    if (device->allocated > device->peak_allocated) device->peak_allocated = device->allocated;
    return memory;
}

static void cpu_release(Device *device, void *memory, size_t bytes) {
    munmap(memory, bytes ? bytes : 1);
    device->allocated -= bytes;
}

static void cpu_upload(Device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, from, bytes);
}

static void cpu_stage(Device *device, void *to, const void *head, size_t head_bytes, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, head, head_bytes);
    memcpy((char *)to + head_bytes, from, bytes);
}

static void cpu_clear(Device *device, void *memory, size_t bytes) {
    char *at = memory;
    size_t piece = (size_t)1 << 20, pieces = (bytes + piece - 1) / piece;
#pragma omp parallel for num_threads(device->n_threads)
    for (size_t i = 0; i < pieces; i++) memset(at + i * piece, 0, i + 1 < pieces ? piece : bytes - i * piece);
}

static void cpu_synchronize(Device *device) { (void)device; }

/* Stacks and heap that this training takes from the headroom are there for the program's next training. */
static void cpu_reserve(Device *device, size_t measured, size_t staged) {
    (void)measured, (void)staged;
    if (device->headroom) device->headroom = ONEDNN_CODE;
}

static void cpu_close(Device *device) {
    CpuState *state = device->state;
    if (state->scratch) cpu_release(device, state->scratch, state->scratch_floats * sizeof(float));
    dnnl_stream_destroy(state->stream);
    dnnl_engine_destroy(state->engine);
    free(state);
    free(device);
}

/* OpenMP's threads spin for milliseconds before they sleep. If other programs use the cores too, spinning threads take
 * time from the thread that they wait for: a run on two shared cores was ten times slower. The library reads its
 * environment before main, so only a restart can change the limit. 1,000 spins, about 20 us, cost nothing if the cores
 * are free. */
void cpu_limit_spinning(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    setenv("GOMP_SPINCOUNT", "1000", 1);
    execv("/proc/self/exe", argv); /* if this fails, the program runs with the default */
}

/* Compiles both kinds of matrix products, which oneDNN would otherwise do at their first call: many rows, and few rows
 * times a transposed matrix. */
static void compile_products(void) {
    enum { N = 64 };
    float *zeros = xcalloc(2 * N * N, sizeof *zeros), *out = zeros + N * N;
    check_room_for_code();
    gemm('N', 'N', N, N, N, 1, zeros, N, zeros, N, 0, out, N);
    gemm('N', 'T', 2, N, N, 1, zeros, N, zeros, N, 0, out, N);
    free(zeros);
}

Device *cpu_device_open(int n_threads) {
    n_threads = threads_take(n_threads, "--threads");
    Device *device = xcalloc(1, sizeof *device);
    CpuSet set = choose_set();
    CpuState *state = xcalloc(1, sizeof *state);
    const char *limit;
    limits_left(&limit);
    bool limited = limit || host_memory_left().limit[0];
    check_dnnl(dnnl_engine_create(&state->engine, dnnl_cpu, 0), "opening the CPU");
    check_dnnl(dnnl_stream_create(&state->stream, state->engine, dnnl_stream_default_flags), "opening a stream");
    *device = (Device){.name = "cpu",
                       .n_threads = n_threads,
                       .ops = set.ops,
                       .host_memory = true,
                       .headroom = limited ? CPU_HEADROOM : 0,
                       .allocate = cpu_allocate,
                       .release = cpu_release,
                       .upload = cpu_upload,
                       .stage = cpu_stage,
                       .download = cpu_upload,
                       .clear = cpu_clear,
                       .synchronize = cpu_synchronize,
                       .reserve = cpu_reserve,
                       .close = cpu_close,
                       .state = state};
    /* Reserves scratch for attention over sequences of 4,096 rows and heads of 128, so that nothing is allocated during
     * training. Untouched pages cost nothing. */
    cpu_scratch(device, (size_t)n_threads * 4096 * (2 * 64 + 1 + 4 * 128));
    compile_products();
    const dnnl_version_t *version = dnnl_version();
    snprintf(device->description, sizeof device->description, "cpu: %d threads, %s, oneDNN %d.%d.%d", n_threads,
             set.name, version->major, version->minor, version->patch);
    return device;
}
