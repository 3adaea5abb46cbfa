/* Loads NVIDIA's libraries at run time. */
#include "kernels/cuda/libraries/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *library_open(const char *file, char problem[LIBRARY_FILE]) {
    const char *absent = ": cannot open shared object file: No such file or directory";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? NULL : dlerror();
    bool found = reason && (strncmp(reason, file, strlen(file)) != 0 || strcmp(reason + strlen(file), absent) != 0);
    bool other = found && !strstr(reason, file); /* a library that this one needs */
    snprintf(problem, LIBRARY_FILE, "%s%s%s", other ? file : "", other ? " needs " : "", found ? reason : "");
    return library;
}

void library_path(void *library, char path[LIBRARY_FILE]) {
    struct link_map *place = NULL;
    char *resolved = dlinfo(library, RTLD_DI_LINKMAP, &place) == 0 ? realpath(place->l_name, NULL) : NULL;
    snprintf(path, LIBRARY_FILE, "%s", resolved ? resolved : "");
    free(resolved);
}

bool library_load(const LibrarySpec *spec, void *call, char description[LIBRARY_DESCRIPTION]) {
    const char *named = getenv(spec->variable), *only[] = {named, NULL}, *file = NULL;
    char problem[LIBRARY_FILE] = "";
    void *library = NULL;
    if (named && !strcmp(named, "none")) {
        snprintf(description, LIBRARY_DESCRIPTION, "%s: %s=none", spec->substitute, spec->variable);
        return false;
    }
    for (const char *const *at = named ? only : spec->files; *at && !library && !problem[0]; at++)
        library = library_open(file = *at, problem);
    if (!library) {
        snprintf(description, LIBRARY_DESCRIPTION, "%s: %s%s", spec->substitute,
                 problem[0] ? problem
                 : named    ? named
                            : spec->title,
                 problem[0] ? "" : " is not installed");
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
    library_path(library, description);
    return true;
}

/* Both libraries count a major version as 1000 in the versions before two-digit minor numbers, and as 10000 since:
 * cuBLAS 10.2 is 10202, cuDNN 8.9 is 8907. */
const char *library_version(size_t version, char text[LIBRARY_VERSION]) {
    size_t step = version >= 90000 ? 10000 : 1000;
    snprintf(text, LIBRARY_VERSION, "%zu.%zu.%zu", version / step, version % step / 100, version % 100);
    return text;
}

void library_describe(size_t version, char description[LIBRARY_DESCRIPTION]) {
    char text[LIBRARY_VERSION], path[LIBRARY_FILE];
    snprintf(path, sizeof path, "%s", description);
    snprintf(description, LIBRARY_DESCRIPTION, "%s: %s", library_version(version, text), path);
}
