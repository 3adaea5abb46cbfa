/* The transformer block: compares its gradients with differences of its loss, in every form that a model uses. */
#include <math.h>

#include "kernels/device_open.h"
#include "kernels/philox.h"
#include "model/block.h"
#include "tests/model_rig.h"

enum { WIDTH = 32, ROWS = 15, INNER = 40 };
static int32_t offsets[] = {0, 5, 6, ROWS};

static const BlockNames fused_names = {.tensor = {"%d.norm1.weight", "%d.norm1.bias", "%d.qkv.weight", "%d.qkv.bias",
                                                  "%d.out.weight", "%d.out.bias", "%d.norm2.weight", "%d.norm2.bias",
                                                  "%d.fc1.weight", "%d.fc1.bias", "%d.fc2.weight", "%d.fc2.bias"}};
static const BlockNames split_names = {.tensor = {"%d.norm1.weight", "%d.norm1.bias", "%d.%s.weight", "%d.%s.bias",
                                                  "%d.out.weight", "%d.out.bias", "%d.norm2.weight", "%d.norm2.bias",
                                                  "%d.fc1.weight", "%d.fc1.bias", "%d.fc2.weight", "%d.fc2.bias"},
                                       .parts = {"query", "key", "value"}};

/* Two blocks, their weights, an input, and dy, the gradient of the loss by the output. */
typedef struct {
    ParamTable table;
    BlockStack stack;
    Device *device;
    Arena arena;
    float *weights, *gradients, x[ROWS * WIDTH], y[ROWS * WIDTH], dy[ROWS * WIDTH], dx[ROWS * WIDTH];
    bool has_dx;
    Pass pass;
    Context context;
    BlockRows rows;
    float *told; /* the gradients when the pass told that they are final: elements from told_from on */
    int64_t told_from;
    int times;
} BlockRig;

/* Pass.finished */
static void note_final(void *context, int64_t begin, int64_t end) {
    BlockRig *rig = context;
    assert_true(end == rig->told_from && begin < end);
    memcpy(rig->told + begin, rig->gradients + begin, (size_t)(end - begin) * sizeof(float));
    rig->told_from = begin;
    rig->times++;
}

static BlockRig *block_rig_open(const BlockConfig *config, const BlockNames *names) {
    BlockRig *rig = xcalloc(1, sizeof *rig);
    rig->stack = block_stack_open("test", &rig->table, config, 2, names);
    rig->device = cpu_device_open(0);
    rig->arena = arena_open(rig->device, 4 << 20, "activations");
    int64_t n = rig->table.flat_count;
    rig->weights = xaligned((size_t)n * sizeof(float));
    rig->gradients = xaligned((size_t)n * sizeof(float));
    rig->told = xaligned((size_t)n * sizeof(float));
    for (int i = 0; i < rig->table.count; i++) {
        const Param *param = &rig->table.items[i];
        for (int64_t e = 0; e < param->count; e++) {
            float draw = philox_normal(1, PURPOSE_TEST, 0, (uint64_t)(param->offset + e));
            rig->weights[param->offset + e] = 0.1f * draw + (param->init == INIT_ONE);
        }
    }
    for (uint64_t e = 0; e < ROWS * WIDTH; e++) {
        rig->x[e] = philox_normal(2, PURPOSE_TEST, 0, e);
        rig->dy[e] = philox_normal(3, PURPOSE_TEST, 0, e);
    }
    static const uint32_t step = 2;
    rig->pass = (Pass){.train = true, .seed = 4, .step = &step, .finished = note_final, .finished_context = rig};
    rig->context = (Context){.device = rig->device,
                             .arena = &rig->arena,
                             .table = &rig->table,
                             .weights = tensor_1d(rig->weights, DTYPE_F32, n),
                             .gradients = tensor_1d(rig->gradients, DTYPE_F32, n),
                             .matmul_weights = tensor_1d(rig->weights, DTYPE_F32, n),
                             .pass = &rig->pass};
    rig->rows = (BlockRows){.sequences = {tensor_1d(offsets, DTYPE_I32, 4), offsets, 3}};
    return rig;
}

static void block_rig_close(BlockRig *rig) {
    arena_close(&rig->arena);
    device_close(rig->device);
    block_stack_close(&rig->stack);
    params_free(&rig->table);
    free(rig->weights);
    free(rig->gradients);
    free(rig->told);
    free(rig);
}

/* Returns the loss <dy, output> in double, and in *scale the norm of its terms, |dy o output|_2. */
static double block_loss(BlockRig *rig, double *scale) {
    Tensor y = blocks_forward(&rig->stack, &rig->context, &rig->rows, tensor_2d(rig->x, DTYPE_F32, ROWS, WIDTH));
    double loss = 0, squares = 0;
    for (int e = 0; e < tensor_numel(y); e++) {
        double term = (double)((float *)y.data)[e] * (double)rig->dy[e];
        loss += term;
        squares += term * term;
    }
    arena_release(&rig->arena, 0);
    if (scale) *scale = sqrt(squares);
    return loss;
}

static void block_gradients(BlockRig *rig) {
    int64_t n = rig->table.flat_count;
    int frozen = rig->stack.frozen;
    rig->told_from = n;
    rig->times = 0;
    memset(rig->gradients, 0, tensor_bytes(rig->context.gradients));
    float dy[ROWS * WIDTH];
    memcpy(dy, rig->dy, sizeof dy);
    Tensor y = blocks_forward(&rig->stack, &rig->context, &rig->rows, tensor_2d(rig->x, DTYPE_F32, ROWS, WIDTH));
    memcpy(rig->y, y.data, tensor_bytes(y));
    Tensor dx = blocks_backward(&rig->stack, &rig->context, &rig->rows, tensor_2d(dy, DTYPE_F32, y.dims[0], WIDTH));
    rig->has_dx = tensor_given(dx);
    if (rig->has_dx) memcpy(rig->dx, dx.data, sizeof rig->dx);
    arena_release(&rig->arena, 0);
    int64_t first = frozen == 2 ? n : rig->table.items[rig->stack.params[frozen * BLOCK_TENSORS]].offset;
    assert_true(rig->told_from == first);
    assert_int_equal(rig->times, 4 * (2 - frozen)); /* layers of blocks that are trained, from the last to the first */
    assert_memory_equal(rig->told + first, rig->gradients + first, (size_t)(n - first) * sizeof(float));
}

static double loss_along(BlockRig *rig, float *values, const float *at, const float *direction, int64_t n, double h) {
    for (int64_t e = 0; e < n; e++) values[e] = (float)((double)at[e] + h * (double)direction[e]);
    double loss = block_loss(rig, NULL);
    memcpy(values, at, (size_t)n * sizeof *at);
    return loss;
}

/* Compares the derivative of the loss along a unit direction of one tensor, by the five-point rule, with gradient .
 * direction. Returns the error as a share of the allowed error.
 *
 * A loss has a rounding error of s = 2^-20 |dy o y|: about 16 roundings of 2^-24 behind each output that do not average
 * out. The rule turns independent errors s of its four losses into 0.95 s / h, and five times this is allowed. With
 * h = 1/32 the error of the rule itself, h^4 / 30 times the fifth derivative, is below 1e-6 for derivatives of
 * order 30. */
static double check_direction(BlockRig *rig, const char *what, float *values, const float *gradient,
                              const float *direction, int64_t n, double scale) {
    const double h = 1.0 / 32;
    float *at = xmalloc((size_t)n * sizeof *at);
    memcpy(at, values, (size_t)n * sizeof *at);
    double near = loss_along(rig, values, at, direction, n, h) - loss_along(rig, values, at, direction, n, -h);
    double far = loss_along(rig, values, at, direction, n, 2 * h) - loss_along(rig, values, at, direction, n, -2 * h);
    double measured = (8 * near - far) / (12 * h), claimed = 0;
    for (int64_t e = 0; e < n; e++) claimed += (double)gradient[e] * (double)direction[e];
    double allowed = 5 * 0.95 * 0x1p-20 * scale / h;
    if (!(fabs(measured - claimed) <= allowed)) {
        fail_msg("%s: derivative %.6f by differences, %.6f by the backward, allowed %.1e", what, measured, claimed,
                 allowed);
    }
    free(at);
    return fabs(measured - claimed) / allowed;
}

/* Checks along the gradient and along a random direction. */
static double check_tensor(BlockRig *rig, const char *what, float *values, const float *gradient, int64_t n,
                           double scale) {
    float *direction = xmalloc((size_t)n * sizeof *direction);
    double worst = 0;
    for (int random = 0; random < 2; random++) {
        double norm = 0;
        for (int64_t e = 0; e < n; e++) {
            direction[e] = random ? philox_normal(5, PURPOSE_TEST, 0, (uint64_t)e) : gradient[e];
            norm += (double)direction[e] * (double)direction[e];
        }
        if (!(norm > 0)) fail_msg("%s has no gradient", what);
        for (int64_t e = 0; e < n; e++) direction[e] = (float)((double)direction[e] / sqrt(norm));
        worst = fmax(worst, check_direction(rig, what, values, gradient, direction, n, scale));
    }
    free(direction);
    return worst;
}

static void check_block_gradients(BlockConfig config, const BlockNames *names, Tensor rows) {
    BlockRig *rig = block_rig_open(&config, names);
    rig->rows.outputs = rows;
    double scale, worst;
    block_loss(rig, &scale);
    block_gradients(rig);
    worst = check_tensor(rig, "input", rig->x, rig->dx, ROWS * WIDTH, scale);
    for (int i = 0; i < rig->table.count; i++) {
        const Param *param = &rig->table.items[i];
        worst = fmax(worst, check_tensor(rig, param->name, rig->weights + param->offset, rig->gradients + param->offset,
                                         param->count, scale));
    }
    print_message("largest error %.0f %% of what rounding allows\n", 100 * worst);

    float *gradients = copy_floats(rig->context.gradients), dx[ROWS * WIDTH];
    memcpy(dx, rig->dx, sizeof dx);
    rig->pass.recompute = true;
    block_gradients(rig);
    assert_memory_equal(gradients, rig->gradients, tensor_bytes(rig->context.gradients));
    assert_memory_equal(dx, rig->dx, sizeof dx);
    free(gradients);
    block_rig_close(rig);
}

/* Returns the form of GPT-2, which the tests change. The four dropouts differ, so that a test fails if two are swapped.
 */
static BlockConfig gpt2_form(void) {
    return (BlockConfig){.d_model = WIDTH,
                         .n_heads = 2,
                         .d_ff = INNER,
                         .pre_norm = true,
                         .biases = true,
                         .causal = true,
                         .gelu = GELU_TANH,
                         .layout = WEIGHT_IN_OUT,
                         .drop_attention = 0.1f,
                         .drop_projection = 0.2f,
                         .drop_hidden = 0.3f,
                         .drop_mlp = 0.15f,
                         .first_site = 1};
}

TEST(gpt2_blocks_have_the_gradients_of_their_loss) { check_block_gradients(gpt2_form(), &fused_names, tensor_none()); }

TEST(blocks_without_biases_have_the_gradients_of_their_loss) {
    BlockConfig config = gpt2_form();
    config.biases = false;
    config.layout = WEIGHT_OUT_IN;
    check_block_gradients(config, &fused_names, tensor_none());
}

TEST(post_norm_blocks_have_the_gradients_of_their_loss) {
    BlockConfig config = gpt2_form();
    config.pre_norm = config.causal = false;
    config.gelu = GELU_ERF;
    config.layout = WEIGHT_OUT_IN;
    check_block_gradients(config, &split_names, tensor_none());
}

TEST(pre_norm_bidirectional_blocks_have_the_gradients_of_their_loss) {
    BlockConfig config = gpt2_form();
    config.causal = false;
    config.gelu = GELU_ERF;
    config.layout = WEIGHT_OUT_IN;
    config.drop_projection = 0;
    check_block_gradients(config, &fused_names, tensor_none());
}

TEST(post_norm_causal_blocks_without_biases_have_the_gradients_of_their_loss) {
    BlockConfig config = gpt2_form();
    config.pre_norm = config.biases = false;
    check_block_gradients(config, &fused_names, tensor_none());
}

/* Rows of all three sequences, not ascending. */
static int32_t output_rows[] = {0, 5, 14, 3};

TEST(blocks_with_few_output_rows_have_the_gradients_of_their_loss) {
    BlockConfig config = gpt2_form();
    check_block_gradients(config, &fused_names, tensor_1d(output_rows, DTYPE_I32, 4));
    config.pre_norm = config.causal = false;
    check_block_gradients(config, &fused_names, tensor_1d(output_rows, DTYPE_I32, 4));
}

/* With a choice of output rows, only these are computed, and they are the same as without. The library may sum in
 * another order: a matrix product of length 40 has an error of at most 40 times 2^-24. Behind four products and two
 * norms the difference of two orders stays below 16 times that. */
TEST(output_rows_equal_those_of_a_full_output) {
    for (int form = 0; form < 6; form++) {
        BlockConfig config = gpt2_form();
        config.drop_projection = config.drop_hidden = config.drop_mlp =
            0; /* off, because elements are numbered by the rows that are computed */
        config.pre_norm = form < 3;
        BlockRig *rig = block_rig_open(&config, &fused_names);
        rig->pass.train = form % 3 != 2;
        rig->pass.recompute = form % 3 == 1;
        float x[ROWS * WIDTH];
        memcpy(x, rig->x, sizeof x);
        float *all =
            copy_floats(blocks_forward(&rig->stack, &rig->context, &rig->rows, tensor_2d(x, DTYPE_F32, ROWS, WIDTH)));
        arena_release(&rig->arena, 0);
        rig->rows.outputs = tensor_1d(output_rows, DTYPE_I32, 4);
        Tensor some = blocks_forward(&rig->stack, &rig->context, &rig->rows, tensor_2d(rig->x, DTYPE_F32, ROWS, WIDTH));
        assert_int_equal(some.dims[0], 4);
        for (int i = 0; i < 4; i++)
            for (int c = 0; c < WIDTH; c++) {
                float one = ((float *)some.data)[i * WIDTH + c], other = all[output_rows[i] * WIDTH + c];
                assert_true(fabsf(one - other) <= 16 * 40 * 0x1p-24f * fmaxf(1, fabsf(other)));
            }
        free(all);
        block_rig_close(rig);
    }
}

/* Requires the output of `rig`, whose first blocks are frozen, and the gradients of the other blocks to have the bits
 * of `free`, and the gradients of frozen blocks to be 0. */
static void expect_frozen(const BlockRig *rig, const BlockRig *free) {
    int trained = rig->stack.frozen == 2 ? rig->table.count : rig->stack.params[rig->stack.frozen * BLOCK_TENSORS];
    assert_memory_equal(rig->y, free->y, sizeof rig->y);
    for (int i = 0; i < rig->table.count; i++) {
        const Param *param = &rig->table.items[i];
        const float *got = rig->gradients + param->offset, *want = free->gradients + param->offset;
        for (int64_t e = 0; e < param->count && i < trained; e++) assert_true(got[e] == 0);
        if (i >= trained) assert_memory_equal(got, want, (size_t)param->count * sizeof *got);
        assert_int_equal(param->frozen_rows, i < trained ? param->rows : 0);
    }
}

/* Frozen blocks compute what they did, dropout included, but keep nothing: with all frozen the arena's peak is a single
 * block and the branch, whatever the number of blocks. */
static void check_frozen_blocks(const BlockConfig *config, const BlockNames *names, Tensor rows, bool recompute) {
    size_t peaks[3];
    BlockRig *free = block_rig_open(config, names);
    free->rows.outputs = rows;
    free->pass.recompute = recompute;
    block_gradients(free);
    assert_true(free->has_dx);
    peaks[0] = free->arena.peak;
    for (int frozen = 0; frozen <= 2; frozen++) {
        BlockRig *rig = block_rig_open(config, names);
        float x[ROWS * WIDTH];
        memcpy(x, rig->x, sizeof x);
        rig->rows.outputs = rows;
        rig->pass.recompute = recompute;
        rig->rows.input_fixed = frozen == 0;
        block_stack_freeze(&rig->stack, &rig->table, frozen);
        block_gradients(rig);
        assert_false(rig->has_dx);
        expect_frozen(rig, free);
        if (frozen)
            peaks[frozen] = rig->arena.peak;
        else
            assert_memory_equal(rig->x, x, sizeof x); /* trained blocks keep their input */
        block_rig_close(rig);
    }
    print_message("arena: %zu bytes, %zu with one block frozen, %zu with both\n", peaks[0], peaks[1], peaks[2]);
    assert_true(peaks[1] < peaks[0] && peaks[2] < peaks[1]);
    block_rig_close(free);
}

TEST(frozen_blocks_keep_nothing_and_change_no_bit) {
    for (int form = 0; form < 8; form++) {
        BlockConfig config = gpt2_form();
        Tensor rows = form & 2 ? tensor_1d(output_rows, DTYPE_I32, 4) : tensor_none();
        config.pre_norm = form & 1;
        config.layout = WEIGHT_OUT_IN;
        config.biases = form != 5;
        check_frozen_blocks(&config, form & 1 ? &fused_names : &split_names, rows, form & 4);
    }
}

static void freeze_too_many(void *argument) {
    BlockRig *rig = argument;
    block_stack_freeze(&rig->stack, &rig->table, 3);
}

TEST(only_blocks_that_exist_are_frozen) {
    BlockConfig config = gpt2_form();
    BlockRig *rig = block_rig_open(&config, &fused_names);
    char output[512];
    assert_int_equal(run_function(output, sizeof output, freeze_too_many, rig), 1);
    assert_contains(output, "blocks: 3 of 2 are to be frozen");
    block_stack_freeze(&rig->stack, &rig->table, 1);
    assert_int_equal(2 * params_trainable_count(&rig->table), params_count(&rig->table));
    block_rig_close(rig);
}

/* All blocks start with the distributions of the modules of torch. */
TEST(blocks_are_initialised_as_in_torch) {
    BlockConfig config = gpt2_form();
    config.layout = WEIGHT_OUT_IN;
    config.torch_init = config.same_init = true;
    const double bounds[BLOCK_TENSORS] = {[QKV_WEIGHT] = sqrt(6.0 / (4 * WIDTH)), [PROJECTION_WEIGHT] = 1 / sqrt(WIDTH),
                                          [MLP_IN_WEIGHT] = 1 / sqrt(WIDTH),      [MLP_IN_BIAS] = 1 / sqrt(WIDTH),
                                          [MLP_OUT_WEIGHT] = 1 / sqrt(INNER),     [MLP_OUT_BIAS] = 1 / sqrt(INNER)};
    BlockRig *rig = block_rig_open(&config, &fused_names);
    params_initialize(&rig->table, rig->weights, 3, 1);
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        const Param *one = &rig->table.items[i], *other = &rig->table.items[BLOCK_TENSORS + i];
        const float *values = rig->weights + one->offset;
        double largest = 0;
        for (int64_t e = 0; e < one->count; e++) largest = fmax(largest, fabs((double)values[e]));
        double gain = i == NORM1_GAIN || i == NORM2_GAIN;
        if (bounds[i] > 0) /* 32 draws are all below 0.8 of the bound for 1 in 1,300 seeds; this seed is fixed */
            assert_true(largest > 0.8 * bounds[i] && largest < bounds[i]);
        else
            assert_true(largest == gain);
        assert_memory_equal(values, rig->weights + other->offset, (size_t)one->count * sizeof(float));
    }
    block_rig_close(rig);
}

/* The separate matrices q, k and v are thirds of the fused matrix, so the same flat buffer gives the same bits. */
TEST(separate_query_key_value_are_thirds_of_one_matrix) {
    BlockConfig config = gpt2_form();
    config.layout = WEIGHT_OUT_IN;
    BlockRig *fused = block_rig_open(&config, &fused_names), *split = block_rig_open(&config, &split_names);
    assert_int_equal(fused->table.count, 24);
    assert_int_equal(split->table.count, 32);
    assert_string_equal(split->table.items[20].name, "1.value.weight");
    assert_int_equal(split->table.flat_count, fused->table.flat_count);
    memcpy(split->weights, fused->weights, tensor_bytes(fused->context.weights));
    block_gradients(fused);
    block_gradients(split);
    assert_memory_equal(fused->gradients, split->gradients, tensor_bytes(fused->context.gradients));
    assert_memory_equal(fused->dx, split->dx, sizeof fused->dx);
    block_rig_close(fused);
    block_rig_close(split);
}

/* Muon sees q, k and v as three matrices of width C, whether they are one parameter or three, and in either layout; and
 * the other three weights of a block, but neither biases nor norms. */
TEST(muon_updates_six_matrices_a_block) {
    enum { EACH = 6, C = WIDTH };
    BlockConfig config = gpt2_form(), transposed = config;
    transposed.layout = WEIGHT_OUT_IN;
    BlockRig *in_out = block_rig_open(&config, &fused_names), *fused = block_rig_open(&transposed, &fused_names),
             *split = block_rig_open(&transposed, &split_names);
    ParamUpdates a = params_updates(&in_out->table, NULL, 0.1f, true),
                 b = params_updates(&fused->table, NULL, 0.1f, true),
                 c = params_updates(&split->table, NULL, 0.1f, true);
    assert_true(a.n_matrices == 2 * EACH && b.n_matrices == 2 * EACH && c.n_matrices == 2 * EACH);
    const int64_t shapes[EACH][2] = {{C, C}, {C, C}, {C, C}, {C, C}, {INNER, C}, {C, INNER}};
    for (int i = 0; i < 2 * EACH; i++) {
        const MuonMatrix *x = &a.matrices[i], *y = &b.matrices[i], *z = &c.matrices[i];
        assert_true(z->offset == y->offset && z->rows == y->rows && z->columns == y->columns && z->stride == y->stride);
        assert_true(y->rows == shapes[i % EACH][0] && y->columns == shapes[i % EACH][1] && y->stride == y->columns);
        assert_true(x->rows == y->columns && x->columns == y->rows);
        assert_int_equal(x->stride, i % EACH < 3 ? 3 * C : x->columns);
        int first = i / EACH * EACH;
        int64_t after_first = i - first < 3 ? (i - first) * C : y->offset - b.matrices[first].offset;
        assert_int_equal(x->offset - a.matrices[first].offset, after_first);
    }
    params_updates_free(&a), params_updates_free(&b), params_updates_free(&c);
    block_rig_close(in_out), block_rig_close(fused), block_rig_close(split);
}
