/* Matrix products y = op(a) op(b). If a is not transposed, a row of y does not depend on the other rows: an element is
 * the sum of a row of a times a column of b, in the order of k, over DEPTH numbers at a time, whose sums are added up.
 * No number of rows, tile or thread changes this order. So a text or a spectrum gets the same bits in any batch. oneDNN
 * does not promise that, and with AVX2 a GEMM of 7 rows has other sums than one of 12.
 *
 * A product is divided into tiles of its output by its shape alone. A tile copies DEPTH rows of its part of b into
 * panels of PANEL columns, which stay in the L2 cache, and computes ROWS rows of a panel at a time, whose sums stay in
 * registers.
 *
 * Up to FEW rows, as generation has them, are limited by reading b once: they copy nothing. A work item is some columns
 * of the output.
 *
 * A transposed a gives the gradient of a weight, a sum over all rows of the batch. oneDNN's GEMM computes it, one tile
 * a call, with one thread: a sum over k is never divided, and has the same order for any number of threads. */
#pragma once

#if defined __AVX2__
#include <immintrin.h>
#endif

#include "kernels/cpu/simd.h"

enum { TILE_NARROW = 96, TILE_WIDE = 384, TILE_LOW = 192, TILE_TALL = 2048, TILES = 16 };
/* Tiles are multiples of every ROWS and PANEL; ROWS times two vectors are as many sums as the registers hold. */
enum { TILE_ROWS_STEP = 48, TILE_COLUMNS_STEP = 32 };
#if defined __AVX512F__
enum { VECTOR = 16, ROWS = 12 };
#elif defined __AVX2__
enum { VECTOR = 8, ROWS = 6 };
#else
enum { VECTOR = 4, ROWS = 6 };
#endif
enum { PANEL = 2 * VECTOR, DEPTH = 256, FEW = 4, FEW_COLUMNS = 128 };
/* A tile is at most half as wide again as TILE_WIDE. */
enum { PRODUCT_ROOM = DEPTH * (TILE_WIDE + TILE_WIDE / 2) };

/* A product y [m, n] = op(a) op(b), optionally + bias or + y, with the strides of rows. */
typedef struct {
    float *y;
    const float *a, *b, *bias;
    char op_a, op_b;
    bool add;
    int64_t m, n, k, a_row, b_row;
    int64_t height, width; /* of a tile */
} Product;

typedef float Vector __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));

/* Returns numbers of a and b, by their positions in both together. gcc before 12 lacks clang's function. */
#if defined __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int Positions __attribute__((vector_size(4 * VECTOR)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Positions){__VA_ARGS__})
#endif

/* Quarter q of a Vector holds four numbers of row 4 q of `from`. QUARTERS shuffles every quarter alike: positions 0 to
 * 3 are those of a's quarter, 4 to 7 those of b's. */
#define POSITION(i, quarter)   ((i) % 4 + 4 * (quarter) + (i) / 4 * VECTOR)
#define QUARTER(i, j, k, l, q) POSITION(i, q), POSITION(j, q), POSITION(k, q), POSITION(l, q)
#if defined __AVX512F__
#define QUARTERS(a, b, i, j, k, l)                                                                                     \
    SHUFFLE(a, b, QUARTER(i, j, k, l, 0), QUARTER(i, j, k, l, 1), QUARTER(i, j, k, l, 2), QUARTER(i, j, k, l, 3))
static inline Vector load_quarters(const float *from, int64_t row) {
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(from));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(from + 4 * row), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(from + 8 * row), 2);
    return (Vector)_mm512_insertf32x4(v, _mm_loadu_ps(from + 12 * row), 3);
}
#elif defined __AVX2__
#define QUARTERS(a, b, i, j, k, l) SHUFFLE(a, b, QUARTER(i, j, k, l, 0), QUARTER(i, j, k, l, 1))
static inline Vector load_quarters(const float *from, int64_t row) {
    return (Vector)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + 4 * row), 1);
}
#else
#define QUARTERS(a, b, i, j, k, l) SHUFFLE(a, b, QUARTER(i, j, k, l, 0))
static inline Vector load_quarters(const float *from, int64_t row) {
    (void)row;
    return *(const Vector *)from;
}
#endif

/* Transposes four numbers of VECTOR rows. */
static inline __attribute__((always_inline)) void load_transposed(Vector to[4], const float *from, int64_t row) {
    Vector a = load_quarters(from, row), b = load_quarters(from + row, row), c = load_quarters(from + 2 * row, row),
           d = load_quarters(from + 3 * row, row);
    Vector ab = QUARTERS(a, b, 0, 4, 1, 5), cd = QUARTERS(c, d, 0, 4, 1, 5);
    to[0] = QUARTERS(ab, cd, 0, 1, 4, 5), to[1] = QUARTERS(ab, cd, 2, 3, 6, 7);
    ab = QUARTERS(a, b, 2, 6, 3, 7), cd = QUARTERS(c, d, 2, 6, 3, 7);
    to[2] = QUARTERS(ab, cd, 0, 1, 4, 5), to[3] = QUARTERS(ab, cd, 2, 3, 6, 7);
}

/* Transposes from [n, k] to [k, n], some numbers of some rows at a time, so that no part of a cache line is read twice.
 * to_row and from_row are strides of rows. */
static void transpose(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t n, int64_t k) {
    enum { LENGTH = 64 };
    for (int64_t begin = 0; begin < k; begin += LENGTH) {
        int64_t end = k - begin < LENGTH ? k : begin + LENGTH;
        for (int64_t j = 0; j < n; j += VECTOR) {
            const float *rows = from + j * from_row;
            int64_t count = n - j < VECTOR ? n - j : VECTOR, i = begin;
            for (; count == VECTOR && i + 4 <= end; i += 4) {
                Vector four[4];
                load_transposed(four, rows + i, from_row);
                for (int s = 0; s < 4; s++) *(Vector *)(to + (i + s) * to_row + j) = four[s];
            }
            for (; i < end; i++)
                for (int64_t r = 0; r < count; r++) to[i * to_row + j + r] = rows[r * from_row + i];
        }
    }
}

/* Copies rows [k, k + depth) of columns [j, j + n) of op(b) into panels [depth, PANEL], the last of which ends with
 * zeros. */
static void copy_panels(float *to, const Product *p, int64_t k, int64_t depth, int64_t j, int64_t n) {
    for (int64_t end = j + n; j < end; j += PANEL, to += PANEL * depth) {
        int64_t width = end - j < PANEL ? end - j : PANEL;
        if (width < PANEL) memset(to, 0, (size_t)(PANEL * depth) * sizeof *to);
        if (p->op_b == 'T') {
            transpose(to, PANEL, p->b + j * p->b_row + k, p->b_row, width, depth);
            continue;
        }
        const float *from = p->b + k * p->b_row + j;
        for (int64_t i = 0; i < depth; i++, from += p->b_row)
            if (width == PANEL)
                memcpy(to + i * PANEL, from, PANEL * sizeof *to);
            else
                memcpy(to + i * PANEL, from, (size_t)width * sizeof *to);
    }
}

/* y = the product of `rows` rows of a and a panel, or y += it. */
static inline __attribute__((always_inline)) void multiply_panel(float *y, int64_t y_row, const float *a, int64_t a_row,
                                                                 const float *panel, int64_t depth, bool add,
                                                                 const int rows) {
    Vector sums[ROWS][2] = {{{0}}};
    for (int64_t i = 0; i < depth; i++, panel += PANEL) {
        Vector left = *(const Vector *)panel, right = *(const Vector *)(panel + VECTOR);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            sums[r][0] = a[r * a_row + i] * left + sums[r][0];
            sums[r][1] = a[r * a_row + i] * right + sums[r][1];
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        Vector *to = (Vector *)(y + r * y_row);
        to[0] = (add ? to[0] : (Vector){0}) + sums[r][0]; /* 0 + -0 = 0, as where y starts as zeros */
        to[1] = (add ? to[1] : (Vector){0}) + sums[r][1];
    }
}

/* The number of rows is a constant in each case, so that their sums stay in registers. */
typedef void MultiplyPanel(float *y, int64_t y_row, const float *a, int64_t a_row, const float *panel, int64_t depth,
                           bool add);
#define ROWS_CASE(rows)                                                                                                \
    static void multiply_panel_##rows(float *y, int64_t y_row, const float *a, int64_t a_row, const float *panel,      \
                                      int64_t depth, bool add) {                                                       \
        multiply_panel(y, y_row, a, a_row, panel, depth, add, rows);                                                   \
    }
ROWS_CASE(1)
ROWS_CASE(2)
ROWS_CASE(3)
ROWS_CASE(4)
ROWS_CASE(5)
ROWS_CASE(6)
#if defined __AVX512F__
ROWS_CASE(7)
ROWS_CASE(8)
ROWS_CASE(9)
ROWS_CASE(10)
ROWS_CASE(11)
ROWS_CASE(12)
#endif
#undef ROWS_CASE
static MultiplyPanel *const multiply_rows[ROWS + 1] = {
    NULL,
    multiply_panel_1,
    multiply_panel_2,
    multiply_panel_3,
    multiply_panel_4,
    multiply_panel_5,
    multiply_panel_6,
#if defined __AVX512F__
    multiply_panel_7,
    multiply_panel_8,
    multiply_panel_9,
    multiply_panel_10,
    multiply_panel_11,
    multiply_panel_12,
#endif
};

/* Adds the columns that a narrow panel has. */
static void multiply_narrow(float *y, int64_t y_row, const float *a, int64_t a_row, const float *panel, int64_t depth,
                            bool add, int rows, int64_t width) {
    float whole[ROWS][PANEL];
    multiply_rows[rows](whole[0], PANEL, a, a_row, panel, depth, false);
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < width; j++) y[r * y_row + j] = (add ? y[r * y_row + j] : 0) + whole[r][j];
}

/* Computes rows [i, i + m) and columns [j, j + n); room [DEPTH, n rounded up to panels] is scratch for the panels. */
static void independent_rows(const Product *p, int64_t i, int64_t m, int64_t j, int64_t n, float *room) {
    float *y = p->y + i * p->n + j;
    bool add = p->add || p->bias;
    for (int64_t r = 0; p->bias && r < m; r++) memcpy(y + r * p->n, p->bias + j, (size_t)n * sizeof *y);
    for (int64_t k = 0; k < p->k || !k; k += DEPTH, add = true) {
        int64_t depth = p->k - k < DEPTH ? p->k - k : DEPTH;
        copy_panels(room, p, k, depth, j, n);
        for (int64_t r = 0; r < m; r += ROWS) {
            const float *a = p->a + (i + r) * p->a_row + k;
            int rows = m - r < ROWS ? (int)(m - r) : ROWS;
            for (int64_t c = 0; c < n; c += PANEL)
                if (n - c < PANEL)
                    multiply_narrow(y + r * p->n + c, p->n, a, p->a_row, room + c * depth, depth, add, rows, n - c);
                else
                    multiply_rows[rows](y + r * p->n + c, p->n, a, p->a_row, room + c * depth, depth, add);
        }
    }
}

/* Computes the tile whose first element is [i, j]. */
static void product_tile(const Product *p, int64_t i, int64_t j, float *room) {
    int64_t m = p->m - i < p->height ? p->m - i : p->height, n = p->n - j < p->width ? p->n - j : p->width;
    if (p->op_a == 'N')
        independent_rows(p, i, m, j, n, room);
    else
        gemm('T', 'N', m, n, p->k, 1, p->a + i, p->a_row, p->b + j, p->b_row, p->add ? 1.0f : 0.0f, p->y + i * p->n + j,
             p->n);
}

/* y[r, j] = bias[j] + x[r] . w[j] for `rows` rows and some whole vectors of columns from j on; w [n, k]. */
enum { FEW_VECTORS = VECTOR == 4 ? 4 : 2, FEW_DOTS = FEW_VECTORS * VECTOR, FEW_STEP = 16 };
static inline __attribute__((always_inline)) void few_dots(const Product *p, const int rows, int64_t j, int64_t end) {
    Vector totals[FEW][FEW_VECTORS] = {{{0}}};
    (void)end;
    for (int r = 0; p->bias && r < rows; r++) memcpy(totals[r], p->bias + j, sizeof totals[r]);
    for (int64_t begin = 0; begin < p->k; begin += DEPTH) {
        int64_t stop = p->k - begin < DEPTH ? p->k : begin + DEPTH, i = begin;
        Vector sums[FEW][FEW_VECTORS] = {{{0}}};
        for (; i + FEW_STEP <= stop; i += FEW_STEP)
#pragma GCC unroll 4
            for (int v = 0; v < FEW_VECTORS; v++)
#pragma GCC unroll 4
                for (int s = 0; s < FEW_STEP; s += 4) {
                    Vector w[4];
                    load_transposed(w, p->b + (j + v * VECTOR) * p->b_row + i + s, p->b_row);
#pragma GCC unroll 4
                    for (int t = 0; t < 4; t++)
#pragma GCC unroll 4
                        for (int r = 0; r < rows; r++) sums[r][v] = p->a[r * p->a_row + i + s + t] * w[t] + sums[r][v];
                }
        for (; i < stop; i++)
            for (int v = 0; v < FEW_VECTORS; v++) {
                float column[VECTOR];
                for (int l = 0; l < VECTOR; l++) column[l] = p->b[(j + v * VECTOR + l) * p->b_row + i];
                for (int r = 0; r < rows; r++)
                    sums[r][v] = p->a[r * p->a_row + i] * *(const Vector *)column + sums[r][v];
            }
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < FEW_VECTORS; v++) totals[r][v] += sums[r][v];
    }
    for (int r = 0; r < rows; r++) memcpy(p->y + r * p->n + j, totals[r], sizeof totals[r]);
}

/* The same with w [k, n], for columns [begin, end). */
static inline __attribute__((always_inline)) void few_columns(const Product *p, const int rows, int64_t begin,
                                                              int64_t end) {
    for (int r = 0; r < rows; r++)
        for (int64_t j = begin; j < end; j++) p->y[r * p->n + j] = p->bias ? p->bias[j] : 0;
    for (int64_t k = 0; k < p->k; k += DEPTH) {
        int64_t stop = p->k - k < DEPTH ? p->k : k + DEPTH;
        float sums[FEW][FEW_COLUMNS] = {{0}};
        for (int64_t i = k; i < stop; i++) {
            const float *w = p->b + i * p->b_row + begin;
            for (int r = 0; r < rows; r++)
#pragma omp simd
                for (int64_t j = 0; j < end - begin; j++)
                    sums[r][j] = multiply_add(p->a[r * p->a_row + i], w[j], sums[r][j]);
        }
        for (int r = 0; r < rows; r++)
            for (int64_t j = begin; j < end; j++) p->y[r * p->n + j] += sums[r][j - begin];
    }
}

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

static void few_rows_product(Device *device, Product p, float *rooms) {
    static void (*const cases[2][FEW])(const Product *, int64_t, int64_t) = {
        {few_columns_1, few_columns_2, few_columns_3, few_columns_4}, {few_dots_1, few_dots_2, few_dots_3, few_dots_4}};
    int64_t width = p.op_b == 'T' ? FEW_DOTS : FEW_COLUMNS;
#pragma omp parallel for num_threads(device->n_threads) schedule(dynamic)
    for (int64_t begin = 0; begin < p.n; begin += width)
        if (p.op_b == 'T' && p.n - begin < width)
            independent_rows(&p, 0, p.m, begin, p.n - begin, rooms + omp_get_thread_num() * PRODUCT_ROOM);
        else
            cases[p.op_b == 'T'][p.m - 1](&p, begin, begin + width < p.n ? begin + width : p.n);
}

static int64_t whole_steps(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* Computes a product; rooms [threads, PRODUCT_ROOM] is scratch. */
static void product_with(Device *device, Product p, float *rooms) {
    if (!p.m || !p.n) return;
    if (p.op_a == 'N' && p.m <= FEW && !p.add) {
        few_rows_product(device, p, rooms);
        return;
    }
    int64_t wanted = p.n / TILES < TILE_NARROW ? TILE_NARROW : p.n / TILES > TILE_WIDE ? TILE_WIDE : p.n / TILES;
    int64_t columns = p.n < wanted ? 1 : (p.n + wanted / 2) / wanted, rows = 1;
    while (p.m / rows > TILE_TALL || (rows * columns < TILES && p.m / rows >= 2 * TILE_LOW)) rows *= 2;
    p.height = whole_steps((p.m + rows - 1) / rows, TILE_ROWS_STEP);
    p.width = whole_steps((p.n + columns - 1) / columns, TILE_COLUMNS_STEP);
    rows = (p.m + p.height - 1) / p.height, columns = (p.n + p.width - 1) / p.width;
#pragma omp parallel for num_threads(device->n_threads) schedule(dynamic)
    for (int64_t tile = 0; tile < rows * columns; tile++)
        product_tile(&p, tile / columns * p.height, tile % columns * p.width,
                     rooms + omp_get_thread_num() * PRODUCT_ROOM);
}

static void product(Device *device, Product p) {
    product_with(device, p, cpu_scratch(device, (size_t)device->n_threads * PRODUCT_ROOM));
}
