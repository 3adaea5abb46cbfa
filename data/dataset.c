#include "data/dataset.h"

#include <string.h>

#include "base/file.h"

Dataset *dataset_new(Dataset dataset) {
    Dataset *copy = xmalloc(sizeof *copy);
    *copy = dataset;
    return copy;
}

int64_t dataset_hash(const Dataset *dataset) {
    uint64_t hash = HASH_START;
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        int64_t tokens = dataset->tokens(dataset, i);
        double counts[BATCH_MAX_COUNTS] = {0};
        const char *id = dataset->sample_id(dataset, i);
        dataset->counts(dataset, i, counts);
        hash = hash_bytes(hash_bytes(hash, id, strlen(id)), &tokens, sizeof tokens);
        hash = hash_bytes(hash, counts, sizeof counts);
    }
    return (int64_t)hash;
}

int64_t dataset_content_hash(const Dataset *dataset) {
    uint64_t hash = 0;
    for (int64_t i = 0; dataset && i < dataset->n_samples; i++) {
        uint64_t content = dataset->content(dataset, i);
        hash = checksum(hash, &content, sizeof content);
    }
    return (int64_t)hash;
}
