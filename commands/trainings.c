#include "commands/trainings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/format.h"
#include "base/stop.h"
#include "checkpoint/checkpoint.h"

Trainings trainings_begin(const TrainOptions *options) {
    char *earlier = checkpoint_resolve(options->output_dir, "auto");
    if (earlier)
        die("%s already holds a run (%s), and the folders of several trainings go there: give another --output-dir",
            options->output_dir, earlier);
    return (Trainings){.options = options, .start = seconds_now()};
}

void trainings_name(Trainings *t, int follow, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->part, sizeof t->part, format, arguments);
    va_end(arguments);
    t->follow = follow;
}

void trainings_label(const Trainings *t, TrainSpec *spec) {
    if (!t) return;
    spec->labels.part = t->part;
    spec->labels.follow = t->follow;
}

void trainings_add(Trainings *t, Training *training) {
    if (!t) return;
    t->seconds_before += train_state(training)->seconds;
    t->cost_before += train_state(training)->cost;
}

void trainings_end(const Trainings *t, bool done, const char *to_continue) {
    const Price *price = &t->options->price;
    double here = seconds_now() - t->start, cost = price_cost(price, here);
    bool whole = !isnan(t->cost_before);
    char duration[32], amount[64];
    if (!done) printf("[Run] stopped by signal %d; %s\n", stop_signal(), to_continue);
    printf("[Run] in all: %s", format_duration(t->seconds_before + here, duration));
    if (price->per_hour > 0)
        printf(", %s%s", price_amount(price, whole ? t->cost_before + cost : cost, amount),
               whole ? "" : " in this part");
    printf("\n");
}
