/* Rows of counts, of which most are zero. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

/* Row i counts each of columns[first[i]] .. columns[first[i + 1] - 1] once; a column may be there several times. */
typedef struct {
    int64_t n, *first; /* [n + 1] */
    int32_t *columns;
} SparseRows;

static inline void sparse_rows_free(SparseRows *rows) {
    free(rows->first);
    free(rows->columns);
    *rows = (SparseRows){.n = 0};
}
