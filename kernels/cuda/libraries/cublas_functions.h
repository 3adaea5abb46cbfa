/* The functions of cuBLASLt that we use, as its header declares them. Empty without that header: see HAVE_CUBLASLT. */
#ifndef KERNELS_CUDA_LIBRARIES_CUBLAS_FUNCTIONS_H
#define KERNELS_CUDA_LIBRARIES_CUBLAS_FUNCTIONS_H

#if defined __has_include
#if __has_include(<cublasLt.h>)
#define HAVE_CUBLASLT
#include <cublasLt.h>

#define FOR_EACH_CUBLAS_FUNCTION(X)                                                                                    \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtGetVersion)                                                                                              \
    X(cublasLtGetStatusString)                                                                                         \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulAlgoCheck)                                                                                         \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)

#define CUBLAS_FIELD(name) __typeof__(name) *name;
struct CublasFunctions {
    FOR_EACH_CUBLAS_FUNCTION(CUBLAS_FIELD)
};
#undef CUBLAS_FIELD

#endif
#endif
#endif
