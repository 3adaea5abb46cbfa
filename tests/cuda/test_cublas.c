/* Calls of cuBLASLt, and when it is asked for an algorithm, with a mock library: it multiplies on the host, counts
 * calls, and refuses what the library refuses while a graph is captured. cuBLASLt itself needs a GPU, and the mock does
 * not run on one, because the host cannot compute in a GPU's memory. */
#include "kernels/cuda/emulate/emulate_control.h"
#include "kernels/cuda/gemm/gelu_choice.h"
#include "kernels/cuda/libraries/cublas.h"
#include "kernels/cuda/libraries/cublas_functions.h"
#include "tests/cuda/library_rig.h"
#include "tests/test.h"

static void multiply_short_of_memory(void);

/* The first test: a child has none of the threads that the cpu device makes. The program goes on without a library that
 * has no memory to start; what it lacks later ends the program: another algorithm would give other bits. */
TEST(products_end_or_go_on_whichever_call_runs_out_of_memory) {
    check_library_shortage(multiply_short_of_memory, "cuBLASLt: a product: the resource allocation failed");
}

/* The objects of the mock library: column-major. */
typedef struct {
    uint64_t rows, columns;
    int64_t ld;
    unsigned type;
} Layout;

typedef struct {
    int32_t transpose[2]; /* of its A and B */
    unsigned compute;
    unsigned epilogue;
    const void *bias;
    void *hidden; /* the "auxiliary buffer" */
    int64_t hidden_ld;
} Operation;

static struct {
    Device *device;
    int heuristics, runs, f32_as_tf32;
    bool refuses_gelu;        /* a library that offers no algorithm for an epilogue with GELU */
    uint64_t refused_columns; /* a number of columns of the result that no algorithm of another size suits; 0: none */
    Operation last;           /* with GELU or its slope */
    int with_gelu;
    double seconds; /* of a product; our own work between two events takes OUR_SECONDS */
} counts;

static const double OUR_SECONDS = 10e-3;
static double now, next_seconds;
static double mock_clock(void) {
    now += next_seconds;
    next_seconds = OUR_SECONDS;
    return now;
}

static bool has_gelu(const Operation *operation) {
    return operation->epilogue == LT_EPILOGUE_GELU || operation->epilogue == LT_EPILOGUE_SLOPE ||
           operation->epilogue == LT_EPILOGUE_GELU_BIAS;
}

static unsigned create(CublasHandle **handle) {
    *handle = (CublasHandle *)&counts;
    return library_takes(LIBRARY_HANDLE, NULL) ? LT_SUCCESS : LT_ALLOCATION_FAILED;
}

static unsigned destroy(CublasHandle *handle) {
    (void)handle;
    library_releases();
    return LT_SUCCESS;
}

static size_t version(void) { return 130205; }

static const char *status_string(unsigned status) {
    return status == LT_ALLOCATION_FAILED ? "the resource allocation failed" : "a failure";
}

static unsigned desc_create(CublasOperation **desc, unsigned compute, unsigned scale) {
    assert_int_equal(scale, LT_F32);
    Operation *operation = xcalloc(1, sizeof *operation);
    operation->compute = compute;
    operation->epilogue = LT_EPILOGUE_NONE;
    *desc = (CublasOperation *)(void *)operation;
    return LT_SUCCESS;
}

static unsigned desc_destroy(CublasOperation *desc) {
    free(desc);
    return LT_SUCCESS;
}

static unsigned desc_set(CublasOperation *desc, unsigned attribute, const void *value, size_t bytes) {
    Operation *operation = (Operation *)(void *)desc;
    if (attribute == LT_TRANSPOSE_A) memcpy(&operation->transpose[0], value, bytes);
    if (attribute == LT_TRANSPOSE_B) memcpy(&operation->transpose[1], value, bytes);
    if (attribute == LT_EPILOGUE) memcpy(&operation->epilogue, value, bytes);
    if (attribute == LT_BIAS) memcpy(&operation->bias, value, bytes);
    if (attribute == LT_HIDDEN) memcpy(&operation->hidden, value, bytes);
    if (attribute == LT_HIDDEN_STRIDE) memcpy(&operation->hidden_ld, value, bytes);
    return LT_SUCCESS;
}

static unsigned preference_create(CublasPreference **preference) {
    *preference = xmalloc(1); /* only its address is used */
    return LT_SUCCESS;
}

static unsigned preference_destroy(CublasPreference *preference) {
    free(preference);
    return LT_SUCCESS;
}

static unsigned preference_set(CublasPreference *preference, unsigned attribute, const void *value, size_t bytes) {
    (void)preference, (void)attribute, (void)value, (void)bytes;
    return LT_SUCCESS;
}

static unsigned layout_create(CublasLayout **layout, unsigned type, uint64_t rows, uint64_t columns, int64_t ld) {
    Layout *made = xmalloc(sizeof *made);
    assert_true(ld >= (int64_t)rows);
    *made = (Layout){rows, columns, ld, type};
    *layout = (CublasLayout *)(void *)made;
    return LT_SUCCESS;
}

static unsigned layout_destroy(CublasLayout *layout) {
    free(layout);
    return LT_SUCCESS;
}

static const Layout *seen(CublasLayout *layout) { return (const Layout *)(void *)layout; }

static unsigned heuristic(CublasHandle *handle, CublasOperation *desc, CublasLayout *a, CublasLayout *b,
                          CublasLayout *c, CublasLayout *d, CublasPreference *preference, int wanted,
                          CublasCandidate results[], int *count) {
    (void)handle, (void)a, (void)b, (void)c, (void)preference;
    counts.heuristics++;
    *count = 0;
    assert_false(is_capturing(counts.device)); /* cuBLASLt 13.3 refuses it then */
    if (counts.refuses_gelu && has_gelu((const Operation *)(void *)desc)) return LT_NOT_SUPPORTED;
    assert_int_equal(wanted, 1);
    *count = 1;
    memset(results, 0, sizeof *results);
    results->algorithm.data[0] = seen(d)->columns;
    return LT_SUCCESS;
}

static unsigned algorithm_check(CublasHandle *handle, CublasOperation *desc, CublasLayout *a, CublasLayout *b,
                                CublasLayout *c, CublasLayout *d, const CublasAlgorithm *algorithm,
                                CublasCandidate *result) {
    (void)handle, (void)desc, (void)a, (void)b, (void)c;
    memset(result, 0, sizeof *result);
    bool own = algorithm->data[0] == seen(d)->columns;
    return own || seen(d)->columns != counts.refused_columns ? LT_SUCCESS : LT_NOT_SUPPORTED;
}

/* One product, computed when the stream reaches it. */
typedef struct {
    Operation operation;
    Layout a, b, d;
    const void *a_data, *b_data, *c_data;
    void *d_data;
    float beta;
} Job;

static float get(unsigned type, const void *data, uint64_t at) {
    float x = 0;
    if (type == LT_F32) return ((const float *)data)[at];
    if (type == LT_F16) return (float)((const Half *)data)[at];
    memcpy((char *)&x + 2, (const uint16_t *)data + at, 2);
    return x;
}

static void put(unsigned type, void *data, uint64_t at, float x) {
    float rounded = through_type(DTYPE_BF16, x);
    if (type == LT_F32) ((float *)data)[at] = x;
    if (type == LT_F16) ((Half *)data)[at] = (Half)x;
    if (type == LT_BF16) memcpy((uint16_t *)data + at, (char *)&rounded + 2, 2);
}

static uint64_t element(const Layout *layout, bool transposed, uint64_t row, uint64_t column) {
    uint64_t i = transposed ? column : row, j = transposed ? row : column;
    assert_true(i < layout->rows && j < layout->columns);
    return j * (uint64_t)layout->ld + i;
}

/* Returns GELU in the tanh form, as usually written. */
static float gelu_tanh(float x, float *slope) {
    float c = 0.797884561f, t = tanhf(c * (x + 0.044715f * x * x * x));
    *slope = 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * c * (1 + 3 * 0.044715f * x * x);
    return 0.5f * x * (1 + t);
}

/* Applies the epilogue to the sum in row i of column j. */
static float finish(const Job *job, float sum, uint64_t i, uint64_t j) {
    const Operation *operation = &job->operation;
    uint64_t at = j * (uint64_t)operation->hidden_ld + i;
    float slope;
    switch (operation->epilogue) {
    case LT_EPILOGUE_GELU:
    case LT_EPILOGUE_GELU_BIAS:
        put(job->d.type, operation->hidden, at, sum);
        return gelu_tanh(sum, &slope);
    case LT_EPILOGUE_SLOPE:
        gelu_tanh(get(job->d.type, operation->hidden, at), &slope);
        return sum * slope;
    default:
        return sum;
    }
}

static void do_job(void *argument) {
    Job *job = argument;
    next_seconds = counts.seconds;
    bool ta = job->operation.transpose[0] == LT_TRANSPOSED, tb = job->operation.transpose[1] == LT_TRANSPOSED;
    uint64_t depth = ta ? job->a.rows : job->a.columns;
    assert_true(depth == (tb ? job->b.columns : job->b.rows));
    for (uint64_t i = 0; i < job->d.rows; i++) {
        for (uint64_t j = 0; j < job->d.columns; j++) {
            uint64_t at = element(&job->d, false, i, j);
            float sum = job->beta == 0 ? 0 : job->beta * get(job->d.type, job->c_data, at);
            if (job->operation.epilogue == LT_EPILOGUE_BIAS || job->operation.epilogue == LT_EPILOGUE_GELU_BIAS)
                sum += get(job->d.type, job->operation.bias, i);
            for (uint64_t l = 0; l < depth; l++)
                sum += get(job->a.type, job->a_data, element(&job->a, ta, i, l)) *
                       get(job->b.type, job->b_data, element(&job->b, tb, l, j));
            sum = finish(job, sum, i, j);
            put(job->d.type, job->d_data, at, sum);
        }
    }
}

static unsigned multiply(CublasHandle *handle, CublasOperation *desc, const void *alpha, const void *a,
                         CublasLayout *a_layout, const void *b, CublasLayout *b_layout, const void *beta, const void *c,
                         CublasLayout *c_layout, void *d, CublasLayout *d_layout, const CublasAlgorithm *algorithm,
                         void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    (void)handle, (void)workspace, (void)workspace_bytes, (void)c_layout;
    assert_true(*(const float *)alpha == 1);
    assert_false(cuda_state(counts.device)->measuring); /* there is no memory behind the addresses */
    assert_true(algorithm->data[0] == seen(d_layout)->columns || seen(d_layout)->columns != counts.refused_columns);
    if (!library_takes(LIBRARY_CODE, stream)) return LT_ALLOCATION_FAILED;
    static Job jobs[1024]; /* a captured one may run often, or never */
    Job *job = &jobs[counts.runs % 1024];
    *job = (Job){.operation = *(Operation *)(void *)desc,
                 .a = *seen(a_layout),
                 .b = *seen(b_layout),
                 .d = *seen(d_layout),
                 .a_data = a,
                 .b_data = b,
                 .c_data = c,
                 .d_data = d,
                 .beta = *(const float *)beta};
    if (d != c || job->beta == 0) { /* what was there is of no use; and memory that only the host writes is none */
        size_t size = job->d.type == LT_F32 ? 4 : 2;
        cuda_check(cudaMemsetAsync(d, 0xFF, job->d.rows * job->d.columns * size, stream), "poisoning");
    }
    if (has_gelu(&job->operation)) counts.last = job->operation, counts.with_gelu++;
    counts.runs++;
    counts.f32_as_tf32 += job->operation.compute == LT_COMPUTE_TF32;
    return cudaLaunchHostFunc(stream, do_job, job) == cudaSuccess ? LT_SUCCESS : LT_EXECUTION_FAILED;
}

static const CublasFunctions functions = {.cublasLtCreate = create,
                                          .cublasLtDestroy = destroy,
                                          .cublasLtGetVersion = version,
                                          .cublasLtGetStatusString = status_string,
                                          .cublasLtMatmul = multiply,
                                          .cublasLtMatmulAlgoCheck = algorithm_check,
                                          .cublasLtMatmulAlgoGetHeuristic = heuristic,
                                          .cublasLtMatmulDescCreate = desc_create,
                                          .cublasLtMatmulDescDestroy = desc_destroy,
                                          .cublasLtMatmulDescSetAttribute = desc_set,
                                          .cublasLtMatmulPreferenceCreate = preference_create,
                                          .cublasLtMatmulPreferenceDestroy = preference_destroy,
                                          .cublasLtMatmulPreferenceSetAttribute = preference_set,
                                          .cublasLtMatrixLayoutCreate = layout_create,
                                          .cublasLtMatrixLayoutDestroy = layout_destroy};

static Rig rig_with_library(DType half) {
    Rig rig = rig_open(half);
    rig.cuda->tf32 = cuda_state(rig.cuda)->capability >= 80;
    memset(&counts, 0, sizeof counts);
    counts.device = rig.cuda;
    counts.seconds = OUR_SECONDS;
    emulate_set_clock(mock_clock);
    cublas_open(rig.cuda, &functions);
    return rig;
}

/* A card whose library applies GELU well. */
static Rig rig_of_hopper(DType half) {
    setenv("EMULATE_CAPABILITY", "90", 1);
    Rig rig = rig_with_library(half);
    unsetenv("EMULATE_CAPABILITY");
    assert_string_equal(cublas_description(rig.cuda), "cuBLASLt 13.2.5 and its GELU");
    return rig;
}

/* Compares both passes of a layer of `n` tokens with the cpu's, twice: dw is overwritten, then added to. */
static void check_layer(Rig *rig, DType type, int64_t n, int64_t in, int64_t out, WeightLayout layout, bool biased) {
    bool in_out = layout == WEIGHT_IN_OUT;
    Pair x = pair_normal(rig, type, n, in, 1), y = pair_poisoned(rig, type, n, out);
    Pair w = pair_normal(rig, type, in_out ? in : out, in_out ? out : in, 1), dy = pair_normal(rig, type, n, out, 1);
    Pair bias = biased ? pair_normal(rig, type, out, 0, 1) : pair_none();
    Pair dbias = biased ? pair_normal(rig, DTYPE_F32, out, 0, 1) : pair_none();
    Pair dx = pair_poisoned(rig, type, n, in), dw = pair_poisoned(rig, DTYPE_F32, w.cpu.dims[0], w.cpu.dims[1]);
    for (int time = 0; time < 2; time++) {
        linear_forward(rig->cpu, y.cpu, x.cpu, w.cpu, bias.cpu, layout);
        linear_forward(rig->cuda, y.cuda, x.cuda, w.cuda, bias.cuda, layout);
        linear_backward(rig->cpu, (LayerGradients){dx.cpu, dw.cpu, dbias.cpu, !time}, dy.cpu, x.cpu, w.cpu, layout);
        linear_backward(rig->cuda, (LayerGradients){dx.cuda, dw.cuda, dbias.cuda, !time}, dy.cuda, x.cuda, w.cuda,
                        layout);
    }
    double rounding = 4 * rounding_of(type) + 1e-6;
    expect_pair(rig, "y", y, rounding);
    expect_pair(rig, "dx", dx, rounding);
    expect_pair(rig, "dw", dw, 1e-5);
    if (biased) expect_pair(rig, "dbias", dbias, 1e-5);
    rig_clear(rig);
}

TEST(layers_are_described_as_they_are) {
    const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int t = 0; t < 3; t++) {
        Rig rig = rig_with_library(types[t]);
        for (int layout = 0; layout < 2; layout++)
            for (int biased = 0; biased < 2; biased++)
                check_layer(&rig, types[t], 5, 7, 3, (WeightLayout)layout, biased);
        assert_true(counts.runs > 0);
        assert_int_equal(counts.f32_as_tf32, t == 0 ? counts.runs : 0);
        assert_string_equal(cublas_description(rig.cuda), "cuBLASLt 13.2.5");
        rig_close(&rig);
    }
}

/* Layers of `n` tokens before and behind a GELU, against the cpu. Returns how many of the two products had it as their
 * epilogue; those were told where hidden is and how long its rows are. */
static int check_gelu_layers(Rig *rig, DType type, int64_t n, int64_t in, int64_t out, WeightLayout layout, bool biased,
                             GeluKind kind, float p) {
    bool in_out = layout == WEIGHT_IN_OUT;
    Pair x = pair_normal(rig, type, n, in, 1), y = pair_poisoned(rig, type, n, out);
    Pair w = pair_normal(rig, type, in_out ? in : out, in_out ? out : in, 1), dy = pair_normal(rig, type, n, out, 1);
    Pair bias = biased ? pair_normal(rig, type, out, 0, 1) : pair_none(), hidden = pair_poisoned(rig, type, n, out);
    Pair before = pair_normal(rig, type, n, in, 1), dhidden = pair_poisoned(rig, type, n, in);
    Pair dw = pair_normal(rig, DTYPE_F32, w.cpu.dims[0], w.cpu.dims[1], 1);
    const uint32_t step = 5;
    Dropout drop = {p, 11, PURPOSE_DROPOUT, &step}, on_device = on_cuda(rig, drop);
    double rounding = 4 * rounding_of(type) + 1e-6;
    int fused = 0, with_gelu = counts.with_gelu;
    linear_gelu_forward(rig->cpu, y.cpu, hidden.cpu, x.cpu, w.cpu, bias.cpu, layout, (GeluDropout){kind, drop});
    linear_gelu_forward(rig->cuda, y.cuda, hidden.cuda, x.cuda, w.cuda, bias.cuda, layout,
                        (GeluDropout){kind, on_device});
    expect_pair(rig, "hidden", hidden, rounding);
    expect_pair(rig, "y", y, 2 * rounding); /* of a rounded number */
    if (counts.with_gelu > with_gelu) {
        fused++;
        assert_int_equal(counts.last.epilogue, biased ? LT_EPILOGUE_GELU_BIAS : LT_EPILOGUE_GELU);
        assert_ptr_equal(counts.last.bias, bias.cuda.data);
        assert_ptr_equal(counts.last.hidden, hidden.cuda.data);
        assert_int_equal(counts.last.hidden_ld, out);
    }
    with_gelu = counts.with_gelu;
    gelu_linear_backward(rig->cpu, (LayerGradients){.dx = dhidden.cpu, .dw = dw.cpu}, dy.cpu, x.cpu, before.cpu, w.cpu,
                         layout, (GeluDropout){kind, drop});
    gelu_linear_backward(rig->cuda, (LayerGradients){.dx = dhidden.cuda, .dw = dw.cuda}, dy.cuda, x.cuda, before.cuda,
                         w.cuda, layout, (GeluDropout){kind, on_device});
    expect_pair(rig, "dhidden", dhidden, 2 * rounding);
    expect_pair(rig, "dw", dw, 1e-5);
    if (counts.with_gelu > with_gelu) {
        fused++;
        assert_int_equal(counts.last.epilogue, LT_EPILOGUE_SLOPE);
        assert_ptr_equal(counts.last.hidden, before.cuda.data);
        assert_int_equal(counts.last.hidden_ld, in);
    }
    rig_clear(rig);
    return fused;
}

TEST(gelu_is_an_epilogue) {
    const DType types[] = {DTYPE_BF16, DTYPE_F16};
    for (int t = 0; t < 2; t++) {
        Rig rig = rig_of_hopper(types[t]);
        for (int layout = 0; layout < 2; layout++)
            for (int biased = 0; biased < 2; biased++)
                assert_int_equal(
                    check_gelu_layers(&rig, types[t], 5, 16, 8, (WeightLayout)layout, biased, GELU_TANH, 0), 2);
        assert_null(rig.cuda->autotune_cache(rig.cuda)); /* nothing was timed */
        rig_close(&rig);
    }
}

/* Runs of a product of the library that is timed: one that loads its code, those, and the one that counts. */
enum { TIMED = 1 + GELU_TIMED_RUNS + 1 };

/* The product is the library's all the same: ours is not faster, when both are timed at the first call. */
TEST(our_kernels_replace_gelu_the_library_lacks) {
    const struct {
        DType type;
        GeluKind kind;
        int64_t in, out;
        bool refused;
        int fused;
        float p;
    } cases[] = {{DTYPE_F32, GELU_TANH, 16, 8, false, 0, 0},     {DTYPE_BF16, GELU_ERF, 16, 8, false, 0, 0},
                 {DTYPE_BF16, GELU_TANH, 12, 8, false, 1, 0}, /* rows of the first hidden are 8 numbers, ... */
                 {DTYPE_BF16, GELU_TANH, 8, 12, false, 1, 0}, /* ... and of the second */
                 {DTYPE_BF16, GELU_TANH, 16, 8, false, 0, 0.3f}, {DTYPE_F32, GELU_ERF, 16, 8, false, 0, 0.3f},
                 {DTYPE_BF16, GELU_TANH, 16, 8, true, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Rig rig = rig_of_hopper(cases[i].type == DTYPE_F32 ? DTYPE_BF16 : cases[i].type);
        counts.refuses_gelu = cases[i].refused;
        int heuristics = 0;
        for (int time = 0; time < 2; time++) { /* the second time the library is not queried again */
            int runs = counts.runs;
            int fused = check_gelu_layers(&rig, cases[i].type, 5, cases[i].in, cases[i].out, WEIGHT_OUT_IN, true,
                                          cases[i].kind, cases[i].p);
            assert_int_equal(fused, cases[i].fused);
            assert_int_equal(counts.runs, runs + (time ? 3 : 1 + fused + TIMED * (2 - fused)));
            assert_true(time ? counts.heuristics == heuristics : counts.heuristics == (cases[i].refused ? 5 : 3));
            heuristics = counts.heuristics;
        }
        rig_close(&rig);
    }
}

/* A layer before a GELU: its product, then what the next one gives back. Sums are exact, so that their order does not
 * matter: the numbers are few multiples of 1/128. */
typedef struct {
    Device *device;
    Pair y, hidden, x, w, dx, dy, dw;
    GeluDropout activation;
} GeluLayer;

static GeluLayer gelu_layer(Rig *rig, DType type, GeluKind kind, float p) {
    const int64_t n = 5, in = 16, out = 8;
    static const uint32_t step = 5;
    GeluLayer layer = {.device = rig->cuda,
                       .y = pair_poisoned(rig, type, n, out),
                       .hidden = pair_poisoned(rig, type, n, out),
                       .x = pair_for_tf32(rig, pair_normal(rig, type, n, in, 1)),
                       .w = pair_for_tf32(rig, pair_normal(rig, type, in, out, 1)),
                       .dx = pair_poisoned(rig, type, n, out),
                       .dy = pair_for_tf32(rig, pair_normal(rig, type, n, in, 1)),
                       .dw = pair_normal(rig, DTYPE_F32, in, out, 1)};
    layer.activation = (GeluDropout){kind, on_cuda(rig, (Dropout){p, 11, PURPOSE_DROPOUT, &step})};
    return layer;
}

/* The second layer is the first's transpose. */
static void compute_layer(void *argument) {
    const GeluLayer *l = argument;
    linear_gelu_forward(l->device, l->y.cuda, l->hidden.cuda, l->x.cuda, l->w.cuda, tensor_none(), WEIGHT_IN_OUT,
                        l->activation);
    gelu_linear_backward(l->device, (LayerGradients){.dx = l->dx.cuda, .dw = l->dw.cuda}, l->dy.cuda, l->y.cuda,
                         l->hidden.cuda, l->w.cuda, WEIGHT_OUT_IN, l->activation);
}

/* Below 9.0, also for the form of GELU that the library has. */
TEST(the_faster_way_to_gelu_is_chosen_and_both_have_the_same_bits) {
    static const struct {
        DType type;
        GeluKind kind;
        float p;
    } cases[] = {{DTYPE_BF16, GELU_TANH, 0},
                 {DTYPE_F16, GELU_TANH, 0},
                 {DTYPE_BF16, GELU_ERF, 0.3f},
                 {DTYPE_F16, GELU_ERF, 0},
                 {DTYPE_F32, GELU_ERF, 0.3f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Rig rig = rig_with_library(cases[i].type == DTYPE_F32 ? DTYPE_BF16 : cases[i].type);
        rig.cuda->tf32 = false; /* our own products have it, the mock does not */
        GeluLayer layer = gelu_layer(&rig, cases[i].type, cases[i].kind, cases[i].p), other = layer;
        other.y = pair_poisoned(&rig, cases[i].type, 5, 8), other.dx = pair_poisoned(&rig, cases[i].type, 5, 8);
        other.hidden = pair_poisoned(&rig, cases[i].type, 5, 8);
        compute_layer(&layer);
        OWNED char *theirs = rig.cuda->autotune_cache(rig.cuda);
        assert_contains(theirs, " 0\n");
        gelu_choices_close(rig.cuda);
        counts.seconds = 2 * OUR_SECONDS;
        compute_layer(&other);
        int runs = counts.runs;
        compute_layer(&other);
        assert_int_equal(counts.runs, runs + 1); /* dw */
        assert_int_equal(counts.with_gelu, 0);
        OWNED char *ours = rig.cuda->autotune_cache(rig.cuda);
        assert_null(strstr(ours, " 0\n"));
        expect_same_bits(&rig, "hidden", layer.hidden, other.hidden);
        expect_same_bits(&rig, "y", layer.y, other.y);
        expect_same_bits(&rig, "dx", layer.dx, other.dx);
        rig_close(&rig);
    }
}

TEST(ways_to_gelu_outlive_a_restart) {
    Error error;
    Rig rig = rig_with_library(DTYPE_BF16);
    GeluLayer layer = gelu_layer(&rig, DTYPE_BF16, GELU_ERF, 0);
    counts.seconds = 2 * OUR_SECONDS;
    compute_layer(&layer);
    OWNED char *text = rig.cuda->autotune_cache(rig.cuda);
    rig_close(&rig);
    rig = rig_with_library(DTYPE_BF16);
    layer = gelu_layer(&rig, DTYPE_BF16, GELU_ERF, 0);
    const char *choices = strchr(text, '\n') + 1; /* behind the card */
    OWNED char *damaged = xformat("%s5 16 8 1\n", text), *other = xformat("cuBLASLt 13.2.6%s", strchr(choices, '\n'));
    OWNED char *both = xformat("cuDNN 9.1.2\n1 2\n%s", choices); /* convolutions are chosen again */
    OWNED char *elsewhere = xformat("card NVIDIA T4\n%s", choices),
               *want = xformat("they are of NVIDIA T4; here it is %s", rig.cuda->product);
    assert_false(rig.cuda->load_autotune_cache(rig.cuda, elsewhere, &error));
    assert_string_equal(error.text, want);
    assert_false(rig.cuda->load_autotune_cache(rig.cuda, both, &error));
    assert_contains(error.text, "they are of cuDNN 9.1.2; here it is our own");
    compute_layer(&layer);
    assert_true(rig.cuda->load_autotune_cache(rig.cuda, text, &error));
    compute_layer(&layer);
    assert_int_equal(counts.runs, 2); /* dw: nothing is timed, though theirs were faster now */
    OWNED char *again = rig.cuda->autotune_cache(rig.cuda);
    assert_string_equal(again, text);
    assert_false(rig.cuda->load_autotune_cache(rig.cuda, damaged, &error));
    assert_string_equal(error.text, "a line is no choice of this program's");
    assert_false(rig.cuda->load_autotune_cache(rig.cuda, other, &error));
    assert_string_equal(error.text, "they are of cuBLASLt 13.2.6; here it is cuBLASLt 13.2.5");
    rig_close(&rig);
}

/* The emulator refuses an event that is waited for during a capture. */
TEST(a_recording_that_would_have_to_time_is_a_direct_call) {
    Rig rig = rig_with_library(DTYPE_BF16);
    GeluLayer first = gelu_layer(&rig, DTYPE_BF16, GELU_ERF, 0), second = gelu_layer(&rig, DTYPE_BF16, GELU_TANH, 0);

    rig.cuda->measure(rig.cuda, compute_layer, &first); /* chooses nothing */
    enum { DIRECTLY = 2 * TIMED + 1, RECORDED = 3 };
    const int ran[] = {DIRECTLY, DIRECTLY + RECORDED + DIRECTLY, 2 * DIRECTLY + 2 * RECORDED, /* and repeated */
                       2 * DIRECTLY + 2 * RECORDED};
    for (int call = 0; call < 4; call++) {
        rig.cuda->repeat(rig.cuda, "key", 3, false, compute_layer, call ? &second : &first);
        rig.cuda->synchronize(rig.cuda);
        assert_int_equal(counts.runs, ran[call]);
    }
    rig_close(&rig);
}

TEST(a_full_list_of_ways_to_gelu_times_nothing_more) {
    Rig rig = rig_with_library(DTYPE_BF16);
    Pair a = pair_normal(&rig, DTYPE_F32, 1, 1, 1), b = pair_normal(&rig, DTYPE_F32, 1, GELU_CHOICES + 2, 1);
    Pair c = pair_poisoned(&rig, DTYPE_F32, 1, GELU_CHOICES + 2),
         hidden = pair_poisoned(&rig, DTYPE_F32, 1, GELU_CHOICES + 2);
    Gemm g = {.c = c.cuda.data,
              .a = a.cuda.data,
              .b = b.cuda.data,
              .epilogue = EPILOGUE_GELU,
              .gelu = GELU_ERF,
              .hidden = hidden.cuda.data,
              .m = 1,
              .k = 1,
              .type = DTYPE_F32};
    counts.seconds = 2 * OUR_SECONDS;
    for (g.n = 1; g.n <= GELU_CHOICES + 2; g.n++) gemm_multiply(rig.cuda, &g);
    assert_int_equal(counts.runs,
                     (TIMED - 1) * GELU_CHOICES + 2); /* ours is faster, but of the last two that is not known */
    rig_close(&rig);
}

TEST(the_library_is_asked_once_for_sizes_alike) {
    Rig rig = rig_with_library(DTYPE_F32);
    check_layer(&rig, DTYPE_F32, 5, 7, 3, WEIGHT_OUT_IN, true);
    assert_int_equal(counts.heuristics, 3); /* y, dx, dw */
    assert_int_equal(counts.runs, 6);
    check_layer(&rig, DTYPE_F32, 6, 7, 3, WEIGHT_OUT_IN, true); /* another number of tokens */
    assert_int_equal(counts.heuristics, 3);
    assert_int_equal(counts.runs, 12);
    rig_close(&rig);
}

/* y and dx have as many columns, to the library, as there are tokens. */
TEST(a_number_of_tokens_that_needs_its_own_algorithm_has_it) {
    Rig rig = rig_with_library(DTYPE_F32);
    check_layer(&rig, DTYPE_F32, 5, 7, 3, WEIGHT_OUT_IN, true);
    counts.refused_columns = 6;
    for (int time = 0; time < 2; time++) {
        check_layer(&rig, DTYPE_F32, 6, 7, 3, WEIGHT_OUT_IN, true);
        assert_int_equal(counts.heuristics, 5);
    }
    assert_int_equal(counts.runs, 18);
    rig_close(&rig);
}

/* The lengths of many epochs, as steps meet them: all sizes are known after the first. */
TEST(an_epoch_of_other_lengths_asks_nothing_more) {
    Rig rig = rig_with_library(DTYPE_BF16);
    for (int epoch = 0; epoch < 2; epoch++) {
        int asked = counts.heuristics;
        for (int64_t i = 0; i < 40; i++)
            check_layer(&rig, DTYPE_BF16, 1 + (i * 37 + epoch * 11) % 192, 8, 16, WEIGHT_OUT_IN, true);
        if (epoch) assert_int_equal(counts.heuristics, asked);
    }
    rig_close(&rig);
}

TEST(a_full_table_is_emptied) {
    enum { SIZES = 3100 }; /* more than it holds */
    Rig rig = rig_with_library(DTYPE_F32);
    Pair a = pair_normal(&rig, DTYPE_F32, 1, 1, 1), b = pair_normal(&rig, DTYPE_F32, 1, SIZES, 1);
    Pair c = pair_poisoned(&rig, DTYPE_F32, 1, SIZES);
    Gemm g = {.c = c.cuda.data, .a = a.cuda.data, .b = b.cuda.data, .m = 1, .k = 1, .type = DTYPE_F32};
    for (g.n = 1; g.n <= SIZES; g.n++) assert_true(cublas_multiply(rig.cuda, &g));
    assert_int_equal(counts.heuristics, SIZES);
    for (int64_t i = 0; i < SIZES; i++) ((float *)c.cpu.data)[i] = *(float *)a.cpu.data * ((float *)b.cpu.data)[i];
    expect_pair(&rig, "c", c, 1e-6);
    g.n = SIZES;
    assert_true(cublas_multiply(rig.cuda, &g));
    assert_int_equal(counts.heuristics, SIZES);
    g.n = 1; /* forgotten */
    assert_true(cublas_multiply(rig.cuda, &g));
    assert_int_equal(counts.heuristics, SIZES + 1);
    rig_close(&rig);
}

TEST(true_f32_where_it_is_wanted) {
    Rig rig = rig_with_library(DTYPE_F32);
    rig.cuda->tf32 = false;
    check_layer(&rig, DTYPE_F32, 5, 7, 3, WEIGHT_OUT_IN, false);
    assert_int_equal(counts.f32_as_tf32, 0);
    rig_close(&rig);
}

/* A product that a step would repeat; its size may have changed behind the step's key. */
typedef struct {
    Device *device;
    Tensor y, x, w;
} Step;

static void step(void *argument) {
    const Step *s = argument;
    linear_forward(s->device, s->y, s->x, s->w, tensor_none(), WEIGHT_IN_OUT);
}

/* The mock fails if it is asked during a capture. */
TEST(a_recording_that_would_have_to_ask_is_a_direct_call) {
    Rig rig = rig_with_library(DTYPE_F32);
    Pair x = pair_normal(&rig, DTYPE_F32, 4, 5, 1), w = pair_normal(&rig, DTYPE_F32, 5, 6, 1);
    Pair y = pair_poisoned(&rig, DTYPE_F32, 4, 6);
    Pair v = pair_normal(&rig, DTYPE_F32, 5, 7, 1), z = pair_poisoned(&rig, DTYPE_F32, 4, 7);
    Step first = {rig.cuda, y.cuda, x.cuda, w.cuda}, second = {rig.cuda, z.cuda, x.cuda, v.cuda};
    const int asked[] = {1, 2, 2, 2}, ran[] = {1, 2, 3, 3}; /* directly, directly, recorded, repeated */
    for (int call = 0; call < 4; call++) {
        rig.cuda->repeat(rig.cuda, "key", 3, false, step, call ? &second : &first);
        rig.cuda->synchronize(rig.cuda);
        assert_int_equal(counts.heuristics, asked[call]);
        assert_int_equal(counts.runs, ran[call]);
        if (call) linear_forward(rig.cpu, z.cpu, x.cpu, v.cpu, tensor_none(), WEIGHT_IN_OUT);
        if (call) expect_pair(&rig, "z", z, 1e-6);
        rig.cuda->clear(rig.cuda, z.cuda.data, tensor_bytes(z.cuda));
    }
    rig_close(&rig);
}

/* The mock fails if it is called then, also for a product that it has computed before. What our own product needs is
 * planned: the library may decline. */
TEST(memory_is_measured_without_the_library) {
    static char nothing __attribute__((aligned(256)));
    Rig rig = rig_with_library(DTYPE_BF16), own = rig_open(DTYPE_BF16);
    Pair x = pair_normal(&rig, DTYPE_BF16, 64, 4096, 1), w = pair_normal(&rig, DTYPE_BF16, 4096, 8, 1);
    Pair y = pair_poisoned(&rig, DTYPE_BF16, 64, 8);
    Step s = {rig.cuda, y.cuda, x.cuda, w.cuda};
    step(&s);
    rig.cuda->synchronize(rig.cuda);
    assert_int_equal(counts.runs, 1);
    s.y.data = s.x.data = s.w.data = &nothing;
    size_t planned = rig.cuda->measure(rig.cuda, step, &s);
    s.device = own.cuda;
    assert_int_equal(planned, own.cuda->measure(own.cuda, step, &s));
    assert_true(planned > 0);
    assert_int_equal(counts.heuristics, 1);
    assert_int_equal(counts.runs, 1);
    rig_close(&own);
    rig_close(&rig);
}

TEST(without_the_library_our_kernels_run_and_the_reason_is_given) {
    const char *named[][2] = {
        {"none", "our own matrix products: TRAINC_CUBLASLT=none"},
        {"/nowhere/libcublasLt.so", "our own matrix products: /nowhere/libcublasLt.so is not installed"},
        {"libc.so.6", "our own matrix products: libc.so.6 has no cublasLtCreate"},
    };
    for (int i = 0; i < 3; i++) {
        Rig rig = rig_open(DTYPE_F32);
        setenv("TRAINC_CUBLASLT", named[i][0], 1);
        cublas_open(rig.cuda, NULL);
        unsetenv("TRAINC_CUBLASLT");
        check_layer(&rig, DTYPE_F32, 5, 7, 3, WEIGHT_OUT_IN, true);
        assert_string_equal(cublas_description(rig.cuda), named[i][1]);
        rig_close(&rig);
    }
}

/* ---- memory ---- */

static void multiply_short_of_memory(void) {
    Rig rig = rig_with_library(DTYPE_F32);
    rig.cuda->tf32 = false; /* our own products have it, the mock does not */
    bool there = !strcmp(cublas_description(rig.cuda), "cuBLASLt 13.2.5");
    if (!there)
        assert_string_equal(cublas_description(rig.cuda),
                            "our own matrix products: cuBLASLt does not start: the resource allocation failed");
    check_layer(&rig, DTYPE_F32, 5, 7, 3, WEIGHT_OUT_IN, true);
    assert_int_equal(counts.runs > 0, there);
    rig_close(&rig);
}
