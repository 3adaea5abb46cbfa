/* Comparison with the golden tensors of an independent implementation in float64.
 *
 * The tolerance, 2e-5 norm-wise per tensor, is what float32 leaves: 6e-8 a rounding, some hundred roundings deep. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "model/params.h"
#include "tests/files.h"

static const double golden_tolerance = 2e-5;
enum { GOLDEN_STRIDE = 97 }; /* of large tensors some files have only every so many-th number */

/* The parameters of a table from a file, where they have these names and shapes. */
static inline void read_parameters(const TensorFile *file, const char *prefix, const ParamTable *table, float *flat) {
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        const StoredTensor *tensor = find(file, prefix, param->name);
        assert_int_equal(tensor->rank, param->rank);
        for (int k = 0; k < param->rank; k++) assert_int_equal(tensor->dims[k], param->dims[k]);
        float *values = floats(file, prefix, param->name);
        memcpy(flat + param->offset, values, (size_t)param->count * sizeof *flat);
        free(values);
    }
}

/* Norm-wise for every tensor that the file has; prints the largest error, and returns how many
 * were compared. key_bias: what the names of the biases of q | k | v end in, of which the keys' are left out; or NULL.
 */
static inline int compare_within(double tolerance, const char *what, const TensorFile *file, const char *prefix,
                                 const ParamTable *table, const float *flat, const char *key_bias) {
    double worst = 0;
    const char *where = "";
    int n = 0;
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        char *full = xformat("%s%s", prefix, param->name);
        bool there = tensor_file_find(file, full) != NULL;
        free(full);
        if (!there) continue;
        float *want = floats(file, prefix, param->name), *got = xmalloc((size_t)param->count * sizeof *got);
        int64_t stored = find(file, prefix, param->name)->count, step = stored == param->count ? 1 : GOLDEN_STRIDE;
        assert_int_equal(stored, (param->count + step - 1) / step);
        for (int64_t e = 0; e < stored; e++) got[e] = flat[param->offset + e * step];
        if (key_bias && strstr(param->name, key_bias)) {
            int64_t third = param->count / 3;
            memcpy(got + third, want + third, (size_t)third * sizeof *got);
        }
        double error = relative_error(got, want, stored);
        if (!(error <= worst)) {
            worst = error;
            where = param->name;
        }
        if (!(error <= tolerance)) fail_msg("%s %s: relative error %.3g", what, param->name, error);
        free(want);
        free(got);
        n++;
    }
    print_message("%s: largest relative error %.2g of %d tensors, in %s\n", what, worst, n, where);
    return n;
}

static inline int compare_parameters(const char *what, const TensorFile *file, const char *prefix,
                                     const ParamTable *table, const float *flat, const char *key_bias) {
    return compare_within(golden_tolerance, what, file, prefix, table, flat, key_bias);
}

/* The gradient of the keys' bias is zero in exact arithmetic (it adds the same to all scores of a row), so that Adam
 * divides rounding noise by its own size. All that can be known is the size of a step: with bias-corrected moments
 * |m^| <= 1.02 sqrt(v^) for t <= 5 (Cauchy-Schwarz on the two sets of averaging weights), so it is below 1.02 lr. */
static inline void check_key_bias(const TensorFile *file, const ParamTable *table, const float *flat,
                                  const char *key_bias, double rates) {
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        if (!strstr(param->name, key_bias)) continue;
        float *want = floats(file, "after.", param->name);
        for (int64_t e = param->count / 3; e < 2 * param->count / 3; e++) {
            double moved = fabs((double)flat[param->offset + e] - (double)want[e]);
            if (!(moved <= 1.02 * rates)) fail_msg("%s[%d] is off by %.3g", param->name, (int)e, moved);
        }
        free(want);
    }
}

#endif
