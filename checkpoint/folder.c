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

void step_path(Path out, const char *directory, int64_t step, const char *suffix) {
    StepName name;
    step_name(name, step, suffix);
    folder_join(out, directory, name);
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
    if (step->copy)
        folder_join(out, directory, step->copy);
    else
        step_path(out, directory, step->step, "");
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
        steps_add(steps, (Step){state.step, state.serial, state.best_step, state.seconds, NULL, false});
    else if (access(path, F_OK)) /* its run has removed it meanwhile */
        return;
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
        steps_add(steps, (Step){state.step, state.serial, state.best_step, state.seconds, link, false});
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

/* Reads the target of a link or of a small file instead of it; "" if there is neither. */
static void read_link(const char *path, StepName target) {
    ssize_t length = readlink(path, target, sizeof(StepName) - 1);
    target[length < 0 ? 0 : length] = 0;
    if (length < 0) read_small(path, target);
}

void folder_link(const char *directory, const char *link, StepName target) {
    Path path;
    folder_join(path, directory, link);
    read_link(path, target);
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

/* A checkpoint that this program holds. */
typedef struct Held Held;
struct Held {
    char *link, *folder; /* the path that led to it, and that of its folder */
    int fd;
    Held *next;
};
static Held *held;

static const Held *find_held(const char *link, const char *folder) {
    const Held *h = held;
    while (h && !(link && !strcmp(h->link, link)) && !(folder && !strcmp(h->folder, folder))) h = h->next;
    return h;
}

char *checkpoint_follow(const char *path) {
    for (const char *at = path, *end; *at; at = end + (*end == '/')) {
        StepName target = "";
        end = strchrnul(at, '/');
        if (!is_link_name(at, (size_t)(end - at))) continue;
        OWNED char *link = xformat("%.*s", (int)(end - path), path);
        const Held *h = find_held(link, NULL);
        read_link(link, target);
        if (h) return xformat("%s%s", h->folder, end);
        if (step_of(target, "") >= 0) return xformat("%.*s%s%s", (int)(at - path), path, target, end);
    }
    return xstrdup(path);
}

/* Returns the length of the path up to the last folder of a step in it; 0: there is none. */
static size_t step_length(const char *path) {
    size_t length = 0;
    for (const char *at = path, *end; *at; at = end + (*end == '/')) {
        StepName name;
        end = strchrnul(at, '/');
        snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        if (step_of(name, "") >= 0 && (size_t)(end - at) == strlen(name)) length = (size_t)(end - path);
    }
    return length;
}

/* Holds the folder. Returns false if it is not there any more, or about to be removed. */
static bool hold_folder(const char *link, const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno != ENOENT; /* one that cannot be read is not protected */
    if (lock_descriptor_shared(fd) == LOCK_BUSY || !path_leads_to(folder, fd)) {
        close(fd);
        return false;
    }
    Held *one = xmalloc(sizeof *one);
    *one = (Held){xstrdup(link), xstrdup(folder), fd, held};
    held = one;
    return true;
}

char *checkpoint_hold(const char *path) {
    enum { TRIES = 1000 }; /* of a millisecond each, for a step that another program keeps locked */
    for (int tries = 0;; tries++) {
        OWNED char *found = checkpoint_follow(path);
        size_t n = step_length(found);
        if (!n) return xstrdup(found);
        OWNED char *folder = xformat("%.*s", (int)n, found);
        OWNED char *link = xformat("%.*s", (int)(strlen(path) + n - strlen(found)), path);
        bool is_held = find_held(link, folder) || hold_folder(link, folder);
        OWNED char *again = is_held ? NULL : checkpoint_follow(path);
        if (is_held || tries == TRIES || (!strcmp(again, found) && access(folder, F_OK))) return xstrdup(found);
        usleep(1000); /* its run has locked it, and removes it next */
    }
}

void checkpoint_release(void) {
    while (held) {
        OWNED Held *one = held;
        held = one->next;
        close(one->fd);
        FREE(one->link, one->folder);
    }
}

LockResult folder_claim(const char *path, int *fd) {
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    LockResult lock = *fd < 0 ? LOCK_TAKEN : lock_descriptor(*fd, false);
    if (lock != LOCK_BUSY) return lock;
    close(*fd);
    *fd = -1;
    return lock;
}

int checkpoint_file_open(const char *path, size_t *size, Error *error) {
    for (;;) {
        OWNED char *found = checkpoint_follow(path);
        int fd = file_open(found, size, error);
        OWNED char *again = checkpoint_follow(path);
        if (fd >= 0 || !strcmp(found, again)) return fd;
    }
}

/* ---- which checkpoint ---- */

/* Calls a function that looks for a checkpoint, and holds what it finds. Calls it again if it found nothing that can be
 * held, and the run has moved on meanwhile. */
static bool find_and_hold(const char *directory, bool (*find)(const char *directory, char **path, Error *error),
                          char **path, Error *error) {
    for (StepName before, after;;) {
        folder_link(directory, LAST_LINK, before);
        bool ok = find(directory, path, error), found = ok && *path;
        if (found) free(checkpoint_hold(*path));
        if (found && (find_held(NULL, *path) || !step_length(*path))) return true;
        folder_link(directory, LAST_LINK, after);
        if (!strcmp(before, after)) return ok;
        free(*path);
    }
}

static bool find_best(const char *directory, char **path, Error *error) {
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

bool checkpoint_best(const char *directory, char **path, Error *error) {
    return find_and_hold(directory, find_best, path, error);
}

/* ---- step_N.replaced ---- */

/* Finds the first step_N.replaced without a step_N, as paths. */
static bool find_replaced(const char *directory, Path replaced, Path step) {
    DIR *entries = opendir(directory);
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        if (step_of(entry->d_name, ".replaced") < 0) continue;
        folder_join(replaced, directory, entry->d_name);
        step_path(step, directory, step_of(entry->d_name, ".replaced"), "");
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
    if (!find_replaced(directory, replaced, step)) return;
    int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) die("cannot open the directory %s: %s", directory, strerror(errno));
    if (lock_descriptor(lock, false) == LOCK_BUSY)
        die("another program is writing checkpoints into %s; wait for it", directory);
    MUST(folder_recover(directory, &error));
    close(lock);
}

/* Fails if a directory without checkpoints has something that names one. */
static bool check_nothing_is_lost(const char *directory, Error *error) {
    StepName last;
    Path copy;
    TrainState state = {0};
    Error why;
    folder_link(directory, LAST_LINK, last);
    folder_join(copy, directory, LAST_LINK);
    if (last[0])
        return error_set(error,
                         "%s/" LAST_LINK
                         " names %s, and no checkpoint is there. Nothing was changed. Bring it back, or remove the "
                         "link to begin anew",
                         directory, last);
    return !folder_is_copy(directory, LAST_LINK) || checkpoint_is_whole(copy, &state, &why) ||
           error_set(error, "%s cannot be used: %s. Nothing was changed; move it away to begin anew", copy, why.text);
}

static bool find_newest(const char *directory, char **found, Error *error) {
    Steps steps;
    Path path = "";
    *found = NULL;
    recover_alone(directory);
    if (!steps_read(&steps, directory, error)) return false;
    if (steps.n) step_folder(path, directory, &steps.items[steps.n - 1]);
    free(steps.items);
    if (steps.n_bad)
        return error_set(error, "%s. Nothing was changed; %s%s", steps.why.text,
                         path[0] ? "move it away to go on from " : "move it away to begin anew",
                         path[0] ? strrchr(path, '/') + 1 : "");
    if (path[0]) *found = xstrdup(path);
    return path[0] || check_nothing_is_lost(directory, error);
}

static char *newest(const char *directory) {
    char *path;
    MUST(find_and_hold(directory, find_newest, &path, &error));
    return path;
}

char *checkpoint_resolve(const char *directory, const char *resume) {
    Error error;
    TrainState state = {0};
    if (!strcmp(resume, "auto")) return newest(directory);
    OWNED char *given = strcmp(path_name(resume), "state.json") ? xstrdup(resume) : path_directory(resume);
    char *path = checkpoint_hold(given);
    if (!checkpoint_is_whole(path, &state, &error)) {
        char *last = path_join(path, LAST_LINK);
        bool run = !access(last, F_OK);
        die("--resume %s: %s%s%s%s", resume, error.text, run ? "; did you mean " : "", run ? last : "", run ? "?" : "");
    }
    free(state.options_json);
    return path;
}
