/* Loads NVIDIA's libraries at run time. */
#include "kernels/cuda/libraries/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

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

/* Where toolkits and packages put libraries. The system knows few of these folders: on an image with PyTorch, cuBLASLt
 * lies in site-packages. A pattern begins with the value of the variable that it names; $PYTHON is the prefix of the
 * python3 of $PATH. */
static const char *const FOLDERS[] = {
    "$CUDA_HOME/lib64",
    "$CUDA_PATH/lib64",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda-*/lib64",
    "/opt/cuda/lib64",
    "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
    "$PYTHON/lib/python3*/{site,dist}-packages/nvidia/*/lib",
    "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib",
    "$CONDA_PREFIX/lib",
    "$HOME/.local/lib/python3*/site-packages/nvidia/*/lib",
    "$HOME/{.venv,venv}/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/{site,dist}-packages/nvidia/*/lib",
    "/usr/lib/python3*/dist-packages/nvidia/*/lib",
    "/opt/{*,*/.venv,*/venv}/lib/python3*/site-packages/nvidia/*/lib",
    "{/venv/*,/workspace/.venv,/workspace/venv}/lib/python3*/site-packages/nvidia/*/lib",
    NULL,
};
/* Where the driver's libraries are mounted in containers that do not tell the system: by Kubernetes' device plugins,
 * and by WSL; and where NixOS has them. */
static const char *const DRIVER_FOLDERS[] = {"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib",
                                             "/run/opengl-driver/lib", NULL};

/* Returns the folder above bin/python3 of the first such program in $PATH: free(); NULL: there is none. */
static char *python_prefix(void) {
    const char *path = getenv("PATH");
    for (const char *at = path ? path : ""; *at; at += strcspn(at, ":"), at += *at == ':') {
        int length = (int)strcspn(at, ":");
        char *program = xformat("%.*s/python3", length, at);
        bool found = length >= 4 && !strncmp(at + length - 4, "/bin", 4) && !access(program, X_OK);
        free(program);
        if (found) return xformat("%.*s", length - 4, at);
    }
    return NULL;
}

/* Replaces the variable at the beginning of a pattern: free(); NULL: it is not set. */
static char *expand(const char *pattern) {
    if (pattern[0] != '$') return xstrdup(pattern);
    size_t length = strcspn(pattern, "/");
    char *name = xformat("%.*s", (int)length - 1, pattern + 1);
    const char *value = getenv(name);
    char *python = strcmp(name, "PYTHON") ? NULL : python_prefix(), *expanded = NULL;
    if (python || (value && value[0] == '/')) expanded = xformat("%s%s", python ? python : value, pattern + length);
    free(python);
    free(name);
    return expanded;
}

/* Opens a file of this name in one of the folders. Returns NULL if there is none, or with the reason why it cannot be
 * loaded. */
static void *open_in_folders(const char *const *folders, const char *file, char problem[LIBRARY_FILE]) {
    void *library = NULL;
    for (; *folders && !library; folders++) {
        char *folder = expand(*folders), *pattern = folder ? xformat("%s/%s", folder, file) : NULL;
        glob_t found = {0};
        if (pattern && !glob(pattern, GLOB_BRACE, NULL, &found))
            for (size_t k = found.gl_pathc; k-- && !library;) library = library_open(found.gl_pathv[k], problem);
        globfree(&found);
        free(pattern);
        free(folder);
    }
    if (library) problem[0] = 0;
    return library;
}

void *library_open_driver(const char *file, char problem[LIBRARY_FILE]) {
    void *library = library_open(file, problem);
    return library || problem[0] ? library : open_in_folders(DRIVER_FOLDERS, file, problem);
}

/* Opens the newest file of the list that can be used, where the system looks or in the folders for its kind. */
static void *open_newest(const LibrarySpec *spec, const char **file, char problem[LIBRARY_FILE]) {
    int newest = spec->newest ? spec->newest() : 0;
    for (const char *const *at = spec->files; *at; at++) {
        const char *version = strstr(*at, ".so.");
        if (newest && version && atoi(version + 4) > newest) continue;
        void *library = spec->advice ? library_open(*file = *at, problem) : library_open_driver(*file = *at, problem);
        if (!library && !problem[0] && spec->advice) library = open_in_folders(FOLDERS, *at, problem);
        if (library || problem[0]) return library;
    }
    return NULL;
}

bool library_load(const LibrarySpec *spec, void *call, char description[LIBRARY_DESCRIPTION]) {
    const char *named = getenv(spec->variable), *file = named;
    char problem[LIBRARY_FILE] = "";
    if (named && !strcmp(named, "none")) {
        snprintf(description, LIBRARY_DESCRIPTION, "%s: %s=none", spec->substitute, spec->variable);
        return false;
    }
    void *library = named ? library_open(named, problem) : open_newest(spec, &file, problem);
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

void library_advise(const LibrarySpec *spec, const char *description) {
    if (!getenv(spec->variable)) warn("%s; %s", description, spec->advice);
}

/* Both libraries count a major version as 1000 in the versions before two-digit minor numbers, and as 10000 since:
 * cuBLAS 10.2 is 10202, cuDNN 8.9 is 8907. */
const char *library_choices(const char *text, const char *here, Error *error) {
    size_t length = strcspn(text, "\n");
    if (strlen(here) == length && !strncmp(here, text, length)) return text + length + (text[length] == '\n');
    error_set(error, "they are of %.*s; here it is %s", (int)length, text, here);
    return NULL;
}

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
