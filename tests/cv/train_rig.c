#include "tests/cv/train_rig.h"

#include "data/cv/synthetic.h"

int cv(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = run_program(fixture.output, sizeof fixture.output, "train_cv", format, arguments);
    va_end(arguments);
    return status;
}

char *cv_make_cells(int cells, int64_t *written) {
    CvSynthetic wanted = {.cells = cells, .donors = 3, .shape = {32, 7, 7}, .photons = 1, .separation = 2, .seed = 5};
    char *directory = kept_path(kept_folder(), "cells");
    Error error;
    if (!cv_synthetic_write(directory, &wanted, 2, written, &error)) fail_msg("%s", error.text);
    return directory;
}
