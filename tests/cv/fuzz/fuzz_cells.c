/* Any bytes as a store of cells, and a good one with changes (without its checksum, which would notice each): the first
 * byte chooses. What opens is in range. */
#include "base/file.h"
#include "data/cv/cells.h"
#include "data/formats/npy.h"
#include "tests/fuzz/fuzz_file.h"

static const char *directory;
static char *path, *good;
static size_t good_size;

static void write_array(const char *name, const uint16_t *counts) {
    char *file = path_join(directory, name);
    if (!npy_write(file, "<u2", counts, 3, (const int64_t[]){3, 3, 4}, NULL)) abort();
    free(file);
}

static void make(void) {
    uint16_t counts[4 * 3 * 3] = {0, 3, 7, 1, 0, 2};
    CvCells cells;
    if (!freopen("/dev/null", "w", stdout)) abort();
    directory = fuzz_directory();
    char *root = path_join(directory, "cells"), *donor = path_join(root, "D1");
    make_directories(donor);
    write_array("cells/D1/m1_in.npy", counts);
    counts[3] = 9;
    write_array("cells/D1/m2_act.npy", counts);
    if (!cv_cells_open(&cells, root, &(CvCellsOptions){.n_threads = 1}, NULL)) abort();
    cv_cells_close(&cells);
    char *file = cv_cells_path(root, CV_CELLS_ENDING);
    good = fuzz_unsealed(file, SAFETENSORS_SUM_KEY, &good_size);
    path = fuzz_file_named("fuzzed.safetensors");
    free(file);
    free(donor);
    free(root);
}

static void read_cells(void) {
    CvCells c;
    Error error = {.text = ""};
    if (!cv_cells_open(&c, path, &(CvCellsOptions){.n_threads = 1}, &error)) {
        if (!error.text[0]) abort();
        return;
    }
    float *counts = malloc((size_t)c.shape.T * (size_t)c.shape.H * (size_t)c.shape.W * sizeof *counts);
    for (int64_t i = 0; i < c.n; i++) {
        if (c.donors[i] < 0 || c.donors[i] >= c.n_donors || c.fields[i] < 0 || c.fields[i] >= c.n_fields) abort();
        if (!c.file_names[i] || !c.donor_names[c.donors[i]] || !c.field_names[c.fields[i]]) abort();
        cv_cells_counts(&c, i, counts);
    }
    free(counts);
    cv_cells_close(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!path) make();
    size_t n;
    char *chosen = fuzz_chosen(good, good_size, data, size, &n);
    fuzz_file(chosen, n);
    read_cells();
    free(chosen);
    return 0;
}
