/* Depthwise convolutions in time inside sequences: for each row, COLUMNS channels at a time, the sum over the taps. */
#include "kernels/cpu/simd.h"

/* Returns the sequence that a row lies in. */
static int sequence_of(Sequences sequences, int64_t row) {
    int first = 0, last = sequences.count - 1;
    while (first < last) {
        int middle = first + (last - first + 1) / 2;
        if (sequences.host_offsets[middle] <= row)
            first = middle;
        else
            last = middle - 1;
    }
    return first;
}

static void cpu_depthwise_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Sequences sequences,
                                  DepthwiseWindow window) {
    int64_t c = x.dims[1], taps = window.taps;
    float *by_tap = cpu_scratch(device, (size_t)(c * taps)); /* [taps, C], so that channels lie side by side */
    for (int64_t j = 0; j < c; j++)
        for (int64_t tap = 0; tap < taps; tap++) by_tap[tap * c + j] = ((const float *)w.data)[j * taps + tap];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < x.dims[0]; row++) {
        int s = sequence_of(sequences, row);
        for (int64_t at = 0; at < c; at += COLUMNS) {
            int64_t width = c - at < COLUMNS ? c - at : COLUMNS;
            float sums[COLUMNS] = {0};
            for (int64_t j = 0; bias.data && j < width; j++) sums[j] = ((const float *)bias.data)[at + j];
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t seen = row + tap * window.dilation - window.before;
                if (seen < sequences.host_offsets[s] || seen >= sequences.host_offsets[s + 1]) continue;
                const float *in = (const float *)x.data + seen * c + at, *factors = by_tap + tap * c + at;
                for (int64_t j = 0; j < width; j++) sums[j] = multiply_add(factors[j], in[j], sums[j]);
            }
            memcpy((float *)y.data + row * c + at, sums, (size_t)width * sizeof *sums);
        }
    }
}
