/* For tests that run train_cv as a user runs it. What the program printed last is fixture.output. */
#pragma once

#include "tests/train_rig.h"

/* Runs train_cv with these words; returns the exit status. */
int cv(const char *format, ...) PRINTF_LIKE(1, 2);
/* Runs train_cv, which must succeed. */
#define must(...)                                                                                                      \
    do {                                                                                                               \
        int status_ = cv(__VA_ARGS__);                                                                                 \
        if (status_) fail_msg("exit status %d:\n%s", status_, fixture.output);                                         \
    } while (0)

/* Writes small cells of three donors, and their number to written. Returns their folder. */
char *cv_make_cells(int cells, int64_t *written);
