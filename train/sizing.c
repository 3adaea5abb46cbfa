#include "train/sizing.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "train/log.h"

/* What a search for a size changes of the run besides. */
typedef struct {
    DType half;
    size_t available;
    bool recompute;
    bool keep_validation; /* --val-batch-size stays as it was given; else it is at most twice the size */
    KnownSizes *known;    /* NULL: none are kept */
} Search;

static int64_t accumulation_of(const TrainOptions *o, int64_t size) {
    int64_t whole = (o->token_budget ? o->token_budget : o->batch_size) * o->grad_accumulation;
    return (whole + size - 1) / size;
}

/* The plan with another --token-budget, or without one with another batch, for steps that are no smaller. */
static MemoryPlan plan_with(Training *t, const Search *s, int64_t size) {
    TrainOptions o = *t->options;
    o.grad_accumulation = accumulation_of(&o, size);
    *(o.token_budget ? &o.token_budget : &o.batch_size) = size;
    if (!o.token_budget && o.val_times)
        o.val_batch_size = o.val_times * size;
    else if (!o.token_budget && !s->keep_validation && o.val_batch_size > 2 * size)
        o.val_batch_size = 2 * size;
    o.grad_checkpointing |= s->recompute;
    return train_plan_of(t, &o, s->half);
}

static bool size_fits(Training *t, const Search *s, int64_t size) {
    enum { MOST = sizeof s->known->of / sizeof *s->known->of };
    for (int i = 0; s->known && i < s->known->n; i++)
        if (s->known->of[i].size == size && s->known->of[i].half == s->half)
            return s->known->of[i].bytes <= s->available;
    MemoryPlan plan = plan_with(t, s, size);
    size_t bytes = train_to_allocate(t, &plan);
    if (s->known && s->known->n < MOST) {
        s->known->of[s->known->n].size = size;
        s->known->of[s->known->n].half = s->half;
        s->known->of[s->known->n++].bytes = bytes;
    }
    return bytes <= s->available;
}

/* The most below too_many that fits; least - 1: nothing does. */
static int64_t most_that_fit(Training *t, const Search *s, int64_t least, int64_t too_many) {
    int64_t size = least - 1;
    while (too_many - size > 1) {
        int64_t middle = size + (too_many - size) / 2;
        if (size_fits(t, s, middle))
            size = middle;
        else
            too_many = middle;
    }
    return size;
}

/* ---- what to change ---- */

static double step_flops(Training *t, bool recompute) {
    const TrainOptions *o = t->options;
    double flops, bytes;
    Device *dry = dry_device_open();
    Batch batch = train_largest_batch(t, o);
    rehearse_step(t->model, dry, &batch, o->grad_accumulation, recompute);
    device_totals(dry, &flops, &bytes);
    batch_close(&batch);
    device_close(dry);
    return flops;
}

/* A batch that is smaller than the run's, or as large with less validation; false: none fits. */
static bool smaller_batch(Training *t, const Search *s, char text[CHANGE_TEXT]) {
    const TrainOptions *o = t->options;
    int64_t whole = o->token_budget ? o->token_budget : o->batch_size,
            least = o->token_budget ? 1 : train_least_batch(t);
    bool validates = !o->token_budget && !o->val_times;
    int64_t size = most_that_fit(t, s, least, whole + (validates && o->val_batch_size > 2 * whole));
    size_t n = 0;
    text[0] = 0;
    if (size < least) return false;
    if (size < whole)
        n = (size_t)snprintf(text, CHANGE_TEXT, "%s %lld -g %lld", o->token_budget ? "--token-budget" : "-b",
                             (long long)size, (long long)accumulation_of(o, size));
    if (validates && o->val_batch_size > 2 * size)
        snprintf(text + n, CHANGE_TEXT - n, "%s--val-batch-size %lld", n ? " " : "", (long long)(2 * size));
    return true;
}

Changes train_changes(Training *t, size_t available) {
    const TrainOptions *o = t->options;
    DType half = o->amp ? t->device->half : DTYPE_F32;
    const Search as_it_is = {half, available, false, false, NULL}, again = {half, available, true, false, NULL};
    Changes c = {.n = 0};
    if (smaller_batch(t, &as_it_is, c.text[0])) c.n++;
    if (!o->grad_checkpointing) {
        TrainOptions less = *o;
        less.grad_checkpointing = true;
        MemoryPlan plan = train_plan_of(t, &less, half);
        if (train_to_allocate(t, &plan) <= available) {
            c.recomputes[c.n] = true;
            snprintf(c.text[c.n++], CHANGE_TEXT, "--grad-checkpointing");
        } else if (!c.n && smaller_batch(t, &again, c.text[0])) {
            c.recomputes[c.n++] = true;
            snprintf(c.text[0] + strlen(c.text[0]), CHANGE_TEXT - strlen(c.text[0]), " --grad-checkpointing");
        }
    }
    c.divides = c.n && !strncmp(c.text[0], "-b", 2);
    if (c.n && c.recomputes[c.n - 1]) c.more_work = step_flops(t, true) / step_flops(t, false) - 1;
    return c;
}

const char *train_changes_text(const Training *t, const Changes *c, char text[CHANGES_TEXT]) {
    size_t used = 0;
    if (!c->n) snprintf(text, CHANGES_TEXT, "no batch size makes it fit");
    for (int i = 0; i < c->n && used < CHANGES_TEXT; i++) {
        char more[64] = "", but[256] = "";
        if (!i && c->divides && t->whole_batches)
            snprintf(but, sizeof but, ", but is not the same (%s)", t->whole_batches);
        if (c->recomputes[i])
            snprintf(more, sizeof more, "%s with %.*f %% more work", i ? "" : ",", c->more_work < 0.1,
                     c->more_work * 100);
        used += (size_t)snprintf(text + used, CHANGES_TEXT - used, "%s%s%s%s%s", i ? ", or " : "", c->text[i],
                                 i ? "" : " makes it fit", but, more);
    }
    return text;
}

/* ---- -b auto ---- */

/* From least to most; 0: there is none. */
static int64_t largest_divisor(int64_t n, int64_t least, int64_t most) {
    for (int64_t d = most < n ? most : n; d >= least; d--)
        if (n % d == 0) return d;
    return 0;
}

static int64_t smallest_divisor(int64_t n, int64_t least) {
    int64_t d = least;
    while (n % d) d++;
    return d;
}

/* The nearest effective batch of which the micro-batches are at least half of what fits. */
static int64_t better_batch(int64_t whole, int64_t least, int64_t most) {
    for (int64_t away = 1; away < whole; away++)
        for (int side = -1; side <= 1; side += 2)
            if (2 * largest_divisor(whole + side * away, least, most) >= most) return whole + side * away;
    return 0;
}

void train_set_batch(Training *t, int64_t size, int64_t accumulation) {
    const TrainOptions *o = t->options;
    const struct {
        const int64_t *option;
        int64_t value;
    } numbers[] = {
        {&o->batch_size, size}, {&o->grad_accumulation, accumulation}, {&o->val_batch_size, o->val_times * size}};
    for (int k = 0; k < 2 + (o->val_times > 0); k++) {
        if (*numbers[k].option == numbers[k].value) continue;
        int i = 0;
        while (i < t->n_rows && t->rows[i].value != (const void *)numbers[k].option) i++;
        assert(i < t->n_rows); /* the options are those of the table, from which the run's record is made */
        *(int64_t *)t->rows[i].value = numbers[k].value;
    }
}

BatchChoice train_choose_batch(Training *t, DType half, size_t available, KnownSizes *known) {
    const TrainOptions *o = t->options;
    const Search search = {half, available, false, true, known};
    int64_t whole = o->batch_size * o->grad_accumulation, least = train_least_batch(t), most = whole;
    assert(whole >= least); /* as the options are */
    /* No epoch has a larger one: a step would have fewer samples than are asked for. */
    if (!t->whole_batches && most > t->train->n_samples) most = t->train->n_samples;
    if (!size_fits(t, &search, most)) most = most_that_fit(t, &search, least, most);
    int64_t size = t->whole_batches ? whole : largest_divisor(whole, least, most);
    if (!size) size = smallest_divisor(whole, least);
    train_set_batch(t, size, whole / size);
    MemoryPlan plan = train_plan_of(t, o, half);
    size_t bytes = memory_total(&plan), there = bytes - train_to_allocate(t, &plan);
    return (BatchChoice){.size = size,
                         .accumulation = whole / size,
                         .most = most,
                         .better = 2 * size < most ? better_batch(whole, least, most) : 0,
                         .used = bytes,
                         .available = available + there};
}

void train_choice_print(const Training *t, const BatchChoice *c) {
    char used[32], have[32], most[64] = "all of it fits at once";
    int64_t whole = c->size * c->accumulation;
    if (c->most < c->size) return; /* what it would need follows, and what to do */
    if (c->most < whole && c->most == t->train->n_samples)
        snprintf(most, sizeof most, "all %lld samples would fit at once", (long long)c->most);
    else if (c->most < whole)
        snprintf(most, sizeof most, "%lld would fit at once", (long long)c->most);
    printf("[Batch] -b %lld -g %lld is an effective batch of %lld: %s, %s of %s are used", (long long)c->size,
           (long long)c->accumulation, (long long)whole, most, format_bytes((double)c->used, used),
           format_bytes((double)c->available, have));
    if (t->whole_batches) printf("; it is never divided: %s", t->whole_batches);
    if (c->better)
        printf("; --effective-batch %lld would use them better (-b %lld)", (long long)c->better,
               (long long)largest_divisor(c->better, train_least_batch(t), c->most));
    printf("\n");
}
