#include "train/plan/sizing.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"

/* Returns the largest divisor of n from least to most; 0 if there is none. */
static int64_t largest_divisor(int64_t n, int64_t least, int64_t most) {
    for (int64_t d = most < n ? most : n; d >= least; d--)
        if (n % d == 0) return d;
    return 0;
}

/* The assumptions of a search for a size about the run. */
typedef struct {
    DType half;
    size_t available;
    bool recompute;
    bool keep_validation; /* leaves --val-batch-size as given; otherwise limits it to twice the size */
    KnownSizes *known;    /* may be NULL */
} Search;

static int64_t accumulation_of(const TrainOptions *o, int64_t size) {
    int64_t whole = (o->token_budget ? o->token_budget : o->batch_size) * o->grad_accumulation;
    return (whole + size - 1) / size;
}

/* Returns the -g that gives a step of as many samples: of each rank, unless the option counts those of all. */
static int64_t typed_accumulation(const TrainOptions *o, int64_t size) {
    return accumulation_of(o, size) / (o->whole_step ? 1 : train_ranks(o));
}

/* Plans with another --token-budget, or with another batch if there is no budget; steps keep at least their samples. */
static MemoryPlan plan_with(const TrainSpec *spec, const Search *s, int64_t size) {
    TrainOptions o = *spec->options;
    o.grad_accumulation = accumulation_of(&o, size);
    *(o.token_budget ? &o.token_budget : &o.batch_size) = size;
    if (!o.token_budget && o.val_times)
        o.val_batch_size = o.val_times * size;
    else if (!o.token_budget && !s->keep_validation && o.val_batch_size > 2 * size)
        o.val_batch_size = 2 * size;
    o.grad_checkpointing |= s->recompute;
    return train_plan_of(spec, &o, s->half);
}

static bool size_fits(const TrainSpec *spec, const Search *s, int64_t size) {
    enum { MOST = sizeof s->known->of / sizeof *s->known->of };
    for (int i = 0; s->known && i < s->known->n; i++)
        if (s->known->of[i].size == size && s->known->of[i].half == s->half)
            return s->known->of[i].bytes <= s->available;
    MemoryPlan plan = plan_with(spec, s, size);
    size_t bytes = train_to_allocate(spec, &plan);
    if (s->known && s->known->n < MOST) {
        s->known->of[s->known->n].size = size;
        s->known->of[s->known->n].half = s->half;
        s->known->of[s->known->n++].bytes = bytes;
    }
    return bytes <= s->available;
}

/* Returns the largest size below too_many that fits; least - 1 if none does. */
static int64_t most_that_fit(const TrainSpec *spec, const Search *s, int64_t least, int64_t too_many) {
    int64_t size = least - 1;
    while (too_many - size > 1) {
        int64_t middle = size + (too_many - size) / 2;
        if (size_fits(spec, s, middle))
            size = middle;
        else
            too_many = middle;
    }
    return size;
}

/* ---- what to change ---- */

static double step_flops(const TrainSpec *spec, bool recompute) {
    const TrainOptions *o = spec->options;
    double flops, bytes;
    Device *dry = dry_device_open();
    Batch batch = train_largest_batch(spec, o);
    memory_dry_step(spec->model, dry, &batch, o->grad_accumulation,
                    (StepOptions){.recompute = recompute, .muon = spec->optimizer.muon});
    device_totals(dry, &flops, &bytes);
    batch_close(&batch);
    device_close(dry);
    return flops;
}

/* Finds a batch smaller than the run's that divides the effective batch, if any does; or one of the same size with a
 * smaller validation batch. Returns false if none fits. */
static bool smaller_batch(const TrainSpec *spec, const Search *s, char text[CHANGE_TEXT]) {
    const TrainOptions *o = spec->options;
    int64_t whole = o->token_budget ? o->token_budget : o->batch_size,
            least = o->token_budget ? 1 : train_min_samples(spec);
    bool validates = !o->token_budget && !o->val_times;
    int64_t size = most_that_fit(spec, s, least, whole + (validates && o->val_batch_size > 2 * whole));
    size_t n = 0;
    text[0] = 0;
    if (size < least) return false;
    if (size < whole) {
        int64_t share = whole * o->grad_accumulation / train_ranks(o);
        int64_t divisor = o->token_budget ? 0 : largest_divisor(share, least, size);
        if (divisor) size = divisor;
    }
    if (size < whole)
        n = (size_t)snprintf(text, CHANGE_TEXT, "%s %lld -g %lld", o->token_budget ? "--token-budget" : "-b",
                             (long long)size, (long long)typed_accumulation(o, size));
    if (validates && o->val_batch_size > 2 * size)
        snprintf(text + n, CHANGE_TEXT - n, "%s--val-batch-size %lld", n ? " " : "", (long long)(2 * size));
    return true;
}

Changes sizing_changes(const TrainSpec *spec, size_t available) {
    const TrainOptions *o = spec->options;
    DType half = o->amp ? spec->device->half : DTYPE_F32;
    const Search as_it_is = {half, available, false, false, NULL}, again = {half, available, true, false, NULL};
    Changes c = {.n = 0};
    if (smaller_batch(spec, &as_it_is, c.text[0])) c.n++;
    if (!o->grad_checkpointing) {
        TrainOptions less = *o;
        less.grad_checkpointing = true;
        MemoryPlan plan = train_plan_of(spec, &less, half);
        if (train_to_allocate(spec, &plan) <= available) {
            c.recomputes[c.n] = true;
            snprintf(c.text[c.n++], CHANGE_TEXT, "--grad-checkpointing");
        } else if (!c.n && smaller_batch(spec, &again, c.text[0])) {
            c.recomputes[c.n++] = true;
            snprintf(c.text[0] + strlen(c.text[0]), CHANGE_TEXT - strlen(c.text[0]), " --grad-checkpointing");
        }
    }
    c.divides = c.n && !strncmp(c.text[0], "-b", 2);
    if (c.n && c.recomputes[c.n - 1]) c.more_work = step_flops(spec, true) / step_flops(spec, false) - 1;
    return c;
}

const char *sizing_changes_text(const TrainSpec *spec, const Changes *c, char text[CHANGES_TEXT]) {
    size_t used = 0;
    if (!c->n) snprintf(text, CHANGES_TEXT, "no batch size makes it fit");
    for (int i = 0; i < c->n && used < CHANGES_TEXT; i++) {
        char more[64] = "", but[256] = "";
        if (!i && c->divides && spec->batch.indivisible)
            snprintf(but, sizeof but, ", but is not the same (%s)", spec->batch.indivisible);
        if (c->recomputes[i])
            snprintf(more, sizeof more, "%s with %.*f %% more work", i ? "" : ",", c->more_work < 0.1,
                     c->more_work * 100);
        used += (size_t)snprintf(text + used, CHANGES_TEXT - used, "%s%s%s%s%s", i ? ", or " : "", c->text[i],
                                 i ? "" : " makes it fit", but, more);
    }
    return text;
}

/* ---- -b auto ---- */

static int64_t smallest_divisor(int64_t n, int64_t least) {
    int64_t d = least;
    while (n % d) d++;
    return d;
}

/* Returns the nearest effective batch whose micro-batches are at least half of what fits. */
static int64_t suggest_batch(int64_t whole, int64_t least, int64_t most) {
    for (int64_t away = 1; away < whole; away++)
        for (int side = -1; side <= 1; side += 2)
            if (2 * largest_divisor(whole + side * away, least, most) >= most) return whole + side * away;
    return 0;
}

void sizing_set_batch(const TrainSpec *spec, int64_t size, int64_t accumulation) {
    const TrainOptions *o = spec->options;
    const struct {
        const int64_t *option;
        int64_t value;
    } numbers[] = {
        {&o->batch_size, size}, {&o->grad_accumulation, accumulation}, {&o->val_batch_size, o->val_times * size}};
    for (int k = 0; k < 2 + (o->val_times > 0); k++) {
        if (*numbers[k].option == numbers[k].value) continue;
        const Option *option = options_holding(spec->set, numbers[k].option);
        assert(option); /* spec->options belong to spec->set, which is recorded in checkpoints */
        *(int64_t *)option->value = numbers[k].value;
    }
}

BatchChoice sizing_choose_batch(const TrainSpec *spec, DType half, size_t available, KnownSizes *known) {
    const TrainOptions *o = spec->options;
    const Search search = {half, available, false, true, known};
    int64_t whole = o->batch_size * o->grad_accumulation, share = whole / train_ranks(o);
    int64_t least = train_min_samples(spec), most = share;
    assert(whole >= least); /* train_options_resolve checks this */
    /* An epoch has no larger micro-batch: a step would have fewer samples than were asked for. */
    if (!spec->batch.indivisible && most > spec->train->n_samples) most = spec->train->n_samples;
    if (!size_fits(spec, &search, most)) most = most_that_fit(spec, &search, least, most);
    int64_t size = spec->batch.indivisible ? whole : largest_divisor(share, least, most);
    if (!size) size = smallest_divisor(share, least);
    sizing_set_batch(spec, size, whole / size);
    MemoryPlan plan = train_plan_of(spec, o, half);
    size_t bytes = memory_total(&plan), there = bytes - train_to_allocate(spec, &plan);
    return (BatchChoice){.size = size,
                         .accumulation = whole / size,
                         .most_at_once = most,
                         .suggested = 2 * size < most ? suggest_batch(whole, least, most) : 0,
                         .used = bytes,
                         .available = available + there};
}

void sizing_print_choice(const TrainSpec *spec, const BatchChoice *c) {
    char used[32], have[32], most[64] = "all of it fits at once";
    int64_t whole = c->size * c->accumulation;
    if (c->most_at_once < c->size) return; /* the caller prints what the run needs, and what to do */
    if (c->most_at_once < whole && c->most_at_once == spec->train->n_samples)
        snprintf(most, sizeof most, "all %lld samples would fit at once", (long long)c->most_at_once);
    else if (c->most_at_once < whole)
        snprintf(most, sizeof most, "%lld would fit at once", (long long)c->most_at_once);
    printf("[Batch] -b %lld -g %lld is an effective batch of %lld: %s, %s of %s are used", (long long)c->size,
           (long long)c->accumulation, (long long)whole, most, format_bytes((double)c->used, used),
           format_bytes((double)c->available, have));
    if (spec->batch.indivisible) printf("; it is never divided: %s", spec->batch.indivisible);
    if (c->suggested)
        printf("; --effective-batch %lld would use them better (-b %lld)", (long long)c->suggested,
               (long long)largest_divisor(c->suggested, train_min_samples(spec), c->most_at_once));
    printf("\n");
}
