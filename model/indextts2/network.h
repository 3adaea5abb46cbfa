/* Networks of published weights that are only asked for results: a parameter table under the names of their files, read
 * into the memory of a device, and the few steps that all of them share. Sums of residuals, norms and their results are
 * f32; the operands of products are f32 (TF32 where a device rounds to it) or the network's 16-bit type. */
#pragma once

#include "data/formats/tensor_file.h"
#include "model/context.h"

/* A linear layer [out, in] by the rows of the table of its weight and its bias; -1: it has none. */
typedef struct {
    int weight, bias;
} Layer;

typedef struct Network Network;
/* Where weights come from. */
typedef struct {
    /* Writes elements first .. first + count - 1 of a parameter, as its file has them. Returns false with the reason.
     */
    bool (*read)(void *context, const char *name, int64_t first, int64_t count, float *out, Error *error);
    void *context;
} WeightSource;

struct Network {
    const char *name; /* for messages */
    Device *device;
    DType fit;  /* the 16-bit type that keeps the results */
    DType type; /* of the operands of products */
    ParamTable table;
    Tensor weights, half; /* flat; half: none if the type is f32 */
    /* Changes rows first .. first + n - 1 of a parameter in place, between their file and the device: factors that are
     * folded into weights. Optional. Returns false with the reason, as it may read other parameters. */
    bool (*fold)(const Network *network, const WeightSource *source, int row, int64_t first, int64_t n, float *values,
                 Error *error);
};

/* Append to the table: a linear layer, with PREFIX.weight of the shape that its file has (rank 2: [out, in]) and, with
 * `bias`, PREFIX.bias; a norm, PREFIX.weight and .bias; numbers [rows, columns]. Return where. */
Layer network_add_linear(Network *network, int64_t out, int64_t in, bool bias, const char *prefix);
Layer network_add_convolution(Network *network, int64_t out, int64_t in, int64_t taps, bool bias, const char *prefix);
int network_add_norm(Network *network, int64_t width, const char *prefix);
int network_add(Network *network, int64_t rows, int64_t columns, const char *name);
/* Allocates the weights of a network, whose table is complete. Dies if the type is a 16-bit one that is not fit for the
 * network, or that the device does not compute in. */
void network_allocate(Network *network, Device *device, DType type);
/* Reads all weights, in groups of rows, and folds them. Returns false with the reason. */
bool network_read(Network *network, const WeightSource *source, Error *error);
void network_release(Network *network);

/* Returns a source that reads a file, in which every name may begin with `prefix`. The file must stay open. */
typedef struct {
    const TensorFile *file;
    const char *prefix; /* "": none */
} NetworkFile;
WeightSource network_file_source(NetworkFile *file);
/* Returns the one of the prefixes, ended by NULL, with which a file has the network's first parameter; NULL: none. */
const char *network_prefix(const Network *network, const TensorFile *file, const char *const *prefixes);
/* Checks that a file has all parameters of the network, in their shapes. The error lists those that do not fit. */
bool network_check(const Network *network, const NetworkFile *file, Error *error);

/* Return the context of a pass; f32 numbers of a parameter. */
Context network_context(const Network *network, Arena *arena);

/* Results are pushed on the arena, in f32 unless it is said otherwise. */
Tensor network_push(const Context *context, int64_t rows, int64_t columns);
/* Returns x [N, C] f32 in the type of products: x itself if that is f32. */
Tensor network_narrow(const Context *context, Tensor x);
/* Returns x [N, C] in f32: x itself if it is. */
Tensor network_widen(const Context *context, Tensor x);
/* Computes a layer norm of x, of either type, in x's type; the second into y, which is not x. */
Tensor network_norm(const Context *context, int row, Tensor x, float epsilon);
void network_norm_to(const Context *context, Tensor y, int row, Tensor x, float epsilon);
/* Computes a linear layer of x, in the type of products; the second of x f32 in f32, without TF32. */
Tensor network_linear(const Context *context, Layer layer, Tensor x);
Tensor network_linear_exact(const Context *context, Layer layer, Tensor x);
/* y = x, and y += x, in f32; x may have the type of products. */
void network_copy(const Context *context, Tensor y, Tensor x);
void network_add_to(const Context *context, Tensor y, Tensor x);
