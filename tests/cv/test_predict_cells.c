/* train_cv predict: unlabelled cells get what the test of their fold has computed, alone and averaged over folds. */
#include "checkpoint/description.h"
#include "data/cv/synthetic.h"
#include "report/evaluation.h"
#include "tests/cv/train_rig.h"
#include "tests/documented.h"
#include "tests/edited_json.h"

static Error error;

enum { MOST = 128 };

static const char *folder;        /* of everything below */
static char *cells, *run, *blind; /* labelled cells, two folds trained on them, D3's cells under other names */

/* Three donors, folds D2 and D3, trained on a disk without links; the cells of D3 once more, without labels, in one
 * folder. */
static int set_up(void **state) {
    (void)state;
    CvSynthetic wanted = {.cells = 90, .donors = 3, .shape = {32, 7, 7}, .photons = 5, .separation = 1, .seed = 5};
    int64_t files;
    folder = run_directory();
    cells = kept_path(folder, "cells");
    run = kept_path(folder, "run");
    blind = kept_path(folder, "blind");
    if (!cv_synthetic_write(cells, &wanted, 2, &files, &error)) fail_msg("%s", error.text);
    bool poor = poor_disk(true); /* small files name the best weights */
    must("--data %s -o %s --threads 2 --channels 8,8,8 -b 8 --epochs 12 --extensions 0 --learning-rate 5e-3 "
         "--augment=false --folds D2,D3",
         cells, run);
    if (poor) poor_disk(false);
    must_run(
        "mkdir %s && cd %s/isolated_cells_D3 && for f in *; do cp $f %s/$(echo $f | sed 's/_act/_a/; s/_in/_i/'); done",
        blind, cells, blind);
    return 0;
}

/* A row of predictions as JSON Lines. */
typedef struct {
    char file[32], predicted[16]; /* file: d03m1_a_cell_7.npy */
    double p, calibrated, threshold;
    int votes;
} Row;

static int read_rows(const char *text, Row *rows) {
    int n = 0;
    for (const char *line = text; *line && n < MOST; line = strchr(line, '\n') + 1) {
        json_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        if (!object) fail_msg("no JSON: %.200s", line);
        Row *row = &rows[n++];
        snprintf(row->file, sizeof row->file, "%s", json_string_value(json_object_get(object, "file")));
        snprintf(row->predicted, sizeof row->predicted, "%s", json_string_value(json_object_get(object, "predicted")));
        row->p = json_number_value(json_object_get(object, "p"));
        row->calibrated = json_number_value(json_object_get(object, "p_calibrated"));
        row->threshold = json_number_value(json_object_get(object, "threshold"));
        row->votes = (int)json_integer_value(json_object_get(object, "votes"));
        json_decref(object);
    }
    return n;
}

static int predict_rows(Row *rows, const char *options) {
    char *path = kept_path(folder, "predictions.jsonl");
    must("predict %s -o %s", options, path);
    return read_rows(kept_text(path), rows);
}

/* Returns the numbered field, from 0, of the line of predictions_D3.csv of the cell with this unlabelled name. */
static double tested(const char *table, const char *file, int field) {
    bool active = strstr(file, "_a_") != NULL;
    const char *mark = strstr(file, active ? "_a_" : "_i_");
    char *name = kept_format("/%.*s_%s%s,", (int)(mark - file), file, active ? "act" : "in", mark + 2);
    const char *at = strstr(table, name);
    if (!at) fail_msg("no line of %s", name);
    while (at > table && at[-1] != '\n') at--;
    for (; field; field--) at = strchr(at, ',') + 1;
    return strtod(at, NULL);
}

TEST(predictions_are_those_of_the_test) {
    enum { LOGIT = 4, P_MEAN = 9, THRESHOLD = 10, PREDICTED = 11 };
    Row rows[MOST];
    char *table = kept_path(run, "predictions_D3.csv"),
         *options = kept_format("--checkpoint %s/fold_D3 %s", run, blind);
    char *results = kept_path(run, "test_results_D3.json"), *text = kept_text(table);
    int n = predict_rows(rows, options);
    json_t *json = json_load_file(results, 0, NULL);
    double temperature = json_number_value(json_object_get(json_object_get(json, "temperature"), "value"));
    assert_true(n >= 20 && temperature > 0);
    for (int i = 0; i < n; i++) {
        assert_near(rows[i].p, tested(text, rows[i].file, P_MEAN), 1e-6); /* batches of other sizes round differently */
        assert_near(rows[i].threshold, tested(text, rows[i].file, THRESHOLD), 1e-12);
        assert_int_equal(!strcmp(rows[i].predicted, "active"), (int)tested(text, rows[i].file, PREDICTED));
        assert_near(rows[i].calibrated, binary_sigmoid(tested(text, rows[i].file, LOGIT) / temperature), 1e-5);
    }
    json_decref(json);
}

TEST(folds_are_averaged) {
    Row both[MOST], one[MOST], other[MOST];
    char *all = kept_format("--checkpoint %s %s", run, blind),
         *d2 = kept_format("--checkpoint %s/fold_D2/best %s", run, blind);
    char *d3 = kept_format("--checkpoint %s/fold_D3/best/model.safetensors %s", run, blind);
    int n = predict_rows(both, all);
    assert_contains(fixture.output, "by 2 models");
    /* The cells are in a folder of another name than D3's: no donor is known to have been trained on. */
    assert_null(strstr(fixture.output, "was trained on cells of a donor"));
    assert_int_equal(predict_rows(one, d2), n);
    assert_int_equal(predict_rows(other, d3), n);
    double difference = 0;
    for (int i = 0; i < n; i++) difference = fmax(difference, fabs(one[i].p - other[i].p));
    assert_true(n >= 20 && difference > 0.01);
    for (int i = 0; i < n; i++) {
        assert_near(both[i].p, (one[i].p + other[i].p) / 2, 1e-7);
        assert_near(both[i].threshold, (one[i].threshold + other[i].threshold) / 2, 1e-12);
        assert_int_equal(both[i].votes, !strcmp(one[i].predicted, "active") + !strcmp(other[i].predicted, "active"));
        assert_int_equal(!strcmp(both[i].predicted, "active"), both[i].p > both[i].threshold);
    }
}

/* On standard output there are rows and nothing else. */
TEST(standard_output_has_only_rows) {
    char *output = kept_path(folder, "piped"), *errors = kept_path(folder, "errors");
    Row rows[MOST];
    must("predict --checkpoint %s/fold_D3 --data %s -o - --format jsonl >%s 2>%s", run, blind, output, errors);
    char *text = kept_text(output), *said = kept_text(errors);
    assert_true(read_rows(text, rows) >= 20);
    assert_contains(said, "rows written to standard output");
    must("predict --checkpoint %s/fold_D3 --data %s -o - >%s 2>%s", run, blind, output, errors);
    text = kept_text(output);
    assert_int_equal(strncmp(text, "file,donor,predicted,p,", 23), 0);
}

TEST(labels_are_shown_and_known_donors_named) {
    must("predict --checkpoint %s/fold_D3 %s -o %s/labelled.csv", run, cells, folder);
    assert_contains(fixture.output, "with these names: D2 (1 of 1): if these are they"); /* D1 validates */
    char *path = kept_path(folder, "labelled.csv"), *text = kept_text(path);
    assert_int_equal(strncmp(text, "file,donor,label,predicted,", 27), 0);
    assert_contains(text, ",D1,quiescent,");
    assert_contains(text, ",D1,active,");
}

TEST(one_warning_names_the_donors_of_all_models) {
    must("predict --checkpoint %s %s -o %s/all.csv", run, cells, folder);
    assert_contains(fixture.output, "with these names: D1 (1 of 2), D2 (1 of 2): if these are they, their "
                                    "predictions are too good\n");
    assert_null(strstr(strstr(fixture.output, "too good") + 1, "too good"));
}

/* The weights of a foreign file have no threshold, and their shapes tell the channels. */
TEST(a_foreign_file_decides_at_one_half) {
    Row rows[MOST];
    char *options = kept_format("--checkpoint %s/best_model_fold_D3.pth %s", run, blind);
    int n = predict_rows(rows, options);
    assert_contains(fixture.output, "threshold 0.5000: none was chosen for these weights");
    assert_true(n >= 20);
    for (int i = 0; i < n; i++) assert_near(rows[i].threshold, 0.5, 0);
    options = kept_format("--checkpoint %s/best_model_fold_D3.pth --threshold 0.25 %s", run, blind);
    predict_rows(rows, options);
    assert_near(rows[0].threshold, 0.25, 0);
}

/* The reference's rule may put the threshold outside of 0 to 1: then all cells are of one class. */
TEST(a_threshold_may_be_out_of_range) {
    Row rows[MOST];
    char *copy = kept_path(folder, "low"), *options = kept_format("--checkpoint %s %s", copy, blind);
    must_run("cp -rL %s/fold_D3/best/. %s", run, copy);
    if (!decision_write(copy, json_build("a test", "{s:f, s:b, s:n}", "threshold", -0.125, "views", 1, "temperature"),
                        &error))
        fail_msg("%s", error.text);
    int n = predict_rows(rows, options);
    for (int i = 0; i < n; i++) assert_true(rows[i].threshold == -0.125 && !strcmp(rows[i].predicted, "active"));
}

/* A config.json beside foreign weights may be anyone's; one of another model of ours is refused. */
TEST(a_foreign_description_is_not_read) {
    Row rows[MOST];
    char *other = kept_path(folder, "foreign"),
         *options = kept_format("--checkpoint %s/w.safetensors %s", other, blind);
    make_directories(other);
    must_run("cp %s/fold_D3/best/model.safetensors %s/w.safetensors; "
             "echo '{\"model\": {\"name\": \"vits\"}, \"version\": 1.5}' >%s/config.json",
             run, other, other);
    assert_true(predict_rows(rows, options) >= 20);
    assert_contains(fixture.output, "config.json is of another program, and is not read");
}

TEST(mistakes_are_named) {
    CvSynthetic other = {.cells = 4, .donors = 1, .shape = {64, 7, 7}, .photons = 1, .separation = 2, .seed = 5};
    char *wrong = kept_path(folder, "wrong"), *copy = kept_path(folder, "copy");
    int64_t files;
    if (!cv_synthetic_write(wrong, &other, 1, &files, &error)) fail_msg("%s", error.text);
    assert_int_equal(cv("predict %s", blind), 2);
    assert_contains(fixture.output, "which model? give --checkpoint");
    assert_int_equal(cv("predict --checkpoint %s", run), 2);
    assert_contains(fixture.output, "no data: give --data DIR");
    assert_int_equal(cv("predict --checkpoint %s %s", cells, blind), 1);
    assert_contains(fixture.output, "there are no weights in it");
    assert_int_equal(cv("predict --checkpoint %s/fold_D3 --checkpoint %s/fold_D3/best %s", run, run, blind), 2);
    assert_contains(fixture.output, "are the same");
    assert_int_equal(cv("predict --checkpoint %s/fold_D3 %s", run, wrong), 1);
    assert_contains(fixture.output, "was trained on cells of 7 x 7 pixels and 32 bins; those of");
    assert_int_equal(cv("predict --checkpoint %s/fold_D3 %s %s", run, blind, cells), 2);
    assert_contains(fixture.output, "names 2 folders; give one");
    must_run("cp -rL %s/fold_D3/best/. %s", run, copy);
    assert_checkpoint_documented(copy);
    must_run("cp %s/fold_D2/best/decision.json %s/", run, copy);
    assert_int_equal(cv("predict --checkpoint %s %s", copy, blind), 1);
    assert_contains(fixture.output, "it was made for other weights");
    must_run("sed -i 's/\"threshold\": 0/\"threshold\": 1/' %s/decision.json", copy);
    assert_int_equal(cv("predict --checkpoint %s %s", copy, blind), 1);
    assert_contains(fixture.output, "is not as it was written");
    assert_int_equal(
        cv("predict --checkpoint %s %s.predict.flim.safetensors -o %s.predict.flim.safetensors", run, blind, blind), 2);
    assert_contains(fixture.output, "--output: ");
}

static void predict_edited(const char *edited, const JsonEdit *edit) {
    assert_edit_refused(cv("predict --checkpoint %s %s", edited, blind), edit);
}

static void use_edited(const char *edited, const JsonEdit *edit) {
    predict_edited(edited, edit);
    if (edit->object)
        assert_edit_refused(cv("--data %s --base-checkpoint %s -o %s/never", cells, edited, folder), edit);
}

TEST(fields_of_other_types_and_ranges_are_refused) {
    static const JsonEdit configs[] = {
        {"options", "channels", "-1", "channels: expected three multiples of 8 up to 1024"},
        {"options", "channels", "\"1,2\"", "channels: expected three multiples of 8 up to 1024"},
        {"options", "channels", "[1]", "separated by commas, such as 32,64,128; found [1]"},
        {"options", "channels", "\"8,8,1024\"", "channels is \"8,8,1024\", and in the tensors beside it "},
        {"", "labels", "{}", "\"labels\": expected an array of names, found {}"},
        {"", "labels", "[]", "\"labels\": expected 2 names, found 0"},
        {"", "labels", "[\"a\"]", "\"labels\": expected 2 names, found 1"},
        {"", "labels", "[\"active\", \"quiescent\"]",
         "entry 0 of \"labels\": expected \"quiescent\", found \"active\""},
        {"", "bins", "\"32\"", "\"bins\": expected a whole number from 1 to 2147483647, found \"32\""},
        {"", "side", "-7", "\"side\": expected a whole number from 1 to 2147483647, found -7"},
    };
    static const JsonEdit decisions[] = {
        {"", "decision", "7", "\"decision\": expected a text, found 7"},
        {"", "views", "1", "\"views\": expected true or false, found 1"},
        {"", "views", NULL, "\"views\": expected true or false, found nothing"},
        {"", "threshold", "null", "\"threshold\": expected a number, found null"},
        {"", "threshold", "-3", "\"threshold\": expected 0 to 1, found -3"},
        {"", "temperature", "\"1\"", "\"temperature\": expected a number or null"},
        {"", "training_donors", "[1]", "\"training_donors\": expected an array of names"},
        {"", "validation_donors", "\"D1\"", "\"validation_donors\": expected an array of names"},
    };
    char *best = kept_path(run, "fold_D3/best");
    refuse_config_edits(best, "flim", configs, sizeof configs / sizeof *configs, use_edited);
    refuse_decision_edits(best, decisions, sizeof decisions / sizeof *decisions, predict_edited);
}

int main(void) { return tests_run(set_up, NULL); }
