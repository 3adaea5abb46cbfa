/* Reads any bytes as the log.jsonl of a run, and as values in valid records. */
#include "commands/cv/report/epoch_curves.h"
#include "tests/fuzz/fuzz_file.h"
#include "train/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(2 * size + 512);
    int n = sprintf(text, "{\"kind\": \"train\", \"step\": 1, \"train/loss\": 1, \"train/epoch\": ");
    const uint8_t *line = memchr(data, '\n', size);
    size_t value = line ? (size_t)(line - data) : size;
    for (int whole = 0; whole < 2; whole++) {
        size_t at = whole ? 0 : (size_t)n;
        memcpy(text + at, data, whole ? size : value);
        at += whole ? size : value;
        if (!whole) at += (size_t)sprintf(text + at, "}\n{\"step\": 1, \"val/loss\": 2}\n");
        EpochCurves c = epoch_curves_read(fuzz_file(text, at));
        if (c.n < 0 || c.n > MAX_EPOCHS || c.left_out < 0) abort();
        for (int i = 0; i < EPOCH_CURVES; i++)
            if (!c.values[i] != !c.n) abort();
        epoch_curves_free(&c);
    }
    free(text);
    return 0;
}
