/* Any bytes as a manifest of spectra and as a split file, and as a field or a part inside a good one: the first byte
 * chooses. What passes is in range. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/psd/manifest.h"

#define HEAD "npy_path,row_index,sensor_id,num_bins,center_freq_mhz,begin_freq,end_freq,snr,label,label_idx\n"
static const char *const around[][2] = {{"", ""},
                                        {HEAD, "\n"},
                                        {HEAD "a.npy,", ",S,450,806.0,796.0,816.0,12.5,lte,4\nb.npy,0,S,1,,,,,fm,2\n"},
                                        {HEAD "a.npy,3,S,450,", ",lte,4\n"},
                                        {"{\"train\": [1], \"val\": [", "], \"test\": [2]}"},
                                        {"{\"S\": {\"5\": {\"finetune\": [", "], \"test\": [2]}}}"}};
enum { PLACES = sizeof around / sizeof *around, ROWS = 100 };

static void check_manifest(char *text, size_t size) {
    PsdManifest m;
    Error error = {.text = ""};
    if (!psd_manifest_parse(text, size, &m, &error)) {
        if (!error.text[0] || m.n) abort();
        return;
    }
    for (int64_t i = 0; i < m.n; i++) {
        if (m.files[i] < 0 || m.files[i] >= m.n_files || m.sensors[i] < 0 || m.sensors[i] >= m.n_sensors) abort();
        if (m.labels[i] < 0 || m.labels[i] >= PSD_LABELS || m.row_index[i] < 0 || m.num_bins[i] < 0) abort();
        if (isinf(m.center[i]) || isinf(m.snr[i]) || m.lines[i] < 2) abort();
    }
    psd_manifest_close(&m);
}

static void check_split(const char *text, size_t size, const char *sensor, int shots) {
    PsdPartition partition;
    Error error = {.text = ""};
    if (psd_partition_parse(text, size, sensor, shots, ROWS, &partition, &error)) {
        if (!psd_partition_check(&partition, ROWS, &error)) abort();
        psd_partition_free(&partition);
    } else if (!error.text[0]) {
        abort();
    }
}

static void check_sensors(const char *text, size_t size) {
    char **names;
    int n;
    Error error = {.text = ""};
    if (!psd_partition_sensors_parse(text, size, &names, &n, &error)) {
        if (!error.text[0]) abort();
        return;
    }
    if (n < 1) abort();
    for (int i = 0; i < n; i++) {
        check_split(text, size, names[i], 5);
        free(names[i]);
    }
    free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *const *good = around[size ? data[0] % PLACES : 0];
    size_t before = strlen(good[0]), after = strlen(good[1]), n = size ? size - 1 : 0;
    char *text = malloc(before + n + after + 1);
    memcpy(text, good[0], before);
    if (n) memcpy(text + before, data + 1, n);
    memcpy(text + before + n, good[1], after + 1);
    size_t length = before + n + after;
    check_split(text, length, NULL, 0);
    check_split(text, length, "S", 0);
    check_sensors(text, length);
    check_manifest(text, length); /* changes it */
    free(text);
    return 0;
}
