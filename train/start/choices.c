#include "train/start/choices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static char *choices_path(const Training *t, const char *directory) {
    bool shared = t->spec.choices && file_is_same(directory, t->spec.options->output_dir); /* by several runs */
    return shared ? xstrdup(t->spec.choices) : path_join(directory, "choices.txt");
}

static const char CHOICES_SUM[] = "xxh3_64 "; /* begins the last line: the checksum of the lines above it */

void train_keep_choices(Training *t, const char *directory) {
    char *text = t->spec.device->choices ? t->spec.device->choices(t->spec.device) : NULL,
         *path = choices_path(t, directory);
    size_t length = text ? strlen(text) : 0;
    Error error;
    if (text && length != t->kept_choices) {
        char *summed = xformat("%s%s%016llx\n", text, CHOICES_SUM, (unsigned long long)checksum(0, text, length));
        if (file_write_atomic(path, summed, strlen(summed), &error))
            t->kept_choices = length;
        else
            warn("the autotune cache could not be written: %s; the next checkpoint tries again", error.text);
        free(summed);
    }
    free(text);
    free(path);
}

/* Checks the last line, if it is a checksum, and removes the line. */
static bool check_choices(char *text, Error *error) {
    char *last = text + strlen(text);
    while (last > text && (last[-1] != '\n' || !last[0])) last--;
    if (strncmp(last, CHOICES_SUM, strlen(CHOICES_SUM))) return true;
    uint64_t stated = strtoull(last + strlen(CHOICES_SUM), NULL, 16);
    *last = 0;
    return stated == checksum(0, text, (size_t)(last - text)) ||
           error_set(error, "the checksum is wrong: the file was changed or damaged");
}

void choices_take(Training *t) {
    char *path = choices_path(t, t->spec.options->output_dir), *text = NULL;
    size_t size;
    Error error;
    if (t->spec.device->choose && !access(path, F_OK) &&
        (!read_file(path, &text, &size, &error) || !check_choices(text, &error) ||
         !t->spec.device->choose(t->spec.device, text, &error)))
        warn("%s: %s: the fastest kernels are chosen again, and results may differ in the last bits", path, error.text);
    free(text);
    free(path);
}
