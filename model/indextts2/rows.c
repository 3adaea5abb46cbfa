#include "model/indextts2/rows.h"

#include <stdlib.h>
#include <string.h>

ClipLength clip_length_subsampled(ClipLength length) {
    return (ClipLength){(length.rows - 1) / 2, (length.valid - 1) / 2};
}

/* Takes the next n numbers of the buffer on the host, and the tensor of them on the device. */
static int32_t *take(int32_t **host, int32_t **device, int64_t n, Tensor *tensor) {
    int32_t *at = *host;
    *tensor = tensor_1d(*device, DTYPE_I32, n);
    *host += n;
    *device += n;
    return at;
}

ClipRows clip_rows_open(Device *device, Arena *arena, const ClipLength *lengths, int n) {
    ClipRows r = {.sequences.count = n};
    for (int s = 0; s < n; s++) {
        r.count += lengths[s].rows;
        r.n_valid += lengths[s].valid;
        if (lengths[s].rows > r.longest) r.longest = lengths[s].rows;
    }
    int64_t numbers = (n + 1) + 2 * n + 2 * r.count + r.n_valid;
    Tensor memory = arena_1d(arena, DTYPE_I32, numbers);
    int32_t *all = xmalloc(tensor_bytes(memory)), *at = all, *to = memory.data;
    int32_t *offsets = take(&at, &to, n + 1, &r.sequences.offsets), *hidden = take(&at, &to, n, &r.hidden),
            *masked = take(&at, &to, n, &r.masked), *positions = take(&at, &to, r.count, &r.positions),
            *rows = take(&at, &to, r.count, &r.rows), *valid = take(&at, &to, r.n_valid, &r.valid);
    int32_t *kept = xcalloc((size_t)(2 * (n + 1)), sizeof *kept); /* host_offsets and host_valid */
    r.host_valid = kept + n + 1;
    offsets[0] = 0;
    for (int s = 0, v = 0; s < n; s++) {
        int32_t first = offsets[s];
        offsets[s + 1] = first + (int32_t)lengths[s].rows;
        hidden[s] = (int32_t)(lengths[s].rows - lengths[s].valid);
        masked[s] = hidden[s] ? offsets[s + 1] - 1 : -1;
        for (int32_t i = 0; i < lengths[s].rows; i++) positions[first + i] = i, rows[first + i] = first + i;
        for (int32_t i = 0; i < lengths[s].valid; i++) valid[v++] = first + i;
        r.host_valid[s + 1] = v;
    }
    memcpy(kept, offsets, (size_t)(n + 1) * sizeof *kept);
    r.sequences.host_offsets = kept;
    device->upload(device, memory.data, all, tensor_bytes(memory));
    device->synchronize(device);
    free(all);
    return r;
}

void clip_rows_close(ClipRows *rows) {
    free((void *)rows->sequences.host_offsets);
    *rows = (ClipRows){0};
}
