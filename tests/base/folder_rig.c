#include "tests/base/folder_rig.h"

const char *root;

int fresh(void **state) {
    (void)state;
    root = run_directory();
    return 0;
}

const char *in(const char *name) {
    static char *last[8];
    static int at;
    at = (at + 1) % 8;
    free(last[at]);
    return last[at] = path_join(root, name);
}

const char *listing(void) {
    static char names[1024];
    run_command(names, sizeof names, "ls -A %s | tr '\\n' ' '", root);
    return names;
}

void expect_text(const char *path, const char *want) { assert_string_equal(kept_text(path), want); }

void must_write(const char *path, const char *text) {
    Error error;
    if (!file_write_atomic(path, text, strlen(text), &error)) fail_msg("%s", error.text);
}
