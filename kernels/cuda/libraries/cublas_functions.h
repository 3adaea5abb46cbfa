/* The part of cuBLASLt's binary interface that we use, the same in its versions 11 to 13: its enums are passed as
 * unsigned integers. tests/contracts/cublas.c compares all of it with the headers and libraries of several versions. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

enum {
    LT_SUCCESS = 0, /* statuses */
    LT_ALLOCATION_FAILED = 3,
    LT_EXECUTION_FAILED = 13,
    LT_NOT_SUPPORTED = 15,
    LT_F32 = 0, /* types of numbers */
    LT_F16 = 2,
    LT_BF16 = 14,
    LT_COMPUTE_F32 = 68,
    LT_COMPUTE_TF32 = 77,
    LT_TRANSPOSED = 1,
    LT_TRANSPOSE_A = 3, /* attributes of a product */
    LT_TRANSPOSE_B = 4,
    LT_EPILOGUE = 7,
    LT_BIAS = 8,
    LT_HIDDEN = 11,
    LT_HIDDEN_STRIDE = 12,
    LT_EPILOGUE_NONE = 1, /* values of LT_EPILOGUE */
    LT_EPILOGUE_BIAS = 4,
    LT_EPILOGUE_GELU = 160,
    LT_EPILOGUE_GELU_BIAS = 164,
    LT_EPILOGUE_SLOPE = 192,
    LT_MAX_WORKSPACE = 1, /* preferences */
    LT_REDUCTIONS = 3,
    LT_ALIGNMENT_A = 5,
    LT_ALIGNMENT_B = 6,
    LT_ALIGNMENT_C = 7,
    LT_ALIGNMENT_D = 8,
    LT_REDUCE_IN_COMPUTE_TYPE = 2 /* a value of LT_REDUCTIONS */
};

typedef struct cublasLtContext CublasHandle;
typedef struct CublasOperation CublasOperation;
typedef struct CublasLayout CublasLayout;
typedef struct CublasPreference CublasPreference;

typedef struct {
    uint64_t data[8]; /* the library's own */
} CublasAlgorithm;

typedef struct {
    CublasAlgorithm algorithm;
    size_t workspace;
    unsigned status;
    float waves;
    int reserved[4];
} CublasCandidate;

/* X(result, name, arguments) */
#define FOR_EACH_CUBLAS_FUNCTION(X)                                                                                    \
    X(unsigned, cublasLtCreate, (CublasHandle * *handle))                                                              \
    X(unsigned, cublasLtDestroy, (CublasHandle * handle))                                                              \
    X(size_t, cublasLtGetVersion, (void))                                                                              \
    X(const char *, cublasLtGetStatusString, (unsigned status))                                                        \
    X(unsigned, cublasLtMatmul,                                                                                        \
      (CublasHandle * handle, CublasOperation * operation, const void *alpha, const void *a, CublasLayout *a_layout,   \
       const void *b, CublasLayout *b_layout, const void *beta, const void *c, CublasLayout *c_layout, void *d,        \
       CublasLayout *d_layout, const CublasAlgorithm *algorithm, void *workspace, size_t workspace_bytes,              \
       cudaStream_t stream))                                                                                           \
    X(unsigned, cublasLtMatmulAlgoCheck,                                                                               \
      (CublasHandle * handle, CublasOperation * operation, CublasLayout * a, CublasLayout * b, CublasLayout * c,       \
       CublasLayout * d, const CublasAlgorithm *algorithm, CublasCandidate *result))                                   \
    X(unsigned, cublasLtMatmulAlgoGetHeuristic,                                                                        \
      (CublasHandle * handle, CublasOperation * operation, CublasLayout * a, CublasLayout * b, CublasLayout * c,       \
       CublasLayout * d, CublasPreference * preference, int wanted, CublasCandidate *candidates, int *count))          \
    X(unsigned, cublasLtMatmulDescCreate, (CublasOperation * *operation, unsigned compute, unsigned scale_type))       \
    X(unsigned, cublasLtMatmulDescDestroy, (CublasOperation * operation))                                              \
    X(unsigned, cublasLtMatmulDescSetAttribute,                                                                        \
      (CublasOperation * operation, unsigned attribute, const void *value, size_t bytes))                              \
    X(unsigned, cublasLtMatmulPreferenceCreate, (CublasPreference * *preference))                                      \
    X(unsigned, cublasLtMatmulPreferenceDestroy, (CublasPreference * preference))                                      \
    X(unsigned, cublasLtMatmulPreferenceSetAttribute,                                                                  \
      (CublasPreference * preference, unsigned attribute, const void *value, size_t bytes))                            \
    X(unsigned, cublasLtMatrixLayoutCreate,                                                                            \
      (CublasLayout * *layout, unsigned type, uint64_t rows, uint64_t columns, int64_t stride))                        \
    X(unsigned, cublasLtMatrixLayoutDestroy, (CublasLayout * layout))

#define CUBLAS_FIELD(result, name, arguments) result(*name) arguments;
struct CublasFunctions {
    FOR_EACH_CUBLAS_FUNCTION(CUBLAS_FIELD)
};
#undef CUBLAS_FIELD
