/* Shared by all tests: the includes of cmocka in the required order, scratch directories, and programs and functions
 * run in a child process. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"

/* Returns a new directory under $TMPDIR or /tmp, which is removed when the test program ends; free() the name. */
char *scratch_directory(void);
const char *run_directory(void); /* the same; do not free() the name */
void write_text(const char *path, const char *format, ...) PRINTF_LIKE(2, 3);
void write_bytes(const char *path, const void *bytes, size_t size);
char *read_text(const char *path); /* fails the test if the file cannot be read; free() */

/* Makes a symbolic link, or on a disk without them a small file with the target. */
void make_link(const char *target, const char *path);
/* Returns a path with such a file in it followed, if that is a run's; free(). */
char *follow_link(const char *path);
/* Returns path_join(run, name) so followed: where "last/model.safetensors" is now; free(). */
char *path_through(const char *run, const char *name);
/* Returns whether the disk of the scratch directories has symbolic links. */
bool has_links(void);
/* Skips the calling test on a disk without symbolic links. */
void need_links(void);

/* Run a shell command, or a function in a forked child. Write stdout and stderr together to `output`, cut at size - 1.
 * Return the exit status, or 128 + the signal that killed it. Paths in the command that lead through RUN/last or
 * RUN/best, where a small file stands for the link, are followed, since other programs do not do so. */
int run_command(char *output, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
int run_function(char *output, size_t size, void (*function)(void *), void *argument);
/* Fails unless a function ends a child process as a wrong option does: exit status 2, and this message. */
void assert_dies(void (*function)(void *), void *argument, const char *message);

/* Makes SIGHUP and SIGINT have an effect again, which nohup and & in a script make a program ignore. For tests that
 * send these signals. */
void heed_signals(void);

/* Skips a test that cannot run under the address sanitizer. `what` names what is not tested. */
static inline void skip_under_sanitizer(const char *what) {
    (void)what;
#ifdef __SANITIZE_ADDRESS__
    fprintf(stderr, "SKIPPED: %s, under the sanitizer\n", what);
    skip();
#endif
}

/* Lets TEST_FILTER=NAME select tests by name, before main: * stands for any characters, ? for any one. */
void choose_tests(void);

/* Returns the first CPU that this process may use. */
int first_cpu(void);

void assert_contains(const char *text, const char *part);
/* Fails unless |got - want| <= tolerance. A NaN fails; cmocka's assert_float_equal would accept it. */
#define assert_near(got, want, tolerance)                                                                              \
    do {                                                                                                               \
        double got_ = (double)(got), want_ = (double)(want);                                                           \
        if (!(got_ == want_ || fabs(got_ - want_) <= (double)(tolerance)))                                             \
            fail_msg("got %.9g, want %.9g", got_, want_);                                                              \
    } while (0)
/* Returns |got - want|_2 / |want|_2 in double; 0 if both norms are 0. */
double relative_error(const float *got, const float *want, int64_t n);
void assert_close(const char *what, const float *got, const float *want, int64_t n, double tolerance);
