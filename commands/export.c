#include "commands/export.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint/load.h"
#include "data/unfinished.h"

char *export_checkpoint(const char *given) {
    Error error;
    char *inside = path_join(given, "model.safetensors"), *path = xstrdup(given);
    if (path_is_folder(given) && access(inside, F_OK) != 0) {
        free(path);
        if (!checkpoint_best(given, &path, &error)) die("--checkpoint %s: %s", given, error.text);
        const char *which = path ? "the best weights of the run" : "the last weights of a run that has not validated";
        if (!path) path = checkpoint_resolve(given, "auto");
        if (path)
            printf("[Weights] %s: %s\n", path, which);
        else
            die("--checkpoint %s: it holds neither a run nor a checkpoint", given);
    }
    free(inside);
    return path;
}

json_t *export_option_of_training(const char *checkpoint, const char *option) {
    Error error;
    TrainState state = {0};
    json_t *found = NULL;
    char *folder = checkpoint_folder(checkpoint), *file = path_join(folder, "state.json");
    if (!access(file, F_OK)) {
        if (!state_read(folder, &state, &error)) die("%s: %s; give --%s", file, error.text, option);
        json_t *options = json_loads(state.options_json ? state.options_json : "{}", 0, NULL);
        found = json_incref(json_object_get(options, option));
        json_decref(options);
        free(state.options_json);
    }
    free(file);
    free(folder);
    return found;
}

char *export_text_of_training(const char *checkpoint, const char *option) {
    json_t *value = export_option_of_training(checkpoint, option);
    char *text = json_is_string(value) ? xstrdup(json_string_value(value)) : NULL;
    json_decref(value);
    return text;
}

bool export_copy(const char *from, const char *to, Error *error) {
    char *bytes;
    size_t size;
    Error why;
    if (!read_file(from, &bytes, &size, &why)) return error_set(error, "%s: %s", from, why.text);
    bool ok = file_write_atomic(to, bytes, size, error);
    free(bytes);
    return ok;
}

/* Returns the name of a file that lies in the folder already; free(). NULL: there is none. */
static char *find_file(const char *folder) {
    DIR *directory = opendir(folder);
    char *found = NULL;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));)
        if (entry->d_name[0] != '.' && !file_is_partial(entry->d_name, NULL)) found = xstrdup(entry->d_name);
    if (directory) closedir(directory);
    return found;
}

bool export_folder(const char *output, uint64_t weights, bool (*write)(const void *context, Error *error),
                   const void *context, Error *error) {
    char *what = xformat("the weights %016llx", (unsigned long long)weights), *there = NULL;
    FileLock lock;
    bool again, locked = unfinished_lock(&lock, output, error),
                ok = locked && unfinished_find(output, what, &again, error);
    if (ok && !again && (there = find_file(output)))
        ok = error_set(error, "--output %s: it holds %s already; choose a new folder", output, there);
    ok = ok && unfinished_begin(output, what, error);
    if (ok) directory_remove_leftovers(output);
    ok = ok && write(context, error) && unfinished_end(output, error);
    if (locked) file_unlock(&lock);
    free(there);
    free(what);
    return ok;
}
