/* A machine whose system files lie in the folder SYSTEM_ROOT, for any program that preloads this library: what is read
 * of /proc/self/cgroup, /proc/self/mountinfo, /proc/meminfo and /sys/fs/cgroup is read from there. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FILE *fopen(const char *path, const char *mode) {
    static const char *const files[] = {"/proc/self/cgroup", "/proc/self/mountinfo", "/proc/meminfo", "/sys/fs/cgroup"};
    FILE *(*next)(const char *path, const char *mode);
    void *found = dlsym(RTLD_NEXT, "fopen");
    char there[4096 + 256];
    const char *root = getenv("SYSTEM_ROOT");
    memcpy(&next, &found, sizeof next);
    for (size_t i = 0; root && i < sizeof files / sizeof *files; i++) {
        if (strncmp(path, files[i], strlen(files[i])) != 0) continue;
        snprintf(there, sizeof there, "%s%s", root, path);
        return next(there, mode);
    }
    return next(path, mode);
}
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }
