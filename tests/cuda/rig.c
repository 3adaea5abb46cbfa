#include "tests/cuda/rig.h"

float through_type(DType type, float x) {
    if (type == DTYPE_F16) return (float)(Half)x;
    if (type != DTYPE_BF16) return x;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (!isnan(x)) bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u; /* to the nearest, ties to even */
    memcpy(&x, &bits, 4);
    return x;
}

double rounding_of(DType type) { return type == DTYPE_BF16 ? 0x1p-9 : type == DTYPE_F16 ? 0x1p-12 : 0x1p-25; }

double gelu_slope_error(GeluKind kind, double x) {
    double two_u = 1.59576912 * (x + 0.044715 * x * x * x), slope = 1.59576912 * (1 + 3 * 0.044715 * x * x);
    return 32 + (kind == GELU_TANH ? 6 * fabs(x) * slope / (1 + exp(-two_u)) : 0);
}

void assert_no_reports(void) {
    if (emulate_reports && emulate_reports()) fail_msg("the checker of the emulator has reported an error");
}

void poison_scratch(Rig *rig) {
    CudaState *state = cuda_state(rig->cuda);
    for (int i = 0; i < state->n_scratches; i++)
        cuda_check(cudaMemsetAsync(state->scratches[i].memory, 0xFF, state->scratches[i].bytes, state->stream),
                   "poisoning");
}

void change_schedule(Rig *rig) {
    static uint64_t seed;
    if (emulate_set_seed) emulate_set_seed(++seed % 8);
    poison_scratch(rig);
}

Rig rig_open(DType half) {
    Rig rig = {.cpu = cpu_device_open(2), .cuda = cuda_device_open(0)};
    if (!emulate_set_seed && strstr(cuda_built_for(), "emulated")) die("the emulator is linked without its schedules");
    rig.cuda->tf32 = false;
    if (half != DTYPE_F32) rig.cuda->half = half;
    rig.step = rig.cuda->allocate(rig.cuda, sizeof *rig.step);
    change_schedule(&rig);
    return rig;
}

/* Records for test_operations.c which operations ran on the cuda device with these tensors, and in which type. */
static void rig_note(Rig *rig) {
    static bool noted[OP_COUNT][DTYPE_COUNT];
    const char *build = getenv("BUILD");
    char path[4096];
    FILE *file = NULL;
    for (int i = 0; build && rig->count && i < OP_COUNT; i++) {
        if (!(rig->cuda->counters[i].bytes > 0) || noted[i][rig->type]) continue;
        snprintf(path, sizeof path, "%s/operations.log", build);
        if (!file && !(file = fopen(path, "a"))) die("%s: cannot write", path);
        fprintf(file, "%s %s\n", op_names[i], dtype_name(rig->type));
        noted[i][rig->type] = true;
    }
    if (file) fclose(file);
    device_reset_counters(rig->cuda);
    rig->type = DTYPE_F32;
}

bool rig_has(const Rig *rig, DType type) {
    int built = 0, capability = cuda_state(rig->cuda)->capability;
    for (int t = 0; t < TYPES; t++) built += types[t] == type;
    if (type == DTYPE_F16 && emulate_count_kernels) return built && capability < 80; /* PTX is built by card, cuda.h */
    return built && (type != DTYPE_BF16 || capability >= 80);
}

DType rig_half(const Rig *rig) { return rig_has(rig, DTYPE_BF16) ? DTYPE_BF16 : DTYPE_F16; }

void rig_clear(Rig *rig) {
    rig_note(rig);
    for (int i = 0; i < rig->count; i++) {
        free(rig->tensors[i].host);
        rig->cuda->release(rig->cuda, rig->tensors[i].device, rig->tensors[i].bytes);
    }
    rig->count = 0;
}

void rig_close(Rig *rig) {
    rig_clear(rig);
    rig->cuda->release(rig->cuda, rig->step, sizeof *rig->step);
    device_close(rig->cpu);
    device_close(rig->cuda);
}

Tensor rig_shaped(void *data, DType type, int64_t rows, int64_t columns) {
    return columns ? tensor_2d(data, type, rows, columns) : tensor_1d(data, type, rows);
}

void pair_upload(Rig *rig, Pair p) {
    int64_t n = tensor_numel(p.cuda);
    size_t bytes = tensor_bytes(p.cuda);
    char *stored = xmalloc(bytes + 1);
    float *from = p.cpu.data;
    if (p.cpu.dtype != DTYPE_F32) memcpy(stored, p.cpu.data, bytes);
    for (int64_t i = 0; p.cpu.dtype == DTYPE_F32 && i < n; i++) {
        from[i] = through_type(p.cuda.dtype, from[i]);
        uint32_t bits;
        Half half = (Half)from[i];
        memcpy(&bits, &from[i], 4);
        if (p.cuda.dtype == DTYPE_F32) memcpy(stored + 4 * i, &bits, 4);
        if (p.cuda.dtype == DTYPE_BF16) memcpy(stored + 2 * i, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
        if (p.cuda.dtype == DTYPE_F16) memcpy(stored + 2 * i, &half, 2);
    }
    rig->cuda->upload(rig->cuda, p.cuda.data, stored, bytes);
    rig->cuda->synchronize(rig->cuda);
    free(stored);
}

float *pair_download(Rig *rig, Pair p) {
    int64_t n = tensor_numel(p.cuda);
    char *stored = xmalloc(tensor_bytes(p.cuda) + 1);
    float *out = xmalloc((size_t)(n + 1) * sizeof *out);
    assert_no_reports();
    rig->cuda->download(rig->cuda, stored, p.cuda.data, tensor_bytes(p.cuda));
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        Half half;
        if (p.cuda.dtype == DTYPE_F32) memcpy(&out[i], stored + 4 * i, 4);
        if (p.cuda.dtype == DTYPE_BF16) memcpy((char *)&bits + 2, stored + 2 * i, 2), memcpy(&out[i], &bits, 4);
        if (p.cuda.dtype == DTYPE_F16) memcpy(&half, stored + 2 * i, 2), out[i] = (float)half;
    }
    free(stored);
    return out;
}

Pair pair_poisoned(Rig *rig, DType type, int64_t rows, int64_t columns) {
    int64_t n = rows * (columns ? columns : 1);
    size_t bytes = (size_t)n * dtype_size(type);
    assert_true(rig->count < RIG_MAX_TENSORS);
    float *host = xmalloc((size_t)(n + 1) * sizeof *host);
    void *device = rig->cuda->allocate(rig->cuda, bytes);
    if (dtype_size(type) == 2) rig->type = type;
    for (int64_t i = 0; i < n; i++) host[i] = NAN;
    rig->tensors[rig->count].host = host;
    rig->tensors[rig->count].device = device;
    rig->tensors[rig->count++].bytes = bytes;
    Pair p = {rig_shaped(host, DTYPE_F32, rows, columns), rig_shaped(device, type, rows, columns)};
    pair_upload(rig, p);
    return p;
}

Pair pair_normal(Rig *rig, DType type, int64_t rows, int64_t columns, float scale) {
    Pair p = pair_poisoned(rig, type, rows, columns);
    rig->draws++;
    for (int64_t i = 0; i < tensor_numel(p.cpu); i++)
        ((float *)p.cpu.data)[i] = scale * philox_normal(rig->draws, PURPOSE_TEST, 0, (uint64_t)i);
    pair_upload(rig, p);
    return p;
}

Pair pair_for_tf32(Rig *rig, Pair p) {
    float *x = p.cpu.data;
    for (int64_t i = 0; i < tensor_numel(p.cpu); i++) x[i] = rintf(128 * x[i]) / 128;
    pair_upload(rig, p);
    return p;
}

Pair pair_integers(Rig *rig, const int32_t *values, int64_t n) {
    Pair p = pair_poisoned(rig, DTYPE_F32, n, 0);
    p.cpu.dtype = p.cuda.dtype = DTYPE_I32;
    if (n) memcpy(p.cpu.data, values, (size_t)n * sizeof *values);
    pair_upload(rig, p);
    return p;
}

Pair pair_below(Rig *rig, int64_t n, int32_t below) {
    int32_t *values = xmalloc((size_t)(n + 1) * sizeof *values);
    rig->draws++;
    for (int64_t i = 0; i < n; i++)
        values[i] = (int32_t)(philox_bits(rig->draws, PURPOSE_TEST, 1, (uint64_t)i) % (uint32_t)below);
    Pair p = pair_integers(rig, values, n);
    free(values);
    return p;
}

Dropout on_cuda(Rig *rig, Dropout drop) {
    if (rig->held != *drop.step) { /* nothing is uploaded while a graph is captured */
        rig->held = *drop.step;
        rig->cuda->upload(rig->cuda, rig->step, &rig->held, sizeof rig->held);
        rig->cuda->synchronize(rig->cuda);
    }
    drop.step = rig->step;
    return drop;
}

Pair pair_none(void) { return (Pair){tensor_none(), tensor_none()}; }

double root_mean_square(const float *values, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)values[i] * (double)values[i];
    return n ? sqrt(squares / (double)n) : 0;
}

void expect_pair_least(Rig *rig, const char *what, Pair p, double tolerance, double least) {
    float *got = pair_download(rig, p);
    const float *want = p.cpu.data;
    int64_t columns = p.cpu.rank == 2 ? p.cpu.dims[1] : tensor_numel(p.cpu),
            rows = columns ? tensor_numel(p.cpu) / columns : 0;
    for (int64_t r = 0; r < rows; r++) {
        double typical = fmax(least, root_mean_square(want + r * columns, columns));
        for (int64_t c = 0; c < columns; c++) {
            double g = (double)got[r * columns + c], w = (double)want[r * columns + c];
            if (!(fabs(g - w) <= tolerance * (fabs(w) + typical)) && !(g == w))
                fail_msg("%s %s [%lld, %lld]: got %.9g, want %.9g, %.3g of the tolerance %.3g", what,
                         dtype_name(p.cuda.dtype), (long long)r, (long long)c, g, w,
                         fabs(g - w) / (tolerance * (fabs(w) + typical)), tolerance);
        }
    }
    free(got);
}

void expect_pair(Rig *rig, const char *what, Pair p, double tolerance) {
    expect_pair_least(rig, what, p, tolerance, 0);
}

void expect_same_bits(Rig *rig, const char *what, Pair a, Pair b) {
    float *x = pair_download(rig, a), *y = pair_download(rig, b);
    if (memcmp(x, y, (size_t)tensor_numel(a.cuda) * sizeof *x)) fail_msg("%s: not the same bits", what);
    free(x);
    free(y);
}
