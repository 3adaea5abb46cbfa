/* The stream of micro-batches: the same for any number of workers and from any start, every sample once per epoch. */
#include "data/loader.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "kernels/philox.h"
#include "tests/allocations.h"
#include "tests/test.h"

enum { SAMPLES = 37 };

/* A dataset whose samples have two lengths. A sample has 7 tokens more than their sum, and each length plus 1 is a
 * count. The only field besides the offsets has a seeded number for every token. */
enum { TOY_OFFSETS = BATCH_OFFSETS, TOY_NUMBERS };
enum { TOY_COUNTS = 2, TOY_EXTRA = 7 };

typedef struct {
    Dataset face; /* must be first: a Dataset * is cast to Toy * */
    int32_t *lengths[TOY_COUNTS];
} Toy;

static const Toy *toy_of(const Dataset *dataset) { return (const Toy *)(const void *)dataset; }

static int64_t toy_tokens(const Dataset *d, int64_t i) {
    return TOY_EXTRA + toy_of(d)->lengths[0][i] + toy_of(d)->lengths[1][i];
}

static void toy_counts(const Dataset *d, int64_t i, double *counts) {
    for (int c = 0; c < TOY_COUNTS; c++) counts[c] += toy_of(d)->lengths[c][i] + 1;
}

static size_t toy_bytes(const Dataset *d, const int32_t *samples, int n) {
    size_t bytes = 2 * BATCH_LINE;
    for (int i = 0; i < n; i++) bytes += 4 * (size_t)(1 + toy_tokens(d, samples[i]));
    return bytes;
}

static bool toy_fill(const Dataset *d, Batch *batch, const int32_t *samples, int n, Error *error) {
    (void)error;
    int64_t rows = 0;
    for (int i = 0; i < n; i++) {
        rows += toy_tokens(d, samples[i]);
        toy_counts(d, samples[i], batch->counts);
        batch->samples[i] = samples[i];
    }
    int32_t *offsets = batch_push_1d(batch, TOY_OFFSETS, DTYPE_I32, n + 1).data;
    float *numbers = batch_push_1d(batch, TOY_NUMBERS, DTYPE_F32, rows).data;
    for (int i = 0; i < n; i++) {
        *offsets++ = (int32_t)batch->n_tokens;
        for (int64_t t = 0; t < toy_tokens(d, samples[i]); t++)
            numbers[batch->n_tokens++] = philox_normal((uint64_t)samples[i], PURPOSE_TEST, 0, (uint64_t)t);
    }
    *offsets = (int32_t)batch->n_tokens;
    batch->n_sequences = n;
    return true;
}

static void toy_close(Dataset *dataset) {
    for (int c = 0; c < TOY_COUNTS; c++) free(toy_of(dataset)->lengths[c]);
    free(dataset);
}

/* Opens a dataset of n samples with random lengths up to these. */
static Dataset *open_samples(int n, int longest, int other_longest) {
    Toy *toy = xcalloc(1, sizeof *toy);
    const int most[TOY_COUNTS] = {longest, other_longest};
    for (uint32_t c = 0; c < TOY_COUNTS; c++) {
        toy->lengths[c] = xmalloc((size_t)(n + 1) * sizeof *toy->lengths[c]);
        for (int i = 0; i < n; i++)
            toy->lengths[c][i] = 1 + (int32_t)((double)philox_uniform(5, PURPOSE_TEST, c, (uint64_t)i) * most[c]);
    }
    toy->face = (Dataset){.n_samples = n,
                          .tokens = toy_tokens,
                          .counts = toy_counts,
                          .fill = toy_fill,
                          .batch_bytes = toy_bytes,
                          .close = toy_close};
    return &toy->face;
}

/* A dataset that wraps another one, takes a different time for each batch, and can fail. */
typedef struct {
    Dataset face;
    const Dataset *inner;
    int32_t bad_sample; /* the sample that cannot be filled; -1 for none */
    atomic_int fills;
} Slow;

static const Dataset *inner(const Dataset *face) { return ((const Slow *)(const void *)face)->inner; }
static int64_t slow_tokens(const Dataset *d, int64_t i) { return inner(d)->tokens(inner(d), i); }
static void slow_counts(const Dataset *d, int64_t i, double *counts) { inner(d)->counts(inner(d), i, counts); }
static size_t slow_bytes(const Dataset *d, const int32_t *s, int n) { return inner(d)->batch_bytes(inner(d), s, n); }

static bool slow_fill(const Dataset *face, Batch *batch, const int32_t *samples, int n, Error *error) {
    Slow *slow = (Slow *)(void *)face;
    int call = atomic_fetch_add(&slow->fills, 1);
    usleep(philox_bits(9, PURPOSE_TEST, 0, (uint64_t)call) % 700);
    for (int i = 0; i < n; i++)
        if (samples[i] == slow->bad_sample) return error_set(error, "sample %d is bad", samples[i]);
    return slow->inner->fill(slow->inner, batch, samples, n, error);
}

static Slow slow_open(const Dataset *dataset) {
    return (Slow){.face = {.n_samples = dataset->n_samples,
                           .tokens = slow_tokens,
                           .counts = slow_counts,
                           .fill = slow_fill,
                           .batch_bytes = slow_bytes},
                  .inner = dataset,
                  .bad_sample = -1};
}

static LoaderOptions usual(void) {
    return (LoaderOptions){
        .batch_size = 4, .accumulate = 3, .shuffle = true, .bucket = true, .seed = 17, .stop_after = -1};
}

/* A copy of a batch for comparisons. */
typedef struct {
    int64_t epoch, index, tokens;
    double counts[BATCH_MAX_COUNTS], group_counts[BATCH_MAX_COUNTS];
    bool last;
    int n;
    int32_t samples[64];
    char *bytes;
    size_t size;
} Seen;

static Seen see(const Batch *batch) {
    Seen seen = {.epoch = batch->epoch,
                 .index = batch->index,
                 .last = batch->last,
                 .tokens = batch->n_tokens,
                 .n = batch->n_sequences,
                 .bytes = xmalloc(batch->size),
                 .size = batch->size};
    assert_in_range(seen.n, 1, 64);
    memcpy(seen.counts, batch->counts, sizeof seen.counts);
    memcpy(seen.group_counts, batch->group.counts, sizeof seen.group_counts);
    memcpy(seen.samples, batch->samples, (size_t)seen.n * sizeof *seen.samples);
    memcpy(seen.bytes, batch->buffer, batch->size);
    return seen;
}

/* Copies the first n micro-batches of a stream; free_seen. Returns how many there were, fewer than n if it ended. */
static int see_stream(const Dataset *dataset, const LoaderOptions *options, int n, Seen *seen) {
    Loader *loader = loader_open(dataset, options);
    int i = 0;
    for (const Batch *batch; i < n && (batch = loader_next(loader)); i++) seen[i] = see(batch);
    loader_close(loader);
    return i;
}

static void free_seen(Seen *seen, int n) {
    for (int i = 0; i < n; i++) free(seen[i].bytes);
}

static void assert_same(const Seen *a, const Seen *b) {
    assert_true(a->epoch == b->epoch && a->index == b->index && a->tokens == b->tokens && a->n == b->n);
    assert_memory_equal(a->samples, b->samples, (size_t)a->n * sizeof *a->samples);
    assert_memory_equal(a->counts, b->counts, sizeof a->counts);
    assert_memory_equal(a->group_counts, b->group_counts, sizeof a->group_counts);
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->bytes, b->bytes, a->size);
}

TEST(any_number_of_workers_gives_the_same_bits) {
    enum { N = 45 };
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    Slow slow = slow_open(dataset);
    LoaderOptions options = usual();
    Seen want[N], got[N];
    for (int budget = 0; budget < 2; budget++) {
        options.token_budget = budget ? 150 : 0;
        options.n_workers = 0;
        assert_int_equal(see_stream(dataset, &options, N, want), N);
        for (int workers = 1; workers <= 8; workers += workers == 1 ? 1 : 6) {
            options.n_workers = workers;
            assert_int_equal(see_stream(&slow.face, &options, N, got), N);
            for (int i = 0; i < N; i++) assert_same(&want[i], &got[i]);
            free_seen(got, N);
        }
        free_seen(want, N);
    }
    dataset->close(dataset);
}

TEST(a_start_anywhere_gives_the_rest_of_the_stream) {
    enum { N = 34 };
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    LoaderOptions options = usual(); /* ten micro-batches an epoch, three to a group */
    Seen whole[N], rest[N];
    for (int budget = 0; budget < 2; budget++) {
        options.token_budget = budget ? 150 : 0;
        options.start_epoch = options.start_index = 0;
        assert_int_equal(see_stream(dataset, &options, N, whole), N);
        for (int at = 0; at < N; at += 3) { /* a step boundary */
            options.n_workers = at / 3 % 3;
            options.start_epoch = whole[at].epoch;
            options.start_index = whole[at].index;
            assert_int_equal(see_stream(dataset, &options, N - at, rest), N - at);
            for (int i = 0; i < N - at; i++) assert_same(&whole[at + i], &rest[i]);
            free_seen(rest, N - at);
        }
        free_seen(whole, N);
    }
    dataset->close(dataset);
}

TEST(a_start_after_the_last_batch_begins_the_next_epoch) {
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    LoaderOptions options = usual();
    Seen seen;
    options.start_epoch = 2;
    options.start_index = loader_epoch_batches(dataset, &options, 2);
    see_stream(dataset, &options, 1, &seen);
    assert_true(seen.epoch == 3 && seen.index == 0);
    free_seen(&seen, 1);
    dataset->close(dataset);
}

/* With every setting, each epoch visits each sample once, in as many micro-batches as loader_epoch_batches returns. */
TEST(an_epoch_visits_every_sample_once) {
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    for (int setting = 0; setting < 16; setting++) {
        LoaderOptions options = usual();
        options.shuffle = setting & 1;
        options.bucket = setting & 2;
        options.token_budget = setting & 4 ? 150 : 0;
        options.batch_size = setting & 8 ? (setting & 4 ? 0 : 1000) : 5;
        options.n_workers = 2;
        Loader *loader = loader_open(dataset, &options);
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            int visits[SAMPLES] = {0};
            int64_t batches = loader_epoch_batches(dataset, &options, epoch);
            for (int64_t b = 0; b < batches; b++) {
                const Batch *batch = loader_next(loader);
                assert_true(batch->epoch == epoch && batch->index == b);
                for (int i = 0; i < batch->n_sequences; i++) visits[batch->samples[i]]++;
            }
            for (int i = 0; i < SAMPLES; i++) assert_int_equal(visits[i], 1);
        }
        loader_close(loader);
    }
    dataset->close(dataset);
}

/* Writes the samples of an epoch in their order. Returns how many. */
static int epoch_order(const Dataset *dataset, LoaderOptions options, int64_t epoch, int32_t *order) {
    options.start_epoch = epoch;
    options.one_epoch = true;
    Loader *loader = loader_open(dataset, &options);
    int n = 0;
    for (const Batch *batch; (batch = loader_next(loader)); n += batch->n_sequences)
        memcpy(order + n, batch->samples, (size_t)batch->n_sequences * sizeof *order);
    loader_close(loader);
    return n;
}

TEST(orders_depend_on_seed_and_epoch) {
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    for (int bucket = 0; bucket < 2; bucket++) {
        int32_t order[3][SAMPLES];
        LoaderOptions options = usual();
        options.bucket = bucket;
        assert_int_equal(epoch_order(dataset, options, 0, order[0]), SAMPLES);
        assert_int_equal(epoch_order(dataset, options, 1, order[1]), SAMPLES);
        options.seed++;
        assert_int_equal(epoch_order(dataset, options, 0, order[2]), SAMPLES);
        assert_memory_not_equal(order[0], order[1], sizeof *order);
        assert_memory_not_equal(order[0], order[2], sizeof *order);
        options.shuffle = options.bucket = false;
        epoch_order(dataset, options, 4, order[0]);
        for (int i = 0; i < SAMPLES; i++) assert_int_equal(order[0][i], i);
    }
    dataset->close(dataset);
    dataset = open_samples(SAMPLES, 0, 0); /* all lengths are equal: sorting must keep the order */
    int32_t order[2][SAMPLES];
    LoaderOptions options = usual();
    options.shuffle = false;
    epoch_order(dataset, options, 0, order[0]);
    for (int i = 0; i < SAMPLES; i++) assert_int_equal(order[0][i], i);
    dataset->close(dataset);
}

/* Over many epochs each sample is first about equally often: chi-square with 9 degrees of freedom, with a 99.99 %
 * quantile of 33.7. The seed is fixed, so that the test cannot fail by chance. */
TEST(the_shuffle_is_fair) {
    enum { N = 10, EPOCHS = 2000 };
    Dataset *dataset = open_samples(N, 30, 80);
    int first[N] = {0};
    LoaderOptions options = usual();
    options.bucket = false;
    options.batch_size = N;
    Loader *loader = loader_open(dataset, &options);
    for (int i = 0; i < EPOCHS; i++) first[loader_next(loader)->samples[0]]++;
    loader_close(loader);
    double chi_square = 0, expected = (double)EPOCHS / N;
    for (int i = 0; i < N; i++) chi_square += (first[i] - expected) * (first[i] - expected) / expected;
    assert_true(chi_square < 33.7);
    dataset->close(dataset);
}

/* All samples are in one pool here, so that micro-batches are pieces of one sorted list. */
TEST(a_bucketed_batch_holds_similar_lengths) {
    enum { BATCHES = 10 };
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    LoaderOptions options = usual();
    int64_t least[BATCHES], most[BATCHES];
    bool sorted = true;
    Loader *loader = loader_open(dataset, &options);
    for (int b = 0; b < BATCHES; b++) {
        const Batch *batch = loader_next(loader);
        least[b] = dataset->tokens(dataset, batch->samples[0]);
        most[b] = dataset->tokens(dataset, batch->samples[batch->n_sequences - 1]);
        for (int i = 0; i < batch->n_sequences; i++)
            assert_in_range(dataset->tokens(dataset, batch->samples[i]), least[b], most[b]);
        for (int before = 0; before < b; before++) assert_true(most[before] <= least[b] || most[b] <= least[before]);
        sorted = sorted && (!b || least[b] >= most[b - 1]);
    }
    assert_false(sorted); /* the micro-batches are shuffled after sorting */
    loader_close(loader);
    dataset->close(dataset);
}

TEST(a_token_budget_is_kept_and_used) {
    enum { N = 40 };
    Dataset *dataset = open_samples(200, 30, 80); /* of up to 117 rows */
    LoaderOptions options = usual();
    Seen seen[N];
    int alone = 0, full = 0;
    for (int most = 0; most < 3; most += 2)
        for (int budget = 90; budget < 130; budget++) {
            options.batch_size = most;
            options.token_budget = budget;
            see_stream(dataset, &options, N, seen);
            for (int i = 0; i < N; i++) {
                assert_true(seen[i].tokens <= budget || seen[i].n == 1);
                assert_true(!most || seen[i].n <= most);
                alone += seen[i].tokens > budget;
                full += seen[i].tokens == budget && seen[i].n > 1;
            }
            free_seen(seen, N);
        }
    assert_true(alone > 0 && full > 0); /* both limits occurred */
    dataset->close(dataset);
}

/* Groups of three and of eight, over epochs of ten, and of one, micro-batches. */
TEST(group_counts_add_up_over_the_group) {
    enum { N = 48 };
    for (int samples = 3; samples <= SAMPLES; samples += SAMPLES - 3) {
        Dataset *dataset = open_samples(samples, 30, 80);
        for (int accumulate = 3; accumulate <= 8; accumulate += 5) {
            LoaderOptions options = usual();
            options.accumulate = accumulate;
            options.n_workers = 2;
            Seen seen[N];
            see_stream(dataset, &options, N, seen);
            for (int at = 0; at < N; at += accumulate)
                for (int c = 0; c < TOY_COUNTS; c++) {
                    double sum = 0;
                    for (int i = at; i < at + accumulate; i++) sum += seen[i].counts[c];
                    for (int i = at; i < at + accumulate; i++) assert_true(seen[i].group_counts[c] == sum);
                }
            free_seen(seen, N);
        }
        dataset->close(dataset);
    }
}

TEST(the_stream_ends_where_it_should) {
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    Seen seen[40];
    for (int workers = 0; workers < 3; workers++) {
        LoaderOptions options = usual();
        options.n_workers = workers;
        options.stop_after = 13;
        assert_int_equal(see_stream(dataset, &options, 40, seen), 13);
        free_seen(seen, 13);
        options.stop_after = 0;
        assert_int_equal(see_stream(dataset, &options, 40, seen), 0);
        options.one_epoch = true;
        assert_int_equal(see_stream(dataset, &options, 40, seen), 10);
        free_seen(seen, 10);
        options.start_index = 7;
        assert_int_equal(see_stream(dataset, &options, 40, seen), 3);
        free_seen(seen, 3);
        options =
            (LoaderOptions){.batch_size = 4, .accumulate = 1, .n_workers = workers, .epoch_limit = 3, .stop_after = -1};
        assert_int_equal(loader_epoch_batches(dataset, &options, 0), 3);
        assert_int_equal(see_stream(dataset, &options, 7, seen), 7);
        for (int i = 0; i < 7; i++) { /* the same three samples again and again */
            assert_true(seen[i].epoch == i / 3 && seen[i].index == i % 3 && seen[i].samples[0] == i % 3 * 4);
        }
        free_seen(seen, 7);
    }
    dataset->close(dataset);
}

TEST(nothing_is_allocated_after_the_first_batch) {
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    for (int workers = 0; workers < 5; workers += 4) {
        LoaderOptions options = usual();
        options.n_workers = workers;
        options.token_budget = 150;
        Loader *loader = loader_open(dataset, &options);
        loader_next(loader);
        int64_t before = allocation_count();
        for (int i = 0; i < 200; i++) loader_next(loader);
        assert_int_equal(allocation_count(), before);
        loader_close(loader);
    }
    dataset->close(dataset);
}

/* Prints a dot for each micro-batch before the one that cannot be filled. */
static void run_into_bad_sample(void *options) {
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    Slow slow = slow_open(dataset);
    slow.bad_sample = 30;
    Loader *loader = loader_open(&slow.face, options);
    for (;;) {
        loader_next(loader);
        printf(".");
    }
}

TEST(a_failure_is_reported_at_its_batch) {
    char output[256], expected[256]; /* seven times four samples before it */
    snprintf(expected, sizeof expected, ".......%s: sample 30 is bad\n", program_invocation_short_name);
    for (int workers = 0; workers < 9; workers += 4) {
        LoaderOptions options = usual();
        options.shuffle = options.bucket = false;
        options.n_workers = workers;
        assert_int_equal(run_function(output, sizeof output, run_into_bad_sample, &options), 1);
        assert_string_equal(output, expected);
    }
}

static void open_nothing(void *unused) {
    (void)unused;
    LoaderOptions options = usual();
    loader_open(open_samples(0, 1, 1), &options);
}

TEST(an_empty_data_set_is_refused) {
    char output[256];
    assert_int_equal(run_function(output, sizeof output, open_nothing, NULL), 1);
    assert_contains(output, "the data set has no samples");
}

/* Fills a batch, and checks that its epoch and index are set before: random numbers that are drawn here depend on them.
 */
static bool placed_fill(const Dataset *face, Batch *batch, const int32_t *samples, int n, Error *error) {
    if (!inner(face)->fill(inner(face), batch, samples, n, error)) return false;
    batch->n_tokens = 1000 * batch->epoch + 10 * batch->index + batch->last;
    return true;
}

TEST(a_batch_knows_its_place_before_it_is_filled) {
    enum { N = 24 };
    Dataset *dataset = open_samples(SAMPLES, 30, 80); /* ten micro-batches an epoch */
    Slow placed = slow_open(dataset);
    Seen seen[N];
    placed.face.fill = placed_fill;
    for (int workers = 0; workers < 4; workers += 3)
        for (int limit = 0; limit < 8; limit += 7) {
            LoaderOptions options = usual();
            int64_t batches = limit ? limit : 10;
            options.n_workers = workers;
            options.epoch_limit = limit;
            assert_int_equal(see_stream(&placed.face, &options, N, seen), N);
            for (int64_t i = 0; i < N; i++) {
                assert_true(seen[i].epoch == i / batches && seen[i].index == i % batches);
                assert_true(seen[i].last == (i % batches == batches - 1));
                assert_int_equal(seen[i].tokens, 1000 * seen[i].epoch + 10 * seen[i].index + seen[i].last);
            }
            free_seen(seen, N);
        }
    dataset->close(dataset);
}

/* Every micro-batch is full, no sample occurs twice in an epoch, and different samples are left out in each epoch. */
TEST(drop_last_gives_only_full_batches) {
    Dataset *dataset = open_samples(SAMPLES, 30, 80);
    for (int setting = 0; setting < 8; setting++) {
        LoaderOptions options = usual();
        options.drop_last = true;
        options.shuffle = setting & 1;
        options.bucket = setting & 2;
        options.batch_size = setting & 4 ? 37 : 5;
        int visited[SAMPLES] = {0};
        int64_t batches = SAMPLES / options.batch_size;
        Loader *loader = loader_open(dataset, &options);
        for (int64_t epoch = 0; epoch < 8; epoch++) {
            int visits[SAMPLES] = {0};
            assert_int_equal(loader_epoch_batches(dataset, &options, epoch), batches);
            for (int64_t b = 0; b < batches; b++) {
                const Batch *batch = loader_next(loader);
                assert_true(batch->epoch == epoch && batch->index == b && batch->last == (b == batches - 1));
                assert_int_equal(batch->n_sequences, options.batch_size);
                for (int i = 0; i < batch->n_sequences; i++) assert_int_equal(visits[batch->samples[i]]++, 0);
            }
            for (int i = 0; i < SAMPLES; i++) visited[i] += visits[i];
        }
        for (int i = 0; i < SAMPLES && options.shuffle && !options.bucket; i++) assert_true(visited[i] > 0);
        loader_close(loader);
    }
    dataset->close(dataset);
}

static void open_too_few(void *unused) {
    (void)unused;
    LoaderOptions options = usual();
    options.drop_last = true;
    loader_open(open_samples(3, 1, 1), &options);
}

TEST(an_epoch_without_a_full_batch_is_refused) {
    char output[512];
    Dataset *dataset = open_samples(3, 1, 1);
    LoaderOptions options = usual();
    options.drop_last = true;
    assert_int_equal(loader_epoch_batches(dataset, &options, 0), 0);
    assert_int_equal(run_function(output, sizeof output, open_too_few, NULL), 1);
    assert_contains(output, "the data set has 3 samples, fewer than one micro-batch of 4");
    dataset->close(dataset);
}

static int descending_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x < y) - (x > y);
}

/* For every batch size, the bytes are a constant plus those of the largest samples. */
TEST(the_bytes_of_a_batch_are_those_of_its_largest_samples) {
    for (int ties = 0; ties < 2; ties++) {
        Dataset *dataset = open_samples(SAMPLES, ties ? 2 : 60, ties ? 3 : 200);
        size_t each[SAMPLES], constant = dataset->batch_bytes(dataset, NULL, 0), want = constant;
        for (int32_t i = 0; i < SAMPLES; i++) each[i] = dataset->batch_bytes(dataset, &i, 1) - constant;
        qsort(each, SAMPLES, sizeof *each, descending_sizes);
        for (int b = 1; b <= SAMPLES + 1; b++) {
            int sequences;
            if (b <= SAMPLES) want += each[b - 1];
            assert_int_equal(loader_batch_bytes(dataset, &(LoaderOptions){.batch_size = b}, &sequences), want);
            assert_int_equal(sequences, b <= SAMPLES ? b : SAMPLES);
        }
        dataset->close(dataset);
    }
}

/* Counts the shortest samples that fit together, within the batch size; at least one. */
TEST(a_token_budget_allows_the_most_sequences_of_the_shortest) {
    for (int ties = 0; ties < 2; ties++) {
        Dataset *dataset = open_samples(SAMPLES, ties ? 2 : 60, ties ? 3 : 200);
        size_t tokens[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) tokens[i] = (size_t)dataset->tokens(dataset, i);
        qsort(tokens, SAMPLES, sizeof *tokens, descending_sizes);
        size_t all = 0;
        for (int fit = 1; fit <= SAMPLES; fit++) {
            all += tokens[SAMPLES - fit];
            size_t next = fit < SAMPLES ? tokens[SAMPLES - fit - 1] : 10;
            const size_t budgets[] = {fit > 1 ? all : 1,
                                      all + next - 1}; /* the smallest and the largest budget for `fit` samples */
            for (int i = 0; i < 4; i++) {
                int sequences, limit = i < 2 ? 0 : 1 + fit / 2;
                LoaderOptions options = {.token_budget = (int64_t)budgets[i % 2], .batch_size = limit};
                loader_batch_bytes(dataset, &options, &sequences);
                assert_int_equal(sequences, limit && limit < fit ? limit : fit);
            }
        }
        dataset->close(dataset);
    }
}
