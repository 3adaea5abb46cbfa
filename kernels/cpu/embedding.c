/* Embedding: the forward gathers rows. The backward adds rows in their order, each thread to its own columns, so the
 * gradients of a repeated token are always summed in the same order. */
#include "kernels/cpu/simd.h"

static void cpu_embedding_forward(Device *device, Tensor x, Tensor rows, Tensor ids, Tensor table, Tensor positions,
                                  Tensor position_table) {
    check_indices("embedding_forward", "rows", rows, -1, x.dims[0]);
    check_indices("embedding_forward", "ids", ids, 0, table.dims[0]);
    check_indices("embedding_forward", "positions", positions, 0, position_table.dims[0]);
    const int32_t *row = rows.data, *id = ids.data, *position = positions.data;
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < ids.dims[0]; i++) {
        if (row && row[i] < 0) continue;
        float *to = (float *)x.data + (row ? row[i] : i) * c;
        const float *token = (const float *)table.data + id[i] * c;
        if (!position) {
            memcpy(to, token, (size_t)c * sizeof(float));
            continue;
        }
        const float *place = (const float *)position_table.data + position[i] * c;
        for (int64_t j = 0; j < c; j++) to[j] = token[j] + place[j];
    }
}

static void cpu_place_rows(Device *device, Tensor x, Tensor y, Tensor rows, Tensor positions, Tensor table) {
    check_indices("place_rows", "rows", rows, -1, x.dims[0]);
    check_indices("place_rows", "positions", positions, 0, table.dims[0]);
    const int32_t *row = rows.data, *position = positions.data;
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < y.dims[0]; i++) {
        if (row[i] < 0) continue;
        float *to = (float *)x.data + row[i] * c;
        const float *from = (const float *)y.data + i * c, *place = (const float *)table.data + position[i] * c;
        for (int64_t j = 0; j < c; j++) to[j] = from[j] + place[j];
    }
}

static void cpu_embedding_backward(Device *device, Tensor dtable, Tensor dposition_table, Tensor dx, Tensor rows,
                                   Tensor ids, Tensor positions) {
    check_indices("embedding_backward", "rows", rows, -1, dx.dims[0]);
    check_indices("embedding_backward", "ids", ids, 0, dtable.dims[0]);
    check_indices("embedding_backward", "positions", positions, 0, dposition_table.dims[0]);
    const int32_t *row = rows.data, *id = ids.data, *position = positions.data;
    int64_t c = dx.dims[1], blocks = (c + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t at = block * COLUMNS, width = c - at < COLUMNS ? c - at : COLUMNS;
        for (int64_t i = 0; i < ids.dims[0]; i++) {
            if (row && row[i] < 0) continue;
            const float *from = (const float *)dx.data + (row ? row[i] : i) * c + at;
            float *token = (float *)dtable.data + id[i] * c + at;
            for (int64_t j = 0; j < width; j++) token[j] += from[j];
            if (!position) continue;
            float *place = (float *)dposition_table.data + position[i] * c + at;
            for (int64_t j = 0; j < width; j++) place[j] += from[j];
        }
    }
}
