/* train_psd synthesize: recordings to try the other commands on. */
#include <stdio.h>

#include "base/options.h"
#include "base/threads.h"
#include "commands/next.h"
#include "commands/psd/psd.h"
#include "data/psd/synthetic.h"

typedef struct {
    const char *output;
    int64_t sensors, rows, seed, num_workers;
} Options;

#define FIELD(name) offsetof(Options, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "DIR", .required = true,
     .help = "folder for the recordings"},
    {.name = "sensors", .type = OPTION_INT, .offset = FIELD(sensors), .default_value = "8", .min = 1, .max = 1e4,
     .metavar = "N", .help = "number of sensors"},
    {.name = "rows", .type = OPTION_INT, .offset = FIELD(rows), .default_value = "60", .min = 1, .max = 1e6,
     .metavar = "N", .help = "rows per sensor and technology"},
    {.name = "seed", .letter = 's', .type = OPTION_INT, .offset = FIELD(seed), .default_value = "42",
     .max = 4294967295, .metavar = "N", .help = "seed of everything random"},
    {.name = "num-workers", .type = OPTION_INT, .offset = FIELD(num_workers), .default_value = "0", .max = 1024,
     .metavar = "N", .help = "threads; 0: all cores; the files do not depend on it"},
};
// clang-format on

int psd_synthesize(int argc, char **argv) {
    static const OptionsHeader header = {"train_psd synthesize", "--output DIR [options]", "--output recordings",
                                         "Writes synthetic recordings of six technologies."};
    Options o = {0};
    int64_t files;
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    const PsdSynthetic wanted = {o.sensors, o.rows, (uint64_t)o.seed};
    int n_threads = threads_take((int)o.num_workers, "--num-workers");
    MUST(psd_synthetic_write(o.output, &wanted, n_threads, &files, &error));
    printf("[Synthetic] %s: %lld files of %lld sensors and six technologies, %lld rows each\n", o.output,
           (long long)files, (long long)o.sensors, (long long)o.rows);
    next_print("prepare --input %s --output prepared", o.output);
    options_free(&set, argc, argv);
    return 0;
}
