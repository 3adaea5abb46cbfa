/* Plans the micro-batches of an epoch, and fills them with worker threads.
 *
 * The plan of an epoch lists its micro-batches, and depends on (seed, epoch) alone. A worker takes the next position of
 * the stream, looks the position up in the plan of its epoch, and fills the slot of the ring that belongs to the
 * position. The consumer takes the slots in order. The contents of a slot therefore never depend on which worker filled
 * it, or when. */
#include "data/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

enum { POOL_BATCHES = 64, MAX_PLANS = 3 };

typedef struct {
    int64_t tokens, rank;
    int32_t sample;
} Keyed;

/* Micro-batch b of the epoch is samples[begin[b]] .. samples[begin[b + 1] - 1]. The other buffers are scratch for
 * planning. */
typedef struct {
    int64_t epoch, n_batches;
    int32_t *samples, *unshuffled;
    int64_t *begin, *unshuffled_begin, *which;
    Keyed *keyed;
} Plan;

typedef struct {
    Batch batch;
    bool ready, failed; /* filled; filling failed, see error */
    Error error;
} Slot;

struct Loader {
    const Dataset *dataset;
    LoaderOptions options;
    Plan plans[MAX_PLANS];
    int next_plan;
    Slot *slots;
    int n_slots;
    int64_t produced, consumed;     /* positions handed to workers; positions handed to the consumer */
    int64_t walk_epoch, walk_index; /* the place of position `produced` */
    bool stop;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static int by_tokens(const void *a, const void *b) {
    const Keyed *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Sorts each pool of the order by length; samples of equal length keep their order. */
static void sort_pools(const Dataset *dataset, const LoaderOptions *o, Plan *plan) {
    int64_t n = dataset->n_samples, pool = (int64_t)POOL_BATCHES * (o->batch_size > 0 ? o->batch_size : 16);
    int32_t *order = plan->samples;
    for (int64_t at = 0; at < n; at += pool) {
        int64_t count = n - at < pool ? n - at : pool;
        for (int64_t i = 0; i < count; i++)
            plan->keyed[i] = (Keyed){dataset->tokens(dataset, order[at + i]), i, order[at + i]};
        qsort(plan->keyed, (size_t)count, sizeof *plan->keyed, by_tokens);
        for (int64_t i = 0; i < count; i++) order[at + i] = plan->keyed[i].sample;
    }
}

/* Returns the end of the micro-batch that starts at sample i. */
static int64_t batch_end(const Dataset *dataset, const LoaderOptions *o, const int32_t *order, int64_t i) {
    int64_t tokens = 0, end = i;
    for (; end < dataset->n_samples; end++) {
        if (o->batch_size > 0 && end - i == o->batch_size) break;
        tokens += dataset->tokens(dataset, order[end]);
        if (o->token_budget > 0 && end > i && tokens > o->token_budget) break;
    }
    return end;
}

/* The first of the draws that shuffle micro-batches; those below shuffle samples. */
static const uint64_t BATCHES = UINT64_C(1) << 39;

/* Shuffles the micro-batches, since sorting has put similar ones side by side. */
static void shuffle_batches(const LoaderOptions *o, Plan *plan) {
    memcpy(plan->unshuffled, plan->samples, (size_t)plan->begin[plan->n_batches] * sizeof *plan->samples);
    memcpy(plan->unshuffled_begin, plan->begin, (size_t)(plan->n_batches + 1) * sizeof *plan->begin);
    for (int64_t i = 0; i < plan->n_batches; i++) plan->which[i] = i;
    for (int64_t i = plan->n_batches - 1; i > 0; i--) {
        int64_t j = philox_below(o->seed, PURPOSE_SHUFFLE, (uint32_t)plan->epoch, BATCHES + (uint64_t)i, i + 1),
                swap = plan->which[i];
        plan->which[i] = plan->which[j];
        plan->which[j] = swap;
    }
    int64_t at = 0;
    for (int64_t i = 0; i < plan->n_batches; i++) {
        const int64_t *from = plan->unshuffled_begin + plan->which[i];
        memcpy(plan->samples + at, plan->unshuffled + from[0], (size_t)(from[1] - from[0]) * sizeof *plan->samples);
        plan->begin[i] = at;
        at += from[1] - from[0];
    }
}

static void plan_open(Plan *plan, int64_t n) {
    size_t count = (size_t)n + 1;
    *plan = (Plan){.epoch = -1,
                   .samples = xmalloc(count * sizeof(int32_t)),
                   .unshuffled = xmalloc(count * sizeof(int32_t)),
                   .begin = xmalloc(count * sizeof(int64_t)),
                   .unshuffled_begin = xmalloc(count * sizeof(int64_t)),
                   .which = xmalloc(count * sizeof(int64_t)),
                   .keyed = xmalloc(count * sizeof(Keyed))};
}

static void plan_close(Plan *plan) {
    void *const owned[] = {plan->samples,          plan->unshuffled, plan->begin,
                           plan->unshuffled_begin, plan->which,      plan->keyed};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

static void plan_epoch(const Dataset *dataset, const LoaderOptions *o, int64_t epoch, Plan *plan) {
    int64_t n = dataset->n_samples;
    plan->epoch = epoch;
    plan->n_batches = 0;
    for (int64_t i = 0; i < n; i++) plan->samples[i] = (int32_t)i;
    if (o->shuffle) philox_shuffle(o->seed, PURPOSE_SHUFFLE, (uint32_t)epoch, plan->samples, n);
    if (o->bucket) sort_pools(dataset, o, plan);
    for (int64_t i = 0; i < n; i = plan->begin[plan->n_batches]) {
        plan->begin[plan->n_batches++] = i;
        plan->begin[plan->n_batches] = batch_end(dataset, o, plan->samples, i);
    }
    if (o->drop_last && n % o->batch_size) plan->n_batches--;
    if (o->bucket && o->shuffle) shuffle_batches(o, plan);
    if (o->epoch_limit > 0 && plan->n_batches > o->epoch_limit) plan->n_batches = o->epoch_limit;
}

/* Returns the plan of an epoch; the few plans in use are cached. Call with the lock held. */
static const Plan *loader_plan(Loader *loader, int64_t epoch) {
    for (int i = 0; i < MAX_PLANS; i++)
        if (loader->plans[i].epoch == epoch) return &loader->plans[i];
    Plan *plan = &loader->plans[loader->next_plan++ % MAX_PLANS];
    plan_epoch(loader->dataset, &loader->options, epoch, plan);
    return plan;
}

int64_t loader_epoch_batches(const Dataset *dataset, const LoaderOptions *options, int64_t epoch) {
    if (!dataset->n_samples) return 0;
    if (!options->token_budget) {
        int64_t n = dataset->n_samples, batches = n / options->batch_size;
        batches += !options->drop_last && n % options->batch_size;
        return options->epoch_limit > 0 && batches > options->epoch_limit ? options->epoch_limit : batches;
    }
    Plan plan;
    plan_open(&plan, dataset->n_samples);
    plan_epoch(dataset, options, epoch, &plan);
    plan_close(&plan);
    return plan.n_batches;
}

/* Moves (epoch, index) by `steps` micro-batches, forward or, if negative, back. */
static void walk(Loader *loader, int64_t *epoch, int64_t *index, int64_t steps) {
    *index += steps;
    while (*index < 0) *index += loader_plan(loader, --*epoch)->n_batches;
    for (int64_t n; *index >= (n = loader_plan(loader, *epoch)->n_batches); ++*epoch) *index -= n;
}

/* The task of filling one slot, copied out of the plan under the lock for a worker or the consumer. The sample numbers
 * go straight to the slot's batch. */
typedef struct {
    Slot *slot;
    int64_t epoch, index;
    BatchGroup group;
    bool last;
    int n;
} Work;

/* Adds a micro-batch of a plan to what is known of its step. */
static void add_to_group(const Dataset *dataset, const Plan *plan, int64_t index, BatchGroup *group) {
    for (int64_t s = plan->begin[index]; s < plan->begin[index + 1]; s++) {
        dataset->counts(dataset, plan->samples[s], group->counts);
        group->tokens += dataset->tokens(dataset, plan->samples[s]);
        group->samples++;
    }
    group->epoch = plan->epoch, group->index = index;
    group->ends_epoch |= index == plan->n_batches - 1;
}

/* Moves to the next micro-batch that is delivered. */
static void move_on(Loader *loader) {
    const LoaderOptions *o = &loader->options;
    int64_t stride = o->stride > 0 ? o->stride : 1, *epoch = &loader->walk_epoch, *index = &loader->walk_index;
    if (!o->by_epoch) {
        walk(loader, epoch, index, stride);
    } else if ((*index += stride) >= loader_plan(loader, *epoch)->n_batches) {
        ++*epoch;
        *index = o->first;
    }
}

/* Takes the next position of the stream. Call with the lock held. */
static Work take_work(Loader *loader) {
    const LoaderOptions *o = &loader->options;
    int64_t position = loader->produced++, epoch = loader->walk_epoch, index = loader->walk_index;
    Work work = {.slot = &loader->slots[position % loader->n_slots], .epoch = epoch, .index = index};
    int accumulate = o->accumulate > 0 ? o->accumulate : 1;
    int64_t before = (o->first + position * (o->stride > 0 ? o->stride : 1)) % accumulate;
    int64_t e = epoch, i = index;
    walk(loader, &e, &i, -before);
    work.group.first_epoch = e;
    for (int k = 0; k < accumulate; k++) {
        add_to_group(loader->dataset, loader_plan(loader, e), i, &work.group);
        walk(loader, &e, &i, 1);
    }
    const Plan *plan = loader_plan(loader, epoch);
    work.last = index == plan->n_batches - 1;
    work.n = (int)(plan->begin[index + 1] - plan->begin[index]);
    memcpy(work.slot->batch.samples, plan->samples + plan->begin[index], (size_t)work.n * sizeof *plan->samples);
    move_on(loader);
    return work;
}

static void fill_slot(const Loader *loader, const Work *work) {
    Slot *slot = work->slot;
    Batch *batch = &slot->batch;
    batch_clear(batch);
    batch->epoch = work->epoch;
    batch->index = work->index;
    batch->last = work->last;
    batch->group = work->group;
    slot->failed = !loader->dataset->fill(loader->dataset, batch, batch->samples, work->n, &slot->error);
    batch->fields[batch->n_fields] = loader->dataset->device_data;
}

static bool may_produce(const Loader *loader) {
    return loader->produced - loader->consumed < loader->n_slots - 1 && /* one slot is the consumer's */
           (loader->options.stop_after < 0 || loader->produced < loader->options.stop_after);
}

static void *worker(void *argument) {
    Loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    for (;;) {
        while (!loader->stop && !may_produce(loader)) pthread_cond_wait(&loader->changed, &loader->lock);
        if (loader->stop) break;
        Work work = take_work(loader);
        pthread_mutex_unlock(&loader->lock);
        fill_slot(loader, &work);
        pthread_mutex_lock(&loader->lock);
        work.slot->ready = true;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* Moves the `count` smallest items to the front, in any order (Hoare's quickselect). */
static void smallest_first(Keyed *items, int64_t n, int64_t count) {
    for (int64_t low = 0, high = n - 1; low < high;) {
        Keyed pivot = items[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (by_tokens(&items[i], &pivot) < 0) i++;
            while (by_tokens(&pivot, &items[j]) < 0) j--;
            if (i > j) break;
            Keyed swap = items[i];
            items[i++] = items[j];
            items[j--] = swap;
        }
        if (count - 1 > j && count - 1 < i) return;
        *(count - 1 <= j ? &high : &low) = count - 1 <= j ? j : i;
    }
}

/* Returns the maximum of sequences in any micro-batch: with a budget, as many of the shortest samples as fit into it. A
 * binary search: the `fit` shortest samples fit, more than `most` do not, and each round tries the shortest (fit + most
 * + 1) / 2. */
static int64_t most_sequences(const Dataset *dataset, const LoaderOptions *o, Keyed *keyed) {
    int64_t n = dataset->n_samples, tokens = 0, fit = 0, end = n;
    int64_t most = o->batch_size > 0 && o->batch_size < n ? o->batch_size : n;
    if (!o->token_budget) return most;
    for (int64_t i = 0; i < n; i++) keyed[i] = (Keyed){dataset->tokens(dataset, i), i, (int32_t)i};
    while (fit < most) {
        int64_t half = (fit + most + 1) / 2, more = 0;
        smallest_first(keyed + fit, end - fit, half - fit);
        for (int64_t i = fit; i < half; i++) more += keyed[i].tokens;
        if (tokens + more <= o->token_budget) {
            tokens += more;
            fit = half;
        } else {
            most = half - 1;
            end = half;
        }
    }
    return fit ? fit : n > 0; /* a single sample is always allowed */
}

/* Bytes add up over samples, so the `most` largest samples are a bound for any choice of as many. */
size_t loader_batch_bytes(const Dataset *dataset, const LoaderOptions *o, int *sequences) {
    int64_t n = dataset->n_samples;
    OWNED Keyed *keyed = xmalloc((size_t)n * sizeof *keyed);
    OWNED int32_t *samples = xmalloc((size_t)n * sizeof *samples);
    int64_t most = most_sequences(dataset, o, keyed);
    for (int64_t i = 0; i < n; i++)
        keyed[i] = (Keyed){-(int64_t)dataset->batch_bytes(dataset, &(int32_t){(int32_t)i}, 1), i, (int32_t)i};
    smallest_first(keyed, n, most); /* keys are negative, so these are the largest */
    for (int64_t i = 0; i < most; i++) samples[i] = keyed[i].sample;
    if (sequences) *sequences = (int)most;
    return dataset->batch_bytes(dataset, samples, (int)most);
}

/* One slot is the consumer's, each worker fills one, and one more is ready. */
static int slots_for(const LoaderOptions *o) { return o->n_workers + 2; }

size_t loader_planned_bytes(const Dataset *dataset, const LoaderOptions *o) {
    return (size_t)slots_for(o) * batch_capacity(loader_batch_bytes(dataset, o, NULL));
}

size_t loader_bytes(const Loader *loader) {
    size_t bytes = 0;
    for (int i = 0; i < loader->n_slots; i++) bytes += loader->slots[i].batch.capacity;
    return bytes;
}

Loader *loader_open(const Dataset *dataset, const LoaderOptions *options) {
    if (!dataset->n_samples) die("the data set has no samples");
    if (options->batch_size < 1 && options->token_budget < 1) die("micro-batches need a size or a token budget");
    if (options->drop_last && options->token_budget)
        die("a token budget makes micro-batches of any size, so none counts as full and all would be left out");
    if (options->drop_last && dataset->n_samples < options->batch_size)
        die("the data set has %lld samples, fewer than one micro-batch of %d, and smaller ones are left out; give a "
            "smaller batch size",
            (long long)dataset->n_samples, options->batch_size);
    Loader *loader = xcalloc(1, sizeof *loader);
    loader->dataset = dataset;
    loader->options = *options;
    for (int i = 0; i < MAX_PLANS; i++) plan_open(&loader->plans[i], dataset->n_samples);
    loader->walk_epoch = options->start_epoch;
    loader->walk_index = options->start_index;
    walk(loader, &loader->walk_epoch, &loader->walk_index, options->first);
    if (options->one_epoch)
        loader->options.stop_after = loader_plan(loader, loader->walk_epoch)->n_batches - loader->walk_index;
    int sequences;
    size_t bytes = loader_batch_bytes(dataset, options, &sequences);
    loader->n_slots = slots_for(options);
    loader->slots = xcalloc((size_t)loader->n_slots, sizeof *loader->slots);
    for (int i = 0; i < loader->n_slots; i++) loader->slots[i].batch = batch_open(bytes, sequences);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    loader->threads = xcalloc((size_t)options->n_workers + 1, sizeof *loader->threads);
    for (int i = 0; i < options->n_workers; i++)
        thread_start(&loader->threads[i], worker, loader, "that loads batches (--num-workers)");
    return loader;
}

/* Fills the next slot on the consumer's thread, if there are no workers. */
static void produce_here(Loader *loader) {
    Work work = take_work(loader);
    fill_slot(loader, &work);
    work.slot->ready = true;
}

const Batch *loader_try(Loader *loader, Error *error) {
    error->text[0] = 0;
    pthread_mutex_lock(&loader->lock);
    int64_t position = loader->consumed;
    Slot *slot = &loader->slots[position % loader->n_slots];
    if (loader->options.stop_after >= 0 && position >= loader->options.stop_after) {
        pthread_mutex_unlock(&loader->lock);
        return NULL;
    }
    if (!loader->options.n_workers && !slot->ready) produce_here(loader);
    while (!slot->ready) pthread_cond_wait(&loader->changed, &loader->lock);
    bool failed = slot->failed; /* the slot stays ready, so the next call returns the same error */
    if (failed) *error = slot->error;
    if (!failed) {
        slot->ready = false;
        loader->consumed = position + 1;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return failed ? NULL : &slot->batch;
}

const Batch *loader_next(Loader *loader) {
    Error error;
    const Batch *batch = loader_try(loader, &error);
    if (!batch && error.text[0]) die("%s", error.text);
    return batch;
}

void loader_close(Loader *loader) {
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->options.n_workers; i++) pthread_join(loader->threads[i], NULL);
    for (int i = 0; i < loader->n_slots; i++) batch_close(&loader->slots[i].batch);
    for (int i = 0; i < MAX_PLANS; i++) plan_close(&loader->plans[i]);
    pthread_mutex_destroy(&loader->lock);
    pthread_cond_destroy(&loader->changed);
    free(loader->threads);
    free(loader->slots);
    free(loader);
}
