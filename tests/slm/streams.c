#include "tests/slm/streams.h"

#include "kernels/philox.h"
#include "tests/helpers.h"

SlmStream *slm_stream_of_rows(const int64_t *rows, int n) {
    int64_t first[MOST_DOCUMENTS + 1] = {0}, bytes[MOST_DOCUMENTS];
    int32_t ids[MOST_IDS];
    for (int d = 0; d < n; d++) {
        first[d + 1] = first[d] + rows[d];
        bytes[d] = 7 * d % 31;
    }
    assert_true(first[n] < MOST_IDS);
    for (int32_t p = 0; p <= first[n]; p++) ids[p] = p;
    return slm_stream_of(ids, first[n] + 1, first, bytes, n, MOST_IDS, -1);
}

SlmStream *slm_stream_of_kind(int which) {
    int64_t rows[MOST_DOCUMENTS];
    int n = which == 2 ? 1 : which == 3 ? 120 : 97;
    for (int d = 0; d < n; d++) {
        uint32_t bits = philox_bits(3, PURPOSE_TEST, (uint32_t)which, (uint64_t)d);
        rows[d] = which == 0   ? 1
                  : which == 1 ? 1 + bits % 3
                  : which == 2 ? 1009
                  : which == 3 ? 1 + (int64_t)(bits % 9) * (bits >> 8) % 83
                               : 15 + bits % 5;
    }
    return slm_stream_of_rows(rows, n);
}

Dataset *slm_dataset_of(const SlmStream *stream, int context, SlmSampling sampling, bool separate) {
    Error error;
    Dataset *dataset = slm_dataset_open(stream, &(SlmDatasetOptions){context, sampling, separate, 5}, &error);
    if (!dataset) fail_msg("%s", error.text);
    return dataset;
}

const int32_t *slm_field(const Batch *batch, int which) { return batch->fields[which].data; }

Batch slm_batch_filled(const Dataset *dataset, int64_t epoch, int32_t first, int n) {
    int32_t *samples = xcalloc((size_t)n, sizeof *samples);
    for (int i = 0; i < n; i++) samples[i] = first + i;
    Batch batch = batch_open(dataset->batch_bytes(dataset, samples, n), n);
    batch.epoch = epoch;
    assert_true(dataset->fill(dataset, &batch, samples, n, NULL));
    free(samples);
    return batch;
}
