#include "tests/cuda/library_rig.h"

#include <unistd.h>

#include "kernels/cuda/emulate/emulate_control.h"

static const size_t PART = (size_t)2 << 20; /* assumed */
static void *parts[LIBRARY_PARTS];

/* The library has a runtime of its own: the program's does not know of its errors. */
bool library_takes(int part, cudaStream_t stream) {
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    assert_in_range(part, 0, LIBRARY_PARTS - 1);
    if (stream) cuda_check(cudaStreamIsCapturing(stream, &captured), "asking whether a graph is captured");
    if (parts[part] || captured != cudaStreamCaptureStatusNone || cudaMalloc(&parts[part], PART) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

void library_releases(void) {
    for (int i = 0; i < LIBRARY_PARTS; i++) {
        cuda_check(cudaFree(parts[i]), "freeing memory");
        parts[i] = NULL;
    }
}

typedef struct {
    void (*work)(void);
    int64_t failing_call;
} Shortage;

static void work_short_of_memory(void *argument) {
    const Shortage *s = argument;
    alarm(60);
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed comparison ends this process */
    emulate_fail_memory(s->failing_call);
    s->work();
    printf("memory calls: %lld\n", (long long)emulate_memory_calls());
    fflush(stdout);
}

void check_library_shortage(void (*work)(void), const char *words) {
    static char output[1 << 16];
    Shortage s = {work, 0};
    int ended = 0;
    int failed = run_function(output, sizeof output, work_short_of_memory, &s);
    if (failed) fail_msg("exit status %d:\n%s", failed, output);
    long long calls = strtoll(strstr(output, "memory calls: ") + strlen("memory calls: "), NULL, 10);
    for (s.failing_call = 1; s.failing_call <= calls; s.failing_call++) {
        int status = run_function(output, sizeof output, work_short_of_memory, &s);
        if (!status) continue;
        const char *line = strstr(output, "out of memory");
        if (!line) line = strstr(output, "the GPU has no memory left to start with");
        if (!line) line = strstr(output, words);
        if (status != 1 || !line || strchr(line, '\n')[1])
            fail_msg("call %lld: exit status %d:\n%s", (long long)s.failing_call, status, output);
        ended++;
    }
    print_message("%d of %lld calls end the work\n", ended, calls);
    assert_in_range(ended, 10, calls - 1);
}
