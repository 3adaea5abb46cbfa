/* The cuda device's operations of convolutional networks against the cpu's: windows in rows, batch normalisation,
 * maxima of pairs of frames, leaky ReLU, means of sequences; in f32, bf16 and f16, on a GPU or on the emulator.
 * Overwritten outputs start as NaN, accumulated ones as random numbers; sizes are no multiples of packs and blocks, and
 * arrays are not aligned to packs. */
#include "tests/cuda/schedules.h"

TEST_IN_EVERY_TYPE(windows) {
    ops_on_both(
        type, "unfold_forward unfold_backward",
        "n=0 c=8 length=5 k=3 pad=1|n=1 c=1 length=1 k=1|n=603 c=1 length=201 k=7 stride=2 pad=3|"
        "n=125 c=64 length=25 k=3 stride=2 pad=1|n=26 c=35 length=13 k=3 pad=1|n=78 c=40 length=26 k=1 stride=2|"
        "n=18 c=24 length=9 k=2 stride=3|n=2 c=8 length=2 k=9 stride=4 pad=7|"
        "n=77 c=9 length=11 k=5 stride=5 pad=2",
        "|shift=1");
}

/* The mean is rounded to a float: where it is `center` deviations large, y is wrong by as many roundings. */
TEST_IN_EVERY_TYPE(batchnorm) {
    static const char sizes[] = "n=2 c=9|n=300 c=3|n=77 c=35|n=650 c=64 shift=1|n=650 c=64|n=41 c=264|n=33 c=1280|"
                                "n=5000 c=24|n=900 c=32 center=100";
    ops_on_both(type, "batchnorm_forward", sizes,
                "spread=1.5 center=0.5 running_mean:none running_var:none|spread=1.5 center=0.5");
    ops_on_both(type, "batchnorm_apply", sizes, "spread=1.5 center=0.5");
    ops_on_both(type, "batchnorm_backward", sizes, "|dx:@dy");
}

/* Maxima of pairs of frames: the same bits, ties and all; numbers are few, so that there are ties. */
TEST_IN_EVERY_TYPE(pools) {
    ops_on_both(type, "max_pool_forward max_pool_backward",
                "n=0 frames=2 plane=3 c=8|n=2 frames=1 plane=2 c=8|n=162 frames=6 plane=9 c=64|"
                "n=70 frames=7 plane=5 c=24|n=45 frames=5 plane=3 c=11",
                "|shift=1");
}

TEST_IN_EVERY_TYPE(leaky) {
    ops_on_both(type, "leaky_relu_forward leaky_relu_backward", "n=77 c=35 slope=0.01", "|shift=1");
}

TEST_IN_EVERY_TYPE(means) {
    ops_on_both(type, "mean_rows_forward mean_rows_backward",
                "n=0 length=3 c=8|n=1 length=1 c=1|n=65 length=13 c=256|n=303 length=101 c=35|n=14 length=7 c=264",
                "|shift=1");
}

int main(void) { return tests_run(open_rig, close_rig); }
