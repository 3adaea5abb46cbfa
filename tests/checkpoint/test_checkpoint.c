/* Writes checkpoints that are whole at every moment, and loads them to the bit.
 *
 * This program has its own write, fsync, rename, ... instead of the C library's: each is a system call, with a fault in
 * front of the k-th one. A child writes a checkpoint and is killed there (in the middle of a write), or is told that
 * the disk is full; the parent then looks at what is left. So every place between two calls is tried. */
#include "base/file.h"
#include "checkpoint/description.h"
#include "checkpoint/folder.h"
#include "tests/allocations.h"
#include "tests/checkpoint/rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static Error error;

/* ---- faults ---- */

typedef enum { FAULT_NONE, FAULT_KILL, FAULT_ONCE, FAULT_FROM, FAULT_ORDER, FAULT_MOVE } Fault;

static struct {
    Fault kind;
    int at;                                           /* the call, from 1 */
    bool no_exchange, no_locks, no_links, no_renames; /* what this file system cannot do */
    atomic_int calls, of_links;                       /* the call that begins a file in place of a link */
    char dirty[64][PATH_MAX];                         /* FAULT_ORDER: written and not flushed */
    int n_dirty;
    const char *from, *to, *other; /* FAULT_MOVE: the folder is moved there, and a link to another one takes its name */
} fault;

static void move_away(void) {
    assert_int_equal(syscall(SYS_renameat2, AT_FDCWD, fault.from, AT_FDCWD, fault.to, 0), 0);
    assert_int_equal(syscall(SYS_symlinkat, fault.other, AT_FDCWD, fault.from), 0);
}

/* Before a call: kills the process, or returns true: the call must fail. */
static bool fault_is_due(void) {
    if (fault.kind == FAULT_NONE) return false;
    int call = ++fault.calls;
    if (fault.kind == FAULT_MOVE && call == fault.at) move_away();
    if (fault.kind == FAULT_KILL && call == fault.at) kill(getpid(), SIGKILL);
    if ((fault.kind == FAULT_ONCE && call == fault.at) || (fault.kind == FAULT_FROM && call >= fault.at)) {
        errno = ENOSPC;
        return true;
    }
    return false;
}

/* Every path that was changed stays here until it is flushed. */
static void dirty_add(const char *path) {
    if (fault.kind != FAULT_ORDER) return;
    if (fault.n_dirty == 64) die("too many files that are not flushed");
    snprintf(fault.dirty[fault.n_dirty++], PATH_MAX, "%s", path);
}

static void dirty_add_parent(const char *path) {
    if (fault.kind != FAULT_ORDER) return;
    dirty_add(keep(path_directory(path)));
}

static void dirty_remove(const char *path) {
    for (int i = 0; i < fault.n_dirty;)
        if (strcmp(fault.dirty[i], path))
            i++;
        else
            memmove(fault.dirty[i], fault.dirty[--fault.n_dirty], PATH_MAX);
}

/* Reports the path, or anything in it, that is not flushed. */
static void must_be_flushed(const char *path, const char *before) {
    size_t length = strlen(path);
    for (int i = 0; i < fault.n_dirty && fault.kind == FAULT_ORDER; i++)
        if (!strncmp(fault.dirty[i], path, length) && (!fault.dirty[i][length] || fault.dirty[i][length] == '/'))
            printf("NOT FLUSHED before %s: %s\n", before, fault.dirty[i]);
}

static char *path_of_fd(int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = 0;
    return path;
}

int mkdir(const char *path, mode_t mode) {
    if (fault_is_due() || syscall(SYS_mkdirat, AT_FDCWD, path, mode)) return -1;
    dirty_add_parent(path);
    return 0;
}

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
        if (fault_is_due()) return -1;
        if (!fault.of_links && strstr(path, "/best.partial.")) fault.of_links = fault.calls;
        dirty_add_parent(path);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    char path[PATH_MAX];
    if (fault.kind == FAULT_KILL && fault.calls + 1 == fault.at) syscall(SYS_write, fd, bytes, size / 2); /* torn */
    if (fault_is_due()) return -1;
    if (fault.kind == FAULT_ORDER) dirty_add(path_of_fd(fd, path));
    return (ssize_t)syscall(SYS_write, fd, bytes, size);
}

/* Flushes nothing: a killed process loses nothing that it wrote, and the disks of test machines are slow. */
int fsync(int fd) {
    char path[PATH_MAX];
    if (fault_is_due()) return -1;
    if (fault.kind == FAULT_ORDER) dirty_remove(path_of_fd(fd, path));
    return 0;
}

static void note_rename(const char *from, const char *to) {
    if (fault.kind != FAULT_ORDER) return;
    char name[PATH_MAX + 32], *parent = keep(path_directory(from));
    bool removed =
        ends_with(to, ".partial") && !ends_with(from, ".partial"); /* an old checkpoint: it may be lost now */
    if (ends_with(to, "/last")) must_be_flushed(parent, "the link is moved");
    snprintf(name, sizeof name, "the rename of %s", from);
    must_be_flushed(removed ? parent : from, name);
    if (!removed) dirty_add_parent(to);
}

int rename(const char *from, const char *to) {
    if (fault.no_renames) errno = ENOSYS;
    if (fault.no_renames || fault_is_due()) return -1;
    note_rename(from, to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    if (fault.no_exchange && flags) {
        errno = EINVAL;
        return -1;
    }
    if (fault_is_due()) return -1;
    note_rename(from, to);
    return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}

int flock(int fd, int operation) {
    if (fault.no_locks) errno = ENOLCK;
    return fault.no_locks ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int symlink(const char *target, const char *path) {
    if (fault.no_links) errno = EPERM;
    if (fault.no_links || fault_is_due()) return -1;
    if (fault.kind == FAULT_ORDER && strstr(path, "last")) {
        must_be_flushed(keep(path_directory(path)), "the link is moved");
    }
    return (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

static int remove_entry(const char *path, int flags) {
    if (fault_is_due()) return -1;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
}

int unlink(const char *path) { return remove_entry(path, 0); }
int rmdir(const char *path) { return remove_entry(path, AT_REMOVEDIR); }

/* ---- writing ---- */

TEST(a_checkpoint_is_loaded_to_the_bit) {
    char *directory = kept_folder();
    Checkpointer *c = rig_checkpointer(directory, 3);
    uint64_t seed;
    assert_null(rig_resolve(directory, "auto"));
    for (int64_t step = 1; step <= 3; step++) {
        rig_save_good(c, step, 5, false);
        assert_int_equal(rig_step_to_resume(directory, &seed), step);
        assert_int_equal(seed, 5);
    }
    checkpointer_close(c);
    rig_assert_listing(directory, "last step_00000001 step_00000002 step_00000003 ");
}

/* The path of a library may be no UTF-8, and is then not told. */
TEST(a_device_that_is_no_text_stops_no_checkpoint) {
    const TrainState state = {.device = "cuda: cuBLASLt in /home/m\xfcller", .best = INFINITY};
    TrainState got;
    OWNED char *text = state_to_json(&state);
    assert_contains(text, "\"device\": null");
    if (!state_parse(text, strlen(text), &got, &error)) fail_msg("%s", error.text);
    assert_string_equal(got.device, "");
    free(got.options_json);
}

TEST(the_newest_the_last_and_the_best_are_kept) {
    char *directory = kept_folder(), output[64];
    Checkpointer *c = rig_checkpointer(directory, 2);
    write_text(kept_path(directory, "step_00000000"), "a file");
    write_text(kept_path(directory, "log.jsonl"), "the log");
    make_directories(kept_path(directory, "step_00000003.mine"));
    make_directories(kept_path(directory, "step_00000002"));
    for (int64_t step = 3; step <= 8; step++) rig_save_good(c, step, 1, step == 4);
    rig_assert_listing(directory, "best last log.jsonl step_00000000 step_00000002 step_00000003.mine step_00000004 "
                                  "step_00000007 step_00000008 ");
    write_text(kept_path(directory, "step_00000007/notes.txt"), "mine");
    rig_save_good(c, 9, 1, true); /* 4 is no longer the best */
    rig_save_good(c, 10, 1, false);
    rig_assert_listing(directory, "best last log.jsonl step_00000000 step_00000002 step_00000003.mine step_00000007 "
                                  "step_00000009 step_00000010 ");
    run_command(output, sizeof output, "cd '%s'; %s last best | tr '\\n' ' '", directory,
                fault.no_links ? "cat" : "readlink");
    assert_string_equal(output, "step_00000010 step_00000009 ");
    checkpointer_close(c);
}

static void open_again(void *directory) { checkpointer_close(checkpointer_open(directory, 1)); }

/* The names, what is kept and what is resumed are as with links; the file system is told of once. */
TEST(small_files_stand_for_links) {
    char *directory = kept_folder(), output[1024];
    fault.no_links = true;
    the_newest_the_last_and_the_best_are_kept();
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 0);
    assert_contains(output, "[Disk] ");
    assert_contains(output, ": this file system has no symbolic links; last and best are small files that name a "
                            "checkpoint\n");
    fault.no_locks = true;
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 0);
    assert_contains(output, ": this file system has no symbolic links and no locks; last and best are small files that "
                            "name a checkpoint; let one program at a time write into it\n");
    assert_null(strchr(strchr(output, '\n') + 1, '\n'));
    fault.no_locks = fault.no_links = false;
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 0);
    assert_string_equal(output, "");
    rig_assert_listing(directory, "");
}

static void assert_kind(const char *directory, mode_t kind) {
    struct stat status;
    assert_int_equal(lstat(kept_path(directory, "last"), &status), 0);
    assert_int_equal(status.st_mode & S_IFMT, kind);
    assert_int_equal(lstat(kept_path(directory, "best"), &status), 0);
    assert_int_equal(status.st_mode & S_IFMT, kind);
}

TEST(a_run_moves_between_disks_with_links_and_without) {
    char *directory = kept_folder();
    uint64_t seed;
    rig_best_step = 0;
    for (int step = 1; step <= 4; step++) {
        fault.no_links = step % 2 == 0;
        Checkpointer *c = rig_checkpointer(directory, 1);
        if (step > 1) {
            TrainState state = rig_read_state(kept_path(directory, "last"));
            assert_true(checkpointer_resume(c, &state));
            assert_kind(directory, fault.no_links ? S_IFREG : S_IFLNK); /* before anything is saved */
            assert_int_equal(rig_linked(directory, "last"), step - 1);
        }
        rig_save_good(c, step, 1, step == 1);
        checkpointer_close(c);
        assert_kind(directory, fault.no_links ? S_IFREG : S_IFLNK);
        assert_int_equal(rig_linked(directory, "last"), step);
        assert_int_equal(rig_check_whole(kept_path(directory, "best"), &seed), 1);
        assert_int_equal(rig_step_to_resume(directory, &seed), step);
    }
    rig_assert_listing(directory, "best last step_00000001 step_00000004 ");
    fault.no_links = false;
}

/* Expects that what checkpoints need is tried before anything is trained. */
TEST(a_disk_that_renames_no_folders_is_refused) {
    char *directory = kept_folder(), output[1024];
    fault.no_renames = true;
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 1);
    assert_contains(output, ": a folder could not be made, renamed and removed there, as every checkpoint is: Function "
                            "not implemented; give an --output-dir on another disk");
    fault.no_renames = false;
    open_again(directory);
    rig_assert_listing(directory, "");
}

TEST(a_step_written_again_is_replaced) {
    rig_best_step = 0;
    char *directory = kept_folder();
    Checkpointer *c = rig_checkpointer(directory, 2);
    uint64_t seed;
    rig_save_good(c, 1, 1, false);
    rig_save_good(c, 1, 2, false);
    assert_int_equal(rig_step_to_resume(directory, &seed), 1);
    assert_int_equal(seed, 2);
    make_directories(kept_path(directory, "step_00000002/mine"));
    rig_save(c, 2, 1, false);
    assert_false(checkpointer_wait(c, &error));
    assert_contains(error.text, "step_00000002 is in the way and no checkpoint of this program");
    assert_true(checkpointer_wait(c, &error)); /* printed once */
    rig_assert_listing(directory, "last step_00000001 step_00000002 ");
    checkpointer_close(c);
}

TEST(a_save_allocates_only_the_text_of_its_state) {
    Checkpointer *c = rig_checkpointer(kept_folder(), 1);
    int64_t before = allocation_count();
    rig_save_good(c, 1, 1, true);
    rig_save_good(c, 2, 1, true);
    skip_under_sanitizer("the count of allocations");
    assert_int_equal(allocation_count(), before + 2);
    checkpointer_close(c);
}

TEST(two_runs_cannot_share_a_directory) {
    char *directory = kept_folder(), output[1024];
    Checkpointer *c = rig_checkpointer(directory, 1);
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 1);
    assert_contains(output, "another program is writing checkpoints into");
    checkpointer_close(c);
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 0);
}

/* A decision belongs to its weights, and goes when they go. */
TEST(a_decision_stays_with_its_weights) {
    char *directory = kept_folder(), *first = kept_path(directory, "step_00000001"),
         *second = kept_path(directory, "step_00000002"), output[256];
    Checkpointer *c = rig_checkpointer(directory, 1);
    rig_best_step = 0;
    rig_save_good(c, 1, 1, true);
    json_t *none = decision_read(first, &error);
    assert_null(none);
    assert_string_equal(error.text, "");
    if (!decision_write(first, json_build("a test", "{s:f}", "threshold", 0.25), &error)) fail_msg("%s", error.text);
    json_t *read = decision_read(kept_path(directory, "best"), &error);
    assert_near(json_number_value(json_object_get(read, "threshold")), 0.25, 0);
    json_decref(read);
    checkpoint_release();
    rig_save_good(c, 2, 1, false);
    rig_assert_listing(first, "config.json decision.json model.safetensors optimizer.safetensors state.json ");
    run_command(output, sizeof output, "cp %s/decision.json %s/", first, second);
    assert_null(decision_read(second, &error));
    assert_contains(error.text, "it was made for other weights");
    checkpoint_release();
    rig_save_good(c, 3, 1, true);
    rig_assert_listing(directory, "best last step_00000003 ");
    checkpointer_close(c);
}

/* ---- a folder that is moved while it is in use ---- */

static void assert_run(const char *directory, uint64_t seed, const char *want) {
    char output[64];
    rig_assert_listing(directory, want);
    for (int step = 1; step <= 3; step++) {
        char *path = kept_format("%s/step_%08d", directory, step);
        uint64_t found = seed;
        if (!access(path, F_OK)) rig_check_whole(path, &found);
        assert_int_equal(found, seed);
    }
    run_command(output, sizeof output, "cd '%s'; readlink last best | tr '\n' ' '", directory);
    assert_string_equal(output, "step_00000003 step_00000003 ");
}

/* Between two saves or in the middle of one; another run, which keeps more, has the same steps under the old path. */
TEST(a_run_goes_on_in_the_folder_that_it_began) {
    for (int in_a_save = 0; in_a_save < 2; in_a_save++) {
        char *top = kept_folder(), *path = kept_path(top, "run"), *moved = kept_path(top, "moved"),
             *other = kept_path(top, "other");
        Checkpointer *c = rig_checkpointer(path, 1), *others = rig_checkpointer(other, 3);
        rig_best_step = 0;
        for (int step = 1; step <= 3; step++) rig_save_good(others, step, 2, true);
        rig_save_good(c, 1, 1, true);
        fault.from = path;
        fault.to = moved;
        fault.other = other;
        fault.calls = 0;
        fault.at = 4; /* model.safetensors is begun */
        if (in_a_save)
            fault.kind = FAULT_MOVE;
        else
            move_away();
        rig_save_good(c, 2, 1, true);
        fault.kind = FAULT_NONE;
        rig_save_good(c, 3, 1, true);
        assert_string_equal(checkpointer_directory(c, NULL), moved);
        assert_run(moved, 1, "best last step_00000003 ");
        assert_run(other, 2, "best last step_00000001 step_00000002 step_00000003 ");
        checkpointer_close(c);
        checkpointer_close(others);
    }
}

static void remove_and_save(void *directory) {
    char output[64];
    Checkpointer *c = rig_checkpointer(directory, 1);
    rig_save_good(c, 1, 1, false);
    run_command(output, sizeof output, "rm -r '%s'; mkdir '%s'", (char *)directory, (char *)directory);
    rig_save_good(c, 2, 1, false);
}

TEST(a_run_whose_folder_is_removed_ends) {
    char *directory = kept_path(kept_folder(), "run"), output[1024];
    assert_int_equal(run_function(output, sizeof output, remove_and_save, directory), 1);
    assert_contains(output, "was removed while it was in use: nothing can be written into it any more");
    rig_assert_listing(directory, "");
}

/* ---- faults while writing ---- */

typedef struct {
    char *directory;
    int64_t steps_before, step;
    uint64_t seed;
    Fault kind;
    int at;
} Attempt;

/* Writes one more checkpoint in a child, with a fault, and prints the result. */
static void attempt_save(void *argument) {
    const Attempt *a = argument;
    Checkpointer *c = rig_checkpointer(a->directory, 1);
    fault.kind = a->kind;
    fault.at = a->at;
    rig_save(c, a->step, a->seed, true);
    bool ok = checkpointer_wait(c, &error);
    fault.kind = FAULT_NONE;
    printf("%s after %d calls: %s\n", ok ? "WRITTEN" : "FAILED", fault.calls, ok ? "" : error.text);
    if (fault.of_links) printf("files for links from call %d on\n", fault.of_links);
    checkpointer_close(c);
}

/* The directory again with steps 1 (best) .. steps_before (last), and nothing else. */
static void reset(const Attempt *a) {
    char output[64];
    assert_int_equal(run_command(output, sizeof output, "rm -rf '%s'", a->directory), 0);
    Checkpointer *c = rig_checkpointer(a->directory, 3);
    rig_best_step = 0;
    for (int64_t step = 1; step <= a->steps_before; step++) rig_save_good(c, step, 1, step == 1);
    checkpointer_close(c);
}

static void prepare(Attempt *a) {
    a->directory = kept_path(kept_folder(), "run");
    reset(a);
}

/* Fails unless every step_N is whole. */
static void assert_all_whole(const char *directory) {
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[PATH_MAX];
        uint64_t seed;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (!strncmp(entry->d_name, "step_", 5) && !strstr(entry->d_name, ".")) rig_check_whole(path, &seed);
    }
    closedir(entries);
}

/* The best weights are those that the newest checkpoint means, they stay, and the next runs keep them. */
static void assert_best(const char *directory, Checkpointer *c) {
    char *newest = keep(checkpoint_resolve(directory, "auto")), best[PATH_MAX];
    uint64_t seed;
    TrainState state = newest ? rig_read_state(newest) : (TrainState){.best = INFINITY};
    rig_best_step = state.best_step;
    if (newest) checkpointer_resume(c, &state);
    assert_int_equal(state.best_step, rig_best_step);
    assert_int_equal(rig_linked(directory, "best"), rig_best_step);
    if (newest) assert_int_equal(rig_linked(directory, "last"), state.step);
    for (int64_t step = 9; step < 12; step++) rig_save_good(c, step, 4, false);
    assert_int_equal(rig_linked(directory, "best"), rig_best_step);
    snprintf(best, sizeof best, "%s/best", directory);
    if (rig_best_step) assert_int_equal(rig_check_whole(best, &seed), rig_best_step);
}

/* Checks the promise after any fault: resume finds the old or the new checkpoint whole, best is whole and belongs to
 * the resumed state, and the next run cleans up and can write. */
static void assert_survived(const Attempt *a, bool written) {
    uint64_t seed = 0;
    int64_t step = rig_step_to_resume(a->directory, &seed);
    bool is_new = step == a->step && seed == a->seed, is_old = step == a->steps_before && (!step || seed == 1);
    if (!is_new && (written || !is_old)) fail_msg("call %d: step %lld is resumed", a->at, (long long)step);
    char best[PATH_MAX], last[PATH_MAX], output[4096];
    snprintf(best, sizeof best, "%s/best", a->directory);
    snprintf(last, sizeof last, "%s/last", a->directory);
    if (a->steps_before || written) rig_check_whole(best, &seed);
    if (!access(last, F_OK) && a->step != a->steps_before)
        assert_true(rig_linked(a->directory, "best") >= rig_read_state(last).best_step);
    assert_all_whole(a->directory);
    Checkpointer *c = rig_checkpointer(a->directory, 2);
    assert_int_equal(run_command(output, sizeof output, "ls -A '%s'", a->directory), 0);
    if (strstr(output, "partial") || strstr(output, "replaced")) fail_msg("call %d leaves: %s", a->at, output);
    assert_best(a->directory, c);
    assert_int_equal(rig_step_to_resume(a->directory, &seed), 11);
    checkpointer_close(c);
}

/* Tries a fault at every third call from `first` on, at every call with CRASH_STRIDE=1, until one comes after the last.
 * Returns the number of calls. */
static int try_every_call(Attempt a, int first) {
    const char *stride = getenv("CRASH_STRIDE");
    char output[4096];
    prepare(&a);
    for (a.at = first;; a.at += stride ? atoi(stride) : 3) {
        assert_true(a.at < 1000);
        int status = run_function(output, sizeof output, attempt_save, &a);
        bool written = strstr(output, "WRITTEN") != NULL, finished = written && !strstr(output, "warning");
        if (a.kind == FAULT_KILL && status != 128 + SIGKILL && !finished) fail_msg("status %d: %s", status, output);
        if (a.kind != FAULT_KILL && status) fail_msg("status %d: %s", status, output);
        assert_survived(&a, written);
        int calls = 0;
        if (finished) sscanf(strstr(output, "WRITTEN"), "WRITTEN after %d", &calls);
        if (calls && calls < a.at) return calls;
        reset(&a);
    }
}

static const Attempt situations[] = {
    {.steps_before = 0, .step = 3, .seed = 1}, /* the first checkpoint of a run */
    {.steps_before = 2, .step = 3, .seed = 1}, /* one more; 1 and 2 go */
    {.steps_before = 2, .step = 2, .seed = 2}, /* the last step once more, with other numbers */
};

static void try_every_situation(Fault kind) {
    for (int i = 0; i < 3; i++) {
        Attempt a = situations[i];
        a.kind = kind;
        int calls = try_every_call(a, 1);
        assert_true(calls >= 20);
        printf("a fault at each of %d calls\n", calls);
    }
}

/* A kill, an error or a full disk at each call since small files take the place of links; before, all is the same. */
TEST(no_links_and_any_fault_leave_a_whole_checkpoint) {
    char output[4096];
    int first = 0;
    Attempt a = situations[1];
    fault.no_links = true;
    a.kind = FAULT_ORDER;
    prepare(&a);
    assert_int_equal(run_function(output, sizeof output, attempt_save, &a), 0);
    assert_contains(output, "files for links from call ");
    assert_int_equal(sscanf(strstr(output, "files for links"), "files for links from call %d", &first), 1);
    for (Fault kind = FAULT_KILL; kind <= FAULT_FROM; kind++) {
        a.kind = kind;
        assert_true(try_every_call(a, first) >= first + 10);
    }
    fault.no_links = false;
}

TEST(a_kill_at_any_call_leaves_a_whole_checkpoint) { try_every_situation(FAULT_KILL); }

TEST(an_error_of_any_call_leaves_a_whole_checkpoint) { try_every_situation(FAULT_ONCE); }

TEST(a_disk_that_dies_at_any_call_leaves_a_whole_checkpoint) { try_every_situation(FAULT_FROM); }

/* Neither does a file system that has no exchange of two names lose the checkpoint that is replaced. */
TEST(a_replacement_without_exchange_leaves_a_whole_checkpoint) {
    fault.no_exchange = true;
    for (Fault kind = FAULT_KILL; kind <= FAULT_FROM; kind++) {
        Attempt a = situations[2];
        a.kind = kind;
        assert_true(try_every_call(a, 1) >= 20);
    }
    fault.no_exchange = false;
}

TEST(a_new_folder_is_flushed_in_its_parent) {
    char *directory = kept_path(kept_folder(), "runs/new");
    fault.kind = FAULT_ORDER;
    checkpointer_close(checkpointer_open(directory, 1));
    fault.kind = FAULT_NONE;
    dirty_remove(directory); /* nothing stays in it */
    if (fault.n_dirty) fail_msg("not flushed: %s", fault.dirty[0]);
}

TEST(no_locks_are_not_another_program) {
    char *directory = kept_folder(), output[1024];
    fault.no_locks = true;
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 0);
    assert_contains(output, "this file system has no locks; let one program at a time write into it");
    fault.no_locks = false;
}

/* A power cut does no harm if nothing is renamed, linked to or deleted before the files it depends on are on the disk.
 */
TEST(everything_is_flushed_before_it_counts) {
    char output[8192];
    for (int i = 0; i < 6; i++) {
        Attempt a = situations[i % 3];
        a.kind = FAULT_ORDER;
        fault.no_links = i >= 3;
        prepare(&a);
        assert_int_equal(run_function(output, sizeof output, attempt_save, &a), 0);
        assert_contains(output, "WRITTEN");
        if (strstr(output, "NOT FLUSHED")) fail_msg("%s", output);
    }
    fault.no_links = false;
}

static void save_with_small_limit(void *argument) {
    struct rlimit limit = {500, 500};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    attempt_save(argument);
}

TEST(a_file_too_large_is_reported) {
    char output[4096];
    uint64_t seed;
    Attempt a = {.steps_before = 2, .step = 3, .seed = 1};
    prepare(&a);
    assert_int_equal(run_function(output, sizeof output, save_with_small_limit, &a), 0);
    assert_contains(output, "FAILED");
    assert_contains(output, "step_00000003.partial/model.safetensors: 500 of ");
    assert_contains(output, " bytes were written, then: File too large");
    assert_int_equal(rig_step_to_resume(a.directory, &seed), 2);
    rig_assert_listing(a.directory, "best last step_00000001 step_00000002 ");
}

/* On a file system of 64 KiB, mounted for this process alone: steps until it is full. */
TEST(a_full_disk_leaves_a_whole_checkpoint) {
    char *directory = kept_folder(), output[4096];
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", directory, "tmpfs", 0, "size=64k")) {
        printf("SKIPPED: a full disk on a small tmpfs: %s\n", strerror(errno));
        skip();
    }
    Checkpointer *c = rig_checkpointer(directory, 100);
    uint64_t seed;
    int64_t step = 1;
    for (; rig_save(c, step, 1, false), checkpointer_wait(c, &error); step++) assert_true(step < 50);
    assert_true(step > 1);
    assert_contains(error.text, ".partial/");
    assert_contains(error.text, " bytes were written, then: No space left on device");
    assert_int_equal(rig_step_to_resume(directory, &seed), step - 1);
    run_command(output, sizeof output, "ls '%s'", directory);
    assert_null(strstr(output, "partial"));
    /* With room again the same save succeeds. */
    run_command(output, sizeof output, "rm -r '%s/step_00000001'", directory);
    rig_save_good(c, step, 1, false);
    assert_int_equal(rig_step_to_resume(directory, &seed), step);
    checkpointer_close(c);
    assert_int_equal(umount(directory), 0);
}

int main(void) { return tests_run(rig_set_up, NULL); }
