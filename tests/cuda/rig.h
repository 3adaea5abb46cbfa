/* For tests that compare the cuda device, real or emulated, with the cpu device: tensors that exist twice, once on
 * each. The cpu's is f32 and holds numbers that the other's type can represent, so that both start from the same. */
#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/device_open.h"
#include "tests/helpers.h"

#ifdef CUDA_HALF_BY_CARD
#error                                                                                                                 \
    "a program for all cards has one 16-bit type on each, and tests want both: build them with GPU=native or a preset"
#endif

__extension__ typedef _Float16 Half;

/* The types that the cuda device was built for. */
static const DType types[] = {
    DTYPE_F32,
#if !defined CUDA_HALF_F16 || defined CUDA_HALF_BF16
    DTYPE_BF16,
#endif
#if !defined CUDA_HALF_BF16 || defined CUDA_HALF_F16
    DTYPE_F16,
#endif
};
enum { TYPES = sizeof types / sizeof *types };

typedef struct {
    Tensor cpu, cuda; /* of one shape; cpu is f32, or the integer type of both */
} Pair;

enum { RIG_MAX_TENSORS = 256 };

typedef struct {
    Device *cpu, *cuda;
    uint32_t *step, held; /* of dropouts, on the cuda device; what it holds */
    uint64_t draws;
    DType type; /* of the tensors: the 16-bit one, if there is any */
    struct {
        void *host, *device;
        size_t bytes;
    } tensors[RIG_MAX_TENSORS];
    int count;
} Rig;

/* Rounds x to the type. */
float through_type(DType type, float x);
/* Returns the largest relative error of one rounding to the type: half a unit in the last place. */
double rounding_of(DType type);

/* The emulator's functions; NULL in a program for a real GPU. */
__attribute__((weak)) void emulate_set_seed(uint64_t seed);
__attribute__((weak)) int64_t emulate_reports(void);
__attribute__((weak)) void emulate_count_kernels(bool on); /* of the executor of PTX */
/* Returns how many units of 2^-24 the slope of GELU at x, which is at most 1.13, may be wrong by. The tanh form has
 * S = 1 / (1 + e) from a division that errs by two units in the last place, NVIDIA's bound, which with e's error and
 * the sum's make 6 roundings of S; the slope has a term S (1 - S) 2xu', which carries those on. All else is in 32. */
double gelu_slope_error(GeluKind kind, double x);
/* Fails if the emulator's checker of races and accesses has reported anything. */
void assert_no_reports(void);

/* Opens both devices, the cuda device with `half` as its 16-bit type, and an empty rig. Its f32 products are true f32,
 * as the cpu's: a card's TF32 has the precision of f16. */
Rig rig_open(DType half);
void rig_close(Rig *rig);
/* Frees the tensors; the devices stay. */
void rig_clear(Rig *rig);
/* Returns whether this program was built for a type, and its card has tensor cores for it: a GPU preset may name one
 * 16-bit type, and Turing has no bf16. Executed PTX has one of them for each card, as programs for all cards: newer
 * ones have no f16. */
bool rig_has(const Rig *rig, DType type);
/* Returns a 16-bit type that the device has: bf16 if it has both. */
DType rig_half(const Rig *rig);
/* Fills the device's scratch memory with NaN. */
void poison_scratch(Rig *rig);
/* Changes the order of threads, blocks, copies and streams: to the reverse of the plain order, then six random orders,
 * then the plain one, and so on. */
void change_schedule(Rig *rig);
/* Converts a dropout of the cpu device to one of the cuda device. */
Dropout on_cuda(Rig *rig, Dropout drop);

/* Returns a tensor of rank 2; columns 0: of rank 1, here and below. */
Tensor rig_shaped(void *data, DType type, int64_t rows, int64_t columns);
Pair pair_none(void); /* an absent argument */
/* Returns a pair that holds NaN, which shows what an operation forgets to write. */
Pair pair_poisoned(Rig *rig, DType type, int64_t rows, int64_t columns);
/* Returns a pair of equal normal numbers times `scale`. */
Pair pair_normal(Rig *rig, DType type, int64_t rows, int64_t columns, float scale);
/* Rounds the numbers of p to multiples of 1/128, which TF32 can represent below 16: their products are exact in f32. */
Pair pair_for_tf32(Rig *rig, Pair p);
/* Returns a pair of the caller's integers. */
Pair pair_integers(Rig *rig, const int32_t *values, int64_t n);
/* Returns a pair of random integers in [0, below). */
Pair pair_below(Rig *rig, int64_t n, int32_t below);
/* Rounds the cpu tensor's numbers to the cuda tensor's type and stores them in both. */
void pair_upload(Rig *rig, Pair p);
/* Returns the cuda tensor as f32; free(). */
float *pair_download(Rig *rig, Pair p);

double root_mean_square(const float *values, int64_t n);
/* Requires every number of the cuda tensor to lie within tolerance * (|want| + typical) of the cpu's. `typical` is the
 * root mean square of all numbers, or of the row if the tensor has two dimensions, because the error of a sum does not
 * shrink with the sum; it is at least `least`. */
void expect_pair_least(Rig *rig, const char *what, Pair p, double tolerance, double least);
/* Requires the same with a least of 0. */
void expect_pair(Rig *rig, const char *what, Pair p, double tolerance);
/* Requires the same bits in both cuda tensors. */
void expect_same_bits(Rig *rig, const char *what, Pair a, Pair b);
