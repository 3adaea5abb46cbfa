/* Loads cuDNN, describes convolutions to it, and chooses between its algorithms and our kernels by timing them:
 * the candidates. */
#include "kernels/cuda/libraries/cudnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv3d/conv3d_own.h"
#include "kernels/cuda/libraries/cudnn_functions.h"
#include "kernels/cuda/libraries/library.h"

enum { CHOICES = 1024, MAX_ALGORITHMS = 2, TIMED_RUNS = 3, ALIGNMENT = 256, PRODUCT_NAME = 160 };

/* Bytes. Algorithms that need more convert whole tensors, and are slow. */
static const size_t MAX_WORKSPACE = (size_t)256 << 20;
/* The largest accepted difference of two results' checksums, relative to the norm: correct results differ by a tenth of
 * this in bf16, wrong ones by about the whole norm. */
static const double NEARLY_THE_SAME = 0.02;
/* A candidate replaces the best one before it only if it takes less than this part of that one's time. */
static const float CLEARLY_FASTER = 0.95f;

/* Products with equal keys are computed in the same way. Keys are compared as bytes: no padding, whole words. */
typedef struct {
    int64_t samples, in, out;
    Convolution c;
    int32_t pass, type, add, tf32;
} Key;

typedef struct {
    int algorithm; /* or OURS */
    size_t workspace;
} Candidate;
enum { OURS = -1 };

typedef struct {
    Key key;
    Candidate candidate;
} Choice;

typedef struct {
    CudnnFunctions call;
    CudnnContext *handle; /* NULL: the library is not available */
    char description[LIBRARY_DESCRIPTION];
    int count;
    Choice choices[CHOICES];
} Cudnn;

static Cudnn *library_of(const Device *device) { return cuda_state(device)->convolutions; }

/* ---- opening ---- */

/* NVIDIA's package for the CUDA that this program was built with. */
#if CUDART_VERSION >= 13000
#define PACKAGE "nvidia-cudnn-cu13"
#elif CUDART_VERSION >= 12000
#define PACKAGE "nvidia-cudnn-cu12"
#else
#define PACKAGE "nvidia-cudnn-cu11"
#endif
#define NAME(result, function, arguments) #function,
/* The file is the part of cuDNN for convolutions, which loads the other parts that it needs. The whole library,
 * libcudnn.so, would end the program if a part were missing. */
static const LibrarySpec SPEC = {
    "TRAINC_CUDNN",
    (const char *[]){"libcudnn_cnn.so.9", "libcudnn_cnn_train.so.8", NULL},
    "cuDNN (libcudnn_cnn.so.9)",
    "our own convolutions",
    "it makes train_cv faster: python3 -m venv ~/.venv && ~/.venv/bin/pip install " PACKAGE,
    NULL,
    (const char *[]){FOR_EACH_CUDNN_FUNCTION(NAME) NULL},
};
#undef NAME
#undef PACKAGE

void cudnn_open(Device *device, const CudnnFunctions *functions) {
    Cudnn *cudnn = xcalloc(1, sizeof *cudnn);
    cuda_state(device)->convolutions = cudnn;
    if (functions)
        cudnn->call = *functions;
    else if (!library_load(&SPEC, &cudnn->call, cudnn->description)) {
        library_advise(&SPEC, cudnn->description);
        return;
    }
    unsigned status = cudnn->call.cudnnCreate(&cudnn->handle);
    if (status == CONV_SUCCESS) {
        status = cudnn->call.cudnnSetStream(cudnn->handle, cuda_stream(device));
        if (status != CONV_SUCCESS) cudnn->call.cudnnDestroy(cudnn->handle);
    }
    if (status != CONV_SUCCESS) {
        cudnn->handle = NULL;
        snprintf(cudnn->description, LIBRARY_DESCRIPTION, "%s: cuDNN does not start: %.80s", SPEC.substitute,
                 cudnn->call.cudnnGetErrorString(status));
        return;
    }
    char version[LIBRARY_VERSION];
    snprintf(cudnn->description, LIBRARY_DESCRIPTION, "cuDNN %s",
             library_version(cudnn->call.cudnnGetVersion(), version));
}

void cudnn_find(char text[LIBRARY_DESCRIPTION]) {
    CudnnFunctions call;
    if (library_load(&SPEC, &call, text)) library_describe(call.cudnnGetVersion(), text);
}

void cudnn_close(Device *device) {
    Cudnn *cudnn = library_of(device);
    if (cudnn && cudnn->handle) cudnn->call.cudnnDestroy(cudnn->handle);
    free(cudnn);
    cuda_state(device)->convolutions = NULL;
}

const char *cudnn_description(const Device *device) {
    return library_of(device) ? library_of(device)->description : "our own convolutions";
}

/* ---- describing a convolution ---- */

typedef struct {
    CudnnTensor *x, *y;
    CudnnFilter *w;
    CudnnConvolution *convolution;
} Problem;

/* Returns whether cuDNN can compute the product: its tensor cores read 16 bytes at once, and its dimensions are ints.
 * Products with a bias are left to our kernels. */
static bool is_suitable(const ConvProduct *p) {
    uintptr_t ends = (uintptr_t)p->x.data | (uintptr_t)p->y.data;
    return !p->bias.data && ends % 16 == 0 && tensor_numel(p->x) > 0 && tensor_numel(p->x) <= INT32_MAX &&
           tensor_numel(p->y) <= INT32_MAX && tensor_numel(p->w) <= INT32_MAX;
}

/* Returns cuDNN's type of arithmetic: tensor cores for 16-bit numbers; for f32, TF32 on tensor cores if the device may
 * use TF32, otherwise plain FMAs. Sums are f32. */
static unsigned math_of(const Device *device, DType type) {
    return type != DTYPE_F32 ? CONV_TENSOR_OP_MATH : device->tf32 ? CONV_DEFAULT_MATH : CONV_FMA_MATH;
}

/* Describes the product to cuDNN, which lists the channels second wherever they lie in memory. Returns the first status
 * that is not a success; some descriptors may then be NULL. */
static unsigned describe(const Cudnn *cudnn, const Device *device, const ConvProduct *p, Problem *made) {
    const CudnnFunctions *call = &cudnn->call;
    const Convolution *c = &p->c;
    DType t = p->y.dtype;
    unsigned type = t == DTYPE_BF16 ? CONV_BFLOAT16 : t == DTYPE_F16 ? CONV_HALF : CONV_FLOAT, status;
    int samples = (int)conv3d_samples(p), in = (int)p->x.dims[1], out = (int)p->y.dims[1], dilation[3] = {1, 1, 1};
    int x[5] = {samples, in, c->in[0], c->in[1], c->in[2]}, w[5] = {out, in, c->taps[0], c->taps[1], c->taps[2]};
    int y[5] = {samples, out, convolution_positions(*c, 0), convolution_positions(*c, 1), convolution_positions(*c, 2)};
    *made = (Problem){0};
    if ((status = call->cudnnCreateTensorDescriptor(&made->x))) return status;
    if ((status = call->cudnnCreateTensorDescriptor(&made->y))) return status;
    if ((status = call->cudnnCreateFilterDescriptor(&made->w))) return status;
    if ((status = call->cudnnCreateConvolutionDescriptor(&made->convolution))) return status;
    if ((status = call->cudnnSetTensorNdDescriptorEx(made->x, CONV_CHANNELS_INNERMOST, type, 5, x))) return status;
    if ((status = call->cudnnSetTensorNdDescriptorEx(made->y, CONV_CHANNELS_INNERMOST, type, 5, y))) return status;
    if ((status = call->cudnnSetFilterNdDescriptor(made->w, type, CONV_CHANNELS_INNERMOST, 5, w))) return status;
    if ((status = call->cudnnSetConvolutionNdDescriptor(made->convolution, 3, c->padding, c->stride, dilation,
                                                        CONV_CROSS_CORRELATION, CONV_FLOAT)))
        return status;
    return call->cudnnSetConvolutionMathType(made->convolution, math_of(device, t));
}

static void forget(const Cudnn *cudnn, Problem *made) {
    if (made->x) cudnn->call.cudnnDestroyTensorDescriptor(made->x);
    if (made->y) cudnn->call.cudnnDestroyTensorDescriptor(made->y);
    if (made->w) cudnn->call.cudnnDestroyFilterDescriptor(made->w);
    if (made->convolution) cudnn->call.cudnnDestroyConvolutionDescriptor(made->convolution);
}

/* "the data's gradient in bf16, 64 x 128 x 21 x 21, 32 to 64 channels, 3 x 3 x 3 taps, stride 1 x 2 x 2" */
static const char *name_of(const ConvProduct *p, char text[PRODUCT_NAME]) {
    const char *const passes[] = {"forward", "the data's gradient", "the weights' gradient"};
    Convolution c = p->c;
    snprintf(text, PRODUCT_NAME,
             "%s in %s, %lld x %d x %d x %d, %lld to %lld channels, %d x %d x %d taps, stride %d x %d x %d",
             passes[p->pass], dtype_name(p->y.dtype), (long long)conv3d_samples(p), c.in[0], c.in[1], c.in[2],
             (long long)p->x.dims[1], (long long)p->y.dims[1], c.taps[0], c.taps[1], c.taps[2], c.stride[0],
             c.stride[1], c.stride[2]);
    return text;
}

/* ---- the library's algorithms ---- */

/* Returns the bytes in scratch of the copy of the weights with the channels innermost. The workspace lies after it. */
static size_t weight_bytes(const ConvProduct *p) {
    size_t bytes = (size_t)tensor_numel(p->w) * dtype_size(p->y.dtype);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t scratch_of(const ConvProduct *p, Candidate candidate) { return weight_bytes(p) + candidate.workspace; }

/* Returns whether scratch memory of this size was planned. For fewer samples than planned for, cuDNN can want more. */
static bool is_planned(const Device *device, size_t bytes) {
    const CudaState *state = cuda_state(device);
    return state->measuring || !state->reserved ||
           bytes + state->kept <= state->scratches[state->n_scratches - 1].bytes;
}

/* Lists cuDNN's algorithms for this product that support channels innermost in three dimensions, add in a fixed order
 * and need no more memory than was planned; others use Fourier transforms, Winograd's method or atomics. Returns their
 * number. */
static int ask(const Cudnn *cudnn, const Device *device, const Problem *m, const ConvProduct *p,
               Candidate candidates[MAX_ALGORITHMS]) {
    static const int algorithms[3][MAX_ALGORITHMS] = {
        [CONV_FORWARD] = {CONV_FORWARD_PRECOMPUTED_GEMM, CONV_FORWARD_GEMM},
        [CONV_DATA] = {CONV_DATA_1, OURS},
        [CONV_WEIGHTS] = {CONV_WEIGHTS_1, OURS}};
    const CudnnFunctions *call = &cudnn->call;
    ConvPass pass = p->pass;
    int count = 0;
    for (int i = 0; i < MAX_ALGORITHMS && algorithms[pass][i] != OURS; i++) {
        Candidate candidate = {algorithms[pass][i], 0};
        unsigned algorithm = (unsigned)candidate.algorithm, status = CONV_SUCCESS;
        if (pass == CONV_FORWARD)
            status = call->cudnnGetConvolutionForwardWorkspaceSize(cudnn->handle, m->x, m->w, m->convolution, m->y,
                                                                   algorithm, &candidate.workspace);
        if (pass == CONV_DATA)
            status = call->cudnnGetConvolutionBackwardDataWorkspaceSize(cudnn->handle, m->w, m->y, m->convolution, m->x,
                                                                        algorithm, &candidate.workspace);
        if (pass == CONV_WEIGHTS)
            status = call->cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnn->handle, m->x, m->y, m->convolution,
                                                                          m->w, algorithm, &candidate.workspace);
        if (status == CONV_SUCCESS && candidate.workspace <= MAX_WORKSPACE &&
            is_planned(device, scratch_of(p, candidate)))
            candidates[count++] = candidate;
    }
    return count;
}

/* Computes the product with cuDNN. Returns its status; unless that is a success, nothing was computed. */
static unsigned run(const Cudnn *cudnn, Device *device, const Problem *m, const ConvProduct *p, Candidate candidate) {
    const CudnnFunctions *call = &cudnn->call;
    char *weights = cuda_scratch(device, scratch_of(p, candidate)), *workspace = weights + weight_bytes(p);
    unsigned algorithm = (unsigned)candidate.algorithm, status;
    float one = 1, beta = p->add ? 1 : 0;
    if (p->pass != CONV_WEIGHTS) conv3d_order_weights(device, weights, p);
    if (p->pass == CONV_FORWARD)
        return call->cudnnConvolutionForward(cudnn->handle, &one, m->x, p->x.data, m->w, weights, m->convolution,
                                             algorithm, workspace, candidate.workspace, &beta, m->y, p->y.data);
    if (p->pass == CONV_DATA)
        return call->cudnnConvolutionBackwardData(cudnn->handle, &one, m->w, weights, m->y, p->y.data, m->convolution,
                                                  algorithm, workspace, candidate.workspace, &beta, m->x, p->x.data);
    status = call->cudnnConvolutionBackwardFilter(cudnn->handle, &one, m->x, p->x.data, m->y, p->y.data, m->convolution,
                                                  algorithm, workspace, candidate.workspace, &beta, m->w, weights);
    if (status == CONV_SUCCESS) conv3d_add_weights(device, p, weights);
    return status;
}

/* Computes the product with this candidate. Returns false, after a warning, if cuDNN failed. */
static bool compute_with(const Cudnn *cudnn, Device *device, const Problem *m, const ConvProduct *p,
                         Candidate candidate) {
    char name[PRODUCT_NAME];
    if (candidate.algorithm == OURS) {
        conv3d_own(device, p);
        return true;
    }
    unsigned status = run(cudnn, device, m, p, candidate);
    if (status == CONV_SUCCESS) return true;
    warn("cuDNN's algorithm %d fails, and is not used again for %s: %s", candidate.algorithm, name_of(p, name),
         cudnn->call.cudnnGetErrorString(status));
    return false;
}

/* ---- choosing ---- */

/* One run of a candidate. */
typedef struct {
    const Cudnn *cudnn;
    const Problem *m;
    const ConvProduct *p;
    Candidate candidate;
} Trial;

static bool compute_trial(Device *device, const void *argument) {
    const Trial *t = argument;
    return compute_with(t->cudnn, device, t->m, t->p, t->candidate);
}

/* Returns whether the candidate runs and computes what ours, the first one, computes; sets *sums to the checksum. */
static bool is_usable(const Cudnn *cudnn, Device *device, const Problem *m, const ConvProduct *p, Candidate candidate,
                      const ConvChecksum *ours, ConvChecksum *sums) {
    char name[PRODUCT_NAME];
    if (!compute_with(cudnn, device, m, p, candidate)) return false;
    *sums = conv3d_checksum(device, p);
    if (!isfinite(ours->norm) || fabs(sums->sum - ours->sum) <= NEARLY_THE_SAME * ours->norm) return true;
    warn("cuDNN's algorithm %d is not used: its result is not ours for %s", candidate.algorithm, name_of(p, name));
    return false;
}

/* Returns the fastest candidate; candidates[0] is ours. `to`: temporary result of a product that is added to a tensor;
 * cleared before each candidate's first run. The fastest of several runs counts, and the candidates take turns: a clock
 * that rises from idle rises for all of them. */
static Candidate fastest(const Cudnn *cudnn, Device *device, const Problem *m, ConvProduct *p, Tensor *to,
                         const Candidate *candidates, int count) {
    char name[PRODUCT_NAME];
    ConvChecksum sums[MAX_ALGORITHMS + 1] = {{0, 0}};
    float times[MAX_ALGORITHMS + 1], theirs = INFINITY;
    bool usable[MAX_ALGORITHMS + 1];
    int best = 0;
    for (int i = 0; i < count; i++) {
        if (to) cuda_check(cudaMemsetAsync(to->data, 0, tensor_bytes(*to), cuda_stream(device)), "clearing memory");
        usable[i] = is_usable(cudnn, device, m, p, candidates[i], &sums[0], &sums[i]);
        times[i] = INFINITY;
    }
    for (int turn = 0; turn < TIMED_RUNS; turn++)
        for (int i = 0; i < count; i++) {
            const Trial trial = {cudnn, m, p, candidates[i]};
            float time = usable[i] ? cuda_milliseconds(device, compute_trial, &trial) : INFINITY;
            usable[i] = isfinite(time);
            if (time < times[i] || !usable[i]) times[i] = time;
        }
    for (int i = 1; i < count; i++) {
        if (times[i] < theirs) theirs = times[i];
        if (times[i] < CLEARLY_FASTER * times[best]) best = i;
    }
    if (isfinite(theirs))
        fprintf(stderr, "cuDNN benchmark: %s: %s; ours takes %.3f ms, cuDNN's %.3f ms\n", name_of(p, name),
                best ? "cuDNN" : "ours", (double)times[0], (double)theirs);
    return candidates[best];
}

/* Returns the fastest candidate for this product, timed on its own tensors. A product that is added to a tensor is
 * timed with a temporary result; if there is no memory for it, returns our kernel. */
static Candidate choose(const Cudnn *cudnn, Device *device, const Problem *m, const ConvProduct *given) {
    Candidate candidates[1 + MAX_ALGORITHMS] = {{OURS, 0}};
    int count = 1 + ask(cudnn, device, m, given, candidates + 1);
    ConvProduct p = *given;
    Tensor *to = p.pass == CONV_WEIGHTS ? &p.w : p.add ? &p.x : NULL;
    if (count == 1) return candidates[0];
    if (to && cudaMalloc(&to->data, tensor_bytes(*to)) != cudaSuccess) {
        (void)cudaGetLastError();
        return candidates[0];
    }
    Candidate candidate = fastest(cudnn, device, m, &p, to, candidates, count);
    if (to) cuda_check(cudaFree(to->data), "freeing memory");
    return candidate;
}

static Key key_of(const Device *device, const ConvProduct *p) {
    return (Key){conv3d_samples(p), p->x.dims[1],        p->y.dims[1],    p->c,
                 (int32_t)p->pass,  (int32_t)p->y.dtype, (int32_t)p->add, (int32_t)device->tf32};
}

/* Returns the choice for this product, and makes it at the product's first use. Returns NULL if it cannot be made: the
 * list is full or a graph is being recorded. */
static Choice *find(Cudnn *cudnn, Device *device, const Problem *m, const ConvProduct *p) {
    Key key = key_of(device, p);
    for (int i = 0; i < cudnn->count; i++)
        if (!memcmp(&cudnn->choices[i].key, &key, sizeof key)) return &cudnn->choices[i];
    if (cudnn->count == CHOICES) return NULL;
    if (is_capturing(device)) {
        cuda_state(device)->unrecordable = true;
        return NULL;
    }
    Choice *made = &cudnn->choices[cudnn->count++];
    *made = (Choice){key, choose(cudnn, device, m, p)};
    return made;
}

/* ---- the autotune cache ---- */

enum { KEY_WORDS = sizeof(Key) / 4, LINE = 12 * (KEY_WORDS + 3) };

/* Returns the library's name and version, then one line per choice: the key's words, the algorithm, its workspace. */
char *cudnn_autotune_cache(const Device *device) {
    const Cudnn *cudnn = library_of(device);
    if (!cudnn || !cudnn->handle || !cudnn->count) return NULL;
    size_t size = LIBRARY_DESCRIPTION + (size_t)cudnn->count * LINE;
    char *text = xmalloc(size), *at = text + snprintf(text, size, "%s\n", cudnn->description);
    for (int i = 0; i < cudnn->count; i++) {
        const Choice *c = &cudnn->choices[i];
        int32_t words[KEY_WORDS];
        memcpy(words, &c->key, sizeof words);
        for (int k = 0; k < KEY_WORDS; k++) at += sprintf(at, "%d ", words[k]);
        at += sprintf(at, "%d %zu\n", c->candidate.algorithm, c->candidate.workspace);
    }
    return text;
}

/* Reads one line into *choice. Returns the start of the next line, or NULL if this one is malformed. */
static const char *read_choice(const char *text, Choice *choice) {
    int32_t words[KEY_WORDS] = {0};
    int used = 0;
    for (int k = 0; k < KEY_WORDS; k++, text += used)
        if (sscanf(text, "%d%n", &words[k], &used) != 1) return NULL;
    memcpy(&choice->key, words, sizeof words);
    if (sscanf(text, "%d %zu%n", &choice->candidate.algorithm, &choice->candidate.workspace, &used) != 2) return NULL;
    if (choice->candidate.workspace > MAX_WORKSPACE) return NULL; /* a sum with it could overflow */
    return text[used] == '\n' ? text + used + 1 : NULL;
}

bool cudnn_load_autotune_cache(Device *device, const char *text, Error *error) {
    Cudnn *cudnn = library_of(device);
    const char *at = library_choices(text, cudnn_description(device), error);
    if (at && (!cudnn || !cudnn->handle)) return error_set(error, "there is no cuDNN here");
    while (at && *at) {
        Choice choice;
        bool known = false;
        at = read_choice(at, &choice);
        if (!at) return error_set(error, "a line is no choice of this program's");
        for (int i = 0; i < cudnn->count; i++) known |= !memcmp(&cudnn->choices[i].key, &choice.key, sizeof choice.key);
        if (!known && cudnn->count < CHOICES) cudnn->choices[cudnn->count++] = choice;
    }
    return at != NULL;
}

/* ---- the product ---- */

/* Measures the scratch that cuDNN's algorithms need, without computing anything. */
static void measure(const Cudnn *cudnn, Device *device, const Problem *m, const ConvProduct *p) {
    Candidate candidates[MAX_ALGORITHMS];
    int count = ask(cudnn, device, m, p, candidates);
    for (int i = 0; i < count; i++) cuda_scratch(device, scratch_of(p, candidates[i]));
}

bool cudnn_convolve(Device *device, const ConvProduct *p) {
    Cudnn *cudnn = library_of(device);
    Choice *choice = NULL;
    Problem problem;
    bool done = false;
    if (!cudnn || !cudnn->handle || !is_suitable(p)) return false;
    bool described = describe(cudnn, device, p, &problem) == CONV_SUCCESS;
    if (described && cuda_state(device)->measuring)
        measure(cudnn, device, &problem, p);
    else if (described)
        choice = find(cudnn, device, &problem, p);
    if (choice && choice->candidate.algorithm != OURS) {
        done = compute_with(cudnn, device, &problem, p, choice->candidate);
        if (!done) choice->candidate.algorithm = OURS;
    }
    forget(cudnn, &problem);
    return done;
}
