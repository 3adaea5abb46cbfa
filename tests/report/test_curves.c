/* ROC and precision-recall curves of folds and their mean. The numbers are those of scikit-learn 1.9's roc_curve,
 * precision_recall_curve, roc_auc_score and average_precision_score for the same rows, averaged with numpy. */
#include "tests/report/rig.h"

#include <math.h>
#include <unistd.h>

#include "report/curves.h"

static Error error;

static const double EXACT = 1e-11; /* the witness interpolated 1e-12 to the right of each grid point */

enum { FOLDS = 3, ROWS = 10, POINTS = 101 /* of the mean */ };
static const double P[FOLDS][ROWS] = {{.95, .9, .85, .7, .6, .55, .4, .35, .2, .1},
                                      {.8, .8, .75, .6, .5, .45, .3, .3, .15, .05},
                                      {.99, .7, .65, .62, .6, .4, .22, .2, .1, .02}};
static const int LABELS[FOLDS][ROWS] = {
    {1, 0, 1, 1, 0, 1, 0, 0, 1, 0}, {1, 0, 1, 1, 1, 0, 0, 1, 0, 0}, {0, 1, 1, 0, 1, 0, 0, 1, 0, 0}};

typedef struct {
    BinaryRow rows[FOLDS * ROWS];
    CurveRows folds[FOLDS], pooled;
} Set;

static Set *three_folds(void) {
    static Set s;
    static const char *const names[] = {"D1", "D2 <&>", "D3"};
    for (int i = 0; i < FOLDS * ROWS; i++)
        s.rows[i] = (BinaryRow){
            .id = i, .label = LABELS[i / ROWS][i % ROWS], .p = P[i / ROWS][i % ROWS], .logit = NAN, .threshold = 0.5};
    for (int f = 0; f < FOLDS; f++) s.folds[f] = (CurveRows){.name = names[f], .rows = s.rows + f * ROWS, .n = ROWS};
    s.pooled = (CurveRows){.name = "all folds, pooled", .rows = s.rows, .n = FOLDS * ROWS};
    return &s;
}

/* Returns the table of curves, whose first rows must be the mean at 0, 0.01 .. 1; free(text). */
static Grid table_of(const CurveRows *folds, int n, bool roc) {
    char *directory = kept_folder(), *base = kept_path(directory, "curves");
    CurveSet set = {.curves = folds, .n = n, .folds = true};
    if (!curves_write(base, roc, &set, "t", &error)) fail_msg("%s", error.text);
    Grid table = grid_read(directory, "curves.csv");
    assert_true(table.rows > 1 + POINTS);
    assert_string_equal(table.cells[0][2], roc ? "false_positive_rate" : "recall");
    assert_string_equal(table.cells[0][3], roc ? "true_positive_rate" : "precision");
    assert_string_equal(table.cells[0][4], "low");
    assert_string_equal(table.cells[0][5], "high");
    for (int k = 0; k < POINTS; k++) {
        assert_string_equal(table.cells[1 + k][0], "mean over folds");
        assert_near(strtod(table.cells[1 + k][2], NULL), k / 100.0, 0);
    }
    assert_string_not_equal(table.cells[1 + POINTS][0], "mean over folds");
    return table;
}

/* Returns a field of the mean's point k, which is a number. */
static double mean_at(const Grid *table, int k, int column) {
    const char *text = table->cells[1 + k][column];
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end) fail_msg("the mean has '%s' at %d", text, k);
    return value;
}

/* With three folds, 1 of 27 resamples has a single fold only: the interval is from the least to the greatest. */
TEST(the_mean_and_its_band_are_those_of_the_folds) {
    static const struct {
        int at;
        double roc[3], precision[3]; /* mean, least, greatest */
    } want[] = {{0, {.2 / 3, 0, .2}, {2 / 3.0, .5, 1}},
                {10, {.1, 0, .2}, {2 / 3.0, .5, 1}},
                {20, {.6333333333333333, .5, .8}, {2 / 3.0, .5, 1}},
                {25, {.6333333333333333, .5, .8}, {.611111111111111, .5, 2 / 3.0}},
                {30, {.6333333333333333, .5, .8}, {2 / 3.0, 2 / 3.0, 2 / 3.0}},
                {50, {.816666666666667, .75, .9}, {.7222222222222222, 2 / 3.0, .75}},
                {75, {.9333333333333332, .8, 1}, {.688888888888889, .6, .8}},
                {100, {1, 1, 1}, {.5601851851851852, .5, .625}}};
    Grid roc = table_of(three_folds()->folds, FOLDS, true), precision = table_of(three_folds()->folds, FOLDS, false);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (int value = 0; value < 3; value++) {
            assert_near(mean_at(&roc, want[i].at, 3 + value), want[i].roc[value], EXACT);
            assert_near(mean_at(&precision, want[i].at, 3 + value), want[i].precision[value], EXACT);
        }
    free(roc.text);
    free(precision.text);
}

/* Precision holds from one recall to the next, and all recalls of the folds are on the grid. */
TEST(the_area_below_the_mean_is_the_mean_of_areas) {
    Grid table = table_of(three_folds()->folds, FOLDS, false);
    double area = 0;
    for (int k = 1; k < POINTS; k++) area += mean_at(&table, k, 3) / 100;
    assert_near(area, (.7277777777777779 + .6683333333333334 + .5666666666666667) / 3, 1e-13);
    free(table.text);
}

TEST(the_picture_has_mean_band_and_folds_and_the_table_the_pooled_rows_too) {
    const Set *s = three_folds();
    const char *directory = run_directory();
    char *roc = kept_path(directory, "roc"), *recall = kept_path(directory, "recall");
    CurveSet set = {.curves = s->folds, .n = FOLDS, .folds = true, .pooled = &s->pooled};
    assert_true(curves_write(roc, true, &set, "ROC", &error));
    assert_true(curves_write(recall, false, &set, "PR", &error));
    char *svg = svg_in(directory, "roc.svg");
    assert_contains(svg, ">mean of 3 folds: AUROC 0.702</text>");
    assert_contains(svg, ">95 % interval of the mean: 0.667 to 0.760</text>");
    assert_contains(svg, ">D1: AUROC 0.680</text>");
    assert_contains(svg, ">D2 &lt;&amp;&gt;: AUROC 0.760</text>");
    assert_contains(svg, ">chance: AUROC 0.500</text>");
    assert_null(strstr(svg, "pooled"));
    assert_null(strstr(svg, "nan"));
    assert_int_equal(occurrences(svg, "class=\"plot-band plot-ink\""), 2); /* the band, and its sample in the legend */
    svg = svg_in(directory, "recall.svg");
    assert_contains(svg, ">mean of 3 folds: AP 0.654</text>");
    assert_contains(svg, ">D3: AP 0.567</text>");
    assert_contains(svg, ">chance: AP 0.467</text>"); /* 14 of 30 */
    Grid csv = grid_read(directory, "roc.csv");
    assert_near(grid_number(&csv, "mean over folds", "true_positive_rate"), .2 / 3, EXACT);
    assert_near(grid_number(&csv, "mean over folds", "high"), .2, EXACT);
    assert_string_equal(grid_field(&csv, "mean over folds", "threshold"), "");
    assert_string_equal(grid_field(&csv, "D3", "low"), "");
    assert_near(grid_number(&csv, "D3", "false_positive_rate"), 1.0 / 6, EXACT);
    assert_near(grid_number(&csv, "all folds, pooled", "threshold"), .99, 0);
    assert_near(grid_number(&csv, "all folds, pooled", "false_positive_rate"), 1.0 / 16, EXACT);
    free(csv.text);
}

/* Rows of one model: the level of chance is a line where it is that of all curves, else it is in the legend. */
TEST(the_precision_of_chance_is_that_of_each_curve) {
    Set s = *three_folds();
    const char *directory = run_directory();
    char *path = kept_path(directory, "chance.svg");
    CurveSet set = {.curves = s.folds, .n = FOLDS};
    assert_true(curves_write_picture(path, false, &set, "PR", &error));
    char *svg = svg_in(directory, "chance.svg");
    assert_contains(svg, ">D1: AP 0.728, chance 0.500</text>");
    assert_contains(svg, ">D3: AP 0.567, chance 0.400</text>");
    assert_null(strstr(svg, ">chance"));
    assert_null(strstr(svg, "stroke-dasharray=\"6 4\""));
    set.n = 2; /* 5 of 10 rows in both */
    assert_true(curves_write_picture(path, false, &set, "PR", &error));
    svg = svg_in(directory, "chance.svg");
    assert_contains(svg, ">D1: AP 0.728</text>");
    assert_contains(svg, ">chance: AP 0.500</text>");
    Intervals known = {0};
    known.scores[BINARY_AUPRC] = (Interval){.4, .9};
    s.folds[0].intervals = &known;
    s.folds[0].name = "dvb-t2";
    set.n = FOLDS;
    assert_true(curves_write_picture(path, false, &set, "PR", &error));
    svg = svg_in(directory, "chance.svg");
    assert_contains(svg, ">dvb-t2: AP 0.728, chance 0.500, 95 % 0.400 to 0.900</text>"); /* not shortened */
}

TEST(folds_of_one_class_are_left_out) {
    Set s = *three_folds();
    char *directory = kept_folder(), *base = kept_path(directory, "roc"), *svg = kept_path(directory, "roc.svg");
    for (int i = 0; i < 2 * ROWS; i++) s.rows[i].label = i < ROWS;
    for (int f = 0; f < FOLDS; f++) s.folds[f].rows = s.rows + f * ROWS;
    Grid all = table_of(s.folds, FOLDS, true), alone = table_of(s.folds + 2, 1, true);
    assert_int_equal(all.rows, alone.rows);
    for (int row = 1; row < all.rows; row++) {
        for (int column = 0; column < all.columns; column++)
            assert_string_equal(all.cells[row][column], alone.cells[row][column]);
        assert_string_equal(all.cells[row][4], "");
        assert_string_equal(all.cells[row][5], "");
    }
    free(all.text);
    free(alone.text);
    CurveSet one = {.curves = s.folds, .n = FOLDS, .folds = true}, none = {.curves = s.folds, .n = 2, .folds = true};
    assert_true(curves_write(base, true, &one, "ROC", &error));
    char *text = kept_text(svg);
    assert_xml(text);
    assert_contains(text, ">mean of 1 fold: AUROC 0.667</text>");
    assert_null(strstr(text, "95 %"));
    assert_null(strstr(text, "nan"));
    assert_int_equal(unlink(svg), 0);
    assert_true(curves_write(base, true, &none, "ROC", &error));
    assert_int_equal(access(svg, F_OK), -1);
}
