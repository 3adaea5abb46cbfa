#include "commands/export.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/unfinished.h"

void export_options_add(OptionSet *set, const char **output) {
    static const OptionRow row = {.name = "output",
                                  .heading = "Files",
                                  .letter = 'o',
                                  .type = OPTION_TEXT,
                                  .metavar = "DIR",
                                  .required = true,
                                  .help = "new folder for the model"};
    options_add(set, &row, 1, output);
    options_add_config(set);
}

bool export_copy(const char *from, const char *to, Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    return read_file(from, &bytes, &size, error) ? file_write_atomic(to, bytes, size, error)
                                                 : error_before(error, "%s: ", from);
}

bool export_json(const char *folder, const char *name, json_t *object, Error *error) {
    OWNED char *path = path_join(folder, name),
               *text = json_text(name, object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(object);
    xappend(&text, "\n");
    return file_write_atomic(path, text, strlen(text), error);
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
    OWNED char *what = xformat("the weights %016llx", (unsigned long long)weights), *there = NULL;
    FileLock lock;
    bool again, locked = unfinished_lock(&lock, output, error),
                ok = locked && unfinished_find(output, what, &again, error);
    if (ok && !again && (there = find_file(output)))
        ok = error_set(error, "--output %s: it holds %s already; choose a new folder", output, there);
    ok = ok && unfinished_begin(output, what, error);
    if (ok) directory_remove_leftovers(output);
    ok = ok && write(context, error) && unfinished_end(output, error);
    if (locked) file_unlock(&lock);
    return ok;
}
