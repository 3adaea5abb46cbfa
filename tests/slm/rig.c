#include "tests/slm/rig.h"

#include "kernels/philox.h"

SlmConfig slm_config_small(float dropout) {
    return (SlmConfig){.vocabulary = 53,
                       .context = 12,
                       .d_model = 32,
                       .n_layers = 2,
                       .n_heads = 4,
                       .gelu = GELU_ERF,
                       .dropout = dropout};
}

Batch slm_batch_of(const int32_t *stream, const int32_t *offsets, int n) {
    int64_t rows = offsets[n];
    Batch batch = batch_open((size_t)(3 * rows + n) * 4 + 1024, n);
    batch_clear(&batch);
    memcpy(batch_push_1d(&batch, SLM_OFFSETS, DTYPE_I32, n + 1).data, offsets, (size_t)(n + 1) * sizeof *offsets);
    memcpy(batch_push_1d(&batch, SLM_IDS, DTYPE_I32, rows).data, stream, (size_t)rows * sizeof *stream);
    int32_t *positions = batch_push_1d(&batch, SLM_POSITIONS, DTYPE_I32, rows).data;
    for (int s = 0; s < n; s++)
        for (int32_t row = offsets[s]; row < offsets[s + 1]; row++) positions[row] = row - offsets[s];
    memcpy(batch_push_1d(&batch, SLM_TARGETS, DTYPE_I32, rows).data, stream + 1, (size_t)rows * sizeof *stream);
    batch.n_sequences = n;
    batch.n_tokens = rows;
    batch.counts[SLM_COUNT_TOKENS] = (double)rows;
    batch.counts[SLM_COUNT_BYTES] = 4 * (double)rows;
    return batch;
}

Batch slm_batch_random(int vocabulary, int64_t first, const int32_t *lengths, int n) {
    int32_t *offsets = xcalloc((size_t)n + 1, sizeof *offsets);
    for (int s = 0; s < n; s++) offsets[s + 1] = offsets[s] + lengths[s];
    int32_t *stream = xcalloc((size_t)offsets[n] + 1, sizeof *stream);
    for (int64_t i = 0; i <= offsets[n]; i++)
        stream[i] = (int32_t)(philox_bits(1, PURPOSE_TEST, 0, (uint64_t)(first + i)) % (uint32_t)vocabulary);
    Batch batch = slm_batch_of(stream, offsets, n);
    free(offsets);
    free(stream);
    return batch;
}
