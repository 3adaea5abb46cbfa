/* train_psd run: pretrain, finetune, evaluate and calibrate, one after the other; once, or once for every sensor. It
 * writes and prints the command line of every stage, so that each can be repeated by hand. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_name.h"
#include "base/program.h"
#include "base/stop.h"
#include "checkpoint/folder.h"
#include "checkpoint/state.h"
#include "commands/next.h"
#include "commands/psd/psd.h"
#include "data/psd/split_index.h"
#include "page/page.h"

/* A run, and the results of the folds that are done. */
typedef struct {
    PsdOptions *o;
    PsdStage *stage;
    FoldResult *folds;
    Evaluation *results; /* one per fold */
    int n_folds;
    int number; /* of the directory, among those of all sensors */
    Trainings all;
    char *models; /* " --checkpoint results/finetune", of each directory that is done */
} Runner;

/* The working data of the stages in one directory. */
typedef struct {
    const char *directory, *split, *sensor; /* sensor: NULL if the split file is not by sensor */
    const char *label;                      /* "sensor 2 of 6, "; "" if there is one directory */
} Place;

/* ---- command lines ---- */

/* The command line of a stage, as it is being written. */
typedef struct {
    PsdCommand command;
    char *text[64];
    int n;
} Line;

/* Adds an option. Name and value are one word, so that a value may begin with '-'. */
static void add(Line *line, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
static void add(Line *line, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *value = vxformat(format, arguments);
    va_end(arguments);
    if (line->n == 64) die("run: too many options");
    line->text[line->n++] = xformat("%s=%s", name, value);
}

static bool given(const PsdOptions *o, const char *name) { return options_given(&o->set, name); }

/* Begins the command line of a stage with the options that all stages share. What is not given is left to the stage's
 * own configuration. */
static Line line_begin(const PsdOptions *o, PsdCommand command, const char *split, const char *sensor) {
    Line line = {command, {xstrdup("train_psd"), xstrdup(PSD_COMMAND_NAMES[command])}, 2};
    bool trains = command == PSD_PRETRAIN || command == PSD_FINETUNE;
    add(&line, "--manifest", "%s", o->train.manifest.text[0]);
    add(&line, "--split", "%s", split);
    if (sensor) add(&line, "--sensor", "%s", sensor);
    if (o->data.shots) add(&line, "--shots", "%lld", (long long)o->data.shots);
    if (trains && given(o, "size")) add(&line, "--size", "%s", o->model.size);
    if (trains && given(o, "encoder")) add(&line, "--encoder", "%s", o->model.encoder);
    if (trains && (given(o, "seed") || o->data.shots)) add(&line, "--seed", "%lld", (long long)o->train.seed);
    if (trains && given(o, "batch-size")) add(&line, "--batch-size", "%lld", (long long)o->train.batch_size);
    if (trains && given(o, "learning-rate")) add(&line, "--learning-rate", "%.17g", o->train.learning_rate);
    if (trains) add(&line, "--resume", "auto");
    if (trains && given(o, "hop")) add(&line, "--hop", "%s", o->data.hop ? "true" : "false");
    if (trains && given(o, "limit")) add(&line, "--limit", "%.17g", o->data.limit);
    const bool steps = trains && !o->data.shots; /* few shots have steps of their own */
    if (steps && given(o, "grad-accumulation"))
        add(&line, "--grad-accumulation", "%lld", (long long)o->train.grad_accumulation);
    if (steps && given(o, "val-batch-size")) add(&line, "--val-batch-size", "%lld", (long long)o->train.val_batch_size);
    if (trains && o->train.grad_checkpointing) add(&line, "--grad-checkpointing", "true");
    if (trains && o->train.price_text) add(&line, "--price", "%s", o->train.price_text);
    if (trains && o->train.prices_file) add(&line, "--prices", "%s", o->train.prices_file);
    if (strcmp(o->train.device, "auto")) add(&line, "--device", "%s", o->train.device);
    if (o->train.threads) add(&line, "--threads", "%lld", (long long)o->train.threads);
    if (o->train.amp) add(&line, "--amp", "true");
    if (o->train.no_tf32) add(&line, "--no-tf32", "true");
    return line;
}

static void line_free(Line *line) {
    for (int i = 0; i < line->n; i++) free(line->text[i]);
}

/* Returns whether this process carries out a stage of the present directory, of which others may do some. */
static bool is_mine(const Runner *r, PsdCommand stage) {
    return stage == PSD_PRETRAIN || stage == PSD_FINETUNE ? trainings_train(&r->all, r->number)
                                                          : trainings_test(&r->all);
}

static void print_line(const Line *line) {
    printf("\n[Run]");
    for (int i = 0; i < line->n; i++) {
        OWNED char *word = shell_word(line->text[i]);
        printf(" %s", word);
    }
    printf("\n");
}

/* Prints the command line, carries it out and frees it; only frees it if the stage is another process's. Ends the
 * program if the stage fails; only a calibration may fail. Returns false if the run stops: a signal asks for it, or
 * what other ranks do side by side goes on without this one. */
static bool carry_out(Runner *r, Line *line, Evaluation *result) {
    int status = 0;
    r->stage->result = result;
    if (is_mine(r, line->command)) {
        print_line(line);
        status = r->stage->carry_out(line->n - 1, line->text + 1, r->stage);
    }
    if (line->command == PSD_CALIBRATE) status = 0;
    line_free(line);
    if (status) trainings_fail(&r->all, status);
    return !status && !stop_signal();
}

/* ---- one directory: pretrain/, finetune/, the evaluation, calibration/ ---- */

/* Returns the best checkpoint of a training, or its last one if nothing was validated. free() */
static char *best_checkpoint(const char *directory, const char *training) {
    OWNED char *run = path_join(directory, training);
    char *best;
    MUST_OR(checkpoint_best(run, &best, &error),
            "%s. If the newest checkpoint is whole, train_psd %s -o %s --resume auto with its other options continues "
            "without the best one; or remove %s to train again",
            error.text, training, run, run);
    return best ? best : path_join(run, LAST_LINK);
}

/* Says so if the weights are the last ones instead of the best. */
static void print_weights(const Place *at, const char *training) {
    OWNED char *weights = best_checkpoint(at->directory, training),
               *last = xformat("%s/%s/" LAST_LINK, at->directory, training);
    if (!strcmp(weights, last)) printf("[Run] %s: nothing was validated, so the last weights are taken\n", weights);
}

static Line stage_line(const PsdOptions *o, const Place *at, PsdCommand stage) {
    bool pretrain = stage == PSD_PRETRAIN, finetune = stage == PSD_FINETUNE;
    Line line = line_begin(o, stage, at->split, at->sensor);
    const char *config = pretrain ? o->all.pretrain_config : finetune ? o->all.finetune_config : NULL;
    int64_t epochs = pretrain ? o->all.pretrain_epochs : finetune ? o->all.finetune_epochs : 0;
    OWNED char *within = path_join(at->directory, stage == PSD_CALIBRATE ? "calibration" : PSD_COMMAND_NAMES[stage]);
    const char *output = stage == PSD_EVALUATE ? at->directory : within;
    OWNED char *encoder = best_checkpoint(at->directory, "pretrain");
    OWNED char *classifier = best_checkpoint(at->directory, "finetune");
    if (config) add(&line, "--config", "%s", config);
    if (epochs) add(&line, "--epochs", "%lld", (long long)epochs);
    if (finetune && !o->all.scratch) add(&line, "--pretrained", "%s", encoder);
    if (stage == PSD_EVALUATE || stage == PSD_CALIBRATE) add(&line, "--checkpoint", "%s", classifier);
    add(&line, "--output-dir", "%s", output);
    return line;
}

/* Returns how many rows one split of a split file has. */
static int64_t count_rows(const PsdOptions *o, const Place *at, int shots, int split) {
    PsdOptions with = *o;
    with.data.split = at->split;
    with.data.sensor = at->sensor;
    with.data.shots = shots;
    PsdData data = psd_data_open(&with);
    int64_t n = data.partition.splits[split].n;
    psd_data_close(&data);
    return n;
}

static bool is_wanted(const PsdOptions *o, const Place *at, PsdCommand stage) {
    if (stage == PSD_PRETRAIN) return !o->all.scratch;
    return stage != PSD_CALIBRATE || count_rows(o, at, 0, PSD_VAL);
}

/* Checks the options and the data of the trainings, so that an error in a later one shows before the first one runs. */
static void check_stages(const Runner *r, const Place *at) {
    for (PsdCommand stage = PSD_PRETRAIN; stage <= PSD_FINETUNE; stage++) {
        if (!is_wanted(r->o, at, stage)) continue;
        Line line = stage_line(r->o, at, stage);
        r->stage->carry_out(line.n - 1, line.text + 1, &(PsdStage){.check = true});
        line_free(&line);
    }
}

static uint64_t weights_sum(const char *weights) {
    TensorFile file;
    MUST_OR(checkpoint_open_base(weights, &file, &error), "%s: %s", weights, error.text);
    uint64_t sum = checkpoint_base_sum(&file);
    tensor_file_close(&file);
    return sum;
}

/* Dies if the training in this directory began from weights other than these (NULL: from scratch). Compares the weights
 * and not their path, because a directory may be moved. */
static void check_beginning(const char *directory, const char *weights) {
    OWNED char *newest = checkpoint_resolve(directory, "auto");
    TrainState state;
    if (!newest) return;
    MUST_OR(state_read(newest, &state, &error), "%s: %s", newest, error.text);
    if (state.base_sum != (weights ? weights_sum(weights) : 0))
        die("%s did not begin from %s: remove it to train the classifier again, or give another --output-dir",
            directory, weights ? weights : "scratch");
    free(state.options_json);
}

static void check_encoder(const PsdOptions *o, const Place *at) {
    OWNED char *directory = path_join(at->directory, "finetune");
    OWNED char *encoder = o->all.scratch ? NULL : best_checkpoint(at->directory, "pretrain");
    check_beginning(directory, encoder);
}

/* Keeps the classifier of a directory for the line "Next: ". */
static void add_model(Runner *r, const Place *at) {
    OWNED char *run = path_join(at->directory, PSD_COMMAND_NAMES[PSD_FINETUNE]), *word = shell_path(run);
    xappend(&r->models, " --checkpoint %s", word);
}

/* Carries out all stages of a directory. Returns false if a signal stopped the run. */
static bool run_stages(Runner *r, const Place *at, Evaluation *result) {
    const PsdOptions *o = r->o;
    bool go_on = true, wanted[PSD_CALIBRATE + 1];
    int n = 0, k = 0;
    for (PsdCommand stage = PSD_PRETRAIN; stage <= PSD_CALIBRATE; stage++) n += wanted[stage] = is_wanted(o, at, stage);
    for (PsdCommand stage = PSD_PRETRAIN; stage <= PSD_CALIBRATE && go_on; stage++) {
        k += wanted[stage];
        if (!is_mine(r, stage)) continue;
        if (!wanted[stage]) {
            if (stage == PSD_CALIBRATE) printf("[Run] no rows to validate on: nothing to calibrate with\n");
            continue;
        }
        if (stage == PSD_FINETUNE) check_encoder(o, at);
        if (stage == PSD_FINETUNE && !o->all.scratch) print_weights(at, PSD_COMMAND_NAMES[PSD_PRETRAIN]);
        if (stage == PSD_EVALUATE) print_weights(at, PSD_COMMAND_NAMES[PSD_FINETUNE]);
        Line line = stage_line(o, at, stage);
        trainings_name(&r->all, 0, "%sstage %d of %d", at->label, k, n);
        go_on = carry_out(r, &line, stage == PSD_EVALUATE ? result : NULL);
    }
    if (go_on && trainings_test(&r->all)) add_model(r, at);
    return go_on;
}

static void add_result(Runner *r, const char *sensor, int shots, int64_t seed) {
    r->folds[r->n_folds] = (FoldResult){sensor, shots, seed, &r->results[r->n_folds]};
    r->n_folds++;
}

/* ---- few shots ---- */

/* Draws the shots with this seed and writes them to a split file, unless the file exists. Returns its path; free() */
static char *draw_shots(const PsdOptions *o, int64_t seed) {
    OWNED char *directory = path_join(o->train.output_dir, "splits");
    char *path = xformat("%s/fewshot_loso_seed%lld.json", directory, (long long)seed);
    make_directories(directory);
    directory_remove_leftovers(directory);
    if (!access(path, F_OK)) return path;
    PsdOptions with = *o;
    PsdData data = psd_data_open(&with);
    const PsdStore *s = &data.store;
    size_t n = (size_t)s->n_rows;
    OWNED int32_t *labels = xmalloc((n + 1) * sizeof *labels), *sensors = xcalloc(n + 1, sizeof *sensors),
                  *files = xcalloc(n + 1, sizeof *files);
    for (size_t i = 0; i < n; i++) labels[i] = -1; /* a row without a sample is in no split */
    for (int64_t i = 0; i < s->n; i++) {
        labels[s->rows[i]] = s->labels[i];
        sensors[s->rows[i]] = s->sensors[i];
        files[s->rows[i]] = s->files[i];
    }
    PsdRows rows = {s->n_rows, PSD_CLASSES, labels, sensors, files, s->sensor_names};
    PsdPartitions partitions;
    MUST_OR(psd_partition_few_shot(&rows, (uint32_t)seed, PSD_SHOT_COUNTS, PSD_SHOTS, 0, &partitions, &error) &&
                psd_partitions_write(path, &rows, &partitions, PSD_SHOT_COUNTS, &error) &&
                psd_split_index_set(path, s->manifest_hash, &error),
            "a draw of shots: %s", error.text);
    psd_partitions_free(&partitions);
    psd_data_close(&data);
    return path;
}

/* Tunes the sensor's classifier on PSD_SHOT_COUNTS[k] rows per class and evaluates it, with the settings that the
 * reference's evaluation had planned: 30 epochs, batches of 64, learning rate 1e-4. */
static bool run_shot(Runner *r, const Place *at, int k, int64_t repeat) {
    PsdOptions with = *r->o;
    with.data.sensor = at->sensor;
    with.data.shots = PSD_SHOT_COUNTS[k];
    with.train.seed += repeat;
    OWNED char *to = xformat("%s/shots_%d_seed_%lld", at->directory, PSD_SHOT_COUNTS[k], (long long)with.train.seed);
    OWNED char *from = best_checkpoint(at->directory, "finetune"), *last = path_join(to, LAST_LINK);
    OWNED char *split = repeat ? draw_shots(&with, with.train.seed) : xstrdup(with.data.split);
    Line tune = line_begin(&with, PSD_FINETUNE, split, at->sensor);
    Line evaluate = line_begin(&with, PSD_EVALUATE, split, at->sensor);
    add(&tune, "--output-dir", "%s", to);
    add(&tune, "--pretrained", "%s", from);
    add(&tune, "--epochs", "%d", 30);
    add(&tune, "--learning-rate", "%s", "1e-4");
    add(&tune, "--batch-size", "%d", 64);
    add(&tune, "--encoder-lr-scale", "%d", 1);
    add(&evaluate, "--checkpoint", "%s", last);
    add(&evaluate, "--output-dir", "%s", to);
    check_beginning(to, from);
    trainings_name(&r->all, 0, "%s%d shots, draw %lld of %lld", at->label, PSD_SHOT_COUNTS[k], (long long)repeat + 1,
                   (long long)with.all.repeats);
    bool go_on = carry_out(r, &tune, NULL);
    if (go_on)
        go_on = carry_out(r, &evaluate, &r->results[r->n_folds]);
    else
        line_free(&evaluate);
    add_result(r, at->sensor, PSD_SHOT_COUNTS[k], with.train.seed);
    return go_on;
}

/* Tunes the classifier of a directory on a few rows per class of the sensor that it has not seen: first with the rows
 * of the split file, then with other draws. */
static bool run_few_shots(Runner *r, const Place *at) {
    const PsdOptions *o = r->o;
    const Place shots = {at->directory, o->data.split, at->sensor, at->label};
    bool go_on = true;
    for (int k = 0; k < PSD_SHOTS && go_on; k++) {
        if (!count_rows(o, &shots, PSD_SHOT_COUNTS[k], PSD_TEST)) {
            printf("[Run] %s: %d rows per class leave none to test on: left out\n", at->sensor, PSD_SHOT_COUNTS[k]);
            continue;
        }
        for (int64_t repeat = 0; repeat < o->all.repeats && go_on; repeat++) go_on = run_shot(r, at, k, repeat);
    }
    return go_on;
}

/* ---- every sensor ---- */

typedef struct {
    char **names;
    int n, chosen;
} Sensors;

static Sensors sensors_open(const PsdOptions *o, const char *split) {
    Sensors s;
    if (!split) die_usage("--protocol fewshot_loso also needs --loso-split, the split file by sensor");
    MUST(psd_partition_sensors_read(split, &s.names, &s.n, &error));
    s.chosen = o->all.first_sensors && o->all.first_sensors < s.n ? (int)o->all.first_sensors : s.n;
    return s;
}

static void sensors_close(Sensors *s) {
    for (int i = 0; i < s->n; i++) free(s->names[i]);
    free(s->names);
}

/* Runs all stages for one sensor; `label` begins the names of its trainings. */
static bool run_sensor(Runner *r, const char *split, const char *sensor, const char *label, bool few) {
    const char *parent = r->o->train.output_dir;
    OWNED char *name = file_name_in(parent, "", sensor), *directory = path_join(parent, name);
    Place at = {directory, split, sensor, label};
    Evaluation before = {0};
    bool go_on = run_stages(r, &at, few ? &before : &r->results[r->n_folds]);
    if (few) {
        evaluation_free(&before);
        go_on = go_on && run_few_shots(r, &at);
    } else {
        add_result(r, sensor, 0, 0);
    }
    return go_on;
}

/* Returns false if a signal stopped the run. */
static bool walk_sensors(Runner *r, const Sensors *s, const char *split, bool few) {
    bool go_on = true;
    r->n_folds = 0;
    for (int i = 0; i < s->chosen && go_on; i++) {
        char label[48];
        snprintf(label, sizeof label, "sensor %d of %d, ", i + 1, s->chosen);
        r->number = i;
        if (trainings_train(&r->all, i) || r->all.tests) go_on = run_sensor(r, split, s->names[i], label, few);
    }
    return go_on && !stop_signal();
}

/* Runs all stages once for every sensor, which none of the trainings has seen, not even without its labels. */
static bool run_sensors(Runner *r) {
    const PsdOptions *o = r->o;
    bool few = !strcmp(o->all.protocol, "fewshot_loso"), go_on;
    const char *split = few ? o->all.loso_split : o->data.split;
    Sensors s = sensors_open(o, split);
    size_t most = (size_t)s.chosen * (few ? PSD_SHOTS * (size_t)o->all.repeats : 1);
    r->folds = xcalloc(most + 1, sizeof *r->folds);
    r->results = xcalloc(most + 1, sizeof *r->results);
    check_stages(r, &(Place){o->train.output_dir, split, s.names[0], ""});
    for (int k = 0; few && k < PSD_SHOTS; k++) /* dies if the split file lacks one of them */
        count_rows(o, &(Place){o->train.output_dir, o->data.split, s.names[0], ""}, PSD_SHOT_COUNTS[k], PSD_TRAIN);
    trainings_deal(&r->all, s.chosen);
    do go_on = walk_sensors(r, &s, split, few);
    while (trainings_again(&r->all));
    go_on = go_on && !stop_signal();
    directory_remove_leftovers(o->train.output_dir);
    if (go_on) MUST(report_folds(r->folds, r->n_folds, "sensor", o->all.protocol, o->train.output_dir, &error));
    for (int i = 0; i < r->n_folds; i++) evaluation_free(&r->results[i]);
    sensors_close(&s);
    FREE(r->folds, r->results);
    return go_on;
}

int psd_report_validation(const PsdOptions *o, PsdStage *stage) {
    if (stop_signal() || !path_holds(o->train.output_dir, BEST_LINK)) return 0;
    Line line = line_begin(o, PSD_EVALUATE, o->data.split, o->data.sensor);
    OWNED char *best = path_join(o->train.output_dir, BEST_LINK);
    add(&line, "--checkpoint", "%s", best);
    add(&line, "--output-dir", "%s", o->train.output_dir);
    add(&line, "--eval-split", "%s", "val");
    add(&line, "--tag", "%s", "validation");
    print_line(&line);
    int status = stage->carry_out(line.n - 1, line.text + 1, stage);
    line_free(&line);
    return status;
}

void psd_print_next(const PsdOptions *o) {
    bool pretrain = o->command == PSD_PRETRAIN;
    OWNED char *weights = next_weights(o->train.output_dir);
    const struct {
        const char *option, *value;
    } words[] = {{"--manifest", o->train.manifest.text[0]},
                 {"--split", o->data.split},
                 {"--sensor", o->data.sensor},
                 {pretrain ? "--pretrained" : "--checkpoint", weights}};
    printf("Next: %s %s", program_as_called(), pretrain ? "finetune" : "evaluate");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        OWNED char *word = xformat("%s=%s", words[i].option, words[i].value ? words[i].value : ""),
                   *quoted = shell_word(word);
        if (words[i].value) printf(" %s", quoted);
    }
    if (o->data.shots) printf(" --shots %lld", (long long)o->data.shots);
    printf(" -o results/%s\n", pretrain ? "finetune" : "evaluation");
}

int psd_run(PsdOptions *o, PsdStage *stage) {
    PsdStage each = *stage; /* of all stages, one after the other */
    Runner r = {.o = o, .stage = &each, .all = trainings_begin(&o->train, "the same command continues")};
    Place all = {o->train.output_dir, o->data.split, NULL, ""};
    each.all = &r.all;
    bool pooled = !strcmp(o->all.protocol, "pooled");
    if (pooled) check_stages(&r, &all);
    bool done = pooled ? run_stages(&r, &all, NULL) : run_sensors(&r);
    if (pooled) trainings_again(&r.all);
    if (each.device) train_options_set_price(&o->train, each.device);
    trainings_end(&r.all, done);
    stage->device = each.device;
    stage->ended = each.ended;
    if (page_write_or_warn(o->train.output_dir, PAGE_DEPTH, false))
        printf("[Run] report: %s/report.html\n", o->train.output_dir);
    if (done) printf("Next: %s predict%s NEW_RECORDINGS -o predictions.csv\n", program_as_called(), r.models);
    free(r.models);
    return 0;
}
