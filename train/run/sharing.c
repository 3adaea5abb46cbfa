#include "train/run/sharing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/spawn.h"
#include "train/parallel/advice.h"
#include "train/parallel/probe.h"
#include "train/parallel/ranks.h"
#include "train/plan/buckets.h"
#include "train/plan/memory.h"

static void print_link(const Exchange *x, const Link *link) {
    FlatRange bucket = reducer_bucket(&x->reducer, 0);
    char bytes[32];
    printf("[Link] %s between %d cards, %.0f us an exchange (measured, buckets of %s)\n", link->name, x->group->size,
           link->latency * 1e6, format_bytes(sizeof(float) * (double)(bucket.end - bucket.begin), bytes));
}

/* Returns the ways of the ranks to share a step over a link. */
static Advice advise(const Run *run, const Link *link) {
    const TrainSpec *spec = &run->t->spec;
    const TrainOptions *o = spec->options;
    const Exchange *x = run->t->exchange;
    int ranks = x->group->size;
    double moments = 2 * sizeof(float) * (double)spec->model->params.flat_count,
           planned = (double)run->t->planned_bytes;
    Batch batch = train_largest_batch(spec, o);
    StepParts parts = buckets_step(spec, &batch, &run->machine, ranks);
    batch_close(&batch);
    Advice advice =
        advice_of(&(AdviceRequest){.parts = &parts,
                                   .link = *link,
                                   .sharing = {.ranks = ranks,
                                               .micro_batches = run->accumulation / ranks,
                                               .divided = x->sharded,
                                               .reduce_bytes = !strcmp(o->reduce_type, "bf16") ? 2 : 4,
                                               .parameter_bytes = tensor_given(spec->model->half_weights) ? 2 : 4,
                                               .small = 2 + x->sharded + (run->n_moving > 0)},
                                   .available = ranks,
                                   .whole_step = o->whole_step && !o->g_of_each,
                                   .bytes = planned + (x->sharded ? moments * (1 - 1.0 / ranks) : 0),
                                   .moments = moments,
                                   .memory = planned + (double)memory_available(spec->device)});
    advice.request.parts = NULL;
    free(parts.buckets);
    return advice;
}

/* Asks for the chosen way, and ends with all other ranks. Returns if it cannot be asked for. */
static void start_again(const Run *run, const Advice *advice) {
    const Sharing *s = &advice->ways[advice->chosen].sharing;
    OWNED char *g = xformat("%lld", (long long)(s->micro_batches * (advice->request.whole_step ? s->ranks : 1)));
    const char *const options[] = {"-g", g, "--zero", s->divided ? "1" : "0", NULL};
    const bool g_follows = run->t->spec.options->effective_batch != 0;
    if (!spawn_again(s->ranks, g_follows ? options + 2 : options)) return;
    fflush(NULL);
    exit(SPAWN_AGAIN);
}

/* Has the options say what --gpus auto has become, for the log and for checkpoints. */
static void settle(const TrainSpec *spec, int ranks) {
    if (!spec->options->automatic_gpus) return;
    char text[16];
    snprintf(text, sizeof text, "%d", ranks);
    *(const char **)options_holding(spec->set, &spec->options->gpus)->value = xkeep(text, sizeof text);
}

void sharing_begin(Run *run) {
    static bool done; /* once in a process: cards and links stay */
    Exchange *x = run->t->exchange;
    const TrainOptions *o = run->t->spec.options;
    if (done || !x || !x->group->queues) return;
    done = true;
    Link link = probe_link(&x->reducer);
    x->group->rate = link.rate;
    print_link(x, &link);
    if (!run->has_machine) {
        if (o->automatic_gpus)
            printf("[Cards] what a step takes is not known of this card: --calibrate measures it; all %d are taken\n",
                   x->group->size);
        settle(&run->t->spec, x->group->size);
        return;
    }
    Advice advice = advise(run, &link);
    ranks_share(&advice.chosen, sizeof advice.chosen); /* others may have more memory, or less */
    char text[ADVICE_TEXT];
    printf("[Cards] predicted: %s\n", advice_text(&advice, text));
    if (advice.chosen != advice.asked && o->automatic_gpus && spawn_may_ask()) start_again(run, &advice);
    if (advice.chosen != advice.asked && !o->automatic_gpus) {
        char way[64];
        printf("[Cards] the options stay as given; %s would be faster\n", advice_way_text(&advice, advice.chosen, way));
    }
    settle(&run->t->spec, x->group->size);
}
