/* train_psd run: all stages, once or once for every sensor; and the samples that stages share. */
#include <inttypes.h>

#include "checkpoint/state.h"
#include "data/psd/split_index.h"
#include "tests/documented.h"
#include "tests/page_rig.h"
#include "tests/psd/train_rig.h"

static Error error;

/* ---- run ---- */

/* Options of a run of about 200 steps; the size stands in a file, and nothing may win over it. */
static const char *run_options(void) {
    static char text[1024];
    char *pretrain = kept_path(fixture.data, "pretrain.yaml"), *finetune = kept_path(fixture.data, "finetune.yaml");
    write_text(pretrain, "size: tiny\nbatch_size: 60\nepochs: 10\nlearning_rate: 1e-3\n");
    write_text(finetune, "batch_size: 60\nepochs: 40\nlearning_rate: 3e-3\nearly_stopping_patience: 0\n");
    snprintf(text, sizeof text, "run -m %s/toy.safetensors --pretrain-config %s --finetune-config %s --threads 1",
             fixture.data, pretrain, finetune);
    return text;
}

/* The files of two directories are there, and the same. */
static void assert_same_files(const char *a, const char *b, const char *names) {
    char *copy = keep(xstrdup(names)), *rest = copy;
    for (char *name; (name = strsep(&rest, " "));) must_run("cmp %s/%s %s/%s", a, name, b, name);
}

static const char *const pooled_files =
    "pooled_finetuned.csv pooled_finetuned.json pooled_finetuned.md confusion_matrix_pooled_finetuned.svg "
    "reliability_pooled_finetuned.svg roc_pooled_finetuned.svg precision_recall_pooled_finetuned.svg "
    "per_class_finetuned.csv per_sensor_finetuned.csv per_snr_finetuned.csv "
    "predictions_finetuned.csv calibration/calibration.json calibration/temp_scaling_results.csv "
    "pretrain/best/model.safetensors pretrain/last/optimizer.safetensors finetune/best/model.safetensors "
    "finetune/last/optimizer.safetensors";

/* Changes the last state of a training so that it names another one of its checkpoints as the best, and returns that
 * one; free(). Takes the directory's name. */
static char *name_another_best(char *directory) {
    char *last = keep(path_through(directory, "last")), *file = kept_path(last, "state.json"), name[64] = "";
    TrainState s;
    int64_t step = 0;
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && ls -d step_* | grep -v $(readlink best || cat best)", directory),
                     0);
    assert_int_equal(sscanf(fixture.output, "%63s", name), 1);
    assert_int_equal(sscanf(name, "step_%" SCNd64, &step), 1);
    assert_true(state_read(last, &s, &error));
    s.best_step = step;
    char *text = keep(state_to_json(&s));
    assert_true(file_write_atomic(file, text, strlen(text), &error));
    free(s.options_json);
    free(directory);
    return keep(xstrdup(name));
}

/* The total, at 1 a second, is more than the costs of both trainings. */
static void assert_total(const char *output, const char *end) {
    double costs[2], total, seconds;
    for (int i = 0; i < 2; i++) {
        char *head = kept_format("[Done] cost of stage %d of 4: ", i + 1);
        const char *line = strstr(output, head);
        assert_non_null(line);
        costs[i] = atof(line + strlen(head));
    }
    const char *line = strstr(output, "[Run] in all: ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "[Run] in all: %lf s, %lf", &seconds, &total), 2);
    assert_near(seconds, total, 0.06);
    assert_true(total >= costs[0] + costs[1] - 0.02);
    assert_non_null(memmem(line, strcspn(line, "\n") + 1, end, strlen(end)));
}

/* Stops a run in its first stage, on a disk without links and locks, and in its second, on one with them. */
static void stop_in_both_stages(const char *directory, const char *options) {
    static const char *const stages[] = {"pretrain", "finetune"};
    char *path = kept_path(directory, "output");
    for (int i = 0; i < 2; i++) {
        char *stage = kept_path(directory, stages[i]);
        if (!i) poor_disk(true);
        assert_int_equal(psd_program_and_signal(directory, stage, 6, options), 128 + SIGTERM);
        if (!i) poor_disk(false);
        char *said = kept_text(path);
        assert_contains(said, "[Run] stopped by signal 15; the same command continues");
        assert_true(!strstr(said, "[Calibration]") && !strstr(said, "--resume auto")); /* which run does not have */
    }
}

/* Moved back to the disk without links to end there. */
TEST(a_whole_run_is_stopped_goes_on_and_is_not_done_twice) {
    char *whole = kept_folder(), *stopped = kept_folder();
    psd_must("%s --split %s/pooled.json -o %s --price 'cpu=3600 CHF/h'", run_options(), fixture.data, whole);
    assert_contains(fixture.output, " of stage 1 of 4 "); /* behind the time left */
    assert_contains(fixture.output, "[Done] cost of stage 1 of 4: ");
    assert_contains(fixture.output, "[Done] cost of stage 2 of 4: ");
    assert_total(fixture.output, " CHF\n");
    assert_same_files(whole, whole, pooled_files);
    char *page = read_page(whole);
    assert_page_has(page, (const char *[]){"2 trainings: 2 finished.", "Result: accuracy ", "macro F1 ",
                                           "finetuned: pooled", "<h3>By sensor</h3>", "<h3>By SNR in dB</h3>",
                                           "truth</text>", ">confidence</text>", "Calibration <small>",
                                           "temperature by SNR", "<title>macro_f1</title>", NULL});
    char *options = kept_format("%s --split %s/pooled.json -o %s", run_options(), fixture.data, stopped);
    stop_in_both_stages(stopped, options);
    bool poor = poor_disk(true);
    psd_must("%s", options);
    if (poor) poor_disk(false);
    if (poor) assert_contains(fixture.output, "this file system has no symbolic links and no locks");
    assert_same_files(whole, stopped, pooled_files);
    psd_must("%s", options);
    assert_true(!strstr(fixture.output, "[Train]") && !strstr(fixture.output, "[Val]"));
    assert_same_files(whole, stopped, pooled_files);
    /* A link that a kill has left behind is mended; nothing goes on with other weights. */
    char *best = kept_path(stopped, "pretrain/best");
    assert_int_equal(unlink(best), 0);
    make_link("step_99999999", best);
    psd_must("%s", options);
    assert_contains(fixture.output, "the link best was step_99999999 and is now step_");
    assert_same_files(whole, stopped, pooled_files);
    /* The same weights under another name are the same weights. */
    char *moved = kept_format("%s/moved", fixture.data);
    assert_int_equal(rename(stopped, moved), 0);
    psd_must("%s --split %s/pooled.json -o %s/./moved", run_options(), fixture.data, fixture.data);
    assert_true(!strstr(fixture.output, "[Train]") && !strstr(fixture.output, "[Val]"));
    assert_int_equal(rename(moved, stopped), 0);
    /* A better encoder would leave the classifier of the one before. */
    char *another = name_another_best(path_join(stopped, "pretrain"));
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s %s", program_at("train_psd"), options), 1);
    assert_contains(fixture.output, another);
    assert_contains(fixture.output, ": remove it to train the classifier again");
    /* And without the best there is none. */
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "rm -r %s/pretrain/%s", stopped, another), 0);
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s %s", program_at("train_psd"), options), 1);
    assert_contains(fixture.output, "says that the best weights are of step ");
    assert_contains(fixture.output, "/pretrain to train again");
}

/* No temperature is best for a single row that is right; the run has its results all the same. */
TEST(a_run_outlives_a_calibration_that_cannot_be_fitted) {
    char *run = kept_folder(), *pooled = kept_path(fixture.data, "pooled.json"), *split = kept_path(run, "one.json");
    char *page = kept_path(run, "finetune/report.html"), *stray = kept_path(run, "stray"), *text = kept_text(pooled);
    json_t *rows = json_loads(text, 0, NULL), *one = json_array();
    json_array_append(one, json_array_get(json_object_get(rows, "val"), 0));
    json_object_set_new(rows, "val", one);
    text = keep(json_dumps(rows, 0));
    write_text(split, "%s", text);
    make_directories(page); /* so that this page cannot be written, and the run's own lacks a log */
    make_directories(stray);
    char *log = kept_path(stray, "log.jsonl");
    write_text(log, "damaged\n");
    psd_must("%s --split %s -o %s", run_options(), split, run);
    assert_contains(fixture.output, "all 1 rows are right, so that no temperature is low enough");
    assert_contains(fixture.output, "report.html could not be written: ");
    char *whole = read_page(run);
    assert_page_has(
        whole, (const char *[]){"2 trainings: 2 finished.", "Result: accuracy ", "<li>stray: log.jsonl:1: ", NULL});
    json_decref(rows);
}

/* Each training has 156 rows of the other sensors, each evaluation the sensor's own 96. */
TEST(a_sensor_left_out_is_only_tested_on) {
    char *run = kept_folder();
    psd_must("%s --split %s/loso.json -o %s --protocol loso --num-loso-sensors 2", run_options(), fixture.data, run);
    assert_contains(fixture.output, "156 to train on, 36 to validate on, 96 to test on");
    char *next =
        xformat(" predict --checkpoint %s/s00/finetune --checkpoint %s/s01/finetune NEW_RECORDINGS -o ", run, run);
    assert_contains(fixture.output, "\nNext: ");
    assert_contains(fixture.output, next);
    free(next);
    assert_same_files(run, run,
                      "loso_results.csv loso_results.json loso_results.md s00/s00_finetuned.json "
                      "s01/s01_finetuned.json s01/calibration/calibration.json s01/pretrain/last/model.safetensors");
    char *page = read_page(run);
    assert_page_has(page, (const char *[]){"Result: accuracy ", "; worst sensor: s0", NULL});
    assert_int_equal(access(kept_path(run, "s02"), F_OK), -1);
    for (int s = 0; s < 2; s++) {
        char *directory = kept_format("%s/s%02d", run, s);
        PsdPredicted said[128];
        int n = psd_read_predictions(directory, said, 128);
        assert_int_equal(n, TOY_ROWS * PSD_CLASSES);
        for (int i = 0; i < n; i++) assert_int_equal(said[i].id / TOY_ROWS / PSD_CLASSES, s);
    }
}

/* Names of sensors in a split lead to no other folder, are never taken for options, and do not stop a run where the
 * file system refuses a character. */
TEST(names_of_sensors_lead_to_no_other_folder) {
    char *run = kept_folder(), *results = kept_path(run, "results");
    if (run_command(fixture.output, sizeof fixture.output,
                    "sed 's/\"s00\"/\"..\\/..\\/evil\"/; s/\"s01\"/\"--he:lp\"/' %s/loso.json >%s/odd.json",
                    fixture.data, run))
        fail_msg("%s", fixture.output);
    bool poor = poor_disk(true);
    psd_must(
        "%s --split %s/odd.json -o %s --protocol loso --num-loso-sensors 2 --pretrain-epochs 1 --finetune-epochs 1",
        run_options(), run, results);
    if (poor) poor_disk(false);
    assert_same_files(results, results,
                      poor ? "loso_results.csv %2E.%2F..%2Fevil/%2E.%2F..%2Fevil_finetuned.json "
                             "%2D-he%3Alp/%2D-he%3Alp_finetuned.json %2D-he%3Alp/finetune/last/model.safetensors"
                           : "loso_results.csv %2E.%2F..%2Fevil/%2E.%2F..%2Fevil_finetuned.json "
                             "%2D-he:lp/%2D-he:lp_finetuned.json %2D-he:lp/finetune/last/model.safetensors");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "ls %s", run), 0);
    assert_string_equal(fixture.output, "odd.json\nresults\n");
}

/* A batch that is the whole epoch: the samples, and in pretraining their partners behind them. */
TEST(no_batch_has_the_sensor_left_out) {
    static const char *const commands[] = {"pretrain", "finetune"};
    for (int k = 0; k < 2; k++) {
        char *run = kept_folder();
        psd_must(
            "%s -m %s/toy.safetensors --split %s/loso.json --sensor s01 -o %s/run --size tiny -b 156 --max-steps 1 "
            "--threads 1 --debug-dump %s/dump",
            commands[k], fixture.data, fixture.data, run, run);
        TensorFile dump = open_in(run, "dump");
        const StoredTensor *spectra = find(&dump, "", "micro0.batch.spectra");
        assert_int_equal(spectra->count, k ? 156 : 312);
        int crossed = 0;
        for (int64_t i = 0; i < spectra->count; i++) {
            const int32_t *of = spectra->data;
            int sensor = of[i] / TOY_ROWS / PSD_CLASSES;
            assert_true(sensor == 0 || sensor == 2);
            assert_true(of[i] % TOY_ROWS < 13);
            if (i < 156) continue; /* a partner has the same class, and another sensor */
            assert_int_equal(of[i] / TOY_ROWS % PSD_CLASSES, of[i - 156] / TOY_ROWS % PSD_CLASSES);
            crossed += of[i - 156] / TOY_ROWS / PSD_CLASSES != sensor;
        }
        assert_int_equal(crossed, k ? 0 : 156);
        tensor_file_close(&dump);
    }
}

/* Both commands with both encoders: every field and activation that is documented is in one of their
 * dumps. */
TEST(the_debug_dumps_are_as_documented) {
    char *run = kept_folder();
    TensorFile dumps[4];
    for (int k = 0; k < 4; k++) {
        psd_must("%s -m %s/toy.safetensors --split %s/loso.json --sensor s01 -o %s/run%d --size tiny --encoder %s "
                 "--d-model 24 -b 16 -g 2 --max-steps 1 --threads 1 --debug-dump %s/dump%d",
                 k % 2 ? "pretrain --projection-dim 20 --decoder-dim 12" : "finetune", fixture.data, fixture.data, run,
                 k, k < 2 ? "transformer" : "cnn", run, k);
        dumps[k] = open_in(run, kept_format("dump%d", k));
    }
    assert_dumps_documented(dumps, 2, "### Dump of train_psd");
    assert_dumps_documented(dumps, 4, "### Dump of train_psd");
    for (int k = 0; k < 4; k++) tensor_file_close(&dumps[k]);
}

TEST(few_shots_tune_the_model_of_the_other_sensors) {
    char *run = kept_folder();
    psd_must("%s --split %s/few.json --loso-split %s/loso.json -o %s --protocol fewshot_loso --num-loso-sensors 1 "
             "--fewshot-seeds 2",
             run_options(), fixture.data, fixture.data, run);
    assert_contains(fixture.output, "50 rows per class leave none to test on: left out");
    assert_contains(fixture.output, "has a head, which is used");
    assert_same_files(run, run,
                      "fewshot_loso_results.csv fewshot_loso_results.json fewshot_loso_results.md "
                      "s00/s00_finetuned.json s00/shots_5_seed_42/last/model.safetensors "
                      "s00/shots_5_seed_43/s00_finetuned.json s00/shots_10_seed_43/predictions_finetuned.csv");
    static const int shots[] = {5, 10};
    for (int k = 0; k < 2; k++) {
        char *directory = kept_format("%s/s00/shots_%d_seed_42", run, shots[k]);
        PsdPredicted said[96];
        int n = psd_read_predictions(directory, said, 96);
        assert_int_equal(n, (TOY_ROWS - shots[k]) * PSD_CLASSES);
        for (int i = 0; i < n; i++)
            assert_true(said[i].id < TOY_ROWS * PSD_CLASSES &&
                        said[i].id % TOY_ROWS >= shots[k]); /* of s00, not trained on */
    }
    /* The second seed has other rows, drawn into a split of its own: more than none of them is among the file's. */
    char *path = kept_format("%s/splits/fewshot_loso_seed43.json", run);
    PsdPartition drawn;
    int others = 0;
    if (!psd_partition_read(path, "s00", 10, TOY_SAMPLES, &drawn, &error)) fail_msg("%s", error.text);
    assert_int_equal(drawn.splits[PSD_TRAIN].n, 10 * PSD_CLASSES);
    for (int i = 0; i < 10 * PSD_CLASSES; i++) {
        assert_true(drawn.splits[PSD_TRAIN].at[i] < TOY_ROWS * PSD_CLASSES);
        others += drawn.splits[PSD_TRAIN].at[i] % TOY_ROWS >= 10;
    }
    assert_true(others > 0);
    psd_partition_free(&drawn);
    /* A model that was tuned from one classifier is not taken for another's. */
    name_another_best(xformat("%s/s00/finetune", run));
    assert_int_equal(psd_program("%s --split %s/few.json --loso-split %s/loso.json -o %s --protocol fewshot_loso "
                                 "--num-loso-sensors 1 --fewshot-seeds 2",
                                 run_options(), fixture.data, fixture.data, run),
                     1);
    assert_contains(fixture.output, "s00/shots_5_seed_42 did not begin from ");
}

/* ---- how the data were made ---- */

enum { SWEEPS = 48, SWEEP_BINS = 410 };

/* Row `other` is of another noise; -1: none. */
static void write_sweeps(const char *directory, int other) {
    static double sweeps[SWEEPS * SWEEP_BINS];
    for (int i = 0; i < SWEEPS * SWEEP_BINS; i++)
        sweeps[i] = (double)philox_normal(i / SWEEP_BINS == other ? 2 : 1, PURPOSE_TEST, 0, (uint64_t)i);
    write_npy(directory, "r.npy", "<f8", sweeps, 2, SWEEPS, SWEEP_BINS);
}

/* Recordings of two sensors, a manifest, a split that an index names; the samples as train_psd prepare --compat makes
 * them.
 */
static char *make_recordings(void) {
    char *directory = kept_folder(), *manifest = kept_path(directory, "m.csv");
    char *split = kept_path(directory, "split.json"), rows[4096] = "npy_path,row_index,sensor_id,num_bins,label\n";
    for (int i = 0; i < SWEEPS; i++)
        sprintf(rows + strlen(rows), "r.npy,%d,%s,%d,%s\n", i, i % 2 ? "A" : "B", SWEEP_BINS, i % 4 / 2 ? "fm" : "dab");
    sprintf(rows + strlen(rows), "zero.npy,0,A,0,fm\n"); /* row SWEEPS, without a sample */
    write_sweeps(directory, -1);
    write_npy(directory, "zero.npy", "<f8", "", 2, 1, 0);
    write_text(manifest, "%s", rows);
    write_text(split, "{\"train\": [0, 1, 2, 3, 4, 5, 6, 7], \"val\": [8, 9, 10, 11], \"test\": [12, 13, 14, 15]}");
    PsdStore store;
    if (!psd_store_open(&store, manifest, &(bool){false}, &(double){0}, 1, &error)) fail_msg("%s", error.text);
    assert_true(psd_split_index_set(split, store.manifest_hash, &error));
    psd_store_close(&store);
    return directory;
}

/* Fails unless the last checkpoint has recorded these values. */
static void expect_recorded(const char *directory, const char *run, bool hop, double limit) {
    char *path = kept_format("%s/%s/last/state.json", directory, run), *text = kept_text(path);
    json_t *state = json_loads(text, 0, NULL), *options = json_object_get(state, "options");
    assert_true(json_is_true(json_object_get(options, "hop")) == hop);
    assert_true(json_number_value(json_object_get(options, "limit")) == limit);
    json_decref(state);
}

TEST(samples_have_the_settings_of_the_checkpoint) {
    char *to = make_recordings(), *options = kept_format("--split %s/split.json --threads 1", to);
    char *train = kept_format("%s --size tiny -b 4 --epochs 1 -o %s", options, to);
    psd_must("pretrain -m %s/m.csv %s/1", to, train);
    assert_contains(fixture.output, "samples, made before, without --hop, with --limit 0");
    assert_null(strstr(fixture.output, "[Split]"));
    expect_recorded(to, "1", false, 0);
    psd_must("pretrain -m %s/m.csv %s/2 --limit 5", to, train); /* asked for */
    assert_contains(fixture.output,
                    "m.psd.safetensors was made with other options; it is made again, without --hop, with --limit 5");
    expect_recorded(to, "2", false, 5);
    psd_must("pretrain -m %s/m.csv %s/3 --hop", to, train);
    assert_contains(fixture.output,
                    "m.psd.safetensors was made with other options; it is made again, with --hop, with --limit 5");
    expect_recorded(to, "3", true, 5);
    psd_must("finetune -m %s/m.psd.safetensors %s/4", to, train); /* the store itself, without options */
    expect_recorded(to, "4", true, 5);
    assert_int_equal(psd_program("pretrain -m %s/m.psd.safetensors %s/5 --limit 20", to, train), 1);
    assert_contains(fixture.output,
                    "was made with --hop, with --limit 5, not with --hop, with --limit 20; leave these options");
    /* The checkpoint's own settings given as options. */
    psd_must("pretrain -m %s/m.csv %s/6 --hop=false --limit 3", to, train);
    assert_int_equal(
        psd_program("evaluate -m %s/m.psd.safetensors %s --checkpoint %s/4/last -o %s/e", to, options, to, to), 1);
    assert_contains(fixture.output, "was made without --hop, with --limit 3, not with --hop, with --limit 5");
    psd_must("evaluate -m %s/m.csv %s --checkpoint %s/4/last -o %s/e", to, options, to, to);
    assert_contains(fixture.output, "is made again, with --hop, with --limit 5");
    assert_int_equal(psd_program("run -m %s/m.csv %s --size tiny --scratch --hop=false -o %s/r", to, options, to), 1);
    assert_contains(fixture.output, "is made again, without --hop, with --limit 5"); /* its stages are printed */
    assert_contains(fixture.output, "8 samples to train on are fewer than one batch of 512");
}

TEST(rows_of_another_manifest_are_refused) {
    char *to = make_recordings(), *split = kept_path(to, "split.json"), *index = kept_path(to, "index.json");
    char *run =
        kept_format("pretrain -m %s/m.csv --split %s --threads 1 --size tiny -b 4 --epochs 1 -o %s", to, split, to);
    assert_true(psd_split_index_set(split, 1, &error));
    assert_int_equal(psd_program("%s/1", run), 1);
    assert_contains(fixture.output, "split.json: was made from another manifest (0000000000000001, not ");
    assert_true(psd_split_index_set(split, 0, &error));
    psd_must("%s/1", run);
    assert_contains(fixture.output, "[Split] ");
    assert_contains(fixture.output, "split.json: nothing says which manifest its rows are of");
    assert_int_equal(remove(index), 0);
    assert_true(psd_split_index_set(split, 0, &error) && access(index, F_OK)); /* nothing to say: none is made */
    psd_must("%s/2", run);
    assert_contains(fixture.output, "split.json: nothing says which manifest its rows are of");
}

/* Rows 0 to 7 are trained on, 12 to 15 tested on. A store that is made again of the same recordings is the same. */
TEST(replaced_recordings_are_not_taken_for_the_old_ones) {
    char *to = make_recordings(), *stage = kept_path(to, "stage.yaml"), *run;
    write_text(stage, "size: tiny\nbatch_size: 4\nepochs: 1\n");
    char *data_options = kept_format("-m %s/m.csv --split %s/split.json --threads 1", to, to);
    run = kept_format("run %s --pretrain-config %s --finetune-config %s -o %s/run", data_options, stage, stage, to);
    psd_must("%s", run);
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output, "touch %s/r.npy && rm %s/m.psd.safetensors", to, to), 0);
    psd_must("%s --hop=false --limit 0", run);
    assert_null(strstr(fixture.output, "[Train]"));
    assert_null(strstr(fixture.output, "other contents"));
    write_sweeps(to, 12); /* a classifier is evaluated on any data */
    psd_must("%s", run);
    assert_contains(fixture.output, "it is made again");
    assert_null(strstr(fixture.output, "[Train]"));
    write_sweeps(to, 8);
    psd_must("%s", run);
    assert_contains(fixture.output,
                    "/run/finetune/step_00000002: the data to validate on have other contents than before");
    write_sweeps(to, 0);
    assert_int_equal(psd_program("%s", run), 1);
    assert_contains(fixture.output,
                    "/run/pretrain/step_00000002: the training data has the same samples and lengths as "
                    "before, but other contents");
    assert_contains(fixture.output, "start a new run in another --output-dir");
    assert_int_equal(
        psd_program("finetune %s --config %s --pretrained %s/run/pretrain/last -o %s/run/finetune --resume auto",
                    data_options, stage, to, to),
        1);
    assert_contains(fixture.output, "/run/finetune/step_00000002: the training data has the same samples");
    assert_contains(fixture.output, "from the weights with --pretrained ");
    psd_must("evaluate %s --checkpoint %s/run/finetune/last -o %s/e", data_options, to, to);
    psd_must("finetune %s --config %s --pretrained %s/run/pretrain/last -o %s/other", data_options, stage, to, to);
}

TEST(rows_without_samples_are_left_out) {
    char *to = make_recordings(), *split = kept_path(to, "zero.json");
    char *run =
        kept_format("finetune -m %s/m.csv --split %s --threads 1 --size tiny -b 4 --epochs 1 -o %s", to, split, to);
    write_text(split, "{\"train\": [0, %d, 1, 2, 3], \"val\": [4], \"test\": []}", SWEEPS);
    psd_must("%s/2", run);
    assert_contains(fixture.output, "1 rows of the split have no sample in the prepared data");
    assert_contains(fixture.output, "; 4 to train on, 1 to validate on");
    write_text(split, "{\"train\": [%d], \"val\": [4], \"test\": []}", SWEEPS);
    assert_int_equal(psd_program("%s/3", run), 1);
    assert_contains(fixture.output, "zero.json: no rows to train on");
}

int main(void) { return tests_run(psd_make_toy, NULL); }
