#include "commands/next.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/program.h"
#include "checkpoint/folder.h"

void next_print(const char *format, ...) {
    va_list paths;
    va_start(paths, format);
    printf("Next: %s ", program_as_called());
    for (const char *end; (end = strstr(format, "%s")); format = end + strlen("%s")) {
        printf("%.*s", (int)(end - format), format);
        OWNED char *path = shell_path(va_arg(paths, const char *));
        printf("%s", path);
    }
    printf("%s\n", format);
    va_end(paths);
}

void next_print_options(const char *command, const char *const *options) {
    printf("Next: %s%s%s", program_as_called(), *command ? " " : "", command);
    for (; *options; options += 2) {
        OWNED char *value = options[1] ? shell_path(options[1]) : NULL;
        if (value) printf(" %s %s", options[0], value);
    }
    printf("\n");
}

char *next_batch(int64_t samples, int64_t usual, int64_t least) {
    if (usual <= samples) return NULL;
    int64_t size = least;
    while (4 * size <= samples) size *= 2;
    return xformat("%lld", (long long)size);
}

char *next_weights(const char *run) { return path_join(run, path_holds(run, BEST_LINK) ? BEST_LINK : LAST_LINK); }
