/* Reads any bytes as a file that programs keep for themselves (a ledger, measured rates), and valid files with changes
 * and without their checksum, which would detect every change. The first byte chooses. */
#include "base/file.h"
#include "cost/rates.h"
#include "data/ledger.h"
#include "tests/fuzz/fuzz_file.h"

static const char *const names[] = {"ledger.jsonl", "rates.json"};
enum { LEDGER, RATES, KINDS };
static char *paths[KINDS], *good[KINDS];
static size_t good_sizes[KINDS];

static void make(void) {
    Rates rates = {.device = "x", .date = "2026-01-02", .launch = 1, .bytes = {2, 1, {1, 2}, {1, 3}}};
    rates.flops[WORK_PRODUCT][NUMBERS_F32][0] = (RateCurve){2, 1, {1, 9}, {1, 5}};
    if (!freopen("/dev/null", "w", stdout)) abort();
    const char *directory = fuzz_directory();
    for (int i = 0; i < KINDS; i++) paths[i] = path_join(directory, names[i]);
    Ledger *ledger = ledger_open(paths[LEDGER], NULL);
    if (!ledger || !ledger_add(ledger, "audio", "a", json_build("x", "{s:s, s:f}", "key", "1", "n", 0.5), NULL))
        abort();
    ledger_close(ledger);
    Error error;
    if (!rates_write(paths[RATES], &rates, &error)) abort();
    for (int i = 0; i < KINDS; i++) good[i] = fuzz_unsealed(paths[i], "xxh3_64", &good_sizes[i]);
}

static void check(bool ok, const Error *error) {
    if (!ok && !error->text[0]) abort();
}

static void read_kept(int which) {
    Error error = {.text = ""};
    if (which == LEDGER) {
        Ledger *ledger = ledger_open(paths[LEDGER], &error);
        check(ledger != NULL, &error);
        if (ledger) ledger_find(ledger, "audio", "a");
        if (ledger && !ledger_add(ledger, "audio", "b", json_object(), &error)) abort();
        ledger_close(ledger);
    } else {
        Rates rates;
        char devices[4][128];
        if (rates_read(paths[RATES], "x", &rates, &error) && !(rate_curve_at(&rates.bytes, 7) > 0)) abort();
        rates_devices(paths[RATES], devices, 4, &error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!*good) make();
    const uint8_t *rest = size ? data + 1 : data;
    size_t n = size ? size - 1 : 0;
    int which = size ? data[0] % KINDS : 0;
    char *changed = NULL;
    if (size && data[0] / KINDS % 4) changed = fuzz_changed(good[which], good_sizes[which], rest, n, &n);
    fuzz_write(paths[which], changed ? changed : (const char *)rest, n);
    read_kept(which);
    free(changed);
    return 0;
}
