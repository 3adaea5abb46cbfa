/* Synthetic FLIM cells, and the report on cells: known effects, the real donors' table, and that every confound put
 * into synthetic cells is found. */
#include "data/cv/confounds.h"
#include "data/cv/data_report.h"

#include <unistd.h>

#include "base/file.h"
#include "data/cv/synthetic.h"
#include "kernels/philox.h"
#include "tests/cv/golden.h"
#include "tests/files.h"
#include "tests/folder_writers.h"

static Error error;

static const CvSynthetic SMALL = {600, 6, {64, 13, 13}, 1, 1, 0, 0, 3};

/* ---- effects ---- */

/* Two donors of four cells, two fields each. */
static const int32_t labels[] = {0, 1, 0, 1, 0, 1, 1, 0}, donors[] = {0, 0, 0, 0, 1, 1, 1, 1};
static const int32_t fields[] = {0, 0, 1, 1, 2, 2, 3, 3}, same[] = {0, 1, 2, 3, 4, 1, 6, 7};
static const char *names[] = {"A", "B"}, *files[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static CvCells eight_cells(void) {
    static const int32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8}, peaks[] = {3, 4, 4, 9, 19, 20, 20, 21};
    static const double photons[] = {5, 5, 5, 5, 5, 5, 5, 5}, entropy[] = {1, 2, 3, 4, 5, 6, 7, 8};
    return (CvCells){.n = 8,
                     .shape = {32, 3, 3},
                     .labels = labels,
                     .donors = donors,
                     .fields = fields,
                     .sizes = sizes,
                     .peaks = peaks,
                     .same_as = same,
                     .photons = photons,
                     .entropy = entropy,
                     .n_donors = 2,
                     .n_fields = 4,
                     .donor_names = names,
                     .file_names = files};
}

/* Writes the cells of one donor. */
static bool write_donor(const char *folder, int seed, Error *error) {
    const CvSynthetic how = {12, 1, {16, 5, 5}, 1, 1, 0, 0, (uint64_t)seed};
    int64_t n;
    return cv_synthetic_write(folder, &how, 1, &n, error);
}

/* First: it forks before there are OpenMP's threads. */
TEST(writers_at_once_do_not_mix) { expect_writers_not_to_mix(write_donor, "isolated_cells_D1\n"); }

TEST(effects_are_shares_of_pairs) {
    CvCells c = eight_cells();
    /* A: actives 2, 7 against 1, 3: 3 of 4 pairs. B: 4, 4 against 4, 9: two ties: 1 of 4. Between: 2 against 4, 9: 0;
     * 7: 1; 4 against 1, 3: 2, twice: 5 of 8. */
    const double values[] = {1, 2, 3, 7, 4, 4, 4, 9};
    CvEffect e = cv_confounds_effect(&c, values, 1);
    assert_near(e.within, 4.0 / 8, 1e-15);
    assert_near(e.between, 5.0 / 8, 1e-15);
    assert_true(e.low[0] <= e.within && e.within <= e.high[0] && e.low[0] >= 0.125 && e.high[0] <= 0.875);
    assert_true(e.low[1] < e.between && e.between < e.high[1]);
    CvEffect other = cv_confounds_effect(&c, values, 1);
    assert_memory_equal(&e, &other, sizeof e);
    /* one donor: no pairs between */
    c.n = 4;
    c.n_donors = 1;
    c.n_fields = 2;
    e = cv_confounds_effect(&c, values, 1);
    assert_near(e.within, 0.75, 1e-15);
    assert_true(isnan(e.between) && isnan(e.low[1]) && isnan(e.high[1]));
}

/* Intervals: of n cells of each class, independent, in fields of one each: AUROC's standard deviation is close to
 * sqrt((2 n + 1) / (12 n^2)) when there is no effect. */
TEST(intervals_are_as_wide_as_they_should) {
    enum { N = 400 };
    static int32_t own[N], one[N], label[N];
    static double values[N];
    for (int i = 0; i < N; i++) {
        own[i] = i;
        label[i] = i % 2;
        values[i] = cv_golden_uniform(2000, (uint64_t)i);
    }
    CvCells c = {.n = N, .labels = label, .donors = one, .fields = own, .n_donors = 1, .n_fields = N};
    CvEffect e = cv_confounds_effect(&c, values, 7);
    double sd = sqrt((N + 1.0) / (12.0 * (N / 2) * (N / 2)));
    assert_near(e.within, 0.5, 4 * sd);
    assert_near((e.high[0] - e.low[0]) / (2 * 1.96 * sd), 1, 0.15); /* of 1000 resamples: 3 * 4 % or so */
    c.fields = one;                                                 /* one field: cells are drawn */
    c.n_fields = 1;
    CvEffect same_effect = cv_confounds_effect(&c, values, 7);
    assert_memory_equal(&e, &same_effect, sizeof e);
}

/* The specification's table of donors: cells, mean photons and mean footprints. */
static CvCells real_cells(int32_t *memory, double *photons, double *sizes) {
    static const int counts[6][2] = {{2110, 789}, {2184, 582}, {2351, 604}, {399, 1139}, {625, 1291}, {3210, 957}};
    static const double means[6][2] = {{55878.8, 215.9}, {59871.4, 199.3},  {65297.3, 202.1},
                                       {80339.7, 165.5}, {112668.2, 254.4}, {112089.0, 212.7}};
    enum { N = 16241 };
    int64_t n = 0;
    for (int d = 0; d < 6; d++)
        for (int i = 0; i < counts[d][0] + counts[d][1]; i++, n++) {
            memory[n] = i >= counts[d][0];
            memory[N + n] = d;
            memory[2 * N + n] = d * 10 + i % 10;
            photons[n] = means[d][0];
            sizes[n] = means[d][1];
        }
    return (CvCells){
        .n = n, .labels = memory, .donors = memory + N, .fields = memory + 2 * N, .n_donors = 6, .n_fields = 60};
}

TEST(real_donors_have_their_correlations) {
    int32_t *memory = xmalloc(3 * 16241 * sizeof *memory);
    double *photons = xmalloc(16241 * sizeof *photons), *sizes = xmalloc(16241 * sizeof *sizes);
    CvCells c = real_cells(memory, photons, sizes);
    assert_near(cv_confounds_correlation(&c, photons), 0.4208, 5e-5);
    assert_near(cv_confounds_correlation(&c, sizes), -0.02, 5e-3);
    /* chi^2 = sum of n (share - all)^2 / (all (1 - all)), by hand */
    static const double n[6] = {2899, 2766, 2955, 1538, 1916, 4167}, active[6] = {789, 582, 604, 1139, 1291, 957};
    double chi = 0, all = 5362.0 / 16241;
    for (int d = 0; d < 6; d++) chi += n[d] * pow(active[d] / n[d] - all, 2) / (all * (1 - all));
    CvAssociation a = cv_confounds_donor(&c, 1);
    assert_near(a.v, sqrt((chi - 5) / 16241), 1e-12); /* chance: 1 for each donor but one */
    assert_true(a.low < a.v && a.v < a.high && a.low > 0.1);
    free(memory);
    free(photons);
    free(sizes);
}

/* ---- what is printed ---- */

typedef struct {
    const CvCells *c;
    const char *path; /* of the report */
} Report;

static void write_report(void *argument) {
    const Report *to = argument;
    json_t *report = json_object();
    const CvFilter filter = {2.5, 6.5, false};
    int warnings = cv_data_report(report, to->c, 1);
    cv_data_report_filter(report, "fold A", to->c, &filter);
    json_object_set_new(report, "warnings", json_integer(warnings));
    if (json_dump_file(report, to->path, 0)) abort();
    json_decref(report);
}

TEST(the_report_is_printed_and_written) {
    char text[8192], *root = kept_folder();
    CvCells c = eight_cells();
    Report target = {&c, path_join(root, "data_report.json")};
    assert_int_equal(run_function(text, sizeof text, write_report, &target), 0);
    assert_contains(text, "A                        quiescent       2     2.0 +-   1.4        5 +-       0     3");
    assert_contains(text, "active are 50.0 % (A) to 50.0 % (A)");
    assert_contains(text, "warning: decays peak at bin 4 (A) to 20 (B)");
    assert_contains(text, "brightness alone within donors: in 50.0 % of pairs");
    assert_contains(text,
                    "warning: 1 cells are copies of another donor's, 0 of the other class's; the first is f, as b");
    assert_contains(text, "[Filter] fold A: entropies of 2.500 to 6.500 bits are of 4 of 8 cells (50.00 % are not)");
    assert_contains(text, "A                        quiescent 1 of 2, active 1 of 2");
    json_t *report = json_load_file(target.path, 0, NULL);
    assert_non_null(report);
    json_t *size = json_object_get(json_object_get(report, "confounds"), "size");
    /* A: 2, 4 against 1, 3: 3 of 4; B: 6, 7 against 5, 8: 2 of 4 */
    assert_near(json_number_value(json_array_get(json_object_get(size, "within"), 0)), 5.0 / 8, 1e-15);
    json_t *b = json_object_get(json_object_get(json_object_get(report, "donors"), "B"), "active");
    assert_int_equal(json_integer_value(json_object_get(b, "cells")), 2);
    assert_int_equal(json_integer_value(json_object_get(b, "peak")), 20);
    b = json_object_get(json_object_get(report, "filters"), "fold A");
    assert_int_equal(json_integer_value(json_object_get(b, "kept")), 4);
    json_decref(report);
    free((void *)(uintptr_t)target.path);
}

/* Cramer's V, which is not defined then, is not printed as a number. */
TEST(cells_of_one_class_are_warned_of) {
    static const int32_t active[] = {1, 1, 1, 1, 1, 1, 1, 1};
    char text[8192], *root = kept_folder();
    CvCells c = eight_cells();
    Report target = {&c, path_join(root, "data_report.json")};
    c.labels = active;
    assert_int_equal(run_function(text, sizeof text, write_report, &target), 0);
    assert_contains(text, "[Data] warning: all cells are active: a classifier needs both classes");
    assert_null(strstr(text, "nan"));
    free((void *)(uintptr_t)target.path);
}

/* Uniform in -1 .. 1, and 0.1 more for active cells: 1 - 0.95^2 / 2 = 55 % of pairs, surely not 50 but not much. */
TEST(weak_effects_are_no_warnings) {
    enum { N = 4000 };
    static int32_t label[N], zeros[N], field[N], size[N], itself[N];
    static double photons[N], entropy[N];
    char text[8192], *root = kept_folder();
    for (int i = 0; i < N; i++) {
        label[i] = i % 2;
        field[i] = i / 40;
        itself[i] = i;
        photons[i] = cv_golden_uniform(2001, (uint64_t)i) + 0.1 * (i % 2);
    }
    CvCells c = {.n = N,
                 .shape = {8, 3, 3},
                 .labels = label,
                 .donors = zeros,
                 .fields = field,
                 .sizes = size,
                 .peaks = zeros,
                 .same_as = itself,
                 .photons = photons,
                 .entropy = entropy,
                 .n_donors = 1,
                 .n_fields = N / 40,
                 .donor_names = names,
                 .file_names = files};
    CvEffect e = cv_confounds_effect(&c, photons, 1);
    assert_true(e.low[0] > 0.5);
    assert_near(e.within, 1 - 0.95 * 0.95 / 2, 0.04); /* four standard deviations */
    Report target = {&c, path_join(root, "data_report.json")};
    assert_int_equal(run_function(text, sizeof text, write_report, &target), 0);
    assert_null(strstr(text, "warning"));
    free((void *)(uintptr_t)target.path);
}

/* ---- made-up cells ---- */

static CvCells make_cells(const CvSynthetic *how, int n_threads) {
    char *root = kept_folder(), *cells = kept_path(root, "cells");
    CvCells c;
    int64_t n;
    if (!cv_synthetic_write(cells, how, n_threads, &n, &error)) fail_msg("%s", error.text);
    if (!cv_cells_open(&c, cells, &(CvCellsOptions){.n_threads = n_threads}, &error)) fail_msg("%s", error.text);
    assert_int_equal(c.n, n);
    return c;
}

TEST(cells_are_the_same_whatever_the_threads) {
    CvSynthetic how = SMALL, other;
    how.cells = 80;
    other = how;
    other.seed++;
    CvCells a = make_cells(&how, 1), b = make_cells(&how, 2), c = make_cells(&other, 2);
    size_t bytes = (size_t)(a.n * 64 * 13 * 13 * a.bits / 8);
    assert_true(a.n == b.n && a.bits == b.bits && !memcmp(a.counts, b.counts, bytes));
    assert_true(c.bits != a.bits || memcmp(a.counts, c.counts, bytes));
    for (int64_t i = 0; i < a.n; i++) assert_string_equal(a.file_names[i], b.file_names[i]);
    cv_cells_close(&a);
    cv_cells_close(&b);
    cv_cells_close(&c);
}

/* Donors' peaks, class ratios and gates are those of the table; footprints are of all sizes. */
TEST(donors_differ_as_they_should) {
    static const int peaks[] = {63, 61, 60, 51, 53, 43}, first[] = {10, 10, 10, 12, 12, 12};
    static const int last[] = {242, 241, 243, 241, 242, 243};
    static const double active[] = {0.2722, 0.2104, 0.2044, 0.7406, 0.6738, 0.2297};
    CvSynthetic how = SMALL;
    how.shape = (AugmentShape){256, 21, 21};
    how.cells = 300;
    CvCells c = make_cells(&how, 2);
    double n[6] = {0}, actives[6] = {0}, peak[6] = {0};
    float *counts = xmalloc(256 * 441 * sizeof *counts);
    int least = 441, most = 0;
    for (int64_t i = 0; i < c.n; i++) {
        int d = c.donors[i];
        n[d]++;
        actives[d] += c.labels[i];
        peak[d] += c.peaks[i];
        least = c.sizes[i] < least ? c.sizes[i] : least;
        most = c.sizes[i] > most ? c.sizes[i] : most;
        cv_cells_counts(&c, i, counts);
        for (int t = 0; t < 256; t++)
            for (int p = 0; p < 441 && (t < first[d] || t >= last[d]); p++) assert_true(counts[t * 441 + p] == 0);
    }
    assert_true(c.n_donors == 6 && c.n_fields == 36 && most == 441 && least < 80);
    for (int d = 0; d < 6; d++) {
        assert_near(peak[d] / n[d], peaks[d], 3); /* bins; the means of some 50 cells with a spread of 1 */
        assert_near(actives[d] / n[d], active[d], 0.5 / n[d] + 0.06); /* at least 6 cells of each class */
    }
    free(counts);
    cv_cells_close(&c);
}

/* Shares of photons that come late, half the time range behind the peak, tell classes apart; without separation they do
 * not. */
TEST(decays_tell_classes_apart) {
    for (int separated = 0; separated < 2; separated++) {
        CvSynthetic how = SMALL;
        how.separation = separated;
        CvCells c = make_cells(&how, 2);
        float *counts = xmalloc(64 * 169 * sizeof *counts);
        double *late = xcalloc((size_t)c.n, sizeof *late);
        for (int64_t i = 0; i < c.n; i++) {
            cv_cells_counts(&c, i, counts);
            for (int k = (c.peaks[i] + 8) * 169; k < 64 * 169; k++) late[i] += (double)counts[k] / c.photons[i];
        }
        CvEffect e = cv_confounds_effect(&c, late, 1);
        if (separated)
            assert_true(e.within > 0.95);
        else
            assert_true(e.low[0] < 0.5 && e.high[0] > 0.5);
        free(late);
        free(counts);
        cv_cells_close(&c);
    }
}

/* Cells without confounds have no strong effect within donors; each confound is found, and not the other. */
TEST(the_report_finds_confounds) {
    static const char *const warnings[2] = {"warning: size alone tells classes apart within donors",
                                            "warning: brightness alone tells classes apart within donors"};
    for (int confound = 0; confound < 3; confound++) {
        CvSynthetic how = SMALL;
        how.confound_size = confound == 1;
        how.confound_brightness = confound == 2;
        char text[8192], *root = kept_folder();
        CvCells c = make_cells(&how, 2);
        Report target = {&c, path_join(root, "data_report.json")};
        assert_int_equal(run_function(text, sizeof text, write_report, &target), 0);
        for (int w = 0; w < 2; w++) {
            bool wanted = confound == w + 1 || (confound == 1 && w == 1); /* a larger cell has more photons */
            if (wanted != (strstr(text, warnings[w]) != NULL)) fail_msg("confound %d: %s", confound, text);
        }
        assert_contains(text, "warning: the donor tells the class");
        cv_cells_close(&c);
        free((void *)(uintptr_t)target.path);
    }
}

/* Labels by a coin, whatever the donor: four donors with 36 cells each, in three fields of view. V of a plain
 * chi-squared is 0.06 to 0.3 in all of these; without its part of chance it is near 0. */
TEST(chance_is_no_association) {
    enum { CELLS = 144, SETS = 20 };
    int32_t labels[CELLS], donors[CELLS], fields[CELLS];
    int zeros = 0;
    for (uint32_t set = 0; set < SETS; set++) {
        for (int i = 0; i < CELLS; i++) {
            labels[i] = philox_bits(7, PURPOSE_TEST, set, (uint64_t)i) & 1;
            donors[i] = i / 36;
            fields[i] = i / 12;
        }
        CvCells c = {.n = CELLS, .labels = labels, .donors = donors, .fields = fields, .n_donors = 4, .n_fields = 12};
        CvAssociation a = cv_confounds_donor(&c, 1);
        assert_true(a.low < 0.1);
        zeros += a.v <= 0;
        for (int i = 0; i < CELLS; i++) labels[i] = labels[i] || donors[i] == 2; /* one donor has active cells only */
        a = cv_confounds_donor(&c, 1);
        assert_true(a.low > 0.1);
    }
    assert_true(zeros >= SETS / 4); /* about 6 of 10: P(chi^2 < 3) at 3 degrees of freedom */
}

/* Fields that are all alike leave nothing to chance: the interval is the value. Three donors of 16, 16 and 8 cells,
 * half of which are active but in the last donor, where all are: chi^2 = 20/3 by hand. */
TEST(intervals_lie_around_their_value) {
    enum { CELLS = 40 };
    int32_t labels[CELLS], donors[CELLS], fields[CELLS];
    for (int i = 0; i < CELLS; i++) {
        donors[i] = i / 16;
        fields[i] = i / 4;
        labels[i] = i >= 32 || i % 2;
    }
    CvCells c = {.n = CELLS, .labels = labels, .donors = donors, .fields = fields, .n_donors = 3, .n_fields = 10};
    CvAssociation a = cv_confounds_donor(&c, 1);
    assert_near(a.v, sqrt((20.0 / 3 - 2) / CELLS), 1e-12);
    assert_near(a.low, a.v, 1e-12);
    assert_near(a.high, a.v, 1e-12);
}

TEST(folders_that_are_there_are_refused) {
    char *root = kept_folder();
    CvSynthetic how = {12, 1, {16, 5, 5}, 1, 1, 0, 0, 1};
    int64_t n;
    assert_true(cv_synthetic_write(root, &how, 1, &n, &error));
    assert_int_equal(n, 12 + 3);
    assert_false(cv_synthetic_write(root, &how, 1, &n, &error));
    assert_contains(error.text, "isolated_cells_D1 is there already");
}

/* A kill leaves an unfinished folder: only the same options continue it, and no reader takes it for whole. */
TEST(unfinished_folders_are_finished) {
    char *root = kept_folder(), *cells = kept_path(root, "cells"), *mark = kept_path(cells, ".unfinished");
    char said[256];
    CvSynthetic how = {12, 2, {16, 5, 5}, 1, 1, 0, 0, 1}, other = how;
    CvCells c;
    int64_t n;
    other.seed = 2;
    assert_true(cv_synthetic_write(cells, &how, 1, &n, &error) && access(mark, F_OK));
    write_text(mark, "%s", "12 cells, 2 donors, 16 x 5 x 5, photons 1, separation 1, confound 0 and 0, seed 1");
    run_command(said, sizeof said, "cp -r %s %s/whole && rm -r %s/isolated_cells_D2 %s/isolated_cells_D1/*_1.npy",
                cells, root, cells, cells);
    assert_string_equal(said, "");
    assert_false(cv_cells_open(&c, cells, &(CvCellsOptions){.n_threads = 1}, &error));
    assert_contains(error.text, "cells is unfinished: the program that fills it was stopped, or is still running");
    assert_false(cv_synthetic_write(cells, &other, 1, &n, &error));
    assert_contains(error.text, "seed 1, not with ");
    if (!cv_synthetic_write(cells, &how, 1, &n, &error)) fail_msg("%s", error.text);
    run_command(said, sizeof said, "cd %s && diff -r -x .unfinished cells whole; ls -A cells", root);
    assert_string_equal(said, "isolated_cells_D1\nisolated_cells_D2\n");
}
