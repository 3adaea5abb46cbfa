/* train_psd run: pretrain, finetune, evaluate and calibrate, one after the other; once, or once for every sensor. It
 * writes the command lines of the others, so that each stage can be done again by hand. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/stop.h"
#include "train_psd.h"

/* A command line that is being written. */
typedef struct {
    char *text[64];
    int n;
} Line;

static void add(Line *line, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
static void add(Line *line, const char *name, const char *format, ...) {
    char value[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof value) die("%s: too long: %.100s...", name, value);
    if (line->n + 2 > 64) die("run: too many options");
    line->text[line->n++] = xstrdup(name);
    if (length) line->text[line->n++] = xstrdup(value);
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
    if (trains && o->hop) add(&line, "--hop", "%s", "");
    if (trains && psd_given(o, "limit")) add(&line, "--limit", "%.17g", o->limit);
    if (strcmp(o->train.device, "auto")) add(&line, "--device", "%s", o->train.device);
    if (o->train.threads) add(&line, "--threads", "%lld", (long long)o->train.threads);
    if (o->train.amp) add(&line, "--amp", "%s", "");
    if (o->train.no_tf32) add(&line, "--no-tf32", "%s", "");
    return line;
}

/* Does it, after saying it; only what calibrates may fail. False: a signal wants the run to stop. */
static bool carry_out(Line *line, Device **device, Evaluation *result) {
    bool may_fail = !strcmp(line->text[1], psd_commands[CALIBRATE]);
    printf("\n[Run]");
    for (int i = 0; i < line->n; i++) printf(" %s", line->text[i]);
    printf("\n");
    int status = psd_command(line->n, line->text, device, result);
    for (int i = 0; i < line->n; i++) free(line->text[i]);
    if (status && !may_fail) exit(status);
    return !stop_signal();
}

/* The best checkpoint of a training, or its last where nothing was validated. free() */
static char *best_of(const char *directory) {
    char *best = path_join(directory, "best");
    if (!access(best, F_OK)) return best;
    free(best);
    return path_join(directory, "last");
}

/* Pretrains, finetunes, evaluates and calibrates in one directory. False: stopped. */
static bool run_once(const PsdRun *o, const char *directory, const char *split, const char *sensor, Device **device,
                     Evaluation *result) {
    char *encoder = path_join(directory, "pretrain"), *tuned = path_join(directory, "finetune");
    char *calibration = path_join(directory, "calibration"), *from = NULL, *checkpoint = NULL;
    bool go_on = true;
    if (!o->scratch) {
        Line line = line_of(o, PRETRAIN, split, sensor);
        add(&line, "--output-dir", "%s", encoder);
        if (o->pretrain_config) add(&line, "--config", "%s", o->pretrain_config);
        if (o->pretrain_epochs) add(&line, "--epochs", "%lld", (long long)o->pretrain_epochs);
        go_on = carry_out(&line, device, NULL);
    }
    if (go_on) {
        Line line = line_of(o, FINETUNE, split, sensor);
        add(&line, "--output-dir", "%s", tuned);
        if (o->finetune_config) add(&line, "--config", "%s", o->finetune_config);
        if (o->finetune_epochs) add(&line, "--epochs", "%lld", (long long)o->finetune_epochs);
        if (!o->scratch) add(&line, "--pretrained", "%s", from = best_of(encoder));
        go_on = carry_out(&line, device, NULL);
    }
    if (go_on) {
        Line line = line_of(o, EVALUATE, split, sensor);
        add(&line, "--checkpoint", "%s", checkpoint = best_of(tuned));
        add(&line, "--output-dir", "%s", directory);
        go_on = carry_out(&line, device, result);
    }
    if (go_on) {
        Line line = line_of(o, CALIBRATE, split, sensor);
        add(&line, "--checkpoint", "%s", checkpoint);
        add(&line, "--output-dir", "%s", calibration);
        go_on = carry_out(&line, device, NULL);
    }
    free(encoder);
    free(tuned);
    free(calibration);
    free(from);
    free(checkpoint);
    return go_on;
}

/* Tunes the classifier of `directory` with a few rows of each class of the sensor that it has not seen, as often as
 * --fewshot-seeds says; what the reference's evaluation had planned: 30 epochs of batches of 64 at 1e-4. */
static bool run_few_shots(const PsdRun *o, const char *directory, const char *sensor, Device **device,
                          FoldResult *folds, Evaluation *results, int *n) {
    static const int shots[] = {5, 10, 50, 100};
    char *tuned = path_join(directory, "finetune"), *from = best_of(tuned);
    bool go_on = true;
    for (int k = 0; k < 4 && go_on; k++) {
        PsdRun with = *o;
        with.sensor = sensor;
        with.shots = shots[k];
        Data data = psd_data_open(&with);
        int64_t to_test = data.split.parts[PSD_TEST].n;
        psd_data_close(&data);
        if (!to_test) printf("[Run] %s: %d rows a class leave none to test on: left out\n", sensor, shots[k]);
        for (int64_t r = 0; r < o->repeats && go_on && to_test; r++) {
            char *to = xformat("%s/shots_%d_seed_%lld", directory, shots[k], (long long)(o->train.seed + r));
            PsdRun seeded = with;
            seeded.train.seed += r;
            Line line = line_of(&seeded, FINETUNE, o->split, sensor);
            add(&line, "--output-dir", "%s", to);
            add(&line, "--pretrained", "%s", from);
            add(&line, "--epochs", "%d", 30);
            add(&line, "--learning-rate", "%s", "1e-4");
            add(&line, "--batch-size", "%d", 64);
            add(&line, "--encoder-lr-scale", "%d", 1);
            go_on = carry_out(&line, device, NULL);
            char *last = path_join(to, "last");
            if (go_on) {
                Line judge_line = line_of(&seeded, EVALUATE, o->split, sensor);
                add(&judge_line, "--checkpoint", "%s", last);
                add(&judge_line, "--output-dir", "%s", to);
                go_on = carry_out(&judge_line, device, &results[*n]);
                folds[*n] = (FoldResult){sensor, shots[k], seeded.train.seed, &results[*n]};
                ++*n;
            }
            free(last);
            free(to);
        }
    }
    free(from);
    free(tuned);
    return go_on;
}

/* Once for every sensor, which nothing that is trained has seen, not even without labels. */
static bool run_sensors(const PsdRun *o, Device **device) {
    bool few = !strcmp(o->protocol, "fewshot_loso");
    const char *split = few ? o->loso_split : o->split;
    char **sensors;
    int n_sensors, n = 0;
    Error error;
    if (!split) die_usage("--protocol fewshot_loso also needs --loso-split, the split by sensor");
    if (!psd_split_sensors_read(split, &sensors, &n_sensors, &error)) die("%s", error.text);
    int chosen = o->first_sensors && o->first_sensors < n_sensors ? (int)o->first_sensors : n_sensors;
    size_t most = (size_t)chosen * (few ? 4 * (size_t)o->repeats : 1);
    FoldResult *folds = xcalloc(most + 1, sizeof *folds);
    Evaluation *results = xcalloc(most + 1, sizeof *results);
    bool go_on = true;
    for (int i = 0; i < chosen && go_on; i++) {
        char *directory = path_join(o->train.output_dir, sensors[i]);
        Evaluation whole;
        go_on = run_once(o, directory, split, sensors[i], device, few ? &whole : &results[n]);
        if (go_on && few) {
            evaluation_free(&whole);
            go_on = run_few_shots(o, directory, sensors[i], device, folds, results, &n);
        } else if (go_on) {
            folds[n] = (FoldResult){sensors[i], 0, 0, &results[n]};
            n++;
        }
        free(directory);
    }
    if (go_on && !report_folds(folds, n, "sensor", o->protocol, o->train.output_dir, &error)) die("%s", error.text);
    for (int i = 0; i < n; i++) evaluation_free(&results[i]);
    for (int i = 0; i < n_sensors; i++) free(sensors[i]);
    free(sensors);
    free(folds);
    free(results);
    return go_on;
}

int psd_run(const PsdRun *o, Device **device) {
    bool done = strcmp(o->protocol, "pooled") ? run_sensors(o, device)
                                              : run_once(o, o->train.output_dir, o->split, NULL, device, NULL);
    if (!done) printf("[Run] stopped by signal %d; the same command goes on\n", stop_signal());
    return 0;
}
