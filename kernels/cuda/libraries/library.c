/* Loads NVIDIA's libraries at run time. */
#include "kernels/cuda/libraries/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool library_load(const LibrarySpec *spec, void *call, char description[LIBRARY_DESCRIPTION]) {
    const char *named = getenv(spec->variable), *only[] = {named, NULL}, *file = NULL;
    void *library = NULL;
    if (named && !strcmp(named, "none")) {
        snprintf(description, LIBRARY_DESCRIPTION, "%s: %s=none", spec->substitute, spec->variable);
        return false;
    }
    for (const char *const *at = named ? only : spec->files; *at && !library; at++)
        library = dlopen(file = *at, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(description, LIBRARY_DESCRIPTION, "%s: %.80s is not installed", spec->substitute,
                 named ? named : spec->title);
        return false;
    }
    for (size_t i = 0; spec->functions[i]; i++) {
        void *function = dlsym(library, spec->functions[i]);
        memcpy((void **)call + i, &function, sizeof function);
        if (!function) {
            snprintf(description, LIBRARY_DESCRIPTION, "%s: %.60s has no %s", spec->substitute, file,
                     spec->functions[i]);
            return false;
        }
    }
    return true;
}

/* Both libraries count a major version as 1000 in the versions before two-digit minor numbers, and as 10000 since:
 * cuBLAS 10.2 is 10202, cuDNN 8.9 is 8907. */
const char *library_version(size_t version, char text[LIBRARY_VERSION]) {
    size_t step = version >= 90000 ? 10000 : 1000;
    snprintf(text, LIBRARY_VERSION, "%zu.%zu.%zu", version / step, version % step / 100, version % 100);
    return text;
}
