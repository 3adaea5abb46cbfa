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
    for (const char *at = format, *end; *at; at = end) {
        end = strstr(at, "%s");
        printf("%.*s", end ? (int)(end - at) : (int)strlen(at), at);
        if (!end) break;
        char *path = shell_path(va_arg(paths, const char *));
        printf("%s", path);
        free(path);
        end += strlen("%s");
    }
    printf("\n");
    va_end(paths);
}

char *next_weights(const char *run) { return path_join(run, path_holds(run, BEST_LINK) ? BEST_LINK : LAST_LINK); }
