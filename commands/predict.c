#include "commands/predict.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/format.h"
#include "base/program.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"

// clang-format off
static const OptionRow table[] = {
    {.name = "checkpoint", .heading = "Model", .usual = true, .type = OPTION_LIST, .offset = offsetof(PredictOptions, checkpoints), .metavar = "PATH",
     .help = "the trained model: the folder of a run (its best weights are taken), a checkpoint's folder, or a file of "
             "weights; repeatable: the probabilities of several models are averaged"},
    {.name = "output", .heading = "Files", .usual = true, .letter = 'o', .type = OPTION_TEXT, .offset = offsetof(PredictOptions, output),
     .default_value = "predictions.csv", .metavar = "FILE",
     .help = "the predictions, a row per sample; -: standard output"},
    {.name = "format", .usual = true, .type = OPTION_CHOICE, .offset = offsetof(PredictOptions, format), .default_value = "auto",
     .metavar = "auto|csv|jsonl",
     .help = "auto: JSON Lines if --output ends in .jsonl, otherwise CSV"},
};
// clang-format on

void predict_options_add(OptionSet *set, PredictOptions *options) {
    options_add(set, table, sizeof table / sizeof *table, options);
}

void predict_train_options_add(OptionSet *set, TrainOptions *train) {
    static const char *const kept[] = {"config",  "batch-size",  "device",  "threads", "amp",
                                       "no-tf32", "num-workers", "profile", NULL};
    int first = set->count;
    train_options_add(set, train);
    options_override(set, &(OptionOverride){.name = "bucketing", .default_value = "off"}, 1);
    options_keep(set, first, kept);
}

void predict_print_counts(int models, const char *const *names, const int64_t *counts, int classes, const char *row) {
    printf("[Predict] predicted by %d model%s:", models, format_plural(models));
    for (int c = 0; c < classes; c++)
        printf(" class %s: %lld %s%s%s", names[c], (long long)counts[c], row, format_plural(counts[c]),
               c + 1 < classes ? "," : "\n");
}

/* ---- which weights ---- */

/* Adds a path, which is freed. */
static void add(Ensemble *e, char *given) {
    char *path = checkpoint_hold(given);
    free(given);
    for (int i = 0; i < e->n; i++)
        if (file_is_same(e->paths[i], path)) die_usage("--checkpoint: %s and %s are the same", e->paths[i], path);
    e->paths = xrealloc(e->paths, (size_t)(e->n + 1) * sizeof *e->paths);
    e->paths[e->n++] = path;
}

/* Adds the best checkpoint of each run in the folder whose name begins with `runs`. Returns how many runs have none. */
static int add_runs(Ensemble *e, const char *folder, const char *runs) {
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, versionsort), without = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        OWNED char *run = path_join(folder, name);
        if (name[0] != '.' && !strncmp(name, runs, strlen(runs)) && path_holds(run, "log.jsonl")) {
            if (path_holds(run, BEST_LINK))
                add(e, path_join(run, BEST_LINK));
            else
                without++;
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return without;
}

static void add_path(Ensemble *e, const char *path, const char *runs) {
    int before = e->n, without = 0;
    if (!checkpoint_exists(path)) die("--checkpoint %s: %s", path, strerror(errno));
    OWNED char *weights = checkpoint_weights(path);
    if (!path_is_folder(weights))
        add(e, xstrdup(path));
    else if (path_holds(path, BEST_LINK))
        add(e, path_join(path, BEST_LINK));
    else if (runs)
        without = add_runs(e, path, runs);
    if (e->n == before)
        die("--checkpoint %s: there are no weights in it; expected a checkpoint (model.safetensors) or a run (best)",
            path);
    if (without) warn("--checkpoint %s: %d of its runs have no best weights yet, and are left out", path, without);
}

Ensemble predict_ensemble(const PredictOptions *o, const char *runs) {
    Ensemble e = {0};
    if (!o->checkpoints.count) die_usage("which model? give --checkpoint");
    for (int i = 0; i < o->checkpoints.count; i++) add_path(&e, o->checkpoints.text[i], runs);
    return e;
}

void predict_ensemble_free(Ensemble *e) {
    for (int i = 0; i < e->n; i++) free(e->paths[i]);
    free(e->paths);
    *e = (Ensemble){0};
}

/* ---- where to ---- */

static const char RESULTS[] = "the predictions";

PredictOutput predict_output_open(const PredictOptions *o) {
    bool standard = !strcmp(o->output, "-");
    PredictOutput out = {.path = standard ? NULL : o->output};
    out.lines = !strcmp(o->format, "jsonl") || (!strcmp(o->format, "auto") && path_ending(o->output, ".jsonl"));
    Error error;
    if (standard) {
        out.stream = program_results();
    } else if (!file_is_replaceable(o->output, &error))
        die_usage("--output: %s", error.text);
    return out;
}

/* Begins the file at the first row, so that a run that fails before leaves no trace. */
static void put(PredictOutput *out, const char *text, size_t size) {
    if (!out->path) {
        program_put(out->stream, text, size, RESULTS);
        return;
    }
    if (!out->writer) {
        OWNED char *folder = path_directory(out->path);
        directory_remove_leftovers(folder); /* also those of other names */
        out->writer = xcalloc(1, sizeof *out->writer);
        MUST(file_begin(out->writer, out->path, 0, &error));
    }
    file_put(out->writer, text, size);
}

static void write_rows(PredictOutput *out, Table *table) {
    OWNED char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (!memory) die("out of memory for predictions");
    if (out->lines)
        table_print_json_lines(table, memory);
    else
        table_print_csv(table, !out->rows, memory);
    if (fclose(memory)) die("out of memory for predictions");
    put(out, text, size);
    out->rows += table_rows(table);
    table_clear(table);
}

void predict_output_row(PredictOutput *out, Table *table) {
    enum { MANY = 4096 };
    if (table_rows(table) >= MANY) write_rows(out, table);
}

void predict_output_flush(PredictOutput *out, Table *table) {
    write_rows(out, table);
    if (out->stream) program_flush(out->stream, false, RESULTS);
}

void predict_output_close(PredictOutput *out, Table *table) {
    write_rows(out, table);
    if (out->writer) MUST(file_end(out->writer, &error));
    if (out->stream) program_flush(out->stream, true, RESULTS);
    free(out->writer);
    printf("[Predict] %lld rows written to %s\n", (long long)out->rows, out->path ? out->path : "standard output");
}
