/* Folds of FLIM donors: the specification's table of splits from its counts of cells, the filter, the sampler, and
 * every split that is refused. */
#include "data/cv/splits.h"

#include "tests/test.h"

static Error error;

enum { DONORS = 6, INACTIVE = 0, ACTIVE = 1 };
static const char *const NAMES[] = {"D1", "D2", "D3", "D4", "D5", "D6"};
static const int COUNTS[DONORS][2] = {{2110, 789}, {2184, 582}, {2351, 604}, {399, 1139}, {625, 1291}, {3210, 957}};

/* A set of as many cells as the data has, in ten fields of view for each donor. */
typedef struct {
    CvColumns c;
    int32_t *labels, *donors, *fields;
    double *entropy;
} Cells;
static Cells k;

static int make_cells(void **state) {
    (void)state;
    enum { N = 16241 };
    k.labels = xmalloc(N * sizeof(int32_t));
    k.donors = xmalloc(N * sizeof(int32_t));
    k.fields = xmalloc(N * sizeof(int32_t));
    k.entropy = xmalloc(N * sizeof(double));
    int64_t n = 0;
    for (int d = 0; d < DONORS; d++)
        for (int label = 0; label < 2; label++)
            for (int i = 0; i < COUNTS[d][label]; i++, n++) {
                k.labels[n] = label;
                k.donors[n] = d;
                k.fields[n] = d * 10 + i % 10;
                k.entropy[n] = 7 + 0.1 * d + (i % 20 ? 0 : -4);
            }
    assert_int_equal(n, N);
    k.c = (CvColumns){N, k.labels, k.donors, k.fields, k.entropy, DONORS, NAMES};
    return 0;
}

static int free_cells(void **state) {
    (void)state;
    free(k.labels);
    free(k.donors);
    free(k.fields);
    free(k.entropy);
    return 0;
}

static CvSplits split_of(const CvDonors *fold, const CvFilter *filter) {
    CvSplits splits;
    if (!cv_splits_open(&k.c, fold, filter, &splits, &error)) fail_msg("%s", error.text);
    if (!cv_splits_check(&k.c, &splits, &error)) fail_msg("%s", error.text);
    return splits;
}

/* The rows of the table: the splits of donors D1 .. D6 as digits, . none. */
static void check_row(const CvDonors *fold, const char *name, const char *splits, int64_t train, int64_t val,
                      int64_t test, int64_t quiescent, double weight) {
    assert_string_equal(fold->name, name);
    for (int d = 0; d < DONORS; d++) assert_int_equal(fold->splits[d], splits[d] == '.' ? -1 : splits[d] - '0');
    CvSplits s = split_of(fold, NULL);
    const int64_t want[3] = {train, val, test};
    for (int split = 0; split < 3; split++) {
        assert_int_equal(s.ids[split].n, want[split]);
        for (int64_t i = 1; i < s.ids[split].n; i++) assert_true(s.ids[split].at[i] > s.ids[split].at[i - 1]);
    }
    int64_t seen = 0;
    for (int64_t i = 0; i < s.ids[0].n; i++) seen += !k.labels[s.ids[0].at[i]];
    assert_int_equal(seen, quiescent);
    double active = cv_prior_natural(&k.c, &s.ids[0]);
    assert_near((1 - active) / active, weight, 5e-5); /* the reference's weight of an active cell */
    cv_splits_free(&s);
}

TEST(reference_splits_have_the_tables_sizes) {
    CvFolds f;
    assert_true(cv_folds_reference(&k.c, "D1,D2,D3,D4", &f, &error));
    assert_int_equal(f.n, 4);
    check_row(&f.folds[0], "D1", "2100..", 4493, 2766, 2899, 2750, 1.5777);
    check_row(&f.folds[1], "D2", "1200..", 4493, 2899, 2766, 2750, 1.5777);
    check_row(&f.folds[2], "D3", "1020..", 4304, 2899, 2955, 2583, 1.5009);
    check_row(&f.folds[3], "D4", "1002..", 5721, 2899, 1538, 4535, 3.8238);
    cv_folds_free(&f);
    assert_true(cv_folds_named(&k.c, "D1,D2,D3,D4", "D6", "D5", &f, &error));
    assert_int_equal(f.n, 1);
    check_row(&f.folds[0], "final", "000021", 10158, 4167, 1916, 7044, 2.2620);
    CvSplits s = split_of(&f.folds[0], NULL);
    assert_near(cv_prior_natural(&k.c, &s.ids[0]), 0.3066, 5e-5);
    cv_splits_free(&s);
    cv_folds_free(&f);
}

TEST(nested_folds_test_and_validate_each_donor_once) {
    CvFolds f;
    int tested[DONORS] = {0}, validated[DONORS] = {0};
    assert_true(cv_folds_nested(&k.c, NULL, &f, &error));
    assert_int_equal(f.n, DONORS);
    for (int i = 0; i < f.n; i++) {
        int trained = 0;
        assert_string_equal(f.folds[i].name, NAMES[i]);
        assert_int_equal(f.folds[i].splits[i], CV_SPLIT_TEST);
        assert_int_equal(f.folds[i].splits[(i + 1) % DONORS], CV_SPLIT_VAL);
        for (int d = 0; d < DONORS; d++) {
            tested[d] += f.folds[i].splits[d] == CV_SPLIT_TEST;
            validated[d] += f.folds[i].splits[d] == CV_SPLIT_VAL;
            trained += f.folds[i].splits[d] == CV_SPLIT_TRAIN;
        }
        assert_int_equal(trained, DONORS - 2);
        CvSplits s = split_of(&f.folds[i], NULL);
        assert_int_equal(s.ids[0].n + s.ids[1].n + s.ids[2].n, k.c.n);
        cv_splits_free(&s);
    }
    for (int d = 0; d < DONORS; d++) assert_true(tested[d] == 1 && validated[d] == 1);
    cv_folds_free(&f);
}

/* Four donors of two cells each. */
TEST(the_next_donor_with_both_classes_validates) {
    static const int32_t donors[] = {0, 0, 1, 1, 2, 2, 3, 3}, fields[8];
    static const double entropy[] = {5, 5, 5, 5, 5, 9, 5, 5};
    static const struct {
        int32_t labels[8];
        bool filtered;
        const char *folds; /* the splits of each fold: 0 training, 1 validation, 2 test */
    } cases[] = {{{0, 1, 0, 1, 0, 1, 0, 1}, false, "2100 0210 0021 1002 "},
                 {{0, 1, 1, 1, 0, 1, 0, 1}, false, "2010 0210 0021 1002 "}, /* the second has one class */
                 {{0, 1, 0, 1, 0, 1, 0, 1}, true, "2100 0201 0021 1002 "},  /* the third after the filter */
                 {{0, 1, 1, 1, 1, 1, 1, 1}, false, ""}};
    const CvFilter filter = {4, 6, true};
    static const char *const names[] = {"A", "B", "C", "D"};
    for (int k = 0; k < 4; k++) {
        CvColumns c = {8, cases[k].labels, donors, fields, entropy, 4, names};
        CvFolds f;
        char text[64] = "";
        int n = 0;
        bool ok = cv_folds_nested(&c, cases[k].filtered ? &filter : NULL, &f, &error);
        assert_int_equal(ok, cases[k].folds[0] != 0);
        for (int i = 0; i < f.n; i++)
            for (int d = 0; d <= 4; d++) text[n++] = (char)(d < 4 ? '0' + (int)f.folds[i].splits[d] : ' ');
        assert_string_equal(text, cases[k].folds);
        if (!ok) assert_contains(error.text, "no fold has cells of both classes to train on and to validate on");
        cv_folds_free(&f);
    }
}

/* ---- what is refused ---- */

TEST(wrong_donors_are_refused) {
    static const char *const wrong[][4] = {{"D1,D2", "D3", "D1", "donor D1 is named for train and for test"},
                                           {"D1,D2", "D2", "D5", "donor D2 is named for train and for val"},
                                           {"D1,D2", "D3", "D3", "donor D3 is named for val and for test"},
                                           {"D1,D1", "D3", "D4", "donor D1 is named twice in 'D1,D1'"},
                                           {"D1,D7", "D3", "D4", "there is no donor 'D7'"},
                                           {"D1,,D2", "D3", "D4", "there is no donor ''"},
                                           {"D1", "", "D4", "no donor is named for the val split"}};
    CvFolds f;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Error error = {""};
        assert_false(cv_folds_named(&k.c, wrong[i][0], wrong[i][1], wrong[i][2], &f, &error));
        assert_contains(error.text, wrong[i][3]);
        assert_true(!f.folds);
    }
    assert_false(cv_folds_reference(&k.c, "D1,D2", &f, &error));
    assert_contains(error.text, "names 2 donors; expected 3");
    assert_false(cv_folds_reference(&k.c, "D1,D2,X", &f, &error));
    assert_contains(error.text, "no donor 'X'");
    CvColumns two = k.c;
    two.n_donors = 2;
    assert_false(cv_folds_nested(&two, NULL, &f, &error));
    assert_contains(error.text, "there are 2 donors");
}

TEST(splits_that_share_donors_or_fields_are_refused) {
    int32_t ids[3][2] = {{0, 1}, {3000, 3001}, {15000, 15001}};
    CvSplits s = {{{ids[0], 2}, {ids[1], 2}, {ids[2], 2}}};
    assert_true(cv_splits_check(&k.c, &s, &error));
    ids[2][1] = 12; /* of D1, and of a field that is in no other split */
    assert_false(cv_splits_check(&k.c, &s, &error));
    assert_contains(error.text, "donor D1 has cells in train and in test (cell 12)");
    ids[2][1] = 11; /* of cell 1's field */
    assert_false(cv_splits_check(&k.c, &s, &error));
    assert_contains(error.text, "a field of view of donor D1 has cells in train and in test (cell 11)");
    ids[2][1] = ids[0][0];
    assert_false(cv_splits_check(&k.c, &s, &error));
    assert_contains(error.text, "has cell 0 twice");
    ids[2][1] = 16241;
    assert_false(cv_splits_check(&k.c, &s, &error));
    assert_contains(error.text, "test has cell 16241; there are 16241");
}

TEST(empty_splits_and_single_classes_are_refused) {
    static const char *const names[] = {"D1", "D2", "D3", "none"};
    static const int32_t labels[] = {0, 0, 1, 1}, donors[] = {0, 0, 1, 2}, fields[4] = {0};
    static const double entropy[] = {7, 1, 7, 7};
    CvColumns c = {4, labels, donors, fields, entropy, 4, names};
    const CvFilter filter = {6, 8, true};
    CvFolds f;
    CvSplits s;
    assert_true(cv_folds_named(&c, "D1", "D2", "D3", &f, &error));
    assert_false(cv_splits_open(&c, &f.folds[0], NULL, &s, &error));
    assert_contains(error.text, "fold final: all 2 training cells are quiescent");
    cv_folds_free(&f);
    assert_true(cv_folds_named(&c, "D1,D2", "D3", "none", &f, &error));
    assert_false(cv_splits_open(&c, &f.folds[0], &filter, &s, &error));
    assert_contains(error.text, "fold final: there is no cell in the test split");
    cv_folds_free(&f);
}

/* ---- the filter ---- */

TEST(filter_is_of_the_training_donors) {
    CvFolds f;
    assert_true(cv_folds_named(&k.c, "D1,D4", "D6", "D5", &f, &error));
    double sum = 0, squares = 0, n = 2899 + 1538;
    for (int64_t i = 0; i < k.c.n; i++)
        if (k.donors[i] == 0 || k.donors[i] == 3) sum += k.entropy[i];
    for (int64_t i = 0; i < k.c.n; i++)
        if (k.donors[i] == 0 || k.donors[i] == 3) squares += pow(k.entropy[i] - sum / n, 2);
    CvFilter filter = cv_filter_fit(&k.c, &f.folds[0], 2);
    assert_near((filter.low + filter.high) / 2, sum / n, 1e-12);
    assert_near(filter.high - filter.low, 4 * sqrt(squares / n), 1e-12);
    /* every twentieth cell of a donor and class is 4 bits below the others, beyond 2 standard deviations of 0.9 */
    CvSplits s = split_of(&f.folds[0], &filter);
    assert_int_equal(s.ids[CV_SPLIT_TRAIN].n, n - 106 - 40 - 20 - 57);
    assert_int_equal(s.ids[CV_SPLIT_TEST].n, 1916);
    cv_splits_free(&s);
    filter = cv_filter_compat(2);
    s = split_of(&f.folds[0], &filter);
    assert_int_equal(s.ids[CV_SPLIT_TRAIN].n, n - 106 - 40 - 20 - 57);
    assert_int_equal(s.ids[CV_SPLIT_TEST].n, 1916 - 32 - 65);
    cv_splits_free(&s);
    cv_folds_free(&f);
}

TEST(compat_filter_has_the_references_bounds) {
    CvFilter filter = cv_filter_compat(2);
    assert_near(filter.low, 5.519, 1e-12);
    assert_near(filter.high, 9.051, 1e-12);
    assert_true(cv_filter_keeps(&filter, log2(46)) && !cv_filter_keeps(&filter, log2(45)));
    assert_true(cv_filter_keeps(&filter, log2(441))); /* all that there is */
    assert_true(filter.everywhere);
}

/* ---- the sampler ---- */

static CvSplits guide_splits(void) {
    CvFolds f;
    assert_true(cv_folds_named(&k.c, "D1,D2,D3,D4", "D6", "D5", &f, &error));
    CvSplits s = split_of(&f.folds[0], NULL);
    cv_folds_free(&f);
    return s;
}

/* Shares of 10^5 draws are within five standard deviations of what is expected, as are those of donors. */
TEST(sampler_balances_classes_or_strata) {
    enum { DRAWS = 100000 };
    CvSplits splits = guide_splits();
    for (int strata = 0; strata < 2; strata++) {
        CvSampler s = cv_sampler_new(&k.c, &splits.ids[CV_SPLIT_TRAIN], strata);
        int64_t seen[DONORS][2] = {{0}};
        assert_near(cv_prior_effective(&k.c, &s), 0.5, 1e-12);
        for (uint64_t i = 0; i < DRAWS; i++) {
            int32_t cell = cv_sampler_draw(&s, 42, 1, i);
            seen[k.donors[cell]][k.labels[cell]]++;
        }
        for (int d = 0; d < DONORS; d++)
            for (int label = 0; label < 2; label++) {
                double p = d > 3 ? 0 : strata ? 0.125 : 0.5 * COUNTS[d][label] / (label ? 3114 : 7044);
                assert_near(seen[d][label], DRAWS * p, 5 * sqrt(DRAWS * p * (1 - p)));
            }
        cv_sampler_free(&s);
    }
    cv_splits_free(&splits);
}

/* All cells are drawn sooner or later, the first and the last too; in an epoch of n draws a quiescent one with
 * 1 - exp(-n / (2 n_quiescent)) = 51 %, an active one with 80 %. */
TEST(an_epoch_sees_as_many_cells_as_it_should) {
    CvSplits splits = guide_splits();
    CvSampler s = cv_sampler_new(&k.c, &splits.ids[CV_SPLIT_TRAIN], false);
    char *seen = xcalloc((size_t)k.c.n, 1);
    int64_t n = splits.ids[CV_SPLIT_TRAIN].n;
    double share[2] = {0};
    for (uint64_t i = 0; i < (uint64_t)n; i++) seen[cv_sampler_draw(&s, 1, 0, i)] = 1;
    for (int64_t i = 0; i < k.c.n; i++) share[k.labels[i]] += seen[i];
    assert_near(share[INACTIVE] / 7044, 0.51, 0.02);
    assert_near(share[ACTIVE] / 3114, 0.80, 0.02);
    for (uint64_t i = 0; i < 40 * (uint64_t)n; i++) seen[cv_sampler_draw(&s, 1, 1, i)] = 1;
    for (int64_t i = 0; i < n; i++) assert_true(seen[splits.ids[CV_SPLIT_TRAIN].at[i]]);
    free(seen);
    cv_sampler_free(&s);
    cv_splits_free(&splits);
}

TEST(draws_depend_on_seed_and_epoch) {
    CvSplits splits = guide_splits();
    CvSampler s = cv_sampler_new(&k.c, &splits.ids[CV_SPLIT_TRAIN], false);
    int same[3] = {0};
    for (uint64_t i = 0; i < 1000; i++) {
        int32_t cell = cv_sampler_draw(&s, 1, 1, i);
        same[0] += cell == cv_sampler_draw(&s, 1, 1, i);
        same[1] += cell == cv_sampler_draw(&s, 1, 2, i);
        same[2] += cell == cv_sampler_draw(&s, 2, 1, i);
    }
    assert_true(same[0] == 1000 && same[1] < 10 && same[2] < 10);
    cv_sampler_free(&s);
    cv_splits_free(&splits);
}

static void print_sampler(void *argument) { cv_sampler_print(&k.c, argument, 64); }

TEST(expected_batch_is_printed) {
    char text[1024];
    CvSplits splits = guide_splits();
    CvSampler s = cv_sampler_new(&k.c, &splits.ids[CV_SPLIT_TRAIN], true);
    assert_int_equal(run_function(text, sizeof text, print_sampler, &s), 0);
    assert_string_equal(text,
                        "[Sampler] of 64 drawn D1 8.0 + 8.0, D2 8.0 + 8.0, D3 8.0 + 8.0, D4 8.0 + 8.0 (quiescent + "
                        "active); active are 30.66 % of the cells, 50.00 % of those drawn\n");
    cv_sampler_free(&s);
    s = cv_sampler_new(&k.c, &splits.ids[CV_SPLIT_TRAIN], false);
    assert_int_equal(run_function(text, sizeof text, print_sampler, &s), 0);
    assert_contains(text, "D4 1.8 + 11.7");
    cv_sampler_free(&s);
    cv_splits_free(&splits);
}

int main(void) { return tests_run(make_cells, free_cells); }
