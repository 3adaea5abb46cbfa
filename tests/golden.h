/* Compares with golden tensors of an independent implementation in float64.
 *
 * The tolerance is 2e-5 per tensor, norm-wise: some hundred roundings of float32, 6e-8 each. */
#pragma once

#include "model/params.h"
#include "tests/files.h"

static const double golden_tolerance = 2e-5;
enum { GOLDEN_STRIDE = 97 }; /* some files store only every 97th number of large tensors */

/* Reads the parameters of a table from a file that has tensors of the same names and shapes. */
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

/* Compares every tensor that the file has, norm-wise, and prints the largest error. Returns how many were compared.
 * key_bias: the ending of the names of q | k | v biases, whose middle third, the bias of the keys, is not compared; or
 * NULL. */
static inline int compare_within(double tolerance, const char *what, const TensorFile *file, const char *prefix,
                                 const ParamTable *table, const float *flat, const char *key_bias) {
    double worst = 0;
    const char *where = "";
    int n = 0;
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        bool there = tensor_file_find(file, kept_format("%s%s", prefix, param->name)) != NULL;
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

/* Compares how far the tensors of `before` have moved in `after` with how far they have moved in the golden file, so
 * that a missing weight decay is seen too, which is 3e-5 of a weight but 1e-2 of its way. The bias of the keys is not
 * compared. */
static inline void compare_moves(const char *what, const TensorFile *before, const TensorFile *golden,
                                 const char *prefix, const TensorFile *after, double tolerance) {
    double worst = 0;
    for (int t = 0; t < before->n_tensors; t++) {
        const char *name = before->tensors[t].name;
        int64_t count = before->tensors[t].count;
        if (strstr(name, "self.key.bias")) continue;
        float *start = floats(before, "", name), *got = floats(after, "", name), *want = floats(golden, prefix, name);
        for (int64_t i = 0; i < count; i++) {
            if (strstr(name, "c_attn.bias") && i / (count / 3) == 1) start[i] = got[i] = want[i];
            got[i] -= start[i];
            want[i] -= start[i];
        }
        double error = relative_error(got, want, count);
        if (!(error <= tolerance)) fail_msg("%s: %s moved otherwise, by %.3g", what, name, error);
        worst = error > worst ? error : worst;
        free(start);
        free(got);
        free(want);
    }
    print_message("%s: largest relative error of a move %.2g\n", what, worst);
}

/* For a program that trains from golden weights: the folder `root` has base.safetensors and a run of five steps. */

/* Writes the tensors "weights.NAME" to base.safetensors, as NAME, but those whose names contain `unwanted`, or NULL. */
static inline void write_golden_base(const TensorFile *golden, const char *root, const char *unwanted) {
    enum { MAX_TENSORS = 64 };
    TensorToWrite tensors[MAX_TENSORS];
    int n = 0;
    for (int i = 0; i < golden->n_tensors; i++) {
        const StoredTensor *t = &golden->tensors[i];
        if (strncmp(t->name, "weights.", 8) != 0 || (unwanted && strstr(t->name, unwanted))) continue;
        assert_true(n < MAX_TENSORS);
        tensors[n] = (TensorToWrite){.name = t->name + 8, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[n++].dims, t->dims, sizeof t->dims);
    }
    char *path = kept_path(root, "base.safetensors");
    Error error;
    if (!safetensors_write(path, tensors, n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
}

/* Compares what a run has logged with golden numbers, one for each step. */
static inline void check_golden_log(const TensorFile *golden, const char *run, const char *key, const char *prefix,
                                    const char *name) {
    enum { MAX_STEPS = 16 };
    double values[MAX_STEPS];
    float *want = floats(golden, prefix, name);
    int64_t steps = find(golden, prefix, name)->count;
    assert_true(steps <= MAX_STEPS);
    assert_int_equal(logged(run, "train", key, values, (int)steps), steps);
    for (int64_t k = 0; k < steps; k++) assert_near(values[k], want[k], golden_tolerance * (double)want[k]);
    free(want);
}

/* Compares the moves of the weights of a run in root, after its fifth step. */
static inline void check_golden_moves(const TensorFile *golden, const char *root, const char *run, const char *prefix,
                                      double tolerance) {
    char *checkpoint = kept_format("%s/%s/step_00000005", root, run), *after = kept_format("%safter.", prefix);
    TensorFile before = open_in(root, "base.safetensors"), file = open_in(checkpoint, "model.safetensors");
    compare_moves(prefix, &before, golden, after, &file, tolerance);
    tensor_file_close(&before);
    tensor_file_close(&file);
}

/* Checks the bias of the keys after a few updates. Its gradient is zero in exact arithmetic, because the bias adds the
 * same number to all scores of a row. So Adam divides rounding noise by its own size, and only the size of a step is
 * known: with bias-corrected moments |m^| <= 1.02 sqrt(v^) for t <= 5 (Cauchy-Schwarz on the two sets of averaging
 * weights), hence a step is below 1.02 lr. */
static inline void check_key_bias(const TensorFile *file, const char *prefix, const ParamTable *table,
                                  const float *flat, const char *key_bias, double rates) {
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        if (!strstr(param->name, key_bias)) continue;
        float *want = floats(file, prefix, param->name);
        for (int64_t e = param->count / 3; e < 2 * param->count / 3; e++) {
            double moved = fabs((double)flat[param->offset + e] - (double)want[e]);
            if (!(moved <= 1.02 * rates)) fail_msg("%s[%d] is off by %.3g", param->name, (int)e, moved);
        }
        free(want);
    }
}
