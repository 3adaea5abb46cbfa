/* Rows of a batch are rounded up by at most a sixteenth, and by at most 127: most of that costs nothing, because
 * products compute tiles of 128 rows in any case. Rows of heads, a small part of the work, are rounded up by a fourth,
 * so that few of their sizes go with each size of the batch. */
#include "data/padding.h"

#include <string.h>

#include "kernels/ops.h"

enum { ROW_SHARE = 16, HEAD_SHARE = 4, SEQUENCE_SHARE = 4, LEAST_UNIT = 8, MOST_ROW_UNIT = 128, MOST_HEAD_UNIT = 256 };

/* Returns the largest power of two that is at most n / share, within bounds. */
static int64_t unit_of(int64_t n, int64_t share, int64_t least, int64_t most) {
    int64_t unit = least;
    while (2 * unit <= most && 2 * unit * share <= n) unit *= 2;
    return unit;
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

typedef struct {
    int64_t rows[PAD_GROUPS]; /* of padding, of each group */
    int64_t total, unit;      /* the batch's rows of padding, fewer than the unit; 0, 1: no field has any */
} PadRows;

static PadRows count_rows(const Batch *batch, const FieldPad *pads) {
    int64_t n = batch->n_tokens, unit = unit_of(n, ROW_SHARE, LEAST_UNIT, MOST_ROW_UNIT), sizes[PAD_GROUPS] = {0};
    bool writes[PAD_GROUPS] = {false};
    PadRows p = {{0}, 0, 1};
    for (int f = batch->n_fields - 1; f > BATCH_OFFSETS; f--) { /* a group's first field decides */
        if (pads[f].kind == PAD_NOT || !tensor_given(batch->fields[f])) continue;
        sizes[pads[f].group] = batch->fields[f].dims[0];
        writes[pads[f].group] |= pads[f].kind == PAD_NEW_ROW;
        p.unit = unit;
    }
    p.rows[PAD_ALL_ROWS] = p.total = round_up(n, p.unit) - n;
    for (int g = PAD_ONE_HEAD; g < PAD_ALL_ROWS; g++)
        p.rows[g] =
            round_up(sizes[g] + (writes[g] ? unit - 1 : 0), unit_of(sizes[g], HEAD_SHARE, LEAST_UNIT, MOST_HEAD_UNIT)) -
            sizes[g];
    return p;
}

/* Appends sequences of padding: short ones to a batch of short ones (sequences_are_short), or else one. */
static void pad_offsets(Batch *padded, const Batch *batch, const PadRows *p) {
    Tensor own = batch->fields[BATCH_OFFSETS];
    const int32_t *from = own.data;
    int32_t end = (int32_t)(batch->n_tokens + p->total);
    int64_t n = own.dims[0] - 1, longest = sequences_are_short(from, n) ? SHORT_SEQUENCE : p->unit,
            count = round_up(n, unit_of(n, SEQUENCE_SHARE, 1, INT32_MAX)) + (p->unit - 1 + longest - 1) / longest;
    int32_t *to = batch_push_1d(padded, BATCH_OFFSETS, DTYPE_I32, count + 1).data;
    memcpy(to, from, tensor_bytes(own));
    for (int64_t s = n; s < count; s++) to[s + 1] = end - to[s] < longest ? end : to[s] + (int32_t)longest;
}

static int32_t number_of(FieldPad pad, const int32_t *own, int64_t i, const Batch *batch, const PadRows *p) {
    if (pad.kind == PAD_REPEATED) return own[i];
    return pad.kind == PAD_NEW_ROW && i < p->total ? (int32_t)(batch->n_tokens + i) : -1;
}

static void pad_field(Batch *padded, int field, const Batch *batch, FieldPad pad, const PadRows *p) {
    Tensor own = batch->fields[field], shape = own;
    int64_t n = own.dims[0];
    if (pad.kind != PAD_NOT) shape.dims[0] += p->rows[pad.group];
    int32_t *to = batch_push(padded, field, shape).data;
    memcpy(to, own.data, tensor_bytes(own));
    for (int64_t i = n; i < shape.dims[0]; i++) to[i] = number_of(pad, to, i - n, batch, p);
}

size_t batch_padded_bytes(size_t bytes) {
    size_t most = MOST_HEAD_UNIT + MOST_ROW_UNIT; /* rows; and a fourth more sequences */
    return bytes + bytes / 4 + BATCH_MAX_FIELDS * (most * sizeof(int32_t) + BATCH_LINE);
}

void batch_pad(Batch *padded, const Batch *batch, const FieldPad *pads) {
    const PadRows p = count_rows(batch, pads);
    batch_clear(padded);
    pad_offsets(padded, batch, &p);
    for (int f = BATCH_OFFSETS + 1; f < batch->n_fields; f++)
        if (tensor_given(batch->fields[f])) pad_field(padded, f, batch, pads[f], &p);
    padded->n_fields = batch->n_fields;
    padded->fields[batch->n_fields] = batch->fields[batch->n_fields];
    padded->n_sequences = batch->n_sequences;
    padded->n_tokens = batch->n_tokens + p.total;
}
