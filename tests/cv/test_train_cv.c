/* train_cv seen from outside: whole cross-validations of made-up cells that are
 * stopped, resumed and reported on, weights that come back from PyTorch's format, and a clear line for everything that
 * can be wrong. */
#include "checkpoint/load.h"
#include "data/cv/cells.h"
#include "data/cv/synthetic.h"
#include "tests/cv/rig.h"
#include "tests/cv/train_rig.h"
#include "tests/documented.h"
#include "tests/page_rig.h"
#include "tests/tensor_list.h"

static Error error;

static char *const output = fixture.output;
static char *data; /* the directory of the toy cells */
static int64_t toy_cells;

#define must_refuse(want_status, text, ...)                                                                            \
    do {                                                                                                               \
        assert_int_equal(cv(__VA_ARGS__), want_status);                                                                \
        assert_contains(output, text);                                                                                 \
    } while (0)

/* Three donors' cells, with a decay that separates the classes, and a small network. */
static const char *const toy = "--threads 2 --channels 8,8,8 -b 8 --epochs 2 --extension-epochs 1 --extensions 1 "
                               "--learning-rate 1e-3 --shift 2";

static char *text_in(const char *directory, const char *name) {
    char *path = kept_path(directory, name), *text = kept_text(path);
    return text;
}

static bool is_in(const char *directory, const char *name) { return checkpoint_exists(kept_path(directory, name)); }

static int lines_of(const char *text) {
    int n = 0;
    for (; (text = strchr(text, '\n')); text++) n++;
    return n;
}

/* ---- a whole cross-validation ---- */

static const char *whole_run(void) {
    static const char *run;
    if (!run) {
        run = run_directory();
        char *page = kept_path(run, "fold_D1/report.html"), *stray = kept_path(run, "stray");
        make_directories(page); /* neither a page that cannot be written nor a damaged log stops the folds */
        make_directories(stray);
        char *log = kept_path(stray, "log.jsonl");
        write_text(log, "damaged\n");
        must("--data %s %s -o %s", data, toy, run);
        assert_contains(output, "report.html could not be written: ");
    }
    return run;
}

TEST(every_cell_is_tested_once_by_a_network_that_has_not_seen_its_donor) {
    const char *run = whole_run();
    static const char *const files[] = {"cross_validation_results.json",
                                        "cross_validation_results.md",
                                        "donors.csv",
                                        "roc.svg",
                                        "confusion_matrix.svg",
                                        "reliability.svg",
                                        "confident_errors.csv",
                                        "scores_D1.csv",
                                        "test_results_D2.json",
                                        "predictions_D3.csv",
                                        "best_model_fold_D1.pth",
                                        "fold_D2/loss.svg",
                                        "fold_D2/curves.svg",
                                        "fold_D3/best/model.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!is_in(run, files[i])) fail_msg("%s is missing", files[i]);
    char *predictions = text_in(run, "predictions.csv"), *evaluations = text_in(run, "test_evaluations.jsonl");
    int n = 0;
    for (const char *line = strchr(predictions, '\n'); line && line[1]; line = strchr(line + 1, '\n'), n++) {
        char file[256], fold[16];
        const char *at = strchr(line + 1, '\n');
        for (int commas = 0; commas < 2; commas += *at == ',') at--; /* fold, kept */
        assert_int_equal(sscanf(line + 1, "%255[^,]", file), 1);
        assert_int_equal(sscanf(at + 1, "%15[^,]", fold), 1);
        assert_contains(file, fold); /* isolated_cells_D1/..., D1 */
        char *once = kept_format("\n%s,", file);
        const char *first = strstr(predictions, once);
        assert_non_null(first);
        assert_null(strstr(first + 1, once));
    }
    assert_int_equal(n, toy_cells);
    assert_int_equal(lines_of(evaluations), 3);
    char *page = read_page(run), *fold = kept_path(run, "fold_D2"), *own = read_page(fold);
    assert_page_has(page, (const char *[]){"3 trainings: 3 finished. The best val/auroc of each is from ",
                                           "Result: means over folds: accuracy ", "Cross-validation, 3 folds",
                                           "false positive rate", ">precision</text>", "<h3>By donor</h3>", "AUROC 0.",
                                           "fold_D3 validation", "<li>stray: log.jsonl:1: ", NULL});
    assert_page_has(own, (const char *[]){"Best val/auroc ", "<title>auroc</title>", "/train_cv --data ", NULL});
}

/* Every batch has as many cells of one class as of the other: what is said without a look at them costs ln 2 at least.
 * The labels' smoothing by 0.05 leaves their entropy at the best; half of the way there must be made. */
TEST(training_lowers_the_loss) {
    const char *run = run_directory();
    const double smoothed = 0.025, best = -smoothed * log(smoothed) - (1 - smoothed) * log(1 - smoothed);
    double losses[64];
    must("--data %s %s -o %s --folds D1 --epochs 24 --log-interval 1000 --learning-rate 3e-3 --extensions 0 "
         "--augment=false --mixup=false "
         "--dropout 0 --head-dropout 0",
         data, toy, run);
    int n = logged(kept_path(run, "fold_D1"), "train", "train/loss", losses, 64);
    assert_int_equal(n, 24);
    print_message("the loss is %.3f, was %.3f, and can be %.3f\n", losses[n - 1], losses[0], best);
    assert_true(losses[n - 1] < (log(2) + best) / 2);
}

/* F1 is the harmonic mean of precision and recall, and each name stands in a record once: the last one would win. */
TEST(logged_scores_match_their_names) {
    enum { MOST = 8, NAMES = 6 };
    static const char *const names[NAMES] = {"val/precision",         "val/recall",  "val/f1", "val/auroc",
                                             "val/balanced_accuracy", "val/accuracy"};
    double values[NAMES][MOST];
    char *fold = kept_path(whole_run(), "fold_D1"), *log = text_in(fold, "log.jsonl"), key[64];
    int n = 0;
    for (int k = 0; k < NAMES; k++) {
        n = logged(fold, "val", names[k], values[k], MOST);
        assert_in_range(n, 2, 3); /* epochs, and the one that may be added */
        int times = 0;
        snprintf(key, sizeof key, "\"%s\":", names[k]);
        for (const char *at = log; (at = strstr(at, key)); at++) times++;
        assert_int_equal(times, n);
    }
    double largest = 0;
    for (int i = 0; i < n; i++) {
        double precision = values[0][i], recall = values[1][i], sum = precision + recall;
        assert_near(values[2][i], sum > 0 ? 2 * precision * recall / sum : 0, 1e-6);
        largest = fmax(largest, values[2][i]);
    }
    assert_true(largest > 0);
    assert_contains(log, "\"step_label\": \"it\", \"token_label\": \"cells\"");
}

/* The earlier part had no price: the money is that of this part, at 1 a second, and the time is that of both. */
static void assert_total_of_parts(void) {
    const char *line = strstr(output, "[Run] in all: ");
    double seconds, cost;
    assert_non_null(line);
    assert_int_equal(sscanf(line, "[Run] in all: %lf s, %lf USD in this part", &seconds, &cost), 2);
    assert_non_null(memmem(line, strcspn(line, "\n"), " USD in this part", 17));
    assert_true(cost >= 0 && seconds > cost);
}

TEST(folds_that_are_done_are_not_done_again) {
    const char *run = whole_run();
    char *before = text_in(run, "predictions.csv");
    text_in(run, "cross_validation_results.json");
    must("--data %s %s -o %s --resume auto --price 3600", data, toy, run);
    assert_contains(output, "[Done] cost of fold 3 of 3: ");
    assert_total_of_parts();
    assert_contains(output, "[Fold D1] done before");
    assert_null(strstr(output, "--resume has changed")); /* although the run began without it */
    assert_contains(output, "\nNext: ");
    assert_contains(output, "train_cv predict --checkpoint ");
    assert_contains(output, "[Fold D3] done before");
    assert_null(strstr(output, "[Eval]"));
    char *after = text_in(run, "predictions.csv");
    text_in(run, "cross_validation_results.json");
    char *evaluations = text_in(run, "test_evaluations.jsonl");
    assert_string_equal(before, after);
    assert_int_equal(lines_of(evaluations), 3);
    must_refuse(1, "already holds a run", "--data %s %s -o %s", data, toy, run);
    must_refuse(1, "and the folders of several trainings go there", "--data %s %s -o %s/fold_D1", data, toy, run);
}

TEST(best_weights_that_are_no_file_are_named) {
    char *run = keep(xstrdup(run_directory()));
    const char *command =
        "cp -r %s/. %s && cd %s && for f in fold_*; do "
        "b=$(readlink $f/best || cat $f/best) l=$(readlink $f/last || cat $f/last); [ $b = $l ] || break; "
        "done && rm $f/$b/model.safetensors && mkdir $f/$b/model.safetensors && [ $b != $l ]";
    assert_int_equal(run_command(output, sizeof fixture.output, command, whole_run(), run, run), 0);
    must_refuse(1, "/model.safetensors: is a folder, not a regular file; remove the folder of the fold",
                "--data %s %s -o %s --resume auto", data, toy, run);
}

/* The training has ended, so that no later weights could become the best. */
TEST(a_fold_whose_best_weights_are_gone_is_tested_with_its_last) {
    char *run = keep(xstrdup(run_directory()));
    const char *command =
        "cp -r %s/. %s && cd %s && for f in fold_*; do "
        "b=$(readlink $f/best || cat $f/best) l=$(readlink $f/last || cat $f/last); [ $b = $l ] || break; "
        "done && [ $b != $l ] && rm -r $f/$b && printf %%s $f/$l";
    assert_int_equal(run_command(output, sizeof fixture.output, command, whole_run(), run, run), 0);
    char *last = keep(xstrdup(output)), *decision = kept_format("%s/%s/decision.json", run, last);
    assert_int_equal(access(decision, F_OK), -1);
    for (int again = 0; again < 2; again++) {
        must("--data %s %s -o %s --resume auto", data, toy, run);
        assert_contains(output, ": its best weights are gone: the last ones are tested (");
        assert_contains(output, last);
        assert_int_equal(strstr(output, "[Eval]") == NULL, again);
        assert_int_equal(access(decision, F_OK), 0);
    }
}

/* A line that a kill cut off, and the whole one before it, stay as they are. */
TEST(a_torn_record_of_a_test_swallows_no_other) {
    const char *run = run_directory();
    char *path = kept_path(run, "test_evaluations.jsonl");
    write_text(path, "{\"fold\": \"D1\"}\n{\"fold\": \"D");
    must("--data %s %s -o %s --folds D1 --max-steps 1", data, toy, run);
    assert_contains(output, "fold D1 has been tested 1 times before");
    char *evaluations = kept_text(path);
    assert_contains(evaluations, "{\"fold\": \"D1\"}\n{\"fold\": \"D\n{\"time\": ");
    assert_int_equal(lines_of(evaluations), 3);
}

/* A run stopped in the second fold, on a disk without links and locks, goes on there on one that has them, and ends
 * with the same results. */
TEST(a_run_that_is_stopped_goes_on) {
    const char *run = run_directory(), *whole = whole_run();
    char *fold = kept_path(run, "fold_D2"), *command;
    command = kept_format("%s --data %s %s -o %s --log-interval 1", program_at("train_cv"), data, toy, run);
    bool poor = poor_disk(true);
    pid_t child = start_command(run, command);
    if (poor) poor_disk(false);
    assert_int_equal(signal_at_step(fold, child, 3, SIGTERM), 128 + SIGTERM);
    char *said = text_in(run, "output");
    if (poor) assert_contains(said, "this file system has no symbolic links and no locks");
    assert_contains(said, "[Run] stopped by signal 15; continue with the same command and --resume auto");
    assert_false(is_in(run, "predictions.csv"));
    must("--data %s %s -o %s --resume auto", data, toy, run);
    assert_contains(output, "[Fold D1] done before");
    char *got = text_in(run, "predictions.csv"), *want = text_in(whole, "predictions.csv");
    assert_string_equal(got, want);
}

TEST(the_same_command_gives_the_same_bits_whatever_the_workers) {
    const char *run = run_directory(), *whole = whole_run();
    must("--data %s %s -o %s --num-workers 3 --folds D2", data, toy, run);
    char *got = text_in(run, "predictions_D2.csv"), *want = text_in(whole, "predictions_D2.csv");
    assert_string_equal(got, want);
}

/* Exchanges the contents of two cells of a donor. */
static void exchange_cells(const char *cells, const char *donor) {
    assert_int_equal(run_command(output, sizeof fixture.output,
                                 "cd %s/isolated_cells_%s && a=$(ls | grep _act | head -1) && b=$(ls | grep _in | "
                                 "head -1) && cp $a x && cp $b $a && cp x $b && rm x",
                                 cells, donor),
                     0);
}

/* The contents count, not only the names: a changed test donor is evaluated again, changed training donors are refused,
 * changed validation donors are reported. */
TEST(replaced_cells_are_not_taken_for_the_old_ones) {
    CvSynthetic wanted = {.cells = 24, .donors = 3, .shape = {16, 7, 7}, .photons = 1, .separation = 2, .seed = 5};
    const char *run = run_directory(), *fresh = run_directory();
    char *cells = kept_path(run, "cells"), *to = kept_path(run, "run"), *options;
    int64_t n;
    if (!cv_synthetic_write(cells, &wanted, 2, &n, &error)) fail_msg("%s", error.text);
    options = kept_format("--data %s --threads 2 --channels 8,8,8 -b 4 --epochs 1 --max-steps 1 --filter off", cells);
    must("%s -o %s", options, to);
    assert_int_equal(run_command(output, sizeof fixture.output, "find %s -name '*.npy' | xargs touch", cells), 0);
    must("%s -o %s --resume auto", options, to); /* a copy has other times */
    assert_contains(output, "[Fold D3] done before");
    assert_null(strstr(output, "[Eval]"));
    assert_null(strstr(output, "have other contents"));
    exchange_cells(cells, "D1");
    must("%s -o %s --resume auto --folds D1", options, to);
    assert_null(strstr(output, "done before"));
    assert_contains(output, "fold D1 has been tested 1 times before");
    must("%s -o %s --folds D1", options, fresh);
    char *got = text_in(to, "predictions_D1.csv"), *want = text_in(fresh, "predictions_D1.csv");
    assert_string_equal(got, want);
    must_refuse(1,
                "fold_D2/step_00000001: the training data has the same samples and lengths as before, but other "
                "contents",
                "%s -o %s --resume auto --folds D2", options, to);
    assert_contains(output, "put the old data back, or start a new run in another --output-dir");
    must("%s -o %s --resume auto --folds D3", options, to);
    assert_contains(output, "fold_D3/step_00000001: the data to validate on have other contents than before");
}

/* The weights' export is made again if it is gone; views that were not wanted at first are there all the same; a score
 * that decides cannot be exchanged under way. */
TEST(a_missing_export_is_made_again_and_the_metric_stays) {
    const char *run = run_directory();
    must("--data %s %s -o %s --folds D1 --tta=false --epochs 1", data, toy, run);
    assert_int_equal(unlink(kept_path(run, "best_model_fold_D1.pth")), 0);
    must("--data %s %s -o %s/. --folds D1 --epochs 1 --resume auto", data, toy, run);
    assert_contains(output, "[Fold D1] done before");
    assert_null(strstr(output, "[Eval]"));
    assert_true(is_in(run, "best_model_fold_D1.pth"));
    must_refuse(2, "--monitor was \"auroc\" and is now \"f1\"",
                "--data %s %s -o %s --folds D1 --epochs 1 --resume auto --monitor f1", data, toy, run);
}

/* ---- the learning rate ---- */

/* Section 3 of the specification; an epoch is one step. */
TEST(the_rate_follows_the_cosine_over_epochs) {
    static const struct {
        int epoch;
        double rate;
    } want[] = {{0, 1e-4},       {1, 9.995658009e-5},  {10, 9.572050015e-5}, {37, 5.153664978e-5},
                {50, 2.575e-5},  {60, 1.045365878e-5}, {74, 1.043419910e-6}, {75, 1e-6},
                {76, 1.0434e-6}, {85, 5.2795e-6},      {94, 1.5867e-5}};
    double rates[128];
    int64_t n_cells;
    char *cells = cv_make_cells(12, &n_cells);
    for (int compat = 0; compat < 2; compat++) {
        const char *run = run_directory();
        must("--data %s --threads 1 --channels 8,8,8 -b 8 -o %s --folds D1 --epochs 95 --cosine-epochs 75 %s "
             "--early-stopping-patience 0 --filter off --threshold 0.5 --extensions 0 --tta=false",
             cells, run, compat ? "--compat --max-steps 190" : "");
        int n = logged(kept_path(run, "fold_D1"), "train", "train/lr", rates, 128);
        assert_true(n >= 95);
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            double rate = want[i].epoch > 75 && !compat ? 1e-6 : want[i].rate;
            assert_near(rates[want[i].epoch], rate, 1e-4 * rate); /* of the printed digits the fewest */
        }
    }
}

/* ---- weights for PyTorch, and from it ---- */

TEST(exported_weights_are_the_best) {
    const char *run = whole_run();
    char *path = kept_path(run, "best_model_fold_D1.pth"), *best = kept_path(run, "fold_D1/best/model.safetensors");
    TensorFile pth = open_file(path), ours = open_file(best);
    int compared = 0;
    for (int i = 0; i < ours.n_tensors; i++) {
        const StoredTensor *want = &ours.tensors[i], *got = find(&pth, "model_state_dict.", want->name);
        assert_int_equal(got->bytes, want->bytes);
        assert_memory_equal(got->data, want->data, want->bytes);
        compared++;
    }
    assert_int_equal(compared, 35 + 22);
    /* and they may be gone on from */
    const char *next = run_directory();
    must("--data %s %s -o %s --folds D1 --max-steps 1 --base-checkpoint %s", data, toy, next, path);
    assert_contains(output, "57 tensors loaded");
    /* the channels are those of the checkpoint, from its config.json or the shapes of its tensors */
    const char *const from[] = {path, path_join(run, "fold_D1/best")};
    static const char *const said[] = {"from the shapes of its tensors: channels \"8,8,8\"",
                                       "from its checkpoint: channels \"8,8,8\""};
    for (int i = 0; i < 2; i++) {
        must("--data %s --threads 2 -b 8 -o %s --folds D1 --max-steps 1 --base-checkpoint %s", data, run_directory(),
             from[i]);
        assert_contains(output, said[i]);
        must_refuse(2, "--channels \"8,8,16\" contradicts",
                    "--data %s --channels 8,8,16 -b 8 -o %s --base-checkpoint %s", data, run_directory(), from[i]);
    }
    free((void *)(uintptr_t)from[1]);
    tensor_file_close(&pth);
    tensor_file_close(&ours);
}

/* The cells are not read: the folder that stands for them is none. */
TEST(weights_that_are_not_whole_are_refused_before_the_cells) {
    static const char *const messages[] = {
        "1 tensor does not fit: res_block2.bn1.running_var, F32 [8] in the model, is not there",
        "1 tensor does not fit: attention.weight is not one of the model's tensors"};
    char *best = kept_path(whole_run(), "fold_D1/best/model.safetensors"), *file = kept_path(run_directory(), "file");
    write_text(file, "senseless");
    for (int k = 0; k < 2; k++) {
        TensorList list = tensor_list_read(best);
        if (k)
            tensor_list_copy(&list, "res_block1.conv1.weight", "attention.weight");
        else
            tensor_list_remove(&list, "res_block2.bn1.running_var");
        must_refuse(1, messages[k], "--data %s -o %s --base-checkpoint %s", file, run_directory(),
                    tensor_list_write(&list));
    }
}

/* ---- the reference's ways ---- */

TEST(compat_has_the_references_rules) {
    const char *run = run_directory();
    must("--data %s %s -o %s --compat --protocol reference --cv-donors D1,D2,D3 --folds D2 --epochs 1 --filter off",
         data, toy, run);
    assert_contains(output, "val D1");
    assert_contains(output, "train D3");
    assert_contains(output, "by the rule 'kmeans'");
    must_refuse(1, "entropy",
                "--data %s %s -o %s --compat --protocol split --train-donors D1 --val-donors D2 --test-donors D3", data,
                toy, run_directory()); /* cells this small have less entropy than the reference's constants */
}

/* ---- what can be wrong ---- */

/* The toy's store with other names of its donors, as a JSON list. */
static char *store_with_donors(const char *names) {
    enum { MOST = 16 };
    char *from = keep(cv_cells_path(data, CV_CELLS_ENDING)), *to = kept_path(run_directory(), "x.safetensors");
    TensorFile file = open_file(from);
    TensorToWrite tensors[MOST];
    const char *keys[MOST], *values[MOST];
    int n = 0;
    assert_true(file.n_tensors <= MOST && file.n_metadata <= MOST);
    for (int i = 0; i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        tensors[i] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[i].dims, t->dims, (size_t)t->rank * sizeof *t->dims);
    }
    for (int i = 0; i < file.n_metadata; i++) {
        if (!strcmp(file.metadata_keys[i], SAFETENSORS_SUM_KEY)) continue;
        keys[n] = file.metadata_keys[i];
        values[n] = strcmp(keys[n], "donors") ? file.metadata_values[i] : names;
        n++;
    }
    if (!safetensors_write(to, tensors, file.n_tensors, keys, values, n, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
    return to;
}

/* Nor do they stop a run where the file system refuses a character. */
TEST(names_of_donors_lead_to_no_other_folder) {
    whole_run(); /* makes the store */
    char *store = store_with_donors("[\"x/../../../evil\", \"--help\", \"D:3\"]");
    char *run = kept_folder(), *results = kept_path(run, "results");
    bool poor = poor_disk(true);
    const char *const made[] = {"fold_x%2F..%2F..%2F..%2Fevil/best/model.safetensors",
                                "best_model_fold_x%2F..%2F..%2F..%2Fevil.pth", "best_model_fold_%2D-help.pth",
                                poor ? "best_model_fold_D%3A3.pth" : "best_model_fold_D:3.pth",
                                poor ? "test_results_D%3A3.json" : "test_results_D:3.json"};
    must("--data %s %s -o %s --epochs 1 --extensions 0", store, toy, results);
    if (poor) poor_disk(false);
    for (int i = 0; i < 5; i++)
        if (!is_in(results, made[i])) fail_msg("%s", made[i]);
    assert_int_equal(run_command(output, sizeof fixture.output, "ls %s", run), 0);
    assert_string_equal(output, "results\n");
}

TEST(mistakes_are_named) {
    const char *run = run_directory();
    must_refuse(2, "no data", "-o %s", run);
    must_refuse(2, "--channels 8,8", "--data %s --channels 8,8", data);
    must_refuse(2, "multiples of 8", "--data %s --channels 8,12,16", data);
    must_refuse(2, "unknown fold D9; the folds are D1,D2,D3", "--data %s --folds D1,D9", data);
    must_refuse(2, "--folds D1,D2,D1: D1 is named twice", "--data %s --folds D1,D2,D1", data);
    must_refuse(1, "D7", "--data %s --protocol split --train-donors D1,D7 --val-donors D2 --test-donors D3", data);
    must_refuse(1, "donor D1 is named for train and for val",
                "--data %s --protocol split --train-donors D1,D2 --val-donors D1 --test-donors D3", data);
    must_refuse(2, "--batch-size", "--data %s -b 1", data);
    must_refuse(2, "--min-learning-rate", "--data %s --min-learning-rate 1", data);
    must_refuse(1, "/nowhere", "--data /nowhere");
    must_refuse(1, "--base-checkpoint nofile: No such file", "--data /nowhere --base-checkpoint nofile -o %s", run);
    must_refuse(2, "--debug-dump writes a single fold", "--data %s -b 8 --debug-dump %s/dump", data, run);
    must_refuse(2, "did you mean", "--data %s --smothing 0.1", data);
    must_refuse(1, "training cells are fewer than -b 512", "--data %s -b 512 -o %s", data, run);
}

TEST(estimates_need_neither_gpu_nor_data) {
    must("--estimate --gpu l4 --amp --price 0.8");
    assert_contains(output, "[Estimate] l4 (L4)");
    assert_contains(output, "conv3d_backward");
    assert_contains(output, "give the data, or --max-steps");
    must("--estimate --gpu all --amp --price l4=0.8CHF --data %s %s", data, toy);
    assert_contains(output, "training all 3 folds");
    const char *of_l4 = strstr(output, "[Folds] l4: "), *of_h200 = strstr(output, "[Folds] h200: "),
               *cost = " CHF at 0.80 CHF an hour\n";
    assert_true(of_l4 && of_h200);
    assert_non_null(memmem(of_l4, strcspn(of_l4, "\n") + 1, cost, strlen(cost)));
    assert_null(memmem(of_h200, strcspn(of_h200, "\n") + 1, cost, strlen(cost))); /* it has no price */
    /* The comparison comes last, and once: of all folds. */
    const char *cheapest = strstr(output, "[Price] cheapest that fits: l4, ");
    assert_true(cheapest > of_h200 && !strstr(cheapest, "[Folds]") && strstr(cheapest, "[Price] break-even: "));
    size_t length = strcspn(strstr(of_l4, "folds: ") + 7, "\n"), lead = strlen("[Price] cheapest that fits: l4, ");
    assert_memory_equal(cheapest + lead, strstr(of_l4, "folds: ") + 7, length);
    must("--dry-run --amp");
    assert_contains(output, "parameters in 35 tensors");
}

TEST(the_guide_s_constants_are_understood) {
    char *run = kept_folder(), *config = kept_path(run, "constants.yaml");
    write_text(config, "BATCH_SIZE: 32\nNUM_WORKERS: 8\nLR: 1.0e-4\nQUICK_TEST: True\n");
    must("--estimate --calibration none --gpu l4 --config %s", config);
    assert_contains(output, "BATCH_SIZE sets --batch-size to 32, NUM_WORKERS sets --num-workers to 8, LR sets "
                            "--learning-rate to 1.0e-4, QUICK_TEST sets --protocol to split");
    assert_contains(output, "micro-batches of 32 sequences");
}

int main(void) {
    data = cv_make_cells(96, &toy_cells);
    return tests_run(NULL, NULL);
}
