#include "train/plan/fit.h"

#include "base/format.h"

static _Noreturn void die_too_large(const TrainSpec *spec, const MemoryPlan *plan, size_t available) {
    char need[32], have[32], headroom[MEMORY_TEXT], text[CHANGES_TEXT];
    Changes changes = sizing_changes(spec, available);
    die("the run needs %s and %s are available%s; %s", format_bytes((double)memory_total(plan), need),
        format_bytes((double)available, have), memory_headroom_text(spec->device, headroom),
        sizing_changes_text(spec, &changes, text));
}

void fit_check(const TrainSpec *spec, const MemoryPlan *plan) {
    size_t available = memory_available(spec->device);
    if (train_to_allocate(spec, plan) > available) die_too_large(spec, plan, available);
}

/* Dry runs load libraries and kernels, which take memory too, so the first dry run comes before the available memory is
 * read. If other programs have meanwhile taken so much that the choice does not fit, chooses again, at most twice. */
void fit_choose_batch(const TrainSpec *spec, DType half) {
    enum { ROUNDS = 3 };
    (void)train_plan_of(spec, spec->options, half);
    for (int round = 1;; round++) {
        BatchChoice choice = sizing_choose_batch(spec, half, memory_available(spec->device), NULL);
        MemoryPlan plan = train_plan_of(spec, spec->options, half);
        size_t available = memory_available(spec->device);
        if (train_to_allocate(spec, &plan) <= available || choice.most_at_once < choice.size) {
            sizing_print_choice(spec, &choice);
            return;
        }
        if (round == ROUNDS) die_too_large(spec, &plan, available);
    }
}
