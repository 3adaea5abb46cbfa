#include "tests/test.h"

enum { MOST_TESTS = 64 };
static struct CMUnitTest all[MOST_TESTS];
static size_t n_all;

void tests_add(const struct CMUnitTest *tests, size_t n) {
    if (n_all + n > MOST_TESTS) die("tests_add: more than %d tests", MOST_TESTS);
    memcpy(all + n_all, tests, n * sizeof *tests);
    n_all += n;
}

int tests_run(CMFixtureFunction before, CMFixtureFunction after) {
    if (!n_all) die("there is no test in this program");
    return _cmocka_run_group_tests("tests", all, n_all, before, after);
}

char *keep(char *text) {
    static char **kept;
    static size_t n;
#pragma omp critical(keep)
    {
        kept = xrealloc(kept, (n + 1) * sizeof *kept);
        kept[n++] = text;
    }
    return text;
}

char *kept_folder(void) { return keep(scratch_directory()); }
char *kept_path(const char *folder, const char *name) { return keep(path_join(folder, name)); }
char *kept_text(const char *path) { return keep(read_text(path)); }

char *kept_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = vxformat(format, arguments);
    va_end(arguments);
    return keep(text);
}

__attribute__((weak)) int main(void) { return tests_run(NULL, NULL); }
