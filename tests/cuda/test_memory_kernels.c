/* The cuda device's operations on activations that memory limits, against the cpu's, in f32, bf16 and f16, on a GPU or
 * on the emulator. Overwritten outputs start as NaN, accumulated ones as random numbers; sizes are no multiples of
 * packs and blocks, and arrays are not aligned to packs. */
#include "tests/cuda/schedules.h"

static const uint32_t step_number = 5;
static Dropout dropout_of(float p) { return (Dropout){p, 11, PURPOSE_DROPOUT | 3 << 8, &step_number}; }

TEST_IN_EVERY_TYPE(elementwise) {
    static const char sizes[] = "n=0 c=8|n=1 c=1|n=1 c=8|n=3 c=77|n=5 c=1003|n=33 c=128";
    ops_on_both(type, "dropout residual_forward", sizes, "|p=0.3|shift=1|shift=1 p=0.3");
    ops_on_both(type, "dropout", sizes, "y:@x|y:@x p=0.3");
    ops_on_both(type, "residual_forward", sizes, "sum:@x|sum:@x p=0.3");
    ops_on_both(type, "tanh_forward tanh_backward", sizes, "|shift=1|spread=2|spread=2 shift=1");
    ops_on_both(type, "gelu_forward gelu_backward", sizes,
                "|shift=1|spread=2|spread=2 shift=1|kind=1|kind=1 shift=1|spread=2 kind=1|spread=2 kind=1 shift=1");
    ops_on_both(type, "cast", "n=0|n=1|n=7|n=8|n=1003|n=4099", "|back=1|y:f32|back=2");
}

TEST_IN_EVERY_TYPE(rows) {
    static const char sizes[] = "n=0 c=8|n=1 c=1|n=1 c=8|n=21 c=35|n=9 c=1280|n=70 c=64";
    ops_on_both(type, "gather_rows", sizes, "skip=2 odd=1|skip=2");
    ops_on_both(type, "scatter_rows", sizes, "skip=2 odd=1|skip=2 odd=1 back=1");
}

/* Runs of one id over many pieces, and within a piece; ids at random, and in turn. */
TEST_IN_EVERY_TYPE(embedding) {
    static const char sizes[] =
        "n=0 c=8 v=3 places=3|n=1 c=1 v=1 places=1|n=53 c=77 v=11 places=60|n=300 c=264 v=7 places=200";
    static const char given[] = "random=1 skip=2 odd=1|random=1 rows:none|"
                                "random=1 skip=2 odd=1 positions:none position_table:none dposition_table:none|"
                                "random=1 rows:none positions:none position_table:none dposition_table:none";
    ops_on_both(type, "embedding_forward embedding_backward", sizes, given);
    ops_on_both(type, "embedding_backward", sizes,
                "skip=2 odd=1|rows:none|skip=2|skip=2 odd=1 positions:none dposition_table:none");
    ops_on_both(
        type, "embedding_forward embedding_backward",
        "n=2500 c=16 v=1 places=2000 skip=2 odd=1|n=1024 c=9 v=300 places=2 rows:none", /* three chunks; one id */
        "random=1|");
}

/* Rows that are not named keep what they have. */
TEST_IN_EVERY_TYPE(rows_placed) {
    ops_on_both(type, "place_rows", "n=0 c=8|n=1 c=1|n=1 c=8|n=21 c=35|n=9 c=1280|n=70 c=64",
                "v=7 skip=2 odd=1 random=1");
}

/* Layer normalisation. */

/* The fused operation is, to the bit, the two one after the other; those are compared with the cpu's. */
static void check_residual_layernorm(DType type, int64_t n, int64_t c, float p, bool with_bias, bool in_place) {
    Dropout drop = dropout_of(p);
    Pair x = normal(type, n, c), branch = normal(type, n, c), gain = normal(DTYPE_F32, c, 0);
    Pair bias = with_bias ? normal(DTYPE_F32, c, 0) : pair_none(), out[2][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) out[i][j] = poisoned(j < 2 ? type : DTYPE_F32, n, j < 2 ? c : 0);
    Pair sum = in_place ? x : out[1][0];
    residual_forward(rig.cpu, sum.cpu, x.cpu, branch.cpu, drop);
    residual_forward(rig.cuda, out[0][0].cuda, x.cuda, branch.cuda, on_cuda(&rig, drop));
    layernorm_forward(rig.cuda, (LayerNormOutput){.y = out[0][1].cuda, .mean = out[0][2].cuda, .rstd = out[0][3].cuda},
                      out[0][0].cuda, gain.cuda, bias.cuda, LAYERNORM_EPSILON);
    residual_layernorm_forward(rig.cuda, sum.cuda,
                               (LayerNormOutput){.y = out[1][1].cuda, .mean = out[1][2].cuda, .rstd = out[1][3].cuda},
                               x.cuda, branch.cuda, gain.cuda, bias.cuda, on_cuda(&rig, drop));
    check_output("residual_layernorm_forward sum", sum, error_in(type, 0, 4));
    expect_same_bits(&rig, "residual_layernorm_forward sum", sum, out[0][0]);
    expect_same_bits(&rig, "residual_layernorm_forward y", out[1][1], out[0][1]);
    expect_same_bits(&rig, "residual_layernorm_forward mean", out[1][2], out[0][2]);
    expect_same_bits(&rig, "residual_layernorm_forward rstd", out[1][3], out[0][3]);
}

TEST_IN_EVERY_TYPE(layernorm) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 8}, {5, 77}, {7, 128}, {3, 1280}, {2, 1283}, {2060, 8}};
    static const char with[] = "spread=1.5 center=0.5|spread=1.5 center=0.5 bias:none dbias:none|shift=1";
    static const char texts[] = "n=1 c=1|n=1 c=8|n=5 c=77|n=7 c=128|n=3 c=1280|n=2 c=1283|n=2060 c=8";
    ops_on_both(type, "layernorm_forward", texts, with);
    ops_on_both(type, "layernorm_backward", texts,
                "|dresidual:none|dx:@dresidual|shift=1|dbias:none dresidual:none|shift=1 dresidual:none");
    for (int i = 0; i < 7; i++)
        check_residual_layernorm(type, sizes[i][0], sizes[i][1], i % 2 ? 0.3f : 0, i % 3, i % 2 == 0);
    check_residual_layernorm(type, 9, 768, 0.1f, true, false);
}

/* Rows of length one. */

/* Row by row, because one row is zero and one shorter than the shortest that is brought to length one: their gradients
 * are 1e12 times larger, and nothing that f16 holds. */
static void check_normalize(DType type, int64_t n, int64_t c, bool shift) {
    Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c), y = poisoned(DTYPE_F32, n, c);
    Pair norm = poisoned(DTYPE_F32, n, 0), dy = normal(DTYPE_F32, n, c), dx = poisoned(type, n, c);
    for (int64_t j = 0; j < c && n > 2; j++) {
        floats(x)[j] = 0;
        floats(x)[c + j] *= type == DTYPE_F16 ? 0 : 1e-14f;
        floats(dy)[j] = 1e-12f * floats(dy)[j];
        floats(dy)[c + j] = 1e-12f * floats(dy)[c + j];
    }
    pair_upload(&rig, x);
    pair_upload(&rig, dy);
    normalize_rows_forward(rig.cpu, y.cpu, norm.cpu, x.cpu);
    normalize_rows_forward(rig.cuda, y.cuda, norm.cuda, x.cuda);
    check_output("normalize_rows_forward y", y, sum_error(c, 8));
    check_output("normalize_rows_forward norm", norm, sum_error(c, 4));
    pair_upload(&rig, y);
    pair_upload(&rig, norm);
    normalize_rows_backward(rig.cpu, dx.cpu, dy.cpu, y.cpu, norm.cpu);
    normalize_rows_backward(rig.cuda, dx.cuda, dy.cuda, y.cuda, norm.cuda);
    if (c > 1) check_output("normalize_rows_backward dx", dx, error_in(type, c, 32)); /* one number has no gradient */
}

TEST_IN_EVERY_TYPE(normalize_rows) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 8}, {5, 77}, {37, 128}, {3, 1283}, {70, 16}};
    for (int i = 0; i < 6; i++) {
        check_normalize(type, sizes[i][0], sizes[i][1], false);
        check_normalize(type, sizes[i][0], sizes[i][1], true);
    }
}

/* An index outside dies, and says which. */

TEST(indices_outside_die) {
    op_must_die(OP_gather_rows, "rows[1]=6",
                ": gather_rows, scatter_rows: rows[1] is 6, expected less than 6 and not negative");
    op_must_die(OP_embedding_forward, "ids[1]=-1", "ids[1] is -1, expected less than 10 and not negative");
    op_must_die(OP_place_rows, "rows[1]=6", "place_rows: rows[1] is 6, expected less than 6");
    op_must_die(OP_place_rows, "positions[1]=10", "place_rows: positions[1] is 10, expected less than 10");
}

/* Whatever waits for the device completes the times; the counters know nothing before. */
TEST(a_profile_has_the_times_of_the_device) {
    const OpCounter *counter = &rig.cuda->counters[OP_sum_forward];
    Pair x = normal(DTYPE_F32, 1003, 0), sum = poisoned(DTYPE_F32, 1, 0);
    device_reset_counters(rig.cuda);
    rig.cuda->profile = true;
    for (int i = 0; i < 5000; i++) sum_forward(rig.cuda, sum.cuda, x.cuda); /* more than are timed at once */
    rig.cuda->synchronize(rig.cuda);
    double seconds = counter->seconds;
    rig.cuda->synchronize(rig.cuda);
    rig.cuda->profile = false;
    assert_true(seconds > 0 && seconds < 60 && counter->seconds == seconds);
    rig_clear(&rig);
}

int main(void) { return tests_run(open_rig, close_rig); }
