/* A model's parameter table. One row a parameter: its name (the reference's own), shape, initialiser, weight decay and
 * frozen rows; from it come allocation, initialisation, optimizer segments, checkpoint, import, export and the count.
 * A buffer is a row too: numbers that belong to the model's state, but are no parameters (running statistics, tables).
 *
 * All parameters of a model lie in one flat f32 buffer, each at a 64-byte boundary; gradients and the optimizer's
 * moments have the same layout. */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "base/base.h"
#include "kernels/ops.h"

/* N(0, scale^2); U(-scale, scale); given numbers */
typedef enum { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_UNIFORM, INIT_VALUES } InitKind;

enum { PARAM_MAX_RANK = 5 }; /* a three-dimensional convolution's weight */

typedef struct {
    char name[80];
    int64_t rows, columns; /* as operations see it; columns 0: a vector */
    int rank;              /* as files have it */
    int64_t dims[PARAM_MAX_RANK];
    InitKind init;
    float init_scale;
    const float *init_values; /* [count] of INIT_VALUES; must live as long as the table */
    int init_like;            /* starts with the same random numbers as this row, mostly itself */
    bool buffer;              /* is not trained: no gradient, no moments, not counted */
    bool moves;               /* a buffer that training changes (see params_moving); others are constants */
    bool decay;               /* takes part in weight decay */
    int group;                /* parameters of a group have a learning rate in common */
    int64_t frozen_rows;      /* the leading rows that the optimizer leaves as they are */
    int64_t offset, count;    /* in the flat buffer, in elements */
} Param;

typedef struct {
    Param *items;
    int count, capacity;
    int64_t flat_count; /* elements of the flat buffer, padding included */
} ParamTable;

/* Appends a row and returns its index. rank 1: columns = 0. */
int param_add(ParamTable *table, InitKind init, float init_scale, bool decay, int64_t rows, int64_t columns,
              const char *name_format, ...) PRINTF_LIKE(7, 8);
/* A linear layer, weight [out, in] and bias U(-1/sqrt(in), 1/sqrt(in)) as torch's nn.Linear begins, and a norm: two
 * rows each, NAME.weight and NAME.bias. The first's index. */
int param_add_linear(ParamTable *table, int64_t in, int64_t out, const char *name);
int param_add_norm(ParamTable *table, int64_t width, const char *name);
/* The shape that the last row has in files: as many numbers, laid out alike. */
void param_file_shape(ParamTable *table, int rank, const int64_t *dims);
/* A buffer with these numbers to begin with (NULL: zeros; they must live as long as the table). */
int param_add_buffer(ParamTable *table, const float *values, int64_t rows, int64_t columns, const char *name);
void params_free(ParamTable *table);
int64_t params_count(const ParamTable *table);                      /* numbers, without padding and buffers */
int64_t params_to_train(const ParamTable *table);                   /* those that are not frozen either */
int params_trained(const ParamTable *table);                        /* rows that are no buffers */
int params_find(const ParamTable *table, const char *name);         /* index, or -1 */
Tensor param_view(const ParamTable *table, Tensor flat, int index); /* its part of a flat buffer, with its shape */

/* A layer of which the reference has a bias, LAYER.bias, and our table has not, for the batch norm behind it takes it
 * away again: its gradient is zero. An import subtracts it from the norm's running mean, so that evaluation gives the
 * same; an export writes zeros. */
typedef struct {
    const char *layer, *norm; /* "stem.0", "stem.1" */
} AbsorbedBias;
/* The one of n for whose layer this is the name of a tensor, LAYER + end (".weight"); NULL: there is none. */
const AbsorbedBias *absorbed_find(const AbsorbedBias *absorbed, int n, const char *name, const char *end);

/* Fills a flat buffer on the host: element e of parameter i from (seed, PURPOSE_INIT, init_like of i, e). `n_threads`
 * 0: all processors. */
void params_initialize(const ParamTable *table, float *flat, uint64_t seed, int n_threads);
/* Neighbours of one group with the same decay are merged over padding-free joints only; rates are 1. Returns the
 * number; *segments: free(). */
int params_segments(const ParamTable *table, float weight_decay, Segment **segments);
/* The same of the buffers that move. Training reads and writes them in the gradients' flat buffer, where they are of no
 * other use: a step begins with copy_segments from the weights, and its update copies them back. So weights change in
 * the update only, and only if it is made. */
int params_moving(const ParamTable *table, Segment **segments);

#endif
