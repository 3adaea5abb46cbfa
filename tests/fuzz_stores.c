/* Any bytes as a store of spectra and as one of cells, and good ones with changes (without their checksum, which would
 * notice each): the first byte chooses. What opens is in range. */
#include <limits.h>

#include "base/file.h"
#include "data/flim_cells.h"
#include "data/npy.h"
#include "data/psd_store.h"
#include "tests/fuzz_file.h"

enum { STORES = 2 };
static const char *directory;
static char *path, *good[STORES];
static size_t good_sizes[STORES];

static void write_array(const char *name, const char *dtype, const void *data, int rank, const int64_t *dims) {
    char *file = path_join(directory, name);
    if (!npy_write(file, dtype, data, rank, dims, NULL)) abort();
    free(file);
}

/* The file's bytes, with another name for the checksum. */
static void keep(int which, char *file) {
    if (!read_file(file, &good[which], &good_sizes[which], NULL)) abort();
    char *key = memmem(good[which], good_sizes[which], SAFETENSORS_SUM_KEY, strlen(SAFETENSORS_SUM_KEY));
    if (!key) abort();
    *key = 'y';
    free(file);
}

static void make(void) {
    double rows[2 * 210];
    uint16_t counts[4 * 3 * 3] = {0, 3, 7, 1, 0, 2};
    PsdStore store;
    FlimCells cells;
    if (!freopen("/dev/null", "w", stdout)) abort();
    directory = fuzz_directory();
    for (int i = 0; i < 2 * 210; i++) rows[i] = -60 + i % 7;
    write_array("a.npy", "<f8", rows, 2, (const int64_t[]){2, 210});
    char *manifest = path_join(directory, "m.csv"), *folder = path_join(directory, "cells/D1");
    static const char text[] = "npy_path,row_index,sensor_id,num_bins,label\na.npy,0,S,210,fm\na.npy,1,T,210,lte\n";
    if (!file_write_atomic(manifest, text, strlen(text), NULL)) abort();
    if (!psd_store_open(&store, manifest, NULL, NULL, 1, NULL)) abort();
    psd_store_close(&store);
    keep(0, psd_store_path(manifest));
    make_directories(folder);
    write_array("cells/D1/m1_in.npy", "<u2", counts, 3, (const int64_t[]){3, 3, 4});
    counts[3] = 9;
    write_array("cells/D1/m2_act.npy", "<u2", counts, 3, (const int64_t[]){3, 3, 4});
    char *root = path_join(directory, "cells");
    if (!flim_cells_open(&cells, root, false, 1, NULL)) abort();
    flim_cells_close(&cells);
    keep(1, flim_cells_path(root, FLIM_CELLS_ENDING));
    path = path_join(directory, "fuzzed.safetensors");
    if (symlink(fuzz_file("", 0), path)) abort(); /* its name must end so */
    free(root);
    free(folder);
    free(manifest);
}

static void read_spectra(void) {
    PsdStore s;
    Error error = {.text = ""};
    if (!psd_store_open(&s, path, NULL, NULL, 1, &error)) {
        if (!error.text[0]) abort();
        return;
    }
    double sum = 0;
    for (int64_t i = 0; i < s.n; i++) {
        if (s.sensors[i] < 0 || s.sensors[i] >= s.n_sensors || s.rows[i] < 0 || s.rows[i] >= s.n_rows) abort();
        if (s.labels[i] < 0 || s.files[i] < 0 || s.files[i] >= s.n_files || !s.sensor_names[s.sensors[i]]) abort();
        if (s.positive && (s.positive[i] < 0 || s.positive[i] >= s.n)) abort();
        for (int k = 0; k < PSD_BINS; k++) sum += (double)s.psd[i * PSD_BINS + k];
    }
    if (sum != sum) abort();
    psd_store_close(&s);
}

static void read_cells(void) {
    FlimCells c;
    Error error = {.text = ""};
    if (!flim_cells_open(&c, path, false, 1, &error)) {
        if (!error.text[0]) abort();
        return;
    }
    float *counts = malloc((size_t)c.shape.T * (size_t)c.shape.H * (size_t)c.shape.W * sizeof *counts);
    for (int64_t i = 0; i < c.n; i++) {
        if (c.donors[i] < 0 || c.donors[i] >= c.n_donors || c.fields[i] < 0 || c.fields[i] >= c.n_fields) abort();
        if (!c.file_names[i] || !c.donor_names[c.donors[i]] || !c.field_names[c.fields[i]]) abort();
        flim_cells_counts(&c, i, counts);
    }
    free(counts);
    flim_cells_close(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!path) make();
    const uint8_t *rest = size ? data + 1 : data;
    size_t n = size ? size - 1 : 0;
    int which = size ? data[0] % 2 : 0;
    char *changed = NULL;
    if (size && data[0] / 2 % 4) changed = fuzz_changed(good[which], good_sizes[which], rest, n, &n);
    fuzz_file(changed ? (const void *)changed : rest, n);
    if (which)
        read_cells();
    else
        read_spectra();
    free(changed);
    return 0;
}
