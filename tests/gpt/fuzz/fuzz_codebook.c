/* Any bytes as codebook.json, and a good one with changes (without its checksum, which would notice each): the first
 * byte chooses. */
#include <math.h>

#include "base/file.h"
#include "data/gpt/speech_coder.h"
#include "tests/fuzz/fuzz_file.h"

static char *facts, *entries, *good;
static size_t good_size;

static void make(void) {
    const char *directory = fuzz_directory();
    facts = path_join(directory, "codebook.json");
    entries = path_join(directory, "codebook.npy");
    float *values = xcalloc(2 * MEL_BANDS, sizeof *values);
    SpeechCoder coder = {.codebook = codebook_of(values, 2, MEL_BANDS), .seed = 1, .frames = 2};
    for (int b = 0; b < MEL_BANDS; b++) coder.deviation[b] = 1;
    if (!speech_coder_write(entries, &coder, NULL)) abort();
    speech_coder_close(&coder);
    good = fuzz_unsealed(facts, "xxh3_64", &good_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!good) make();
    fuzz_write_chosen(facts, good, good_size, data, size);
    SpeechCoder coder;
    Error error = {.text = ""};
    if (speech_coder_read(entries, &coder, &error)) {
        for (int b = 0; b < MEL_BANDS; b++)
            if (!isfinite(coder.mean[b]) || !(coder.deviation[b] > 0)) abort();
        speech_coder_close(&coder);
    } else if (!error.text[0]) {
        abort();
    }
    return 0;
}
