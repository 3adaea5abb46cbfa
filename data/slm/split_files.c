#include "data/slm/split_files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

void split_files_add(SplitFiles *files, const char *path) {
    files->paths = xgrow(files->paths, (size_t)files->n, sizeof *files->paths);
    files->paths[files->n++] = xstrdup(path);
}

void split_files_free(SplitFiles *files) {
    for (int i = 0; i < files->n; i++) free(files->paths[i]);
    free(files->paths);
    *files = (SplitFiles){0};
}

/* Returns the length of a name before _123 and the ending. */
static size_t stem_length(const char *name, const char *ending) {
    size_t n = strlen(name) - strlen(ending), end = n;
    while (end && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
    return end < n && end && name[end - 1] == '_' ? end - 1 : n;
}

int64_t split_files_number(const char *path) {
    size_t stem = stem_length(path, SHARD_ENDING);
    return path[stem] == '_' ? strtoll(path + stem + 1, NULL, 10) : -1;
}

/* Returns whether a name is SPLIT.bin, SPLIT_123.bin, NAME_SPLIT.bin or NAME_SPLIT_123.bin; for shards of prepare,
 * whether it is SPLIT_123.safetensors. */
static bool is_of_split(const char *name, const char *split, const char *ending) {
    if (!ends_with(name, ending)) return false;
    size_t end = stem_length(name, ending), length = strlen(split);
    bool shards = !strcmp(ending, SHARD_ENDING), numbered = name[end] == '_';
    return end >= length && !memcmp(name + end - length, split, length) &&
           (shards ? end == length && numbered : end == length || name[end - length - 1] == '_');
}

SplitFiles split_files_list(const char *directory, const char *split, const char *ending) {
    SplitFiles files = {0};
    DIR *folder = opendir(directory);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!is_of_split(entry->d_name, split, ending)) continue;
        OWNED char *path = path_join(directory, entry->d_name);
        split_files_add(&files, path);
    }
    if (folder) closedir(folder);
    if (files.n) qsort(files.paths, (size_t)files.n, sizeof *files.paths, compare_texts);
    return files;
}

bool split_files_check(const SplitFiles *files, Error *error) {
    const char *ending = files->n ? strrchr(files->paths[0], '.') : "";
    if (!ending) return true; /* a file that was named itself */
    size_t length = files->n ? stem_length(files->paths[0], ending) : 0;
    for (int i = 1; i < files->n; i++)
        if (stem_length(files->paths[i], ending) != length || memcmp(files->paths[0], files->paths[i], length) != 0)
            return error_set(error, "%s and %s are of two data sets: name one file, or give each set its own folder",
                             files->paths[0], files->paths[i]);
    return true;
}
