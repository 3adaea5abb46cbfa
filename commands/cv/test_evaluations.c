#include "commands/cv/test_evaluations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "page/log.h"

static char *record_path(const char *directory) { return path_join(directory, "test_evaluations.jsonl"); }

/* Adds a line to a locked file by replacing the whole file, so that a line cut off by a kill or a full disk swallows no
 * other. */
static void add_line(const char *path, const char *line) {
    OWNED char *before = NULL;
    size_t size = 0;
    FileWriter file;
    if (!access(path, F_OK)) MUST_OR(read_file(path, &before, &size, &error), "%s: %s", path, error.text);
    MUST(file_begin(&file, path, 0, &error));
    file_put(&file, before, size);
    if (size && before[size - 1] != '\n') file_put(&file, "\n", 1);
    file_put(&file, line, strlen(line));
    file_put(&file, "\n", 1);
    MUST(file_end(&file, &error));
}

static int64_t count_evaluations(const char *path, const char *fold) {
    json_t *records = log_read(path), *record;
    int64_t n = 0;
    size_t i;
    json_array_foreach(records, i, record) {
        const char *name = json_string_value(json_object_get(record, "fold"));
        n += name && !strcmp(name, fold);
    }
    json_decref(records);
    return n;
}

void cv_test_evaluations_add(const char *directory, const CvTestEvaluation *e) {
    char *path = record_path(directory), when[32];
    FileLock lock;
    MUST(file_lock(&lock, path, &error)); /* another fold's program may add a line */
    int64_t before = count_evaluations(path, e->fold);
    json_auto_t *record =
        json_build("the record of a test", "{s:s, s:s, s:s, s:s, s:s?}", "time", format_now(when), "fold", e->fold,
                   "weights", e->weights, "revision", e->revision, "base_checkpoint", e->base_checkpoint);
    OWNED char *text = json_text("the record of a test", record, 0);
    add_line(path, text);
    file_unlock(&lock);
    if (before)
        printf("[Test] fold %s has been tested %lld times before (%s): settings chosen since then have seen its test "
               "donor\n",
               e->fold, (long long)before, path);
    free(path);
}

void cv_test_evaluations_clean(const char *directory) {
    OWNED char *path = record_path(directory);
    file_remove_stale(path);
}
