/* Test programs as their tests alone: TEST(name_of_the_fact) {...}. They run in the order of their lines. */
#pragma once

#include "tests/helpers.h"

/* Defines a test with what is called before and after it. */
#define TEST_WITH(name, before, after)                                                                                 \
    static void name(void);                                                                                            \
    static void run_##name(void **state) {                                                                             \
        (void)state;                                                                                                   \
        name();                                                                                                        \
    }                                                                                                                  \
    __attribute__((constructor(1000 + __LINE__))) static void add_##name(void) {                                       \
        const struct CMUnitTest test = {#name, run_##name, before, after, NULL};                                       \
        tests_add(&test, 1);                                                                                           \
    }                                                                                                                  \
    static void name(void)
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Adds tests that several programs share. */
void tests_add(const struct CMUnitTest *tests, size_t n);
/* Runs the tests between a setup and a teardown, either of which may be NULL. Returns how many failed. A program with
 * nothing to set up needs no main: tests/test.c has one. */
int tests_run(CMFixtureFunction before, CMFixtureFunction after);

/* Keep what must be freed until the program ends, and return it: any text, a new folder that is removed then, the
 * path of a file in a folder, a formatted text, and what a file holds. */
char *keep(char *text);
char *kept_folder(void);
char *kept_path(const char *folder, const char *name);
char *kept_format(const char *format, ...) PRINTF_LIKE(1, 2);
char *kept_text(const char *path);
