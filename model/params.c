/* The parameter table. A parameter is a range [offset, offset + count) of a flat buffer, and every flat buffer
 * (weights, gradients, both moments) has the same ranges. Offsets are multiples of 16 elements = 64 bytes. */
#include "model/params.h"

#include "kernels/philox.h"

#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16 };

int64_t param_stored(const Param *param) {
    int64_t count = param->count + param->padding * (param->columns ? param->columns : 1);
    return (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int param_add(ParamTable *table, InitKind init, float init_scale, bool decay, int64_t rows, int64_t columns,
              const char *name_format, ...) {
    table->items = xgrow(table->items, (size_t)table->count, sizeof *table->items);
    Param *param = &table->items[table->count];
    *param = (Param){.rows = rows,
                     .columns = columns,
                     .rank = columns ? 2 : 1,
                     .dims = {rows, columns},
                     .init = init,
                     .init_scale = init_scale,
                     .init_like = table->count,
                     .decay = decay,
                     .offset = table->flat_count,
                     .count = rows * (columns ? columns : 1)};
    va_list arguments;
    va_start(arguments, name_format);
    int length = vsnprintf(param->name, sizeof param->name, name_format, arguments);
    va_end(arguments);
    if (length < 0 || length >= (int)sizeof param->name) die("parameter name too long: %s", param->name);
    if (rows < 1 || columns < 0) die("parameter %s: %lld x %lld", param->name, (long long)rows, (long long)columns);
    table->flat_count += param_stored(param);
    return table->count++;
}

static int add_linear(ParamTable *table, int64_t in, int64_t out, const char *name, bool padded) {
    float scale = 1 / sqrtf((float)in);
    int index = param_add(table, INIT_UNIFORM, scale, true, out, in, "%s.weight", name);
    table->items[index].product = true;
    if (padded) param_pad_rows(table);
    param_add(table, INIT_UNIFORM, scale, true, out, 0, "%s.bias", name);
    if (padded) param_pad_rows(table);
    return index;
}

int param_add_linear(ParamTable *table, int64_t in, int64_t out, const char *name) {
    return add_linear(table, in, out, name, false);
}

int param_add_head(ParamTable *table, int64_t in, int64_t out, const char *name) {
    return add_linear(table, in, out, name, true);
}

int param_add_norm(ParamTable *table, int64_t width, const char *name) {
    int index = param_add(table, INIT_ONE, 0, true, width, 0, "%s.weight", name);
    param_add(table, INIT_ZERO, 0, true, width, 0, "%s.bias", name);
    return index;
}

void param_pad_rows(ParamTable *table) {
    enum { MULTIPLE = 8 };
    Param *param = &table->items[table->count - 1];
    table->flat_count -= param_stored(param);
    param->padding = (MULTIPLE - param->rows % MULTIPLE) % MULTIPLE;
    table->flat_count += param_stored(param);
}

void param_file_shape(ParamTable *table, int rank, const int64_t *dims) {
    Param *param = &table->items[table->count - 1];
    int64_t count = 1;
    param->rank = rank;
    for (int i = 0; i < rank; i++) count *= param->dims[i] = dims[i];
    if (count != param->count) die("parameter %s: its shape in files has another number of elements", param->name);
}

int param_add_buffer(ParamTable *table, const float *values, int64_t rows, int64_t columns, const char *name) {
    int index = param_add(table, values ? INIT_VALUES : INIT_ZERO, 0, false, rows, columns, "%s", name);
    table->items[index].init_values = values;
    table->items[index].buffer = true;
    return index;
}

void params_free(ParamTable *table) {
    free(table->items);
    *table = (ParamTable){0};
}

int64_t params_count(const ParamTable *table) {
    int64_t count = 0;
    for (int i = 0; i < table->count; i++) count += table->items[i].buffer ? 0 : table->items[i].count;
    return count;
}

int64_t params_trainable_count(const ParamTable *table) {
    int64_t count = params_count(table);
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        int64_t out = param->frozen_rows;
        for (int64_t r = param->frozen_rows; r < param->rows && param->used; r++) out += !param->used[r];
        if (!param->buffer) count -= out * (param->columns ? param->columns : 1);
    }
    return count;
}

int params_n_groups(const ParamTable *table) {
    int n = 1;
    for (int i = 0; i < table->count; i++)
        if (table->items[i].group >= n) n = table->items[i].group + 1;
    return n;
}

int params_n_trained(const ParamTable *table) {
    int count = 0;
    for (int i = 0; i < table->count; i++) count += !table->items[i].buffer;
    return count;
}

int params_find(const ParamTable *table, const char *name) {
    for (int i = 0; i < table->count; i++) {
        if (!strcmp(table->items[i].name, name)) return i;
    }
    return -1;
}

const AbsorbedBias *absorbed_find(const AbsorbedBias *absorbed, int n, const char *name, const char *suffix) {
    for (int i = 0; i < n; i++) {
        size_t length = strlen(absorbed[i].layer);
        if (!strncmp(name, absorbed[i].layer, length) && !strcmp(name + length, suffix)) return &absorbed[i];
    }
    return NULL;
}

Tensor param_view(const ParamTable *table, Tensor flat, int index) {
    if (index < 0 || !tensor_given(flat)) return tensor_none();
    const Param *param = &table->items[index];
    Tensor view = {.data = (char *)flat.data + (size_t)param->offset * dtype_size(flat.dtype),
                   .dtype = flat.dtype,
                   .rank = param->columns ? 2 : 1,
                   .dims = {param->rows, param->columns}};
    return view;
}

bool param_is_overwritten(const Param *param) { return param->product && param->frozen_rows < param->rows; }

static void fill(const Param *param, float *out, uint64_t seed, int n_threads) {
    const float scale = param->init_scale;
    const InitKind init = param->init;
    const uint32_t number = (uint32_t)param->init_like;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t e = 0; e < param->count; e++) {
        uint64_t element = (uint64_t)e;
        if (init == INIT_NORMAL)
            out[e] = scale * philox_normal(seed, PURPOSE_INIT, number, element);
        else if (init == INIT_UNIFORM)
            out[e] = scale * (2 * philox_uniform(seed, PURPOSE_INIT, number, element) - 1);
        else if (init == INIT_VALUES)
            out[e] = param->init_values[e];
        else
            out[e] = init == INIT_ONE;
    }
}

static void initialize(const ParamTable *table, float *flat, bool random, uint64_t seed, int n_threads) {
    if (n_threads <= 0) n_threads = omp_get_num_procs();
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        bool is_random = param->init == INIT_NORMAL || param->init == INIT_UNIFORM;
        if (random || !is_random) fill(param, flat + param->offset, seed, n_threads);
        for (int64_t e = param->count; e < param_stored(param); e++) flat[param->offset + e] = 0;
    }
}

void params_initialize(const ParamTable *table, float *flat, uint64_t seed, int n_threads) {
    initialize(table, flat, true, seed, n_threads);
}

void params_initialize_constants(const ParamTable *table, float *flat, int n_threads) {
    initialize(table, flat, false, 0, n_threads);
}
