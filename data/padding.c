/* Rows of a batch are rounded up to a multiple of 8 to 128, by at most a sixteenth or 7 rows: most of that costs
 * nothing, because products compute tiles of 128 rows in any case. Lists of rows, of heads that are a small part of the
 * work, are rounded up to a multiple of 8 to 256, a fourth of them at most from 32 on, so that few of their sizes go
 * with each size of the batch. */
#include "data/padding.h"

#include <assert.h>
#include <string.h>

#include "kernels/ops.h"

enum {
    ROW_SHARE = 16,
    LIST_SHARE = 4,
    SEQUENCE_SHARE = 4,
    LEAST_UNIT = 8,
    MOST_ROW_UNIT = PADDED_SEQUENCE,
    MOST_LIST_UNIT = 256
};

/* Returns the largest power of two that is at most n / share, within bounds. */
static int64_t unit_of(int64_t n, int64_t share, int64_t least, int64_t most) {
    int64_t unit = least;
    while (2 * unit <= most && 2 * unit * share <= n) unit *= 2;
    return unit;
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* The rows of padding of a batch, and that of which they make its rows a multiple. */
typedef struct {
    int64_t n, unit;
} PadRows;

static PadRows count_rows(const Batch *batch, const FieldPad *pads) {
    int64_t unit = 1;
    for (int f = BATCH_OFFSETS + 1; f < batch->n_fields && unit == 1; f++)
        if (pads[f].kind != PAD_NOT && tensor_given(batch->fields[f]))
            unit = unit_of(batch->n_tokens, ROW_SHARE, LEAST_UNIT, MOST_ROW_UNIT);
    return (PadRows){round_up(batch->n_tokens, unit) - batch->n_tokens, unit};
}

/* Appends sequences of padding, so many that they are enough for as many rows as there may be: short ones to a batch of
 * short ones (sequences_are_short), which so remains one, or else a single one. */
static void pad_offsets(Batch *padded, const Batch *batch, PadRows rows) {
    Tensor own = batch->fields[BATCH_OFFSETS];
    int32_t end = (int32_t)(batch->n_tokens + rows.n);
    int64_t n = own.dims[0] - 1, longest = sequences_are_short(own.data, n) ? SHORT_SEQUENCE : rows.unit,
            count = round_up(n, unit_of(n, SEQUENCE_SHARE, 1, INT32_MAX)) + (rows.unit - 1 + longest - 1) / longest;
    int32_t *to = batch_push_1d(padded, BATCH_OFFSETS, DTYPE_I32, count + 1).data;
    memcpy(to, own.data, tensor_bytes(own));
    for (int64_t s = n; s < count; s++) to[s + 1] = end - to[s] < longest ? end : to[s] + (int32_t)longest;
}

/* Returns how many rows of padding a field of the batch gets: a list never more than makes it as long as the batch. */
static int64_t more_rows(FieldPad pad, const Batch *batch, int64_t n, PadRows rows) {
    if (pad.kind == PAD_NOT) return 0;
    if (pad.size == PAD_ALL_ROWS) return rows.n;
    int64_t room = pad.size == PAD_LIST_AND_NEW ? rows.unit - 1 : 0, most = batch->n_tokens + rows.n,
            rounded = round_up(n + room, unit_of(n, LIST_SHARE, LEAST_UNIT, MOST_LIST_UNIT));
    return (rounded < most ? rounded : most) - n;
}

static void pad_field(Batch *padded, int field, const Batch *batch, FieldPad pad, PadRows rows) {
    Tensor own = batch->fields[field], shape = own;
    int64_t n = own.dims[0];
    shape.dims[0] += more_rows(pad, batch, n, rows);
    assert(n || pad.kind != PAD_REPEATED || shape.dims[0] == n);
    int32_t *to = batch_push(padded, field, shape).data;
    memcpy(to, own.data, tensor_bytes(own));
    for (int64_t i = n; i < shape.dims[0]; i++)
        to[i] = pad.kind == PAD_REPEATED                    ? to[i - n]
                : pad.kind == PAD_NEW_ROW && i - n < rows.n ? (int32_t)(batch->n_tokens + i - n)
                                                            : -1;
}

size_t batch_padded_bytes(size_t bytes) {
    size_t most = MOST_LIST_UNIT + MOST_ROW_UNIT; /* rows; and a fourth more sequences */
    return bytes + bytes / 4 + BATCH_MAX_FIELDS * (most * sizeof(int32_t) + BATCH_LINE);
}

void batch_pad(Batch *padded, const Batch *batch, const FieldPad *pads, bool shapes) {
    const PadRows rows = count_rows(batch, pads);
    batch_clear(padded);
    pad_offsets(padded, batch, rows);
    for (int f = BATCH_OFFSETS + 1; f < batch->n_fields; f++) {
        if (!tensor_given(batch->fields[f])) continue;
        if (shapes && pads[f].kind == PAD_NOT)
            batch_push(padded, f, batch->fields[f]);
        else
            pad_field(padded, f, batch, pads[f], rows);
    }
    padded->n_fields = batch->n_fields;
    padded->fields[batch->n_fields] = batch->fields[batch->n_fields];
    padded->n_sequences = batch->n_sequences;
    padded->n_tokens = batch->n_tokens + rows.n;
}
