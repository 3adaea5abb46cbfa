/* Any bytes as what programs keep for themselves: a ledger, an index of splits, measured rates, a codebook; and good
 * ones with changes (without their checksum, which would notice each): the first byte chooses. */
#include <math.h>

#include "base/file.h"
#include "data/ledger.h"
#include "data/psd_splits.h"
#include "data/speech_coder.h"
#include "tests/fuzz_file.h"
#include "train/rates.h"

static const char *const names[] = {"ledger.jsonl", "index.json", "rates.json", "codebook.json"};
enum { LEDGER, INDEX, RATES, CODEBOOK, KINDS };
static const char *directory;
static char *paths[KINDS], *split, *entries, *good[KINDS];
static size_t good_sizes[KINDS];

static void make_codebook(void) {
    float *values = xcalloc(2 * MEL_BANDS, sizeof *values);
    SpeechCoder coder = {.codebook = codebook_of(values, 2, MEL_BANDS), .seed = 1, .frames = 2};
    for (int b = 0; b < MEL_BANDS; b++) coder.deviation[b] = 1;
    if (!speech_coder_write(entries, &coder, NULL)) abort();
    speech_coder_close(&coder);
}

static void make(void) {
    Rates rates = {.device = "x", .date = "2026-01-02", .launch = 1, .bytes = {2, 1, {1, 2}, {1, 3}}};
    rates.flops[WORK_PRODUCT][NUMBERS_F32][0] = (Curve){2, 1, {1, 9}, {1, 5}};
    if (!freopen("/dev/null", "w", stdout)) abort();
    directory = fuzz_directory();
    for (int i = 0; i < KINDS; i++) paths[i] = path_join(directory, names[i]);
    split = path_join(directory, "split.json");
    entries = path_join(directory, "codebook.npy");
    Ledger *ledger = ledger_open(paths[LEDGER], NULL);
    if (!ledger || !ledger_add(ledger, "audio", "a", json_build("x", "{s:s, s:f}", "key", "1", "n", 0.5), NULL))
        abort();
    ledger_close(ledger);
    if (!file_write_atomic(split, "{}", 2, NULL) || !psd_split_index_set(split, 1, NULL)) abort();
    Error error;
    if (!rates_write(paths[RATES], &rates, &error)) abort();
    make_codebook();
    for (int i = 0; i < KINDS; i++) {
        if (!read_file(paths[i], &good[i], &good_sizes[i], NULL)) abort();
        char *key = memmem(good[i], good_sizes[i], "xxh3_64", 7);
        if (!key) abort();
        *key = 'y';
    }
}

static void check(bool fine, const Error *error) {
    if (!fine && !error->text[0]) abort();
}

static void read_kept(int which) {
    Error error = {.text = ""};
    if (which == LEDGER) {
        Ledger *ledger = ledger_open(paths[LEDGER], &error);
        check(ledger != NULL, &error);
        if (ledger) ledger_find(ledger, "audio", "a");
        if (ledger && !ledger_add(ledger, "audio", "b", json_object(), &error)) abort();
        ledger_close(ledger);
    } else if (which == INDEX) {
        check(psd_split_belongs(split, 1, &error), &error);
        check(psd_split_index_purge(directory, 3, &error), &error);
    } else if (which == RATES) {
        Rates rates;
        char devices[4][128];
        if (rates_read(paths[RATES], "x", &rates, &error) && !(curve_at(&rates.bytes, 7) > 0)) abort();
        rates_devices(paths[RATES], devices, 4, &error);
    } else {
        SpeechCoder coder;
        bool fine = speech_coder_read(entries, &coder, &error);
        check(fine, &error);
        for (int b = 0; fine && b < MEL_BANDS; b++)
            if (!isfinite(coder.mean[b]) || !(coder.deviation[b] > 0)) abort();
        if (fine) speech_coder_close(&coder);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!split) make();
    const uint8_t *rest = size ? data + 1 : data;
    size_t n = size ? size - 1 : 0;
    int which = size ? data[0] % KINDS : 0;
    char *changed = NULL;
    if (size && data[0] / KINDS % 4) changed = fuzz_changed(good[which], good_sizes[which], rest, n, &n);
    FILE *file = fopen(paths[which], "wb");
    if (!file || fwrite(changed ? (const void *)changed : rest, 1, n, file) != n || fclose(file)) abort();
    read_kept(which);
    free(changed);
    return 0;
}
