/* What the tests share: cmocka's includes in their order, scratch directories, programs and functions run in a child.
 */
#ifndef TESTS_HELPERS_H
#define TESTS_HELPERS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

/* A fresh directory under $TMPDIR or /tmp, removed when the test program ends. free() the name if you like. */
char *scratch_directory(void);
const char *run_directory(void); /* the same, with a name that is not to be freed */
void write_text(const char *path, const char *format, ...) PRINTF_LIKE(2, 3);
void write_bytes(const char *path, const void *bytes, size_t size);
char *read_text(const char *path); /* fails the test if it cannot */

/* Runs a shell command, or a function in a forked child; stdout and stderr, together, go to `output` (cut at size - 1).
 * Returns the exit status, 128 + signal if it was killed. */
int run_command(char *output, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
int run_function(char *output, size_t size, void (*function)(void *), void *argument);

/* Undoes what nohup and the & of a script do: they let a program ignore SIGHUP and SIGINT. For tests that send them. */
void heed_signals(void);

int first_cpu(void); /* that this process may use */

void assert_contains(const char *text, const char *part);
/* |got - want| <= tolerance; a NaN is near nothing. (To cmocka's assert_float_equal it equals everything.) */
#define assert_near(got, want, tolerance)                                                                              \
    do {                                                                                                               \
        double got_ = (double)(got), want_ = (double)(want);                                                           \
        if (!(got_ == want_ || fabs(got_ - want_) <= (double)(tolerance)))                                             \
            fail_msg("got %.9g, want %.9g", got_, want_);                                                              \
    } while (0)
/* |got - want|_2 / |want|_2 in double; norm-wise, 0 if both are 0. */
double relative_error(const float *got, const float *want, int64_t n);
void assert_close(const char *what, const float *got, const float *want, int64_t n, double tolerance);

#endif
