/* The batch that memory is planned by has room for every micro-batch that a loader forms. */
#include "data/gpt/dataset.h"
#include "data/loader.h"
#include "kernels/philox.h"
#include "tests/test.h"

static const GptLayout layout = {.d_model = 3,
                                 .n_conditioning = 2,
                                 .max_text = 600,
                                 .max_codes = 1816,
                                 .text_vocabulary = 50,
                                 .audio_vocabulary = 40,
                                 .stop_text = 1,
                                 .start_mel = 40,
                                 .stop_mel = 41};

/* Opens n samples of seeded lengths; `against`: the longer the text the shorter the codes. */
static Dataset *open_lengths(int n, int longest_text, int longest_codes, bool against) {
    int32_t *text = xmalloc((size_t)n * 4), *codes = xmalloc((size_t)n * 4);
    for (int i = 0; i < n; i++) {
        double at = (double)philox_uniform(5, PURPOSE_TEST, 0, (uint64_t)i);
        double other = against ? 1 - at : (double)philox_uniform(5, PURPOSE_TEST, 1, (uint64_t)i);
        text[i] = 1 + (int32_t)(at * longest_text);
        codes[i] = 1 + (int32_t)(other * longest_codes);
    }
    Dataset *dataset = gpt_dataset_synthetic(&layout, text, codes, n);
    free(text);
    free(codes);
    return dataset;
}

static void expect_dominated(const Dataset *dataset, int batch_size, int64_t budget) {
    LoaderOptions options = {.accumulate = 3, .shuffle = true, .bucket = true, .seed = 17, .stop_after = -1};
    options.batch_size = batch_size;
    options.token_budget = budget;
    Batch largest = gpt_largest_batch(dataset, batch_size, budget);
    Loader *loader = loader_open(dataset, &options);
    for (int64_t i = 2 * loader_epoch_batches(dataset, &options, 0); i > 0; i--) {
        const Batch *batch = loader_next(loader);
        assert_true(batch->n_tokens <= largest.n_tokens);
        for (int c = 0; c < GPT_COUNTS; c++) assert_true(batch->counts[c] <= largest.counts[c]);
        if (!budget) assert_true(batch->size <= largest.size);
    }
    loader_close(loader);
    batch_close(&largest);
}

TEST(the_largest_batch_dominates) {
    static const struct {
        int n, text, codes;
        bool against;
    } sets[] = {{100, 30, 80, false}, {100, 30, 80, true}, {100, 200, 10, true}, {5, 30, 80, false}, {1, 9, 9, false}};
    for (int s = 0; s < 5; s++) {
        Dataset *dataset = open_lengths(sets[s].n, sets[s].text, sets[s].codes, sets[s].against);
        for (int batch_size = 1; batch_size <= 64; batch_size *= 2) expect_dominated(dataset, batch_size, 0);
        for (int budget = 10; budget < 30000; budget += 1 + budget / 5) {
            expect_dominated(dataset, 0, budget);
            expect_dominated(dataset, 8, budget);
        }
        dataset->close(dataset);
    }
}
