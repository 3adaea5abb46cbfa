/* Scratch memory is planned for the largest batch and must be enough for every smaller one, which is divided into more
 * parts that work at the same time: on cards of any number of multiprocessors. Nothing is computed here: operations are
 * called with invalid addresses, to measure the scratch memory that they need. */
#include "tests/cuda/rig.h"

static const int multiprocessors[] = {4, 20, 40, 58, 72, 84, 108, 132, 142};
enum { CARDS = sizeof multiprocessors / sizeof *multiprocessors };

static Device *device;
static DType half; /* a 16-bit type that the device was built for */

/* A call of operations with so many rows, or sequences. */
typedef struct {
    void (*work)(void *call);
    int64_t n;
    DType type;
    int n_heads, head_size;
    const int *lengths; /* of n sequences; NULL: each as long as any may be */
} Call;

enum { LONGEST = 260 };

static Tensor some(DType type, int64_t rows, int64_t columns) {
    static char nothing __attribute__((aligned(256)));
    return columns ? tensor_2d(&nothing, type, rows, columns) : tensor_1d(&nothing, type, rows);
}

static Tensor f32(int64_t n) { return some(DTYPE_F32, n, 0); }

/* Returns the scratch memory that this call needs. */
static size_t used(Call call) {
    CudaState *state = cuda_state(device);
    cudaGraph_t graph;
    state->measuring = true;
    state->measured = 0;
    cuda_check(cudaStreamBeginCapture(state->stream, cudaStreamCaptureModeRelaxed), "measuring");
    call.work(&call);
    cuda_check(cudaStreamEndCapture(state->stream, &graph), "measuring");
    cuda_check(cudaGraphDestroy(graph), "measuring");
    state->measuring = false;
    return state->measured;
}

static size_t planned(Call call) { return device->measure(device, call.work, &call); }

static void must_be_enough(const char *what, size_t plan, Call call, size_t bytes, Call smaller) {
    if (bytes > plan)
        fail_msg("%s of %s, %d heads of %d, %d multiprocessors: %lld want %zu bytes, %lld have planned %zu", what,
                 dtype_name(call.type), call.n_heads, call.head_size, cuda_state(device)->n_multiprocessors,
                 (long long)smaller.n, bytes, (long long)call.n, plan);
}

/* Compares the plan for each number up to call.n, in steps, with the largest need of any number up to it. */
static void every_plan_must_be_enough(const char *what, Call call, int64_t step) {
    Call wanting = call;
    size_t most = 0;
    for (int64_t last = call.n, n = 1; n <= last; n += step) {
        call.n = n;
        size_t bytes = used(call);
        if (bytes > most) most = bytes, wanting = call;
        must_be_enough(what, planned(call), call, most, wanting);
    }
}

/* ---- attention ---- */

static void attend(void *argument) {
    const Call *call = argument;
    int offsets[512] = {0}, count = (int)call->n;
    for (int s = 0; s < count; s++) offsets[s + 1] = offsets[s] + (call->lengths ? call->lengths[s] : LONGEST);
    int64_t rows = offsets[count], c = (int64_t)call->n_heads * call->head_size;
    Sequences sequences = {.offsets = some(DTYPE_I32, count + 1, 0), .host_offsets = offsets, .count = count};
    attention_backward(device, some(call->type, rows, 3 * c), some(call->type, rows, c),
                       (AttentionActivations){.qkv = some(call->type, rows, 3 * c),
                                              .out = some(call->type, rows, c),
                                              .lse = some(DTYPE_F32, call->n_heads, rows)},
                       sequences, (Attention){.n_heads = call->n_heads, .scale = 1}, (Dropout){.p = 0});
}

/* Sequences of any lengths, some of them short, among them batches of nothing but short ones. */
static void draw_lengths(int lengths[512], int n, uint64_t seed) {
    int most = 1 + (int)(philox_bits(seed, PURPOSE_TEST, 7, 512) % LONGEST);
    for (int s = 0; s < n; s++)
        lengths[s] = 1 + (int)(philox_bits(seed, PURPOSE_TEST, 7, (uint64_t)s) % (uint64_t)most);
}

static void attention_of_fewer_sequences(void **state) {
    static const int heads[] = {1, 2, 3, 4, 5, 8, 12, 16, 20}, sizes[] = {16, 32, 64, 128};
    enum { MOST = 150, DRAWN = 40 };
    int lengths[512];
    (void)state;
    for (int card = 0; card < CARDS; card++)
        for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
            for (int s = 0; s < 4; s++) {
                Call call = {attend, MOST, half, heads[h], sizes[s], NULL}, drawn = call;
                cuda_state(device)->n_multiprocessors = multiprocessors[card];
                size_t plan = planned(call);
                every_plan_must_be_enough("attention", call, 1);
                drawn.lengths = lengths;
                for (uint64_t seed = 0; seed < DRAWN; seed++) {
                    drawn.n = 1 + (int64_t)(philox_bits(seed, PURPOSE_TEST, 7, 513) % MOST);
                    draw_lengths(lengths, (int)drawn.n, seed);
                    must_be_enough("attention of drawn lengths", plan, call, used(drawn), drawn);
                }
            }
}

/* A batch of given lengths is planned for its own rows, not for as many of its longest sequences. */
static void attention_of_the_same_batch(void **state) {
    int lengths[512];
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        Call call = {attend, 1 + (int64_t)(seed % 97), half, 4, 64, lengths}, smaller = call;
        cuda_state(device)->n_multiprocessors = 132;
        draw_lengths(lengths, (int)call.n, seed);
        size_t plan = planned(call);
        for (; smaller.n > 0; smaller.n--)
            must_be_enough("attention of drawn lengths", plan, call, used(smaller), smaller);
    }
}

/* ---- rows ---- */

static void multiply(void *argument) {
    const Call *call = argument;
    int64_t n = call->n, in = 96 * call->n_heads, out = 64 * call->n_heads;
    DType t = call->type;
    Tensor x = some(t, n, in), y = some(t, n, out), w = some(t, in, out);
    linear_forward(device, y, x, w, some(t, out, 0), WEIGHT_IN_OUT);
    linear_backward(device, (LayerGradients){.dx = x, .dw = some(DTYPE_F32, in, out), .dbias = f32(out)}, y, x, w,
                    WEIGHT_IN_OUT);
}

/* Plans one column of weights, where the sums of the bias need most of the scratch. */
static void add_columns(void *argument) {
    const Call *call = argument;
    int64_t n = call->n, out = 24 * call->n_heads;
    Tensor x = some(call->type, n, 1), y = some(call->type, n, out);
    linear_backward(device, (LayerGradients){.dw = some(DTYPE_F32, 1, out), .dbias = f32(out)}, y, x,
                    some(call->type, 1, out), WEIGHT_IN_OUT);
}

static void normalize_rows(void *argument) {
    const Call *call = argument;
    int64_t n = call->n, c = 24 * call->n_heads;
    Tensor x = some(call->type, n, c);
    layernorm_backward(device, (NormGradients){.dx = x, .dgain = f32(c), .dbias = f32(c)}, tensor_none(), x, x, f32(n),
                       f32(n), f32(c));
}

static void measure_columns(void *argument) {
    const Call *call = argument;
    int64_t n = call->n + 1, c = 24 * call->n_heads;
    batchnorm_statistics(device, (BatchStatistics){f32(c), f32(c), tensor_none(), tensor_none(), 0.1f},
                         some(call->type, n, c));
}

static void normalize_columns(void *argument) {
    const Call *call = argument;
    int64_t n = call->n + 1, c = 24 * call->n_heads;
    Tensor x = some(call->type, n, c);
    batchnorm_backward(device, (NormGradients){.dx = x, .dgain = f32(c), .dbias = f32(c)}, x, x, f32(c), f32(c),
                       f32(c));
}

static void activate(void *argument) {
    const Call *call = argument;
    int64_t n = call->n + 1, c = 24 * call->n_heads;
    Tensor x = some(call->type, n, c);
    Normed a = {x, f32(c), f32(c), f32(c), f32(c)};
    norm_activate_backward(device, (NormGradients){.dx = x, .dgain = f32(c), .dbias = f32(c)},
                           (NormGradients){.dx = x, .dgain = f32(c), .dbias = f32(c)}, x, a, a,
                           (NormActivation){.slope = 0.1f, .frames = 1, .plane = 1});
}

static void convolve(void *argument) {
    const Call *call = argument;
    Convolution c = {{3, 5, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}};
    int64_t rows = call->n * 60, in = 32, out = 8 * call->n_heads;
    Tensor x = some(call->type, rows, in), y = some(call->type, rows, out), w = some(call->type, out, in * 27);
    conv3d_forward(device, y, x, w, tensor_none(), c);
    conv3d_backward(device, (LayerGradients){.dx = x, .dw = some(DTYPE_F32, out, in * 27), .dbias = f32(out)}, y, x, w,
                    c, false);
}

static void stem(void *argument) {
    const Call *call = argument;
    Stem s = {9, 6, 0.01f};
    int64_t rows = call->n * 54, tall = call->n * stem_frames(s) * 6, c = 32, o = 32;
    DType t = call->type;
    Tensor x = some(t, rows, 2), w = some(t, c, STEM_WINDOW), w2 = some(t, o, 3 * c);
    stem_backward(device, (StemGradients){some(DTYPE_F32, c, STEM_WINDOW), f32(c), f32(c), some(DTYPE_F32, o, 3 * c)},
                  some(t, tall, o), x, (StemWeights){w, f32(c), f32(c), f32(c), f32(c), w2}, f32(STEM_MOMENTS), s);
}

static void with_fewer(const char *what, void (*work)(void *), int64_t most, int64_t step) {
    static const int widths[] = {1, 4, 20};
    const DType of[] = {DTYPE_F32, half};
    for (int card = 0; card < CARDS; card++)
        for (int k = 0; k < 3 * 2; k++) {
            cuda_state(device)->n_multiprocessors = multiprocessors[card];
            every_plan_must_be_enough(what, (Call){work, most, of[k % 2], widths[k / 2], 0, NULL}, step);
        }
}

static void products_of_fewer_rows(void **state) {
    (void)state;
    with_fewer("linear", multiply, 9001, 37);
}

static void sums_of_columns_of_fewer_rows(void **state) {
    (void)state;
    with_fewer("sums of columns", add_columns, 9001, 37);
}

static void norms_of_fewer_rows(void **state) {
    (void)state;
    with_fewer("layernorm", normalize_rows, 9001, 17);
    with_fewer("batchnorm_statistics", measure_columns, 9001, 17);
    with_fewer("batchnorm", normalize_columns, 9001, 17);
    with_fewer("norm_activate", activate, 9001, 17);
}

static void convolutions_of_fewer_samples(void **state) {
    (void)state;
    with_fewer("conv3d", convolve, 190, 1);
}

static void stems_of_fewer_samples(void **state) {
    (void)state;
    with_fewer("stem", stem, 190, 1);
}

static int open_device(void **state) {
    (void)state;
    setenv("TRAINC_CUDNN", "none", 1); /* algorithms over the plan are not used: test_cudnn */
    device = cuda_device_open(0);
    device->half = half = types[TYPES - 1];
    return 0;
}

static int close_device(void **state) {
    (void)state;
    device_close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_fewer_sequences), cmocka_unit_test(attention_of_the_same_batch),
        cmocka_unit_test(products_of_fewer_rows),       cmocka_unit_test(sums_of_columns_of_fewer_rows),
        cmocka_unit_test(norms_of_fewer_rows),          cmocka_unit_test(convolutions_of_fewer_samples),
        cmocka_unit_test(stems_of_fewer_samples),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
