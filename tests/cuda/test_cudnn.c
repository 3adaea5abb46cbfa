/* Calls of cuDNN, and the choice between its algorithms and our kernels, with a mock library: it computes each
 * convolution on the host, and fails, returns wrong results or takes long as the test requires. cuDNN itself needs a
 * GPU, and the mock does not run on one, because the host cannot compute in a GPU's memory. */
#include <unistd.h>

#include "kernels/cuda/emulate/emulate_control.h"
#include "kernels/cuda/libraries/cudnn.h"
#include "kernels/cuda/libraries/cudnn_functions.h"
#include "tests/cuda/library_rig.h"
#include "tests/cuda/schedules.h"

static void convolve_short_of_memory(void);

/* The first test: a child has none of the threads that the cpu device makes. The program goes on without a library, or
 * without an algorithm of it, that has no memory. */
TEST(convolutions_end_or_go_on_whichever_call_runs_out_of_memory) {
    check_library_shortage(convolve_short_of_memory, "out of memory");
}

/* The clock of events: work between two events takes 10 ms, or for a convolution of the mock, its milliseconds. */
static double seconds, next_seconds;
static double mock_clock(void) {
    seconds += next_seconds;
    next_seconds = 10e-3;
    return seconds;
}

/* The objects of the mock library. */
struct cudnnTensorStruct {
    unsigned type;
    int dims[5]; /* samples, channels, t, h, w */
};
struct cudnnFilterStruct {
    unsigned type;
    int dims[5]; /* outputs, inputs, taps */
};
struct cudnnConvolutionStruct {
    int padding[3], stride[3];
    unsigned math;
};

enum { ALGORITHMS = 2 };

/* The behaviour of each algorithm. */
static struct {
    unsigned query_status, run_status; /* results of cudnnGet...WorkspaceSize and of the convolution */
    size_t workspace, more_for_one;    /* so much more if there is one sample */
    double milliseconds;
    bool wrong;
} algorithms[ALGORITHMS];

static struct {
    int runs, last_algorithm;
    unsigned last_math;
    int described; /* descriptors created and not destroyed */
} counts;

enum { NO_MEMORY = 2 };

static unsigned create(CudnnContext **handle) {
    *handle = (CudnnContext *)(void *)&counts;
    return library_takes(LIBRARY_HANDLE, NULL) ? CONV_SUCCESS : NO_MEMORY;
}

static unsigned destroy(CudnnContext *handle) {
    (void)handle;
    library_releases();
    return CONV_SUCCESS;
}

/* The first use of the handle, which may take more: the code of algorithms is LIBRARY_CODE and further. */
static unsigned set_stream(CudnnContext *handle, cudaStream_t stream) {
    (void)handle;
    assert_non_null(stream);
    return library_takes(LIBRARY_CODE + ALGORITHMS, NULL) ? CONV_SUCCESS : NO_MEMORY;
}

static size_t version(void) { return 91902; }

static const char *error_string(unsigned status) {
    return status == 3000 ? "NOT_SUPPORTED" : status == NO_MEMORY ? "ALLOC_FAILED" : "a failure";
}

#define DESCRIPTOR(name, Type)                                                                                         \
    static unsigned name##_create(Type **made) {                                                                       \
        counts.described++;                                                                                            \
        *made = xcalloc(1, sizeof **made);                                                                             \
        return CONV_SUCCESS;                                                                                           \
    }                                                                                                                  \
    static unsigned name##_destroy(Type *made) {                                                                       \
        counts.described--;                                                                                            \
        free(made);                                                                                                    \
        return CONV_SUCCESS;                                                                                           \
    }
DESCRIPTOR(tensor, CudnnTensor)
DESCRIPTOR(filter, CudnnFilter)
DESCRIPTOR(convolution, CudnnConvolution)

static unsigned tensor_set(CudnnTensor *tensor, unsigned format, unsigned type, int rank, const int *dims) {
    assert_int_equal(format, CONV_CHANNELS_INNERMOST);
    assert_int_equal(rank, 5);
    tensor->type = type;
    memcpy(tensor->dims, dims, sizeof tensor->dims);
    return CONV_SUCCESS;
}

static unsigned filter_set(CudnnFilter *filter, unsigned type, unsigned format, int rank, const int *dims) {
    assert_int_equal(format, CONV_CHANNELS_INNERMOST);
    assert_int_equal(rank, 5);
    filter->type = type;
    memcpy(filter->dims, dims, sizeof filter->dims);
    return CONV_SUCCESS;
}

static unsigned convolution_set(CudnnConvolution *convolution, int axes, const int *padding, const int *stride,
                                const int *dilation, unsigned mode, unsigned sums_type) {
    assert_int_equal(axes, 3);
    assert_int_equal(mode, CONV_CROSS_CORRELATION);
    assert_int_equal(sums_type, CONV_FLOAT);
    memcpy(convolution->padding, padding, sizeof convolution->padding);
    memcpy(convolution->stride, stride, sizeof convolution->stride);
    for (int i = 0; i < 3; i++) assert_int_equal(dilation[i], 1);
    return CONV_SUCCESS;
}

static unsigned set_math(CudnnConvolution *convolution, unsigned math) {
    convolution->math = math;
    return CONV_SUCCESS;
}

static size_t workspace_for(unsigned algorithm, const CudnnTensor *x) {
    return algorithms[algorithm].workspace + (x->dims[0] == 1 ? algorithms[algorithm].more_for_one : 0);
}

static unsigned workspace_of(unsigned algorithm, const CudnnTensor *x, size_t *bytes) {
    assert_true(algorithm < ALGORITHMS);
    *bytes = workspace_for(algorithm, x);
    return algorithms[algorithm].query_status;
}

static unsigned workspace_forward(CudnnContext *handle, CudnnTensor *x, CudnnFilter *w, CudnnConvolution *c,
                                  CudnnTensor *y, unsigned algorithm, size_t *bytes) {
    (void)handle, (void)w, (void)c, (void)y;
    return workspace_of(algorithm, x, bytes);
}

static unsigned workspace_data(CudnnContext *handle, CudnnFilter *w, CudnnTensor *dy, CudnnConvolution *c,
                               CudnnTensor *dx, unsigned algorithm, size_t *bytes) {
    (void)handle, (void)w, (void)dy, (void)c;
    return workspace_of(algorithm, dx, bytes);
}

static unsigned workspace_weights(CudnnContext *handle, CudnnTensor *x, CudnnTensor *dy, CudnnConvolution *c,
                                  CudnnFilter *dw, unsigned algorithm, size_t *bytes) {
    (void)handle, (void)dy, (void)c, (void)dw;
    return workspace_of(algorithm, x, bytes);
}

/* One convolution, computed when the stream reaches it. data[pass] is the result. */
typedef struct {
    ConvPass pass;
    unsigned algorithm;
    CudnnTensor x, y;
    CudnnFilter w;
    CudnnConvolution c;
    void *data[3]; /* y, x, w */
    float beta;
} Job;

static float get(unsigned type, const void *data, int64_t at) {
    float x = 0;
    if (type == CONV_FLOAT) return ((const float *)data)[at];
    if (type == CONV_HALF) return (float)((const Half *)data)[at];
    memcpy((char *)&x + 2, (const uint16_t *)data + at, 2);
    return x;
}

static void put(unsigned type, void *data, int64_t at, float x) {
    float rounded = through_type(DTYPE_BF16, x);
    if (type == CONV_FLOAT) ((float *)data)[at] = x;
    if (type == CONV_HALF) ((Half *)data)[at] = (Half)x;
    if (type == CONV_BFLOAT16) memcpy((uint16_t *)data + at, (char *)&rounded + 2, 2);
}

static int64_t count_of(const int dims[5]) { return (int64_t)dims[0] * dims[1] * dims[2] * dims[3] * dims[4]; }

/* Returns the row of channels at a position, of a tensor with the dimensions `dims`, channels second. */
static int64_t row_of(const int dims[5], int sample, const int at[3]) {
    return ((int64_t)(sample * dims[2] + at[0]) * dims[3] + at[1]) * dims[4] + at[2];
}

/* Adds the products of all pairs of channels for one output position and tap. numbers: y, x, w; the result's are sums.
 */
static void add_pairs(const Job *job, float *const numbers[3], int sample, const int at[3], const int tap[3]) {
    int seen[3], in = job->w.dims[1], out = job->w.dims[0];
    for (int i = 0; i < 3; i++) {
        seen[i] = at[i] * job->c.stride[i] - job->c.padding[i] + tap[i];
        if (seen[i] < 0 || seen[i] >= job->x.dims[2 + i]) return;
    }
    float *y = numbers[0] + row_of(job->y.dims, sample, at) * out;
    float *x = numbers[1] + row_of(job->x.dims, sample, seen) * in;
    for (int o = 0; o < out; o++) {
        float *w = numbers[2] + row_of(job->w.dims, o, tap) * in;
        for (int i = 0; i < in; i++) {
            if (job->pass == CONV_FORWARD) y[o] += w[i] * x[i];
            if (job->pass == CONV_DATA) x[i] += w[i] * y[o];
            if (job->pass == CONV_WEIGHTS) w[i] += x[i] * y[o];
        }
    }
}

static void do_job(void *argument) {
    Job *job = argument;
    const int *dims[3] = {job->y.dims, job->x.dims, job->w.dims}, *y = job->y.dims, *w = job->w.dims;
    const unsigned types[3] = {job->y.type, job->x.type, job->w.type};
    int result = (int)job->pass;
    float *numbers[3];
    next_seconds = algorithms[job->algorithm].milliseconds * 1e-3;
    for (int i = 0; i < 3; i++) {
        int64_t n = count_of(dims[i]);
        numbers[i] = xmalloc((size_t)n * sizeof(float));
        for (int64_t j = 0; j < n; j++)
            numbers[i][j] = i == result && job->beta == 0 ? 0 : get(types[i], job->data[i], j);
    }
    for (int s = 0; s < y[0]; s++)
        for (int at = 0; at < y[2] * y[3] * y[4]; at++)
            for (int tap = 0; tap < w[2] * w[3] * w[4]; tap++)
                add_pairs(job, numbers, s, (int[]){at / y[4] / y[3], at / y[4] % y[3], at % y[4]},
                          (int[]){tap / w[4] / w[3], tap / w[4] % w[3], tap % w[4]});
    for (int64_t j = 0; j < count_of(dims[result]); j++)
        put(types[result], job->data[result], j,
            algorithms[job->algorithm].wrong ? -numbers[result][j] : numbers[result][j]);
    for (int i = 0; i < 3; i++) free(numbers[i]);
}

static unsigned queue(Job job, void *workspace, size_t workspace_bytes, const float *alpha) {
    cudaStream_t stream = cuda_stream(rig.cuda);
    static Job jobs[256]; /* a captured one may run often, or never */
    assert_true(*alpha == 1);
    assert_int_equal(workspace_bytes, workspace_for(job.algorithm, &job.x));
    if (algorithms[job.algorithm].run_status) return algorithms[job.algorithm].run_status;
    if (!library_takes(LIBRARY_CODE + (int)job.algorithm, stream)) return NO_MEMORY;
    const int *dims = job.pass == CONV_FORWARD ? job.y.dims : job.pass == CONV_DATA ? job.x.dims : job.w.dims;
    /* The library must not use earlier contents; and stream order is tested only if the device writes, too. */
    if (job.beta == 0)
        cuda_check(cudaMemsetAsync(job.data[job.pass], 0xFF,
                                   (size_t)count_of(dims) * (job.y.type == CONV_FLOAT ? 4 : 2), stream),
                   "poisoning");
    cuda_check(cudaMemsetAsync(workspace, 0xFF, workspace_bytes, stream), "poisoning");
    counts.last_algorithm = (int)job.algorithm;
    counts.last_math = job.c.math;
    Job *kept = &jobs[counts.runs++ % 256];
    *kept = job;
    return cudaLaunchHostFunc(stream, do_job, kept) == cudaSuccess ? CONV_SUCCESS : 5000;
}

static void *writable(const void *p) { return (void *)(uintptr_t)p; }

static unsigned forward(CudnnContext *handle, const void *alpha, CudnnTensor *x_shape, const void *x,
                        CudnnFilter *w_shape, const void *w, CudnnConvolution *c, unsigned algorithm, void *workspace,
                        size_t workspace_bytes, const void *beta, CudnnTensor *y_shape, void *y) {
    (void)handle;
    return queue((Job){CONV_FORWARD,
                       algorithm,
                       *x_shape,
                       *y_shape,
                       *w_shape,
                       *c,
                       {y, writable(x), writable(w)},
                       *(const float *)beta},
                 workspace, workspace_bytes, alpha);
}

static unsigned backward_data(CudnnContext *handle, const void *alpha, CudnnFilter *w_shape, const void *w,
                              CudnnTensor *dy_shape, const void *dy, CudnnConvolution *c, unsigned algorithm,
                              void *workspace, size_t workspace_bytes, const void *beta, CudnnTensor *dx_shape,
                              void *dx) {
    (void)handle;
    return queue((Job){CONV_DATA,
                       algorithm,
                       *dx_shape,
                       *dy_shape,
                       *w_shape,
                       *c,
                       {writable(dy), dx, writable(w)},
                       *(const float *)beta},
                 workspace, workspace_bytes, alpha);
}

static unsigned backward_weights(CudnnContext *handle, const void *alpha, CudnnTensor *x_shape, const void *x,
                                 CudnnTensor *dy_shape, const void *dy, CudnnConvolution *c, unsigned algorithm,
                                 void *workspace, size_t workspace_bytes, const void *beta, CudnnFilter *dw_shape,
                                 void *dw) {
    (void)handle;
    return queue((Job){CONV_WEIGHTS,
                       algorithm,
                       *x_shape,
                       *dy_shape,
                       *dw_shape,
                       *c,
                       {writable(dy), writable(x), dw},
                       *(const float *)beta},
                 workspace, workspace_bytes, alpha);
}

static const CudnnFunctions functions = {.cudnnGetVersion = version,
                                         .cudnnGetErrorString = error_string,
                                         .cudnnCreate = create,
                                         .cudnnDestroy = destroy,
                                         .cudnnSetStream = set_stream,
                                         .cudnnCreateTensorDescriptor = tensor_create,
                                         .cudnnDestroyTensorDescriptor = tensor_destroy,
                                         .cudnnSetTensorNdDescriptorEx = tensor_set,
                                         .cudnnCreateFilterDescriptor = filter_create,
                                         .cudnnDestroyFilterDescriptor = filter_destroy,
                                         .cudnnSetFilterNdDescriptor = filter_set,
                                         .cudnnCreateConvolutionDescriptor = convolution_create,
                                         .cudnnDestroyConvolutionDescriptor = convolution_destroy,
                                         .cudnnSetConvolutionNdDescriptor = convolution_set,
                                         .cudnnSetConvolutionMathType = set_math,
                                         .cudnnGetConvolutionForwardWorkspaceSize = workspace_forward,
                                         .cudnnGetConvolutionBackwardDataWorkspaceSize = workspace_data,
                                         .cudnnGetConvolutionBackwardFilterWorkspaceSize = workspace_weights,
                                         .cudnnConvolutionForward = forward,
                                         .cudnnConvolutionBackwardData = backward_data,
                                         .cudnnConvolutionBackwardFilter = backward_weights};

/* ---- the tests ---- */

static void open_library(DType half) {
    rig = rig_open(half);
    memset(&counts, 0, sizeof counts);
    memset(algorithms, 0, sizeof algorithms);
    algorithms[0].workspace = 100, algorithms[1].workspace = 3000;
    algorithms[0].milliseconds = algorithms[1].milliseconds = 5;
    emulate_set_clock(mock_clock);
    cudnn_open(rig.cuda, &functions);
}

static void close_library(void) {
    rig_close(&rig);
    assert_int_equal(counts.described, 0);
}

static const Convolution strided = {{3, 9, 8}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}};

/* Compares both passes with the cpu's. Returns how often the library ran. */
static int check(DType type, int64_t samples, int64_t in, int64_t out, bool add, Convolution c) {
    int64_t taps = (int64_t)c.taps[0] * c.taps[1] * c.taps[2], rows = samples * c.in[0] * c.in[1] * c.in[2];
    int64_t tall = samples * convolution_positions(c, 0) * convolution_positions(c, 1) * convolution_positions(c, 2);
    Pair x = normal(type, rows, in), w = normal(type, out, in * taps), dy = normal(type, tall, out);
    Pair y = poisoned(type, tall, out), dx = add ? normal(type, rows, in) : poisoned(type, rows, in);
    Pair dw = normal(DTYPE_F32, out, in * taps), none = pair_none();
    int before = counts.runs;
    conv3d_forward(rig.cpu, y.cpu, x.cpu, w.cpu, none.cpu, c);
    conv3d_forward(rig.cuda, y.cuda, x.cuda, w.cuda, none.cuda, c);
    conv3d_backward(rig.cpu, (LayerGradients){.dx = dx.cpu, .dw = dw.cpu}, dy.cpu, x.cpu, w.cpu, c, add);
    conv3d_backward(rig.cuda, (LayerGradients){.dx = dx.cuda, .dw = dw.cuda}, dy.cuda, x.cuda, w.cuda, c, add);
    check_output("y", y, error_in(type, in * taps, 1));
    check_output("dx", dx, error_in(type, out * taps, 1));
    check_output("dw", dw, error_in(type, tall, 2)); /* rounded, and then added to a smaller number */
    rig_clear(&rig);
    return counts.runs - before;
}

enum { FIRST_RUNS = 2 * 4 + 1 + 4 + 1 + 4 + 1, LATER_RUNS = 3 }; /* forward, data, weights; two algorithms, one, one */

TEST(products_are_described_as_they_are) {
    const Convolution kinds[] = {strided,
                                 {{5, 6, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
                                 {{8, 9, 8}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}},
                                 {{12, 9, 9}, {2, 3, 1}, {3, 2, 4}, {0, 1, 0}}};
    for (int t = 0; t < TYPES; t++) {
        open_library(types[t]);
        for (int add = 0; add < 2; add++)
            for (int i = 0; i < 4; i++)
                assert_int_equal(check(types[t], 1, 8, 16, add, kinds[i]), add ? LATER_RUNS + 4 : FIRST_RUNS);
        assert_string_equal(cudnn_description(rig.cuda), "cuDNN 9.19.2");
        close_library();
    }
}

TEST(the_math_mode_is_that_of_the_device) {
    for (int t = 0; t < TYPES; t++)
        for (int tf32 = 0; tf32 < 2; tf32++) {
            open_library(types[t]);
            rig.cuda->tf32 = tf32;
            check(types[t], 1, 16, 16, false, strided);
            assert_int_equal(counts.last_math, t ? CONV_TENSOR_OP_MATH : tf32 ? CONV_DEFAULT_MATH : CONV_FMA_MATH);
            close_library();
        }
}

TEST(the_fastest_algorithm_is_used_and_remembered) {
    open_library(DTYPE_F32);
    algorithms[1].milliseconds = 11; /* the other of forward is faster than ours */
    assert_int_equal(check(DTYPE_F32, 2, 8, 16, false, strided), 2 * 4 + 1 + 4 + 4);
    assert_int_equal(check(DTYPE_F32, 2, 8, 16, false, strided), 1);
    assert_int_equal(counts.last_algorithm, CONV_FORWARD_GEMM);
    algorithms[1].milliseconds = 9;                                           /* now this is, too */
    assert_int_equal(check(DTYPE_F32, 3, 8, 16, false, strided), FIRST_RUNS); /* another number of samples */
    assert_int_equal(check(DTYPE_F32, 3, 8, 16, false, strided), LATER_RUNS);
    assert_int_equal(check(DTYPE_F32, 3, 8, 16, true, strided), LATER_RUNS + 4); /* adding makes another product */
    assert_int_equal(check(DTYPE_F32, 3, 8, 16, true, strided), LATER_RUNS);
    rig.cuda->tf32 = true;
    assert_int_equal(check(DTYPE_F32, 3, 8, 16, true, strided), FIRST_RUNS); /* and so is TF32 */
    close_library();
}

TEST(a_resumed_run_loads_the_autotune_cache) {
    Error error;
    open_library(DTYPE_F32);
    assert_null(cudnn_autotune_cache(rig.cuda));
    algorithms[1].milliseconds = 11;
    check(DTYPE_F32, 2, 8, 16, false, strided);
    char *text = cudnn_autotune_cache(rig.cuda), *other = xformat("%s12 no choice\n", text);
    close_library();
    open_library(DTYPE_F32); /* in which all algorithms are faster than ours */
    assert_true(cudnn_load_autotune_cache(rig.cuda, text, &error));
    assert_int_equal(check(DTYPE_F32, 2, 8, 16, false, strided), 1);
    assert_int_equal(counts.last_algorithm, CONV_FORWARD_GEMM);
    char *again = cudnn_autotune_cache(rig.cuda);
    assert_string_equal(again, text);
    assert_int_equal(check(DTYPE_F32, 3, 8, 16, false, strided), FIRST_RUNS); /* not in the cache */
    assert_false(cudnn_load_autotune_cache(rig.cuda, other, &error));
    assert_string_equal(error.text, "a line is no choice of this program's");
    char *huge = xformat("%.*s 18446744073709551615\n", (int)(strrchr(text, ' ') - text), text);
    assert_false(
        cudnn_load_autotune_cache(rig.cuda, huge, &error)); /* would overflow when the weights' bytes are added */
    assert_string_equal(error.text, "a line is no choice of this program's");
    free(huge);
    other[strlen("cuDNN 9.19.")] = '9';
    assert_false(cudnn_load_autotune_cache(rig.cuda, other, &error));
    assert_string_equal(error.text, "they are of cuDNN 9.19.9; here it is cuDNN 9.19.2");
    close_library();
    free(text);
    free(other);
    free(again);
}

TEST(an_algorithm_that_is_hardly_faster_is_not_used) {
    open_library(DTYPE_F32);
    algorithms[0].milliseconds = algorithms[1].milliseconds = 9.6;
    assert_int_equal(check(DTYPE_F32, 1, 8, 16, false, strided), 2 * 4 + 4 + 4);
    assert_int_equal(check(DTYPE_F32, 1, 8, 16, false, strided), 0);
    algorithms[0].milliseconds = algorithms[1].milliseconds = 9.4;
    assert_int_equal(check(DTYPE_F32, 2, 8, 16, false, strided), FIRST_RUNS);
    close_library();
}

TEST(products_that_the_library_rejects_are_ours) {
    open_library(DTYPE_F32);
    algorithms[0].query_status = algorithms[1].query_status = 3000;
    assert_int_equal(check(DTYPE_F32, 2, 8, 16, false, strided), 0);
    algorithms[0].query_status = algorithms[1].query_status = CONV_SUCCESS;
    algorithms[0].workspace = algorithms[1].workspace = (size_t)1 << 30;
    assert_int_equal(check(DTYPE_F32, 1, 8, 16, false, strided), 0);
    close_library();
}

TEST(products_that_do_not_suit_the_library_are_ours) {
    open_library(DTYPE_F32);
    const Convolution c = {{1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
    Pair x = shifted(normal(DTYPE_F32, 33, 0), 4, 8), w = normal(DTYPE_F32, 8, 8), bias = normal(DTYPE_F32, 8, 0);
    Pair y = poisoned(DTYPE_F32, 4, 8), aligned = normal(DTYPE_F32, 4, 8), none = pair_none();
    Tensor no_rows = tensor_2d(x.cuda.data, DTYPE_F32, 0, 8);
    conv3d_forward(rig.cuda, y.cuda, x.cuda, w.cuda, none.cuda, c);
    conv3d_forward(rig.cuda, y.cuda, aligned.cuda, w.cuda, bias.cuda, c);
    conv3d_forward(rig.cuda, no_rows, no_rows, w.cuda, none.cuda, c);
    assert_int_equal(counts.runs, 0);
    conv3d_forward(rig.cpu, y.cpu, aligned.cpu, w.cpu, bias.cpu, c);
    check_output("y", y, sum_error(8, 2));
    close_library();
}

/* Redirects stderr to a file; restore_stderr returns the text. */
static int stderr_before;
static char *stderr_path;

static void redirect_stderr(void) {
    stderr_path = path_join(run_directory(), "stderr.txt");
    fflush(stderr);
    stderr_before = dup(STDERR_FILENO);
    assert_non_null(freopen(stderr_path, "w", stderr));
}

static char *restore_stderr(void) {
    fflush(stderr);
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    char *text = read_text(stderr_path);
    free(stderr_path);
    return text;
}

TEST(algorithms_that_fail_or_are_wrong_are_reported_and_not_used) {
    open_library(DTYPE_F32);
    redirect_stderr();
    algorithms[1].run_status = 5000;
    assert_int_equal(check(DTYPE_F32, 2, 8, 16, false, strided), 4 + 1); /* forward has a second algorithm */
    assert_int_equal(check(DTYPE_F32, 2, 8, 16, false, strided), 1);
    algorithms[1].run_status = CONV_SUCCESS, algorithms[0].wrong = true;
    assert_int_equal(check(DTYPE_F32, 1, 8, 16, false, strided), FIRST_RUNS - 3); /* the wrong one is not timed */
    assert_int_equal(counts.last_algorithm, 1);
    algorithms[1].run_status = 5000; /* after it was chosen */
    assert_int_equal(check(DTYPE_F32, 1, 8, 16, false, strided), 0);
    algorithms[1].run_status = CONV_SUCCESS;
    assert_int_equal(check(DTYPE_F32, 1, 8, 16, false, strided), 0);
    char *text = restore_stderr();
    assert_contains(text, "warning: cuDNN's algorithm 1 fails, and is not used again for forward in f32, 2 x 3 x 9 x 8,"
                          " 8 to 16 channels, 3 x 3 x 3 taps, stride 1 x 2 x 2: a failure\n");
    assert_contains(text, "algorithm 1 fails, and is not used again for the data's gradient in f32, 2 x");
    assert_contains(text, "algorithm 1 fails, and is not used again for the weights' gradient in f32, 1 x");
    assert_contains(text, "warning: cuDNN's algorithm 0 is not used: its result is not ours for forward in f32, 1 x");
    assert_contains(text,
                    "cuDNN benchmark: forward in f32, 2 x 3 x 9 x 8, 8 to 16 channels, 3 x 3 x 3 taps, stride 1 x "
                    "2 x 2: cuDNN; ours takes ");
    assert_null(strstr(text, "cuDNN benchmark: the data's gradient in f32, 2 x"));
    free(text);
    close_library();
}

TEST(nothing_is_timed_while_a_graph_is_captured) {
    open_library(DTYPE_F32);
    cudaGraph_t graph;
    const Convolution c = {{5, 6, 7}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}};
    Pair x = normal(DTYPE_F32, 210, 8), w = normal(DTYPE_F32, 16, 27 * 8), y = poisoned(DTYPE_F32, 210, 16);
    Tensor none = tensor_none();
    cuda_check(cudaStreamBeginCapture(cuda_stream(rig.cuda), cudaStreamCaptureModeThreadLocal), "capture");
    conv3d_forward(rig.cuda, y.cuda, x.cuda, w.cuda, none, c);
    cuda_check(cudaStreamEndCapture(cuda_stream(rig.cuda), &graph), "capture");
    cuda_check(cudaGraphDestroy(graph), "capture");
    assert_int_equal(counts.runs, 0);
    conv3d_forward(rig.cuda, y.cuda, x.cuda, w.cuda, none, c); /* now it is */
    assert_int_equal(counts.runs, 2 * 4 + 1);
    conv3d_forward(rig.cpu, y.cpu, x.cpu, w.cpu, none, c);
    check_output("y", y, sum_error(27 * 8, 1));
    close_library();
}

typedef struct {
    Pair x, w, y, dw;
} Layer;

static void call_layer(void *argument) {
    Layer *l = argument;
    Tensor none = tensor_none();
    conv3d_forward(rig.cuda, l->y.cuda, l->x.cuda, l->w.cuda, none, strided);
    conv3d_backward(rig.cuda, (LayerGradients){.dx = l->x.cuda, .dw = l->dw.cuda}, l->y.cuda, l->x.cuda, l->w.cuda,
                    strided, true);
}

TEST(scratch_is_measured_for_all_algorithms) {
    enum { WORKSPACE = 5 << 20 };
    open_library(DTYPE_F32);
    algorithms[0].workspace = WORKSPACE;
    Layer layer = {normal(DTYPE_F32, 216, 8), normal(DTYPE_F32, 16, 27 * 8), normal(DTYPE_F32, 3 * 5 * 4, 16),
                   normal(DTYPE_F32, 16, 27 * 8)};
    size_t measured = rig.cuda->measure(rig.cuda, call_layer, &layer);
    assert_int_equal(counts.runs, 0);
    assert_true(measured >= WORKSPACE + 16 * 27 * 8 * 4);
    rig.cuda->reserve(rig.cuda, measured, 0);
    int64_t allocations = rig.cuda->allocation_calls;
    call_layer(&layer);
    assert_int_equal(counts.runs, FIRST_RUNS);
    assert_int_equal(rig.cuda->allocation_calls, allocations);
    close_library();
}

/* cuDNN 9.19 wants 3.8 MB for 43 samples of a product of which it wants 3.5 MB for 54. */
TEST(algorithms_that_want_more_for_fewer_samples_are_not_used) {
    enum { SAMPLES = 3 };
    open_library(DTYPE_F32);
    algorithms[0].more_for_one = algorithms[1].more_for_one = 5 << 20;
    Layer layer = {normal(DTYPE_F32, SAMPLES * 216, 8), normal(DTYPE_F32, 16, 27 * 8),
                   normal(DTYPE_F32, SAMPLES * 3 * 5 * 4, 16), normal(DTYPE_F32, 16, 27 * 8)};
    rig.cuda->reserve(rig.cuda, rig.cuda->measure(rig.cuda, call_layer, &layer), 0);
    int64_t allocations = rig.cuda->allocation_calls;
    call_layer(&layer);
    assert_int_equal(counts.runs, FIRST_RUNS);
    layer.x.cuda.dims[0] /= SAMPLES, layer.y.cuda.dims[0] /= SAMPLES;
    call_layer(&layer);
    assert_int_equal(counts.runs, FIRST_RUNS);
    assert_int_equal(rig.cuda->allocation_calls, allocations);
    close_library();
}

TEST(without_the_library_our_kernels_are_used_and_the_reason_given) {
    const char *named[][2] = {
        {"none", "our own convolutions: TRAINC_CUDNN=none"},
        {"/nowhere/libcudnn_cnn.so", "our own convolutions: /nowhere/libcudnn_cnn.so is not installed"},
        {"libc.so.6", "our own convolutions: libc.so.6 has no cudnnGetVersion"},
    };
    for (int i = 0; i < 3; i++) {
        rig = rig_open(DTYPE_F32);
        assert_string_equal(rig.cuda->convolutions(rig.cuda), "our own convolutions");
        setenv("TRAINC_CUDNN", named[i][0], 1);
        cudnn_open(rig.cuda, NULL);
        unsetenv("TRAINC_CUDNN");
        check(DTYPE_F32, 1, 8, 16, false, strided);
        assert_string_equal(rig.cuda->convolutions(rig.cuda), named[i][1]);
        rig_close(&rig);
    }
}

/* ---- memory ---- */

/* Opens the library twice: one that has not started has left nothing behind. */
static void convolve_short_of_memory(void) {
    open_library(DTYPE_F32);
    for (int i = 0; i < 2; i++) {
        const char *description = cudnn_description(rig.cuda);
        bool there = !strcmp(description, "cuDNN 9.19.2");
        size_t total, before, after;
        if (!there) assert_string_equal(description, "our own convolutions: cuDNN does not start: ALLOC_FAILED");
        check(DTYPE_F32, 1, 8, 16, true, strided);
        check(DTYPE_F32, 1, 8, 16, true, strided);
        cudaMemGetInfo(&before, &total);
        cudnn_close(rig.cuda);
        cudaMemGetInfo(&after, &total);
        assert_int_equal(after > before, there);
        if (!i) cudnn_open(rig.cuda, &functions);
    }
    close_library();
}
