/* Scratch memory is planned for the largest batch and must be enough for every smaller one, which is divided into more
 * parts that work at the same time: on cards of any number of multiprocessors. Nothing is computed here: operations are
 * called with invalid addresses, to measure the scratch memory that they need. */
#include "tests/cuda/rig.h"
#include "tests/kernels/op_cases.h"
#include "tests/test.h"

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
    const struct Rows *rows;
} Call;

enum { LONGEST = 260 };

static Tensor some(DType type, int64_t rows, int64_t columns) {
    static char nothing __attribute__((aligned(256)));
    return columns ? tensor_2d(&nothing, type, rows, columns) : tensor_1d(&nothing, type, rows);
}

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

TEST(attention_of_fewer_sequences) {
    static const int heads[] = {1, 2, 3, 4, 5, 8, 12, 16, 20}, sizes[] = {16, 32, 64, 128};
    enum { MOST = 150, DRAWN = 40 };
    int lengths[512];
    for (int card = 0; card < CARDS; card++)
        for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
            for (int s = 0; s < 4; s++) {
                Call call = {attend, MOST, half, heads[h], sizes[s], NULL, NULL}, drawn = call;
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
TEST(attention_of_the_same_batch) {
    int lengths[512];
    for (uint64_t seed = 0; seed < 200; seed++) {
        Call call = {attend, 1 + (int64_t)(seed % 97), half, 4, 64, lengths, NULL}, smaller = call;
        cuda_state(device)->n_multiprocessors = 132;
        draw_lengths(lengths, (int)call.n, seed);
        size_t plan = planned(call);
        for (; smaller.n > 0; smaller.n--)
            must_be_enough("attention of drawn lengths", plan, call, used(smaller), smaller);
    }
}

/* ---- rows ---- */

/* Operations of the table with so many rows for each of n, and channels for each unit of width. */
static const struct Rows {
    const char *operations, *changes;
    int64_t rows, more; /* for each of n, and in addition */
    int c, v, o;        /* for each unit of width; 0: as the changes say */
    int64_t most, step; /* of n */
} rows[] = {
    {"linear_forward linear_backward", "layout=0", 1, 0, 96, 64, 0, 9001, 37},
    /* One column of weights, where the sums of the bias need most of the scratch. */
    {"linear_backward", "layout=0 dx:none c=1", 1, 0, 0, 24, 0, 9001, 37},
    {"layernorm_backward", "dresidual:none", 1, 0, 24, 0, 0, 9001, 17},
    {"batchnorm_statistics", "running_mean:none running_var:none", 1, 1, 24, 0, 0, 9001, 17},
    {"batchnorm_backward", "", 1, 1, 24, 0, 0, 9001, 17},
    {"norm_activate_backward", "frames=1 plane=1 pool=0", 1, 1, 24, 0, 0, 9001, 17},
    {"conv3d_forward conv3d_backward", "t=3 h=5 w=4 taps=3 pad=1 c=32 bias:none", 60, 0, 0, 0, 8, 190, 1},
    {"stem_backward", "frames=9 plane=6 stem=32 out=32", 54, 0, 0, 0, 0, 190, 1},
};

static void make_of_nothing(OpCall *call, OpArgument *a, const void *numbers) {
    (void)call, (void)numbers;
    a->on[0] = some(a->type, a->rows, a->columns);
}

static void call_rows(void *argument) {
    const Call *call = argument;
    const struct Rows *r = call->rows;
    char changes[256], *end = changes + sizeof changes, *at = changes;
    at += snprintf(at, (size_t)(end - at), "%s n=%lld", r->changes, (long long)(r->rows * call->n + r->more));
    if (r->c) at += snprintf(at, (size_t)(end - at), " c=%d", r->c * call->n_heads);
    if (r->v) at += snprintf(at, (size_t)(end - at), " v=%d", r->v * call->n_heads);
    if (r->o) snprintf(at, (size_t)(end - at), " o=%d", r->o * call->n_heads);
    for (const char *name = r->operations; *name; name += strspn(name, " ")) {
        OpCall one = {
            .device = device, .type = call->type, .changes = changes, .make = make_of_nothing, .is_blank = true};
        size_t length = strcspn(name, " ");
        op_call(op_of_name(name, length), &one);
        name += length;
    }
}

TEST(calls_of_fewer_rows) {
    static const int widths[] = {1, 4, 20};
    const DType of[] = {DTYPE_F32, half};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int card = 0; card < CARDS; card++)
            for (int k = 0; k < 3 * 2; k++) {
                cuda_state(device)->n_multiprocessors = multiprocessors[card];
                Call call = {call_rows, rows[i].most, of[k % 2], widths[k / 2], 0, NULL, &rows[i]};
                every_plan_must_be_enough(rows[i].operations, call, rows[i].step);
            }
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

int main(void) { return tests_run(open_device, close_device); }
