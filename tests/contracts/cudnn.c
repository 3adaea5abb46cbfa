/* The assumptions of cudnn.c and cudnn_functions.h about cuDNN, against its real header and its real library. The
 * library makes the descriptions of convolutions and reads them back; it cannot start without a GPU, so that this test
 * takes the place of what needs one. */
#include <cudnn.h>

#include "tests/contracts/contract.h"
#include "tests/test.h"

#include "kernels/cuda/libraries/cudnn.h"
#include "kernels/cuda/libraries/cudnn_functions.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* version 9 deprecates this interface */

/* ---- the header ---- */

SAME_VALUE(CONV_SUCCESS, CUDNN_STATUS_SUCCESS);
SAME_VALUE(CONV_FLOAT, CUDNN_DATA_FLOAT);
SAME_VALUE(CONV_HALF, CUDNN_DATA_HALF);
SAME_VALUE(CONV_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME_VALUE(CONV_CHANNELS_INNERMOST, CUDNN_TENSOR_NHWC);
SAME_VALUE(CONV_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME_VALUE(CONV_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME_VALUE(CONV_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME_VALUE(CONV_FMA_MATH, CUDNN_FMA_MATH);
SAME_VALUE(CONV_FORWARD_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
SAME_VALUE(CONV_FORWARD_PRECOMPUTED_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
SAME_VALUE(CONV_DATA_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
SAME_VALUE(CONV_WEIGHTS_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
FOR_EACH_CUDNN_FUNCTION(SAME_PROTOTYPE)

/* ---- the library ---- */

static const char *const file = CUDNN_MAJOR == 8 ? "libcudnn_cnn_train.so.8" : "libcudnn_cnn.so." TEXT(CUDNN_MAJOR);
static const char version[] = TEXT(CUDNN_MAJOR) "." TEXT(CUDNN_MINOR) "." TEXT(CUDNN_PATCHLEVEL);

/* The functions that read a description. */
#define FOR_EACH_GETTER(X)                                                                                             \
    X(cudnnGetTensorNdDescriptor)                                                                                      \
    X(cudnnGetFilterNdDescriptor)                                                                                      \
    X(cudnnGetConvolutionNdDescriptor)                                                                                 \
    X(cudnnGetConvolutionMathType)                                                                                     \
    X(cudnnGetConvolutionGroupCount)                                                                                   \
    X(cudnnGetConvolutionNdForwardOutputDim)
#define FIELD(name) __typeof__(name) *name;
static struct { FOR_EACH_GETTER(FIELD) } get;
#undef FIELD

static CudnnFunctions call;

static int load_functions(void **state) {
    void *library = load_real(file);
    (void)state;
#define LOAD(result, name, arguments)                                                                                  \
    *(void **)&call.name = dlsym(library, #name);                                                                      \
    assert_non_null(call.name);
    FOR_EACH_CUDNN_FUNCTION(LOAD)
#undef LOAD
#define LOAD(name)                                                                                                     \
    *(void **)&get.name = dlsym(library, #name);                                                                       \
    assert_non_null(get.name);
    FOR_EACH_GETTER(LOAD)
#undef LOAD
    return 0;
}

TEST(the_library_is_found_with_all_functions) { assert_found(cudnn_find, "TRAINC_CUDNN", file, version); }

TEST(a_library_that_does_not_start_is_reported) {
    Device *device = cuda_device_open(0);
    CudnnContext *handle = NULL;
    unsigned status = call.cudnnCreate(&handle);
    char *wanted = status == CONV_SUCCESS
                       ? xformat("cuDNN %s", version)
                       : xformat("our own convolutions: cuDNN does not start: %s", call.cudnnGetErrorString(status));
    cudnn_open(device, NULL);
    assert_string_equal(cudnn_description(device), wanted);
    if (status == CONV_SUCCESS) call.cudnnDestroy(handle);
    cudnn_close(device);
    free(wanted);
    device_close(device);
}

/* ---- what the library reads in our descriptions ---- */

static const ConvProduct *product; /* the one that is described */
static const Device *opened;
static int asked;

static unsigned create(CudnnContext **handle) {
    *handle = (CudnnContext *)(void *)&asked;
    return CONV_SUCCESS;
}

static unsigned destroy(CudnnContext *handle) {
    (void)handle;
    return CONV_SUCCESS;
}

static unsigned set_stream(CudnnContext *handle, cudaStream_t stream) {
    (void)handle;
    assert_non_null(stream);
    return CONV_SUCCESS;
}

static cudnnDataType_t type_of(const ConvProduct *p) {
    return p->y.dtype == DTYPE_F32 ? CUDNN_DATA_FLOAT : p->y.dtype == DTYPE_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* Requires samples of in[0] x in[1] x in[2] positions, each of which is a row of channels in memory. */
static void assert_tensor(CudnnTensor *tensor, const int in[3], int channels) {
    const int wanted[5] = {(int)conv3d_samples(product), channels, in[0], in[1], in[2]};
    const int apart[5] = {channels * in[0] * in[1] * in[2], 1, channels * in[1] * in[2], channels * in[2], channels};
    int rank, dims[5], strides[5];
    cudnnDataType_t type;
    assert_int_equal(get.cudnnGetTensorNdDescriptor(tensor, 5, &type, &rank, dims, strides), CUDNN_STATUS_SUCCESS);
    assert_int_equal(type, type_of(product));
    assert_int_equal(rank, 5);
    assert_memory_equal(dims, wanted, sizeof dims);
    assert_memory_equal(strides, apart, sizeof strides);
}

static void assert_filter(CudnnFilter *filter) {
    const int *taps = product->c.taps;
    const int wanted[5] = {(int)product->y.dims[1], (int)product->x.dims[1], taps[0], taps[1], taps[2]};
    int rank, dims[5];
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    assert_int_equal(get.cudnnGetFilterNdDescriptor(filter, 5, &type, &format, &rank, dims), CUDNN_STATUS_SUCCESS);
    assert_int_equal(type, type_of(product));
    assert_int_equal(format, CUDNN_TENSOR_NHWC);
    assert_int_equal(rank, 5);
    assert_memory_equal(dims, wanted, sizeof dims);
}

/* Requires the description of product, of which the library expects the same result positions as we do. */
static unsigned read_back(CudnnTensor *x, CudnnFilter *w, CudnnConvolution *convolution, CudnnTensor *y) {
    const Convolution *c = &product->c;
    const int ones[3] = {1, 1, 1},
              positions[3] = {convolution_positions(*c, 0), convolution_positions(*c, 1), convolution_positions(*c, 2)};
    const int outcome[5] = {(int)conv3d_samples(product), (int)product->y.dims[1], positions[0], positions[1],
                            positions[2]};
    int axes, groups, padding[3], stride[3], dilation[3], dims[5];
    cudnnConvolutionMode_t mode;
    cudnnDataType_t sums;
    cudnnMathType_t math;
    assert_tensor(x, c->in, (int)product->x.dims[1]);
    assert_tensor(y, positions, (int)product->y.dims[1]);
    assert_filter(w);
    assert_int_equal(
        get.cudnnGetConvolutionNdDescriptor(convolution, 3, &axes, padding, stride, dilation, &mode, &sums),
        CUDNN_STATUS_SUCCESS);
    assert_int_equal(axes, 3);
    assert_memory_equal(padding, c->padding, sizeof padding);
    assert_memory_equal(stride, c->stride, sizeof stride);
    assert_memory_equal(dilation, ones, sizeof dilation);
    assert_int_equal(mode, CUDNN_CROSS_CORRELATION);
    assert_int_equal(sums, CUDNN_DATA_FLOAT);
    assert_int_equal(get.cudnnGetConvolutionMathType(convolution, &math), CUDNN_STATUS_SUCCESS);
    assert_int_equal(math, product->y.dtype != DTYPE_F32 ? CUDNN_TENSOR_OP_MATH
                           : opened->tf32                ? CUDNN_DEFAULT_MATH
                                                         : CUDNN_FMA_MATH);
    assert_int_equal(get.cudnnGetConvolutionGroupCount(convolution, &groups), CUDNN_STATUS_SUCCESS);
    assert_int_equal(groups, 1);
    assert_int_equal(get.cudnnGetConvolutionNdForwardOutputDim(convolution, x, w, 5, dims), CUDNN_STATUS_SUCCESS);
    assert_memory_equal(dims, outcome, sizeof dims);
    asked++;
    return CUDNN_STATUS_NOT_SUPPORTED;
}

static unsigned forward(CudnnContext *handle, CudnnTensor *x, CudnnFilter *w, CudnnConvolution *convolution,
                        CudnnTensor *y, unsigned algorithm, size_t *bytes) {
    assert_ptr_equal(handle, &asked);
    assert_int_equal(product->pass, CONV_FORWARD);
    assert_true(algorithm < CUDNN_CONVOLUTION_FWD_ALGO_COUNT && bytes);
    return read_back(x, w, convolution, y);
}

static unsigned backward_data(CudnnContext *handle, CudnnFilter *w, CudnnTensor *dy, CudnnConvolution *convolution,
                              CudnnTensor *dx, unsigned algorithm, size_t *bytes) {
    assert_ptr_equal(handle, &asked);
    assert_int_equal(product->pass, CONV_DATA);
    assert_true(algorithm < CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT && bytes);
    return read_back(dx, w, convolution, dy);
}

static unsigned backward_weights(CudnnContext *handle, CudnnTensor *x, CudnnTensor *dy, CudnnConvolution *convolution,
                                 CudnnFilter *dw, unsigned algorithm, size_t *bytes) {
    assert_ptr_equal(handle, &asked);
    assert_int_equal(product->pass, CONV_WEIGHTS);
    assert_true(algorithm < CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT && bytes);
    return read_back(x, dw, convolution, dy);
}

/* Different sizes along all axes, and windows that do not fit whole. */
static const struct {
    int samples, in, out;
    Convolution c;
} shapes[] = {{3, 8, 16, {.in = {7, 12, 10}, .taps = {3, 5, 1}, .stride = {1, 2, 3}, .padding = {1, 2, 0}}},
              {2, 32, 64, {.in = {16, 21, 23}, .taps = {3, 3, 3}, .stride = {1, 2, 2}, .padding = {1, 1, 1}}},
              {5, 64, 32, {.in = {1, 9, 6}, .taps = {1, 1, 2}, .stride = {1, 1, 1}, .padding = {0, 0, 0}}}};

TEST(the_library_reads_each_convolution_as_we_mean_it) {
    static char memory[64] __attribute__((aligned(64)));
    CudnnFunctions functions = call;
    Device *device = cuda_device_open(0);
    int wanted = 0;
    opened = device;
    asked = 0;
    functions.cudnnCreate = create;
    functions.cudnnDestroy = destroy;
    functions.cudnnSetStream = set_stream;
    functions.cudnnGetConvolutionForwardWorkspaceSize = forward;
    functions.cudnnGetConvolutionBackwardDataWorkspaceSize = backward_data;
    functions.cudnnGetConvolutionBackwardFilterWorkspaceSize = backward_weights;
    cudnn_open(device, &functions);
    assert_contains(cudnn_description(device), version);
    for (int i = 0; i < 3 * 3 * 3 * 2; i++) {
        int shape = i % 3, taps = 1, rows = shapes[shape].samples, in_rows = rows;
        ConvProduct p = {.pass = (ConvPass)(i / 3 % 3), .c = shapes[shape].c};
        DType type = (DType)(i / 9 % 3);
        device->tf32 = i / 27;
        for (int axis = 0; axis < 3; axis++) {
            taps *= p.c.taps[axis];
            in_rows *= p.c.in[axis];
            rows *= convolution_positions(p.c, axis);
        }
        p.x = tensor_2d(memory, type, in_rows, shapes[shape].in);
        p.y = tensor_2d(memory, type, rows, shapes[shape].out);
        p.w = tensor_2d(memory, type, shapes[shape].out, shapes[shape].in * taps);
        product = &p;
        assert_false(cudnn_convolve(device, &p));
        wanted += p.pass == CONV_FORWARD ? 2 : 1; /* algorithms */
        assert_int_equal(asked, wanted);
    }
    cudnn_close(device);
    device_close(device);
}

int main(void) { return tests_run(load_functions, NULL); }
