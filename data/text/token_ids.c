/* The growing list of token ids. */
#include <stdlib.h>

#include "data/text/token_ids.h"

void token_ids_grow(TokenIds *ids, int64_t more) {
    ids->capacity = ids->n + more > 2 * ids->capacity ? ids->n + more : 2 * ids->capacity;
    ids->ids = xrealloc(ids->ids, (size_t)ids->capacity * sizeof *ids->ids);
}

void token_ids_free(TokenIds *ids) {
    FREE(ids->ids, ids->cache);
    *ids = (TokenIds){0};
}
