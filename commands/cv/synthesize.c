/* train_cv synthesize: synthetic FLIM cells, for demonstrations and tests. */
#include <stdio.h>

#include "base/options.h"
#include "base/program.h"
#include "base/threads.h"
#include "commands/cv/commands.h"
#include "commands/next.h"
#include "data/cv/synthetic.h"

typedef struct {
    const char *output;
    int64_t cells, donors, bins, side, seed, num_workers;
    double photons, separation, confound_size, confound_brightness;
} Options;

// clang-format off
static const OptionRow table[] = {
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = offsetof(Options, output),
     .metavar = "DIR",
     .help = "the folder that the cells are written into"},
    {.name = "cells", .type = OPTION_INT, .offset = offsetof(Options, cells), .default_value = "600",
     .min = 2, .max = 1e7, .metavar = "N",
     .help = "cells of all donors and classes together"},
    {.name = "donors", .type = OPTION_INT, .offset = offsetof(Options, donors), .default_value = "6",
     .min = 1, .max = 1000, .metavar = "N",
     .help = "donors"},
    {.name = "bins", .type = OPTION_INT, .offset = offsetof(Options, bins), .default_value = "256",
     .min = 32, .max = 1024, .metavar = "N",
     .help = "time bins"},
    {.name = "side", .type = OPTION_INT, .offset = offsetof(Options, side), .default_value = "21",
     .min = 7, .max = 64, .metavar = "N",
     .help = "pixels along x and along y"},
    {.name = "photons", .type = OPTION_FLOAT, .offset = offsetof(Options, photons), .default_value = "1",
     .min = 1e-6, .max = 1e6, .metavar = "X",
     .help = "photons per pixel, as a multiple of a real cell's"},
    {.name = "separation", .type = OPTION_FLOAT, .offset = offsetof(Options, separation), .default_value = "1",
     .min = 0, .max = 10, .metavar = "X",
     .help = "difference of the classes' decays: 1 as it may be in real cells, 0 none"},
    {.name = "confound-size", .type = OPTION_FLOAT, .offset = offsetof(Options, confound_size), .default_value = "0",
     .min = -10, .max = 10, .metavar = "X",
     .help = "active cells are 2 to the power of X times as large"},
    {.name = "confound-brightness", .type = OPTION_FLOAT, .offset = offsetof(Options, confound_brightness),
     .default_value = "0",
     .min = -10, .max = 10, .metavar = "X",
     .help = "active cells are 2 to the power of X times as bright"},
    {.name = "seed", .letter = 's', .type = OPTION_INT, .offset = offsetof(Options, seed), .default_value = "42",
     .min = 0, .max = 9e15, .metavar = "N",
     .help = "seed of all random numbers"},
    {.name = "num-workers", .type = OPTION_INT, .offset = offsetof(Options, num_workers), .default_value = "0",
     .min = 0, .max = 1024, .metavar = "N",
     .help = "threads; 0: all cores. The output does not depend on the number"},
};
// clang-format on

int cv_synthesize(int argc, char **argv) {
    static const OptionsHeader header = {"train_cv synthesize", "--output DIR [options]", "--output cells",
                                         "Writes synthetic FLIM cells."};
    Options o = {0};
    int64_t files;
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    if (!o.output) die_usage("where to? give the folder with --output DIR");
    CvSynthetic cells = {.cells = o.cells,
                         .donors = (int)o.donors,
                         .shape = {(int)o.bins, (int)o.side, (int)o.side},
                         .photons = o.photons,
                         .separation = o.separation,
                         .confound_size = o.confound_size,
                         .confound_brightness = o.confound_brightness,
                         .seed = (uint64_t)o.seed};
    MUST(cv_synthetic_write(o.output, &cells, threads_take((int)o.num_workers, "--num-workers"), &files, &error));
    printf("[Synthetic] %s: %lld cells of %lld donors, %lld x %lld pixels x %lld bins\n", o.output, (long long)files,
           (long long)o.donors, (long long)o.side, (long long)o.side, (long long)o.bins);
    next_print("doctor --data %s", o.output);
    options_free(&set, argc, argv);
    return 0;
}
