#include "checkpoint/folder.h"

#include "base/file.h"
#include "checkpoint/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
        steps_add(steps, (Step){state.step, state.serial, state.best_step, state.seconds});
    else if (!steps->n_bad++)
        error_set(&steps->why, "%s cannot be used: %s", path, why.text);
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
    if (steps->n) qsort(steps->items, (size_t)steps->n, sizeof *steps->items, by_serial);
    return !reason || error_set(error, "cannot read the directory %s: %s", directory, strerror(reason));
}

/* ---- links ---- */

void folder_link(const char *directory, const char *link, StepName target) {
    Path path;
    folder_join(path, directory, link);
    ssize_t length = readlink(path, target, sizeof(StepName) - 1);
    target[length < 0 ? 0 : length] = 0;
}

bool checkpoint_best(const char *directory, char **path, Error *error) {
    Steps steps;
    Path best;
    StepName last, name;
    *path = NULL;
    if (!steps_read(&steps, directory, error)) return false;
    Step newest = steps.n ? steps.items[steps.n - 1] : (Step){.best_step = 0};
    bool there = steps_find(&steps, newest.best_step) != NULL;
    free(steps.items);
    if (steps.n_bad) return error_set(error, "%s", steps.why.text);
    if (!newest.best_step) return true;
    step_name(last, newest.step, "");
    step_name(name, newest.best_step, "");
    folder_join(best, directory, name);
    if (there) *path = xstrdup(best);
    return there || error_set(error, "%s/%s says that the best weights are of step %lld: %s is not there", directory,
                              last, (long long)newest.best_step, best);
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

static char *newest(const char *directory) {
    Steps steps;
    StepName name = "", last;
    Path path;
    Error error;
    recover_alone(directory);
    if (!steps_read(&steps, directory, &error)) die("%s", error.text);
    int64_t step = steps.n ? steps.items[steps.n - 1].step : -1;
    free(steps.items);
    if (step >= 0) step_name(name, step, "");
    if (steps.n_bad)
        die("%s. Nothing was changed; %s%s", steps.why.text,
            step < 0 ? "move it away to begin anew" : "move it away to go on from ", name);
    folder_link(directory, "last", last);
    if (step < 0 && last[0])
        die("%s/last names %s, and no checkpoint is there. Nothing was changed. Bring it back, or remove the link to "
            "begin anew",
            directory, last);
    if (step < 0) return NULL;
    folder_join(path, directory, name);
    return xstrdup(path);
}

char *checkpoint_resolve(const char *directory, const char *resume) {
    Error error;
    TrainState state = {0};
    if (!strcmp(resume, "auto")) return newest(directory);
    const char *slash = strrchr(resume, '/');
    char *path = strcmp(slash ? slash + 1 : resume, "state.json") ? xstrdup(resume) : path_directory(resume);
    if (!checkpoint_is_whole(path, &state, &error)) {
        char *last = path_join(path, "last");
        bool run = !access(last, F_OK);
        die("--resume %s: %s%s%s%s", resume, error.text, run ? "; did you mean " : "", run ? last : "", run ? "?" : "");
    }
    free(state.options_json);
    return path;
}
