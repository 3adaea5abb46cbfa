/* Writes the checkpoints of a run, keeps the newest, finds the one to resume from.
 *
 * The order of the steps is what makes a crash harmless: the files go to step_N.partial, each flushed; one rename makes
 * them step_N; the directory is flushed; then the links move (each by one rename); only then are old checkpoints
 * deleted, and those are first renamed to step_M.partial. So at any moment every step_N is whole, and whatever is
 * called .partial is rubbish, which checkpointer_open removes. A step that is there already (a run that was resumed
 * from an earlier one comes by again) is exchanged with the new one in a single call.
 *
 * All memory is taken when the checkpointer is opened, so that a save is no allocation of the training loop. */
#include "train/checkpoint.h"

#include "base/file.h"
#include "train/checkpoint_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY_MAX = PATH_MAX / 2, NAME_MAX_BYTES = 96, ROOM = 1024 };

typedef char Path[PATH_MAX];
typedef char StepName[40]; /* "step_00001000", "step_00001000.partial" */

static const char *const part_names[] = {"model.safetensors", "optimizer.safetensors", "state.json"};
enum { N_PARTS = 3 };

struct Checkpointer {
    char directory[DIRECTORY_MAX];
    int lock, keep;
    StoredTensor *carried;
    int n_carried;
    TensorToWrite *tensors; /* [room], for the file being written */
    char (*names)[NAME_MAX_BYTES];
    int room;
    bool warned_foreign;

    /* The write under way, or the last one. */
    pthread_t thread;
    bool running, threaded, failed;
    atomic_bool writing; /* the thread's own word */
    Error error;
    const ParamTable *table;
    const float *weights, *m, *v;
    char *state_text;
    int64_t step;
    bool is_best;
};

/* ---- names ---- */

static void join(Path out, const char *directory, const char *name) {
    if (snprintf(out, sizeof(Path), "%s/%s", directory, name) >= (int)sizeof(Path))
        die("the path is too long: %.200s...", directory);
}

/* N of "step_N" followed by `suffix`; -1: another name. */
static int64_t step_of(const char *name, const char *suffix) {
    if (strncmp(name, "step_", 5)) return -1;
    size_t digits = strspn(name + 5, "0123456789");
    return digits >= 8 && digits < 19 && !strcmp(name + 5 + digits, suffix) ? strtoll(name + 5, NULL, 10) : -1;
}

static int is_step(const struct dirent *entry) { return step_of(entry->d_name, "") >= 0; }

static int newest_first(const struct dirent **a, const struct dirent **b) {
    int64_t x = step_of((*a)->d_name, ""), y = step_of((*b)->d_name, "");
    return x > y ? -1 : x < y;
}

static bool is_part(const char *name) {
    for (int i = 0; i < N_PARTS; i++)
        if (!strcmp(name, part_names[i]) || file_is_partial(name, part_names[i])) return true;
    return false;
}

/* ---- removal ---- */

/* Whether the directory holds nothing but files that a checkpointer writes. */
static bool holds_only_parts(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) return false;
    bool only = true;
    for (struct dirent *entry; only && (entry = readdir(directory));)
        only = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || is_part(entry->d_name);
    closedir(directory);
    return only;
}

/* Removes a directory of ours; one with anything else in it is left alone. */
static bool remove_parts(const char *path, Error *error) {
    if (!holds_only_parts(path))
        return access(path, F_OK) || error_set(error, "%s holds files that are not of a checkpoint", path);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        Path file;
        join(file, path, entry->d_name);
        if (is_part(entry->d_name) && unlink(file)) {
            closedir(directory);
            return error_set(error, "cannot remove %s: %s", file, strerror(errno));
        }
    }
    if (directory) closedir(directory);
    return !rmdir(path) || error_set(error, "cannot remove %s: %s", path, strerror(errno));
}

/* Removes a whole checkpoint: it disappears in one step, whatever happens on the way. */
static bool retire(const Checkpointer *c, const char *name, Error *error) {
    Path path, partial;
    StepName hidden;
    snprintf(hidden, sizeof hidden, "%.20s.partial", name);
    join(path, c->directory, name);
    join(partial, c->directory, hidden);
    if (rename(path, partial)) return error_set(error, "cannot rename %s: %s", path, strerror(errno));
    return remove_parts(partial, error);
}

/* The name that DIR/link points to; "" if there is no such link. */
static void read_link(const char *directory, const char *link, StepName target) {
    Path path;
    join(path, directory, link);
    ssize_t length = readlink(path, target, sizeof(StepName) - 1);
    target[length < 0 ? 0 : length] = 0;
}

/* Deletes what is older than the newest `keep` whole checkpoints, except where last and best point. A failure is only
 * warned about: the checkpoint just written is good. */
static void retire_old(Checkpointer *c) {
    struct dirent **entries;
    StepName last, best;
    int kept = 0, n = scandir(c->directory, &entries, is_step, newest_first);
    read_link(c->directory, "last", last);
    read_link(c->directory, "best", best);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        Path path;
        Error error;
        join(path, c->directory, name);
        bool ours = state_read(path, NULL, &error), foreign = ours && !holds_only_parts(path);
        kept += ours;
        if (ours && kept > c->keep && strcmp(name, last) && strcmp(name, best)) {
            if (!foreign && !retire(c, name, &error)) warn("an old checkpoint stays: %s", error.text);
            if (foreign && !c->warned_foreign) warn("%s stays: it holds files that this program did not write", path);
            c->warned_foreign |= foreign;
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

/* What a run that was killed has left behind. */
static void remove_leftovers(const Checkpointer *c) {
    DIR *directory = opendir(c->directory);
    if (!directory) die("cannot read the directory %s: %s", c->directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory));) {
        const char *name = entry->d_name;
        Path path;
        struct stat status;
        Error error;
        join(path, c->directory, name);
        bool link = !strcmp(name, "last.partial") || !strcmp(name, "best.partial");
        if (link && !lstat(path, &status) && S_ISLNK(status.st_mode) && unlink(path))
            warn("cannot remove %s: %s", path, strerror(errno));
        if (step_of(name, ".partial") >= 0 && !remove_parts(path, &error)) warn("a leftover stays: %s", error.text);
    }
    closedir(directory);
}

/* ---- the files of a checkpoint ---- */

static void reserve(Checkpointer *c, int count) {
    if (count <= c->room) return;
    c->room = count;
    c->tensors = xrealloc(c->tensors, (size_t)count * sizeof *c->tensors);
    c->names = xrealloc(c->names, (size_t)count * sizeof *c->names);
}

/* Appends the table's ranges of a flat buffer, named PREFIX + parameter. Returns the new count. */
static int list_params(Checkpointer *c, int n, const char *prefix, const float *flat) {
    for (int i = 0; i < c->table->count; i++, n++) {
        const Param *param = &c->table->items[i];
        snprintf(c->names[n], sizeof c->names[n], "%s%s", prefix, param->name);
        c->tensors[n] = (TensorToWrite){.name = c->names[n], .dtype = "F32", .rank = param->rank};
        for (int d = 0; d < param->rank; d++) c->tensors[n].dims[d] = param->dims[d];
        c->tensors[n].data = flat + param->offset;
    }
    return n;
}

static int list_carried(Checkpointer *c, int n) {
    for (int i = 0; i < c->n_carried; i++, n++) {
        const StoredTensor *tensor = &c->carried[i];
        c->tensors[n] = (TensorToWrite){.name = tensor->name, .dtype = tensor->dtype, .rank = tensor->rank};
        memcpy(c->tensors[n].dims, tensor->dims, sizeof tensor->dims);
        c->tensors[n].data = tensor->data;
    }
    return n;
}

static bool write_parts(Checkpointer *c, const char *directory, Error *error) {
    Path path;
    char step[24];
    snprintf(step, sizeof step, "%lld", (long long)c->step);
    /* "format": what loaders of the Python library look for. */
    const char *keys[] = {"format", "step"}, *values[] = {"pt", step};
    int n = list_carried(c, list_params(c, 0, "", c->weights));
    join(path, directory, part_names[0]);
    if (!safetensors_write(path, c->tensors, n, keys, values, 2, error)) return false;
    n = list_params(c, list_params(c, 0, "exp_avg.", c->m), "exp_avg_sq.", c->v);
    join(path, directory, part_names[1]);
    if (!safetensors_write(path, c->tensors, n, keys, values, 2, error)) return false;
    join(path, directory, part_names[2]);
    return file_write_atomic(path, c->state_text, strlen(c->state_text), error);
}

/* ---- from the files to a checkpoint ---- */

/* Renames the finished directory to its final name, or exchanges it with the checkpoint of ours that has it. */
static bool place(const char *partial, const char *final, Error *error) {
    if (!rename(partial, final)) return true;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return error_set(error, "cannot rename %s to %s: %s", partial, final, strerror(errno));
    if (!state_read(final, NULL, NULL))
        return error_set(error,
                         "%s is in the way and no checkpoint of this program; move it or choose another "
                         "directory",
                         final);
    return !renameat2(AT_FDCWD, partial, AT_FDCWD, final, RENAME_EXCHANGE) ||
           error_set(error, "cannot replace %s, a checkpoint of the same step: %s; move it away", final,
                     strerror(errno));
}

/* Makes DIR/link point to the checkpoint `name`, in one step. */
static bool move_link(const Checkpointer *c, const char *link, const char *name, Error *error) {
    Path path, partial;
    char hidden[32];
    snprintf(hidden, sizeof hidden, "%s.partial", link);
    join(path, c->directory, link);
    join(partial, c->directory, hidden);
    unlink(partial);
    if (!symlink(name, partial) && !rename(partial, path)) return true;
    error_set(error, "%s/%s is written, but the link %s could not be moved to it: %s", c->directory, name, path,
              strerror(errno));
    unlink(partial);
    return false;
}

static bool write_checkpoint(Checkpointer *c, Error *error) {
    StepName name, hidden;
    Path final, partial;
    snprintf(name, sizeof name, "step_%08lld", (long long)c->step);
    snprintf(hidden, sizeof hidden, "step_%08lld.partial", (long long)c->step);
    join(final, c->directory, name);
    join(partial, c->directory, hidden);
    if (!remove_parts(partial, error)) return false;
    if (mkdir(partial, 0777)) return error_set(error, "cannot make the directory %s: %s", partial, strerror(errno));
    if (!write_parts(c, partial, error) || !place(partial, final, error)) {
        remove_parts(partial, NULL);
        return false;
    }
    if (!directory_flush(c->directory, error) || !move_link(c, "last", name, error) ||
        (c->is_best && !move_link(c, "best", name, error)) || !directory_flush(c->directory, error))
        return false;
    Error reason;
    if (!remove_parts(partial, &reason)) warn("the replaced checkpoint stays: %s", reason.text);
    retire_old(c);
    return true;
}

static void *write_thread(void *checkpointer) {
    Checkpointer *c = checkpointer;
    c->failed = !write_checkpoint(c, &c->error);
    c->writing = false;
    return NULL;
}

/* ---- the checkpointer ---- */

Checkpointer *checkpointer_open(const char *directory, int keep) {
    Checkpointer *c = xcalloc(1, sizeof *c);
    c->keep = keep;
    if (snprintf(c->directory, sizeof c->directory, "%s", directory) >= (int)sizeof c->directory)
        die("the path of the directory is too long: %.200s...", directory);
    make_directories(directory);
    c->lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->lock < 0) die("cannot open the directory %s: %s", directory, strerror(errno));
    /* Some network file systems have no locks: then there is no such check. */
    if (flock(c->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        die("another program is writing checkpoints into %s; wait for it, or choose another directory", directory);
    remove_leftovers(c);
    reserve(c, ROOM);
    return c;
}

void checkpointer_carry(Checkpointer *c, const StoredTensor *tensors, int count) {
    free(c->carried);
    c->carried = xcalloc((size_t)count, sizeof *tensors);
    if (count) memcpy(c->carried, tensors, (size_t)count * sizeof *tensors);
    c->n_carried = count;
}

/* Ends the write under way; its result stays in failed and error. */
static void finish_write(Checkpointer *c) {
    if (c->running && c->threaded) pthread_join(c->thread, NULL);
    if (c->running) free(c->state_text);
    c->running = false;
}

void checkpointer_save(Checkpointer *c, const ParamTable *table, const float *weights, const float *m, const float *v,
                       const TrainState *state, bool is_best) {
    Error error;
    if (!checkpointer_wait(c, &error)) warn("the checkpoint before this one could not be written: %s", error.text);
    reserve(c, table->count + c->n_carried);
    reserve(c, 2 * table->count);
    c->table = table;
    c->weights = weights;
    c->m = m;
    c->v = v;
    c->state_text = state_to_json(state);
    c->step = state->step;
    c->is_best = is_best;
    c->running = true;
    c->writing = true;
    c->threaded = !pthread_create(&c->thread, NULL, write_thread, c);
    if (!c->threaded) write_thread(c); /* no thread to spare */
}

bool checkpointer_is_writing(const Checkpointer *c) { return c->writing; }

bool checkpointer_wait(Checkpointer *c, Error *error) {
    finish_write(c);
    bool failed = c->failed;
    c->failed = false;
    return !failed || error_set(error, "%s", c->error.text);
}

void checkpointer_close(Checkpointer *c) {
    Error error;
    if (!checkpointer_wait(c, &error)) warn("the checkpoint could not be written: %s", error.text);
    close(c->lock);
    free(c->carried);
    free(c->tensors);
    free(c->names);
    free(c);
}

/* ---- which one to resume from ---- */

static char *newest_whole(const char *directory) {
    struct dirent **entries;
    char *found = NULL;
    int n = scandir(directory, &entries, is_step, newest_first);
    for (int i = 0; i < n; i++) {
        char *path = xformat("%s/%s", directory, entries[i]->d_name);
        if (!found && checkpoint_is_whole(path, NULL))
            found = path;
        else
            free(path);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return found;
}

char *checkpoint_linked(const char *directory, const char *link) {
    StepName name;
    read_link(directory, link, name);
    return name[0] ? path_join(directory, name) : NULL;
}

char *checkpoint_resolve(const char *directory, const char *resume) {
    Error error;
    if (!strcmp(resume, "auto")) {
        char *path = checkpoint_linked(directory, "last");
        if (path && checkpoint_is_whole(path, NULL)) return path;
        free(path);
        return newest_whole(directory);
    }
    const char *slash = strrchr(resume, '/');
    char *path = strcmp(slash ? slash + 1 : resume, "state.json") ? xstrdup(resume) : path_directory(resume);
    if (!checkpoint_is_whole(path, &error)) {
        char *last = path_join(path, "last");
        bool run = !access(last, F_OK);
        die("--resume %s: %s%s%s%s", resume, error.text, run ? "; did you mean " : "", run ? last : "", run ? "?" : "");
    }
    return path;
}
