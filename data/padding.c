/* Sizes are rounded up to 16 to 32 sizes for every doubling: to at most a sixteenth more rows, and to at most 127 more,
 * which products compute in any case, in tiles of 128 rows. */
#include "data/padding.h"

#include <string.h>

#include "kernels/ops.h"

enum { LEAST_UNIT = 8, MOST_UNIT = 128, MOST_ROWS = PAD_GROUPS * MOST_UNIT };

/* Returns the largest power of two that is at most n / share, within bounds. */
static int64_t unit_of(int64_t n, int64_t share, int64_t least, int64_t most) {
    int64_t unit = least;
    while (2 * unit <= most && 2 * unit * share <= n) unit *= 2;
    return unit;
}

static int64_t row_unit(int64_t n) { return unit_of(n, 16, LEAST_UNIT, MOST_UNIT); }

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* The rows of padding of each group, the row of the batch that the group's first one is, and the sum of what the batch
 * gets. `most` depends on the padded sizes alone. */
typedef struct {
    int64_t rows[PAD_GROUPS], first[PAD_GROUPS], total, most;
} PadRows;

static PadRows count_rows(const Batch *batch, const FieldPad *pads) {
    PadRows p = {{0}, {0}, 0, 0};
    int64_t sizes[PAD_GROUPS] = {0}, n = batch->n_tokens;
    for (int f = batch->n_fields - 1; f > BATCH_OFFSETS; f--)
        if (pads[f].kind != PAD_NOT && tensor_given(batch->fields[f])) sizes[pads[f].group] = batch->fields[f].dims[0];
    for (int g = PAD_ONE_HEAD; g < PAD_ALL_ROWS; g++) {
        p.first[g] = n + p.total;
        if (!sizes[g]) continue;
        p.rows[g] = round_up(sizes[g], row_unit(sizes[g])) - sizes[g];
        p.total += p.rows[g];
        p.most += row_unit(sizes[g]);
    }
    p.first[PAD_ALL_ROWS] = n;
    if (!sizes[PAD_ALL_ROWS]) return p;
    p.rows[PAD_ALL_ROWS] = p.total = round_up(n + p.most, row_unit(n)) - n; /* with room for the heads' */
    p.most += row_unit(n);
    return p;
}

/* Appends sequences of padding: short ones to a batch of short ones (sequences_are_short), or else one. */
static void pad_offsets(Batch *padded, const Batch *batch, const PadRows *p) {
    Tensor own = batch->fields[BATCH_OFFSETS];
    const int32_t *from = own.data;
    int32_t end = (int32_t)(batch->n_tokens + p->total);
    int64_t n = own.dims[0] - 1, longest = sequences_are_short(from, n) ? SHORT_SEQUENCE : p->most,
            more = p->most ? (p->most + longest - 1) / longest : 0,
            count = round_up(n, unit_of(n, 4, 1, INT32_MAX)) + more;
    int32_t *to = batch_push_1d(padded, BATCH_OFFSETS, DTYPE_I32, count + 1).data;
    memcpy(to, from, tensor_bytes(own));
    for (int64_t s = n; s < count; s++) to[s + 1] = end - to[s] < longest ? end : to[s] + (int32_t)longest;
}

static void pad_field(Batch *padded, int field, Tensor own, FieldPad pad, const PadRows *p) {
    Tensor shape = own;
    int64_t n = own.dims[0];
    if (pad.kind != PAD_NOT) shape.dims[0] += p->rows[pad.group];
    int32_t *to = batch_push(padded, field, shape).data;
    memcpy(to, own.data, tensor_bytes(own));
    for (int64_t i = n; i < shape.dims[0]; i++)
        to[i] = pad.kind == PAD_REPEATED  ? to[i - n]
                : pad.kind == PAD_NEW_ROW ? (int32_t)(p->first[pad.group] + i - n)
                                          : -1;
}

size_t batch_padded_bytes(size_t bytes) {
    return bytes + bytes / 4 + BATCH_MAX_FIELDS * (MOST_ROWS * sizeof(int32_t) + BATCH_LINE);
}

void batch_pad(Batch *padded, const Batch *batch, const FieldPad *pads) {
    const PadRows p = count_rows(batch, pads);
    batch_clear(padded);
    pad_offsets(padded, batch, &p);
    for (int f = BATCH_OFFSETS + 1; f < batch->n_fields; f++)
        if (tensor_given(batch->fields[f])) pad_field(padded, f, batch->fields[f], pads[f], &p);
    padded->n_fields = batch->n_fields;
    padded->fields[batch->n_fields] = batch->fields[batch->n_fields];
    padded->n_sequences = batch->n_sequences;
    padded->n_tokens = batch->n_tokens + p.total;
}
