/* The most probable ids are taken from a heap, which costs n + k log n for k of them, as few as are needed. */
#include "model/sampling.h"

#include <math.h>

#include "kernels/philox.h"

bool sampling_is_valid(const Sampling *s, Error *error) {
    if (!(s->repetition_penalty > 0 && isfinite(s->repetition_penalty)))
        return error_set(error, "the repetition penalty is %g, expected more than 0", (double)s->repetition_penalty);
    if (!(s->temperature >= 0 && isfinite(s->temperature)))
        return error_set(error, "the temperature is %g, expected 0 or more", (double)s->temperature);
    if (s->top_k < 0) return error_set(error, "top-k is %d, expected 0 or more", s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return error_set(error, "top-p is %g, expected more than 0 and at most 1", (double)s->top_p);
    return true;
}

/* Returns the id of the largest logit, the first of equal ones; -1: see sample_id. */
static int32_t most_probable(const float *logits, int n) {
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY) return -1;
        if (logits[i] > (best < 0 ? -INFINITY : logits[best])) best = i;
    }
    return best;
}

/* ---- a heap of ids, the most probable on top ---- */

static bool comes_first(const float *logits, int32_t a, int32_t b) {
    if (logits[a] != logits[b]) return logits[a] > logits[b];
    return a < b;
}

static void sift_down(const float *logits, int32_t *heap, int n, int at) {
    int32_t id = heap[at];
    for (int child = 2 * at + 1; child < n; at = child, child = 2 * at + 1) {
        if (child + 1 < n && comes_first(logits, heap[child + 1], heap[child])) child++;
        if (!comes_first(logits, heap[child], id)) break;
        heap[at] = heap[child];
    }
    heap[at] = id;
}

static void make_heap(const float *logits, int32_t *heap, int n) {
    for (int i = 0; i < n; i++) heap[i] = i;
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(logits, heap, n, i);
}

/* Moves the top of n ids behind the others. */
static void pop(const float *logits, int32_t *heap, int n) {
    int32_t top = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = top;
    sift_down(logits, heap, n - 1, 0);
}

/* ---- drawing ---- */

/* Probabilities times a constant. */
static float weight_of(float logit, float largest, float temperature) { return expf((logit - largest) / temperature); }

/* Returns the first of the k ids from the end of ids[n] down, whose weights and those before it are more than `target`.
 */
static int32_t draw_backwards(const float *weights, const int32_t *ids, int n, int k, double target) {
    double sum = 0;
    int at = n - 1;
    for (; at > n - k; at--) {
        sum += (double)weights[ids[at]];
        if (sum > target) break;
    }
    return ids[at];
}

/* Draws from the most probable ids: top_k, and of these as many as top_p asks for. u is in [0, 1). */
static int32_t draw_from_top(const Sampling *s, float *logits, int n, int32_t *heap, float largest, double u) {
    int k = s->top_k && s->top_k < n ? s->top_k : n, kept = 0;
    double total = 0, sum = 0;
    make_heap(logits, heap, n);
    if (k < n)
        for (int i = 0; i < k; i++) pop(logits, heap, n - i);
    for (int i = n - k; i < n; i++) total += (double)weight_of(logits[heap[i]], largest, s->temperature);
    while (kept < k && (!kept || s->top_p == 1 || sum < (double)s->top_p * total)) {
        if (k == n) pop(logits, heap, n - kept);
        sum += (double)weight_of(logits[heap[n - 1 - kept++]], largest, s->temperature);
    }
    for (int i = n - kept; i < n; i++) logits[heap[i]] = weight_of(logits[heap[i]], largest, s->temperature);
    return draw_backwards(logits, heap, n, kept, u * sum);
}

static int32_t draw_from_all(const Sampling *s, float *logits, int n, int32_t best, double u) {
    float largest = logits[best];
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) total += (double)(logits[i] = weight_of(logits[i], largest, s->temperature));
    for (int32_t i = 0; i < n; i++)
        if ((sum += (double)logits[i]) > u * total) return i;
    return best;
}

int32_t sample_id(const Sampling *s, Draw draw, float *logits, int n, const uint8_t *seen, int32_t *room) {
    for (int i = 0; i < n && s->repetition_penalty != 1; i++)
        if (seen[i]) logits[i] = logits[i] > 0 ? logits[i] / s->repetition_penalty : logits[i] * s->repetition_penalty;
    int32_t best = most_probable(logits, n);
    if (best < 0 || s->temperature == 0) return best;
    Philox random = philox(s->seed, PURPOSE_GENERATE, draw.sequence, draw.position);
    double u = ((double)(random.x[0] >> 6) * 0x1p27 + (double)(random.x[1] >> 5)) * 0x1p-53;
    if (s->top_k || s->top_p < 1) return draw_from_top(s, logits, n, room, logits[best], u);
    return draw_from_all(s, logits, n, best, u);
}
