/* Our matrix products in all layouts and types, and the linear layer made of them. */
#include "kernels/cuda/emulate/emulate_control.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/libraries/cublas.h"
#include "tests/cuda/rig.h"
#include "tests/test.h"

/* Absent in a program for a real GPU. */
#pragma weak emulate_counts

/* Half a unit in the last place, relative. */
static double half_unit(DType type) { return type == DTYPE_BF16 ? 0x1p-8 : type == DTYPE_F16 ? 0x1p-11 : 0x1p-24; }

/* Sums of k products of normal numbers, in f32 on both sides, are of size sqrt(k). Each addition may be off by half a
 * unit in the last place, of random sign: four standard deviations on each side. Tensor cores do not round but cut off,
 * always to one side: a unit for as many products as they add at once, which is 4 on the oldest cards. */
static double sum_error(const Rig *rig, DType type, int64_t k) {
    double size = sqrt((double)k) + 1, cuts = (double)k / 4;
    return 0x1p-23 * size * (2 + 4 * size + (type == DTYPE_F32 && !rig->cuda->tf32 ? 0 : cuts));
}

/* Returns the largest error of rounding x to the type, also for subnormal numbers. */
static double rounding_error(DType type, float x) {
    return half_unit(type) * fabs((double)x) * (1 + 0x1p-8) + (type == DTYPE_F16 ? 0x1p-25 : 0);
}

static void expect_within(const char *what, DType type, int64_t at, float got, float want, double limit) {
    double error = fabs((double)got - (double)want);
    if (!(error <= limit))
        fail_msg("%s %s [%lld]: got %.9g, want %.9g, %.3g of what is allowed", what, dtype_name(type), (long long)at,
                 (double)got, (double)want, error / limit);
}

/* p's numbers are such sums, rounded once to its type. */
static void expect_sums(Rig *rig, const char *what, Pair p, DType type, int64_t k) {
    float *got = pair_download(rig, p);
    const float *want = p.cpu.data;
    for (int64_t i = 0; i < tensor_numel(p.cpu); i++)
        expect_within(what, type, i, got[i], want[i], sum_error(rig, type, k) + rounding_error(p.cuda.dtype, want[i]));
    free(got);
}

/* So are p's numbers, the sums and a bias; but the library may round the product before it adds the bias. */
static void expect_biased_sums(Rig *rig, const char *what, Pair p, Pair bias, DType type, int64_t k) {
    float *got = pair_download(rig, p);
    const float *want = p.cpu.data, *added = bias.cpu.data;
    bool library = !strncmp(cublas_description(rig->cuda), "cuBLASLt ", 9);
    int64_t columns = p.cpu.dims[1];
    for (int64_t i = 0; i < tensor_numel(p.cpu); i++) {
        double twice = library && added ? rounding_error(type, fabsf(want[i]) + fabsf(added[i % columns])) : 0;
        expect_within(what, type, i, got[i], want[i], sum_error(rig, type, k) + rounding_error(type, want[i]) + twice);
    }
    free(got);
}

static const uint32_t step_number = 5;
static Dropout dropout_of(float p) { return (Dropout){p, 11, PURPOSE_DROPOUT | 3 << 8, &step_number}; }

/* y is GELU and dropout of the hidden numbers that the device has stored, or of those before they were rounded to 16
 * bits: the library's is. The slope is at most 1.13, and dropout's factor multiplies all errors but the last rounding.
 * Both devices are right to 16 roundings of the argument. */
static void expect_gelu(Rig *rig, const char *what, Pair y, Pair hidden, GeluKind kind, Dropout drop,
                        bool before_rounding) {
    DType type = y.cuda.dtype;
    float *got = pair_download(rig, y), *kept = pair_download(rig, hidden);
    const float *want = y.cpu.data;
    memcpy(hidden.cpu.data, kept, tensor_bytes(hidden.cpu));
    gelu_forward(rig->cpu, y.cpu, hidden.cpu, kind);
    dropout(rig->cpu, y.cpu, y.cpu, drop);
    for (int64_t i = 0; i < tensor_numel(y.cpu); i++)
        expect_within(what, type, i, got[i], want[i],
                      rounding_error(type, want[i]) + (32 * 0x1p-24 * fabs((double)kept[i]) +
                                                       (before_rounding ? 1.13 * rounding_error(type, kept[i]) : 0)) /
                                                          (1 - (double)drop.p));
    free(got);
    free(kept);
}

/* dhidden is a sum of k products, which are in its cpu side, possibly rounded to its type, times GELU's slope and
 * dropout's factor. */
static void expect_slopes(Rig *rig, const char *what, Pair dhidden, Pair hidden, GeluKind kind, Dropout drop,
                          int64_t k) {
    DType type = dhidden.cuda.dtype;
    float *got = pair_download(rig, dhidden), *sums = xmalloc(tensor_bytes(dhidden.cpu) + 1);
    const float *want = dhidden.cpu.data, *x = hidden.cpu.data;
    memcpy(sums, want, tensor_bytes(dhidden.cpu));
    gelu_backward(rig->cpu, dhidden.cpu, dhidden.cpu, hidden.cpu, kind);
    dropout(rig->cpu, dhidden.cpu, dhidden.cpu, drop);
    for (int64_t i = 0; i < tensor_numel(dhidden.cpu); i++)
        expect_within(what, type, i, got[i], want[i],
                      rounding_error(type, want[i]) +
                          (1.13 * (sum_error(rig, type, k) + rounding_error(type, sums[i])) +
                           gelu_slope_error(kind, (double)x[i]) * 0x1p-24 * fabs((double)sums[i])) /
                              (1 - (double)drop.p));
    free(got);
    free(sums);
}

typedef struct {
    int64_t m, n, k;
} Size;

/* One and few, tile sizes and one more, rows that are and are not multiples of 16 bytes, the large tile (aligned, as
 * many tiles as the emulated device has multiprocessors), few tiles with a long k, which is divided, and many rows of
 * tiles. */
static const Size sizes[] = {{1, 1, 1},      {7, 1, 3},      {1, 7, 64},     {64, 64, 64},   {129, 64, 7},
                             {64, 129, 130}, {130, 257, 65}, {200, 264, 40}, {72, 136, 520}, {33, 31, 700},
                             {16, 8, 2048},  {64, 3, 129},   {570, 70, 9}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* c = op(a) op(b) + bias in double, added to what c was if sums are added. */
static void multiply_plainly(float *c, const float *a, const float *b, const float *bias, const Gemm *g) {
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            double sum = g->sums == SUMS_ADDED ? (double)c[i * g->n + j] : bias ? (double)bias[j] : 0;
            for (int64_t l = 0; l < g->k; l++) {
                double x = (double)a[g->transpose_a ? l * g->m + i : i * g->k + l];
                sum += x * (double)b[g->transpose_b ? j * g->k + l : l * g->n + j];
            }
            c[i * g->n + j] = (float)sum;
        }
    }
}

/* Added: twice, and all of that in two places, for the same bits. In TF32 of numbers that it has. */
static void check_product(Rig *rig, DType type, Size size, int layout, GemmSums sums, bool with_bias) {
    bool added = sums == SUMS_ADDED;
    Gemm g = {.m = size.m,
              .n = size.n,
              .k = size.k,
              .type = type,
              .transpose_a = layout & 1,
              .transpose_b = layout & 2,
              .sums = sums};
    Pair a = pair_normal(rig, type, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, 1);
    Pair b = pair_normal(rig, type, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, 1);
    if (rig->cuda->tf32) pair_for_tf32(rig, a), pair_for_tf32(rig, b);
    Pair bias = with_bias && !sums ? pair_normal(rig, type, g.n, 0, 1) : pair_none();
    Pair c = pair_poisoned(rig, sums ? DTYPE_F32 : type, g.m, g.n), again = pair_none();
    if (added) {
        c = pair_normal(rig, DTYPE_F32, g.m, g.n, 1);
        again = pair_poisoned(rig, DTYPE_F32, g.m, g.n);
        memcpy(again.cpu.data, c.cpu.data, tensor_bytes(c.cpu));
        pair_upload(rig, again);
    }
    g.a = a.cuda.data, g.b = b.cuda.data, g.bias = bias.cuda.data;
    for (int time = 0; time < (added ? 2 : 1); time++) {
        g.c = c.cuda.data;
        change_schedule(rig);
        gemm_own(rig->cuda, &g);
        g.c = again.cuda.data;
        change_schedule(rig);
        if (added) gemm_own(rig->cuda, &g);
        multiply_plainly(c.cpu.data, a.cpu.data, b.cpu.data, bias.cpu.data, &g);
    }
    char what[96];
    snprintf(what, sizeof what, "%lld x %lld x %lld, a%s b%s, %s", (long long)g.m, (long long)g.n, (long long)g.k,
             g.transpose_a ? "^T" : "", g.transpose_b ? "^T" : "",
             added       ? "added"
             : sums      ? "written in f32"
             : with_bias ? "with a bias"
                         : "plain");
    expect_sums(rig, what, c, type, added ? 2 * g.k : g.k);
    if (added) expect_same_bits(rig, what, c, again);
    rig_clear(rig);
}

TEST(products_in_every_layout_and_type) {
    Rig rig = rig_open(DTYPE_F32);
    for (int t = 0; t < TYPES; t++)
        for (int s = 0; s < SIZES && rig_has(&rig, types[t]); s++)
            for (int layout = 0; layout < 4; layout++)
                for (int sums = SUMS_ROUNDED; sums <= SUMS_ADDED; sums++)
                    check_product(&rig, types[t], sizes[s], layout, (GemmSums)sums, (s + layout) % 2);
    if (emulate_counts) assert_int_equal(emulate_counts().bank_conflicts, 0);
    rig_close(&rig);
}

/* Requires the bits of the product followed by the elementwise operation, if nothing is rounded in between; compares
 * that with the cpu. */
static void check_epilogue(Rig *rig, DType type, Size size, bool transpose_b, GemmEpilogue epilogue, GeluKind kind,
                           Dropout drop) {
    bool is_gelu = epilogue == EPILOGUE_GELU;
    int64_t m = size.m, n = size.n, k = size.k;
    Pair a = pair_normal(rig, type, m, k, 1), b = pair_normal(rig, type, transpose_b ? n : k, transpose_b ? k : n, 1);
    Pair bias = is_gelu ? pair_normal(rig, type, n, 0, 1) : pair_none(), sums = pair_poisoned(rig, type, m, n);
    Pair hidden = is_gelu ? pair_poisoned(rig, type, m, n) : pair_normal(rig, type, m, n, 1);
    Pair c = pair_poisoned(rig, type, m, n), two = pair_poisoned(rig, type, m, n);
    Gemm g = {.c = sums.cuda.data,
              .a = a.cuda.data,
              .b = b.cuda.data,
              .bias = bias.cuda.data,
              .m = m,
              .n = n,
              .k = k,
              .type = type,
              .transpose_b = transpose_b};
    change_schedule(rig);
    gemm_own(rig->cuda, &g);
    if (is_gelu)
        gelu_forward(rig->cuda, two.cuda, sums.cuda, kind);
    else
        gelu_backward(rig->cuda, two.cuda, sums.cuda, hidden.cuda, kind);
    dropout(rig->cuda, two.cuda, two.cuda, on_cuda(rig, drop));
    g.drop = on_cuda(rig, drop);
    g.c = c.cuda.data, g.epilogue = epilogue, g.gelu = kind, g.hidden = hidden.cuda.data;
    change_schedule(rig);
    gemm_own(rig->cuda, &g);
    char what[96];
    snprintf(what, sizeof what, "%lld x %lld x %lld, b%s, %s of %s GELU", (long long)m, (long long)n, (long long)k,
             transpose_b ? "^T" : "", is_gelu ? "numbers" : "slopes", kind == GELU_TANH ? "tanh" : "erf");
    multiply_plainly(is_gelu ? hidden.cpu.data : c.cpu.data, a.cpu.data, b.cpu.data, bias.cpu.data, &g);
    if (is_gelu) {
        expect_sums(rig, what, hidden, type, k);
        expect_same_bits(rig, what, hidden, sums);
        expect_gelu(rig, what, c, hidden, kind, drop, false);
    } else {
        expect_slopes(rig, what, c, hidden, kind, drop, k);
    }
    if (type == DTYPE_F32 || !(drop.p > 0)) expect_same_bits(rig, what, c, two);
    rig_clear(rig);
}

TEST(epilogues_in_every_layout_and_type) {
    for (int t = 0; t < TYPES; t++) {
        Rig rig = rig_open(types[t]);
        for (int s = 0; s < SIZES && rig_has(&rig, types[t]); s++)
            for (int which = 0; which < (s % 3 ? 4 : 8); which++)
                check_epilogue(&rig, types[t], sizes[s], which & 1, which & 2 ? EPILOGUE_GELU : EPILOGUE_SLOPE,
                               (GeluKind)((s + which / 2) % 2), dropout_of(which & 4 ? 0.3f : 0));
        rig_close(&rig);
    }
}

/* Matrices that begin anywhere: in a buffer of all parameters, say. */
TEST(products_of_matrices_that_are_not_aligned) {
    Rig rig = rig_open(DTYPE_F32);
    for (int t = 0; t < TYPES; t++) {
        if (!rig_has(&rig, types[t])) continue;
        const int64_t m = 72, n = 80, k = 48;
        Pair a = pair_normal(&rig, types[t], m * k + 1, 0, 1), b = pair_normal(&rig, types[t], n * k + 3, 0, 1);
        Pair c = pair_poisoned(&rig, types[t], m * n + 1, 0), want = pair_poisoned(&rig, types[t], m * n, 0);
        size_t size = dtype_size(types[t]);
        Gemm g = {.c = (char *)c.cuda.data + size,
                  .a = (char *)a.cuda.data + size,
                  .b = (char *)b.cuda.data + 3 * size,
                  .m = m,
                  .n = n,
                  .k = k,
                  .type = types[t],
                  .transpose_b = true};
        gemm_own(rig.cuda, &g);
        multiply_plainly(want.cpu.data, (float *)a.cpu.data + 1, (float *)b.cpu.data + 3, NULL, &g);
        want.cuda.data = (char *)c.cuda.data + size;
        expect_sums(&rig, "not aligned", want, types[t], k);
        rig_clear(&rig);
    }
    rig_close(&rig);
}

TEST(a_sum_of_nothing_is_the_bias) {
    Rig rig = rig_open(DTYPE_F32);
    Pair c = pair_poisoned(&rig, DTYPE_F32, 5, 9), bias = pair_normal(&rig, DTYPE_F32, 9, 0, 1);
    Gemm g = {.c = c.cuda.data, .bias = bias.cuda.data, .m = 5, .n = 9, .type = DTYPE_F32};
    gemm_own(rig.cuda, &g);
    multiply_plainly(c.cpu.data, NULL, NULL, bias.cpu.data, &g);
    expect_sums(&rig, "k = 0", c, DTYPE_F32, 0);
    rig_close(&rig);
}

/* Compares the layer on both devices. given: 1 a bias, 2 dx; then dw is overwritten first. Gradients are accumulated
 * twice. */
static void check_layer(Rig *rig, DType type, int64_t n, int64_t in, int64_t out, WeightLayout layout, int given) {
    bool in_out = layout == WEIGHT_IN_OUT;
    Pair x = pair_normal(rig, type, n, in, 1), y = pair_poisoned(rig, type, n, out);
    Pair w = pair_normal(rig, type, in_out ? in : out, in_out ? out : in, 1), dy = pair_normal(rig, type, n, out, 1);
    Pair bias = given & 1 ? pair_normal(rig, type, out, 0, 1) : pair_none();
    Pair dbias = given & 1 ? pair_normal(rig, DTYPE_F32, out, 0, 1) : pair_none();
    Pair dx = given & 2 ? pair_poisoned(rig, type, n, in) : pair_none();
    Pair dw = given & 2 ? pair_poisoned(rig, DTYPE_F32, w.cpu.dims[0], w.cpu.dims[1])
                        : pair_normal(rig, DTYPE_F32, w.cpu.dims[0], w.cpu.dims[1], 1);
    linear_forward(rig->cpu, y.cpu, x.cpu, w.cpu, bias.cpu, layout);
    linear_forward(rig->cuda, y.cuda, x.cuda, w.cuda, bias.cuda, layout);
    for (int time = 0; time < 2; time++) {
        change_schedule(rig);
        bool overwrite = given & 2 && !time;
        linear_backward(rig->cpu, (LayerGradients){dx.cpu, dw.cpu, dbias.cpu, overwrite}, dy.cpu, x.cpu, w.cpu, layout);
        linear_backward(rig->cuda, (LayerGradients){dx.cuda, dw.cuda, dbias.cuda, overwrite}, dy.cuda, x.cuda, w.cuda,
                        layout);
    }
    expect_biased_sums(rig, "y", y, bias, type, in);
    expect_sums(rig, "dw", dw, type, 2 * n);
    if (given & 1) expect_sums(rig, "dbias", dbias, DTYPE_F32, 2 * n);
    if (given & 2) expect_sums(rig, "dx", dx, type, out);
    rig_clear(rig);
}

/* Checks the layers before and after a GELU. */
static void check_gelu_layers(Rig *rig, DType type, int64_t n, int64_t in, int64_t out, WeightLayout layout,
                              GeluKind kind, Dropout drop) {
    bool in_out = layout == WEIGHT_IN_OUT;
    Pair x = pair_normal(rig, type, n, in, 1), w = pair_normal(rig, type, in_out ? in : out, in_out ? out : in, 1);
    Pair bias = kind == GELU_TANH ? pair_normal(rig, type, out, 0, 1) : pair_none();
    Pair y = pair_poisoned(rig, type, n, out), hidden = pair_poisoned(rig, type, n, out);
    linear_forward(rig->cpu, hidden.cpu, x.cpu, w.cpu, bias.cpu, layout);
    linear_gelu_forward(rig->cuda, y.cuda, hidden.cuda, x.cuda, w.cuda, bias.cuda, layout,
                        (GeluDropout){kind, on_cuda(rig, drop)});
    expect_biased_sums(rig, "hidden", hidden, bias, type, in);
    expect_gelu(rig, "gelu y", y, hidden, kind, drop, type != DTYPE_F32);

    Pair before = pair_normal(rig, type, n, in, 1), dy = pair_normal(rig, type, n, out, 1);
    Pair dhidden = pair_poisoned(rig, type, n, in), dw = pair_poisoned(rig, DTYPE_F32, w.cpu.dims[0], w.cpu.dims[1]);
    Pair dbias = kind == GELU_TANH ? pair_normal(rig, DTYPE_F32, out, 0, 1) : pair_none();
    for (int time = 0; time < 2; time++) {
        change_schedule(rig);
        linear_backward(rig->cpu, (LayerGradients){dhidden.cpu, dw.cpu, dbias.cpu, !time}, dy.cpu, x.cpu, w.cpu,
                        layout);
        gelu_linear_backward(rig->cuda, (LayerGradients){dhidden.cuda, dw.cuda, dbias.cuda, !time}, dy.cuda, x.cuda,
                             before.cuda, w.cuda, layout, (GeluDropout){kind, on_cuda(rig, drop)});
    }
    expect_slopes(rig, "dhidden", dhidden, before, kind, drop, out);
    expect_sums(rig, "dw behind GELU", dw, type, 2 * n);
    if (kind == GELU_TANH) expect_sums(rig, "dbias behind GELU", dbias, DTYPE_F32, 2 * n);
    rig_clear(rig);
}

static const Size layers[] = {{1, 1, 1}, {5, 64, 40}, {130, 65, 257}, {257, 48, 24}, {700, 8, 136}, {0, 8, 16}};
enum { LAYERS = sizeof layers / sizeof *layers };

TEST(layers_match_the_cpu) {
    for (int t = 0; t < TYPES; t++) {
        Rig rig = rig_open(types[t]);
        for (int s = 0; s < LAYERS && rig_has(&rig, types[t]); s++)
            for (int given = 0; given < 4; given++)
                for (int layout = 0; layout < 2; layout++) {
                    check_layer(&rig, types[t], layers[s].m, layers[s].k, layers[s].n, (WeightLayout)layout, given);
                    check_gelu_layers(&rig, types[t], layers[s].m, layers[s].k, layers[s].n, (WeightLayout)layout,
                                      (GeluKind)(given % 2), dropout_of(given & 2 ? 0.3f : 0));
                }
        rig_close(&rig);
    }
}

TEST(layers_around_gelu_match_the_cpu) {
    for (int t = 0; t < TYPES; t++) {
        Rig rig = rig_open(types[t]);
        for (int s = 0; s < LAYERS && rig_has(&rig, types[t]); s++)
            for (int kind = 0; kind < 2; kind++)
                for (int layout = 0; layout < 2; layout++)
                    check_gelu_layers(&rig, types[t], layers[s].m, layers[s].k, layers[s].n, (WeightLayout)layout,
                                      (GeluKind)kind, dropout_of(0));
        rig_close(&rig);
    }
}

/* By the tensor cores: their fragments in every layout. */
TEST(products_in_tf32) {
    Rig rig = rig_open(DTYPE_F32);
    rig.cuda->tf32 = cuda_state(rig.cuda)->capability >= 80;
    int64_t before = emulate_counts ? emulate_counts().matrix_products : 0;
    for (int s = 0; s < SIZES; s++)
        for (int layout = 0; layout < 4; layout++)
            check_product(&rig, DTYPE_F32, sizes[s], layout, (s / 2 + layout) % 2, true);
    if (emulate_counts) assert_int_equal(emulate_counts().matrix_products > before, rig.cuda->tf32);
    if (emulate_counts) assert_int_equal(emulate_counts().bank_conflicts, 0);
    rig_close(&rig);
}

/* The library cuts f32 operands to 10 bits behind the point, or rounds them as we do: each product is wrong by at most
 * 2^-9 of its size, and those errors do not add up in a sum of random signs; 4 for how unevenly they fall. */
TEST(layers_in_tf32) {
    Rig rig = rig_open(DTYPE_F32);
    Pair x = pair_normal(&rig, DTYPE_F32, 130, 72, 1), w = pair_normal(&rig, DTYPE_F32, 72, 40, 1);
    Pair y = pair_poisoned(&rig, DTYPE_F32, 130, 40), none = pair_none();
    rig.cuda->tf32 = cuda_state(rig.cuda)->capability >= 80;
    linear_forward(rig.cpu, y.cpu, x.cpu, w.cpu, none.cpu, WEIGHT_IN_OUT);
    linear_forward(rig.cuda, y.cuda, x.cuda, w.cuda, none.cuda, WEIGHT_IN_OUT);
    expect_pair(&rig, "y", y, 4 * 0x1p-9);
    rig_close(&rig);
}

/* Rows enough for two stages; another order of additions would show in the last bits. */
TEST(the_same_bits_every_time) {
    for (int t = 0; t < TYPES; t++) {
        Rig rig = rig_open(types[t]);
        if (rig_has(&rig, types[t])) {
            Pair x = pair_normal(&rig, types[t], 3000, 40, 1), dy = pair_normal(&rig, types[t], 3000, 24, 1);
            Pair w = pair_normal(&rig, types[t], 40, 24, 1);
            Pair dw[2], dbias[2];
            for (int i = 0; i < 2; i++) {
                dw[i] = pair_normal(&rig, DTYPE_F32, 40, 24, 0);
                dbias[i] = pair_normal(&rig, DTYPE_F32, 24, 0, 0);
                change_schedule(&rig);
                linear_backward(rig.cuda, (LayerGradients){.dw = dw[i].cuda, .dbias = dbias[i].cuda}, dy.cuda, x.cuda,
                                w.cuda, WEIGHT_IN_OUT);
            }
            linear_backward(rig.cpu, (LayerGradients){.dw = dw[0].cpu, .dbias = dbias[0].cpu}, dy.cpu, x.cpu, w.cpu,
                            WEIGHT_IN_OUT);
            expect_sums(&rig, "dw", dw[0], types[t], 3000);
            expect_sums(&rig, "dbias", dbias[0], DTYPE_F32, 3000);
            expect_same_bits(&rig, "dw", dw[0], dw[1]);
            expect_same_bits(&rig, "dbias", dbias[0], dbias[1]);
        }
        rig_close(&rig);
    }
}
