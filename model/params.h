/* A model's parameter table. One row a parameter: its name (the reference's own), shape, initialiser, weight decay and
 * frozen rows; from it come allocation, initialisation, optimizer segments, checkpoint, import, export and the count.
 *
 * All parameters of a model lie in one flat f32 buffer, each at a 64-byte boundary; gradients and the optimizer's
 * moments have the same layout. */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "base/base.h"
#include "kernels/ops.h"

typedef enum { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_UNIFORM } InitKind; /* N(0, scale^2); U(-scale, scale) */

typedef struct {
    char name[80];
    int rank;
    int64_t dims[TENSOR_MAX_RANK];
    InitKind init;
    float init_scale;
    bool decay;            /* takes part in weight decay */
    int64_t frozen_rows;   /* the leading rows that the optimizer leaves as they are */
    int64_t offset, count; /* in the flat buffer, in elements */
} Param;

typedef struct {
    Param *items;
    int count, capacity;
    int64_t flat_count; /* elements of the flat buffer, padding included */
} ParamTable;

/* Appends a row and returns its index. rank 1: columns = 0. */
int param_add(ParamTable *table, InitKind init, float init_scale, bool decay, int64_t rows, int64_t columns,
              const char *name_format, ...) PRINTF_LIKE(7, 8);
void params_free(ParamTable *table);
int64_t params_count(const ParamTable *table);                      /* numbers, without padding */
int params_find(const ParamTable *table, const char *name);         /* index, or -1 */
Tensor param_view(const ParamTable *table, Tensor flat, int index); /* its part of a flat buffer, with its shape */

/* Fills a flat buffer on the host: parameter i, element e from (seed, PURPOSE_INIT, i, e). */
void params_initialize(const ParamTable *table, float *flat, uint64_t seed);
/* Neighbours with the same decay are merged over padding-free joints only. Returns the number; *segments: free(). */
int params_segments(const ParamTable *table, float weight_decay, Segment **segments);

#endif
