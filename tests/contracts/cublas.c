/* The assumptions of cublas.c and cublas_functions.h about cuBLASLt, against its real header and its real library. The
 * library makes the descriptions of products and reads them back; it cannot start without a GPU, so that this test
 * takes the place of what needs one. */
#include <cublasLt.h>

#include "tests/contracts/contract.h"
#include "tests/test.h"

#include "kernels/cuda/libraries/cublas.h"
#include "kernels/cuda/libraries/cublas_functions.h"

/* ---- the header ---- */

SAME_VALUE(LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME_VALUE(LT_ALLOCATION_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME_VALUE(LT_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
SAME_VALUE(LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_VALUE(LT_F32, CUDA_R_32F);
SAME_VALUE(LT_F16, CUDA_R_16F);
SAME_VALUE(LT_BF16, CUDA_R_16BF);
SAME_VALUE(LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME_VALUE(LT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME_VALUE(LT_TRANSPOSED, CUBLAS_OP_T);
SAME_VALUE(LT_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_VALUE(LT_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_VALUE(LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_VALUE(LT_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_VALUE(LT_HIDDEN, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME_VALUE(LT_HIDDEN_STRIDE, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME_VALUE(LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
SAME_VALUE(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME_VALUE(LT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_AUX);
SAME_VALUE(LT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
SAME_VALUE(LT_EPILOGUE_SLOPE, CUBLASLT_EPILOGUE_DGELU);
SAME_VALUE(LT_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_VALUE(LT_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_VALUE(LT_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_VALUE(LT_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_VALUE(LT_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_VALUE(LT_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME_VALUE(LT_REDUCE_IN_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

_Static_assert(sizeof(CublasAlgorithm) == sizeof(cublasLtMatmulAlgo_t), "its bytes are copied");
_Static_assert(sizeof(CublasCandidate) == sizeof(cublasLtMatmulHeuristicResult_t), "the library fills an array");
SAME_PLACE(CublasCandidate, algorithm, cublasLtMatmulHeuristicResult_t, algo);
SAME_PLACE(CublasCandidate, workspace, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_PLACE(CublasCandidate, status, cublasLtMatmulHeuristicResult_t, state);
SAME_PLACE(CublasCandidate, waves, cublasLtMatmulHeuristicResult_t, wavesCount);
SAME_PLACE(CublasCandidate, reserved, cublasLtMatmulHeuristicResult_t, reserved);

#define CublasOperation  cublasLtMatmulDescOpaque_t
#define CublasLayout     cublasLtMatrixLayoutOpaque_t
#define CublasPreference cublasLtMatmulPreferenceOpaque_t
#define CublasAlgorithm  cublasLtMatmulAlgo_t
#define CublasCandidate  cublasLtMatmulHeuristicResult_t
FOR_EACH_CUBLAS_FUNCTION(SAME_PROTOTYPE)
#undef CublasOperation
#undef CublasLayout
#undef CublasPreference
#undef CublasAlgorithm
#undef CublasCandidate

/* ---- the library ---- */

#define MAJOR_VERSION TEXT(CUBLAS_VER_MAJOR)
static const char file[] = "libcublasLt.so." MAJOR_VERSION;
static const char version[] = MAJOR_VERSION "." TEXT(CUBLAS_VER_MINOR) "." TEXT(CUBLAS_VER_PATCH);

static CublasFunctions call;
static __typeof__(cublasLtMatmulDescGetAttribute) *get_operation;
static __typeof__(cublasLtMatrixLayoutGetAttribute) *get_layout;
static __typeof__(cublasLtMatmulPreferenceGetAttribute) *get_preference;

static int load_functions(void **state) {
    void *library = load_real(file);
    (void)state;
#define LOAD(result, name, arguments)                                                                                  \
    *(void **)&call.name = dlsym(library, #name);                                                                      \
    assert_non_null(call.name);
    FOR_EACH_CUBLAS_FUNCTION(LOAD)
#undef LOAD
    *(void **)&get_operation = dlsym(library, "cublasLtMatmulDescGetAttribute");
    *(void **)&get_layout = dlsym(library, "cublasLtMatrixLayoutGetAttribute");
    *(void **)&get_preference = dlsym(library, "cublasLtMatmulPreferenceGetAttribute");
    return get_operation && get_layout && get_preference ? 0 : -1;
}

TEST(the_library_is_found_with_all_functions) { assert_found(cublas_find, "TRAINC_CUBLASLT", file, version); }

TEST(a_library_that_does_not_start_is_reported) {
    Device *device = cuda_device_open(0);
    CublasHandle *handle = NULL;
    unsigned status = call.cublasLtCreate(&handle);
    char *wanted = status == LT_SUCCESS ? xformat("cuBLASLt %s", version)
                                        : xformat("our own matrix products: cuBLASLt does not start: %s",
                                                  call.cublasLtGetStatusString(status));
    cublas_open(device, NULL);
    assert_string_equal(cublas_description(device), wanted);
    if (status == LT_SUCCESS) call.cublasLtDestroy(handle);
    cublas_close(device);
    free(wanted);
    device_close(device);
}

/* ---- what the library reads in our descriptions ---- */

static const Gemm *product; /* the one that is described */
static const Device *opened;
static int asked;

static unsigned create(CublasHandle **handle) {
    *handle = (CublasHandle *)(void *)&asked;
    return LT_SUCCESS;
}

static unsigned destroy(CublasHandle *handle) {
    (void)handle;
    return LT_SUCCESS;
}

/* Returns an attribute as the library has it; for pointers and integers of 4 or 8 bytes, which are not negative. */
static uint64_t operation_of(const CublasOperation *operation, cublasLtMatmulDescAttributes_t attribute, size_t bytes) {
    uint64_t value = 0;
    size_t written = 0;
    assert_int_equal(get_operation((cublasLtMatmulDesc_t)(uintptr_t)operation, attribute, &value, bytes, &written), 0);
    assert_int_equal(written, bytes);
    return value;
}

static uint64_t layout_of(const CublasLayout *layout, cublasLtMatrixLayoutAttribute_t attribute, size_t bytes) {
    uint64_t value = 0;
    size_t written = 0;
    assert_int_equal(get_layout((cublasLtMatrixLayout_t)(uintptr_t)layout, attribute, &value, bytes, &written), 0);
    assert_int_equal(written, bytes);
    return value;
}

static uint64_t preference_of(const CublasPreference *preference, cublasLtMatmulPreferenceAttributes_t attribute,
                              size_t bytes) {
    uint64_t value = 0;
    size_t written = 0;
    assert_int_equal(
        get_preference((cublasLtMatmulPreference_t)(uintptr_t)preference, attribute, &value, bytes, &written), 0);
    assert_int_equal(written, bytes);
    return value;
}

/* Requires a dense column-major matrix, one of them, that is op() of [rows, columns]. */
static void assert_matrix(const CublasLayout *layout, bool transposed, cudaDataType type, int64_t rows,
                          int64_t columns) {
    int64_t height = transposed ? columns : rows, width = transposed ? rows : columns;
    assert_int_equal(layout_of(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, 4), type);
    assert_int_equal(layout_of(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, 4), CUBLASLT_ORDER_COL);
    assert_int_equal(layout_of(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, 8), height);
    assert_int_equal(layout_of(layout, CUBLASLT_MATRIX_LAYOUT_COLS, 8), width);
    assert_int_equal(layout_of(layout, CUBLASLT_MATRIX_LAYOUT_LD, 8), height);
    assert_int_equal(layout_of(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4), 1);
}

/* Requires the description of product: c^T = op(b)^T op(a)^T, because a row-major matrix is the library's transpose. */
static unsigned read_back(CublasHandle *handle, CublasOperation *operation, CublasLayout *a, CublasLayout *b,
                          CublasLayout *c, CublasLayout *d, CublasPreference *preference, int wanted,
                          CublasCandidate candidates[], int *count) {
    const Gemm *g = product;
    cudaDataType type = g->type == DTYPE_F32 ? CUDA_R_32F : g->type == DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
    bool tf32 = g->type == DTYPE_F32 && opened->tf32;
    uint64_t first = operation_of(operation, CUBLASLT_MATMUL_DESC_TRANSA, 4);
    uint64_t second = operation_of(operation, CUBLASLT_MATMUL_DESC_TRANSB, 4);
    unsigned epilogue = g->epilogue == EPILOGUE_GELU
                            ? g->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX
                        : g->epilogue == EPILOGUE_SLOPE ? CUBLASLT_EPILOGUE_DGELU
                        : g->bias                       ? CUBLASLT_EPILOGUE_BIAS
                                                        : CUBLASLT_EPILOGUE_DEFAULT;
    assert_ptr_equal(handle, &asked);
    assert_ptr_equal(c, d);
    assert_true(wanted > 0 && candidates);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4),
                     tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4), CUDA_R_32F);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_POINTER_MODE, 4), CUBLASLT_POINTER_MODE_HOST);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_TRANSC, 4), CUBLAS_OP_N);
    assert_int_equal(first, g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    assert_int_equal(second, g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, 4), epilogue);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8), (uintptr_t)g->bias);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8), (uintptr_t)g->hidden);
    assert_int_equal(operation_of(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8), g->epilogue ? g->n : 0);
#if CUBLAS_VER_MAJOR > 11 /* of the type of d, unless they are set */
    assert_int_equal((int32_t)operation_of(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4), -1);
    assert_int_equal((int32_t)operation_of(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 4), -1);
#endif
    assert_matrix(a, first == CUBLAS_OP_T, type, g->n, g->k);
    assert_matrix(b, second == CUBLAS_OP_T, type, g->k, g->m);
    assert_matrix(c, false, g->sums ? CUDA_R_32F : type, g->n, g->m);
    assert_true(preference_of(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8) >= 4 << 20);
    assert_int_equal(preference_of(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4),
                     CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    assert_int_equal(preference_of(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4), 8);
    assert_int_equal(preference_of(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4), 4);
    assert_int_equal(preference_of(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4), 16);
    assert_int_equal(preference_of(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4), 16);
    asked++;
    *count = 0;
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

TEST(the_library_reads_each_product_as_we_mean_it) {
    static char memory[64] __attribute__((aligned(64)));
    CublasFunctions functions = call;
    setenv("EMULATE_CAPABILITY", "90", 1); /* where its GELU is used */
    Device *device = cuda_device_open(0);
    int described = 0;
    opened = device;
    asked = 0;
    functions.cublasLtCreate = create;
    functions.cublasLtDestroy = destroy;
    functions.cublasLtMatmulAlgoGetHeuristic = read_back;
    cublas_open(device, &functions);
    assert_contains(cublas_description(device), version);
    for (int i = 0; i < 3 * 2 * 2 * 2 * 2 * 2 * 3; i++) {
        Gemm g = {.c = memory + 16,
                  .a = memory + 4,
                  .b = memory + 8,
                  .m = 104 + i, /* no product is as one before it */
                  .n = 64,
                  .k = 48,
                  .gelu = GELU_TANH,
                  .type = (DType)(i % 3),
                  .transpose_a = i / 3 % 2,
                  .transpose_b = i / 6 % 2,
                  .sums = i / 12 % 2 ? SUMS_ADDED : SUMS_ROUNDED,
                  .bias = i / 24 % 2 ? memory + 32 : NULL,
                  .epilogue = (GemmEpilogue)(i / 96)};
        device->tf32 = i / 48 % 2;
        if (g.epilogue) g.hidden = memory + 48;
        bool possible = !(g.sums && (g.bias || g.epilogue)) && !(g.transpose_a && g.epilogue);
        if (!possible || (g.epilogue && g.type == DTYPE_F32)) continue;
        product = &g;
        assert_false(cublas_multiply(device, &g));
        assert_int_equal(asked, ++described);
    }
    assert_int_equal(described, 2 * (3 * 12 + 2 * 8)); /* with TF32 and without: all types, and GELU in two */
    cublas_close(device);
    device_close(device);
}

int main(void) { return tests_run(load_functions, NULL); }
