/* The sum of the gradients of several ranks.
 *
 * The flat buffer is divided into buckets of the same size, of which each rank owns one of R equal pieces: a rank sums
 * its piece, and then all gather the sums. A bucket is reduced as soon as all of its gradients are final, in the
 * device's second queue, beside what the pass has still to compute. Pieces begin at multiples of NORM_PIECE, so that no
 * part of the norm lies in two of them. */
#pragma once

#include "kernels/group.h"
#include "model/params.h"

enum { MARK_REDUCED = GROUP_MARK + 1 }; /* of Device.mark */

typedef struct {
    Group *group;
    Device *device;
    Tensor gradients; /* flat, reducer_room long */
    int64_t bucket;   /* elements of all buckets but the last, which may be shorter */
    int n_buckets;
    int64_t *final; /* [n_buckets] elements of a bucket that are final */
    bool *reduced;  /* [n_buckets] */
    bool *gathered; /* [n_buckets] whether all ranks need the sums of a bucket; otherwise its owners only */
    Tensor half;    /* of the type in which sums are sent, [bucket]; none: f32 */
} Reducer;

/* Returns the elements of a flat buffer with room for whole pieces of all ranks. */
int64_t reducer_room(int64_t flat_count, int ranks);
/* Opens a reducer with buckets of about so many MB: long enough for the full rate of a link, short enough that the
 * first are sent early. `half`: the 16-bit type that gradients are rounded to before they are sent; f32: none. */
Reducer reducer_open(Group *group, Device *device, Tensor gradients, double bucket_mb, DType half);
void reducer_close(Reducer *reducer);
/* Begins a step. No gradient is final. */
void reducer_begin(Reducer *reducer);
/* Pass.finished, whose context is a Reducer. */
void reducer_finished(void *reducer, int64_t begin, int64_t end);
/* Reduces all that is not reduced yet: all gradients are final. What is queued next has the sums. */
void reducer_finish(Reducer *reducer);

/* Gathers the sums of all buckets that only their owners have. */
void reducer_gather(Reducer *reducer);

/* Elements begin .. end - 1 of the flat buffer. */
typedef struct {
    int64_t begin, end;
} FlatRange;
/* Return the elements of a bucket, and those of it that a rank owns. */
FlatRange reducer_bucket(const Reducer *reducer, int bucket);
FlatRange reducer_piece(const Reducer *reducer, int bucket, int rank);
/* Returns that part of a flat tensor. */
Tensor flat_part(Tensor flat, FlatRange range);
