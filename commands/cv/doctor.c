/* train_cv doctor: what is worth knowing of a folder of cells before a network is trained on it. The training prints
 * the same tables; the doctor writes them as JSON too. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/options.h"
#include "base/program.h"
#include "base/threads.h"
#include "commands/cv/commands.h"
#include "commands/cv/options.h"
#include "commands/next.h"
#include "data/cv/data_report.h"
#include "data/cv/splits.h"

typedef struct {
    const char *data, *class_words, *class_table;
    int64_t seed, num_workers;
    double filter_sigmas;
    bool compat;
} Options;

// clang-format off
static const OptionRow table[] = {
    {.name = "data", .heading = "Data", .letter = 'd', .type = OPTION_TEXT, .offset = offsetof(Options, data),
     .metavar = "DIR",
     .help = "the cells: DIR/isolated_cells_D1/NAME_act_cell_7.npy; writes DIR.flim.safetensors and "
             "DIR.data_report.json"},
    CV_CLASS_OPTIONS(Options),
    {.name = "filter-sigmas", .type = OPTION_FLOAT, .offset = offsetof(Options, filter_sigmas), .default_value = "2",
     .min = 0.01, .max = 100, .metavar = "X",
     .help = "report what the reference's entropy filter would drop at this many standard deviations"},
    {.name = "compat", .type = OPTION_FLAG, .offset = offsetof(Options, compat), .default_value = "false",
     .help = "compute entropies as the reference does, which takes rows for time where there are fewer bins than rows"},
    {.name = "seed", .heading = "Data", .letter = 's', .type = OPTION_INT, .offset = offsetof(Options, seed), .default_value = "42",
     .min = 0, .max = 9e15, .metavar = "N",
     .help = "seed of the bootstrap's intervals"},
    {.name = "num-workers", .heading = "Device", .type = OPTION_INT, .offset = offsetof(Options, num_workers), .default_value = "0",
     .min = 0, .max = 1024, .metavar = "N",
     .help = "threads; 0: all cores. The output does not depend on the number"},
};
// clang-format on

/* Returns how many training cells the smallest fold has, with the filter that a training has unless told otherwise. */
static int64_t smallest_training(const CvColumns *columns, const CvFolds *folds) {
    int64_t least = INT64_MAX;
    Error error;
    for (int i = 0; i < folds->n; i++) {
        CvFilter filter = cv_filter_fit(columns, &folds->folds[i], CV_FILTER_SIGMAS);
        CvSplits splits;
        if (!cv_splits_open(columns, &folds->folds[i], &filter, &splits, &error)) continue;
        if (splits.ids[CV_SPLIT_TRAIN].n < least) least = splits.ids[CV_SPLIT_TRAIN].n;
        cv_splits_free(&splits);
    }
    return least;
}

/* Prints the command that trains on these cells, with the same classes; or why their donors make no folds. */
static void print_next(const Options *o, const CvCells *cells) {
    CvColumns columns = cv_splits_columns(cells);
    CvFolds folds;
    Error error;
    if (!cv_folds_nested(&columns, NULL, &folds, &error)) {
        printf("[Data] no cross-validation: %s\n", error.text);
        return;
    }
    OWNED char *batch = next_batch(smallest_training(&columns, &folds), CV_BATCH, CV_LEAST_BATCH);
    next_print_options("", (const char *const[]){"--data", o->data, "--class-words", o->class_words, "--class-table",
                                                 o->class_table, "-o", "run", "-b", batch, NULL});
    cv_folds_free(&folds);
}

int cv_doctor(int argc, char **argv) {
    static const OptionsHeader header = {"train_cv doctor", "--data DIR [options]", "--data cells",
                                         "Reads FLIM cells into one file, and reports what is odd about them."};
    static Options o;
    CvCells cells;
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    if (!o.data) die_usage("no cells: give their folder with --data DIR");
    const CvCellsOptions options = {.compat = o.compat,
                                    .class_words = o.class_words,
                                    .class_table = o.class_table,
                                    .n_threads = threads_take((int)o.num_workers, "--num-workers")};
    MUST(cv_cells_open(&cells, o.data, &options, &error));
    CvFilter filter = cv_filter_compat(o.filter_sigmas);
    json_auto_t *report = json_object();
    cv_data_report(report, &cells, (uint64_t)o.seed);
    cv_data_report_filter(report, "reference_filter", &cells, &filter);
    OWNED char *path = cv_cells_path(o.data, ".data_report.json");
    file_remove_stale(path);
    MUST(json_write_file(path, report, JSON_INDENT(1), &error));
    printf("[Data] report: %s\n", path);
    print_next(&o, &cells);
    cv_cells_close(&cells);
    options_free(&set, argc, argv);
    return 0;
}
