/* Linear layers: GEMMs by oneDNN, and the bias. GEMMs dominate a training step: 2 N in out FLOPs forward, twice as many
 * backward.
 *
 * A product is divided into tiles of its output, by its shape alone. Each tile is one GEMM call that computes with one
 * thread: a sum over k is never divided, and has the same order for any number of threads. Tiles are narrow and tall,
 * because copying a part of a transposed B costs more than copying a part of A. oneDNN's GEMM takes up to a third
 * longer if B is transposed and few rows share it, so the tile's part of B is transposed here.
 *
 * Up to FEW rows, as generation has them, a forward is limited by reading the weight once, which a GEMM would copy
 * first: they have loops of their own. A work item is some columns of the output. */
#include "kernels/cpu/simd.h"

enum { TILE_NARROW = 96, TILE_WIDE = 384, TILE_LOW = 192, TILE_TALL = 2048, TILES = 16 };

/* A product y [m, n] = op(a) op(b), optionally + bias or + y, with the strides of rows. */
typedef struct {
    float *y;
    const float *a, *b, *bias;
    char op_a, op_b;
    bool add;
    int64_t m, n, k, a_row, b_row;
    int64_t height, width; /* of a tile */
} Product;

typedef float Four __attribute__((vector_size(16), aligned(4)));

/* Returns four numbers of a and b, by their positions in both together. gcc before 12 lacks clang's function. */
#if defined __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int Positions __attribute__((vector_size(16)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Positions){__VA_ARGS__})
#endif

/* Transposes four numbers of four rows. to_row and from_row are strides of rows. */
static inline void transpose_four(float *to, int64_t to_row, const float *from, int64_t from_row) {
    Four a = *(const Four *)from, b = *(const Four *)(from + from_row), c = *(const Four *)(from + 2 * from_row),
         d = *(const Four *)(from + 3 * from_row);
    Four ab = SHUFFLE(a, b, 0, 4, 1, 5), cd = SHUFFLE(c, d, 0, 4, 1, 5);
    *(Four *)to = SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(Four *)(to + to_row) = SHUFFLE(ab, cd, 2, 3, 6, 7);
    ab = SHUFFLE(a, b, 2, 6, 3, 7), cd = SHUFFLE(c, d, 2, 6, 3, 7);
    *(Four *)(to + 2 * to_row) = SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(Four *)(to + 3 * to_row) = SHUFFLE(ab, cd, 2, 3, 6, 7);
}

/* Transposes from [n, k] to [k, n], four by four, so that no part of a cache line is read twice. */
static void transpose(float *to, const float *from, int64_t from_row, int64_t n, int64_t k) {
    enum { SIDE = 4, LENGTH = 64 };
    for (int64_t begin = 0; begin < k; begin += LENGTH) {
        int64_t end = k - begin < LENGTH ? k : begin + LENGTH;
        for (int64_t j = 0; j < n; j += SIDE) {
            const float *rows = from + j * from_row;
            int64_t count = n - j < SIDE ? n - j : SIDE, i = begin;
            for (; count == SIDE && i + SIDE <= end; i += SIDE) transpose_four(to + i * n + j, n, rows + i, from_row);
            for (; i < end; i++)
                for (int64_t r = 0; r < count; r++) to[i * n + j + r] = rows[r * from_row + i];
        }
    }
}

/* Computes the tile whose first element is [i, j]; room [k, width] is scratch for the transpose of b. */
static void product_tile(const Product *p, int64_t i, int64_t j, float *room) {
    int64_t m = p->m - i < p->height ? p->m - i : p->height, n = p->n - j < p->width ? p->n - j : p->width;
    const float *a = p->a + i * (p->op_a == 'N' ? p->a_row : 1), *b = p->b + j * (p->op_b == 'N' ? 1 : p->b_row);
    float *y = p->y + i * p->n + j;
    if (p->op_b == 'T') transpose(room, b, p->b_row, n, p->k);
    for (int64_t r = 0; p->bias && r < m; r++) memcpy(y + r * p->n, p->bias + j, (size_t)n * sizeof *y);
    gemm(p->op_a, 'N', m, n, p->k, 1, a, p->a_row, p->op_b == 'T' ? room : b, p->op_b == 'T' ? n : p->b_row,
         p->add || p->bias ? 1.0f : 0.0f, y, p->n);
}

static void product(Device *device, Product p) {
    if (!p.m || !p.n) return;
    int64_t wanted = p.n / TILES < TILE_NARROW ? TILE_NARROW : p.n / TILES > TILE_WIDE ? TILE_WIDE : p.n / TILES;
    int64_t columns = p.n < wanted ? 1 : (p.n + wanted / 2) / wanted, rows = 1;
    while (p.m / rows > TILE_TALL || (rows * columns < TILES && p.m / rows >= 2 * TILE_LOW)) rows *= 2;
    p.height = whole_lines((p.m + rows - 1) / rows), p.width = whole_lines((p.n + columns - 1) / columns);
    rows = (p.m + p.height - 1) / p.height, columns = (p.n + p.width - 1) / p.width;
    int64_t room = p.op_b == 'T' ? p.k * p.width : 0;
    float *rooms = cpu_scratch(device, (size_t)(device->n_threads * room));
#pragma omp parallel for num_threads(device->n_threads) schedule(dynamic)
    for (int64_t tile = 0; tile < rows * columns; tile++)
        product_tile(&p, tile / columns * p.height, tile % columns * p.width, rooms + omp_get_thread_num() * room);
}

enum { FEW = 4, LANES = 16, FEW_DOTS = 32, FEW_COLUMNS = 128 };

/* y[r, j] = bias[j] + x[r] . w[j] for `rows` rows, w [n, k]. */
static inline __attribute__((always_inline)) void few_dots(const Product *p, const int rows, int64_t begin,
                                                           int64_t end) {
    for (int64_t j = begin; j < end; j++) {
        const float *w = p->b + j * p->b_row;
        float sums[FEW][LANES] = {{0}};
        int64_t i = 0;
        for (; i + LANES <= p->k; i += LANES)
            for (int r = 0; r < rows; r++)
#pragma omp simd
                for (int l = 0; l < LANES; l++)
                    sums[r][l] = multiply_add(p->a[r * p->a_row + i + l], w[i + l], sums[r][l]);
        for (int r = 0; r < rows; r++) {
            float sum = 0;
            for (int l = 0; l < LANES; l++) sum += sums[r][l];
            for (int64_t t = i; t < p->k; t++) sum = multiply_add(p->a[r * p->a_row + t], w[t], sum);
            p->y[r * p->n + j] = sum + (p->bias ? p->bias[j] : 0);
        }
    }
}

/* The same with w [k, n]. */
static inline __attribute__((always_inline)) void few_columns(const Product *p, const int rows, int64_t begin,
                                                              int64_t end) {
    float sums[FEW][FEW_COLUMNS] = {{0}};
    for (int64_t i = 0; i < p->k; i++) {
        const float *w = p->b + i * p->b_row + begin;
        for (int r = 0; r < rows; r++)
#pragma omp simd
            for (int64_t j = 0; j < end - begin; j++)
                sums[r][j] = multiply_add(p->a[r * p->a_row + i], w[j], sums[r][j]);
    }
    for (int r = 0; r < rows; r++)
        for (int64_t j = begin; j < end; j++) p->y[r * p->n + j] = sums[r][j - begin] + (p->bias ? p->bias[j] : 0);
}

/* The number of rows is a constant in each case, so that their sums stay in registers. */
#define FEW_CASE(name, rows)                                                                                           \
    static void name##_##rows(const Product *p, int64_t begin, int64_t end) { name(p, rows, begin, end); }
FEW_CASE(few_dots, 1)
FEW_CASE(few_dots, 2)
FEW_CASE(few_dots, 3)
FEW_CASE(few_dots, 4)
FEW_CASE(few_columns, 1)
FEW_CASE(few_columns, 2)
FEW_CASE(few_columns, 3)
FEW_CASE(few_columns, 4)
#undef FEW_CASE

static void few_rows_item(const Product *p, int64_t begin, int64_t end) {
    static void (*const cases[2][FEW])(const Product *, int64_t, int64_t) = {
        {few_columns_1, few_columns_2, few_columns_3, few_columns_4}, {few_dots_1, few_dots_2, few_dots_3, few_dots_4}};
    cases[p->op_b == 'T'][p->m - 1](p, begin, end);
}

static void few_rows_product(Device *device, Product p) {
    int64_t width = p.op_b == 'T' ? FEW_DOTS : FEW_COLUMNS;
#pragma omp parallel for num_threads(device->n_threads) schedule(dynamic)
    for (int64_t begin = 0; begin < p.n; begin += width)
        few_rows_item(&p, begin, begin + width < p.n ? begin + width : p.n);
}

static void cpu_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    bool transposed = layout == WEIGHT_OUT_IN;
    int64_t in = x.dims[1], out = y.dims[1];
    Product p = {.y = y.data,
                 .a = x.data,
                 .b = w.data,
                 .bias = bias.data,
                 .op_a = 'N',
                 .op_b = transposed ? 'T' : 'N',
                 .m = x.dims[0],
                 .n = out,
                 .k = in,
                 .a_row = in,
                 .b_row = transposed ? in : out};
    (p.m && p.m <= FEW ? few_rows_product : product)(device, p);
}

static void cpu_linear_backward(Device *device, LayerGradients to, Tensor dy, Tensor x, Tensor w, WeightLayout layout) {
    int64_t n = x.dims[0], in = x.dims[1], out = dy.dims[1];
    bool transposed = layout == WEIGHT_IN_OUT;
    if (to.dx.data)
        product(device, (Product){.y = to.dx.data,
                                  .a = dy.data,
                                  .b = w.data,
                                  .op_a = 'N',
                                  .op_b = transposed ? 'T' : 'N',
                                  .m = n,
                                  .n = in,
                                  .k = out,
                                  .a_row = out,
                                  .b_row = transposed ? out : in});
    Product of_weights = {.y = to.dw.data,
                          .a = dy.data,
                          .b = x.data,
                          .op_a = 'T',
                          .op_b = 'N',
                          .add = true,
                          .m = out,
                          .n = in,
                          .k = n,
                          .a_row = out,
                          .b_row = in};
    if (layout == WEIGHT_IN_OUT)
        of_weights.a = x.data, of_weights.b = dy.data, of_weights.m = of_weights.a_row = in,
        of_weights.n = of_weights.b_row = out;
    product(device, of_weights);
    if (!to.dbias.data) return;
    int64_t blocks = (out + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t at = block * COLUMNS, width = out - at < COLUMNS ? out - at : COLUMNS;
        float sums[COLUMNS] = {0};
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < width; j++) sums[j] += ((const float *)dy.data)[i * out + at + j];
        for (int64_t j = 0; j < width; j++) ((float *)to.dbias.data)[at + j] += sums[j];
    }
}

/* The GEMM has no epilogue, so GELU and dropout are one loop after it. */
static void cpu_linear_gelu_forward(Device *device, Tensor y, Tensor hidden, Tensor x, Tensor w, Tensor bias,
                                    WeightLayout layout, GeluDropout activation) {
    cpu_linear_forward(device, hidden, x, w, bias, layout);
    gelu_then_dropout(device, y, hidden, activation.kind, activation.drop);
}

static void cpu_gelu_linear_backward(Device *device, LayerGradients to, Tensor dy, Tensor x, Tensor hidden, Tensor w,
                                     WeightLayout layout, GeluDropout activation) {
    cpu_linear_backward(device, to, dy, x, w, layout);
    gelu_then_dropout_backward(device, to.dx, to.dx, hidden, activation.kind, activation.drop);
}
