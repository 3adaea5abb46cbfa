/* Any bytes as the index.json of a folder of splits, and a good one with changes (without its checksum, which would
 * notice each): the first byte chooses. */
#include "base/file.h"
#include "data/psd/split_index.h"
#include "tests/fuzz/fuzz_file.h"

static const char *directory;
static char *path, *split, *good;
static size_t good_size;

static void make(void) {
    if (!freopen("/dev/null", "w", stdout)) abort();
    directory = fuzz_directory();
    path = path_join(directory, "index.json");
    split = path_join(directory, "split.json");
    if (!file_write_atomic(split, "{}", 2, NULL) || !psd_split_index_set(split, 1, NULL)) abort();
    good = fuzz_unsealed(path, "xxh3_64", &good_size);
}

static void check(bool valid, const Error *error) {
    if (!valid && !error->text[0]) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!good) make();
    fuzz_write_chosen(path, good, good_size, data, size);
    Error error = {.text = ""};
    check(psd_split_index_check(split, 1, &error), &error);
    check(psd_split_index_purge(directory, 3, &error), &error);
    return 0;
}
