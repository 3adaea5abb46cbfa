/* train_psd predict: spectra without labels get what evaluate has computed of them, calibrated as calibrate has fitted,
 * alone and averaged over classifiers. */
#include "data/psd/manifest.h"
#include "tests/documented.h"
#include "tests/edited_json.h"
#include "tests/psd/train_rig.h"

enum { ROWS = 4 * 6 * 12 }; /* of four sensors, in files of some rows each */

static const char *folder;                     /* of everything below */
static char *raw, *blind, *manifest, *runs[2]; /* blind: the same recordings under names without a technology */

/* Four sensors' recordings, two classifiers of all their rows, and their predictions by evaluate. */
static int set_up(void **state) {
    psd_make_toy(state); /* sets the program */
    folder = run_directory();
    raw = kept_path(folder, "raw");
    blind = kept_path(folder, "blind");
    manifest = kept_path(folder, "data/manifest.csv");
    psd_must("synthesize --output %s --sensors 4 --rows 12", raw);
    psd_must("prepare --input %s --output %s/data --hop=false", raw, folder);
    must_run("cd %s && find . -name '*.npy' | LC_ALL=C sort | { i=10000; while read -r f; do i=$((i+1)); "
             "d=%s/$(echo $f | cut -d/ -f3); mkdir -p $d/day; cp $f $d/day/x$i.npy; done; }",
             raw, blind);
    for (int k = 0; k < 2; k++) {
        runs[k] = kept_format("%s/run%d", folder, k);
        bool poor = k && poor_disk(true); /* a small file names the best weights of one */
        psd_must("finetune -m %s --split %s/data/splits/pooled_seed42_frac1.0.json --size tiny -b 32 --epochs 12 "
                 "--learning-rate 3e-3 --seed %d -o %s",
                 manifest, folder, k, runs[k]);
        if (poor) poor_disk(false);
        psd_must("evaluate -m %s --split %s/data/splits/pooled_seed42_frac1.0.json --checkpoint %s/best -o %s/test",
                 manifest, folder, runs[k], runs[k]);
    }
    return 0;
}

typedef struct {
    char sensor[32], predicted[8], label[8];
    double p[PSD_CLASSES], calibrated[PSD_CLASSES], confidence;
} Row;

/* Predicts and reads all rows, which are in the manifest's order. */
static void predict(const char *options, Row *rows, int want) {
    char *path = kept_path(folder, "out.jsonl");
    psd_must("predict %s -o %s", options, path);
    char *text = kept_text(path);
    int n = 0;
    for (const char *line = text; *line && n < want; line = strchr(line, '\n') + 1) {
        json_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL), *label = json_object_get(object, "label");
        Row *row = &rows[n++];
        snprintf(row->sensor, sizeof row->sensor, "%s", json_string_value(json_object_get(object, "sensor")));
        snprintf(row->predicted, sizeof row->predicted, "%s", json_string_value(json_object_get(object, "predicted")));
        snprintf(row->label, sizeof row->label, "%s", label ? json_string_value(label) : "");
        row->confidence = json_number_value(json_object_get(object, "confidence"));
        for (int c = 0; c < PSD_CLASSES; c++) {
            char name[32];
            snprintf(name, sizeof name, "p_%s", PSD_LABEL_NAMES[c]);
            row->p[c] = json_number_value(json_object_get(object, name));
            snprintf(name, sizeof name, "p_calibrated_%s", PSD_LABEL_NAMES[c]);
            row->calibrated[c] = json_number_value(json_object_get(object, name));
        }
        json_decref(object);
    }
    assert_int_equal(n, want);
}

TEST(predictions_are_those_of_evaluate) {
    static Row rows[ROWS], blinded[ROWS];
    PsdPredicted said[ROWS];
    char *test = kept_path(runs[0], "test"), *options = kept_format("--checkpoint %s %s", runs[0], raw);
    predict(options, rows, ROWS);
    int n = psd_read_predictions(test, said, ROWS), right = 0;
    assert_true(n > 20);
    for (int i = 0; i < n; i++) {
        const Row *row = &rows[said[i].id];
        for (int c = 0; c < PSD_CLASSES; c++) assert_near(row->p[c], said[i].p[c], 1e-6); /* other batches */
        assert_string_equal(row->label, PSD_LABEL_NAMES[said[i].truth]);
        assert_string_equal(row->predicted, PSD_LABEL_NAMES[said[i].predicted]);
        assert_near(row->confidence, row->p[said[i].predicted], 1e-12);
        right += said[i].truth == said[i].predicted;
    }
    assert_true(right > n / 2);
    /* the recordings' names matter to nobody */
    options = kept_format("--checkpoint %s/best %s", runs[0], blind);
    predict(options, blinded, ROWS);
    for (int i = 0; i < ROWS; i++) {
        assert_string_equal(blinded[i].label, "");
        assert_string_equal(blinded[i].sensor, rows[i].sensor);
        for (int c = 0; c < PSD_CLASSES; c++) assert_near(blinded[i].p[c], rows[i].p[c], 1e-7);
    }
    options = kept_format("--checkpoint %s -m %s", runs[0], manifest);
    predict(options, blinded, ROWS);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < PSD_CLASSES; c++) assert_near(blinded[i].p[c], rows[i].p[c], 1e-7);
}

static double fitted_temperature(const char *checkpoint) {
    char *path = keep(path_through(checkpoint, "decision.json"));
    json_t *root = json_load_file(path, 0, NULL), *fits = json_object_get(root, "calibrations");
    assert_checkpoint_documented(checkpoint);
    for (size_t i = 0; i < json_array_size(fits); i++)
        assert_keys_documented(json_array_get(fits, i), "## A checkpoint");
    double temperature = json_number_value(json_object_get(json_array_get(fits, 0), "temperature"));
    json_decref(root);
    return temperature;
}

/* softmax(z / T) is the normalised softmax(z) to the power of 1 / T. */
TEST(probabilities_are_calibrated_as_fitted) {
    static Row rows[ROWS];
    char *best = kept_path(runs[0], "best"), *options = kept_format("--checkpoint %s %s", best, raw);
    predict(options, rows, ROWS);
    assert_contains(fixture.output, ": not calibrated");
    assert_int_equal(psd_program("predict --calibration vector %s", options), 1);
    assert_contains(fixture.output, "has none; train_psd calibrate fits and keeps it");
    psd_must("calibrate -m %s --split %s/data/splits/pooled_seed42_frac1.0.json --checkpoint %s -o %s/calibration",
             manifest, folder, best, folder);
    assert_contains(fixture.output, "kept with the weights: ");
    double temperature = fitted_temperature(best);
    predict(options, rows, ROWS);
    assert_contains(fixture.output, ": calibrated by temperature");
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int c = 0; c < PSD_CLASSES; c++) sum += pow(rows[i].p[c], 1 / temperature);
        for (int c = 0; c < PSD_CLASSES; c++)
            assert_near(rows[i].calibrated[c], pow(rows[i].p[c], 1 / temperature) / sum, 1e-9);
    }
    for (int k = 0; k < 2; k++) {
        static const char *const kinds[] = {"vector", "covariate"};
        char *with = kept_format("--calibration %s %s", kinds[k], options),
             *said = kept_format("calibrated by %s", kinds[k]);
        double difference = 0;
        static Row others[ROWS];
        predict(with, others, ROWS);
        assert_contains(fixture.output, said);
        for (int i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int c = 0; c < PSD_CLASSES; c++) {
                sum += others[i].calibrated[c];
                difference = fmax(difference, fabs(others[i].calibrated[c] - rows[i].calibrated[c]));
            }
            assert_near(sum, 1, 1e-12);
        }
        assert_true(difference > 1e-3);
    }
}

static void predict_edited(const char *edited, const JsonEdit *edit) {
    assert_edit_refused(psd_program("predict --checkpoint %s %s -o %s/none.csv", edited, raw, folder), edit);
}

/* The decision.json is of the test above. */
TEST(fields_of_other_types_and_ranges_are_refused) {
    static const JsonEdit configs[] = {
        {"", "labels", "{}", "\"labels\": expected an array of names, found {}"},
        {"", "labels", "[]", "\"labels\": expected 6 names, found 0"},
        {"", "labels", "[\"a\"]", "\"labels\": expected 6 names, found 1"},
        {"", "labels", "[\"tetra\", \"lte\", \"gsm\", \"fm\", \"dvbt\", \"dab\"]",
         "entry 0 of \"labels\": expected \"dab\", found \"tetra\""},
        {"options", "d-model", "1e3", "d-model: expected a whole number, found 1000.0"},
        {"options", "n-heads", "-1", "n-heads: expected 0 to 1000, found -1"},
        {"options", "hop", "0", "hop: expected true or false, found 0"},
        {"options", "limit", "\"12\"", "limit: expected a number, found \"12\""},
        {"options", "head", "null", "head: expected a text, found null"},
    };
    static const JsonEdit decisions[] = {
        {"", "calibrations", NULL, "\"calibrations\": expected an array, found nothing"},
        {"", "calibrations", "{}", "\"calibrations\": expected an array, found {}"},
        {"", "calibrations", "[5]",
         "entry 0 of \"calibrations\": \"kind\": expected temperature, vector or covariate, found nothing"},
        {"", "calibrations", "[{\"kind\": \"tempo\", \"temperature\": 2}]",
         "\"kind\": expected temperature, vector or covariate, found \"tempo\""},
        {"", "calibrations",
         "[{\"kind\": \"temperature\", \"temperature\": 2}, {\"kind\": \"vector\", \"temperature\": 2, "
         "\"scale\": [\"x\", 1, 1, 1, 1, 1], \"bias\": [0, 0, 0, 0, 0, 0]}]",
         "entry 1 of \"calibrations\": \"scale\": expected a number, found \"x\""},
        {"", "calibrations", "[{\"kind\": \"temperature\", \"temperature\": \"2\"}]",
         "\"temperature\": expected a number, found \"2\""},
        {"", "calibrations", "[{\"kind\": \"temperature\", \"temperature\": -2}]", "\"temperature\" is -2"},
    };
    char *configured = kept_path(runs[1], "best"), *decided = kept_path(runs[0], "best");
    refuse_config_edits(configured, "psd", configs, sizeof configs / sizeof *configs, predict_edited);
    refuse_decision_edits(decided, decisions, sizeof decisions / sizeof *decisions, predict_edited);
}

TEST(classifiers_are_averaged) {
    static Row both[ROWS], one[ROWS], other[ROWS];
    char *options[3] = {xformat("--checkpoint %s --checkpoint %s --calibration none %s", runs[0], runs[1], raw),
                        xformat("--checkpoint %s --calibration none %s", runs[0], raw),
                        xformat("--checkpoint %s --calibration none %s", runs[1], raw)};
    Row *const into[3] = {both, one, other};
    for (int k = 0; k < 3; k++) predict(options[k], into[k], ROWS);
    double difference = 0;
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < PSD_CLASSES; c++) {
            assert_near(both[i].p[c], (one[i].p[c] + other[i].p[c]) / 2, 1e-12);
            difference = fmax(difference, fabs(one[i].p[c] - other[i].p[c]));
        }
    assert_true(difference > 1e-3);
    for (int k = 0; k < 3; k++) free(options[k]);
}

/* A CNN reads whole spectra, a transformer patches. */
TEST(different_encoders_predict_together) {
    static Row both[ROWS], one[ROWS], other[ROWS];
    char *cnn = kept_path(folder, "cnn");
    psd_must("finetune -m %s --split %s/data/splits/pooled_seed42_frac1.0.json --encoder cnn --size tiny -b 64 "
             "--epochs 1 -o %s",
             manifest, folder, cnn);
    char *options[3] = {xformat("--checkpoint %s --checkpoint %s --calibration none %s", runs[0], cnn, raw),
                        xformat("--checkpoint %s --calibration none %s", runs[0], raw),
                        xformat("--checkpoint %s --calibration none %s", cnn, raw)};
    Row *const into[3] = {both, one, other};
    for (int k = 0; k < 3; k++) predict(options[k], into[k], ROWS);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < PSD_CLASSES; c++) assert_near(both[i].p[c], (one[i].p[c] + other[i].p[c]) / 2, 1e-12);
    for (int k = 0; k < 3; k++) free(options[k]);
}

/* Neither the store beside a manifest, made for another model, nor anything else of the user's is replaced, and nothing
 * temporary stays. */
TEST(nothing_of_the_users_is_replaced) {
    static Row rows[ROWS];
    char *store = kept_path(folder, "data/manifest.psd.safetensors"), *limited = kept_path(folder, "limited");
    char *own = kept_path(folder, "own"), *away = kept_path(folder, "away"), *before, *after;
    size_t n_before, n_after;
    Error error;
    must_run("cp -r %s/data %s", folder, own);
    psd_must("finetune -m %s/manifest.csv --split %s/splits/pooled_seed42_frac1.0.json --size tiny --limit 5 -b 64 "
             "--epochs 1 -o %s",
             own, own, limited);
    assert_true(read_file(store, &before, &n_before, &error));
    make_directories(away);
    setenv("TMPDIR", away, 1);
    predict(kept_format("--checkpoint %s -m %s", limited, manifest), rows, ROWS);
    assert_int_equal(psd_program("predict --checkpoint %s -m %s -o %s", limited, manifest, manifest), 2);
    assert_contains(fixture.output, "--output: ");
    unsetenv("TMPDIR");
    assert_true(read_file(store, &after, &n_after, &error));
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    assert_true(!rmdir(away)); /* it is empty */
    free(before);
    free(after);
}

/* A farm of links: a recording has the name of its link, and two links to one file are copies. */
TEST(links_keep_their_names) {
    need_links();
    char *farm = kept_path(folder, "farm"), *list = kept_path(folder, "farm_data/manifest.csv");
    must_run("mkdir -p %s/a/day %s/b/day && ln -s $(find %s -name '*dab*.npy' | head -1) %s/a/day/x_dab_1.npy && "
             "ln -s $(find %s -name '*dab*.npy' | head -1) %s/b/day/x_dab_1.npy",
             farm, farm, raw, farm, raw, farm);
    psd_must("prepare --input %s --output %s/farm_data", farm, folder);
    char *text = kept_text(list);
    assert_contains(text, "\n../farm/a/day/x_dab_1.npy,0,a,");
    assert_contains(text, "\n../farm/b/day/x_dab_1.npy,0,b,");
}

TEST(mistakes_are_named) {
    char *empty = kept_path(folder, "empty"), *hop = kept_path(folder, "hop");
    make_directories(empty);
    assert_int_equal(psd_program("predict %s", raw), 2);
    assert_contains(fixture.output, "which model? give --checkpoint");
    assert_int_equal(psd_program("predict --checkpoint %s", runs[0]), 2);
    assert_contains(fixture.output, "no data: give --manifest DIR|PATH");
    assert_int_equal(psd_program("predict --checkpoint %s %s", runs[0], empty), 1);
    assert_contains(fixture.output, "there are no .npy files in it");
    assert_int_equal(psd_program("predict --checkpoint %s --d-model 64 %s", runs[0], raw), 2);
    assert_contains(fixture.output, "--d-model 64 contradicts");
    assert_int_equal(psd_program("predict --checkpoint %s %s/data/manifest.psd.safetensors", runs[0], folder), 2);
    assert_contains(fixture.output, "a store does not name recordings");
    must_run("cp -r %s/data %s/data2", folder, folder);
    psd_must(
        "finetune -m %s/data2/manifest.csv --split %s/data2/splits/pooled_seed42_frac1.0.json --size tiny --limit 5 "
        "-b 64 --epochs 1 -o %s",
        folder, folder, hop);
    assert_int_equal(psd_program("predict --checkpoint %s --checkpoint %s %s", runs[0], hop, raw), 1);
    assert_contains(fixture.output, "they cannot predict the same samples");
}

int main(void) { return tests_run(set_up, NULL); }
