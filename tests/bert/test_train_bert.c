/* Runs train_bert as a user does, on a small data set: the reference's parameters, learning rates and weights; the same
 * bits with any number of threads and workers and after signals and kills; what is frozen or left out; folds and seeds;
 * masked words; and a clear message for bad options. */
#include "report/table.h"
#include "tests/bert/train_rig.h"
#include "tests/documented.h"
#include "tests/page_rig.h"

#include "base/file.h"

/* Returns a number at a path of keys in a JSON file of a run; NaN: null. */
static double number_in(const char *run, const char *name, const char *key) {
    char *path = keep(path_through(run, name));
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *value = json_object_get(root, key);
    if (!value) fail_msg("%s: there is no %s", path, key);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(root);
    return number;
}

/* ---- the model and its rates ---- */

TEST(the_model_is_phobert) {
    must_run("%s --dry-run --device cpu -b 1 --compact-vocabulary=false", fixture.program);
    assert_contains(fixture.output, "134999810 parameters in 201 tensors");
    must_run("%s pretrain --dry-run --device cpu -b 1", fixture.program);
    assert_contains(fixture.output, " parameters in 202 tensors"); /* dense, norm and bias instead of two layers */
}

/* Returns the FLOPs of a step without data. */
static double flops_of(const char *options) {
    char *folder = kept_folder(), *path = kept_path(folder, "estimate.json");
    must_run("%s %s --estimate --json --calibration none --gpu t4 >%s", fixture.program, options, path);
    json_t *root = json_load_file(path, 0, NULL);
    double flops = json_number_value(json_object_get(json_object_get(root, "step"), "flops"));
    assert_true(flops > 0);
    json_decref(root);
    return flops;
}

/* The head computes a row for each masked piece: 2 C (C + V) FLOPs forward, twice as many backward. A step has 32 texts
 * of 523 tokens in all, begin and end included; the number of masked pieces of a text is rounded. */
TEST(an_estimate_of_pretraining_heeds_the_share) {
    double few = flops_of("pretrain --layers 1 --mask-share 0.15"),
           many = flops_of("pretrain --layers 1 --mask-share 0.3");
    double tokens = 523 - 64, head = 6 * 768.0 * (768 + 64001);
    assert_near(many - few, 0.15 * tokens * head, 0.1 * 0.15 * tokens * head);
}

/* Update k of S has lr (S - k) / S; the values of the specification have 11 digits, of which the log keeps 9. */
TEST(learning_rates_are_the_reference_s) {
    static const struct {
        int steps;
        double second;
    } runs[] = {{2256, 1.9991134752e-05}, {502, 1.9960159363e-05}};
    for (int i = 0; i < 2; i++) {
        char *run = kept_folder();
        char *options = kept_format(
            "--learning-rate 2e-5 --epochs 1000 --max-steps %d --log-interval 1 --val-interval 900", runs[i].steps);
        double rates[64];
        int status = fixture_train_and_signal(run, options, 2, SIGTERM);
        assert_int_equal(status, 128 + SIGTERM);
        assert_true(logged(run, "train", "train/lr", rates, 64) >= 2);
        assert_near(rates[0], 2e-5, 1e-14);
        assert_near(rates[1], runs[i].second, 5e-14);
    }
}

/* ---- what changes in a step ---- */

typedef struct {
    TensorFile before, after; /* a step */
} Step;

/* Trains a step with these options at rate 0, which leaves the initial weights, and at rate 0.001. */
static Step one_step(const char *options) {
    const char *const rates[] = {"0", "1e-3"};
    TensorFile files[2];
    for (int i = 0; i < 2; i++) {
        char *run = kept_folder();
        assert_int_equal(
            fixture_train(run, "--max-steps 1 --weight-decay 0 --grad-clip 0 --learning-rate %s %s", rates[i], options),
            0);
        files[i] = open_in(run, "last/model.safetensors");
    }
    return (Step){files[0], files[1]};
}

static void step_close(Step *step) {
    tensor_file_close(&step->before);
    tensor_file_close(&step->after);
}

/* Returns the largest change of a tensor's numbers. */
static double largest_change(const Step *step, const char *name) {
    float *before = floats(&step->before, "", name), *after = floats(&step->after, "", name);
    int64_t n = find(&step->before, "", name)->count;
    double change = 0;
    for (int64_t i = 0; i < n; i++) change = fmax(change, fabs((double)after[i] - (double)before[i]));
    free(before);
    free(after);
    return change;
}

#define WORDS "roberta.embeddings.word_embeddings.weight"
static const char *const by_depth[] = {WORDS, "roberta.encoder.layer.0.output.dense.weight",
                                       "roberta.encoder.layer.1.output.dense.weight", "classifier.dense.weight"};

/* AdamW's first step changes a number by the rate, whatever its gradient, if that is far above epsilon. */
TEST(layer_decay_divides_the_rate) {
    Step step = one_step("--layer-decay 0.5");
    for (int i = 0; i < 4; i++) assert_near(largest_change(&step, by_depth[i]), 1e-3 / (double)(8 >> i), 2e-6);
    step_close(&step);
}

TEST(what_is_frozen_stays) {
    static const struct {
        const char *options;
        int frozen; /* of by_depth */
    } ways[] = {{"--freeze-embeddings", 1}, {"--frozen-layers 1", 2}, {"--frozen-layers 2", 3}};
    for (int w = 0; w < 3; w++) {
        Step step = one_step(ways[w].options);
        for (int i = 0; i < 4; i++) assert_true((largest_change(&step, by_depth[i]) > 5e-4) == (i >= ways[w].frozen));
        for (int i = 0; i < ways[w].frozen; i++) assert_true(largest_change(&step, by_depth[i]) == 0);
        assert_null(strstr(fixture.output, "tokens occur in the training texts; the others stay as they are"));
        step_close(&step);
    }
}

/* Without weight decay, rows that occur nowhere do not change either way, and all others get the same bits; with it,
 * the optimizer of a compact vocabulary leaves them alone. */
TEST(a_compact_vocabulary_changes_no_other_bit) {
    static const char *const ways[] = {"--weight-decay 0", "--weight-decay 0 --compact-vocabulary=false",
                                       "--weight-decay 0.5", "--weight-decay 0.5 --compact-vocabulary=false"};
    float *words[4], *dense[4];
    enum { WIDTH = 32, MASK = BERT_TEST_TOKENS - 1 };
    for (int i = 0; i < 4; i++) {
        char *run = kept_folder(), *options = kept_format("%s %s", bert_short_run, ways[i]);
        fixture_must_train(run, options);
        TensorFile file = open_in(run, "last/model.safetensors");
        words[i] = floats(&file, "", WORDS);
        dense[i] = floats(&file, "", "classifier.dense.weight");
        tensor_file_close(&file);
    }
    assert_memory_equal(words[0], words[1], sizeof(float) * BERT_TEST_TOKENS * WIDTH);
    assert_memory_equal(dense[0], dense[1], sizeof(float) * WIDTH * WIDTH);
    assert_memory_equal(words[2], words[3], sizeof(float) * WIDTH); /* <s> is in every text */
    assert_memory_equal(dense[2], dense[3], sizeof(float) * WIDTH * WIDTH);
    assert_memory_equal(words[2] + MASK * WIDTH, words[0] + MASK * WIDTH, sizeof(float) * WIDTH);
    assert_true(words[3][MASK * WIDTH] != words[2][MASK * WIDTH]);
    for (int i = 0; i < 4; i++) {
        free(words[i]);
        free(dense[i]);
    }
}

/* ---- a whole run ---- */

TEST(a_rule_is_learned) {
    char *run = kept_folder();
    fixture_must_train(run, "--epochs 30 --dropout 0 --head-dropout 0 --log-interval 10 --patience 0");
    assert_near(logged_last(run, "train", "train/accuracy"), 1, 1e-9);
    double f1 = number_in(run, "report_test.json", "f1_inv");
    if (!(f1 > 0.9)) fail_msg("F1 %g", f1);
    assert_true(number_in(run, "best/decision.json", "threshold") > 0);
}

/* scikit-learn's weights: rows / (classes * rows of the class). */
TEST(class_weights_are_balanced) {
    char *run = kept_folder();
    fixture_must_train(run, "--max-steps 1");
    assert_contains(fixture.output, "[Data] class weights: 0 0.7500, 1 1.5000"); /* 64 and 32 of 96 */
    run = kept_folder();
    fixture_must_train(run, "--max-steps 1 --class-weights 1,3.5");
    assert_contains(fixture.output, "[Data] class weights: 0 1.0000, 1 3.5000");
}

/* The scores of the only validation, which is the best one, follow from its predictions; its loss has the class
 * weights, 0.75 and 1.5, and no label smoothing. */
TEST(validation_scores_are_those_of_the_predictions) {
    static const double weights[] = {0.75, 1.5};
    char *run = kept_folder(), *path = kept_path(run, "predictions_validation.csv");
    fixture_must_train(run, "--max-steps 30 --epochs 3 --val-interval 30 --learning-rate 1e-3 --label-smoothing 0.2 "
                            "--metric accuracy --class-weights balanced");
    char *text = kept_text(path);
    double loss = 0, weight = 0, counts[2][2] = {{0}}, p[2];
    int truth, prediction, rows = 0;
    for (const char *at = text; (at = strchr(at, '\n')) && *++at; rows++) {
        assert_int_equal(sscanf(at, "%*d,%d,%d,%lf,%lf", &truth, &prediction, &p[0], &p[1]), 4);
        loss -= weights[truth] * log(p[truth]);
        weight += weights[truth];
        counts[truth][prediction]++;
    }
    assert_int_equal(rows, BERT_TEST_VALID);
    const double hits = counts[1][1], predicted = hits + counts[0][1], positive = hits + counts[1][0];
    assert_true(hits > 0);
    assert_near(logged_last(run, "val", "val/loss"), loss / weight, 1e-5);
    assert_near(logged_last(run, "val", "val/accuracy"), (counts[0][0] + hits) / rows, 1e-6);
    assert_near(logged_last(run, "val", "val/precision"), hits / predicted, 1e-6);
    assert_near(logged_last(run, "val", "val/recall"), hits / positive, 1e-6);
    assert_near(logged_last(run, "val", "val/f1"), 2 * hits / (predicted + positive), 1e-6);
    char *page = read_page(run);
    assert_page_has(page, (const char *[]){"Best val/accuracy ", NULL});
}

TEST(a_run_is_all_that_others_need) {
    const char *run = fixture_reference_run();
    static const char *const files[] = {"vocab.txt",
                                        "bpe.codes",
                                        "data_report.json",
                                        "best/decision.json",
                                        "report_test.json",
                                        "evaluation_validation.json",
                                        "evaluation_test.json",
                                        "threshold_test.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = keep(path_through(run, files[i]));
        if (access(path, R_OK)) fail_msg("%s is missing", path);
    }
    char *page = read_page(run);
    assert_page_has(page, (const char *[]){"Finished after all 12 steps. Best val/f1 ", "/train_bert --data ",
                                           "<title>macro_f1</title>", "<title>learning rate</title>", NULL});
}

TEST(what_is_written_is_documented) {
    char *run = kept_folder(), *dump = kept_path(run, "dump.safetensors"), *best = kept_path(run, "best"),
         *log = kept_path(run, "log.jsonl");
    static const char *const metrics[] = {"loss",      "accuracy", "macro_f1", "balanced_accuracy", "mcc", "f1",
                                          "precision", "recall",   NULL};
    assert_int_equal(fixture_train(run, "--max-steps 2 --log-interval 1 --val-interval 1 --debug-dump %s", dump), 0);
    TensorFile file = open_file(dump);
    assert_dumps_documented(&file, 1, "### Dump of train_bert");
    assert_checkpoint_documented(best);
    assert_log_documented(log, metrics);
    tensor_file_close(&file);
}

/* ---- the same bits ---- */

TEST(workers_threads_and_recomputing_change_no_bit) {
    fixture_check_same("--num-workers 1");
    fixture_check_same("--num-workers 8");
    fixture_check_same("--threads 1");
    fixture_check_same("--grad-checkpointing");
}

TEST(kills_and_resuming_change_no_bit) {
    static const char *const ways[] = {"", "--token-budget 60 -g 2", "--frozen-layers 1 --layer-decay 0.8"};
    for (int i = 0; i < 3; i++) fixture_check_restarts(ways[i]);
}

TEST(a_disk_without_links_and_locks_changes_no_bit) {
    fixture_check_poor_disk(kept_format("predict %s/test.csv -o - --checkpoint", fixture.data));
}

/* ---- folds and seeds ---- */

/* Returns a column of a table of results, by row names; free(). */
static double column(const char *path, const char *row, const char *name) {
    json_t *root = json_load_file(path, 0, NULL), *line;
    double value = NAN;
    size_t i;
    json_array_foreach(json_object_get(root, "results"), i,
                       line) if (!strcmp(json_string_value(json_object_get(line, "training")), row)) value =
        json_number_value(json_object_get(line, name));
    json_decref(root);
    return value;
}

static int rows_of_csv(const char *run, const char *name) {
    char *path = kept_path(run, name), *text = kept_text(path);
    int rows = -1;
    for (const char *at = text; *at; at++) rows += *at == '\n';
    return rows;
}

/* Returns how many rows of a fold's table name FOLDER/NAME as their file. */
static int rows_from(const char *fold, const char *name) {
    char *path = kept_path(fold, "predictions_test.csv"), *text = kept_text(path),
         *begin = kept_format("\n%s/%s,", fixture.data, name);
    int rows = 0;
    for (const char *at = text; (at = strstr(at, begin)); at++) rows++;
    return rows;
}

/* Fails unless each wrong prediction has the text and the label of the line of the file that it names. */
static void assert_lines_are_found(const char *fold) {
    must_run("sed 1d %s/wrong_test.csv | while IFS=, read -r file line truth rest; do "
             "test \"$(sed -n \"${line}p\" \"$file\")\" = \"${rest##*,},$truth\" || exit 1; done",
             fold);
}

/* Fails unless the table has the scores of a fold's own report, which are those at its threshold. */
static void assert_scores_are_of(const char *fold, const char *table, const char *name) {
    static const char *const keys[][2] = {
        {"threshold", "threshold"}, {"accuracy", "accuracy"}, {"f1_inv", "f1_1"}, {"recall_inv", "recall_1"}};
    json_t *report = json_load_file(kept_path(fold, "report_test.json"), 0, NULL);
    assert_non_null(report);
    for (int k = 0; k < 4; k++)
        assert_near(column(table, name, keys[k][1]), json_number_value(json_object_get(report, keys[k][0])), 1e-12);
    json_decref(report);
}

/* Each training or validation text is tested on in one fold; the test file is not used. */
TEST(folds_test_every_text_once) {
    char *run = kept_folder(), *table = kept_path(run, "folds_results.json");
    static const char *const names[] = {"fold_1", "fold_2", "fold_3"};
    double mean = 0, squares = 0;
    int rows = 0, of_train = 0, of_valid = 0;
    fixture_must_train(run, "--folds 3 --epochs 2");
    assert_contains(fixture.output, "test.csv is not used: with --folds each fold is tested in turn");
    assert_contains(fixture.output, "training 3 of 3");
    for (int k = 0; k < 3; k++) {
        char *fold = kept_path(run, names[k]);
        rows += rows_of_csv(fold, "predictions_test.csv");
        of_train += rows_from(fold, "train.csv");
        of_valid += rows_from(fold, "valid.csv");
        assert_true(rows_of_csv(fold, "wrong_test.csv") > 0);
        assert_lines_are_found(fold);
        assert_scores_are_of(fold, table, names[k]);
        double accuracy = column(table, names[k], "accuracy");
        mean += accuracy / 3;
        squares += accuracy * accuracy;
    }
    assert_int_equal(rows, BERT_TEST_TRAIN + BERT_TEST_VALID);
    assert_int_equal(of_train, BERT_TEST_TRAIN);
    assert_int_equal(of_valid, BERT_TEST_VALID);
    assert_near(column(table, "MEAN", "accuracy"), mean, 1e-9);
    assert_near(column(table, "STD", "accuracy"), sqrt(fmax(squares - 3 * mean * mean, 0) / 2), 1e-6);
}

/* Another seed is another training on the same splits; each is the one that the seed alone gives. */
TEST(seeds_are_trainings_of_their_own) {
    char *run = kept_folder(), *alone = kept_folder(), *second = kept_path(run, "seed_43"),
         *first = kept_path(run, "seed_42"), *table = kept_path(run, "seeds_results.json");
    fixture_must_train(run, "--seeds 2 --epochs 2");
    assert_true(!isnan(column(table, "seed_42", "macro_f1")) && !isnan(column(table, "seed_43", "macro_f1")));
    fixture_must_train(alone, "--seed 43 --epochs 2");
    assert_same_result(second, alone);
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output,
                                     "cmp %s/last/model.safetensors "
                                     "%s/last/model.safetensors",
                                     first, second),
                         0);
}

/* A stopped run of several trainings goes on with the one that was stopped. */
TEST(several_trainings_resume) {
    char *run = kept_folder(), *whole = kept_folder(), *fold = kept_path(run, "fold_2");
    const char *options = "--folds 3 --epochs 2 --log-interval 1 --resume auto";
    fixture_must_train(whole, options);
    make_directories(fold);
    pid_t child = fixture_start(run, options);
    wait_for_step(fold, child, 2);
    kill(child, SIGTERM);
    waitpid(child, NULL, 0);
    fixture_must_train(run, options);
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output, "cmp %s/folds_results.csv %s/folds_results.csv", run, whole),
        0);
}

/* ---- masked words ---- */

TEST(masked_words_are_learned) {
    char *run = kept_folder(), *next = kept_folder(), *data = fixture.data;
    const char *program = fixture.program;
    fixture.program = kept_format("%s pretrain", program);
    fixture_must_train(run, "--epochs 40 --split-shares 80,20,0 --log-interval 1 --save-interval 20");
    double losses[1024] = {0}, held[64] = {0};
    int n = logged(run, "train", "train/loss", losses, 1024);
    assert_near(losses[0], log(BERT_TEST_TOKENS), 0.2); /* small logits: all tokens alike */
    assert_true(n > 100 && losses[n - 1] < losses[0] - 0.5);
    /* The same pieces are masked in every validation: at rate 0 nothing changes. Long texts are not cut. */
    char *still = kept_folder();
    fixture_must_train(still, "--epochs 3 --learning-rate 0 --whole-words --max-len 5");
    assert_contains(fixture.output, "longer than the maximum length: ");
    assert_null(strstr(fixture.output, "cut to the maximum length: "));
    n = logged(still, "val", "val/loss", held, 64);
    assert_int_equal(n, 3);
    assert_true(held[0] == held[1] && held[1] == held[2]);
    fixture.program = program;
    assert_int_equal(fixture_train(next, "--max-steps 1 --base-checkpoint %s/best", run), 0);
    assert_contains(fixture.output, "tensors loaded");
    fixture.data = data;
}

/* ---- a base of other programs ---- */

/* The base has clean, rude and hate in this order, and the texts alone would have them in the order of their bytes. */
TEST(a_base_of_the_same_classes_gives_their_order) {
    static const char *const labels[] = {"clean", "rude", "rude", "hate", "hate", "hate"};
    char *folder = kept_folder(), *path = kept_path(folder, "texts.csv");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "text,label\n");
    for (int i = 0; i < 60; i++) fprintf(file, "xin %d tôi,%s\n", i, labels[i % 6]);
    assert_int_equal(fclose(file), 0);
    must_run("cp -r tests/reference/golden/bert_hf %s/base && sed -i 's/\"hate.*\"/\"hate\"/' %s/base/config.json",
             folder, folder);
    char *command = kept_format("%s --data %s --base-checkpoint %s/base --max-len 12 --max-steps 1 --threads 1 -b 8 "
                                "--max-unknown 1",
                                program_at("train_bert"), path, folder);
    must_run("%s -o %s/run", command, folder);
    assert_contains(fixture.output, "the classes are in the order that they have in ");
    assert_contains(fixture.output, "/base: clean, rude, hate\n");
    assert_contains(fixture.output, "clean: 8 (16.7 %)  rude: 16 (33.3 %)  hate: 24 (50.0 %)\n");
    assert_null(strstr(fixture.output, "begins with the weights of the one in its place"));
    must_run("%s -o %s/given --labels rude,clean,hate", command, folder);
    assert_contains(fixture.output, "rude: 16 (33.3 %)  clean: 8 (16.7 %)  hate: 24 (50.0 %)\n");
    assert_contains(fixture.output, "each begins with the weights of the one in its place");
}

TEST(added_tokens_go_with_the_run) {
    char *tokenizer = bert_make_tokenizer(), *added = kept_path(tokenizer, "added_tokens.json"), *run = kept_folder(),
         *options = kept_format("--max-steps 1 --tokenizer %s", tokenizer);
    write_text(added, "{\"<emoji>\": %d}", BERT_TEST_TOKENS);
    fixture_must_train(run, options);
    must_run("cmp %s %s/added_tokens.json", added, run);
    must_run("%s predict --checkpoint %s %s/test.csv -o %s/p.csv", fixture.program, run, fixture.data, run);
    must_run("rm %s/added_tokens.json", run);
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "%s predict --checkpoint %s %s/test.csv -o %s/p.csv", fixture.program, run,
                                 fixture.data, run),
                     1);
    assert_contains(fixture.output, "is not the tokenizer that ");
}

/* ---- what is refused ---- */

TEST(options_that_contradict_each_other_are_refused) {
    static const Refusal bad[] = {
        {2, "--d-model 40", "--d-model 40 is no multiple of 16"},
        {2, "--heads 5", "--d-model 32 is no multiple of --heads 5"},
        {2, "--frozen-layers 3", "--frozen-layers 3: the model has 2 layers"},
        {2, "--warmup-steps 2 --warmup-ratio 0.1", "both say how long the warm-up is"},
        {2, "--folds 2", "--folds 2: at least 3 are needed"},
        {2, "--folds 3 --split-shares 90,5,5", "--folds chooses what is trained on"},
        {2, "--split-shares 90,20,5", "--split-shares 90,20,5: expected three percentages that add up to 100"},
        {2, "--class-weights 1,2,3", "--class-weights: expected balanced, none or 2 numbers above 0, found 1,2,3"},
        {2, "--class-weights 1,1e39", "none or 2 numbers above 0, found 1,1e39"}, /* infinite as a float */
        {2, "--max-len 300 --positions 258", "it reads at most 256 tokens"},
        {2, "--vocabulary 20", "--vocabulary 20: the tokenizer has 29 ids"},
        {2, "--seeds 2 --resume /tmp", "--resume /tmp: of several trainings each has a folder of its own"},
        {2, "--folds 3 --debug-dump dump", "--debug-dump writes a single training"},
        {2, "--rows 20", "--rows and --row-tokens are of synthetic texts"},
        {1, "--labels 0,2", "train.csv:3: the label \"1\" is none of the 2 classes: 0, 2"},
        {1, "--labels 0", "--labels 0: expected 2 to 1000 names, separated by commas, found 1"},
        {1, "--text-column comment", "train.csv:1: there is no column \"comment\"; the columns are: text, label"},
        {1, "--valid /nowhere.csv", "/nowhere.csv"},
    };
    char *run = kept_folder(), *single = kept_path(fixture.data, "train.csv");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(fixture_train(run, "%s", bad[i].options), &bad[i]);
    assert_int_equal(fixture_train_on(single, run, "--seeds 2 --split-shares 100,0,0"), 2);
    assert_contains(fixture.output, "--seeds 2: there are no validation texts");
    assert_int_equal(fixture_train_on(single, run, "--max-steps 1 --split-shares 100,0,0"), 0);
    assert_contains(fixture.output, "[Data] nothing is held out");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s -o %s", fixture.program, run), 2);
    assert_contains(fixture.output, "no data: give --data DIR");
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output, "%s --data %s -o %s", fixture.program, fixture.data, run),
        2);
    assert_contains(fixture.output, "no tokenizer: give --tokenizer");
}

TEST(another_run_is_refused_on_resume) {
    static const char *const changed[] = {"--max-len 20",
                                          "--class-weights none",
                                          "--label-smoothing 0.1",
                                          "--metric accuracy",
                                          "--layer-decay 0.9",
                                          "--frozen-layers 1",
                                          "--heads 2",
                                          "--seed 9",
                                          "--compat"};
    char *run = kept_folder(), *other = bert_make_tokenizer(), *vocabulary = kept_path(other, "vocab.txt");
    fixture_must_train(run, "--max-steps 2 --save-interval 2");
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        assert_int_equal(fixture_train(run, "--max-steps 4 --resume auto %s", changed[i]), 2);
        assert_contains(fixture.output, "so it would be another run");
    }
    char *text = kept_text(vocabulary), *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    write_text(vocabulary, "%.*s%.*s%s", (int)(third - second), second, (int)(second - text), text, third);
    assert_int_equal(fixture_train(run, "--max-steps 4 --resume auto --tokenizer %s", other), 1);
    assert_contains(fixture.output, "tokenizer_hash was ");
    assert_int_equal(fixture_train(run, "--max-steps 4 --resume auto"), 0);
}

/* ---- configurations ---- */

TEST(the_guide_s_names_are_understood) {
    char *run = kept_folder(), *config = kept_path(run, "config.yaml");
    write_text(config, "BATCH_TRAIN: 4\nBATCH_EVAL: 32\nGRAD_ACCUM: 2\nMAX_LENGTH: 20\nEPOCHS: 2\nLR: 1.0e-3\nSEED: 7\n"
                       "USE_GRADIENT_CHECKPOINTING: True\nUSE_TORCH_COMPILE: False\nmetric_for_best_model: f1_inv\n"
                       "optim: adamw_torch_fused\n");
    must_run("%s --data %s %s -o %s/out --config %s -b 4 --max-len 20 --learning-rate 1e-3", fixture.program,
             fixture.data, fixture.options, run, config);
    assert_contains(fixture.output, "effective batch 4 x 2 = 8; 96 samples, 24 micro-batches an epoch, 24 steps");
}

TEST(arguments_of_a_trainer_are_mapped_true_or_refused) {
    char *run = kept_folder(), *config = kept_path(run, "trainer.yaml");
    write_text(config, "%s",
               "num_train_epochs: 2.0\nmax_steps: -1\nper_device_train_batch_size: 16\neval_strategy: epoch\n"
               "save_strategy: epoch\nload_best_model_at_end: true\nmetric_for_best_model: eval_f1\nfp16: false\n"
               "bf16: True\nreport_to: none\nlogging_dir: logs\noptim: adamw_torch\nadam_epsilon: 1.0e-08\n"
               "deepspeed: null\nfsdp: ''\nlabel_smoothing_factor: 0.1\ndata_seed: null\n");
    must_run("%s --estimate --calibration none --gpu t4 --rows 320 --config %s", fixture.program, config);
    assert_contains(fixture.output, "num_train_epochs sets --epochs to 2.0, per_device_train_batch_size sets "
                                    "--batch-size to 16, eval_strategy sets --val-interval to 0, save_strategy is not "
                                    "needed, load_best_model_at_end is not needed, metric_for_best_model sets --metric "
                                    "to f1, fp16 is not needed, bf16 sets --amp to true, ");
    assert_contains(fixture.output, "[Time] 40 steps"); /* 2 epochs of 20 micro-batches */
    write_text(config, "%s", "optim: adafactor\ndeepspeed: ds.json\neval_strategy: never\nnum_epochs: 3\n");
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output, "%s --estimate --config %s", fixture.program, config), 2);
    assert_contains(fixture.output, ":1: optim: expected adamw_torch, adamw_torch_fused, adamw_hf, adamw_apex_fused, "
                                    "adamw, found 'adafactor'; AdamW is what there is\n");
    assert_contains(fixture.output, ":2: deepspeed: is not supported: one GPU computes, which needs none of this\n");
    assert_contains(fixture.output, ":3: eval_strategy: expected epoch, steps, found 'never'; it sets val-interval\n");
    assert_contains(fixture.output, ":4: unknown key 'num_epochs'");
}

/* The guide's 24,048 comments of 16 tokens, 3 epochs: with validations and checkpoints under 2 minutes on a T4. */
TEST(the_presets_fit_and_take_less_than_two_minutes) {
    static const char *const cards[] = {"t4", "l4"};
    for (int i = 0; i < 2; i++) {
        char *text = kept_folder(), *path = kept_path(text, "estimate.json");
        must_run("%s --estimate --json --calibration none --config configs/phobert_%s.yaml --gpu %s >%s",
                 fixture.program, cards[i], cards[i], path);
        json_t *root = json_load_file(path, 0, NULL), *card = json_array_get(json_object_get(root, "gpus"), 0);
        assert_int_equal(json_integer_value(json_object_get(root, "steps")), 2256);
        assert_true(json_is_true(json_object_get(card, "fits")));
        double seconds = json_number_value(json_object_get(card, "seconds"));
        if (!(seconds > 0 && seconds < 120)) fail_msg("%s: %g s", cards[i], seconds);
        json_decref(root);
    }
}

int main(void) { return tests_run(bert_fixture_open, NULL); }
