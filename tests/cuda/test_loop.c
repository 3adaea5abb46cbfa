/* What the loop does beside training, on the emulated device, which records passes and repeats them: see loop_rig.h. */
#include "tests/loop_rig.h"

#include "kernels/cuda/cuda.h"

static Device *open_cuda(void) { return cuda_device_open(0); }

/* Two trainings whose batches lie at the same addresses: what the first has recorded must be gone. */
static void forget(void *unused) {
    (void)unused;
    Device *device = open_cuda();
    must_hold(device->repeat && device->forget);
    Sequence one = {{scratch_directory(), NULL}, {1, 0}, 1};
    (void)one;
    ToyRun *run =
        toy_run_open(device, one.directory[0], "-b 4 -g 1 --epochs 6 --bucketing off --val-interval 0", 16, 8, 1);
    toy_train(run);
    for (int i = 0; i < RECORDINGS; i++) must_hold(!cuda_state(device)->recordings[i].graph);
    must_hold(cuda_state(device)->repeats > 20);
    toy_run_close(run);
    device_close(device);
}

static void a_run_leaves_no_recording(void **state) {
    (void)state;
    toy_must(forget, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainings_do_not_know_of_each_other),
        cmocka_unit_test(the_judge_sees_every_output_in_order),
        cmocka_unit_test(a_run_leaves_no_recording),
    };
    toy_device = open_cuda;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
