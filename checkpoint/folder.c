#include "checkpoint/folder.h"

#include "base/file.h"
#include "checkpoint/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names ---- */

void folder_join(Path out, const char *directory, const char *name) {
    if (snprintf(out, sizeof(Path), "%s/%s", directory, name) >= (int)sizeof(Path))
        die("the path is too long: %.200s...", directory);
}

void step_name(StepName name, int64_t step, const char *suffix) {
    snprintf(name, sizeof(StepName), "step_%08lld%.20s", (long long)step, suffix);
}

int64_t step_of(const char *name, const char *suffix) {
    if (strncmp(name, "step_", 5)) return -1;
    size_t digits = strspn(name + 5, "0123456789");
    return digits >= 8 && digits < 19 && !strcmp(name + 5 + digits, suffix) ? strtoll(name + 5, NULL, 10) : -1;
}

/* ---- checkpoints ---- */

void steps_reserve(Steps *steps, int more) {
    if (steps->n + more <= steps->room) return;
    steps->room = 2 * steps->room + more;
    steps->items = xrealloc(steps->items, (size_t)steps->room * sizeof *steps->items);
}

void steps_add(Steps *steps, Step step) {
    int kept = 0;
    for (int i = 0; i < steps->n; i++)
        if (steps->items[i].step != step.step) steps->items[kept++] = steps->items[i];
    steps->n = kept;
    steps_reserve(steps, 1);
    steps->items[steps->n++] = step;
}

void step_folder(Path out, const char *directory, const Step *step) {
    StepName name;
    step_name(name, step->step, "");
    folder_join(out, directory, step->copy ? step->copy : name);
}

const Step *steps_find(const Steps *steps, int64_t step) {
    for (int i = 0; i < steps->n; i++)
        if (steps->items[i].step == step) return &steps->items[i];
    return NULL;
}

static int by_serial(const void *a, const void *b) {
    const Step *x = a, *y = b;
    return x->serial != y->serial ? (x->serial > y->serial) - (x->serial < y->serial)
                                  : (x->step > y->step) - (x->step < y->step);
}

static void read_step(Steps *steps, const char *directory, const char *name) {
    Path path;
    TrainState state = {0};
    Error why;
    folder_join(path, directory, name);
    bool ok = checkpoint_is_whole(path, &state, &why);
    free(state.options_json);
    if (ok && state.step != step_of(name, ""))
        ok = error_set(&why, "its state.json is of step %lld", (long long)state.step);
    if (ok)
        steps_add(steps, (Step){state.step, state.serial, state.best_step, state.seconds, NULL});
    else if (!steps->n_bad++)
        error_set(&steps->why, "%s cannot be used: %s", path, why.text);
}

/* Adds a copy of a checkpoint that is not there itself. One that is not whole is left to people. */
static void read_copy(Steps *steps, const char *directory, const char *link) {
    Path path;
    TrainState state = {0};
    folder_join(path, directory, link);
    if (!folder_is_copy(directory, link) || !checkpoint_is_whole(path, &state, NULL)) return;
    free(state.options_json);
    if (!steps_find(steps, state.step))
        steps_add(steps, (Step){state.step, state.serial, state.best_step, state.seconds, link});
}

bool steps_read(Steps *steps, const char *directory, Error *error) {
    DIR *entries = opendir(directory);
    *steps = (Steps){.n = 0};
    if (!entries)
        return errno == ENOENT || error_set(error, "cannot read the directory %s: %s", directory, strerror(errno));
    errno = 0;
    for (struct dirent *entry; (entry = readdir(entries)); errno = 0)
        if (step_of(entry->d_name, "") >= 0) read_step(steps, directory, entry->d_name);
    int reason = errno;
    closedir(entries);
    read_copy(steps, directory, LAST_LINK);
    read_copy(steps, directory, BEST_LINK);
    if (steps->n) qsort(steps->items, (size_t)steps->n, sizeof *steps->items, by_serial);
    return !reason || error_set(error, "cannot read the directory %s: %s", directory, strerror(reason));
}

/* ---- links ---- */

/* Reads the name of a step from a small file; "" if the path is anything else. */
static void read_small(const char *path, StepName target) {
    size_t size = 0;
    bool ok = read_file_into(path, target, sizeof(StepName) - 1, &size, NULL) && size;
    if (ok && target[size - 1] == '\n') size--; /* links that other tools write as files have no newline */
    if (ok) target[size] = 0;
    if (!ok || strlen(target) != size || step_of(target, "") < 0) target[0] = 0;
}

void folder_link(const char *directory, const char *link, StepName target) {
    Path path;
    folder_join(path, directory, link);
    ssize_t length = readlink(path, target, sizeof(StepName) - 1);
    target[length < 0 ? 0 : length] = 0;
    if (length < 0) read_small(path, target);
}

bool folder_is_copy(const char *directory, const char *link) {
    Path path, weights;
    struct stat status;
    folder_join(path, directory, link);
    folder_join(weights, path, "model.safetensors");
    return !lstat(path, &status) && S_ISDIR(status.st_mode) && !access(weights, F_OK);
}

static bool is_link_name(const char *name, size_t n) {
    return (n == strlen(LAST_LINK) && !memcmp(name, LAST_LINK, n)) ||
           (n == strlen(BEST_LINK) && !memcmp(name, BEST_LINK, n));
}

char *checkpoint_follow(const char *path) {
    for (const char *at = path, *end; *at; at = end + (*end == '/')) {
        StepName target = "";
        end = strchrnul(at, '/');
        if (!is_link_name(at, (size_t)(end - at))) continue;
        char *link = xformat("%.*s", (int)(end - path), path);
        read_small(link, target);
        free(link);
        if (target[0]) return xformat("%.*s%s%s", (int)(at - path), path, target, end);
    }
    return xstrdup(path);
}

bool checkpoint_best(const char *directory, char **path, Error *error) {
    Steps steps;
    Path best = "", last;
    *path = NULL;
    if (!steps_read(&steps, directory, error)) return false;
    const Step none = {.best_step = 0}, newest = steps.n ? steps.items[steps.n - 1] : none;
    const Step *found = newest.best_step ? steps_find(&steps, newest.best_step) : NULL;
    if (found) step_folder(best, directory, found);
    free(steps.items);
    if (steps.n_bad) return error_set(error, "%s", steps.why.text);
    if (!steps.n && folder_is_copy(directory, BEST_LINK)) folder_join(best, directory, BEST_LINK); /* weights alone */
    if (best[0]) *path = xstrdup(best);
    if (best[0] || !newest.best_step) return true;
    step_folder(last, directory, &newest);
    step_folder(best, directory, &(Step){.step = newest.best_step});
    return error_set(error, "%s says that the best weights are of step %lld: %s is not there", last,
                     (long long)newest.best_step, best);
}

/* ---- step_N.replaced ---- */

/* Finds the first step_N.replaced without a step_N, as paths. */
static bool find_replaced(const char *directory, Path replaced, Path step) {
    DIR *entries = opendir(directory);
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        StepName name;
        if (step_of(entry->d_name, ".replaced") < 0) continue;
        step_name(name, step_of(entry->d_name, ".replaced"), "");
        folder_join(replaced, directory, entry->d_name);
        folder_join(step, directory, name);
        found = access(step, F_OK) != 0;
    }
    if (entries) closedir(entries);
    return found;
}

bool folder_recover(const char *directory, Error *error) {
    Path replaced, step;
    while (find_replaced(directory, replaced, step))
        if (rename(replaced, step))
            return error_set(error, "cannot rename %s to %s: %s", replaced, step, strerror(errno));
    return true;
}

/* ---- which one to resume from ---- */

/* Recovers under the lock that writers of checkpoints take. */
static void recover_alone(const char *directory) {
    Path replaced, step;
    Error error;
    if (!find_replaced(directory, replaced, step)) return;
    int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) die("cannot open the directory %s: %s", directory, strerror(errno));
    if (lock_descriptor(lock, false) == LOCK_BUSY)
        die("another program is writing checkpoints into %s; wait for it", directory);
    if (!folder_recover(directory, &error)) die("%s", error.text);
    close(lock);
}

/* Dies unless a directory without checkpoints has nothing that names one. */
static void check_nothing_is_lost(const char *directory) {
    StepName last;
    Path copy;
    TrainState state = {0};
    Error error;
    folder_link(directory, LAST_LINK, last);
    folder_join(copy, directory, LAST_LINK);
    if (last[0])
        die("%s/" LAST_LINK
            " names %s, and no checkpoint is there. Nothing was changed. Bring it back, or remove the link to "
            "begin anew",
            directory, last);
    if (folder_is_copy(directory, LAST_LINK) && !checkpoint_is_whole(copy, &state, &error))
        die("%s cannot be used: %s. Nothing was changed; move it away to begin anew", copy, error.text);
}

static char *newest(const char *directory) {
    Steps steps;
    Path path = "";
    Error error;
    recover_alone(directory);
    if (!steps_read(&steps, directory, &error)) die("%s", error.text);
    if (steps.n) step_folder(path, directory, &steps.items[steps.n - 1]);
    free(steps.items);
    if (steps.n_bad)
        die("%s. Nothing was changed; %s%s", steps.why.text,
            path[0] ? "move it away to go on from " : "move it away to begin anew",
            path[0] ? strrchr(path, '/') + 1 : "");
    if (path[0]) return xstrdup(path);
    check_nothing_is_lost(directory);
    return NULL;
}

char *checkpoint_resolve(const char *directory, const char *resume) {
    Error error;
    TrainState state = {0};
    if (!strcmp(resume, "auto")) return newest(directory);
    const char *slash = strrchr(resume, '/');
    char *given = strcmp(slash ? slash + 1 : resume, "state.json") ? xstrdup(resume) : path_directory(resume);
    char *path = checkpoint_follow(given);
    free(given);
    if (!checkpoint_is_whole(path, &state, &error)) {
        char *last = path_join(path, LAST_LINK);
        bool run = !access(last, F_OK);
        die("--resume %s: %s%s%s%s", resume, error.text, run ? "; did you mean " : "", run ? last : "", run ? "?" : "");
    }
    free(state.options_json);
    return path;
}
