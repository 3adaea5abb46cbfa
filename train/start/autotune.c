#include "train/start/autotune.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "train/parallel/ranks.h"

static char *autotune_path(const Training *t, const char *directory) {
    bool shared =
        t->spec.autotune_file && file_is_same(directory, t->spec.options->output_dir); /* several runs use one file */
    return shared ? xstrdup(t->spec.autotune_file) : path_join(directory, "choices.txt");
}

static const char CHECKSUM_KEY[] = "xxh3_64 "; /* begins the last line: the checksum of the lines above it */

void train_write_autotune_cache(Training *t, const char *directory) {
    OWNED char *text = t->spec.device->autotune_cache ? t->spec.device->autotune_cache(t->spec.device) : NULL,
               *path = autotune_path(t, directory);
    size_t length = text ? strlen(text) : 0;
    Error error;
    if (!ranks_write()) return;
    if (text && length != t->autotune_length) {
        OWNED char *summed =
            xformat("%s%s%016llx\n", text, CHECKSUM_KEY, (unsigned long long)checksum(0, text, length));
        if (file_write_atomic(path, summed, strlen(summed), &error))
            t->autotune_length = length;
        else
            warn("the autotune cache could not be written: %s; the next checkpoint tries again", error.text);
    }
}

/* Checks the last line, if it is a checksum, and removes the line. */
static bool check_autotune(char *text, Error *error) {
    char *last = text + strlen(text);
    while (last > text && (last[-1] != '\n' || !last[0])) last--;
    if (strncmp(last, CHECKSUM_KEY, strlen(CHECKSUM_KEY))) return true;
    uint64_t stated = strtoull(last + strlen(CHECKSUM_KEY), NULL, 16);
    *last = 0;
    return stated == checksum(0, text, (size_t)(last - text)) ||
           error_set(error, "the checksum is wrong: the file was changed or damaged");
}

void autotune_load(Training *t) {
    OWNED char *path = autotune_path(t, t->spec.options->output_dir), *text = NULL;
    size_t size;
    Error error;
    if (t->spec.device->load_autotune_cache && !access(path, F_OK) &&
        (!read_file(path, &text, &size, &error) || !check_autotune(text, &error) ||
         !t->spec.device->load_autotune_cache(t->spec.device, text, &error)))
        warn("%s: %s: the fastest kernels are chosen again, and results may differ in the last bits", path, error.text);
}
