#include "commands/gpt/feature_passes.h"

#include <stdlib.h>
#include <string.h>

/* More rows fall out of the L2 of an L4 between operations; fewer leave an H100 waiting for launches. */
enum { CARD_ROWS = 4096, HOST_ROWS = 1024 };

void pass_types(DType half, PassTarget *target) {
    target->type = half == DTYPE_F16 ? DTYPE_F16 : DTYPE_F32;
    target->voice_type = half == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
}

static void divide(PassPlan *plan, const int64_t *rows, int64_t n) {
    int64_t sum = 0;
    plan->n = 0;
    plan->first = xcalloc((size_t)n + 1, sizeof *plan->first);
    for (int64_t i = 0; i < n; i++) {
        if (!i || sum + rows[i] > plan->rows) {
            plan->first[plan->n++] = i;
            sum = 0;
        }
        sum += rows[i];
    }
    plan->first[plan->n] = n;
}

ClipLength *pass_lengths(const PassPlan *plan, const int64_t *rows, int64_t k) {
    int64_t first = plan->first[k], n = plan->first[k + 1] - first;
    ClipLength *lengths = xmalloc((size_t)n * sizeof *lengths);
    for (int64_t i = 0; i < n; i++) lengths[i] = (ClipLength){rows[first + i], rows[first + i]};
    return lengths;
}

int64_t pass_repeats(const PassPlan *plan, const int64_t *rows, int64_t k) {
    const int64_t first = plan->first[k], n = plan->first[k + 1] - first;
    int64_t next = k + 1;
    while (next < plan->n && plan->first[next + 1] - plan->first[next] == n &&
           !memcmp(rows + first, rows + plan->first[next], (size_t)n * sizeof *rows))
        next++;
    return next - k;
}

/* Measures on a dry device the bytes of the weights, and of the pass that needs most. */
static void measure(PassPlan *plan, const PassTarget *target, const int64_t *rows) {
    const ClipLength shortest = {FEATURE_ROWS_A_SECOND, FEATURE_ROWS_A_SECOND};
    Device *dry = dry_device_open();
    Features features;
    dry->host_memory = target->host_memory;
    features_rehearsal(&features, &FEATURES_INDEXTTS2, dry, target->type, target->voice_type, &shortest, 1);
    plan->weights = dry->allocated;
    for (int64_t k = 0; k < plan->n; k += pass_repeats(plan, rows, k)) {
        OWNED ClipLength *lengths = pass_lengths(plan, rows, k);
        features_rehearse(&features, lengths, (int)(plan->first[k + 1] - plan->first[k]));
    }
    plan->bytes = features.arena.peak;
    features_close(&features);
    device_close(dry);
}

static int64_t most_rows(const PassTarget *target) { return target->host_memory ? HOST_ROWS : CARD_ROWS; }

bool pass_plan(PassPlan *plan, const PassTarget *target, const int64_t *rows, int64_t n) {
    for (plan->rows = most_rows(target);; plan->rows /= 2) {
        divide(plan, rows, n);
        measure(plan, target, rows);
        if (plan->weights + plan->bytes <= target->available) return true;
        if (plan->rows <= FEATURE_ROWS_A_SECOND) return false;
        pass_plan_free(plan);
    }
}

bool pass_plan_serves(const PassPlan *plan, const PassTarget *of, const PassTarget *target) {
    return of->type == target->type && of->voice_type == target->voice_type && of->host_memory == target->host_memory &&
           plan->weights + plan->bytes <= target->available &&
           (plan->rows == most_rows(of) || target->available <= of->available);
}

void pass_plan_free(PassPlan *plan) {
    free(plan->first);
    plan->first = NULL;
}
