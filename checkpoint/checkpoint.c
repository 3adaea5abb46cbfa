/* Writes the checkpoints of a run and keeps the newest.
 *
 * The order of the writes makes a crash harmless. The files are written to step_N.partial and flushed. One rename makes
 * the directory step_N, and the parent directory is flushed. The link best moves, if it must, and is flushed; then the
 * link last moves and is flushed. Only then are old checkpoints deleted, after a rename to step_M.partial. So at any
 * moment:
 * - every step_N is whole, and every .partial is a leftover, which checkpointer_open removes;
 * - the newest step_N (each has a serial number) defines the state of the run. Its best checkpoint, that of best_step,
 *   exists: it was written earlier, and is never deleted as long as the newest names it;
 * - best is never older than the best_step of last (except while a step is written again), for readers of the links.
 * checkpointer_resume moves the links to what the newest checkpoint names, after a kill or a full disk.
 *
 * A run that was resumed from an earlier step may write a step that exists already. One call exchanges the old with the
 * new one; folder.h says what happens where the file system cannot exchange names.
 *
 * The lock is on the directory itself, but the writes use its path, and another run may begin under that path after the
 * directory was moved away. So the path is compared with the lock when a save begins, and before a step is placed, a
 * link moves or an old step is removed. The run continues in its directory under the new path.
 *
 * All memory is allocated when the checkpointer is opened, so that a save allocates nothing in the training loop. */
#include "checkpoint/checkpoint.h"

#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DIRECTORY_MAX = PATH_MAX / 2, NAME_MAX_BYTES = 96, ROOM = 1024 };

enum { PART_MODEL, PART_OPTIMIZER, PART_DESCRIPTION, PART_STATE, PART_DECISION, N_PARTS };
static const char *const part_names[N_PARTS] = {"model.safetensors", "optimizer.safetensors", DESCRIPTION_FILE,
                                                "state.json", DECISION_FILE /* added later */};

struct Checkpointer {
    char directory[DIRECTORY_MAX];
    int lock, keep;
    bool has_links; /* the file system has symbolic links */
    Steps steps;
    int64_t serial; /* of the checkpoint begun last */
    StoredTensor *carried;
    int n_carried;
    char *description;      /* the text of config.json; NULL: none is written */
    TensorToWrite *tensors; /* [room], for the file being written */
    char (*names)[NAME_MAX_BYTES];
    int room;
    bool warned_foreign;

    /* The write under way, or the last one. */
    pthread_t thread;
    bool running, threaded, failed;
    atomic_bool writing; /* set and cleared by the thread */
    Error error;
    CheckpointBuffers buffers;
    char *state_text;
    Step step;
};

/* ---- names ---- */

static bool is_part(const char *name) {
    for (int i = 0; i < N_PARTS; i++) {
        size_t length = strlen(part_names[i]);
        bool ours = !strncmp(name, part_names[i], length);
        /* Earlier versions of the program left NAME.partial. */
        if (ours && (!name[length] || !strcmp(name + length, ".partial") || file_is_partial(name, part_names[i])))
            return true;
    }
    return false;
}

/* ---- the directory itself ---- */

/* Returns whether the path leads to the locked directory. Also true if the descriptor is stale (after a remount), since
 * only the path is known then. */
static bool path_is_current(const Checkpointer *c) {
    struct stat status;
    return fstat(c->lock, &status) || path_leads_to(c->directory, c->lock);
}

/* Fails if the directory was moved since the write began. */
static bool check_not_moved(const Checkpointer *c, Error *error) {
    return path_is_current(c) || error_set(error, "%s was moved or replaced during the write", c->directory);
}

/* Finds the current path of the directory. */
static bool find_directory(Checkpointer *c, Error *error) {
    char link[32], now[DIRECTORY_MAX];
    struct stat status;
    if (path_is_current(c)) return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", c->lock);
    ssize_t length = readlink(link, now, sizeof now - 1);
    now[length < 0 ? 0 : length] = 0;
    bool found = path_leads_to(now, c->lock);
    if (!found && !fstat(c->lock, &status) && !status.st_nlink)
        die("the run's folder %s was removed while it was in use: nothing can be written into it any more. If it was "
            "moved to another file system, go on from its last checkpoint with that --output-dir and --resume auto",
            c->directory);
    if (!found)
        return error_set(error,
                         "the run's folder %s was moved or replaced while it was in use, and cannot be found; move it "
                         "back",
                         c->directory);
    warn("the run's folder %s was moved or replaced while it was in use: the run goes on in %s", c->directory, now);
    memcpy(c->directory, now, sizeof now);
    return true;
}

const char *checkpointer_directory(Checkpointer *c, Error *error) {
    return find_directory(c, error) ? c->directory : NULL;
}

/* ---- removal ---- */

/* Returns whether the directory holds nothing but files that a checkpointer writes. */
static bool holds_only_parts(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) return false;
    bool only = true;
    for (struct dirent *entry; only && (entry = readdir(directory));)
        only = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || is_part(entry->d_name);
    closedir(directory);
    return only;
}

/* Removes a directory that holds only files of a checkpoint. Fails if there is anything else in it. */
static bool remove_parts(const char *path, Error *error) {
    if (!holds_only_parts(path))
        return access(path, F_OK) || error_set(error, "%s holds files that do not belong to a checkpoint", path);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        Path file;
        folder_join(file, path, entry->d_name);
        if (is_part(entry->d_name) && unlink(file)) {
            closedir(directory);
            return error_set(error, "cannot remove %s: %s", file, strerror(errno));
        }
    }
    if (directory) closedir(directory);
    return !rmdir(path) || error_set(error, "cannot remove %s: %s", path, strerror(errno));
}

/* Removes the checkpoint of this step and suffix. One rename makes the checkpoint disappear as a whole. */
static bool remove_step(const Checkpointer *c, int64_t step, const char *suffix, Error *error) {
    Path path, partial;
    step_path(path, c->directory, step, suffix);
    step_path(partial, c->directory, step, ".partial");
    if (rename(path, partial)) return error_set(error, "cannot rename %s: %s", path, strerror(errno));
    return remove_parts(partial, error);
}

/* Removes step_N.replaced, if there is one. */
static bool remove_replaced(const Checkpointer *c, int64_t step, Error *error) {
    Path path;
    step_path(path, c->directory, step, ".replaced");
    return access(path, F_OK) ||
           (folder_recover(c->directory, error) && (access(path, F_OK) || remove_step(c, step, ".replaced", error)));
}

/* Returns whether the newest state or a link names this checkpoint. */
static bool is_needed(const Checkpointer *c, int64_t step, const char *name) {
    StepName last, best;
    folder_link(c->directory, LAST_LINK, last);
    folder_link(c->directory, BEST_LINK, best);
    return step == c->step.step || step == c->step.best_step || !strcmp(name, last) || !strcmp(name, best);
}

/* Deletes all but the newest `keep` checkpoints, except the last and the best. Only warns of failures, since the
 * checkpoint just written is good. */
static void remove_old(Checkpointer *c) {
    int kept = 0, from = c->steps.n > c->keep ? c->steps.n - c->keep : 0;
    for (int i = 0; i < c->steps.n; i++) {
        Step step = c->steps.items[i];
        StepName name;
        Path path;
        Error error;
        step_name(name, step.step, "");
        step_path(path, c->directory, step.step, "");
        bool old = i < from && check_not_moved(c, NULL) && !is_needed(c, step.step, name),
             there = old && !access(path, F_OK);
        int fd = -1;
        bool foreign = there && !holds_only_parts(path);
        LockResult lock = there && !foreign ? folder_claim(path, &fd) : LOCK_TAKEN;
        bool in_use = lock == LOCK_BUSY || (lock == LOCK_UNKNOWN && !step.spared); /* who reads it cannot be known */
        bool failed = there && !foreign && !in_use && !remove_step(c, step.step, "", &error);
        if (fd >= 0) close(fd);
        if (failed) warn("an old checkpoint was not removed: %s", error.text);
        if (foreign && !c->warned_foreign)
            warn("%s was not removed: it holds files that this program did not write", path);
        c->warned_foreign |= foreign;
        step.spared = old;
        if (!old || foreign || in_use || failed)
            c->steps.items[kept++] = step; /* tried again after the next checkpoint */
    }
    c->steps.n = kept;
}

/* Makes way for DIR/link: removes LINK.partial, which a killed run was about to rename. Fails if DIR/link is neither a
 * link, nor a small file instead of it, nor a copy of a checkpoint, or if LINK.partial is not one of the former: they
 * are the user's. A link named DIR/link is replaced wherever it leads. */
static bool clear_link(const Checkpointer *c, const char *link, Error *error) {
    char names[2][32];
    snprintf(names[0], sizeof names[0], "%s", link);
    snprintf(names[1], sizeof names[1], "%s.partial", link);
    for (int i = 0; i < 2; i++) {
        Path path;
        StepName target;
        struct stat status;
        folder_join(path, c->directory, names[i]);
        folder_link(c->directory, names[i], target);
        if (lstat(path, &status)) continue;
        bool ours = step_of(target, "") >= 0;
        if (!i) ours = ours || S_ISLNK(status.st_mode) || folder_is_copy(c->directory, link);
        if (!ours) return error_set(error, "%s is in the way of the link %s to a checkpoint; move it away", path, link);
        if (i && unlink(path)) return error_set(error, "cannot remove %s: %s", path, strerror(errno));
    }
    return true;
}

/* Returns whether the file was begun in place of a link, and the program was killed. */
static bool is_partial_link(const char *name) {
    return file_is_partial(name, LAST_LINK ".partial") || file_is_partial(name, BEST_LINK ".partial");
}

/* Removes the leftovers of a killed run. */
static void remove_leftovers(const Checkpointer *c) {
    DIR *directory = opendir(c->directory);
    Error error;
    if (!directory) die("cannot read the directory %s: %s", c->directory, strerror(errno));
    MUST(clear_link(c, LAST_LINK, &error) && clear_link(c, BEST_LINK, &error));
    for (struct dirent *entry; (entry = readdir(directory));) {
        const char *name = entry->d_name;
        Path path;
        folder_join(path, c->directory, name);
        bool gone = step_of(name, ".partial") < 0 || remove_parts(path, &error);
        if (is_partial_link(name)) gone = !unlink(path) || error_set(&error, "%s: %s", path, strerror(errno));
        if (step_of(name, ".replaced") >= 0) gone = remove_replaced(c, step_of(name, ".replaced"), &error);
        if (!gone) warn("a leftover was not removed: %s", error.text);
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
    for (int i = 0; i < c->buffers.table->count; i++, n++) {
        const Param *param = &c->buffers.table->items[i];
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
    snprintf(step, sizeof step, "%lld", (long long)c->step.step);
    /* Loaders of the Python library look for "format". */
    const char *keys[] = {"format", "step"}, *values[] = {"pt", step};
    int n = list_carried(c, list_params(c, 0, "", c->buffers.weights));
    folder_join(path, directory, part_names[PART_MODEL]);
    if (!safetensors_write(path, c->tensors, n, keys, values, 2, error)) return false;
    n = list_params(c, list_params(c, 0, "exp_avg.", c->buffers.m), "exp_avg_sq.", c->buffers.v);
    folder_join(path, directory, part_names[PART_OPTIMIZER]);
    if (!safetensors_write(path, c->tensors, n, keys, values, 2, error)) return false;
    folder_join(path, directory, part_names[PART_DESCRIPTION]);
    if (c->description && !file_write_atomic(path, c->description, strlen(c->description), error)) return false;
    folder_join(path, directory, part_names[PART_STATE]);
    return file_write_atomic(path, c->state_text, strlen(c->state_text), error);
}

/* ---- placing a checkpoint ---- */

/* Replaces a checkpoint by two renames, on a file system that cannot exchange two names. Between the renames
 * step_N.replaced stands for the step. */
static bool replace_in_two(const Checkpointer *c, const char *partial, const char *final, Error *error) {
    Path replaced;
    step_path(replaced, c->directory, c->step.step, ".replaced");
    if (rename(final, replaced)) return error_set(error, "cannot rename %s: %s", final, strerror(errno));
    if (!rename(partial, final)) return true;
    error_set(error, "cannot rename %s to %s: %s", partial, final, strerror(errno));
    if (rename(replaced, final)) warn("%s was moved to %s, and cannot be moved back", final, replaced);
    return false;
}

/* Renames the finished directory to its final name, or exchanges it with the checkpoint of ours that has it. */
static bool place(const Checkpointer *c, const char *partial, const char *final, Error *error) {
    if (!rename(partial, final)) return true;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return error_set(error, "cannot rename %s to %s: %s", partial, final, strerror(errno));
    if (!steps_find(&c->steps, c->step.step))
        return error_set(error,
                         "%s is in the way and no checkpoint of this program; move it or choose another "
                         "directory",
                         final);
    if (!renameat2(AT_FDCWD, partial, AT_FDCWD, final, RENAME_EXCHANGE)) return true;
    if (file_system_lacks(errno)) return replace_in_two(c, partial, final, error);
    return error_set(error, "cannot replace %s, a checkpoint of the same step: %s; move it away", final,
                     strerror(errno));
}

static bool is_symbolic(const char *path) {
    struct stat status;
    return !lstat(path, &status) && S_ISLNK(status.st_mode);
}

/* Makes a link at `path`, or, where there are none, a small file that is flushed. */
static bool make_link(const Checkpointer *c, const char *path, const char *name, Error *error) {
    StepName text;
    if (c->has_links) return !symlink(name, path) || error_set(error, "%s", strerror(errno));
    snprintf(text, sizeof text, "%.40s\n", name);
    return file_write_atomic(path, text, strlen(text), error);
}

/* Renames a copy of a checkpoint that has the name of a link to LINK.copy.N. */
static bool keep_copy(const Checkpointer *c, const char *link, Error *error) {
    Path path, other;
    if (!folder_is_copy(c->directory, link)) return true;
    folder_join(path, c->directory, link);
    for (int n = 1;; n++) {
        char name[48];
        snprintf(name, sizeof name, "%s.copy.%d", link, n);
        folder_join(other, c->directory, name);
        if (access(other, F_OK)) break;
    }
    if (rename(path, other)) return error_set(error, "cannot rename %s to %s: %s", path, other, strerror(errno));
    warn("%s was a folder, a copy of a checkpoint, where the link belongs: it is kept as %s", path, other);
    return true;
}

/* Makes DIR/link point to the checkpoint `name` in one step, and flushes it. */
static bool move_link(const Checkpointer *c, const char *link, const char *name, Error *error) {
    Path path, partial;
    StepName before;
    char hidden[32];
    Error why;
    folder_link(c->directory, link, before);
    folder_join(path, c->directory, link);
    if (!strcmp(before, name) && is_symbolic(path) == c->has_links) return true;
    snprintf(hidden, sizeof hidden, "%s.partial", link);
    folder_join(partial, c->directory, hidden);
    if (!clear_link(c, link, error) || !keep_copy(c, link, error)) return false;
    bool made = make_link(c, partial, name, &why);
    if (made && !rename(partial, path)) return directory_flush(c->directory, error);
    error_set(error, "%s/%s is written, but the link %s could not be moved to it: %s", c->directory, name, path,
              made ? strerror(errno) : why.text);
    clear_link(c, link, NULL);
    return false;
}

/* Removes a link that leads to a checkpoint of an earlier state, or to nothing. */
static bool remove_link(const Checkpointer *c, const char *link, Error *error) {
    Path path;
    StepName before;
    if (!keep_copy(c, link, error)) return false;
    folder_link(c->directory, link, before);
    folder_join(path, c->directory, link);
    return step_of(before, "") < 0 || !unlink(path) || error_set(error, "cannot remove %s: %s", path, strerror(errno));
}

/* Moves the links to the checkpoints that the newest checkpoint names. */
static bool move_links(const Checkpointer *c, const Step *newest, Error *error) {
    StepName last, best;
    step_name(last, newest->step, "");
    step_name(best, newest->best_step, "");
    bool has_best = newest->best_step && steps_find(&c->steps, newest->best_step);
    return check_not_moved(c, error) &&
           (has_best ? move_link(c, BEST_LINK, best, error) : remove_link(c, BEST_LINK, error)) &&
           check_not_moved(c, error) && move_link(c, LAST_LINK, last, error);
}

static bool write_checkpoint(Checkpointer *c, Error *error) {
    Path final, partial;
    int64_t step = c->step.step;
    if (!find_directory(c, error)) return false;
    step_path(final, c->directory, step, "");
    step_path(partial, c->directory, step, ".partial");
    if (!remove_parts(partial, error) || !remove_replaced(c, step, error)) return false;
    if (mkdir(partial, 0777)) return error_set(error, "cannot make the directory %s: %s", partial, strerror(errno));
    if (!write_parts(c, partial, error) || !check_not_moved(c, error) || !place(c, partial, final, error)) {
        if (check_not_moved(c, NULL)) remove_parts(partial, NULL);
        return false;
    }
    steps_add(&c->steps, c->step);
    if (!directory_flush(c->directory, error) || !move_links(c, &c->step, error)) return false;
    Error reason;
    if (!check_not_moved(c, &reason) || !remove_parts(partial, &reason) || !remove_replaced(c, step, &reason))
        warn("the replaced checkpoint was not removed: %s", reason.text);
    remove_old(c);
    return true;
}

static void *write_thread(void *checkpointer) {
    Checkpointer *c = checkpointer;
    c->failed = !write_checkpoint(c, &c->error);
    if (c->failed) {
        warn("a checkpoint could not be written: %s; trying once more", c->error.text);
        c->failed = !write_checkpoint(c, &c->error);
    }
    c->writing = false;
    return NULL;
}

/* ---- what the file system lacks ---- */

/* Makes a folder with a link in it, renames it and removes it, as checkpoints need it. Dies if that fails. Returns
 * whether there are symbolic links. */
static bool try_links(const char *directory) {
    static const char *const names[] = {".disk_probe.partial", ".disk_probe"};
    Path folders[2], links[2];
    bool lacking = false;
    for (int i = 0; i < 2; i++) {
        folder_join(folders[i], directory, names[i]);
        folder_join(links[i], folders[i], "link");
        if (!unlink(links[i]) || errno == ENOENT) rmdir(folders[i]); /* of a killed program */
    }
    bool ok = !mkdir(folders[0], 0777);
    if (ok && symlink("link", links[0])) {
        lacking = errno == EPERM || errno == EACCES || file_system_lacks(errno);
        int file = lacking ? open(links[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
        ok = file >= 0 && !close(file);
    }
    ok = ok && !rename(folders[0], folders[1]) && !unlink(links[1]) && !rmdir(folders[1]);
    if (!ok)
        die("%s: a folder could not be made, renamed and removed there, as every checkpoint is: %s; give an "
            "--output-dir on another disk",
            directory, strerror(errno));
    return !lacking;
}

static void print_lacking(const char *directory, bool links, bool locks) {
    static const char *const small = "last and best are small files that name a checkpoint";
    if (locks)
        warn("%s: this file system has no %slocks; %s%slet one program at a time write into it", directory,
             links ? "symbolic links and no " : "", links ? small : "", links ? "; " : "");
    else if (links)
        printf("[Disk] %s: this file system has no symbolic links; %s\n", directory, small);
}

/* ---- the checkpointer ---- */

Checkpointer *checkpointer_open(const char *directory, int keep) {
    Checkpointer *c = xcalloc(1, sizeof *c);
    c->keep = keep;
    if (snprintf(c->directory, sizeof c->directory, "%s", directory) >= (int)sizeof c->directory)
        die("the path of the directory is too long: %.200s...", directory);
    checkpoint_release(); /* what it holds has been read, and the run may remove it */
    make_directories(directory);
    c->lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->lock < 0) die("cannot open the directory %s: %s", directory, strerror(errno));
    LockResult lock = lock_descriptor(c->lock, false);
    if (lock == LOCK_BUSY)
        die("another program is writing checkpoints into %s; wait for it, or choose another directory", directory);
    c->has_links = try_links(directory);
    print_lacking(directory, !c->has_links, lock == LOCK_UNKNOWN);
    MUST(folder_recover(directory, &error));
    remove_leftovers(c);
    MUST(steps_read(&c->steps, directory, &error));
    for (int i = 0; i < c->steps.n; i++)
        if (c->steps.items[i].serial > c->serial) c->serial = c->steps.items[i].serial;
    steps_reserve(&c->steps, ROOM);
    reserve(c, ROOM);
    return c;
}

void checkpointer_begin(const Checkpointer *c) {
    if (c->steps.n + c->steps.n_bad)
        die("%s already holds a run: give --resume auto to go on with it, or another --output-dir", c->directory);
}

int64_t checkpointer_newest(const Checkpointer *c) { return c->steps.n ? c->steps.items[c->steps.n - 1].serial : 0; }

/* Renames copies of checkpoints that are not there themselves to step_N. */
static void adopt_copies(Checkpointer *c) {
    for (int i = 0; i < c->steps.n; i++) {
        Step *step = &c->steps.items[i];
        Path from, to;
        if (!step->copy) continue;
        step_folder(from, c->directory, step);
        step->copy = NULL;
        step_folder(to, c->directory, step);
        if (rename(from, to)) die("cannot rename %s to %s: %s", from, to, strerror(errno));
        MUST(directory_flush(c->directory, &error));
        printf("[Resume] %s, a copy of a checkpoint, is now %s\n", from, to);
    }
}

/* Describes DIR/link: the step that it names, or what there is instead. */
static void link_text(const Checkpointer *c, const char *link, StepName text) {
    bool copy = folder_is_copy(c->directory, link);
    folder_link(c->directory, link, text);
    if (!text[0]) snprintf(text, sizeof(StepName), "%s", copy ? "a folder" : "missing");
}

bool checkpointer_resume(Checkpointer *c, TrainState *state) {
    const Step *own = steps_find(&c->steps, state->step), *newest = own;
    StepName last, best, name;
    bool unchanged = true;
    if (c->steps.n_bad) die("%s. Nothing was changed; move it away first", c->steps.why.text);
    if (c->steps.n) newest = &c->steps.items[c->steps.n - 1];
    if (newest && (!own || own->serial != state->serial || own->seconds != state->seconds))
        die("%s holds another run, without this checkpoint of step %lld; give another --output-dir", c->directory,
            (long long)state->step);
    link_text(c, LAST_LINK, last);
    link_text(c, BEST_LINK, best);
    if (newest) adopt_copies(c);
    if (state->best_step && !steps_find(&c->steps, state->best_step)) {
        warn("the best weights so far, of step %lld, are not in %s: the next validated weights count as the best%s",
             (long long)state->best_step, c->directory, newest ? "" : " there");
        state->best_step = 0;
        state->best = INFINITY;
        unchanged = false;
    }
    c->step = (Step){state->step, state->serial, state->best_step, state->seconds, NULL, false};
    if (newest && own != newest) {
        StepName before;
        step_name(name, state->step, "");
        step_name(before, newest->step, "");
        printf("[Resume] %s, although %s is newer: the steps after %lld are repeated\n", name, before,
               (long long)state->step);
    }
    if (!newest || own != newest)
        return false; /* resumed from another directory or an earlier step: the first save moves the links */
    MUST(move_links(c, &c->step, &error));
    step_name(name, state->step, "");
    if (strcmp(last, name)) printf("[Resume] the link last was %s and is now %s, the newest\n", last, name);
    step_name(name, state->best_step, "");
    if (state->best_step && strcmp(best, name))
        printf("[Resume] the link best was %s and is now %s, as the newest checkpoint says\n", best, name);
    remove_old(c);
    return unchanged;
}

void checkpointer_carry(Checkpointer *c, const StoredTensor *tensors, int count) {
    free(c->carried);
    c->carried = xcalloc((size_t)count, sizeof *tensors);
    if (count) memcpy(c->carried, tensors, (size_t)count * sizeof *tensors);
    c->n_carried = count;
}

void checkpointer_describe(Checkpointer *c, char *text) {
    free(c->description);
    c->description = text;
}

/* Waits for the thread, and says so while that takes long. Dies after an hour: a card that is paid for would wait on a
 * disk that hangs. */
static void join_thread(const Checkpointer *c) {
    enum { FIRST = 10, OTHERS = 60, MOST = 3600 }; /* seconds */
    for (int waited = 0;;) {
        struct timespec until;
        int more = waited ? OTHERS : FIRST;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += more;
        if (pthread_timedjoin_np(c->thread, NULL, &until) != ETIMEDOUT) return;
        waited += more;
        if (waited >= MOST)
            die("%s: the checkpoint of step %lld was not written within an hour: the disk hangs. The earlier "
                "checkpoints are whole: go on with the same command and --resume auto",
                c->directory, (long long)c->step.step);
        printf("[Wait] %s: the checkpoint of step %lld is not written after %d s: the disk is slow, or hangs; training "
               "waits for it, a second signal stops at once\n",
               c->directory, (long long)c->step.step, waited);
        fflush(stdout);
    }
}

/* Waits for the end of the write; its result stays in failed and error. */
static void finish_write(Checkpointer *c) {
    if (c->running && c->threaded) join_thread(c);
    if (c->running) free(c->state_text);
    c->running = false;
}

void checkpointer_save(Checkpointer *c, const CheckpointBuffers *buffers, const TrainState *state) {
    Error error;
    TrainState numbered = *state;
    if (!checkpointer_wait(c, &error)) warn("the checkpoint before this one could not be written: %s", error.text);
    numbered.serial = ++c->serial;
    reserve(c, buffers->table->count + c->n_carried);
    reserve(c, 2 * buffers->table->count);
    c->buffers = *buffers;
    c->state_text = state_to_json(&numbered);
    c->step = (Step){state->step, numbered.serial, state->best_step, state->seconds, NULL, false};
    c->running = true;
    c->writing = true;
    c->threaded = !pthread_create(&c->thread, NULL, write_thread, c);
    if (!c->threaded) write_thread(c); /* no thread could be started */
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
    FREE(c->carried, c->description, c->tensors, c->names, c->steps.items, c);
}
