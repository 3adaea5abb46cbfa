/* train_cv doctor: what is worth knowing of a folder of cells before a network is trained on it. The training prints
 * the same tables; the doctor writes them as JSON too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/options.h"
#include "base/program.h"
#include "base/threads.h"
#include "commands/cv/commands.h"
#include "commands/cv/options.h"
#include "commands/next.h"
#include "data/flim/data_report.h"

typedef struct {
    const char *config, *data, *class_words, *class_table;
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
    {.name = "config", .heading = "Files", .type = OPTION_TEXT, .offset = offsetof(Options, config),
     .metavar = "PATH",
     .help = "YAML file with any of these options; the command line wins"},
    {.name = "seed", .heading = "Data", .letter = 's', .type = OPTION_INT, .offset = offsetof(Options, seed), .default_value = "42",
     .min = 0, .max = 9e15, .metavar = "N",
     .help = "seed of the bootstrap's intervals"},
    {.name = "num-workers", .heading = "Device", .type = OPTION_INT, .offset = offsetof(Options, num_workers), .default_value = "0",
     .min = 0, .max = 1024, .metavar = "N",
     .help = "threads; 0: all cores. The output does not depend on the number"},
};
// clang-format on

static void write_report(const char *path, const json_t *report) {
    Error error;
    char *text = json_text(path, report, JSON_INDENT(1));
    file_remove_stale(path);
    if (!file_write_atomic(path, text, strlen(text), &error)) die("%s", error.text);
    free(text);
}

int cv_doctor(int argc, char **argv) {
    static const OptionsHeader header = {"train_cv doctor", "--data DIR [options]", "--data cells",
                                         "Reads FLIM cells into one file, and reports what is odd about them."};
    static Options o;
    FlimCells cells;
    Error error;
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    if (!o.data) die_usage("no cells: give their folder with --data DIR");
    const FlimCellsOptions options = {.compat = o.compat,
                                      .class_words = o.class_words,
                                      .class_table = o.class_table,
                                      .n_threads = threads_take((int)o.num_workers, "--num-workers")};
    if (!flim_cells_open_with(&cells, o.data, &options, &error)) die("%s", error.text);
    FlimFilter filter = flim_filter_compat(o.filter_sigmas);
    json_t *report = json_object();
    flim_data_report(report, &cells, (uint64_t)o.seed);
    flim_data_report_filter(report, "reference_filter", &cells, &filter);
    char *path = flim_cells_path(o.data, ".data_report.json");
    write_report(path, report);
    printf("[Data] report: %s\n", path);
    next_print("--data %s -o run", o.data);
    free(path);
    json_decref(report);
    flim_cells_close(&cells);
    options_free(&set, argc, argv);
    return 0;
}
