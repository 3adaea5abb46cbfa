/* Any bytes as --class-table, and the first line of them as --class-words: labels are in range. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/cv/cell_classes.h"
#include "tests/fuzz/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *path;
    if (!path) path = fuzz_file_named("classes.csv");
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    char *words = end ? strndup((const char *)data, (size_t)(end - data)) : NULL;
    fuzz_file((const char *)data, size);
    CellClasses classes;
    Error error = {.text = ""};
    for (int k = 0; k < 2; k++) {
        if (!cell_classes_open(&classes, k ? words : NULL, k ? NULL : path, &error)) {
            if (!error.text[0]) abort();
            continue;
        }
        CvCellName parsed;
        cell_classes_of_file(&classes, "D1/active/m1_in_1.npy", &parsed, &error);
        if (parsed.label < -1 || parsed.label >= CV_CLASSES || cell_classes_unused(&classes) < 0) abort();
        cell_classes_close(&classes);
    }
    free(words);
    return 0;
}
