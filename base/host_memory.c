#include "base/host_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/base.h"
#include "base/format.h"
#include "base/limits.h"

enum { MOST_PATH = 4096 };

/* A version of control groups. `reclaimable`: the keys of memory.stat for pages that the kernel drops before it kills,
 * which are those of files: the data of a run that are mapped, for one. Memory of /dev/shm and tmpfs is not in them. */
typedef struct {
    const char *type, *controller; /* of the mount; the controller that its options name, "": any */
    const char *limits[2];         /* files; beyond memory.high the kernel slows a program down to a crawl */
    const char *used;
    const char *reclaimable[3];
} Version;

static const Version versions[] = {
    {"cgroup2",
     "",
     {"memory.max", "memory.high"},
     "memory.current",
     {"inactive_file", "active_file", "slab_reclaimable"}},
    {"cgroup",
     "memory",
     {"memory.limit_in_bytes", NULL},
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file", NULL}},
};

/* Returns the number in a file of a group; 0 if there is none, SIZE_MAX for "max" and above. */
static size_t number_in(const char *group, const char *name) {
    char path[MOST_PATH], text[64] = "";
    uintmax_t number = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", group, name) >= sizeof path) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fgets(text, sizeof text, file)) number = strncmp(text, "max", 3) ? strtoumax(text, NULL, 10) : SIZE_MAX;
    fclose(file);
    return number;
}

static size_t reclaimable_in(const char *group, const Version *v) {
    char path[MOST_PATH], line[256], name[64];
    size_t bytes = 0;
    uintmax_t value;
    if ((size_t)snprintf(path, sizeof path, "%s/memory.stat", group) >= sizeof path) return 0;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        for (int i = 0; i < 3 && v->reclaimable[i]; i++)
            if (sscanf(line, "%63s %" SCNuMAX, name, &value) == 2 && !strcmp(name, v->reclaimable[i])) bytes += value;
    if (file) fclose(file);
    return bytes;
}

/* Lowers `memory` to what one group leaves. */
static void limit_to_group(HostMemory *memory, const char *group, const Version *v) {
    for (int i = 0; i < 2 && v->limits[i]; i++) {
        size_t limit = number_in(group, v->limits[i]), used = number_in(group, v->used);
        if (!limit || limit == SIZE_MAX) continue;
        size_t dropped = reclaimable_in(group, v), held = used > dropped ? used - dropped : 0;
        size_t left = limit > held ? limit - held : 0;
        if (left >= memory->bytes) continue;
        char amount[32];
        memory->bytes = left;
        snprintf(memory->limit, sizeof memory->limit, "the limit of %s in %.300s/%s",
                 format_bytes((double)limit, amount), group, v->limits[i]);
    }
}

/* Lowers `memory` to what the group at `path` and the groups around it leave. The mount shows the tree from its `root`
 * on: in a container often the group itself, so that what is mounted is its own. */
static void limit_to_groups(HostMemory *memory, const char *mount, const char *root, const char *path,
                            const Version *v) {
    char group[MOST_PATH];
    size_t above = strlen(root), least = strlen(mount);
    if (!strcmp(root, "/")) above = 0;
    bool inside = !strncmp(path, root, above) && (path[above] == '/' || !path[above]) && !strstr(path, "/..");
    if ((size_t)snprintf(group, sizeof group, "%s%s", mount, inside ? path + above : "") >= sizeof group) return;
    for (char *end = group + strlen(group);; *(end = strrchr(group, '/')) = 0) {
        if (end[-1] != '/') limit_to_group(memory, group, v);
        if (strlen(group) <= least) return;
    }
}

/* Returns whether a comma-separated list has an entry. */
static bool has_entry(const char *list, const char *entry) {
    size_t size = strlen(entry);
    for (const char *at = list; size && (at = strstr(at, entry)); at += size)
        if ((at == list || at[-1] == ',') && (at[size] == ',' || !at[size])) return true;
    return !size;
}

/* Finds the mount of a version's tree: "36 25 0:31 ROOT MOUNT rw,relatime - TYPE SOURCE OPTIONS". */
static bool find_mount(const Version *v, char root[MOST_PATH], char mount[MOST_PATH]) {
    char line[3 * MOST_PATH], type[64], options[512];
    bool found = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *end = strstr(line, " - ");
        found = end && sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) == 2 &&
                sscanf(end, " - %63s %*s %511s", type, options) == 2 && !strcmp(type, v->type) &&
                has_entry(options, v->controller);
    }
    if (file) fclose(file);
    return found;
}

/* Finds the path of this process's group: "0::PATH" in version 2, "4:cpu,memory:PATH" in version 1. */
static bool find_path(const Version *v, char path[MOST_PATH]) {
    char line[MOST_PATH + 512];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        found = *v->controller ? has_entry(controllers + 1, v->controller) : !controllers[1];
        if (found) snprintf(path, MOST_PATH, "%.*s", MOST_PATH - 1, group);
    }
    if (file) fclose(file);
    return found;
}

/* Returns the free bytes of the machine; SIZE_MAX if it does not tell. */
static size_t machine_left(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    size_t kilobytes = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1) break;
    if (file) fclose(file);
    struct sysinfo info;
    if (kilobytes) return kilobytes * 1024;
    return sysinfo(&info) ? SIZE_MAX : (size_t)info.freeram * info.mem_unit;
}

HostMemory host_memory_left(void) {
    const char *shell;
    char root[MOST_PATH], mount[MOST_PATH], path[MOST_PATH];
    HostMemory memory = {.bytes = machine_left()};
    size_t left = limits_left(&shell);
    if (left < memory.bytes) {
        memory.bytes = left;
        snprintf(memory.limit, sizeof memory.limit, "%s", shell);
    }
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (find_mount(&versions[i], root, mount) && find_path(&versions[i], path))
            limit_to_groups(&memory, mount, root, path, &versions[i]);
    return memory;
}
