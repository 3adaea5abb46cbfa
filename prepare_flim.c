/* prepare_flim: what is worth knowing of a folder of FLIM cells before train_cv is let loose on it, or a made-up
 * folder.
 *
 *   ./prepare_flim --input cells
 *
 * train_cv reads the folder itself, and prints the same tables; here they are kept as JSON too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/program.h"
#include "base/threads.h"
#include "data/flim_doctor.h"
#include "data/flim_synthetic.h"
#include "train/options.h"

typedef struct {
    const char *config, *input, *synthetic;
    int64_t cells, donors, bins, side, seed, num_workers;
    double filter_sigmas, photons, separation, confound_size, confound_brightness;
    bool compat;
} Options;

static int option_rows(Options *o, Option *rows) {
#define ROW(name, letter, type, value, preset, least, most, argument, help)                                            \
    { name, letter, NULL, type, value, preset, least, most, argument, help, false, false }
    const Option table[] = {
        ROW("input", 'i', OPTION_TEXT, &o->input, NULL, 0, 0, "DIR",
            "the cells: DIR/isolated_cells_D1/NAME_act_cell_7.npy; DIR.flim.safetensors and DIR.doctor.json are made"),
        ROW("synthetic", 0, OPTION_TEXT, &o->synthetic, NULL, 0, 0, "DIR",
            "write made-up cells into this folder, and nothing else"),
        ROW("cells", 0, OPTION_INT, &o->cells, "600", 2, 1e7, "N", "made up, of all donors and classes together"),
        ROW("donors", 0, OPTION_INT, &o->donors, "6", 1, 1000, "N", "of the made-up cells"),
        ROW("bins", 0, OPTION_INT, &o->bins, "256", 32, 1024, "N", "of time of the made-up cells"),
        ROW("side", 0, OPTION_INT, &o->side, "21", 7, 64, "N", "pixels of the made-up cells, along x and y"),
        ROW("photons", 0, OPTION_FLOAT, &o->photons, "1", 1e-6, 1e6, "X",
            "of a made-up cell's pixel: so many times those of a real one"),
        ROW("separation", 0, OPTION_FLOAT, &o->separation, "1", 0, 10, "X",
            "of the made-up classes' decays: 1 as it may be, 0 alike"),
        ROW("confound-size", 0, OPTION_FLOAT, &o->confound_size, "0", -10, 10, "X",
            "made-up active cells are 2 to the power of X times as large"),
        ROW("confound-brightness", 0, OPTION_FLOAT, &o->confound_brightness, "0", -10, 10, "X",
            "made-up active cells are 2 to the power of X times as bright"),
        ROW("filter-sigmas", 0, OPTION_FLOAT, &o->filter_sigmas, "2", 0.01, 100, "X",
            "show what the reference's filter by entropy would drop, at so many standard deviations"),
        ROW("compat", 0, OPTION_FLAG, &o->compat, "false", 0, 0, NULL,
            "take entropies as the reference does, which mistakes rows for time where there are fewer bins than rows"),
        ROW("config", 0, OPTION_TEXT, &o->config, NULL, 0, 0, "PATH",
            "YAML file with any of these options; the command line wins"),
        ROW("seed", 's', OPTION_INT, &o->seed, "42", 0, 9e15, "N", "of the made-up cells, and of intervals"),
        ROW("num-workers", 0, OPTION_INT, &o->num_workers, "0", 0, 1024, "N",
            "threads; 0: all cores. What is written does not depend on it")};
#undef ROW
    memcpy(rows, table, sizeof table);
    return sizeof table / sizeof *table;
}

static void make_synthetic(const Options *o) {
    FlimSynthetic wanted = {.cells = o->cells,
                            .donors = (int)o->donors,
                            .shape = {(int)o->bins, (int)o->side, (int)o->side},
                            .photons = o->photons,
                            .separation = o->separation,
                            .confound_size = o->confound_size,
                            .confound_brightness = o->confound_brightness,
                            .seed = (uint64_t)o->seed};
    int64_t files;
    Error error;
    if (!flim_synthetic_write(o->synthetic, &wanted, (int)o->num_workers, &files, &error)) die("%s", error.text);
    printf("[Synthetic] %s: %lld cells of %lld donors, %lld x %lld pixels x %lld bins\n", o->synthetic,
           (long long)files, (long long)o->donors, (long long)o->side, (long long)o->side, (long long)o->bins);
    char *cells = shell_path(o->synthetic);
    printf("Next: ./prepare_flim --input %s, or ./train_cv --data %s\n", cells, cells);
    free(cells);
}

static void examine(const Options *o) {
    FlimCells cells;
    Error error;
    if (!flim_cells_open(&cells, o->input, o->compat, (int)o->num_workers, &error)) die("%s", error.text);
    FlimFilter filter = flim_filter_compat(o->filter_sigmas);
    json_t *report = json_object();
    flim_doctor_cells(report, &cells, (uint64_t)o->seed);
    flim_doctor_filter(report, "reference_filter", &cells, &filter);
    char *path = flim_cells_path(o->input, ".doctor.json");
    char *text = json_text(path, report, JSON_INDENT(1));
    file_remove_stale(path);
    if (!file_write_atomic(path, text, strlen(text), &error)) die("%s", error.text);
    char *folder = shell_path(o->input);
    printf("[Doctor] %s\nNext: ./train_cv --data %s\n", path, folder);
    free(folder);
    free(text);
    free(path);
    json_decref(report);
    flim_cells_close(&cells);
}

int main(int argc, char **argv) {
    static const OptionsHeader header = {"prepare_flim", "./prepare_flim --input DIR [options]",
                                         "Reads FLIM cells into one file, and says what is odd about them."};
    Options o = {0};
    Option rows[OPTIONS_MOST];
    int count = option_rows(&o, rows);
    program_start();
    options_parse(&header, rows, count, argc, argv);
    if (!!o.input + !!o.synthetic != 1) die_usage("give one of --input DIR and --synthetic DIR");
    o.num_workers = threads_take((int)o.num_workers, "--num-workers");
    if (o.synthetic)
        make_synthetic(&o);
    else
        examine(&o);
    return 0;
}
