#include "commands/trainings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "base/program.h"
#include "base/stop.h"
#include "checkpoint/checkpoint.h"
#include "train/parallel/ranks.h"

Trainings trainings_begin(const TrainOptions *options, const char *to_continue) {
    char *earlier = checkpoint_resolve(options->output_dir, "auto");
    if (earlier)
        die("%s already holds a run (%s), and the folders of several trainings go there: give another --output-dir",
            options->output_dir, earlier);
    return (Trainings){.options = options, .to_continue = to_continue, .start = seconds_now()};
}

/* ---- side by side ---- */

void trainings_deal(Trainings *t, int n) {
    int ranks = ranks_job_count();
    t->dealt = ranks > 1 && ranks_count() == 1;
    if (!t->dealt) return;
    printf("[Ranks] %d trainings side by side; lines of ranks other than the first begin with their number\n", n);
    if (n < ranks) printf("[Ranks] %d of %d ranks have nothing to train\n", ranks - n, ranks);
    program_speak_as_rank();
}

bool trainings_train(const Trainings *t, int i) {
    if (!t) return true;
    ranks_part(t->dealt);
    return !t->tests && (!t->dealt || i % ranks_job_count() == ranks_job_rank());
}

bool trainings_test(const Trainings *t) {
    if (!t) return true;
    ranks_part(true);
    return t->dealt == t->tests && !ranks_job_rank();
}

void trainings_fail(Trainings *t, int status) {
    if (!t || !t->dealt) exit(status);
    t->status = status;
}

/* Tells what is left when another rank is lost. */
static char *say_kept(void *trainings) {
    const Trainings *t = trainings;
    return xformat("What its and other trainings have written is kept; %s", t->to_continue);
}

bool trainings_again(Trainings *t) {
    ranks_part(false);
    if (!t->dealt) ranks_end(0);
    if (!t->dealt || t->tests) return false;
    ranks_on_loss(say_kept, t);
    stop_defer(true); /* a signal to a rank that waits does not end those that train */
    int status = ranks_largest(t->status), signal = ranks_largest(stop_signal());
    stop_defer(false);
    ranks_on_loss(NULL, NULL);
    if (signal && !stop_signal()) stop_remember(signal);
    if (status && !ranks_job_rank()) warn("a training has failed: see its message; nothing is tested");
    ranks_end(status);
    if (status) exit(status);
    t->tests = !signal;
    return t->tests;
}

/* ---- each of them ---- */

void trainings_name(Trainings *t, int follow, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->part, sizeof t->part, format, arguments);
    va_end(arguments);
    t->follow = t->dealt ? follow / ranks_job_count() : follow;
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

void trainings_end(const Trainings *t, bool done) {
    const Price *price = &t->options->price;
    double here = seconds_now() - t->start, cost = price_cost(price, here);
    bool whole = !isnan(t->cost_before);
    char duration[32], amount[64];
    if (!done) printf("[Run] stopped by signal %d; %s\n", stop_signal(), t->to_continue);
    printf("[Run] in all: %s", format_duration(t->seconds_before + here, duration));
    if (price->per_hour > 0)
        printf(", %s%s", price_amount(price, whole ? t->cost_before + cost : cost, amount),
               whole ? "" : " in this part");
    printf("\n");
}
