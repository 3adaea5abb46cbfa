/* Helpers for tests of the operations of the cpu device: random tensors, comparisons in double precision, central
 * differences, and a way to run every check on every device.
 *
 * Errors (tests/tolerance.h) are relative to the largest expected element, because a wrong row has errors of that size.
 */
#pragma once

#include "tests/cpu_devices.h"
#include "tests/tolerance.h"

#include "kernels/philox.h"
#include "tests/kernels/op_cases.h"

#include <float.h>
#include <math.h>

/* One device, the memory of one check and a hash of all outputs. The memory is freed after the check; each tensor has a
 * block of its own, so that AddressSanitizer sees reads beyond its ends. */
typedef struct {
    Device *device;
    uint64_t seed, hash;
    void *memory[2048];
    int n_memory;
} Rig;

/* The arguments of a forward call, for the central differences. */
typedef struct {
    Device *device;
    Tensor y, sum, mean, rstd, x, branch, w, bias, ids, rows, positions, table, position_table;
    Window window;
    WeightLayout layout;
    GeluKind gelu;
    Sequences sequences;
    Attention attention;
    Dropout drop;
    float epsilon, temperature;
    Normed normed[2];
    NormActivation activation;
} Call;

static inline float *floats(Tensor t) { return t.data; }
static inline int32_t *integers(Tensor t) { return t.data; }

double *doubles(Rig *rig, int64_t n);
/* Returns a tensor [rows, columns], or [rows] if columns is 0. poisoned: filled with NaN; normal: normal numbers. */
Tensor tensor(Rig *rig, DType dtype, int64_t rows, int64_t columns);
void poison(Tensor t); /* fills it with NaN */
Tensor poisoned(Rig *rig, int64_t rows, int64_t columns);
Tensor number(Rig *rig, float x);
Tensor normal(Rig *rig, int64_t rows, int64_t columns);
/* Returns random i32 [n] from 0 to limit - 1. */
Tensor below(Rig *rig, int64_t n, uint32_t limit);
/* Returns the numbers of t in double precision. */
double *widened(Rig *rig, Tensor t);
void hash_output(Rig *rig, Tensor t); /* adds t to the hash, which must be the same in two runs of a check */
void expect(Rig *rig, const char *what, Tensor got, const double *want, double tolerance);
void expect_same(Rig *rig, const char *what, Tensor got, Tensor want);
double dot_product(const double *a, const double *b, int64_t n);
/* Returns the factor by which dropout multiplies an element. */
double keep_factor(Dropout drop, uint64_t element);
Dropout dropout_of(float p);
/* Compares the gradient of f = sum weights output with respect to `input` with differences of f, along a random
 * direction and along the gradient. `before` holds the values that the gradient was accumulated onto, if it was.
 *
 * With a step h of about eps^(1/3) the difference has two errors. The rounding of the outputs gives twice `tolerance`
 * times the size of the terms. The third derivative gives h^2/6 of its value, which is a third of what doubling h
 * changes. Along the gradient both errors must be below a hundredth of the difference, so that the test detects a
 * gradient that is wrong by that much. */
void expect_gradient(Rig *rig, const char *what, const Call *call, void (*forward)(const Call *), Tensor input,
                     Tensor gradient, const double *before, Tensor output, const double *weights, double tolerance);
/* Makes a row of a table of tests: runs check_NAME twice on every device; both runs must give the same bits. */
// clang-format off
#define ops_test(name) {#name, ops_check, NULL, NULL, &(OpsCheck){check_##name}}
// clang-format on
typedef struct {
    void (*function)(Rig *);
} OpsCheck;
void ops_check(void **check);
void rig_free(Rig *rig); /* the memory of a check */
Sequences packed(Rig *rig, const int *lengths, int count);

/* Makes the last row of the tests of a file: fails unless every operation that op_cases.c says it tests has run on
 * every device. test_stem.c and test_muon.c run theirs on all devices themselves. */
#define ops_last_test cmocka_unit_test_prestate(every_operation_was_tested_on_every_device, (void *)__FILE__)
void every_operation_was_tested_on_every_device(void **file);
