/* Loads cuBLASLt, describes products to it, and remembers which algorithms it recommends. */
#include "kernels/cuda/libraries/cublas.h"

#include "kernels/cuda/libraries/cublas_functions.h"
#include "kernels/cuda/libraries/library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES = 4096 };

/* A key: products with equal keys use the same algorithm. No padding, because all bytes are compared. */
typedef struct {
    int64_t m, n, k; /* a number of tokens rounded up */
    int32_t type;
    uint32_t flags;      /* transpose_a, transpose_b, f32 sums, bias, TF32, epilogue */
    uint32_t alignments; /* of c, a, b, bias: log2, a byte each */
    uint32_t hidden_alignment;
} Key;

typedef struct {
    Key key;
    bool possible; /* else the library has no algorithm */
    CublasAlgorithm algorithm;
} Choice;

typedef struct {
    CublasFunctions call;
    CublasHandle *handle; /* NULL: the library is not available */
    void *workspace;
    size_t workspace_bytes;
    char description[LIBRARY_DESCRIPTION];
    int count; /* of choices: a hash table with linear probing, an entry with key.m = 0 is free */
    Choice choices[CHOICES];
} Cublas;

static Cublas *library_of(const Device *device) { return cuda_state(device)->library; }

static void check(const Cublas *cublas, unsigned status, const char *what) {
    if (status != LT_SUCCESS) die("cuBLASLt: %s: %s", what, cublas->call.cublasLtGetStatusString(status));
}

/* ---- opening ---- */

/* The driver cannot run a library of a newer CUDA; INT_MAX if it does not say which it is. */
static int newest_major(void) {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess && version ? version / 1000 : INT_MAX;
}

/* NVIDIA's package of the CUDA that this program was built with, which the driver can run. */
#if CUDART_VERSION >= 13000
#define PACKAGE "nvidia-cublas"
#elif CUDART_VERSION >= 12000
#define PACKAGE "nvidia-cublas-cu12"
#else
#define PACKAGE "nvidia-cublas-cu11"
#endif
#define NAME(result, function, arguments) #function,
static const LibrarySpec SPEC = {
    "TRAINC_CUBLASLT",
    (const char *[]){"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", NULL},
    "cuBLASLt (libcublasLt.so)",
    "our own matrix products",
    "it makes large models up to twice as fast: python3 -m venv ~/.venv && ~/.venv/bin/pip install " PACKAGE,
    newest_major,
    (const char *[]){FOR_EACH_CUBLAS_FUNCTION(NAME) NULL},
};
#undef NAME
#undef PACKAGE

void cublas_open(Device *device, const CublasFunctions *functions) {
    Cublas *cublas = xcalloc(1, sizeof *cublas);
    cuda_state(device)->library = cublas;
    if (functions)
        cublas->call = *functions;
    else if (!library_load(&SPEC, &cublas->call, cublas->description)) {
        library_advise(&SPEC, cublas->description);
        return;
    }
    unsigned status = cublas->call.cublasLtCreate(&cublas->handle);
    if (status != LT_SUCCESS) {
        cublas->handle = NULL;
        snprintf(cublas->description, LIBRARY_DESCRIPTION, "%s: cuBLASLt does not start: %.80s", SPEC.substitute,
                 cublas->call.cublasLtGetStatusString(status));
        return;
    }
    /* At least what NVIDIA recommends: 32 MiB on Hopper and later, 4 MiB before. */
    cublas->workspace_bytes = (size_t)(cuda_state(device)->capability >= 90 ? 32 : 8) << 20;
    cublas->workspace = device->allocate(device, cublas->workspace_bytes);
    char version[LIBRARY_VERSION];
    snprintf(cublas->description, LIBRARY_DESCRIPTION, "cuBLASLt %s%s",
             library_version(cublas->call.cublasLtGetVersion(), version),
             cuda_state(device)->capability >= 90 ? " and its GELU" : "");
}

void cublas_find(char text[LIBRARY_DESCRIPTION]) {
    CublasFunctions call;
    if (library_load(&SPEC, &call, text)) library_describe(call.cublasLtGetVersion(), text);
}

void cublas_close(Device *device) {
    Cublas *cublas = library_of(device);
    if (!cublas) return;
    if (cublas->handle) {
        cublas->call.cublasLtDestroy(cublas->handle);
        device->release(device, cublas->workspace, cublas->workspace_bytes);
    }
    free(cublas);
    cuda_state(device)->library = NULL;
}

bool cublas_is_open(const Device *device) { return library_of(device) && library_of(device)->handle; }

const char *cublas_description(const Device *device) {
    return library_of(device) ? library_of(device)->description : "our own matrix products";
}

/* ---- describing a product ----
 *
 * The library's matrices are column-major: to it, our row-major [rows, columns] is its transpose, [columns, rows]. So
 * it is asked for c^T = op(b)^T op(a)^T: its A is our b, its B is our a, both transposed or not as we have them, and
 * its bias, a number for each row of its result, is ours for each column of c. Our hidden is its "auxiliary buffer",
 * with rows of n numbers. */

typedef struct {
    CublasOperation *operation;
    CublasLayout *a, *b, *c; /* ours */
} Problem;

static bool is_tf32(const Device *device, const Gemm *g) { return g->type == DTYPE_F32 && device->tf32; }

static unsigned data_type(DType type) { return type == DTYPE_BF16 ? LT_BF16 : type == DTYPE_F16 ? LT_F16 : LT_F32; }

/* The library's GELU is the tanh form alone, by a tanh whose error is not documented: 16-bit types round more, f32 does
 * without. The library needs rows of hidden that are multiples of 8 numbers, and has no dropout. Below 9.0 its GELU is
 * slow in bf16 (llm.c's issues 338 and 591). */
static bool knows_epilogue(const Device *device, const Gemm *g) {
    return !g->epilogue || (cuda_state(device)->capability >= 90 && g->gelu == GELU_TANH && g->type != DTYPE_F32 &&
                            g->n % 8 == 0 && !(g->drop.p > 0));
}

static unsigned epilogue_of(const Gemm *g) {
    if (g->epilogue == EPILOGUE_GELU) return g->bias ? LT_EPILOGUE_GELU_BIAS : LT_EPILOGUE_GELU;
    if (g->epilogue == EPILOGUE_SLOPE) return LT_EPILOGUE_SLOPE;
    return g->bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_NONE;
}

static void set(const Cublas *cublas, Problem *p, unsigned attribute, const void *value, size_t bytes) {
    check(cublas, cublas->call.cublasLtMatmulDescSetAttribute(p->operation, attribute, value, bytes), "a product");
}

static CublasLayout *layout_of(const Cublas *cublas, DType type, int64_t rows, int64_t columns) {
    CublasLayout *layout;
    check(cublas,
          cublas->call.cublasLtMatrixLayoutCreate(&layout, data_type(type), (uint64_t)columns, (uint64_t)rows, columns),
          "a matrix");
    return layout;
}

static Problem describe(const Cublas *cublas, const Device *device, const Gemm *g) {
    Problem p;
    int32_t transpose = LT_TRANSPOSED;
    unsigned epilogue = epilogue_of(g);
    unsigned compute = is_tf32(device, g) ? LT_COMPUTE_TF32 : LT_COMPUTE_F32;
    check(cublas, cublas->call.cublasLtMatmulDescCreate(&p.operation, compute, LT_F32), "a product");
    if (g->transpose_b) set(cublas, &p, LT_TRANSPOSE_A, &transpose, sizeof transpose);
    if (g->transpose_a) set(cublas, &p, LT_TRANSPOSE_B, &transpose, sizeof transpose);
    if (epilogue != LT_EPILOGUE_NONE) set(cublas, &p, LT_EPILOGUE, &epilogue, sizeof epilogue);
    if (g->bias) set(cublas, &p, LT_BIAS, &g->bias, sizeof g->bias);
    if (g->epilogue) {
        set(cublas, &p, LT_HIDDEN, &g->hidden, sizeof g->hidden);
        set(cublas, &p, LT_HIDDEN_STRIDE, &g->n, sizeof g->n);
    }
    p.a = g->transpose_a ? layout_of(cublas, g->type, g->k, g->m) : layout_of(cublas, g->type, g->m, g->k);
    p.b = g->transpose_b ? layout_of(cublas, g->type, g->n, g->k) : layout_of(cublas, g->type, g->k, g->n);
    p.c = layout_of(cublas, g->sums ? DTYPE_F32 : g->type, g->m, g->n);
    return p;
}

static void forget(const Cublas *cublas, Problem *p) {
    cublas->call.cublasLtMatrixLayoutDestroy(p->a);
    cublas->call.cublasLtMatrixLayoutDestroy(p->b);
    cublas->call.cublasLtMatrixLayoutDestroy(p->c);
    cublas->call.cublasLtMatmulDescDestroy(p->operation);
}

/* Computes c = op(a) op(b) + bias with the epilogue, or adds to c. */
static unsigned run(const Cublas *cublas, Device *device, const Problem *p, const Gemm *g,
                    const CublasAlgorithm *algorithm) {
    float one = 1, beta = g->sums == SUMS_ADDED ? 1 : 0;
    return cublas->call.cublasLtMatmul(cublas->handle, p->operation, &one, g->b, p->b, g->a, p->a, &beta, g->c, p->c,
                                       g->c, p->c, algorithm, cublas->workspace, cublas->workspace_bytes,
                                       cuda_stream(device));
}

/* ---- choosing an algorithm ----
 *
 * The one that the library recommends, which is the same in every run: timing would choose others, with other bits. On
 * an H100 the fastest of eight saved 0.1 to 1.2 % of a step whose rows are multiples of 8 numbers. */

int64_t cublas_round_tokens(int64_t n) {
    int64_t step = 64;
    while (16 * step <= n) step *= 2;
    return (n + step - 1) / step * step;
}

/* Returns log2 of the alignment of p in bytes, at most 4: no algorithm needs more than 16 bytes. */
static uint32_t alignment_of(const void *p) {
    uint32_t log = 0;
    while (log < 4 && !((uintptr_t)p >> log & 1)) log++;
    return log;
}

static Key key_of(const Device *device, const Gemm *g) {
    return (Key){.m = g->rows_vary ? cublas_round_tokens(g->m) : g->m,
                 .n = g->n,
                 .k = g->depth_varies ? cublas_round_tokens(g->k) : g->k,
                 .type = (int32_t)g->type,
                 .flags = (uint32_t)g->transpose_a | (uint32_t)g->transpose_b << 1 |
                          (uint32_t)(g->sums != SUMS_ROUNDED) << 2 | (uint32_t)(g->bias != NULL) << 3 |
                          (uint32_t)is_tf32(device, g) << 4 | (uint32_t)g->epilogue << 5,
                 .hidden_alignment = alignment_of(g->hidden),
                 .alignments = alignment_of(g->c) | alignment_of(g->a) << 8 | alignment_of(g->b) << 16 |
                               alignment_of(g->bias) << 24};
}

/* Returns the entry of this key, or the free entry for it. Empties the table when it is three quarters full: asked
 * again, the library recommends the same algorithms. */
static Choice *find(Cublas *cublas, const Key *key) {
    if (cublas->count >= CHOICES / 4 * 3) {
        memset(cublas->choices, 0, sizeof cublas->choices);
        cublas->count = 0;
    }
    for (size_t at = hash_bytes(HASH_START, key, sizeof *key) % CHOICES;; at = (at + 1) % CHOICES) {
        Choice *choice = &cublas->choices[at];
        if (!choice->key.m || !memcmp(&choice->key, key, sizeof *key)) return choice;
    }
}

/* Asks the library which algorithm it recommends for a product of the sizes in `g`. Returns false if it has none. Sums
 * are never rounded to 16 bits in between. */
static bool ask(const Cublas *cublas, const Device *device, const Gemm *g, CublasAlgorithm *algorithm) {
    CublasCandidate best;
    CublasPreference *preference;
    const struct {
        unsigned attribute;
        const void *matrix;
    } alignments[] = {{LT_ALIGNMENT_A, g->b}, {LT_ALIGNMENT_B, g->a}, {LT_ALIGNMENT_C, g->c}, {LT_ALIGNMENT_D, g->c}};
    uint64_t workspace = cublas->workspace_bytes;
    uint32_t reductions = LT_REDUCE_IN_COMPUTE_TYPE;
    int count = 0;
    Problem p = describe(cublas, device, g);
    check(cublas, cublas->call.cublasLtMatmulPreferenceCreate(&preference), "preferences");
    check(cublas,
          cublas->call.cublasLtMatmulPreferenceSetAttribute(preference, LT_MAX_WORKSPACE, &workspace, sizeof workspace),
          "preferences");
    check(cublas,
          cublas->call.cublasLtMatmulPreferenceSetAttribute(preference, LT_REDUCTIONS, &reductions, sizeof reductions),
          "preferences");
    for (int i = 0; i < 4; i++) {
        uint32_t bytes = 1u << alignment_of(alignments[i].matrix);
        check(cublas,
              cublas->call.cublasLtMatmulPreferenceSetAttribute(preference, alignments[i].attribute, &bytes,
                                                                sizeof bytes),
              "preferences");
    }
    unsigned status = cublas->call.cublasLtMatmulAlgoGetHeuristic(cublas->handle, p.operation, p.b, p.a, p.c, p.c,
                                                                  preference, 1, &best, &count);
    cublas->call.cublasLtMatmulPreferenceDestroy(preference);
    forget(cublas, &p);
    if (status != LT_SUCCESS || !count || best.status != LT_SUCCESS) return false; /* "not supported" */
    *algorithm = best.algorithm;
    return true;
}

/* Returns what the library recommends for this key, asked at its first product; NULL while a graph is recorded, when
 * the library cannot be asked: the recording is then given up, and the direct call asks. */
static const Choice *recommended(Cublas *cublas, Device *device, const Gemm *g, const Key *key) {
    Choice *choice = find(cublas, key);
    if (choice->key.m) return choice;
    if (is_capturing(device)) {
        cuda_state(device)->unrecordable = true;
        return NULL;
    }
    Gemm sized = *g;
    sized.m = key->m, sized.k = key->k;
    choice->key = *key;
    choice->possible = ask(cublas, device, &sized, &choice->algorithm);
    cublas->count++;
    return choice;
}

/* Returns the algorithm for this product, or NULL if there is none. It is that of the rounded number of tokens, so that
 * the library is seldom asked; if that does not suit this number, the number gets an entry of its own. */
static const CublasAlgorithm *choose(Cublas *cublas, Device *device, const Problem *p, const Gemm *g) {
    CublasCandidate checked;
    Key key = key_of(device, g);
    const Choice *choice = recommended(cublas, device, g, &key);
    if (choice && choice->possible && (key.m != g->m || key.k != g->k)) {
        unsigned status = cublas->call.cublasLtMatmulAlgoCheck(cublas->handle, p->operation, p->b, p->a, p->c, p->c,
                                                               &choice->algorithm, &checked);
        if (status != LT_SUCCESS || checked.workspace > cublas->workspace_bytes) {
            key.m = g->m, key.k = g->k;
            choice = recommended(cublas, device, g, &key);
        }
    }
    return choice && choice->possible ? &choice->algorithm : NULL;
}

/* While memory is measured there is none behind the addresses, of which the library may build descriptors: our own
 * product is measured instead, whose scratch is needed where the library declines. The workspace was taken before. */
bool cublas_multiply(Device *device, const Gemm *g) {
    Cublas *cublas = library_of(device);
    if (!cublas_is_open(device) || cuda_state(device)->measuring || !g->k || !knows_epilogue(device, g)) return false;
    Problem p = describe(cublas, device, g);
    const CublasAlgorithm *algorithm = choose(cublas, device, &p, g);
    if (algorithm) check(cublas, run(cublas, device, &p, g, algorithm), "a product");
    forget(cublas, &p);
    return algorithm != NULL;
}
