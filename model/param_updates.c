/* The segments of the flat buffer that an update treats alike, the matrices that Muon updates, and the masks of rows
 * that are never used. */
#include <stdlib.h>
#include <string.h>

#include "model/params.h"

/* Appends a segment, or extends the last one if this one follows it. Returns the number of segments. */
static int append(Segment *segments, int n, Segment next) {
    Segment *last = n ? &segments[n - 1] : NULL;
    if (next.begin == next.end) return n;
    if (last && last->end == next.begin && last->weight_decay == next.weight_decay && last->group == next.group) {
        last->end = next.end;
        return n;
    }
    segments[n] = next;
    return n + 1;
}

/* Appends the segments of the rows that are trained, all or those with or without matrices. Returns their number. */
typedef enum { ALL_ROWS, MUON_ROWS, OTHER_ROWS } RowsKind;
static int append_rows(const ParamTable *table, float weight_decay, RowsKind kind, Segment *out) {
    int n = 0;
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        int64_t row = param->columns ? param->columns : 1;
        if (param->buffer || (kind == MUON_ROWS && !param->matrices) || (kind == OTHER_ROWS && param->matrices))
            continue;
        n = append(out, n,
                   (Segment){.begin = param->offset + param->frozen_rows * row,
                             .end = param->offset + param->count,
                             .weight_decay = param->decay ? weight_decay : 0,
                             .learning_rate = 1,
                             .group = param->group});
    }
    return n;
}

int params_segments(const ParamTable *table, float weight_decay, Segment **segments) {
    for (int i = 0; i < table->count; i++)
        if (table->items[i].used) die("segments: parameter %s has unused rows", table->items[i].name);
    *segments = xmalloc((size_t)(table->count + 1) * sizeof **segments);
    return append_rows(table, weight_decay, ALL_ROWS, *segments);
}

/* Appends the matrices of a row. Returns the number of all. */
static int append_matrices(MuonMatrix *matrices, int n, const Param *param, float weight_decay) {
    if (param->matrices && (param->frozen_rows || param->used))
        die("Muon: parameter %s has %s rows", param->name, param->frozen_rows ? "frozen" : "unused");
    for (int i = 0; i < param->matrices; i++) {
        int64_t rows = param->rows, columns = param->columns, each;
        if (param->matrices_in_columns)
            each = columns /= param->matrices;
        else
            rows /= param->matrices, each = rows * columns;
        matrices[n++] = (MuonMatrix){.offset = param->offset + i * each,
                                     .stride = param->columns,
                                     .rows = rows,
                                     .columns = columns,
                                     .weight_decay = param->decay ? weight_decay : 0,
                                     .learning_rate = 1,
                                     .group = param->group};
    }
    return n;
}

/* ---- unused rows ---- */

static bool has_unused_rows(const ParamTable *table) {
    for (int i = 0; i < table->count; i++)
        if (table->items[i].used) return true;
    return false;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Returns whether a part of the parameter lies in the segment, and rows of it are unused. */
static bool masks(const Param *param, const Segment *s) {
    return param->used && param->offset < s->end && param->offset + param->count > s->begin;
}

/* Returns the width of the longest rows of the segment such that each lies in one row of a parameter with unused rows,
 * or outside; 0: there is no such parameter. */
static int64_t width_of_rows(const ParamTable *table, const Segment *s) {
    int64_t width = 0;
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        if (!masks(param, s)) continue;
        width = common_divisor(width, param->columns ? param->columns : 1);
        width = common_divisor(width, llabs(param->offset - s->begin));
    }
    return width;
}

/* Sets the mask of a segment whose width is known, and how many elements take part. */
static void set_mask(const ParamTable *table, Segment *s, uint8_t *mask) {
    memset(mask, 1, (size_t)segment_rows(s));
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        int64_t width = param->columns ? param->columns : 1, each = width / s->width;
        for (int64_t r = 0; masks(param, s) && r < param->rows; r++) {
            int64_t from = param->offset + r * width - s->begin;
            if (!param->used[r] && from >= 0) memset(mask + from / s->width, 0, (size_t)each);
        }
    }
    for (int64_t r = 0; r < segment_rows(s); r++) {
        int64_t left = s->end - s->begin - r * s->width;
        s->count += !mask[r] ? 0 : left < s->width ? left : s->width;
    }
}

/* Makes the segments that a step clears: each parameter with unused rows, and what lies between these and those that
 * are overwritten. */
static void make_cleared(const ParamTable *table, ParamUpdates *u) {
    int64_t at = 0;
    u->cleared = xmalloc((size_t)(2 * table->count + 1) * sizeof *u->cleared);
    for (int i = 0; i <= table->count; i++) {
        const Param *param = i < table->count ? &table->items[i] : NULL;
        bool overwritten = param && param_is_overwritten(param);
        if (param && !param->used && !overwritten) continue;
        int64_t begin = param ? param->offset : table->flat_count;
        if (at < begin) u->cleared[u->n_cleared++] = (Segment){.begin = at, .end = begin};
        if (!param) return;
        at = begin + (overwritten ? param_stored(param) : param->count);
        if (!overwritten) u->cleared[u->n_cleared++] = (Segment){.begin = begin, .end = at};
    }
}

/* Makes the masks of all segments and uploads them together. */
static void make_masks(const ParamTable *table, ParamUpdates *u) {
    Segment *lists[] = {u->segments, u->cleared};
    const int lengths[] = {u->n_segments, u->n_cleared};
    uint8_t *host = NULL;
    for (int fill = 0; fill < 2; fill++) { /* first their sizes */
        size_t at = 0;
        for (int list = 0; list < 2; list++)
            for (Segment *s = lists[list]; s < lists[list] + lengths[list]; s++) {
                s->width = width_of_rows(table, s);
                if (!s->width) continue;
                if (fill) set_mask(table, s, host + at), s->used = u->masks + at;
                at += (size_t)segment_rows(s);
            }
        if (fill) break;
        u->mask_bytes = at;
        u->masks = u->device->allocate(u->device, at);
        host = xmalloc(at);
    }
    u->device->upload(u->device, u->masks, host, u->mask_bytes);
    u->device->synchronize(u->device);
    free(host);
}

ParamUpdates params_updates(const ParamTable *table, Device *device, float weight_decay, bool muon) {
    ParamUpdates u = {.device = device};
    int n = 0;
    for (int i = 0; i < table->count && muon; i++) n += table->items[i].matrices;
    if (muon && !n) die("Muon: the model has no transformer blocks, whose matrices it updates");
    u.segments = xmalloc((size_t)(table->count + 1) * sizeof *u.segments);
    u.n_segments = u.n_adamw = append_rows(table, weight_decay, muon ? OTHER_ROWS : ALL_ROWS, u.segments);
    if (muon) {
        u.n_segments += append_rows(table, weight_decay, MUON_ROWS, u.segments + u.n_adamw);
        u.matrices = xmalloc((size_t)n * sizeof *u.matrices);
        for (int i = 0; i < table->count; i++)
            u.n_matrices = append_matrices(u.matrices, u.n_matrices, &table->items[i], weight_decay);
    }
    make_cleared(table, &u);
    if (has_unused_rows(table)) make_masks(table, &u);
    return u;
}

void params_updates_free(ParamUpdates *updates) {
    if (updates->masks) updates->device->release(updates->device, updates->masks, updates->mask_bytes);
    free(updates->segments);
    free(updates->matrices);
    free(updates->cleared);
    *updates = (ParamUpdates){0};
}

int params_moving(const ParamTable *table, Segment **segments) {
    Segment *out = xmalloc((size_t)(table->count + 1) * sizeof *out);
    int n = 0;
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        if (param->moves > 0)
            n = append(out, n, (Segment){.begin = param->offset, .end = param->offset + param->count});
    }
    *segments = out;
    return n;
}
