/* Attention of new rows over cached keys and values: memory-bound, each key and value is read once. A work item is
 * (sequence, head, part of CACHED_PART rows). A sequence of several parts keeps the largest score, the sum of the
 * exponentials and the output of each, which are then combined in the order of the parts. Parts are counted from the
 * first row of a sequence, so that its result depends neither on the threads nor on the other sequences. */
#include "kernels/cpu/simd.h"

enum { CACHED_PART = 256, CACHED_STATE = 16 }; /* floats before a part's output: the largest score and the sum */

static void cpu_cache_rows(Device *device, Tensor kv, Tensor qkv, Tensor rows) {
    check_indices("cache_rows", "rows", rows, 0, kv.dims[0]);
    const int32_t *row = rows.data;
    int64_t width = kv.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < qkv.dims[0]; i++)
        memcpy((float *)kv.data + row[i] * width, (const float *)qkv.data + i * qkv.dims[1] + width / 2,
               (size_t)width * sizeof(float));
}

/* Computes a part of one head: rows k[j width], j < n, whose values lie `c` floats behind. Writes the largest score,
 * the sum of exp(score - largest) and the sum of exp(score - largest) value. */
static void attend_part(float *state, const float *q, const float *k, int64_t n, int64_t width, int64_t c,
                        int64_t head_size, float scale) {
    float scores[CACHED_PART], largest = -INFINITY, sum = 0, *out = state + CACHED_STATE;
    for (int64_t j = 0; j < n; j++) {
        const float *key = k + j * width;
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < head_size; i++) dot = multiply_add(q[i], key[i], dot);
        scores[j] = scale * dot;
    }
#pragma omp simd reduction(max : largest)
    for (int64_t j = 0; j < n; j++) largest = scores[j] > largest ? scores[j] : largest;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        scores[j] = exp_approximate(scores[j] - largest);
        sum += scores[j];
    }
    state[0] = largest, state[1] = sum;
    for (int64_t i = 0; i < head_size; i++) out[i] = 0;
    const float *v = k + c;
    int64_t j = 0;
    for (; j + 4 <= n; j += 4, v += 4 * width) { /* out is loaded and stored once for four rows */
        float p0 = scores[j], p1 = scores[j + 1], p2 = scores[j + 2], p3 = scores[j + 3];
#pragma omp simd
        for (int64_t i = 0; i < head_size; i++)
            out[i] = multiply_add(
                p3, v[3 * width + i],
                multiply_add(p2, v[2 * width + i], multiply_add(p1, v[width + i], multiply_add(p0, v[i], out[i]))));
    }
    for (; j < n; j++, v += width)
#pragma omp simd
        for (int64_t i = 0; i < head_size; i++) out[i] = multiply_add(scores[j], v[i], out[i]);
}

/* Combines the n parts of a head, `stride` floats apart, into its row of the output. */
static void combine_parts(float *to, const float *parts, int64_t n, int64_t stride, int64_t head_size) {
    float largest = parts[0], sum = 0;
    for (int64_t part = 1; part < n; part++) largest = parts[part * stride] > largest ? parts[part * stride] : largest;
    for (int64_t i = 0; i < head_size; i++) to[i] = 0;
    for (int64_t part = 0; part < n; part++) {
        const float *state = parts + part * stride, *out = state + CACHED_STATE;
        float factor = exp_approximate(state[0] - largest);
        sum = multiply_add(factor, state[1], sum);
#pragma omp simd
        for (int64_t i = 0; i < head_size; i++) to[i] = multiply_add(factor, out[i], to[i]);
    }
    float inverse = 1.0f / sum;
    for (int64_t i = 0; i < head_size; i++) to[i] *= inverse;
}

static void cpu_attention_cached_forward(Device *device, Tensor out, Tensor qkv, CachedKeys keys, Attention attention) {
    const char *op = "attention_cached_forward";
    check_indices(op, "slots", keys.slots, 0, keys.kv.dims[0] / keys.capacity);
    check_indices(op, "lengths", keys.lengths, 1, keys.longest + 1);
    const int32_t *slots = keys.slots.data, *lengths = keys.lengths.data;
    int64_t c = out.dims[1], heads = attention.n_heads, size = c / heads, items = out.dims[0] * heads;
    int64_t most = (keys.longest + CACHED_PART - 1) / CACHED_PART, stride = CACHED_STATE + whole_lines(size);
    float *states = cpu_scratch(device, (size_t)(items * most * stride));
#pragma omp parallel num_threads(device->n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t work = 0; work < items * most; work++) {
            int64_t item = work / most, first = work % most * CACHED_PART, s = item / heads, head = item % heads;
            int64_t n = lengths[s] - first < CACHED_PART ? lengths[s] - first : CACHED_PART;
            if (n <= 0) continue;
            attend_part(states + work * stride, (const float *)qkv.data + s * 3 * c + head * size,
                        (const float *)keys.kv.data + (slots[s] * keys.capacity + first) * 2 * c + head * size, n,
                        2 * c, c, size, attention.scale);
        }
#pragma omp for schedule(static)
        for (int64_t item = 0; item < items; item++)
            combine_parts((float *)out.data + item * size, states + item * most * stride,
                          (lengths[item / heads] + CACHED_PART - 1) / CACHED_PART, stride, size);
    }
}
