/* Any bytes as a shard of prepare or as a file of another program, and good ones with changes (a shard without its
 * checksum, which would notice each): the first byte chooses. What opens can be read whole, and its ids are in range.
 */
#include "data/slm/shard.h"
#include "data/slm/stream.h"
#include "tests/fuzz/fuzz_file.h"

#include "data/formats/safetensors.h"

static char *path, *bin, *good;
static size_t good_size;
static int32_t llm_c[256 + 3] = {20240801, 7, 3};

static void make(void) {
    const uint16_t ids[] = {0, 5, 6, 0, 7, 0};
    const int64_t first[] = {0, 3}, bytes[] = {4, 2};
    const SlmShard shard = {
        .ids = ids, .width = 2, .n_ids = 6, .n_documents = 2, .first = first, .bytes = bytes, .vocabulary = 9};
    char *whole = path_join(fuzz_directory(), "whole.safetensors");
    if (!slm_shard_write(whole, &shard, NULL)) abort();
    good = fuzz_unsealed(whole, SAFETENSORS_SUM_KEY, &good_size);
    path = fuzz_file_named("fuzzed.safetensors");
    bin = path_join(fuzz_directory(), "fuzzed.bin");
    if (symlink(fuzz_file("", 0), bin)) abort();
    free(whole);
}

static void read_stream(const char *name, const SlmForeign *foreign) {
    Error error = {.text = ""};
    SlmStream *s = slm_stream_open(name, NULL, foreign, &error);
    if (!s) {
        if (!error.text[0]) abort();
        return;
    }
    int32_t *ids = malloc((size_t)s->n_tokens * sizeof *ids);
    slm_stream_read(s, 0, s->n_tokens, ids);
    for (int64_t i = 0; i < s->n_tokens; i++)
        if (ids[i] < 0 || ids[i] >= s->vocabulary) abort();
    if (s->n_documents < 1 || s->first[0] || s->first[s->n_documents] != s->n_tokens - 1) abort();
    for (int64_t d = 0; d < s->n_documents; d++)
        if (s->first[d] >= s->first[d + 1]) abort();
    free(ids);
    slm_stream_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!path) make();
    const bool foreign = size && data[0] & 8;
    size_t n;
    char *chosen = foreign ? fuzz_chosen((const char *)llm_c, sizeof llm_c, data, size, &n)
                           : fuzz_chosen(good, good_size, data, size, &n);
    fuzz_file(chosen, n);
    if (foreign)
        read_stream(bin, &(SlmForeign){data[0] & 16 ? 1 << 16 : 0, data[0] & 32 ? 7 : -1, data[0] & 64 ? 4 : 0});
    else
        read_stream(path, NULL);
    free(chosen);
    return 0;
}
