/* The training loop on the emulated device, which records passes and repeats them: see loop_rig.h. */
#include "kernels/device_open.h"
#include "tests/test.h"
#include "tests/train/loop_rig.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cuda/cuda.h"

static Device *open_cuda(void) { return cuda_device_open(0); }

/* Two trainings whose batches lie at the same addresses: what the first has recorded must be gone. */
static void forget(void *unused) {
    (void)unused;
    Device *device = open_cuda();
    must_hold(device->repeat && device->forget);
    ToyRun *run =
        toy_run_open(device, run_directory(), "-b 4 -g 1 --epochs 6 --bucketing off --val-interval 0", 16, 8, 1);
    toy_train(run);
    for (int i = 0; i < RECORDINGS; i++) must_hold(!cuda_state(device)->recordings[i].graph);
    must_hold(cuda_state(device)->repeats > 20);
    toy_run_close(run);
    device_close(device);
}

TEST(a_run_leaves_no_recording) { toy_must(forget, NULL); }

/* Every file that is flushed takes this long. */
static int flush_microseconds;

int fsync(int file) {
    usleep((useconds_t)flush_microseconds);
    return (int)syscall(SYS_fsync, file);
}

/* A run of which every validation is the best so far, 32 of them, on a disk that is slow or not. */
typedef struct {
    const char *directory, *options;
    int flush;
    size_t most_staged;
} Disk;

static void train_ever_better(void *argument) {
    const Disk *disk = argument;
    Judged judged = {.n_verdicts = 64};
    for (int i = 0; i < 64; i++) judged.verdicts[i] = -i;
    Device *device = open_cuda();
    char *options = xformat("-b 4 -g 1 --epochs 8 --bucketing off --val-interval 1 --save-interval 0 --log-interval 1 "
                            "--keep-checkpoints 99 --learning-rate 0.01 %s",
                            disk->options);
    ToyRun *run = toy_run_open(device, disk->directory, options, 16, 8, 1);
    set_judge(run, &judged);
    run->spec.max_staged = disk->most_staged;
    flush_microseconds = disk->flush;
    toy_train(run);
    toy_run_close(run);
    device_close(device);
}

static int count_checkpoints(const char *directory) {
    char text[64];
    assert_int_equal(run_command(text, sizeof text, "ls -d %s/step_* | wc -l", directory), 0);
    return atoi(text);
}

/* Then checkpoints of the best are left out for better ones; those of --save-interval are not, nor is the last best. */
TEST(a_slow_disk_does_not_stop_the_training) {
    Disk fast = {run_directory(), "", 0, 0}, slow = {run_directory(), "", 30000, 0};
    char text[256];
    toy_must(train_ever_better, &fast);
    toy_must(train_ever_better, &slow);
    assert_same_weights(fast.directory, slow.directory);
    int written = count_checkpoints(slow.directory);
    print_message("%d of 32 checkpoints were written\n", written);
    assert_in_range(written, 2, 16);
    assert_int_equal(run_command(text, sizeof text, "readlink %s/best", slow.directory), 0);
    assert_contains(text, "step_00000032");
    slow = (Disk){run_directory(), "--save-interval 5 --max-steps 23", 30000, 0};
    toy_must(train_ever_better, &slow);
    for (int step = 5; step <= 20; step += 5)
        assert_int_equal(run_command(text, sizeof text, "ls %s/step_%08d/state.json", slow.directory, step), 0);
    assert_int_equal(run_command(text, sizeof text, "readlink %s/best", slow.directory), 0);
    assert_contains(text, "step_00000023");
}

/* Without room for a second copy of the weights no checkpoint is left out, and the program reports that it waits. */
TEST(large_checkpoints_wait_for_the_disk) {
    Disk slow = {run_directory(), "--max-steps 4", 30000, 0};
    toy_must(train_ever_better, &slow);
    assert_null(strstr(toy_output, "wait for the disk"));
    slow = (Disk){run_directory(), "--max-steps 4", 30000, 1};
    toy_must(train_ever_better, &slow);
    assert_contains(toy_output, "[Run] checkpoints of this size wait for the disk");
    assert_int_equal(count_checkpoints(slow.directory), 4);
}

/* The emulator's functions; NULL in a program for a real GPU. */
__attribute__((weak)) void emulate_fail_graphs(int graphs, int launches);
__attribute__((weak)) void emulate_fail_memory(int64_t call);
__attribute__((weak)) int64_t emulate_memory_calls(void);
__attribute__((weak)) void emulate_set_seed(uint64_t seed);

/* ---- memory ---- */

typedef struct {
    const char *directory;
    int64_t failing_call; /* 0: none */
} Shortage;

static void train_short_of_memory(void *argument) {
    const Shortage *s = argument;
    alarm(60);
    emulate_set_seed((uint64_t)s->failing_call % 3);
    emulate_fail_memory(s->failing_call);
    Device *device = open_cuda();
    ToyRun *run = toy_run_open(device, s->directory, "-b 4 -g 2 --epochs 6 --bucketing off --val-interval 4", 16, 8, 1);
    toy_train(run);
    toy_run_close(run);
    device_close(device);
    printf("memory calls: %lld\n", (long long)emulate_memory_calls());
    fflush(stdout);
}

/* The call that fails ends the run with one line, or the run computes what it would have. */
TEST(a_run_ends_or_goes_on_whichever_call_runs_out_of_memory) {
    if (!emulate_fail_memory) skip();
    int ended = 0;
    Shortage none = {run_directory(), 0};
    toy_must(train_short_of_memory, &none);
    long long calls = strtoll(strstr(toy_output, "memory calls: ") + strlen("memory calls: "), NULL, 10);
    assert_true(calls > 20);
    for (long long call = 1; call <= calls; call++) {
        Shortage one = {keep(xformat("%s/%lld", none.directory, call)), call};
        int status = toy_try(train_short_of_memory, &one);
        if (!status) {
            assert_same_weights(none.directory, one.directory);
            continue;
        }
        const char *line = strstr(toy_output, "out of memory");
        if (!line) line = strstr(toy_output, "the GPU has no memory left to start with");
        if (status != 1 || !line || strchr(line, '\n')[1])
            fail_msg("call %lld: exit status %d:\n%s", call, status, toy_output);
        ended++;
    }
    print_message("%d of %lld calls end the run\n", ended, calls);
    assert_in_range(ended, 10, calls - 3); /* graphs and pinned memory can be done without */
}

/* ---- sensors ---- */

static void train_with_sensors(void *directory) {
    Device *device = open_cuda();
    ToyRun *run = toy_run_open(device, directory, "-b 4 -g 1 --max-steps 4 --log-interval 2", 16, 0, 1);
    toy_train(run);
    toy_run_close(run);
    device_close(device);
}

/* The substitute of NVML has several cards, and other values for each. */
TEST(a_run_logs_the_sensors_of_its_own_card) {
    if (!emulate_fail_graphs) skip();
    static const char *const names[] = {"gpu_memory_bytes", "gpu_temperature_c", "gpu_power_w",
                                        "gpu_utilization_percent"};
    static const double want[] = {23e9 + 3, 74, 315.5, 95};
    const char *directory = run_directory(), *build = getenv("BUILD");
    char *substitute = xformat("%s/tests/kernels/nvml.so", build ? build : "build/release");
    double values[4];
    setenv("TRAINC_NVML", substitute, 1);
    toy_must(train_with_sensors, (void *)directory);
    unsetenv("TRAINC_NVML");
    assert_null(strstr(toy_output, "TRAINC_NVML"));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(logged(directory, "train", names[i], values, 4), 2);
        for (int k = 0; k < 2; k++) assert_true(values[k] == want[i]);
    }
    free(substitute);
}

int main(void) {
    toy_device = open_cuda;
    return tests_run(NULL, NULL);
}
