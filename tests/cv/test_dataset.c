/* Batches of FLIM cells: which cell a sample is, what is drawn for it, and what its target is. */
#include "data/cv/dataset.h"

#include "data/loader.h"
#include "tests/test.h"

enum { CELLS = 40, DONORS = 3 };
static const uint64_t SEED = 7;

static uint16_t counts[CELLS][4 * 3 * 3];
static int32_t labels[CELLS], donors[CELLS], fields[CELLS], train_ids[CELLS];
static double entropy[CELLS];
static const char *names[DONORS] = {"A", "B", "C"}, *files[CELLS];
static CvCells cells = {.n = CELLS,
                        .shape = {4, 3, 3},
                        .bits = 16,
                        .counts = counts,
                        .labels = labels,
                        .donors = donors,
                        .fields = fields,
                        .entropy = entropy,
                        .n_donors = DONORS,
                        .donor_names = names,
                        .file_names = files};

/* Donors of 20, 12 and 8 cells, one in four active; the training cells are those of the first two, without number 3. */
static int make_cells(void **state) {
    (void)state;
    for (int i = 0; i < CELLS; i++) {
        donors[i] = fields[i] = i < 20 ? 0 : i < 32 ? 1 : 2;
        labels[i] = i % 4 == 1;
        files[i] = xformat("%s/cell_%d.npy", names[donors[i]], i);
    }
    for (int32_t i = 0; i < 32; i++) train_ids[i] = i < 3 ? i : i + 1;
    return 0;
}

static int free_cells(void **state) {
    (void)state;
    for (int i = 0; i < CELLS; i++) free((void *)(uintptr_t)files[i]);
    return 0;
}

static const CvIds TRAIN = {train_ids, 31};

static CvSampler open_sampler(void) {
    CvColumns columns = {CELLS, labels, donors, fields, entropy, DONORS, names};
    return cv_sampler_new(&columns, &TRAIN, true);
}

static Batch fill(const Dataset *dataset, int64_t epoch, int64_t index, const int32_t *samples, int n) {
    Error error;
    Batch batch = batch_open(dataset->batch_bytes(dataset, samples, n), n);
    batch.epoch = epoch;
    batch.index = index;
    assert_true(dataset->fill(dataset, &batch, samples, n, &error));
    assert_int_equal(batch.n_sequences, n);
    assert_int_equal(batch.n_tokens, n);
    assert_true(batch.counts[CV_COUNT_CELLS] == n && batch.size <= batch.capacity);
    for (int i = 0; i <= n; i++) assert_int_equal(((const int32_t *)batch.fields[CV_OFFSETS].data)[i], i);
    return batch;
}

#define INTS(batch, field)   ((const int32_t *)(batch).fields[field].data)
#define FLOATS(batch, field) ((const float *)(batch).fields[field].data)

static AugmentDraws draws_of(const Batch *batch, int i) {
    AugmentDraws draws;
    memcpy(&draws, INTS(*batch, CV_DRAWS) + (ptrdiff_t)i * AUGMENT_DRAW_WORDS, sizeof draws);
    return draws;
}

TEST(validation_sees_every_cell_once_as_it_is) {
    CvDatasetOptions options = {.seed = SEED, .augment = true, .mixup = true, .smoothing = 0.5, .views = 1};
    Dataset *dataset = cv_dataset_open(&cells, &TRAIN, &options);
    int32_t samples[31];
    for (int i = 0; i < 31; i++) samples[i] = i;
    Batch batch = fill(dataset, 3, 2, samples, 31);
    assert_int_equal(dataset->n_samples, 31);
    assert_false(tensor_given(batch.fields[CV_PARTNERS]));
    for (int i = 0; i < 31; i++) {
        AugmentDraws draws = draws_of(&batch, i), none = {.scale = 1};
        assert_int_equal(INTS(batch, CV_CELLS)[i], train_ids[i]);
        assert_int_equal(batch.samples[i], i);
        assert_memory_equal(&draws, &none, sizeof none);
        assert_true(FLOATS(batch, CV_TARGETS)[i] == (float)labels[train_ids[i]]);
        assert_true(FLOATS(batch, CV_LABELS)[i] == (float)labels[train_ids[i]]);
        assert_string_equal(dataset->sample_id(dataset, i), files[train_ids[i]]);
    }
    assert_ptr_equal(dataset->device_data.data, counts);
    assert_true(dataset->device_data.dtype == DTYPE_U16 && dataset->device_data.dims[0] == CELLS &&
                dataset->device_data.dims[1] == 36);
    batch_close(&batch);
    dataset->close(dataset);
}

TEST(views_of_a_cell_lie_side_by_side) {
    static const int turns[CV_VIEWS] = {0, 1, 0, 0}, flips[CV_VIEWS] = {0, 0, AUGMENT_FLIP_X, AUGMENT_FLIP_Y};
    Dataset *dataset = cv_dataset_open(&cells, &TRAIN, &(CvDatasetOptions){.views = CV_VIEWS});
    int32_t samples[] = {8, 9, 10, 11};
    Batch batch = fill(dataset, 0, 0, samples, 4);
    assert_int_equal(dataset->n_samples, 4 * 31);
    for (int v = 0; v < CV_VIEWS; v++) {
        AugmentDraws want = {.scale = 1, .turns = turns[v], .flips = flips[v]}, draws = draws_of(&batch, v);
        assert_int_equal(INTS(batch, CV_CELLS)[v], train_ids[2]);
        assert_memory_equal(&draws, &want, sizeof want);
        assert_string_equal(dataset->sample_id(dataset, 8 + v), files[train_ids[2]]);
    }
    batch_close(&batch);
    dataset->close(dataset);
}

TEST(training_uses_the_sampled_cells) {
    CvSampler sampler = open_sampler();
    CvDatasetOptions options = {.seed = SEED,
                                .train = true,
                                .sampler = &sampler,
                                .augment = true,
                                .max_shift = 1,
                                .smoothing = 0.05,
                                .views = 1};
    Dataset *dataset = cv_dataset_open(&cells, &TRAIN, &options);
    int32_t samples[] = {30, 0, 17, 5};
    bool differs = false;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        Batch batch = fill(dataset, epoch, 0, samples, 4);
        for (int i = 0; i < 4; i++) {
            uint64_t position = (uint64_t)samples[i];
            int32_t cell = cv_sampler_draw(&sampler, SEED, (uint32_t)epoch, position);
            AugmentDraws want = cv_augment_draw(SEED, (uint32_t)epoch, position, 3, 1), draws = draws_of(&batch, i);
            assert_int_equal(INTS(batch, CV_CELLS)[i], cell);
            assert_int_equal(train_ids[batch.samples[i]], cell); /* by which messages name it */
            assert_memory_equal(&draws, &want, sizeof want);
            assert_near(FLOATS(batch, CV_TARGETS)[i], labels[cell] ? 0.975 : 0.025, 1e-7);
            assert_true(FLOATS(batch, CV_LABELS)[i] == (float)labels[cell]);
            differs |= epoch && cell != cv_sampler_draw(&sampler, SEED, 0, position);
        }
        batch_close(&batch);
    }
    assert_true(differs);
    dataset->close(dataset);
    options.augment = false;
    dataset = cv_dataset_open(&cells, &TRAIN, &options);
    Batch batch = fill(dataset, 1, 0, samples, 4);
    AugmentDraws none = {.scale = 1}, draws = draws_of(&batch, 2);
    assert_memory_equal(&draws, &none, sizeof none);
    batch_close(&batch);
    dataset->close(dataset);
    cv_sampler_free(&sampler);
}

/* Without a sampler every training cell is there once, augmented. */
TEST(cells_need_not_be_drawn) {
    CvDatasetOptions options = {.seed = SEED, .train = true, .augment = true, .max_shift = 1, .views = 1};
    Dataset *dataset = cv_dataset_open(&cells, &TRAIN, &options);
    int32_t samples[] = {30, 0, 17, 5};
    Batch batch = fill(dataset, 1, 0, samples, 4);
    for (int i = 0; i < 4; i++) {
        AugmentDraws want = cv_augment_draw(SEED, 1, (uint64_t)samples[i], 3, 1), draws = draws_of(&batch, i);
        assert_int_equal(INTS(batch, CV_CELLS)[i], train_ids[samples[i]]);
        assert_memory_equal(&draws, &want, sizeof want);
    }
    batch_close(&batch);
    dataset->close(dataset);
}

TEST(mixed_targets_are_those_of_mixed_cells) {
    CvSampler sampler = open_sampler();
    CvDatasetOptions options = {
        .seed = SEED, .train = true, .sampler = &sampler, .mixup = true, .smoothing = 0.05, .views = 1};
    Dataset *dataset = cv_dataset_open(&cells, &TRAIN, &options);
    int32_t samples[8] = {0, 1, 2, 3, 4, 5, 6, 7}, partners[8];
    int mixed = 0;
    for (int64_t index = 0; index < 200; index++) {
        float share;
        bool mixes = cv_augment_mixup(SEED, 2, (uint64_t)index, 8, &share, partners);
        Batch batch = fill(dataset, 2, index, samples, 8);
        assert_int_equal(tensor_given(batch.fields[CV_PARTNERS]), mixes);
        assert_int_equal(batch.n_fields, CV_FIELDS);
        mixed += mixes;
        for (int i = 0; i < 8; i++) {
            double own = 0.025 + 0.95 * labels[INTS(batch, CV_CELLS)[i]];
            double other = 0.025 + 0.95 * labels[INTS(batch, CV_CELLS)[partners[i]]];
            double want = mixes ? (double)share * own + (1 - (double)share) * other : own;
            assert_near(FLOATS(batch, CV_TARGETS)[i], want, 1e-6);
            if (mixes) assert_int_equal(INTS(batch, CV_PARTNERS)[i], partners[i]);
        }
        if (mixes) assert_true(*FLOATS(batch, CV_SHARE) == share);
        batch_close(&batch);
    }
    assert_in_range(mixed, 35, 85); /* 60, give or take four deviations */
    dataset->close(dataset);
    cv_sampler_free(&sampler);
}

/* The memory is planned for what the largest batch has: all fields. */
TEST(the_largest_batch_is_mixed) {
    CvSampler sampler = open_sampler();
    CvDatasetOptions options = {.seed = SEED, .train = true, .sampler = &sampler, .mixup = true, .views = 1};
    Dataset *dataset = cv_dataset_open(&cells, &TRAIN, &options);
    Batch batch = cv_dataset_largest_batch(dataset, 8, 0);
    assert_int_equal(batch.n_sequences, 8);
    for (int i = 0; i < CV_FIELDS; i++) assert_true(tensor_given(batch.fields[i]));
    batch_close(&batch);
    batch = cv_dataset_largest_batch(dataset, 64, 0);
    assert_int_equal(batch.n_sequences, 31);
    batch_close(&batch);
    dataset->close(dataset);
    cv_sampler_free(&sampler);
}

int main(void) { return tests_run(make_cells, free_cells); }
