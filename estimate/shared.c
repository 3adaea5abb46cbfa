#include "estimate/shared.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"

/* ---- the option ---- */

static const char automatic[] = "auto";

/* Returns the number of cards: N, or those of a list such as 0,2. Dies if the text is neither. */
static int cards_of(const char *text) {
    int listed = 0;
    bool list = strchr(text, ',');
    for (const char *at = text; list; at++) {
        char *end;
        long number = strtol(at, &end, 10);
        if (!isdigit((unsigned char)*at) || (*end && *end != ',') || number < 0)
            die_usage("--gpus %s: expected auto, a number of GPUs from 1 to %d, or a list such as 0,2", text,
                      ADVICE_RANKS);
        listed++;
        if (!*end) break;
        at = end;
    }
    char *end;
    long number = list ? listed : strtol(text, &end, 10);
    if (number < 1 || number > ADVICE_RANKS || (!list && (*end || !isdigit((unsigned char)*text))))
        die_usage("--gpus %s: expected auto, a number of GPUs from 1 to %d, or a list such as 0,2", text, ADVICE_RANKS);
    return (int)number;
}

bool shared_is_automatic(const TrainOptions *o) { return o->gpus && !strcmp(o->gpus, automatic); }

int shared_most(const TrainOptions *o) {
    enum { MOST = 8 }; /* of one machine */
    int most = MOST;
    while (o->grad_accumulation % most) most--;
    return most;
}

/* Makes -g that of all cards. */
static void divide_step(TrainOptions *o, int ranks) {
    if (o->auto_batch && o->batch_size % ranks)
        die_usage("--effective-batch %lld: %d cards cannot share a step of %lld samples; give a multiple of the cards",
                  (long long)o->batch_size, ranks, (long long)o->batch_size);
    if (o->auto_batch) return;
    if (!o->whole_step) o->grad_accumulation *= ranks;
    if (o->grad_accumulation % ranks)
        die_usage("a step of %lld micro-batches cannot be shared by %d cards; give a number of cards that divides it, "
                  "or another -g",
                  (long long)o->grad_accumulation, ranks);
}

/* Plans for trainings in a row, each of which has one card. */
static void plan_apart(TrainOptions *o, int cards) {
    if (o->link) die_usage("--link %s: trainings side by side exchange nothing", o->link);
    o->planned_apart = cards;
    printf("[Cards] the trainings are dealt out to %d cards; each is estimated on one\n", cards);
}

void shared_begin(TrainOptions *o) {
    if (o->planned_ranks) return; /* another part of the same program */
    o->planned_ranks = 1;
    if (!o->gpus && o->link)
        die_usage("--link %s belongs to --gpus: give the number of cards that it connects", o->link);
    if (!o->gpus) return;
    if (shared_is_automatic(o)) {
        if (o->auto_batch) die_usage("--gpus auto and -b auto: each depends on the other; give one of them");
        return;
    }
    int ranks = cards_of(o->gpus);
    if (ranks == 1 && o->link) die_usage("--link %s connects several cards, and --gpus %s is one", o->link, o->gpus);
    bool whole = o->undivided && (o->auto_batch || o->grad_accumulation % ranks);
    if (ranks > 1 && o->in_a_row && (whole || !o->undivided)) {
        plan_apart(o, ranks);
        return;
    }
    if (ranks > 1 && whole)
        die_usage("%d cards cannot share the steps of -g %lld (%s): give -g %d or another multiple of %d, without -b "
                  "auto",
                  ranks, (long long)o->grad_accumulation, o->undivided, ranks, ranks);
    if (ranks > 1) divide_step(o, ranks);
    o->planned_ranks = ranks;
}

/* ---- the time ---- */

static Link link_between(const TrainOptions *o, const Card *card, int ranks) {
    Link link;
    Error error;
    if (!card->capability) die_usage("--gpus %s: %s is no GPU; name a card with --gpu", o->gpus, card->key);
    if (o->link ? link_parse(o->link, card, ranks, &link, &error) : link_of_card(card, ranks, &link, &error))
        return link;
    die_usage("--link%s%s: %s", o->link ? " " : "", o->link ? o->link : "", error.text);
}

/* Returns the seconds of work on the card, without the loader's. */
static double card_seconds(const Machine *machine, const Work *work, const Work *like) {
    Work w = *work;
    for (int op = 0; op < OP_COUNT; op++) w.ops[op].traffic = like->ops[op].traffic;
    WorkTime t = cost_of_work(machine, &w);
    return t.parts[BY_COMPUTE] + t.parts[BY_MEMORY] + t.parts[BY_LAUNCHES] + t.copy;
}

static StepParts parts_of(const Machine *machine, const SharedWork *work, const Work *step, int ranks) {
    StepParts parts = {.first = card_seconds(machine, &work->first, step),
                       .later = card_seconds(machine, &work->later, step),
                       .update = card_seconds(machine, &work->update, step),
                       .loader = work->first.batch_bytes / (cost_loader_rate * machine->workers * ranks),
                       .multiprocessors = machine->card->multiprocessors};
    buckets_time(&work->buckets, machine, step, &parts);
    return parts;
}

SharedTime shared_time(const TrainSpec *spec, const Machine *machine, const SharedWork *work, const Work *step,
                       double bytes) {
    const TrainOptions *o = spec->options;
    int ranks = o->planned_ranks;
    StepParts parts = parts_of(machine, work, step, ranks);
    bool divided = !strcmp(o->zero, "1") && ranks > 1, halved = !strcmp(o->reduce_type, "bf16");
    if (halved && card_half(machine->card) != DTYPE_BF16)
        die_usage("--reduce-type bf16: a %s has no such type", machine->card->key);
    double moments = 2 * sizeof(float) * (double)spec->model->params.flat_count;
    AdviceRequest request = {.parts = &parts,
                             .link = link_between(o, machine->card, ranks),
                             .sharing = {.ranks = ranks,
                                         .micro_batches = o->grad_accumulation / ranks,
                                         .divided = divided,
                                         .reduce_bytes = halved ? 2 : 4,
                                         .parameter_bytes = machine->half == DTYPE_F32 ? 4 : 2,
                                         .small = 1 + divided + work->buckets.statistics},
                             .available = ranks,
                             .whole_step = o->whole_step || shared_is_automatic(o),
                             .bytes = bytes + (divided ? moments * (1 - 1.0 / ranks) : 0),
                             .moments = moments,
                             .memory = machine->available};
    SharedTime shared = {.link = request.link, .advice = advice_of(&request)};
    shared.time = timeline_step(&parts, &request.link, &request.sharing);
    shared.scaling = timeline_scaling(&parts, &request.link, &request.sharing);
    shared.advice.request.parts = NULL;
    free(parts.buckets);
    return shared;
}
