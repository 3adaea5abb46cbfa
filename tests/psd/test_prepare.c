/* train_psd prepare and synthesize, run as a user runs it: on synthetic recordings, and on a folder with everything
 * that can be wrong with one. */
#include <unistd.h>

#include "base/file.h"
#include "data/psd/manifest.h"
#include "data/psd/split_index.h"
#include "data/psd/store.h"
#include "data/psd/synthetic.h"
#include "tests/files.h"
#include "tests/folder_writers.h"

static Error error;

enum { SENSORS = 3, ROWS = 20, FILES = SENSORS * 6 * 2, ALL = SENSORS * 6 * ROWS, WIDTH = 210 };
static const char *root;   /* every folder of the tests is in it */
static char said[1 << 16]; /* by the last program */

/* In `root`, so that names on the command line, and in what is written, are short. */
static int run(const char *options) {
    const char *build = getenv("BUILD");
    char *relative = kept_path(build ? build : "build/release", "train_psd"), *program = keep(realpath(relative, NULL));
    if (!program) fail_msg("there is no %s", relative);
    return run_command(said, sizeof said, "cd %s && %s %s", root, program, options);
}

static void must(const char *options) {
    int status = run(options);
    if (status) fail_msg("exit status %d:\n%s", status, said);
}

static void expect_refused(int status, const char *options, const char *message) {
    assert_int_equal(run(options), status);
    assert_contains(said, message);
}

static bool there(const char *name) { return !access(kept_path(root, name), F_OK); }

static void expect_same_file(const char *a, const char *b) {
    char *paths[2] = {path_join(root, a), path_join(root, b)}, *bytes[2];
    size_t sizes[2];
    for (int i = 0; i < 2; i++)
        if (!read_file(paths[i], &bytes[i], &sizes[i], &error)) fail_msg("%s: %s", paths[i], error.text);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    for (int i = 0; i < 2; i++) {
        free(bytes[i]);
        free(paths[i]);
    }
}

static PsdManifest manifest_of(const char *name) {
    char *path = kept_path(root, name);
    PsdManifest m;
    if (!psd_manifest_read(path, &m, &error)) fail_msg("%s", error.text);
    return m;
}

static PsdStore store_of(const char *name) {
    char *path = kept_path(root, name);
    PsdStore s;
    if (!psd_store_open(&s, path, NULL, NULL, 1, &error)) fail_msg("%s", error.text);
    return s;
}

static json_t *report_of(const char *name) {
    char *path = kept_path(root, name), *text = kept_text(path);
    json_t *report = json_loads(text, 0, NULL);
    assert_non_null(report);
    return report;
}

/* Writes the recordings of one sensor. */
static bool write_sensor(const char *folder, int seed, Error *error) {
    const PsdSynthetic how = {1, 2, (uint64_t)seed};
    int64_t n;
    return psd_synthetic_write(folder, &how, 1, &n, error);
}

/* First: it forks before there are OpenMP's threads. */
TEST(writers_at_once_do_not_mix) { expect_writers_not_to_mix(write_sensor, "spectrum_bands\n"); }

static json_int_t split_number(const json_t *report, const char *split, const char *key) {
    const json_t *entry = json_object_get(json_object_get(report, "splits"), split);
    assert_non_null(json_object_get(entry, key));
    return json_integer_value(json_object_get(entry, key));
}

/* ---- made-up recordings ---- */

TEST(made_up_recordings_do_not_depend_on_threads) {
    must("synthesize -o again --sensors 3 --rows 20 --num-workers 1");
    assert_int_equal(run_command(said, sizeof said, "diff -r %s/made %s/again", root, root), 0);
    must("synthesize -o other --sensors 3 --rows 20 --seed 43");
    assert_int_equal(run_command(said, sizeof said, "diff -rq %s/made %s/other", root, root), 1);
    expect_refused(1, "synthesize -o again", "again/spectrum_bands is there already; remove it");
}

TEST(made_up_recordings_have_the_archives_layout) {
    PsdManifest m = manifest_of("data/manifest.csv");
    assert_true(m.n == ALL && m.n_files == FILES && m.n_sensors == SENSORS);
    assert_string_equal(m.sensor_names[2], "sensor_03");
    int counts[PSD_LABELS] = {0};
    for (int64_t i = 0; i < m.n; i++) {
        counts[m.labels[i]]++;
        assert_contains(m.file_paths[m.files[i]], kept_format("_%s_site_", PSD_LABEL_NAMES[m.labels[i]]));
        assert_int_equal(m.num_bins[i], (int64_t)((m.end[i] - m.begin[i]) * 107.5));
        assert_true(m.snr[i] > 0 && m.snr[i] < 80);
    }
    for (int c = 0; c < PSD_UNKNOWN; c++) assert_int_equal(counts[c], SENSORS * ROWS);
    psd_manifest_close(&m);
}

/* Predicts each test sample by its nearest training sample. Chance gives a sixth. */
TEST(technologies_are_distinguishable_but_not_perfectly) {
    char *path = kept_path(root, "data/splits/pooled_seed42_frac1.0.json");
    PsdStore s = store_of("data/manifest.psd.safetensors");
    PsdPartition split;
    if (!psd_partition_read(path, NULL, 0, ALL, &split, &error)) fail_msg("%s", error.text);
    const PsdIds *train = &split.splits[PSD_TRAIN], *test = &split.splits[PSD_TEST];
    double right = 0;
    for (int64_t i = 0; i < test->n; i++) {
        double least = INFINITY;
        int32_t label = 0;
        for (int64_t j = 0; j < train->n; j++) {
            double distance = 0;
            for (int k = 0; k < PSD_BINS; k++) {
                double d = (double)s.psd[test->at[i] * PSD_BINS + k] - (double)s.psd[train->at[j] * PSD_BINS + k];
                distance += d * d;
            }
            if (distance < least) {
                least = distance;
                label = s.labels[train->at[j]];
            }
        }
        right += label == s.labels[test->at[i]];
    }
    assert_true(right / (double)test->n > 2.0 / 6 && right < (double)test->n);
    psd_partition_free(&split);
    psd_store_close(&s);
}

/* ---- the whole way ---- */

TEST(everything_is_written) {
    static const char *const names[] = {"pooled_seed42_frac1.0", "by_file_seed42_frac1.0", "by_sensor_seed42_frac1.0",
                                        "loso_seed42_frac1.0", "fewshot_loso_seed42"};
    must("prepare --input made --output alone --num-workers 1");
    expect_same_file("data/manifest.csv", "alone/manifest.csv");
    expect_same_file("data/manifest.psd.safetensors", "alone/manifest.psd.safetensors");
    for (int i = 0; i < 5; i++) {
        char *a = kept_format("data/splits/%s.json", names[i]), *b = kept_format("alone/splits/%s.json", names[i]);
        expect_same_file(a, b);
    }
    PsdStore s = store_of("data/manifest.psd.safetensors");
    json_t *report = report_of("data/data_report.json");
    assert_true(s.n == ALL && s.n_files == FILES);
    assert_int_equal(json_integer_value(json_object_get(report, "samples")), ALL);
    assert_int_equal(split_number(report, "by_file_seed42_frac1.0.json", "files_leaking"), 0);
    assert_true(split_number(report, "pooled_seed42_frac1.0.json", "files_leaking") > FILES / 2);
    assert_int_equal(split_number(report, "loso_seed42_frac1.0.json", "splits"), SENSORS);
    assert_int_equal(split_number(report, "loso_seed42_frac1.0.json", "test"), ALL);
    assert_int_equal(split_number(report, "fewshot_loso_seed42.json", "splits"), 4 * SENSORS);
    json_decref(report);
    psd_store_close(&s);
}

TEST(compat_is_the_references) {
    must("synthesize -o four --sensors 4 --rows 1"); /* the fourth has TETRA where others have DVB-T */
    must("prepare --input four --output four/data --compat --fraction 0.9");
    PsdManifest m = manifest_of("four/data/manifest.csv");
    int dvbt = 0, tetra = 0;
    for (int64_t i = 0; i < m.n; i++) {
        dvbt += m.labels[i] == 1;
        tetra += m.labels[i] == 5;
        assert_true(isnan(m.snr[i]) && isnan(m.begin[i]) && !isnan(m.center[i]));
    }
    assert_true(dvbt == 5 && tetra == 3);
    TensorFile file = open_in(root, "four/data/manifest.psd.safetensors");
    for (int i = 0; i < file.n_metadata; i++)
        if (!strcmp(file.metadata_keys[i], "limit")) assert_string_equal(file.metadata_values[i], "0");
    tensor_file_close(&file);
    psd_manifest_close(&m);
}

TEST(a_manifest_gets_other_splits_and_samples) {
    must("prepare --input made --output redo");
    must("prepare --manifest redo/manifest.csv --hop --seed 7 --fraction 0.5 --num-loso-sensors 2");
    expect_same_file("data/manifest.csv", "redo/manifest.csv");
    assert_true(there("redo/splits/pooled_seed7_frac0.5.json") && there("redo/splits/fewshot_loso_seed7.json"));
    PsdManifest m = manifest_of("redo/manifest.csv");
    PsdStore s = store_of("redo/manifest.psd.safetensors");
    int64_t samples = 0;
    for (int64_t i = 0; i < m.n; i++) samples += m.num_bins[i] / PSD_BINS;
    assert_true(s.n == samples);
    json_t *report = report_of("redo/data_report.json");
    assert_int_equal(split_number(report, "loso_seed7_frac0.5.json", "splits"), 2);
    json_decref(report);
    psd_store_close(&s);
    psd_manifest_close(&m);
}

/* Whether a split is taken for one of the manifest "NAME/manifest.csv"; why not. */
static bool belongs(const char *split, const char *name, Error *error) {
    char *path = kept_path(root, split), *folder = kept_path(root, name), *manifest = kept_path(folder, "manifest.csv");
    uint64_t hash;
    if (!psd_manifest_hash(manifest, &hash, error)) fail_msg("%s", error->text);
    return psd_split_index_check(path, hash, error);
}

/* Rows of another manifest have the same numbers. */
TEST(splits_are_of_one_manifest) {
#define POOLED "swap/splits/pooled_seed42_frac"
    must("prepare --input made --output swap");
    must("prepare --manifest swap/manifest.csv --fraction 0.25");
    expect_same_file("data/splits/pooled_seed42_frac1.0.json", POOLED "1.0.json"); /* they are as they were */
    assert_true(belongs(POOLED "0.25.json", "swap", &error));
    assert_string_equal(error.text, "");
    must("synthesize -o elsewhere --sensors 2 --rows 20");
    must("prepare --input elsewhere --output swap");
    assert_contains(said, "[Split] swap/splits/pooled_seed42_frac0.25.json is removed: it was made from another");
    assert_true(!there(POOLED "0.25.json") && there(POOLED "1.0.json"));
    assert_true(belongs(POOLED "1.0.json", "swap", &error));
    assert_false(belongs(POOLED "1.0.json", "data", &error));
    assert_contains(error.text, POOLED "1.0.json: was made from another manifest");
    must("prepare --input elsewhere --output swap --fraction 0.5"); /* the same manifest: nothing goes */
    assert_true(there(POOLED "1.0.json") && belongs(POOLED "1.0.json", "swap", &error));
    /* Values that cannot be checked are taken on trust, with a note. */
    char *path = kept_path(root, "swap/splits/index.json"), *split = kept_path(root, POOLED "1.0.json");
    assert_true(psd_split_index_check(split, 0, &error));
    assert_contains(error.text, "1.0.json: nothing says which manifest its rows are of");
    write_text(path, "{\"other.json\": \"1\"}");
    assert_true(belongs(POOLED "1.0.json", "data", &error));
    assert_contains(error.text, "nothing says which manifest");
    assert_int_equal(remove(path), 0);
    assert_true(belongs(POOLED "1.0.json", "data", &error));
    assert_contains(error.text, "nothing says which manifest");
    static const char *const damaged[] = {"{", "[]", "{\"a.json\": 1}", "{\"a.json\": \"1\", \"a.json\": \"2\"}"};
    for (int i = 0; i < 4; i++) {
        write_text(path, "%s", damaged[i]);
        assert_false(belongs(POOLED "1.0.json", "swap", &error));
        assert_contains(error.text, "index.json: is no list of splits and their manifests; remove it");
    }
    expect_refused(1, "prepare --manifest swap/manifest.csv", "index.json: is no list of splits");
#undef POOLED
}

/* A manifest and splits that others have made; what train_psd prepare has made it replaces. */
TEST(files_of_the_user_stay) {
    must("synthesize -o elsewhere2 --sensors 2 --rows 9");
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "own/splits/loso_seed42_frac1.0.json" : "own/manifest.csv";
        char *path = kept_path(root, name), *text, *want;
        run_command(said, sizeof said, "cd %s && rm -rf own && mkdir -p own/splits && cp data/%s %s", root,
                    name + strlen("own/"), name);
        want = kept_text(path);
        expect_refused(1, "prepare --input elsewhere2 --output own", "would be replaced, and ");
        assert_contains(said, name);
        text = kept_text(path);
        assert_string_equal(text, want);
        assert_true(there("own/manifest.csv") == !i);
    }
    must("prepare --input made --output ours");
    must("prepare --input elsewhere2 --output ours");
    char *path = kept_path(root, "ours/manifest.csv"), *text, *want;
    run_command(said, sizeof said, "sed -i '$d' %s", path); /* as for a wrong row */
    want = kept_text(path);
    must("prepare --manifest ours/manifest.csv");
    expect_refused(1, "prepare --input made --output ours",
                   "index.json does not say that train_psd prepare has made it as it is");
    text = kept_text(path);
    assert_string_equal(text, want);
}

/* Neither a split nor its index is believed once a character of it is another. */
TEST(damaged_splits_are_refused) {
#define POOLED "flip/splits/pooled_seed42_frac1.0.json"
    must("prepare --input made --output flip");
    assert_true(belongs(POOLED, "flip", &error));
    char *split = kept_path(root, POOLED), *index = kept_path(root, "flip/splits/index.json"), *text = kept_text(split);
    char *digit = strchr(text, ',') - 1;
    *digit = *digit == '9' ? '8' : (char)(*digit + 1);
    write_text(split, "%s", text);
    assert_false(belongs(POOLED, "flip", &error));
    assert_contains(error.text, POOLED ": is not as it was written: its checksum is ");
    must("prepare --input made --output flip");
    assert_true(belongs(POOLED, "flip", &error));
    expect_same_file("data/splits/pooled_seed42_frac1.0.json", POOLED);
    text = kept_text(index);
    digit = strstr(text, "pooled_seed42_frac1.0.json\": \"") + 29;
    *digit = *digit == '9' ? '8' : '9';
    write_text(index, "%s", text);
    assert_false(belongs(POOLED, "flip", &error));
    assert_contains(error.text, "index.json: is no list of splits and their manifests; remove it");
#undef POOLED
}

/* Only the same options continue what a killed program began. */
TEST(unfinished_recordings_are_finished) {
    must("synthesize -o whole --sensors 2 --rows 4");
    must("synthesize -o begun --sensors 2 --rows 4");
    int status = run_command(said, sizeof said,
                             "cd %s/begun && echo -n '2 sensors, 4 rows, seed 42' >.unfinished && "
                             "rm -r spectrum_bands/sensor_02",
                             root);
    assert_int_equal(status, 0);
    expect_refused(1, "synthesize -o begun --sensors 3 --rows 4",
                   "begun is unfinished, and was begun with 2 sensors, 4 rows, seed 42, not with 3 sensors, 4 rows");
    expect_refused(1, "prepare -i begun -o begun/data",
                   "begun is unfinished: the program that fills it was stopped, or is still running");
    expect_refused(1, "prepare -i begun/spectrum_bands", "begun/spectrum_bands/.. is unfinished");
    must("synthesize -o begun --sensors 2 --rows 4");
    status = run_command(said, sizeof said, "cd %s && diff -r whole begun", root);
    assert_int_equal(status, 0);
    expect_refused(1, "synthesize -o begun --sensors 2 --rows 4", "spectrum_bands is there already");
}

/* Two at once in one folder: the second waits, and what is there in the end is one's. */
TEST(two_at_once_do_not_mix) {
    static char output[8192];
    const char *build = getenv("BUILD");
    char *relative = kept_path(build ? build : "build/release", "train_psd"), *program = keep(realpath(relative, NULL));
    assert_non_null(program);
    int status = run_command(
        output, sizeof output,
        "cd %s && PROGRAM=%s && for i in 1 2 3; do for o in '-i made' '-i made --hop' '-i made --limit 5'; do "
        "$PROGRAM prepare $o -o together --fraction 0.5 >together.log.$i 2>&1 & p=\"$p $!\"; done; done; "
        "for x in $p; do wait $x || exit 1; done; ls -A together together/splits | grep -e lock -e partial",
        root, program);
    if (status != 1) fail_msg("status %d: %s", status, output); /* grep's: none is left */
    must("prepare --input made --output single --fraction 0.5");
    must("prepare --input made --output together --fraction 0.5 --limit 20");
    status = run_command(output, sizeof output,
                         "cd %s && diff -r -x data_report.json -x '*.safetensors' single together", root);
    assert_string_equal(output, "");
}

/* ---- the data report ---- */

/* Rows that vary by file; the name is below root. */
static void add_rows(const char *name, int64_t rows, int64_t width, double level, double value) {
    char *path = kept_path(root, name), *directory = keep(path_directory(path));
    double *data = xmalloc((size_t)(rows * width) * sizeof *data);
    make_directories(directory);
    for (int64_t i = 0; i < rows * width; i++) data[i] = i < width ? value : level + (double)(i * i % 31);
    write_npy(root, name, "<f8", data, 2, rows, width);
    free(data);
}

static void expect_found(const json_t *report, const char *key, const char *text) {
    const json_t *list = json_object_get(report, key);
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(json_string_value(json_array_get(list, 0)), text);
    assert_contains(said, text);
}

#define BANDS "ill/spectrum_bands/"

/* Recordings of three sensors, and one file for everything that can be wrong. */
static void add_ill_recordings(void) {
    for (int i = 0; i < 6; i++) {
        static const char *const sensors[] = {"A", "B", "C"};
        char *name = kept_format("ill/spectrum_bands/%s/Feb_%d/good_%s_.npy", sensors[i / 2], i, i % 2 ? "fm" : "gsm");
        add_rows(name, 12, WIDTH, -60 - i, -60 - i);
    }
    add_rows(BANDS "B/Feb_9/copy_gsm_.npy", 12, WIDTH, -60, -60); /* of A's Feb_0 */
    add_rows(BANDS "A/Feb_9/zero_fm_.npy", 449, 0, 0, 0);
    add_rows(BANDS "A/Feb_9/narrow_fm_.npy", 2, 74, -50, -49);
    add_rows(BANDS "A/Feb_9/wide_fm_.npy", 2, 20001, -50, -49);
    add_rows(BANDS "A/Feb_9/nan_fm_.npy", 2, WIDTH, -51, (double)NAN);
    add_rows(BANDS "A/Feb_9/what.npy", 2, WIDTH, -52, -51);
    write_text(kept_path(root, BANDS "A/Feb_9/what.csv"), "low,high\n80,100\n");
    add_rows(BANDS "A/Feb_9/SpectrumBands_420_430_tetra_.npy", 2, WIDTH, -53, -51);
}

TEST(the_report_names_what_is_wrong) {
    add_ill_recordings();
    must("prepare --input ill --output ill/data");
    json_t *report = report_of("ill/data/data_report.json");
    expect_found(report, "left_out", BANDS "A/Feb_9/zero_fm_.npy: rows of zero width, 449 rows");
    expect_found(report, "lost_rows", BANDS "A/Feb_9/nan_fm_.npy: 1 of 2 rows");
    expect_found(report, "narrow", BANDS "A/Feb_9/narrow_fm_.npy: 2 rows of 74 bins");
    expect_found(report, "wide", BANDS "A/Feb_9/wide_fm_.npy: 2 rows of 20001 bins");
    expect_found(report, "unlabelled", BANDS "A/Feb_9/what.npy");
    expect_found(report, "side_files",
                 "beside " BANDS "A/Feb_9/what.npy: 1: there is no column \"begin_freq\"; the columns are: low, high");
    expect_found(report, "label_conflicts",
                 BANDS
                 "A/Feb_9/SpectrumBands_420_430_tetra_.npy: its name says tetra, 425 MHz is dvbt; taken for tetra");
    expect_found(report, "copies",
                 BANDS "B/Feb_9/copy_gsm_.npy is " BANDS "A/Feb_0/good_gsm_.npy of another sensor: B, A");
    assert_int_equal(json_array_size(json_object_get(report, "not_finite")), 0);
    assert_true(json_array_size(json_object_get(report, "constant")) > 5); /* every first row is one value */
    assert_contains(said, "[Report] 3 of 3 sensors lack a technology");
    assert_int_equal(json_integer_value(json_object_get(report, "rows")), 7 * 12 + 4 * 2 + 1);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json_object_get(report, "sensors"), "B"), "gsm")), 24);
    /* The copy is in the test when B is left out, and what it was copied from is when A is. */
    assert_int_equal(split_number(report, "loso_seed42_frac1.0.json", "files_leaking"), 0);
    assert_int_equal(split_number(report, "loso_seed42_frac1.0.json", "contents_leaking"), 0);
    assert_int_equal(split_number(report, "loso_seed42_frac1.0.json", "copies_left_out"), 24);
    assert_contains(said,
                    "loso_seed42_frac1.0.json: 24 rows are left out: their files are copies of files in the test");
    must("prepare --manifest ill/data/manifest.csv"); /* the same without a scan */
    assert_contains(said, "loso_seed42_frac1.0.json: 24 rows are left out");
    must("prepare --manifest ill/data/manifest.csv --fraction 0.5"); /* adds to what is known of the manifest */
    json_decref(report);
    report = report_of("ill/data/data_report.json");
    assert_int_equal(json_array_size(json_object_get(report, "copies")), 1);
    assert_int_equal(json_array_size(json_object_get(report, "left_out")), 1);
    assert_true(split_number(report, "loso_seed42_frac1.0.json", "train") >
                split_number(report, "loso_seed42_frac0.5.json", "train"));
    json_decref(report);
}

/* Goes on with the recordings of the test before. */
TEST(copies_do_not_leak_for_any_seed) {
    json_int_t left_out = 0;
    for (int seed = 0; seed < 8; seed++) { /* by file, copies stay together; by sensor they are not trained on */
        char *again = kept_format("prepare --input ill --output ill/data --seed %d", seed);
        char *name = kept_format("by_file_seed%d_frac1.0.json", seed);
        must(again);
        json_t *report = report_of("ill/data/data_report.json");
        assert_int_equal(split_number(report, name, "contents_leaking"), 0);
        name = kept_format("by_sensor_seed%d_frac1.0.json", seed);
        assert_int_equal(split_number(report, name, "contents_leaking"), 0);
        left_out += split_number(report, name, "copies_left_out");
        json_decref(report);
    }
    assert_true(left_out > 0);
}

TEST(compat_numbers_and_splits_rows_of_zero_width) {
    must("prepare --input ill --output ill/compat --compat");
    json_t *report = report_of("ill/compat/data_report.json");
    int known = 7 * 12 + 3 * 2 + 1;
    expect_found(report, "without_samples", BANDS "A/Feb_9/zero_fm_.npy: rows of zero width, 449 rows");
    assert_int_equal(json_array_size(json_object_get(report, "left_out")), 0);
    assert_int_equal(json_integer_value(json_object_get(report, "rows")), known + 2 + 449); /* two are of no class */
    assert_int_equal(json_integer_value(json_object_get(report, "samples")), known + 2);
    assert_int_equal(split_number(report, "loso_seed42_frac1.0.json", "test"), known + 449);
    assert_int_equal(split_number(report, "loso_seed42_frac1.0.json", "contents_leaking"), 2);
    assert_contains(said, "; 2 files of the test have copies in another split");
    json_decref(report);
}

TEST(a_lost_file_is_a_copy_of_none) {
    assert_int_equal(remove(kept_path(root, BANDS "B/Feb_9/copy_gsm_.npy")), 0);
    must("prepare --manifest ill/data/manifest.csv");
    assert_contains(said, "[Report] 1 files cannot be read: they may or may not be copies of others");
    assert_null(strstr(said, "rows are left out: their files are copies"));
}

TEST(splits_that_cannot_be_made_are_reported) {
    add_rows("one/S/Feb_1/a_fm_.npy", 20, WIDTH, -60, -50);
    add_rows("one/S/Feb_1/b_lte_.NPY", 20, WIDTH, -61, -50); /* counts as well */
    char *old = kept_path(root, "one/data/splits/by_file_seed42_frac1.0.json"), *directory = keep(path_directory(old));
    make_directories(directory);
    assert_true(psd_split_index_claim(old, 1, &error));
    write_text(old, "{}");
    must("prepare -i one -o one/data");
    assert_contains(said, "[Split] by_file_seed42_frac1.0.json is not made: 2 groups cannot be divided into 3 splits");
    assert_contains(said, "[Split] loso_seed42_frac1.0.json is not made: leaving a sensor out needs at least two");
    assert_false(there("one/data/splits/by_file_seed42_frac1.0.json"));
    assert_true(there("one/data/splits/pooled_seed42_frac1.0.json"));
    must("prepare --manifest one/data/manifest.csv --fraction 0.5");
    add_rows("two/S/Feb_1/a_fm_.npy", 29, WIDTH, -60, -50);
    must("prepare -i two -o one/data"); /* nothing is known of another manifest */
    json_t *report = report_of("one/data/data_report.json");
    assert_int_equal(json_array_size(json_object_get(report, "constant")), 1);
    assert_null(json_object_get(json_object_get(report, "splits"), "pooled_seed42_frac0.5.json"));
    json_decref(report);
    add_rows("none/S/Feb_1/a.npy", 20, WIDTH, -60, -50);
    expect_refused(1, "prepare -i none -o none/data", "no split can be made of these rows");
}

/* ---- what is refused ---- */

TEST(wrong_folders_are_refused) {
    static const char object[] = "\x93NUMPY\x01\x00\x36\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    add_rows("pickle/S/D/a_fm_.npy", 1, WIDTH, 0, 0);
    write_bytes(kept_path(root, "pickle/S/D/b_fm_.npy"), object, sizeof object - 1);
    expect_refused(1, "prepare -i pickle -o pickle/data",
                   "pickle/S/D/b_fm_.npy: holds Python objects (dtype |O): a pickle");
    assert_false(there("pickle/data"));
    expect_refused(1, "prepare -i nowhere", "nowhere: No such file or directory");
    add_rows("empty/S/D/a_fm_.npy", 9, 0, 0, 0);
    double half[2 * WIDTH];
    for (int i = 0; i < 2 * WIDTH; i++) half[i] = i % 2 ? -60 : (double)NAN;
    write_npy(root, "empty/S/D/b_fm_.npy", "<f8", half, 2, (int64_t)2, (int64_t)WIDTH);
    add_rows("empty/S/D/c_fm_.npy", 1, WIDTH, 0, (double)INFINITY);
    expect_refused(1, "prepare -i empty -o empty/data",
                   "empty: none of its 3 .npy files has a row that can be used: 1 rows have no finite bin, 2 are half "
                   "NaN, 1 files have no rows of bins");
}

TEST(linear_sensors_are_warned_of) {
    add_rows("linear/spectrum_bands/A/Feb_1/x_fm_.npy", 24, WIDTH, -60, -60);
    char *path = kept_path(root, "linear/spectrum_bands/B/Feb_1/x_gsm_.npy"), *folder = keep(path_directory(path));
    double data[24 * WIDTH];
    for (int i = 0; i < 24 * WIDTH; i++) data[i] = 1e-7 * (double)(1 + i % 31);
    make_directories(folder);
    write_npy(root, "linear/spectrum_bands/B/Feb_1/x_gsm_.npy", "<f8", data, 2, 24, WIDTH);
    must("prepare --input linear --output linear/data");
    assert_contains(said, "warning: sensor B is no dB: its bins are from 1e-07 to 3.1e-06, as linear power is");
    assert_null(strstr(said, "sensor A"));
}

static void expect_manifest_refused(const char *text, const char *message) {
    write_text(kept_path(root, "bad.csv"), "%s", text);
    expect_refused(1, "prepare --manifest bad.csv", message);
}

TEST(wrong_manifests_are_refused) {
    char text[4096], rows[2048] = "";
    add_rows("a_fm_.npy", 40, WIDTH, -60, -50);
    for (int i = 0; i < 20; i++) sprintf(rows + strlen(rows), "a_fm_.npy,%d,S,%d,%s\n", i, WIDTH, i % 2 ? "fm" : "lte");
    static const struct {
        const char *row, *message;
    } cases[] = {{"a_fm_.npy,0,S,210,wifi\n", "bad.csv:22: label is 'wifi'; expected dab, dvbt"},
                 {"gone.npy,0,S,210,fm\n", "bad.csv:22: gone.npy: cannot open"},
                 {"a_fm_.npy,40,S,210,fm\n", "bad.csv:22: row_index is 40, but a_fm_.npy has 40 rows"},
                 {"a_fm_.npy,21,S,211,fm\n", "bad.csv:22: num_bins is 211, but a_fm_.npy has rows of 210"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "npy_path,row_index,sensor_id,num_bins,label\n%s%s", rows, cases[i].row);
        expect_manifest_refused(text, cases[i].message);
    }
    expect_manifest_refused("npy_path,row_index,sensor_id,label\na_fm_.npy,0,S,fm\n",
                            "bad.csv:1: there is no column \"num_bins\"");
    assert_false(there("bad.psd.safetensors"));
}

TEST(wrong_options_are_refused) {
    static const char *const names[] = {"b.csv", "b.txt"};
    for (int i = 0; i < 2; i++) {
        write_text(kept_path(root, names[i]), "npy_path\n");
    }
    expect_refused(2, "prepare", "give either --input DIR or --manifest PATH");
    expect_refused(2, "prepare -i a --manifest b.csv", "give either --input DIR");
    expect_refused(2, "prepare -i a --compat --hop", "--compat excludes --hop and --limit");
    expect_refused(2, "prepare -i a --compat --limit 5", "--compat excludes --hop and --limit");
    expect_refused(2, "prepare --manifest b.txt", "--manifest: its name must end in .csv");
    expect_refused(2, "prepare --manifest b.csv -o c", "--output: the files for --manifest are written beside it");
    expect_refused(2, "prepare -i a --fraction 0", "--fraction is 0");
    expect_refused(1, "prepare --manifest c.csv", "--manifest c.csv: No such file or directory");
}

static int make_data(void **state) {
    (void)state;
    root = run_directory();
    must("synthesize -o made --sensors 3 --rows 20");
    must("prepare --input made --output data");
    return 0;
}

int main(void) { return tests_run(make_data, NULL); }
