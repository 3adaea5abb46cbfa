/* train_psd run: pretrain, finetune, evaluate and calibrate, one after the other; once, or once for every sensor. It
 * writes the command lines of the others, so that each stage can be done again by hand. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "train/checkpoint_state.h"
#include "train_psd.h"

/* A command line that is being written. */
typedef struct {
    char *text[64];
    int n;
} Line;

/* Name and value are one word, so that a value which begins with '-' stays one. */
static void add(Line *line, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
static void add(Line *line, const char *name, const char *format, ...) {
    char *value;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&value, format, arguments) < 0) die("out of memory for %s", name);
    va_end(arguments);
    if (line->n == 64) die("run: too many options");
    line->text[line->n++] = xformat("%s=%s", name, value);
    free(value);
}

/* What all commands are told. What is not given is left to their configurations. */
static Line line_of(const PsdRun *o, Command command, const char *split, const char *sensor) {
    Line line = {.text = {xstrdup("train_psd"), xstrdup(psd_commands[command])}, .n = 2};
    bool trains = command == PRETRAIN || command == FINETUNE;
    add(&line, "--manifest", "%s", o->train.manifest.text[0]);
    add(&line, "--split", "%s", split);
    if (sensor) add(&line, "--sensor", "%s", sensor);
    if (o->shots) add(&line, "--shots", "%lld", (long long)o->shots);
    if (trains && psd_given(o, "size")) add(&line, "--size", "%s", o->size);
    if (trains && psd_given(o, "encoder")) add(&line, "--encoder", "%s", o->encoder);
    if (trains && (psd_given(o, "seed") || o->shots)) add(&line, "--seed", "%lld", (long long)o->train.seed);
    if (trains) add(&line, "--resume", "auto");
    if (trains && psd_given(o, "hop")) add(&line, "--hop", "%s", o->hop ? "true" : "false");
    if (trains && psd_given(o, "limit")) add(&line, "--limit", "%.17g", o->limit);
    if (strcmp(o->train.device, "auto")) add(&line, "--device", "%s", o->train.device);
    if (o->train.threads) add(&line, "--threads", "%lld", (long long)o->train.threads);
    if (o->train.amp) add(&line, "--amp", "true");
    if (o->train.no_tf32) add(&line, "--no-tf32", "true");
    return line;
}

static void line_free(Line *line) {
    for (int i = 0; i < line->n; i++) free(line->text[i]);
}

/* Does it, after saying it; only what calibrates may fail. False: a signal wants the run to stop. */
static bool carry_out(Line *line, Device **device, Evaluation *result) {
    bool may_fail = !strcmp(line->text[1], psd_commands[CALIBRATE]);
    printf("\n[Run]");
    for (int i = 0; i < line->n; i++) {
        char *word = shell_word(line->text[i]);
        printf(" %s", word);
        free(word);
    }
    printf("\n");
    int status = psd_command(line->n, line->text, device, result);
    line_free(line);
    if (status && !may_fail) exit(status);
    return !stop_signal();
}

/* ---- one directory: pretrain/, finetune/, the evaluation, calibration/ ---- */

/* What the stages of one directory work on. */
typedef struct {
    const PsdRun *o;
    const char *directory, *split, *sensor; /* sensor: NULL if the split is of all */
} Place;

/* The best checkpoint of a training, or its last where nothing was validated. free() */
static char *best_of(const char *directory, const char *training) {
    char *run = path_join(directory, training), *best;
    Error error;
    if (!checkpoint_best(run, &best, &error))
        die("%s. Where the newest checkpoint is whole, train_psd %s -o %s --resume auto with its other options goes on "
            "without the best; or remove %s to train it anew",
            error.text, training, run, run);
    if (!best) best = path_join(run, "last");
    free(run);
    return best;
}

/* Says so where they are not the best ones. */
static void tell_weights(const Place *at, const char *training) {
    char *weights = best_of(at->directory, training), *last = xformat("%s/%s/last", at->directory, training);
    if (!strcmp(weights, last)) printf("[Run] %s: nothing was validated, so the last weights are taken\n", weights);
    free(last);
    free(weights);
}

static void add_directory(Line *line, const char *directory, const char *name) {
    char *path = path_join(directory, name);
    add(line, "--output-dir", "%s", path);
    free(path);
}

static Line stage_line(const Place *at, Command stage) {
    const PsdRun *o = at->o;
    Line line = line_of(o, stage, at->split, at->sensor);
    const char *config = stage == PRETRAIN ? o->pretrain_config : stage == FINETUNE ? o->finetune_config : NULL;
    int64_t epochs = stage == PRETRAIN ? o->pretrain_epochs : stage == FINETUNE ? o->finetune_epochs : 0;
    char *encoder = best_of(at->directory, "pretrain"), *classifier = best_of(at->directory, "finetune");
    if (config) add(&line, "--config", "%s", config);
    if (epochs) add(&line, "--epochs", "%lld", (long long)epochs);
    if (stage == FINETUNE && !o->scratch) add(&line, "--pretrained", "%s", encoder);
    if (stage == EVALUATE || stage == CALIBRATE) add(&line, "--checkpoint", "%s", classifier);
    if (stage == EVALUATE)
        add(&line, "--output-dir", "%s", at->directory);
    else
        add_directory(&line, at->directory, stage == CALIBRATE ? "calibration" : psd_commands[stage]);
    free(encoder);
    free(classifier);
    return line;
}

static int64_t rows_of(const PsdRun *o, const char *split, const char *sensor, int shots, int part) {
    PsdRun with = *o;
    with.split = split;
    with.sensor = sensor;
    with.shots = shots;
    Data data = psd_data_open(&with);
    int64_t n = data.split.parts[part].n;
    psd_data_close(&data);
    return n;
}

static bool is_wanted(const Place *at, Command stage) {
    if (stage == PRETRAIN) return !at->o->scratch;
    return stage != CALIBRATE || rows_of(at->o, at->split, at->sensor, 0, PSD_VAL);
}

/* What is wrong with a stage is said before the first one takes its time. */
static void check_stages(const Place *at) {
    for (Command stage = PRETRAIN; stage <= FINETUNE; stage++) {
        if (!is_wanted(at, stage)) continue;
        Line line = stage_line(at, stage);
        psd_command(line.n, line.text, NULL, NULL);
        line_free(&line);
    }
}

static uint64_t sum_of(const char *weights) {
    TensorFile file;
    Error error;
    if (!checkpoint_open_base(weights, &file, &error)) die("%s: %s", weights, error.text);
    uint64_t sum = checkpoint_base_sum(&file);
    tensor_file_close(&file);
    return sum;
}

/* Dies if the training in this directory began from other weights than these (NULL: from scratch), for which it would
 * be taken. Where they lie is no matter: a directory may be moved. */
static void check_beginning(const char *directory, const char *weights) {
    char *newest = checkpoint_resolve(directory, "auto");
    TrainState state;
    Error error;
    if (!newest) return;
    if (!state_read(newest, &state, &error)) die("%s: %s", newest, error.text);
    if (state.base_sum != (weights ? sum_of(weights) : 0))
        die("%s did not begin from %s: remove it to train the classifier anew, or give another --output-dir", directory,
            weights ? weights : "scratch");
    free(state.options_json);
    free(newest);
}

static void check_encoder(const Place *at) {
    char *directory = path_join(at->directory, "finetune");
    char *encoder = at->o->scratch ? NULL : best_of(at->directory, "pretrain");
    check_beginning(directory, encoder);
    free(encoder);
    free(directory);
}

/* False: stopped. */
static bool run_stages(const Place *at, Device **device, Evaluation *result) {
    bool go_on = true;
    for (Command stage = PRETRAIN; stage <= CALIBRATE && go_on; stage++) {
        if (!is_wanted(at, stage)) {
            if (stage == CALIBRATE) printf("[Run] no rows to validate on: nothing to calibrate with\n");
            continue;
        }
        if (stage == FINETUNE) check_encoder(at);
        if (stage == FINETUNE && !at->o->scratch) tell_weights(at, psd_commands[PRETRAIN]);
        if (stage == EVALUATE) tell_weights(at, psd_commands[FINETUNE]);
        Line line = stage_line(at, stage);
        go_on = carry_out(&line, device, stage == EVALUATE ? result : NULL);
    }
    return go_on;
}

/* ---- few shots ---- */

/* A draw of the shots for this seed, in a file that is made if it is not there. free() */
static char *draw_shots(const PsdRun *o, int64_t seed) {
    char *directory = path_join(o->train.output_dir, "splits");
    char *path = xformat("%s/fewshot_loso_seed%lld.json", directory, (long long)seed);
    make_directories(directory);
    directory_remove_leftovers(directory);
    free(directory);
    if (!access(path, F_OK)) return path;
    PsdRun with = *o;
    Data data = psd_data_open(&with);
    const PsdStore *s = &data.store;
    size_t n = (size_t)s->n_rows;
    int32_t *labels = xmalloc((n + 1) * sizeof *labels), *sensors = xcalloc(n + 1, sizeof *sensors),
            *files = xcalloc(n + 1, sizeof *files);
    for (size_t i = 0; i < n; i++) labels[i] = -1; /* a row without a sample is in no split */
    for (int64_t i = 0; i < s->n; i++) {
        labels[s->rows[i]] = s->labels[i];
        sensors[s->rows[i]] = s->sensors[i];
        files[s->rows[i]] = s->files[i];
    }
    PsdRows rows = {s->n_rows, PSD_CLASSES, labels, sensors, files, s->sensor_names};
    PsdSplits splits;
    Error error;
    if (!psd_split_few_shot(&rows, (uint32_t)seed, PSD_SHOT_COUNTS, PSD_SHOTS, 0, &splits, &error) ||
        !psd_splits_write(path, &rows, &splits, PSD_SHOT_COUNTS, &error) ||
        !psd_split_index_set(path, s->manifest_hash, &error))
        die("a draw of shots: %s", error.text);
    psd_splits_free(&splits);
    psd_data_close(&data);
    free(labels);
    free(sensors);
    free(files);
    return path;
}

/* One tuning and its evaluation; what the reference's evaluation had planned: 30 epochs of batches of 64 at 1e-4. */
static bool run_shot(const PsdRun *o, const Place *at, int k, int64_t repeat, Device **device, FoldResult *fold,
                     Evaluation *result) {
    PsdRun with = *o;
    with.sensor = at->sensor;
    with.shots = PSD_SHOT_COUNTS[k];
    with.train.seed += repeat;
    char *to = xformat("%s/shots_%d_seed_%lld", at->directory, PSD_SHOT_COUNTS[k], (long long)with.train.seed);
    char *from = best_of(at->directory, "finetune"), *last = path_join(to, "last");
    char *split = repeat ? draw_shots(&with, with.train.seed) : xstrdup(o->split);
    Line tune = line_of(&with, FINETUNE, split, at->sensor), judge = line_of(&with, EVALUATE, split, at->sensor);
    add(&tune, "--output-dir", "%s", to);
    add(&tune, "--pretrained", "%s", from);
    add(&tune, "--epochs", "%d", 30);
    add(&tune, "--learning-rate", "%s", "1e-4");
    add(&tune, "--batch-size", "%d", 64);
    add(&tune, "--encoder-lr-scale", "%d", 1);
    add(&judge, "--checkpoint", "%s", last);
    add(&judge, "--output-dir", "%s", to);
    check_beginning(to, from);
    bool go_on = carry_out(&tune, device, NULL);
    if (go_on)
        go_on = carry_out(&judge, device, result);
    else
        line_free(&judge);
    *fold = (FoldResult){at->sensor, PSD_SHOT_COUNTS[k], with.train.seed, result};
    free(split);
    free(last);
    free(from);
    free(to);
    return go_on;
}

/* Tunes the classifier of a directory with a few rows of each class of the sensor that it has not seen: the split's
 * draw of them first, then others. */
static bool run_few_shots(const PsdRun *o, const Place *at, Device **device, FoldResult *folds, Evaluation *results,
                          int *n) {
    bool go_on = true;
    for (int k = 0; k < PSD_SHOTS && go_on; k++) {
        if (!rows_of(o, o->split, at->sensor, PSD_SHOT_COUNTS[k], PSD_TEST)) {
            printf("[Run] %s: %d rows a class leave none to test on: left out\n", at->sensor, PSD_SHOT_COUNTS[k]);
            continue;
        }
        for (int64_t r = 0; r < o->repeats && go_on; r++, ++*n)
            go_on = run_shot(o, at, k, r, device, &folds[*n], &results[*n]);
    }
    return go_on;
}

/* ---- every sensor ---- */

typedef struct {
    char **names;
    int n, chosen;
} Sensors;

static Sensors sensors_open(const PsdRun *o, const char *split) {
    Sensors s;
    Error error;
    if (!split) die_usage("--protocol fewshot_loso also needs --loso-split, the split by sensor");
    if (!psd_split_sensors_read(split, &s.names, &s.n, &error)) die("%s", error.text);
    s.chosen = o->first_sensors && o->first_sensors < s.n ? (int)o->first_sensors : s.n;
    return s;
}

static void sensors_close(Sensors *s) {
    for (int i = 0; i < s->n; i++) free(s->names[i]);
    free(s->names);
}

/* Once for every sensor, which nothing that is trained has seen, not even without labels. */
static bool run_sensors(const PsdRun *o, Device **device) {
    bool few = !strcmp(o->protocol, "fewshot_loso"), go_on = true;
    const char *split = few ? o->loso_split : o->split;
    Sensors s = sensors_open(o, split);
    size_t most = (size_t)s.chosen * (few ? PSD_SHOTS * (size_t)o->repeats : 1);
    FoldResult *folds = xcalloc(most + 1, sizeof *folds);
    Evaluation *results = xcalloc(most + 1, sizeof *results);
    int n = 0;
    Error error;
    check_stages(&(Place){o, o->train.output_dir, split, s.names[0]});
    for (int k = 0; few && k < PSD_SHOTS; k++) rows_of(o, o->split, s.names[0], PSD_SHOT_COUNTS[k], PSD_TRAIN);
    for (int i = 0; i < s.chosen && go_on; i++) {
        char *name = file_name_of(s.names[i]), *directory = path_join(o->train.output_dir, name);
        Place at = {o, directory, split, s.names[i]};
        Evaluation whole = {0};
        go_on = run_stages(&at, device, few ? &whole : &results[n]);
        if (few) {
            evaluation_free(&whole);
            if (go_on) go_on = run_few_shots(o, &at, device, folds, results, &n);
        } else {
            folds[n] = (FoldResult){s.names[i], 0, 0, &results[n]};
            n++;
        }
        free(directory);
        free(name);
    }
    directory_remove_leftovers(o->train.output_dir);
    if (go_on && !report_folds(folds, n, "sensor", o->protocol, o->train.output_dir, &error)) die("%s", error.text);
    for (int i = 0; i < n; i++) evaluation_free(&results[i]);
    sensors_close(&s);
    free(folds);
    free(results);
    return go_on;
}

int psd_run(const PsdRun *o, Device **device) {
    Place all = {o, o->train.output_dir, o->split, NULL};
    bool pooled = !strcmp(o->protocol, "pooled");
    if (pooled) check_stages(&all);
    if (!(pooled ? run_stages(&all, device, NULL) : run_sensors(o, device)))
        printf("[Run] stopped by signal %d; the same command goes on\n", stop_signal());
    return 0;
}
