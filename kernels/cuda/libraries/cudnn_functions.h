/* The part of cuDNN's binary interface that we use, the same in its versions 8 and 9: its enums are passed as unsigned
 * integers. tests/contracts/cudnn.c compares all of it with the headers and libraries of several versions. */
#pragma once

#include <cuda_runtime_api.h>

enum {
    CONV_SUCCESS = 0,
    CONV_FLOAT = 0, /* types of numbers */
    CONV_HALF = 2,
    CONV_BFLOAT16 = 9,
    CONV_CHANNELS_INNERMOST = 1,
    CONV_CROSS_CORRELATION = 1,
    CONV_DEFAULT_MATH = 0, /* which is TF32 where there is any */
    CONV_TENSOR_OP_MATH = 1,
    CONV_FMA_MATH = 3,
    CONV_FORWARD_GEMM = 0,
    CONV_FORWARD_PRECOMPUTED_GEMM = 1,
    CONV_DATA_1 = 1,
    CONV_WEIGHTS_1 = 1
};

typedef struct cudnnContext CudnnContext;
typedef struct cudnnTensorStruct CudnnTensor;
typedef struct cudnnFilterStruct CudnnFilter;
typedef struct cudnnConvolutionStruct CudnnConvolution;

/* X(result, name, arguments) */
#define FOR_EACH_CUDNN_FUNCTION(X)                                                                                     \
    X(size_t, cudnnGetVersion, (void))                                                                                 \
    X(const char *, cudnnGetErrorString, (unsigned status))                                                            \
    X(unsigned, cudnnCreate, (CudnnContext * *handle))                                                                 \
    X(unsigned, cudnnDestroy, (CudnnContext * handle))                                                                 \
    X(unsigned, cudnnSetStream, (CudnnContext * handle, cudaStream_t stream))                                          \
    X(unsigned, cudnnCreateTensorDescriptor, (CudnnTensor * *tensor))                                                  \
    X(unsigned, cudnnDestroyTensorDescriptor, (CudnnTensor * tensor))                                                  \
    X(unsigned, cudnnSetTensorNdDescriptorEx,                                                                          \
      (CudnnTensor * tensor, unsigned format, unsigned type, int rank, const int *dims))                               \
    X(unsigned, cudnnCreateFilterDescriptor, (CudnnFilter * *filter))                                                  \
    X(unsigned, cudnnDestroyFilterDescriptor, (CudnnFilter * filter))                                                  \
    X(unsigned, cudnnSetFilterNdDescriptor,                                                                            \
      (CudnnFilter * filter, unsigned type, unsigned format, int rank, const int *dims))                               \
    X(unsigned, cudnnCreateConvolutionDescriptor, (CudnnConvolution * *convolution))                                   \
    X(unsigned, cudnnDestroyConvolutionDescriptor, (CudnnConvolution * convolution))                                   \
    X(unsigned, cudnnSetConvolutionNdDescriptor,                                                                       \
      (CudnnConvolution * convolution, int axes, const int *padding, const int *stride, const int *dilation,           \
       unsigned mode, unsigned sums_type))                                                                             \
    X(unsigned, cudnnSetConvolutionMathType, (CudnnConvolution * convolution, unsigned math))                          \
    X(unsigned, cudnnGetConvolutionForwardWorkspaceSize,                                                               \
      (CudnnContext * handle, CudnnTensor * x, CudnnFilter * w, CudnnConvolution * convolution, CudnnTensor * y,       \
       unsigned algorithm, size_t *bytes))                                                                             \
    X(unsigned, cudnnGetConvolutionBackwardDataWorkspaceSize,                                                          \
      (CudnnContext * handle, CudnnFilter * w, CudnnTensor * dy, CudnnConvolution * convolution, CudnnTensor * dx,     \
       unsigned algorithm, size_t *bytes))                                                                             \
    X(unsigned, cudnnGetConvolutionBackwardFilterWorkspaceSize,                                                        \
      (CudnnContext * handle, CudnnTensor * x, CudnnTensor * dy, CudnnConvolution * convolution, CudnnFilter * dw,     \
       unsigned algorithm, size_t *bytes))                                                                             \
    X(unsigned, cudnnConvolutionForward,                                                                               \
      (CudnnContext * handle, const void *alpha, CudnnTensor *x_shape, const void *x, CudnnFilter *w_shape,            \
       const void *w, CudnnConvolution *convolution, unsigned algorithm, void *workspace, size_t workspace_bytes,      \
       const void *beta, CudnnTensor *y_shape, void *y))                                                               \
    X(unsigned, cudnnConvolutionBackwardData,                                                                          \
      (CudnnContext * handle, const void *alpha, CudnnFilter *w_shape, const void *w, CudnnTensor *dy_shape,           \
       const void *dy, CudnnConvolution *convolution, unsigned algorithm, void *workspace, size_t workspace_bytes,     \
       const void *beta, CudnnTensor *dx_shape, void *dx))                                                             \
    X(unsigned, cudnnConvolutionBackwardFilter,                                                                        \
      (CudnnContext * handle, const void *alpha, CudnnTensor *x_shape, const void *x, CudnnTensor *dy_shape,           \
       const void *dy, CudnnConvolution *convolution, unsigned algorithm, void *workspace, size_t workspace_bytes,     \
       const void *beta, CudnnFilter *dw_shape, void *dw))

#define CUDNN_FIELD(result, name, arguments) result(*name) arguments;
struct CudnnFunctions {
    FOR_EACH_CUDNN_FUNCTION(CUDNN_FIELD)
};
#undef CUDNN_FIELD
