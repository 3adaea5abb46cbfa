/* Any bytes as a store of spectra, and a good one with changes (without its checksum, which would notice each): the
 * first byte chooses. What opens is in range. */
#include "base/file.h"
#include "data/formats/npy.h"
#include "data/psd/store.h"
#include "tests/fuzz/fuzz_file.h"

static char *path, *good;
static size_t good_size;

static void make(void) {
    static const char text[] = "npy_path,row_index,sensor_id,num_bins,label\na.npy,0,S,210,fm\na.npy,1,T,210,lte\n";
    double rows[2 * 210];
    PsdStore store;
    if (!freopen("/dev/null", "w", stdout)) abort();
    const char *directory = fuzz_directory();
    char *manifest = path_join(directory, "m.csv"), *array = path_join(directory, "a.npy");
    for (int i = 0; i < 2 * 210; i++) rows[i] = -60 + i % 7;
    if (!npy_write(array, "<f8", rows, 2, (const int64_t[]){2, 210}, NULL)) abort();
    if (!file_write_atomic(manifest, text, strlen(text), NULL)) abort();
    if (!psd_store_open(&store, manifest, NULL, NULL, 1, NULL)) abort();
    psd_store_close(&store);
    char *file = psd_store_path(manifest);
    good = fuzz_unsealed(file, SAFETENSORS_SUM_KEY, &good_size);
    path = fuzz_file_named("fuzzed.safetensors");
    free(file);
    free(manifest);
    free(array);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!path) make();
    size_t n;
    char *chosen = fuzz_chosen(good, good_size, data, size, &n);
    fuzz_file(chosen, n);
    read_spectra();
    free(chosen);
    return 0;
}
