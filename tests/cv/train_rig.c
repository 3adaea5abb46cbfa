#include "tests/cv/train_rig.h"

int cv(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = run_program(fixture.output, sizeof fixture.output, "train_cv", format, arguments);
    va_end(arguments);
    return status;
}
