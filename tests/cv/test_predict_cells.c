/* train_cv predict: unlabelled cells get what the test of their fold has computed, alone and averaged over folds. */
#include "checkpoint/description.h"
#include "data/cv/synthetic.h"
#include "report/evaluation.h"
#include "tests/cv/train_rig.h"
#include "tests/documented.h"
#include "tests/edited_json.h"

enum { MOST = 128 };

static const char *folder;        /* of everything below */
static char *cells, *run, *blind; /* labelled cells, two folds trained on them, D3's cells under other names */

/* Three donors, folds D2 and D3, trained on a disk without links; the cells of D3 once more, without labels, in one
 * folder. */
static int set_up(void **state) {
    (void)state;
    CvSynthetic wanted = {.cells = 90, .donors = 3, .shape = {32, 7, 7}, .photons = 5, .separation = 1, .seed = 5};
    int64_t files;
    Error error;
    folder = run_directory();
    cells = keep_text(path_join(folder, "cells"));
    run = keep_text(path_join(folder, "run"));
    blind = keep_text(path_join(folder, "blind"));
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
    char *path = path_join(folder, "predictions.jsonl");
    must("predict %s -o %s", options, path);
    char *text = read_text(path);
    int n = read_rows(text, rows);
    free(text);
    free(path);
    return n;
}

/* Returns the numbered field, from 0, of the line of predictions_D3.csv of the cell with this unlabelled name. */
static double tested(const char *table, const char *file, int field) {
    bool active = strstr(file, "_a_") != NULL;
    const char *mark = strstr(file, active ? "_a_" : "_i_");
    char *name = xformat("/%.*s_%s%s,", (int)(mark - file), file, active ? "act" : "in", mark + 2);
    const char *at = strstr(table, name);
    if (!at) fail_msg("no line of %s", name);
    free(name);
    while (at > table && at[-1] != '\n') at--;
    for (; field; field--) at = strchr(at, ',') + 1;
    return strtod(at, NULL);
}

static void predictions_are_those_of_the_test(void **state) {
    (void)state;
    enum { LOGIT = 4, P_MEAN = 9, THRESHOLD = 10, PREDICTED = 11 };
    Row rows[MOST];
    char *table = path_join(run, "predictions_D3.csv"), *options = xformat("--checkpoint %s/fold_D3 %s", run, blind);
    char *results = path_join(run, "test_results_D3.json"), *text = read_text(table);
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
    free(text);
    free(results);
    free(table);
    free(options);
}

static void folds_are_averaged(void **state) {
    (void)state;
    Row both[MOST], one[MOST], other[MOST];
    char *all = xformat("--checkpoint %s %s", run, blind), *d2 = xformat("--checkpoint %s/fold_D2/best %s", run, blind);
    char *d3 = xformat("--checkpoint %s/fold_D3/best/model.safetensors %s", run, blind);
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
    free(all);
    free(d2);
    free(d3);
}

/* On standard output there are rows and nothing else. */
static void standard_output_has_only_rows(void **state) {
    (void)state;
    char *output = path_join(folder, "piped"), *errors = path_join(folder, "errors");
    Row rows[MOST];
    must("predict --checkpoint %s/fold_D3 --data %s -o - --format jsonl >%s 2>%s", run, blind, output, errors);
    char *text = read_text(output), *said = read_text(errors);
    assert_true(read_rows(text, rows) >= 20);
    assert_contains(said, "rows written to standard output");
    free(text);
    must("predict --checkpoint %s/fold_D3 --data %s -o - >%s 2>%s", run, blind, output, errors);
    text = read_text(output);
    assert_int_equal(strncmp(text, "file,donor,predicted,p,", 23), 0);
    free(text);
    free(said);
    free(output);
    free(errors);
}

static void labels_are_shown_and_known_donors_named(void **state) {
    (void)state;
    must("predict --checkpoint %s/fold_D3 %s -o %s/labelled.csv", run, cells, folder);
    assert_contains(fixture.output, "with these names: D2 (1 of 1): if these are they"); /* D1 validates */
    char *path = path_join(folder, "labelled.csv"), *text = read_text(path);
    assert_int_equal(strncmp(text, "file,donor,label,predicted,", 27), 0);
    assert_contains(text, ",D1,quiescent,");
    assert_contains(text, ",D1,active,");
    free(text);
    free(path);
}

static void one_warning_names_the_donors_of_all_models(void **state) {
    (void)state;
    must("predict --checkpoint %s %s -o %s/all.csv", run, cells, folder);
    assert_contains(fixture.output, "with these names: D1 (1 of 2), D2 (1 of 2): if these are they, their "
                                    "predictions are too good\n");
    assert_null(strstr(strstr(fixture.output, "too good") + 1, "too good"));
}

/* The weights of a foreign file have no threshold, and their shapes tell the channels. */
static void a_foreign_file_decides_at_one_half(void **state) {
    (void)state;
    Row rows[MOST];
    char *options = xformat("--checkpoint %s/best_model_fold_D3.pth %s", run, blind);
    int n = predict_rows(rows, options);
    assert_contains(fixture.output, "threshold 0.5000: none was chosen for these weights");
    assert_true(n >= 20);
    for (int i = 0; i < n; i++) assert_near(rows[i].threshold, 0.5, 0);
    free(options);
    options = xformat("--checkpoint %s/best_model_fold_D3.pth --threshold 0.25 %s", run, blind);
    predict_rows(rows, options);
    assert_near(rows[0].threshold, 0.25, 0);
    free(options);
}

/* The reference's rule may put the threshold outside of 0 to 1: then all cells are of one class. */
static void a_threshold_may_be_out_of_range(void **state) {
    (void)state;
    Row rows[MOST];
    Error error;
    char *copy = path_join(folder, "low"), *options = xformat("--checkpoint %s %s", copy, blind);
    must_run("cp -rL %s/fold_D3/best/. %s", run, copy);
    if (!decision_write(copy, json_build("a test", "{s:f, s:b, s:n}", "threshold", -0.125, "views", 1, "temperature"),
                        &error))
        fail_msg("%s", error.text);
    int n = predict_rows(rows, options);
    for (int i = 0; i < n; i++) assert_true(rows[i].threshold == -0.125 && !strcmp(rows[i].predicted, "active"));
    free(copy);
    free(options);
}

/* A config.json beside foreign weights may be anyone's; one of another model of ours is refused. */
static void a_foreign_description_is_not_read(void **state) {
    (void)state;
    Row rows[MOST];
    char *other = path_join(folder, "foreign"), *options = xformat("--checkpoint %s/w.safetensors %s", other, blind);
    make_directories(other);
    must_run("cp %s/fold_D3/best/model.safetensors %s/w.safetensors; "
             "echo '{\"model\": {\"name\": \"vits\"}, \"version\": 1.5}' >%s/config.json",
             run, other, other);
    assert_true(predict_rows(rows, options) >= 20);
    assert_contains(fixture.output, "config.json is of another program, and is not read");
    free(other);
    free(options);
}

static void mistakes_are_named(void **state) {
    (void)state;
    CvSynthetic other = {.cells = 4, .donors = 1, .shape = {64, 7, 7}, .photons = 1, .separation = 2, .seed = 5};
    char *wrong = path_join(folder, "wrong"), *copy = path_join(folder, "copy");
    int64_t files;
    Error error;
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
    free(wrong);
    free(copy);
}

static void fields_of_other_types_and_ranges_are_refused(void **state) {
    (void)state;
    static const JsonEdit edits[] = {
        {"config.json", NULL, "all", "[]", "config.json: expected an object {...}"},
        {"config.json", NULL, "all", "{}", "\"format\": expected 1, found nothing"},
        {"config.json", "", "format", NULL, "\"format\": expected 1, found nothing"},
        {"config.json", "", "format", "2", "\"format\": expected 1, found 2"},
        {"config.json", "", "version", "2", "\"version\": expected a text, found 2"},
        {"config.json", "", "parameters", "\"many\"",
         "\"parameters\": expected a whole number from 1 to 9223372036854775807, found \"many\""},
        {"config.json", "", "parameters", "0", "\"parameters\": expected a whole number from 1 to "},
        {"config.json", "", "model", "7",
         "\"model\": expected flim (another name is a checkpoint of another model), found 7"},
        {"config.json", "", "model", "\"\"",
         "\"model\": expected flim (another name is a checkpoint of another model), found \"\""},
        {"config.json", "", "model", "\"flimx\"", "\"model\": expected flim (another name "},
        {"config.json", "", "model", NULL, "\"model\": expected flim "},
        {"config.json", "", "options", "[]", "\"options\": expected an object, found []"},
        {"config.json", "options", "channels", "-1", "channels: expected three multiples of 8 up to 1024"},
        {"config.json", "options", "channels", "\"1,2\"", "channels: expected three multiples of 8 up to 1024"},
        {"config.json", "options", "channels", "[1]", "separated by commas, such as 32,64,128; found [1]"},
        {"config.json", "options", "channels", "\"8,8,1024\"",
         "channels is \"8,8,1024\", and in the tensors beside it "},
        {"config.json", "", "labels", "{}", "\"labels\": expected an array of names, found {}"},
        {"config.json", "", "labels", "[]", "\"labels\": expected 2 names, found 0"},
        {"config.json", "", "labels", "[\"a\"]", "\"labels\": expected 2 names, found 1"},
        {"config.json", "", "labels", "[\"active\", \"quiescent\"]",
         "entry 0 of \"labels\": expected \"quiescent\", found \"active\""},
        {"config.json", "", "bins", "\"32\"", "\"bins\": expected a whole number from 1 to 2147483647, found \"32\""},
        {"config.json", "", "side", "-7", "\"side\": expected a whole number from 1 to 2147483647, found -7"},
        {"decision.json", NULL, "all", "[]", "decision.json: expected an object {...}"},
        {"decision.json", NULL, "all", "{}", "\"format\": expected 1, found nothing"},
        {"decision.json", "", "format", NULL, "\"format\": expected 1, found nothing"},
        {"decision.json", "", "format", "\"1\"", "\"format\": expected 1, found \"1\""},
        {"decision.json", "", "version", "[]", "\"version\": expected a text, found []"},
        {"decision.json", "", "weights", "7", "it was made for other weights (?)"},
        {"decision.json", "", "decision", "7", "\"decision\": expected a text, found 7"},
        {"decision.json", "", "views", "1", "\"views\": expected true or false, found 1"},
        {"decision.json", "", "views", NULL, "\"views\": expected true or false, found nothing"},
        {"decision.json", "", "threshold", "null", "\"threshold\": expected a number, found null"},
        {"decision.json", "", "threshold", "-3", "\"threshold\": expected 0 to 1, found -3"},
        {"decision.json", "", "temperature", "\"1\"", "\"temperature\": expected a number or null"},
        {"decision.json", "", "training_donors", "[1]", "\"training_donors\": expected an array of names"},
        {"decision.json", "", "validation_donors", "\"D1\"", "\"validation_donors\": expected an array of names"},
    };
    char *best = path_join(run, "fold_D3/best");
    char *followed = follow_link(best);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *edited = edited_checkpoint(followed, &edits[i]);
        int status = cv("predict --checkpoint %s %s", edited, blind);
        if (status != 1) fail_msg("%s %s: exit status %d:\n%s", edits[i].field, edits[i].value, status, fixture.output);
        assert_contains(fixture.output, edits[i].message);
        if (!strcmp(edits[i].file, "config.json") && strcmp(edits[i].field, "all") != 0) {
            assert_int_equal(cv("--data %s --base-checkpoint %s -o %s/never", cells, edited, folder), 1);
            assert_contains(fixture.output, edits[i].message);
        }
        free(edited);
    }
    free(followed);
    free(best);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(predictions_are_those_of_the_test),
                                       cmocka_unit_test(folds_are_averaged),
                                       cmocka_unit_test(standard_output_has_only_rows),
                                       cmocka_unit_test(labels_are_shown_and_known_donors_named),
                                       cmocka_unit_test(one_warning_names_the_donors_of_all_models),
                                       cmocka_unit_test(a_threshold_may_be_out_of_range),
                                       cmocka_unit_test(a_foreign_description_is_not_read),
                                       cmocka_unit_test(a_foreign_file_decides_at_one_half),
                                       cmocka_unit_test(mistakes_are_named),
                                       cmocka_unit_test(fields_of_other_types_and_ranges_are_refused)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
