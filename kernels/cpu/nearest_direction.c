/* For each row, the row of a table with the largest dot product: LANES rows of the table side by side, each lane with
 * the best and the second of those that it has seen; then the lanes are compared. */
#include "kernels/cpu/simd.h"

enum { LANES = 64 };

typedef struct {
    float best[LANES], second[LANES];
    int32_t ids[LANES];
} Nearest;

/* Sets the result of a row of d numbers. `columns` is the table by columns, [d, k]. */
static void find_nearest(int32_t *id, float *margin, const float *x, const float *columns, int64_t k, int64_t d) {
    Nearest lanes;
    for (int j = 0; j < LANES; j++) lanes.best[j] = lanes.second[j] = -INFINITY, lanes.ids[j] = 0;
    for (int64_t at = 0; at < k; at += LANES) {
        int width = (int)(k - at < LANES ? k - at : LANES);
        float products[LANES] = {0};
        for (int64_t i = 0; i < d; i++)
            for (int j = 0; j < width; j++) products[j] = multiply_add(x[i], columns[i * k + at + j], products[j]);
#pragma omp simd
        for (int j = 0; j < width; j++) {
            bool better = products[j] > lanes.best[j];
            float loser = better ? lanes.best[j] : products[j];
            lanes.second[j] = loser > lanes.second[j] ? loser : lanes.second[j];
            lanes.best[j] = better ? products[j] : lanes.best[j];
            lanes.ids[j] = better ? (int32_t)at + j : lanes.ids[j];
        }
    }
    float best = lanes.best[0], second = lanes.second[0];
    *id = lanes.ids[0];
    for (int j = 1; j < LANES; j++) {
        bool better = lanes.best[j] > best || (lanes.best[j] == best && lanes.ids[j] < *id);
        second = fmaxf(fmaxf(second, lanes.second[j]), fminf(best, lanes.best[j]));
        if (better) best = lanes.best[j], *id = lanes.ids[j];
    }
    if (margin) *margin = best - second;
}

static void cpu_nearest_direction(Device *device, Tensor ids, Tensor margins, Tensor x, Tensor table) {
    int64_t k = table.dims[0], d = table.dims[1];
    float *columns = cpu_scratch(device, (size_t)(k * d));
    for (int64_t row = 0; row < k; row++)
        for (int64_t i = 0; i < d; i++) columns[i * k + row] = ((const float *)table.data)[row * d + i];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < x.dims[0]; row++)
        find_nearest((int32_t *)ids.data + row, margins.data ? (float *)margins.data + row : NULL,
                     (const float *)x.data + row * d, columns, k, d);
}
