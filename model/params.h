/* The parameter table of a model: one row per parameter with its name (as in the reference), shape, initialiser, weight
 * decay and frozen rows. Allocation, initialisation, optimizer segments, checkpoints, import, export and the parameter
 * count are all made from the table. A buffer is a row, too: state that is not trained (running statistics, tables).
 *
 * All parameters of a model lie in one flat f32 buffer, each at a 64-byte boundary. Gradients and the optimizer's
 * moments have the same layout. */
#pragma once

#include "base/base.h"
#include "kernels/ops.h"

/* NORMAL: N(0, scale^2); UNIFORM: U(-scale, scale); VALUES: given numbers. */
typedef enum { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_UNIFORM, INIT_VALUES } InitKind;

enum { PARAM_MAX_RANK = 5 }; /* the weight of a 3-D convolution */

/* Who reads a parameter in a pass: anything, or only the block that it belongs to, which first tells Pass.needed: in
 * the type of the activations, or as f32. */
typedef enum { READ_ANYWHERE, READ_BY_BLOCK, READ_BY_BLOCK_AS_F32 } ParamReader;

typedef struct {
    char name[80];
    int64_t rows, columns; /* as operations see the tensor; columns 0: a vector */
    int rank;              /* in files */
    int64_t dims[PARAM_MAX_RANK];
    InitKind init;
    float init_scale;
    const float *init_values; /* [count], for INIT_VALUES; must outlive the table */
    int init_like;            /* index of the row whose random numbers initialise this row; usually this row */
    bool buffer;              /* not trained: no gradient, no moments, not counted */
    float moves;  /* of a buffer that training changes (params_moving): the share that a batch replaces; 0: constant */
    bool decay;   /* subject to weight decay */
    int group;    /* parameters of one group share a learning rate */
    int joined;   /* so many of the next rows, which follow without padding, are one matrix with this row in a pass */
    int matrices; /* that Muon may update: 1, or 3 side by side (q, k, v); 0: none, as in heads and tables */
    bool matrices_in_columns; /* several matrices divide the columns, not the rows */
    bool product;             /* a step's first gradient is a linear layer's, which overwrites: see Pass.unwritten */
    ParamReader reader;
    int64_t padding;     /* rows of zeros behind it, in the flat buffers only: see param_pad_rows */
    int64_t frozen_rows; /* leading rows that the optimizer does not change */
    /* [rows]: 0 for rows that no pass ever adds a gradient to; must outlive the table. NULL: there are none. An update
     * leaves them as they are, without decay, and the other rows get the same bits as if they were updated. */
    const uint8_t *used;
    int64_t offset, count; /* in the flat buffer, in elements */
} Param;

typedef struct {
    Param *items;
    int count;
    int64_t flat_count; /* elements of the flat buffer, padding included */
} ParamTable;

/* Appends a row and returns its index. columns = 0: a vector. */
int param_add(ParamTable *table, InitKind init, float init_scale, bool decay, int64_t rows, int64_t columns,
              const char *name_format, ...) PRINTF_LIKE(7, 8);
/* Appends a linear layer: NAME.weight [out, in] and NAME.bias [out], both U(-1/sqrt(in), 1/sqrt(in)) as in torch's
 * nn.Linear. Returns the index of the weight; the bias is the next row. */
int param_add_linear(ParamTable *table, int64_t in, int64_t out, const char *name);
/* Appends a linear layer over a vocabulary: the same with padded rows. */
int param_add_head(ParamTable *table, int64_t in, int64_t out, const char *name);
/* Appends a norm: NAME.weight (ones) and NAME.bias (zeros), [width]. Returns the index of the weight. */
int param_add_norm(ParamTable *table, int64_t width, const char *name);
/* Has rows of zeros follow the last row up to a multiple of 8, so that products of a vocabulary of any size have
 * operands that begin at multiples of 16 bytes. They are not of the parameter: no initialiser, file or update knows
 * them, and a pass must leave their gradients 0. */
void param_pad_rows(ParamTable *table);
/* Sets the shape that the last row has in files: the same number of elements in the same order. */
void param_file_shape(ParamTable *table, int rank, const int64_t *dims);
/* Appends a buffer that starts with `values` (NULL: zeros), which must outlive the table. Returns its index. */
int param_add_buffer(ParamTable *table, const float *values, int64_t rows, int64_t columns, const char *name);
void params_free(ParamTable *table);
/* Returns the number of elements, padding and buffers left out. */
int64_t params_count(const ParamTable *table);
/* Returns the number of elements that are trained: padding, buffers, frozen and unused rows are left out. */
int64_t params_trainable_count(const ParamTable *table);
/* Returns the number of groups. */
int params_n_groups(const ParamTable *table);
/* Returns the number of rows that are not buffers. */
int params_n_trained(const ParamTable *table);
/* Returns the index of the row, or -1. */
int params_find(const ParamTable *table, const char *name);
/* Returns the part of a flat buffer that belongs to the row, with the row's shape. None if the buffer is none, or if
 * the index is -1, an absent parameter. */
Tensor param_view(const ParamTable *table, Tensor flat, int index);

/* A layer whose bias (LAYER.bias) exists in the reference but not in our table, because the batch norm that follows the
 * layer cancels it: its gradient is zero. An import subtracts the bias from the norm's running mean, so that evaluation
 * gives the same result; an export writes zeros. */
typedef struct {
    const char *layer, *norm; /* "stem.0", "stem.1" */
} AbsorbedBias;
/* Returns the entry whose layer followed by `suffix` (".weight") equals `name`, or NULL. */
const AbsorbedBias *absorbed_find(const AbsorbedBias *absorbed, int n, const char *name, const char *suffix);

/* Returns the elements of a flat buffer from the parameter to the next one. */
int64_t param_stored(const Param *param);
/* Returns whether the first product of a step overwrites the gradient, so that a step does not clear it. */
bool param_is_overwritten(const Param *param);

/* Fills a flat buffer on the host with initial values. Element e of parameter i depends only on the seed, init_like of
 * i and e. n_threads 0: all processors. */
void params_initialize(const ParamTable *table, float *flat, uint64_t seed, int n_threads);
/* The same but for random values, which stay as they are: others are read in their place. */
void params_initialize_constants(const ParamTable *table, float *flat, int n_threads);
/* Makes the optimizer's segments, with learning rate 1. Neighbouring parameters share a segment if they have the same
 * group and decay and no padding lies between them. Returns the number of segments; free(*segments). Dies if a row has
 * unused rows, which params_updates knows. */
int params_segments(const ParamTable *table, float weight_decay, Segment **segments);
/* The parts of the parameters that an optimizer step changes: AdamW the first n_adamw segments, Muon the matrices,
 * which are in the segments behind them. The norm is that of all segments. */
typedef struct {
    Segment *segments;
    MuonMatrix *matrices;
    int n_segments, n_adamw, n_matrices;
    /* Clearing the gradients for a step: all of the flat buffer but unused rows, which stay 0, and what a product
     * overwrites. */
    Segment *cleared;
    int n_cleared;
    Device *device;
    uint8_t *masks; /* of all segments, on the device */
    size_t mask_bytes;
} ParamUpdates;
/* Makes the segments, as params_segments does, and with `muon` the matrices, with learning rate 1. Without it, all is
 * AdamW's. Segments with unused rows have their masks on the device, which may be NULL without such rows. Dies if a row
 * with matrices has frozen or unused rows, and if `muon` finds no matrix. */
ParamUpdates params_updates(const ParamTable *table, Device *device, float weight_decay, bool muon);
void params_updates_free(ParamUpdates *updates);
/* Makes the segments of the buffers that training changes, and returns their number; free(*segments). A step copies
 * these buffers to the same offsets in the flat gradient buffer (copy_segments) and changes the copies; its update
 * copies them back. So the parameters change only in the update, and not at all if the update is skipped. */
int params_moving(const ParamTable *table, Segment **segments);
