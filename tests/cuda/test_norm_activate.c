/* The cuda device's halves of batch normalisation, and what follows it, against the cpu's: sums of two norms, leaky
 * ReLU, pools, dropout of channels; in f32, bf16 and f16, on a GPU or on the emulator. Overwritten outputs start as
 * NaN, accumulated ones as random numbers; sizes are no multiples of packs and blocks, and arrays are not aligned to
 * packs. Inputs are multiples of a half, so that frames are equal often. */
#include "tests/cuda/schedules.h"

#define ONE     "b:none db:none "
#define WITHOUT "b.mean:none b.rstd:none b.gain:none b.bias:none db.dgain:none db.dbias:none "

/* Into other tensors, and then in place: the gradients replace dy, or a.x where there is a pool, and b.x. */
static void check_sum(DType type, const char *sizes, const char *operands, bool pool) {
    char with[512];
    ops_on_both(type, "norm_activate_forward norm_activate_backward", sizes, operands);
    snprintf(with, sizeof with, "da.dx:@%s db.dx:@b.x %s", pool ? "a.x" : "dy", operands);
    ops_on_both(type, "norm_activate_backward", sizes, with);
}

TEST_IN_EVERY_TYPE(sums) {
    static const char *const operands[] = {ONE, WITHOUT, ""};
    for (int i = 0; i < 3; i++) {
        check_sum(
            type,
            "n=30 frames=3 plane=5 c=35 pool=0 slope=0.01 p=0.25|n=77 frames=1 plane=1 c=64 pool=0 slope=0.01 p=0.25",
            operands[i], false);
        check_sum(
            type,
            "n=885 frames=5 plane=59 c=64 slope=0.01 p=0.25|n=424 frames=4 plane=53 c=24 average=1 shift=1 slope=1",
            operands[i], true);
    }
    check_sum(type, "n=156 frames=6 plane=13 c=264 slope=0.01", "", true);
    check_sum(type, "n=524 frames=2 plane=131 c=40 pool=0 shift=1 slope=0 p=0.5", WITHOUT, false);
    check_sum(type, "n=21 frames=7 plane=1 c=11 slope=0.5 p=0.5", ONE, true);
    check_sum(type, "n=10 frames=1 plane=5 c=8 slope=0.01", "", true); /* all frames are odd ones: no y */
    ops_on_both(
        type, "batchnorm_statistics",
        "n=30 c=35|n=885 c=64|n=424 c=24 shift=1|n=77 c=64|n=156 c=264|n=524 c=40 shift=1|n=21 c=11|n=10 c=8|"
        "n=2 c=9|n=300 c=3|n=77 c=35 shift=1|n=650 c=64|n=41 c=264|n=33 c=1280|n=5000 c=24|n=900 c=32 center=100",
        "|running_mean:none running_var:none");
}

TEST_IN_F32(from_running_statistics) {
    ops_on_both(type, "batchnorm_from_running", "c=1|c=301|c=601", "|running_var[0]=0");
}

int main(void) { return tests_run(open_rig, close_rig); }
