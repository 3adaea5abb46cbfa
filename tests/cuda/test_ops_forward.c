/* The cuda device's operations without a backward against the cpu's, in every type that they have, on a GPU or on the
 * emulator. Outputs start as NaN; sizes are no multiples of packs and blocks, and arrays are not aligned to packs. */
#include "tests/cuda/schedules.h"

TEST_IN_EVERY_TYPE(silu_and_gates) {
    static const char sizes[] = "n=0 c=8|n=1 c=1|n=1 c=8|n=3 c=77|n=5 c=1003|n=33 c=128";
    ops_on_both(type, "silu_forward", sizes, "|shift=1|spread=4|y:@x");
    ops_on_both(type, "gate_forward", sizes, "|shift=1|spread=4|kind=1|kind=1 shift=1|kind=1 spread=2");
}

/* Sequences shorter and longer than the rows of a block and its window, of one and of no row, and many of them. */
TEST_IN_EVERY_TYPE(depthwise) {
    ops_on_both(type, "depthwise_forward",
                "n=0 each=1 c=8|n=1 c=1|n=7 c=8|n=131 c=70|n=300 c=64|n=560 c=6 each=14|n=384 c=33 each=128",
                "k=31 before=30|k=15 before=7 bias:none|k=7 before=3 shift=1|k=1 before=0|k=8 before=0");
    ops_on_both(type, "depthwise_forward", "n=140 c=35|n=280 c=66 each=140",
                "k=3 before=5 dilation=4|k=9 before=0 dilation=16");
}

/* A window of more than 48 KiB. */
TEST_IN_EVERY_TYPE(wide_windows) {
    ops_on_both(type, "depthwise_forward", "n=310 c=40 each=155", "k=3 before=130 dilation=130");
}

static void call_with_a_wide_window(void *unused) {
    (void)unused;
    op_on_card(OP_depthwise_forward, DTYPE_F32, "k=3 dilation=2000");
}

TEST(windows_without_memory_are_refused) {
    char output[1024];
    if (!emulate_set_seed) skip(); /* a GPU's state does not survive a fork */
    assert_int_equal(run_function(output, sizeof output, call_with_a_wide_window, NULL), 1);
    assert_contains(output, "depthwise_forward: 3 taps of dilation 2000 need");
}

/* A sequence has the same bits alone and between others. */
TEST_IN_EVERY_TYPE(neighbours_change_nothing) {
    static const int32_t lengths[] = {3, 250, 0, 128, 1, 77};
    const int64_t c = 40;
    const DepthwiseWindow window = {15, 7, 1};
    int32_t offsets[7] = {0};
    for (int s = 0; s < 6; s++) offsets[s + 1] = offsets[s] + lengths[s];
    Pair x = normal(type, offsets[6], c), y = poisoned(type, offsets[6], c), w = normal(DTYPE_F32, c, window.taps);
    Pair bias = normal(DTYPE_F32, c, 0), at = pair_integers(&rig, offsets, 7);
    depthwise_forward(rig.cuda, y.cuda, x.cuda, w.cuda, bias.cuda, (Sequences){at.cuda, offsets, 6}, window);
    for (int s = 0; s < 6; s++) {
        const int32_t own[] = {0, lengths[s]};
        Pair alone = poisoned(type, lengths[s], c), together = alone, ends = pair_integers(&rig, own, 2);
        together.cuda = tensor_rows(y.cuda, offsets[s], lengths[s]);
        depthwise_forward(rig.cuda, alone.cuda, tensor_rows(x.cuda, offsets[s], lengths[s]), w.cuda, bias.cuda,
                          (Sequences){ends.cuda, own, 1}, window);
        expect_same_bits(&rig, "a sequence alone", alone, together);
    }
}

/* Sizes of rows of every kernel; tables of one row per lane and less, of one and of several pieces; ids without
 * margins. */
TEST_IN_F32(directions) {
    ops_on_both(type, "nearest_direction",
                "n=0 v=2 c=8|n=1 v=2 c=1|n=17 v=31 c=3|n=33 v=2100 c=4|n=9 v=1025 c=5|n=40 v=2177 c=8|n=5 v=513 c=9|"
                "n=19 v=1030 c=16",
                "|shift=1|margins:none");
}

/* The first of equal rows wins, wherever they lie; a NaN in a row of x gives id 0 and NaN, one in the table nothing. */
TEST_IN_F32(equal_directions_and_nan) {
    static const int64_t places[][2] = {{0, 1}, {3, 35}, {40, 200}, {31, 1024}, {1500, 1502}, {129, 1090}};
    const int64_t n = 5, k = 1600, d = 8;
    for (int i = 0; i < 6; i++) {
        Pair x = normal(type, n, d), table = normal(type, k, d), margins = poisoned(type, n, 0);
        Pair ids = pair_below(&rig, n, 1);
        for (int64_t j = 0; j < 2 * d; j++) floats(table)[places[i][j / d] * d + j % d] = 9 * floats(x)[3 * d + j % d];
        floats(x)[d + 2] = NAN;
        floats(table)[50 * d + 1] = NAN;
        pair_upload(&rig, x);
        pair_upload(&rig, table);
        nearest_direction(rig.cpu, ids.cpu, margins.cpu, x.cpu, table.cpu);
        nearest_direction(rig.cuda, ids.cuda, margins.cuda, x.cuda, table.cuda);
        ids.cuda.dtype = DTYPE_F32; /* of indices the bits */
        float *got = pair_download(&rig, margins), *bits = pair_download(&rig, ids);
        assert_memory_equal(bits, ids.cpu.data, (size_t)n * 4);
        assert_int_equal(((int32_t *)ids.cpu.data)[3], places[i][0]);
        assert_int_equal(((int32_t *)ids.cpu.data)[1], 0);
        assert_true(got[3] == 0 && isnan(got[1]) && isnan(floats(margins)[1]));
        free(got);
        free(bits);
    }
}

int main(void) { return tests_run(open_rig, close_rig); }
