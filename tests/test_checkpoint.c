/* Checkpoints: whole at every moment, resumed to the bit, imported by rule.
 *
 * This program has its own write, fsync, rename, ... instead of the C library's: each is a system call, with a fault in
 * front of the k-th one. A child writes a checkpoint and is killed there (in the middle of a write), or is told that
 * the disk is full; the parent then looks at what is left. So every place between two calls is tried. */
#include "tests/helpers.h"

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

#include "base/file.h"
#include "train/checkpoint_state.h"

/* ---- faults ---- */

typedef enum { FAULT_NONE, FAULT_KILL, FAULT_ONCE, FAULT_FROM, FAULT_ORDER, FAULT_MOVE } Fault;

static struct {
    Fault kind;
    int at;                     /* the call, from 1 */
    bool no_exchange, no_locks; /* what this file system cannot do */
    atomic_int calls;
    char dirty[64][PATH_MAX]; /* FAULT_ORDER: written and not flushed */
    int n_dirty;
    const char *from, *to, *other; /* FAULT_MOVE: the folder is moved there, and a link to another one takes its name */
} fault;

static void move_away(void) {
    assert_int_equal(syscall(SYS_renameat2, AT_FDCWD, fault.from, AT_FDCWD, fault.to, 0), 0);
    assert_int_equal(syscall(SYS_symlinkat, fault.other, AT_FDCWD, fault.from), 0);
}

/* Before a call: kills the process, or returns true: the call must fail. */
static bool strike(void) {
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
    char *parent = path_directory(path);
    dirty_add(parent);
    free(parent);
}

static void dirty_remove(const char *path) {
    for (int i = 0; i < fault.n_dirty;)
        if (strcmp(fault.dirty[i], path))
            i++;
        else
            memmove(fault.dirty[i], fault.dirty[--fault.n_dirty], PATH_MAX);
}

/* Says so if the path, or anything in it, is not flushed. */
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
    if (strike() || syscall(SYS_mkdirat, AT_FDCWD, path, mode)) return -1;
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
        if (strike()) return -1;
        dirty_add_parent(path);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    char path[PATH_MAX];
    if (fault.kind == FAULT_KILL && fault.calls + 1 == fault.at) syscall(SYS_write, fd, bytes, size / 2); /* torn */
    if (strike()) return -1;
    if (fault.kind == FAULT_ORDER) dirty_add(path_of_fd(fd, path));
    return (ssize_t)syscall(SYS_write, fd, bytes, size);
}

/* Flushes nothing: a killed process loses nothing that it wrote, and the disks of test machines are slow. */
int fsync(int fd) {
    char path[PATH_MAX];
    if (strike()) return -1;
    if (fault.kind == FAULT_ORDER) dirty_remove(path_of_fd(fd, path));
    return 0;
}

static void note_rename(const char *from, const char *to) {
    if (fault.kind != FAULT_ORDER) return;
    char name[PATH_MAX + 32], *parent = path_directory(from);
    size_t length = strlen(to);
    bool retired = length > 8 && !strcmp(to + length - 8, ".partial"); /* an old checkpoint: it may be lost now */
    snprintf(name, sizeof name, "the rename of %s", from);
    must_be_flushed(retired ? parent : from, name);
    if (!retired) dirty_add_parent(to);
    free(parent);
}

int rename(const char *from, const char *to) {
    if (strike()) return -1;
    note_rename(from, to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    if (fault.no_exchange && flags) {
        errno = EINVAL;
        return -1;
    }
    if (strike()) return -1;
    note_rename(from, to);
    return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}

int flock(int fd, int operation) {
    if (fault.no_locks) errno = ENOLCK;
    return fault.no_locks ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int symlink(const char *target, const char *path) {
    if (strike()) return -1;
    if (fault.kind == FAULT_ORDER && strstr(path, "last")) {
        char *parent = path_directory(path);
        must_be_flushed(parent, "the link is moved");
        free(parent);
    }
    return (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

static int remove_entry(const char *path, int flags) {
    if (strike()) return -1;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
}

int unlink(const char *path) { return remove_entry(path, 0); }
int rmdir(const char *path) { return remove_entry(path, AT_REMOVEDIR); }

/* ---- what the tests own ---- */

/* Texts that live until the program ends. */
static char *keep(char *text) {
    static char *all[512];
    static int n;
    assert_true(n < 512);
    return all[n++] = text;
}

static char *scratch(void) { return keep(scratch_directory()); }
static char *in(const char *directory, const char *name) { return keep(path_join(directory, name)); }

/* ---- a small model whose numbers follow from the step and the seed ---- */

static ParamTable table;
static float *weights, *m, *v;
static const int64_t counter_data[3] = {1, -2, 1LL << 40};
static const uint8_t flag_data[5] = {1, 0, 1, 1, 0};
static const StoredTensor carried[] = {
    {.name = "pe", .dtype = "U8", .rank = 1, .dims = {5}, .count = 5, .data = flag_data, .bytes = 5},
    {.name = "counter", .dtype = "I64", .rank = 1, .dims = {3}, .count = 3, .data = counter_data, .bytes = 24},
};

static void make_table(ParamTable *t, int64_t rows) {
    param_add(t, INIT_NORMAL, 0.02f, true, rows, 5, "text_embedding.weight");
    param_add(t, INIT_ONE, 0, false, 7, 0, "gpt.ln_f.weight");
    param_add(t, INIT_NORMAL, 0.02f, true, 20, 4, "gpt.h.0.attn.c_attn.weight");
}

static int set_up(void **unused) {
    (void)unused;
    make_table(&table, 3);
    weights = xaligned((size_t)table.flat_count * 4);
    m = xaligned((size_t)table.flat_count * 4);
    v = xaligned((size_t)table.flat_count * 4);
    return 0;
}

static void fill_part(float *flat, int part, int64_t step, uint64_t seed) {
    memset(flat, 0, (size_t)table.flat_count * 4);
    for (int i = 0; i < table.count; i++)
        for (int64_t e = table.items[i].offset; e < table.items[i].offset + table.items[i].count; e++)
            flat[e] = (float)sin((double)(e + 1) * (double)(step + 3 * part + 1) + (double)seed);
}

static void fill_parts(int64_t step, uint64_t seed) {
    fill_part(weights, 0, step, seed);
    fill_part(m, 1, step, seed);
    fill_part(v, 2, step, seed);
}

static int64_t best_so_far;

static TrainState state_of(int64_t step, uint64_t seed) {
    TrainState state = {.step = step,
                        .micro_step = 4 * step,
                        .epoch = step / 7,
                        .batch_index = step + 11,
                        .seed = UINT64_MAX - seed,
                        .samples_seen = step << 40,
                        .tokens_seen = INT64_C(3999999999999999999) - step,
                        .n_samples = 300,
                        .data_hash = INT64_MIN + step,
                        .content_hash = INT64_MAX - step,
                        .validation_hash = -step,
                        .base_sum = UINT64_MAX - 5,
                        .skipped_steps = 1,
                        .frozen_rows = 2,
                        .seconds = 0.1 * (double)step,
                        .best = step == 1 ? (double)INFINITY : 1.0 / (double)step,
                        .best_step = best_so_far,
                        .worse = 3 * step,
                        .loss_scale = {65536, 3},
                        .window_sums = {1.0 / 7, -0.0, (double)INFINITY},
                        .window_counts = {17},
                        .revision = "0123456789ab",
                        .options_json = "{\"learning-rate\": 5.0000000000000002e-5, \"batch-size\": 8}",
                        .n_metrics = 3,
                        .metric_names = {"loss", "mel \"top1\"", "val"},
                        .metric_values = {1.0 / 3, -0.0, (double)NAN}};
    return state;
}

static void save(Checkpointer *c, int64_t step, uint64_t seed, bool best) {
    if (best || best_so_far > step) best_so_far = best ? step : 0;
    TrainState state = state_of(step, seed);
    fill_parts(step, seed);
    checkpointer_save(c, &table, weights, m, v, &state);
}

static Checkpointer *open_checkpointer(const char *directory, int keep) {
    Checkpointer *c = checkpointer_open(directory, keep);
    checkpointer_carry(c, carried, 2);
    return c;
}

static void save_good(Checkpointer *c, int64_t step, uint64_t seed, bool best) {
    Error error;
    save(c, step, seed, best);
    if (!checkpointer_wait(c, &error)) fail_msg("step %lld: %s", (long long)step, error.text);
}

static void assert_same_bits(double got, double want) { assert_memory_equal(&got, &want, sizeof got); }

static void assert_state(const TrainState *got, const TrainState *want) {
    assert_true(got->step == want->step && got->micro_step == want->micro_step && got->epoch == want->epoch);
    assert_true(got->batch_index == want->batch_index && got->seed == want->seed);
    assert_true(got->samples_seen == want->samples_seen && got->tokens_seen == want->tokens_seen);
    assert_true(got->n_samples == want->n_samples && got->data_hash == want->data_hash);
    assert_true(got->content_hash == want->content_hash && got->validation_hash == want->validation_hash);
    assert_true(got->base_sum == want->base_sum);
    assert_int_equal(got->skipped_steps, want->skipped_steps);
    assert_true(got->frozen_rows == want->frozen_rows && got->best_step == want->best_step);
    assert_true(got->worse == want->worse);
    assert_memory_equal(got->loss_scale, want->loss_scale, sizeof want->loss_scale);
    assert_memory_equal(got->window_sums, want->window_sums, sizeof want->window_sums);
    assert_memory_equal(got->window_counts, want->window_counts, sizeof want->window_counts);
    assert_same_bits(got->seconds, want->seconds);
    assert_same_bits(got->best, want->best);
    assert_string_equal(got->revision, want->revision);
    assert_contains(got->options_json, "5.0000000000000002e-5");
    assert_int_equal(got->n_metrics, want->n_metrics);
    for (int i = 0; i < got->n_metrics; i++) {
        assert_string_equal(got->metric_names[i], want->metric_names[i]);
        if (!isnan(want->metric_values[i])) assert_same_bits(got->metric_values[i], want->metric_values[i]);
    }
    assert_true(isnan(got->metric_values[2]));
}

static void assert_part(const float *got, int part, int64_t step, uint64_t seed) {
    float *want = xaligned((size_t)table.flat_count * 4);
    fill_part(want, part, step, seed);
    assert_memory_equal(got, want, (size_t)table.flat_count * 4);
    free(want);
}

/* Loads the checkpoint and compares every bit with what its step and seed give. Returns the step; *seed: its seed. */
static int64_t check_whole(const char *path, uint64_t *seed) {
    TensorFile file;
    StoredTensor *tensors;
    TrainState state;
    Error error;
    int n;
    for (float *parts[] = {weights, m, v}, **part = parts; part < parts + 3; part++)
        memset(*part, 0xff, (size_t)table.flat_count * 4);
    if (!checkpoint_load(path, &table, weights, m, v, &state, &file, &tensors, &n, &error))
        fail_msg("%s: %s", path, error.text);
    *seed = UINT64_MAX - state.seed;
    TrainState want = state_of(state.step, *seed);
    want.best_step = state.best_step;
    assert_state(&state, &want);
    assert_part(weights, 0, state.step, *seed);
    assert_part(m, 1, state.step, *seed);
    assert_part(v, 2, state.step, *seed);
    assert_int_equal(n, 2);
    for (int i = 0; i < 2; i++) {
        const StoredTensor *got = &tensors[i];
        const StoredTensor *base = &carried[strcmp(got->name, "pe") != 0];
        assert_string_equal(got->name, base->name);
        assert_string_equal(got->dtype, base->dtype);
        assert_int_equal(got->bytes, base->bytes);
        assert_memory_equal(got->data, base->data, base->bytes);
    }
    free(tensors);
    free(state.options_json);
    tensor_file_close(&file);
    return state.step;
}

/* The step that --resume auto goes on from; 0: none. */
static int64_t step_to_resume(const char *directory, uint64_t *seed) {
    char *path = checkpoint_resolve(directory, "auto");
    if (!path) return 0;
    int64_t step = check_whole(path, seed);
    free(path);
    return step;
}

static char *resolve(const char *directory, const char *resume) { return keep(checkpoint_resolve(directory, resume)); }

static void assert_listing(const char *directory, const char *want) {
    char output[4096];
    assert_int_equal(run_command(output, sizeof output, "ls -A '%s' | tr '\\n' ' '", directory), 0);
    assert_string_equal(output, want);
}

/* ---- writing ---- */

static void a_checkpoint_is_loaded_to_the_bit(void **unused) {
    (void)unused;
    char *directory = scratch();
    Checkpointer *c = open_checkpointer(directory, 3);
    uint64_t seed;
    assert_null(resolve(directory, "auto"));
    for (int64_t step = 1; step <= 3; step++) {
        save_good(c, step, 5, false);
        assert_int_equal(step_to_resume(directory, &seed), step);
        assert_int_equal(seed, 5);
    }
    checkpointer_close(c);
    assert_listing(directory, "last step_00000001 step_00000002 step_00000003 ");
}

static void the_newest_the_last_and_the_best_are_kept(void **unused) {
    (void)unused;
    char *directory = scratch(), output[64];
    Checkpointer *c = open_checkpointer(directory, 2);
    write_text(in(directory, "step_00000000"), "a file");
    write_text(in(directory, "log.jsonl"), "the log");
    make_directories(in(directory, "step_00000003.mine"));
    make_directories(in(directory, "step_00000002"));
    for (int64_t step = 3; step <= 8; step++) save_good(c, step, 1, step == 4);
    assert_listing(directory, "best last log.jsonl step_00000000 step_00000002 step_00000003.mine step_00000004 "
                              "step_00000007 step_00000008 ");
    write_text(in(directory, "step_00000007/notes.txt"), "mine");
    save_good(c, 9, 1, true); /* 4 is no longer the best */
    save_good(c, 10, 1, false);
    assert_listing(directory, "best last log.jsonl step_00000000 step_00000002 step_00000003.mine step_00000007 "
                              "step_00000009 step_00000010 ");
    run_command(output, sizeof output, "cd '%s'; readlink last best | tr '\\n' ' '", directory);
    assert_string_equal(output, "step_00000010 step_00000009 ");
    checkpointer_close(c);
}

static void a_step_written_again_is_replaced(void **unused) {
    (void)unused;
    char *directory = scratch();
    Checkpointer *c = open_checkpointer(directory, 2);
    uint64_t seed;
    save_good(c, 1, 1, false);
    save_good(c, 1, 2, false);
    assert_int_equal(step_to_resume(directory, &seed), 1);
    assert_int_equal(seed, 2);
    make_directories(in(directory, "step_00000002/mine"));
    Error error;
    save(c, 2, 1, false);
    assert_false(checkpointer_wait(c, &error));
    assert_contains(error.text, "step_00000002 is in the way and no checkpoint of this program");
    assert_true(checkpointer_wait(c, &error)); /* said once */
    assert_listing(directory, "last step_00000001 step_00000002 ");
    checkpointer_close(c);
}

static void a_save_allocates_nothing(void **unused) {
    (void)unused;
    Checkpointer *c = open_checkpointer(scratch(), 1);
    int64_t before = allocation_count();
    save_good(c, 1, 1, true);
    save_good(c, 2, 1, true);
    assert_int_equal(allocation_count(), before);
    checkpointer_close(c);
}

static void open_again(void *directory) { checkpointer_close(checkpointer_open(directory, 1)); }

static void two_runs_cannot_share_a_directory(void **unused) {
    (void)unused;
    char *directory = scratch(), output[1024];
    Checkpointer *c = open_checkpointer(directory, 1);
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 1);
    assert_contains(output, "another program is writing checkpoints into");
    checkpointer_close(c);
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 0);
}

/* ---- a folder that is moved while it is in use ---- */

static void assert_run(const char *directory, uint64_t seed, const char *want) {
    char output[64];
    assert_listing(directory, want);
    for (int step = 1; step <= 3; step++) {
        char *path = keep(xformat("%s/step_%08d", directory, step));
        uint64_t found = seed;
        if (!access(path, F_OK)) check_whole(path, &found);
        assert_int_equal(found, seed);
    }
    run_command(output, sizeof output, "cd '%s'; readlink last best | tr '\n' ' '", directory);
    assert_string_equal(output, "step_00000003 step_00000003 ");
}

/* Between two saves or in the middle of one; another run, which keeps more, has the same steps under the old path. */
static void a_run_goes_on_in_the_folder_that_it_began(void **unused) {
    (void)unused;
    for (int in_a_save = 0; in_a_save < 2; in_a_save++) {
        char *top = scratch(), *path = in(top, "run"), *moved = in(top, "moved"), *other = in(top, "other");
        Checkpointer *c = open_checkpointer(path, 1), *others = open_checkpointer(other, 3);
        best_so_far = 0;
        for (int step = 1; step <= 3; step++) save_good(others, step, 2, true);
        save_good(c, 1, 1, true);
        fault.from = path;
        fault.to = moved;
        fault.other = other;
        fault.calls = 0;
        fault.at = 4; /* model.safetensors is begun */
        if (in_a_save)
            fault.kind = FAULT_MOVE;
        else
            move_away();
        save_good(c, 2, 1, true);
        fault.kind = FAULT_NONE;
        save_good(c, 3, 1, true);
        assert_string_equal(checkpointer_directory(c, NULL), moved);
        assert_run(moved, 1, "best last step_00000003 ");
        assert_run(other, 2, "best last step_00000001 step_00000002 step_00000003 ");
        checkpointer_close(c);
        checkpointer_close(others);
    }
}

static void remove_and_save(void *directory) {
    char output[64];
    Checkpointer *c = open_checkpointer(directory, 1);
    save_good(c, 1, 1, false);
    run_command(output, sizeof output, "rm -r '%s'; mkdir '%s'", (char *)directory, (char *)directory);
    save_good(c, 2, 1, false);
}

static void a_run_whose_folder_is_removed_ends(void **unused) {
    (void)unused;
    char *directory = in(scratch(), "run"), output[1024];
    assert_int_equal(run_function(output, sizeof output, remove_and_save, directory), 1);
    assert_contains(output, "was removed while it was in use: nothing can be written into it any more");
    assert_listing(directory, "");
}

/* ---- faults while writing ---- */

typedef struct {
    char *directory;
    int64_t steps_before, step;
    uint64_t seed;
    Fault kind;
    int at;
} Attempt;

/* In a child: writes one more checkpoint, with a fault; says what came of it. */
static void attempt_save(void *argument) {
    const Attempt *a = argument;
    Error error;
    Checkpointer *c = open_checkpointer(a->directory, 1);
    fault.kind = a->kind;
    fault.at = a->at;
    save(c, a->step, a->seed, true);
    bool good = checkpointer_wait(c, &error);
    fault.kind = FAULT_NONE;
    printf("%s after %d calls: %s\n", good ? "WRITTEN" : "FAILED", fault.calls, good ? "" : error.text);
    checkpointer_close(c);
}

/* The directory again with steps 1 (best) .. steps_before (last), and nothing else. */
static void reset(const Attempt *a) {
    char output[64];
    assert_int_equal(run_command(output, sizeof output, "rm -rf '%s'", a->directory), 0);
    Checkpointer *c = open_checkpointer(a->directory, 3);
    best_so_far = 0;
    for (int64_t step = 1; step <= a->steps_before; step++) save_good(c, step, 1, step == 1);
    checkpointer_close(c);
}

static void prepare(Attempt *a) {
    a->directory = in(scratch(), "run");
    reset(a);
}

/* Whatever is called step_N must be whole. */
static void assert_all_whole(const char *directory) {
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[PATH_MAX];
        uint64_t seed;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (!strncmp(entry->d_name, "step_", 5) && !strstr(entry->d_name, ".")) check_whole(path, &seed);
    }
    closedir(entries);
}

/* What the link leads to; 0: nothing is there. */
static int64_t linked(const char *directory, const char *link) {
    char path[PATH_MAX], target[64] = "";
    int64_t step = 0;
    snprintf(path, sizeof path, "%s/%s", directory, link);
    ssize_t n = readlink(path, target, sizeof target - 1);
    assert_true(n < 0 || sscanf(target, "step_%" SCNd64, &step) == 1);
    return step;
}

static TrainState read_state(const char *path) {
    TrainState state = {0};
    Error error;
    if (!state_read(path, &state, &error)) fail_msg("%s: %s", path, error.text);
    free(state.options_json);
    return state;
}

/* The best weights are those that the newest checkpoint means, they stay, and the next runs keep them. */
static void assert_best(const char *directory, Checkpointer *c) {
    char *newest = checkpoint_resolve(directory, "auto"), best[PATH_MAX];
    uint64_t seed;
    TrainState state = newest ? read_state(newest) : (TrainState){.best = INFINITY};
    best_so_far = state.best_step;
    if (newest) checkpointer_resume(c, &state);
    assert_int_equal(state.best_step, best_so_far);
    assert_int_equal(linked(directory, "best"), best_so_far);
    if (newest) assert_int_equal(linked(directory, "last"), state.step);
    for (int64_t step = 9; step < 12; step++) save_good(c, step, 4, false);
    assert_int_equal(linked(directory, "best"), best_so_far);
    snprintf(best, sizeof best, "%s/best", directory);
    if (best_so_far) assert_int_equal(check_whole(best, &seed), best_so_far);
    free(newest);
}

/* What must hold after any fault: resume finds the old or the new checkpoint whole, best is whole, and is the one of
 * the state that is resumed; the next run cleans up and can write. */
static void assert_survived(const Attempt *a, bool written) {
    uint64_t seed = 0;
    int64_t step = step_to_resume(a->directory, &seed);
    bool is_new = step == a->step && seed == a->seed, is_old = step == a->steps_before && (!step || seed == 1);
    if (!is_new && (written || !is_old)) fail_msg("call %d: step %lld is resumed", a->at, (long long)step);
    char best[PATH_MAX], last[PATH_MAX], output[4096];
    snprintf(best, sizeof best, "%s/best", a->directory);
    snprintf(last, sizeof last, "%s/last", a->directory);
    if (a->steps_before || written) check_whole(best, &seed);
    if (!access(last, F_OK) && a->step != a->steps_before)
        assert_true(linked(a->directory, "best") >= read_state(last).best_step);
    assert_all_whole(a->directory);
    Checkpointer *c = open_checkpointer(a->directory, 2);
    assert_int_equal(run_command(output, sizeof output, "ls -A '%s'", a->directory), 0);
    if (strstr(output, "partial") || strstr(output, "replaced")) fail_msg("call %d leaves: %s", a->at, output);
    assert_best(a->directory, c);
    assert_int_equal(step_to_resume(a->directory, &seed), 11);
    checkpointer_close(c);
}

/* Tries a fault at every call until one comes after the last. Returns the number of calls. */
static int try_every_call(Attempt a) {
    char output[4096];
    prepare(&a);
    for (a.at = 1;; a.at++) {
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
        int calls = try_every_call(a);
        assert_true(calls >= 20);
        printf("a fault at each of %d calls\n", calls);
    }
}

static void a_kill_at_any_call_leaves_a_whole_checkpoint(void **unused) {
    (void)unused;
    try_every_situation(FAULT_KILL);
}

static void an_error_of_any_call_leaves_a_whole_checkpoint(void **unused) {
    (void)unused;
    try_every_situation(FAULT_ONCE);
}

static void a_disk_that_dies_at_any_call_leaves_a_whole_checkpoint(void **unused) {
    (void)unused;
    try_every_situation(FAULT_FROM);
}

/* Neither does a file system that has no exchange of two names lose the checkpoint that is replaced. */
static void a_replacement_without_exchange_leaves_a_whole_checkpoint(void **unused) {
    (void)unused;
    fault.no_exchange = true;
    for (Fault kind = FAULT_KILL; kind <= FAULT_FROM; kind++) {
        Attempt a = situations[2];
        a.kind = kind;
        assert_true(try_every_call(a) >= 20);
    }
    fault.no_exchange = false;
}

static void a_new_folder_is_flushed_in_its_parent(void **unused) {
    (void)unused;
    char *directory = in(scratch(), "runs/new");
    fault.kind = FAULT_ORDER;
    checkpointer_close(checkpointer_open(directory, 1));
    fault.kind = FAULT_NONE;
    if (fault.n_dirty) fail_msg("not flushed: %s", fault.dirty[0]);
}

static void no_locks_are_not_another_program(void **unused) {
    (void)unused;
    char *directory = scratch(), output[1024];
    fault.no_locks = true;
    assert_int_equal(run_function(output, sizeof output, open_again, directory), 0);
    assert_contains(output, "this file system has no locks; let one program at a time write into it");
    fault.no_locks = false;
}

/* What a power cut would need: nothing is renamed, linked to or deleted before what it depends on is on the disk. */
static void everything_is_flushed_before_it_counts(void **unused) {
    (void)unused;
    char output[8192];
    for (int i = 0; i < 3; i++) {
        Attempt a = situations[i];
        a.kind = FAULT_ORDER;
        prepare(&a);
        assert_int_equal(run_function(output, sizeof output, attempt_save, &a), 0);
        assert_contains(output, "WRITTEN");
        if (strstr(output, "NOT FLUSHED")) fail_msg("%s", output);
    }
}

static void save_with_small_limit(void *argument) {
    struct rlimit limit = {500, 500};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    attempt_save(argument);
}

static void a_file_too_large_is_said(void **unused) {
    (void)unused;
    char output[4096];
    uint64_t seed;
    Attempt a = {.steps_before = 2, .step = 3, .seed = 1};
    prepare(&a);
    assert_int_equal(run_function(output, sizeof output, save_with_small_limit, &a), 0);
    assert_contains(output, "FAILED");
    assert_contains(output, "step_00000003.partial/model.safetensors: 500 of ");
    assert_contains(output, " bytes were written, then: File too large");
    assert_int_equal(step_to_resume(a.directory, &seed), 2);
    assert_listing(a.directory, "best last step_00000001 step_00000002 ");
}

/* On a file system of 64 KiB, mounted for this process alone: steps until it is full. */
static void a_full_disk_leaves_a_whole_checkpoint(void **unused) {
    (void)unused;
    char *directory = scratch(), output[4096];
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", directory, "tmpfs", 0, "size=64k")) {
        printf("SKIPPED: a full disk on a small tmpfs: %s\n", strerror(errno));
        skip();
    }
    Checkpointer *c = open_checkpointer(directory, 100);
    Error error;
    uint64_t seed;
    int64_t step = 1;
    for (; save(c, step, 1, false), checkpointer_wait(c, &error); step++) assert_true(step < 50);
    assert_true(step > 1);
    assert_contains(error.text, ".partial/");
    assert_contains(error.text, " bytes were written, then: No space left on device");
    assert_int_equal(step_to_resume(directory, &seed), step - 1);
    run_command(output, sizeof output, "ls '%s'", directory);
    assert_null(strstr(output, "partial"));
    /* With room again the same save succeeds. */
    run_command(output, sizeof output, "rm -r '%s/step_00000001'", directory);
    save_good(c, step, 1, false);
    assert_int_equal(step_to_resume(directory, &seed), step);
    checkpointer_close(c);
    assert_int_equal(umount(directory), 0);
}

/* ---- which checkpoint ---- */

static char *resolve_directory;
static void resolve_or_die(void *resume) { puts(resolve(resolve_directory, resume)); }

static void assert_refused(const char *resume, const char *message) {
    char output[2048], before[4096], after[4096];
    run_command(before, sizeof before, "ls -lAR --full-time '%s'", resolve_directory);
    assert_int_equal(run_function(output, sizeof output, resolve_or_die, (void *)(uintptr_t)resume), 1);
    assert_contains(output, message);
    run_command(after, sizeof after, "ls -lAR --full-time '%s'", resolve_directory);
    assert_string_equal(after, before); /* nothing was touched */
}

static void resume_finds_what_is_meant(void **unused) {
    (void)unused;
    char *directory = resolve_directory = scratch();
    Checkpointer *c = open_checkpointer(directory, 3);
    for (int64_t step = 1; step <= 3; step++) save_good(c, step, 1, step == 2);
    checkpointer_close(c);
    char *one = in(directory, "step_00000001"), *three = in(directory, "step_00000003");
    assert_string_equal(resolve("/nowhere", one), one);
    assert_string_equal(resolve("/nowhere", in(one, "state.json")), one);
    assert_null(resolve("/nowhere", "auto"));
    assert_null(resolve(scratch(), "auto"));
    assert_string_equal(resolve(directory, "auto"), three);
    unlink(in(directory, "last"));
    assert_string_equal(resolve(directory, "auto"), three);
    assert_int_equal(symlink("step_00000001", in(directory, "last")), 0); /* a newer one is whole */
    assert_string_equal(resolve(directory, "auto"), three);
    assert_refused("/nowhere", "--resume /nowhere: no checkpoint: cannot read its state.json");
    assert_refused(directory, "/last?");
}

static void resume_stops_at_what_it_cannot_use(void **unused) {
    (void)unused;
    char *directory = resolve_directory = scratch(), *message;
    Checkpointer *c = open_checkpointer(directory, 3);
    for (int64_t step = 1; step <= 3; step++) save_good(c, step, 1, step == 2);
    checkpointer_close(c);
    char *one = in(directory, "step_00000001"), *three = in(directory, "step_00000003");
    char *state = in(three, "state.json"), *good = keep(read_text(state));
    unlink(in(three, "optimizer.safetensors"));
    assert_refused(three, "cannot read its optimizer.safetensors: No such file");
    assert_refused("auto", "step_00000003 cannot be used: cannot read its optimizer.safetensors: No such file or "
                           "directory. Nothing was changed; move it away to go on from step_00000002");
    write_text(in(three, "optimizer.safetensors"), " ");
    write_text(state, "{\"format\": \"another\"}");
    assert_refused(three, "not one of a checkpoint of this program");
    assert_refused("auto", "step_00000003 cannot be used: state.json is not one of a checkpoint of this program");
    write_text(state, "{\n\"format\": \"another\"");
    assert_refused("auto", "step_00000003 cannot be used: state.json, line 2, column");
    write_text(state, "%s", good);
    char *digit = strstr(good, "\"epoch\": ") + strlen("\"epoch\": ");
    *digit = '7';
    write_text(state, "%s", good);
    assert_refused("auto", "step_00000003 cannot be used: state.json is damaged");
    unlink(state);
    assert_int_equal(mkfifo(state, 0666), 0);
    assert_refused("auto", "cannot read its state.json: is a FIFO, not a regular file");
    assert_int_equal(run_command(fault.dirty[0], PATH_MAX, "rm -r '%s'", three), 0);
    assert_string_equal(resolve(directory, "auto"), in(directory, "step_00000002"));
    assert_int_equal(run_command(fault.dirty[0], PATH_MAX, "mv '%s' '%s'", one, three), 0); /* of another step */
    assert_refused("auto", "step_00000003 cannot be used: its state.json is of step 1");
    assert_int_equal(run_command(fault.dirty[0], PATH_MAX, "rm -r '%s' '%s/step_00000002'", three, directory), 0);
    message = xformat("%s/last names step_00000003, and no checkpoint is there. Nothing was changed", directory);
    assert_refused("auto", message);
    free(message);
}

/* Whoever may not read the directory does not know that nothing is there. */
static void resolve_without_rights(void *directory) {
    if (setgid(65534) || setuid(65534)) die("cannot give up rights");
    printf("%s\n", checkpoint_resolve(directory, "auto") ? "a run" : "no run");
}

static void a_directory_that_cannot_be_read_is_no_empty_one(void **unused) {
    (void)unused;
    char *directory = scratch(), output[1024];
    if (getuid()) skip();
    assert_int_equal(chmod(directory, 0), 0);
    assert_int_equal(run_function(output, sizeof output, resolve_without_rights, directory), 1);
    assert_contains(output, "cannot read the directory");
    chmod(directory, 0777);
}

/* A run that went back to an earlier step is newer than the steps that it left. */
static void the_newest_is_the_one_written_last(void **unused) {
    (void)unused;
    char *directory = scratch();
    Checkpointer *c = open_checkpointer(directory, 3);
    for (int64_t step = 2; step <= 8; step += 2) save_good(c, step, 1, step == 4 || step == 8);
    checkpointer_close(c);
    assert_listing(directory, "best last step_00000004 step_00000006 step_00000008 ");
    c = open_checkpointer(directory, 3);
    TrainState state = read_state(in(directory, "step_00000004"));
    checkpointer_resume(c, &state);
    assert_int_equal(linked(directory, "best"), 8); /* of the newest, as long as it is that */
    best_so_far = state.best_step;
    save_good(c, 5, 2, false);
    assert_string_equal(resolve(directory, "auto"), in(directory, "step_00000005"));
    assert_int_equal(linked(directory, "best"), 4);
    assert_int_equal(linked(directory, "last"), 5);
    save_good(c, 6, 2, false);
    assert_string_equal(resolve(directory, "auto"), in(directory, "step_00000006"));
    assert_listing(directory, "best last step_00000004 step_00000005 step_00000006 step_00000008 ");
    save_good(c, 7, 2, false);
    assert_listing(directory, "best last step_00000004 step_00000005 step_00000006 step_00000007 ");
    checkpointer_close(c);
}

static void resume_again(void *directory) {
    TrainState state = read_state(in(directory, "step_00000003"));
    Checkpointer *c = checkpointer_open(directory, 3);
    checkpointer_resume(c, &state);
    printf("best: %lld\n", (long long)state.best_step);
    checkpointer_close(c);
}

static void the_links_are_mended_from_the_newest_state(void **unused) {
    (void)unused;
    char *directory = scratch(), output[1024];
    Checkpointer *c = open_checkpointer(directory, 9);
    for (int64_t step = 1; step <= 3; step++) save_good(c, step, 1, step < 3);
    checkpointer_close(c);
    for (int i = 0; i < 2; i++) {
        unlink(in(directory, "best"));
        unlink(in(directory, "last"));
        assert_int_equal(symlink(i ? "step_00000001" : "step_00000009", in(directory, "best")), 0);
        if (i) assert_int_equal(symlink("step_00000002", in(directory, "last")), 0);
        Error reason;
        char *found;
        assert_true(checkpoint_best(directory, &found, &reason)); /* whatever the links say */
        assert_string_equal(keep(found), in(directory, "step_00000002"));
        assert_int_equal(run_function(output, sizeof output, resume_again, directory), 0);
        assert_contains(output, i ? "the link best was step_00000001 and is now step_00000002"
                                  : "the link best was step_00000009 and is now step_00000002");
        assert_contains(output, i ? "the link last was step_00000002 and is now step_00000003, the newest"
                                  : "the link last was missing and is now step_00000003, the newest");
        assert_contains(output, "best: 2");
        assert_int_equal(linked(directory, "best"), 2);
        assert_int_equal(linked(directory, "last"), 3);
    }
    assert_int_equal(run_command(output, sizeof output, "rm -r '%s/step_00000002'", directory), 0);
    char *best;
    Error error;
    assert_false(checkpoint_best(directory, &best, &error));
    assert_contains(error.text, "step_00000003 says that the best weights are of step 2: ");
    assert_int_equal(run_function(output, sizeof output, resume_again, directory), 0);
    assert_contains(output, "the best weights so far, of step 2, are not in");
    assert_contains(output, "best: 0");
    assert_int_equal(linked(directory, "best"), 0);
}

/* It would be in the way of the run when it comes by. */
static void no_run_goes_on_before_a_damaged_step(void **unused) {
    (void)unused;
    char *directory = scratch(), output[1024];
    Checkpointer *c = open_checkpointer(directory, 9);
    for (int64_t step = 3; step <= 5; step++) save_good(c, step, 1, false);
    checkpointer_close(c);
    write_text(in(directory, "step_00000005/state.json"), "{}");
    assert_int_equal(run_function(output, sizeof output, resume_again, directory), 1);
    assert_contains(output, "step_00000005 cannot be used: state.json");
    assert_contains(output, "Nothing was changed; move it away first");
    assert_int_equal(linked(directory, "last"), 5);
}

static void leftovers_of_earlier_versions_go(void **unused) {
    (void)unused;
    char *directory = scratch();
    make_directories(in(directory, "step_00000003.partial"));
    write_text(in(directory, "step_00000003.partial/model.safetensors.partial"), "half");
    Checkpointer *c = open_checkpointer(directory, 9);
    assert_listing(directory, "");
    save_good(c, 3, 1, false);
    checkpointer_close(c);
}

static void open_and_close(void *directory) { checkpointer_close(checkpointer_open(directory, 3)); }

/* Told before there is anything to save; the links of a killed run go. */
static void files_in_the_way_of_the_links_stay(void **unused) {
    (void)unused;
    static const char *const names[] = {"last.partial", "best.partial", "last", "best"};
    char *directory = scratch(), output[1024];
    for (int i = 0; i < 4; i++)
        for (int link = 0; link < (i < 2 ? 2 : 1); link++) {
            char *path = in(directory, names[i]);
            if (link)
                assert_int_equal(symlink("notes", path), 0);
            else
                write_text(path, "mine");
            assert_int_equal(run_function(output, sizeof output, open_and_close, directory), 1);
            assert_contains(output, names[i]);
            assert_contains(output, "is in the way of the link");
            assert_listing(directory, keep(xformat("%s ", names[i])));
            assert_int_equal(unlink(path), 0);
        }
    Checkpointer *c = open_checkpointer(directory, 3);
    write_text(in(directory, "last.partial"), "mine");
    save(c, 3, 1, false);
    Error error;
    assert_false(checkpointer_wait(c, &error));
    assert_contains(error.text, "last.partial is in the way");
    checkpointer_close(c);
    char *text = read_text(in(directory, "last.partial"));
    assert_string_equal(text, "mine");
    free(text);
    assert_int_equal(unlink(in(directory, "last.partial")), 0);
    assert_int_equal(symlink("step_00000003", in(directory, "last.partial")), 0);
    open_and_close(directory);
    assert_listing(directory, "step_00000003 ");
}

static void begin_again(void *directory) { checkpointer_begin(checkpointer_open(directory, 3)); }
static void resume_elsewhere(void *directory) {
    TrainState state = read_state(in(directory, "step_00000003"));
    state.seconds += 1;
    checkpointer_resume(checkpointer_open(directory, 3), &state);
}

static void a_directory_holds_one_run(void **unused) {
    (void)unused;
    char *directory = scratch(), output[1024];
    Checkpointer *c = open_checkpointer(directory, 3);
    checkpointer_begin(c);
    save_good(c, 3, 1, false);
    checkpointer_close(c);
    assert_int_equal(run_function(output, sizeof output, begin_again, directory), 1);
    assert_contains(output, "already holds a run: give --resume auto");
    assert_int_equal(run_function(output, sizeof output, resume_elsewhere, directory), 1);
    assert_contains(output, "holds another run, which has no such checkpoint of step 3; give another --output-dir");
    write_text(in(directory, "step_00000003/state.json"), "{}");
    assert_int_equal(run_function(output, sizeof output, begin_again, directory), 1);
    assert_contains(output, "already holds a run");
}

/* ---- damage ---- */

static bool loads(const char *path, Error *error) {
    TrainState state = {0};
    TensorFile file;
    StoredTensor *tensors;
    int n;
    if (!checkpoint_load(path, &table, weights, m, v, &state, &file, &tensors, &n, error)) return false;
    free(tensors);
    free(state.options_json);
    tensor_file_close(&file);
    return true;
}

static void every_flipped_bit_is_refused(void **unused) {
    (void)unused;
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "state.json"};
    char *directory = scratch(), *path = in(directory, "step_00000001");
    Checkpointer *c = open_checkpointer(directory, 3);
    save_good(c, 1, 1, false);
    checkpointer_close(c);
    for (int i = 0; i < 3; i++) {
        char *name = in(path, names[i]), *bytes;
        size_t size;
        Error error;
        assert_true(read_file(name, &bytes, &size, &error));
        int file = open(name, O_WRONLY);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            char flipped = (char)(bytes[bit / 8] ^ 1 << bit % 8);
            assert_int_equal(pwrite(file, &flipped, 1, (off_t)(bit / 8)), 1);
            if (loads(path, &error)) fail_msg("%s: bit %zu is flipped, and it loads", names[i], bit);
            if (!strstr(error.text, names[i]) && !strstr(error.text, "state.json"))
                fail_msg("%s: bit %zu: not named: %s", names[i], bit, error.text);
            assert_int_equal(pwrite(file, bytes + bit / 8, 1, (off_t)(bit / 8)), 1);
        }
        assert_true(loads(path, &error));
        close(file);
        free(bytes);
    }
}

/* state.json with a part of it replaced, and the checksum of what it is now. */
static char *change_state(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from), *end = strstr(text, ",\n  \"xxh3_64\"");
    assert_true(at && at < end);
    char *body =
        xformat("%.*s%s%.*s", (int)(at - text), text, to, (int)(end - at - (ptrdiff_t)strlen(from)), at + strlen(from));
    char *changed =
        xformat("%s,\n  \"xxh3_64\": \"%016llx\"\n}", body, (unsigned long long)checksum(0, body, strlen(body)));
    free(body);
    return keep(changed);
}

static void fields_out_of_range_are_refused_by_name(void **unused) {
    (void)unused;
    static const char *const changes[][3] = {
        {"\"batch_index\": 14", "\"batch_index\": 4611686018427387904",
         "\"batch_index\" is 4611686018427387904, and it must be from 0 to 1000000000000"},
        {"\"step\": 3", "\"step\": -3", "\"step\" is -3"},
        {"\"step\": 3", "\"step\": 3.0", "\"step\" is missing, or not a whole number"},
        {"\"step\": 3,", "", "\"step\" is missing, or not a whole number"},
        {"\"step\": 3", "\"step\": 13", "\"step\" is 13, more than \"micro_step\", which is 12"},
        {"\"best_step\": 2", "\"best_step\": 4", "\"best_step\" is 4, more than \"step\", which is 3"},
        {"\"skipped_steps\": 1", "\"skipped_steps\": 4", "\"skipped_steps\" is 4, more than \"step\""},
        {"\"epoch\": 0", "\"epoch\": -1", "\"epoch\" is -1"},
        {"\"extensions\": 0", "\"extensions\": 1000001", "\"extensions\" is 1000001"},
        {"\"validating\": 0", "\"validating\": 2", "\"validating\" is 2"},
        {"\"seconds\": 0.3", "\"seconds\": \"nan\", \"x\": 0.3", "\"seconds\" is nan"},
        {"\"seconds\": 0.3", "\"seconds\": \"inf\", \"x\": 0.3", "\"seconds\" is inf"},
        {"\"best\": 0.3", "\"best\": \"nan\", \"x\": 0.3", "\"best\" is nan"},
        {"\"best\": 0.3", "\"best\": [], \"x\": 0.3", "\"best\" is missing, or not a number"},
        {"    65536.0,\n", "", "\"loss_scale\" is not a list of 4 numbers"},
        {"    65536.0,\n", "    \"nan\",\n", "\"loss_scale\" is nan"},
        {"    65536.0,\n", "    {},\n", "\"loss_scale\" is missing, or not a list of a number"},
        {"\"window_counts\"", "\"x\"", "\"window_counts\" is not a list of 4 numbers"},
        {"\"metrics\"", "\"x\"", "\"metrics\" is missing, or no object"},
        {"\"loss\": ", "\"a name that is much longer than a metric's may be\": ", "is too long"},
        {"\"val\": \"nan\"", "\"val\": true", "\"metrics\": 'val' is not a number"},
        {"\"options\"", "\"x\"", "\"options\" is missing, or no object"},
        {"0123456789ab", "0123456789012345678901234567890123456789012345678", "\"revision\" is missing, or not a text"},
    };
    char *directory = scratch(), *file = in(directory, "step_00000003/state.json");
    Checkpointer *c = open_checkpointer(directory, 3);
    save_good(c, 2, 1, true);
    save_good(c, 3, 1, false);
    checkpointer_close(c);
    char *text = keep(read_text(file)), many[4096] = "\"metrics\": {";
    TrainState state = {0};
    Error error;
    assert_true(state_parse(text, strlen(text), &state, &error));
    free(state.options_json);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed = change_state(text, changes[i][0], changes[i][1]);
        if (state_parse(changed, strlen(changed), &state, &error)) fail_msg("taken: %s", changes[i][1]);
        if (!strstr(error.text, changes[i][2])) fail_msg("%s: %s, not %s", changes[i][1], error.text, changes[i][2]);
    }
    for (int i = 0; i < 25; i++) snprintf(many + strlen(many), 32, "\"m%d\": 0, ", i);
    char *changed = change_state(text, "\"metrics\": {", many);
    assert_false(state_parse(changed, strlen(changed), &state, &error));
    assert_contains(error.text, "\"metrics\" has more than 24 entries");
}

static void assert_load_fails(const char *path, const ParamTable *other, const char *message) {
    float *buffer = xaligned((size_t)other->flat_count * 4);
    TrainState state;
    TensorFile file;
    StoredTensor *tensors;
    int n;
    Error error;
    if (checkpoint_load(path, other, buffer, buffer, buffer, &state, &file, &tensors, &n, &error))
        fail_msg("loaded, and not refused with: %s", message);
    assert_contains(error.text, message);
    free(buffer);
}

static void a_checkpoint_of_another_model_is_refused(void **unused) {
    (void)unused;
    char *directory = scratch(), *path = in(directory, "step_00000001"), output[256];
    Checkpointer *c = open_checkpointer(directory, 3);
    save_good(c, 1, 1, false);
    save_good(c, 2, 1, false);
    checkpointer_close(c);
    ParamTable other = {0};
    make_table(&other, 6);
    param_add(&other, INIT_ZERO, 0, false, 4, 0, "gpt.h.1.ln_1.bias");
    assert_load_fails(path, &other,
                      "model.safetensors: 2 tensors do not fit: text_embedding.weight is F32 [3, 5] there, F32 [6, 5] "
                      "in the model; gpt.h.1.ln_1.bias is not there");
    ParamTable fewer = {0};
    param_add(&fewer, INIT_ONE, 0, false, 7, 0, "gpt.ln_f.weight");
    assert_load_fails(path, &fewer, "optimizer.safetensors has 6 tensors; the model has 1 parameters with two each");
    run_command(output, sizeof output, "cp '%s/step_00000002/model.safetensors' '%s'", directory, path);
    assert_load_fails(path, &table, "model.safetensors is not of step 1");
    write_text(in(path, "model.safetensors"), "nonsense that is long enough");
    assert_load_fails(path, &table, "model.safetensors: neither a safetensors nor a torch file");
    params_free(&other);
    params_free(&fewer);
}

static void a_checkpoint_of_an_older_program_is_refused(void **unused) {
    (void)unused;
    char *directory = scratch(), *path = in(directory, "step_00000001"), *file = in(path, "state.json");
    Checkpointer *c = open_checkpointer(directory, 3);
    save_good(c, 1, 1, false);
    checkpointer_close(c);
    char *text = read_text(file), *version = strstr(text, "\"version\": 7");
    assert_non_null(version);
    version[strlen("\"version\": ")] = '6';
    write_text(file, "%s", text);
    assert_load_fails(
        path, &table,
        "state.json is of version 6, and this program reads 7: go on with the program that wrote it, or start a "
        "new run in another directory from its weights");
    free(text);
}

/* ---- a base checkpoint ---- */

static const float embedding_data[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
static const float norm_data[7] = {-1, -2, -3, -4, -5, -6, -7};
static const char *const resizable[] = {"text_embedding.weight"};

typedef struct {
    bool good;
    Error error;
    ImportReport report;
    TensorFile file;
    StoredTensor *tensors;
    int n;
    ParamTable table;
    float *weights;
} Imported;

/* Imports into a table; every weight was 0.5 before. */
static Imported import_into(ParamTable into, const char *path, const ImportRules *rules) {
    Imported i = {.table = into};
    i.weights = xaligned((size_t)i.table.flat_count * 4);
    for (int64_t e = 0; e < i.table.flat_count; e++) i.weights[e] = 0.5f;
    i.good = checkpoint_import(path, &i.table, rules, i.weights, &i.file, &i.tensors, &i.n, &i.report, &i.error);
    return i;
}

/* The same into a table with `rows` rows of the embedding. */
static Imported import(const char *path, int64_t rows) {
    ParamTable into = {0};
    make_table(&into, rows);
    return import_into(into, path, &(ImportRules){.resizable = resizable, .n_resizable = 1});
}

static void forget(Imported *i) {
    tensor_file_close(&i->file);
    params_free(&i->table);
    free(i->weights);
    free(i->tensors);
    free(i->report.missing_names);
}

static char *write_base(const TensorToWrite *tensors, int count) {
    char *path = in(scratch(), "base.safetensors");
    Error error;
    if (!safetensors_write(path, tensors, count, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    return path;
}

#define EMBEDDING(name_)                                                                                               \
    { .name = name_, .dtype = "F32", .rank = 2, .dims = {4, 5}, .data = embedding_data }
#define NORM(name_)                                                                                                    \
    { .name = name_, .dtype = "F32", .rank = 1, .dims = {7}, .data = norm_data }
#define LONGS(name_)                                                                                                   \
    { .name = name_, .dtype = "I64", .rank = 1, .dims = {3}, .data = counter_data }

static void a_vocabulary_may_grow_and_shrink(void **unused) {
    (void)unused;
    const TensorToWrite base[] = {EMBEDDING("text_embedding.weight"), NORM("gpt.ln_f.weight"), LONGS("pe")};
    char *path = write_base(base, 3);
    for (int64_t rows = 3; rows <= 6; rows++) {
        Imported i = import(path, rows);
        if (!i.good) fail_msg("%s", i.error.text);
        const Param *embedding = &i.table.items[0];
        for (int64_t e = 0; e < embedding->count; e++)
            assert_true(i.weights[embedding->offset + e] == (e < 20 ? embedding_data[e] : 0.5f));
        assert_memory_equal(i.weights + i.table.items[1].offset, norm_data, sizeof norm_data);
        assert_true(i.weights[i.table.items[2].offset] == 0.5f);
        assert_int_equal(i.report.resized, rows != 4);
        assert_int_equal(i.report.loaded, 1 + (rows == 4));
        assert_int_equal(i.report.carried, 1);
        assert_int_equal(i.report.skipped, 0);
        assert_int_equal(i.report.missing, 1);
        assert_int_equal(i.report.base_rows, 4);
        assert_string_equal(i.report.missing_names, "gpt.h.0.attn.c_attn.weight");
        assert_string_equal(i.tensors[0].name, "pe");
        assert_memory_equal(i.tensors[0].data, counter_data, sizeof counter_data);
        forget(&i);
    }
}

static void names_are_the_references_own(void **unused) {
    (void)unused;
    const TensorToWrite base[] = {EMBEDDING("model.text_embedding.weight"),
                                  NORM("model.gpt.base_layer.ln_f.weight"),
                                  LONGS("model.gpt.x.lora_A.weight"),
                                  LONGS("model.inference_model.x"),
                                  LONGS("model.gpt.wte.weight"),
                                  LONGS("model.conditioning_encoder.pe"),
                                  LONGS("optimizer.state.0.step")};
    Imported i = import(write_base(base, 7), 4);
    if (!i.good) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, 2);
    assert_int_equal(i.report.skipped, 4);
    assert_int_equal(i.n, 1);
    assert_string_equal(i.tensors[0].name, "conditioning_encoder.pe");
    assert_memory_equal(i.weights + i.table.items[1].offset, norm_data, sizeof norm_data);
    forget(&i);
}

static void assert_import_fails(const TensorToWrite *base, int count, const char *message) {
    Imported i = import(write_base(base, count), 4);
    if (i.good) fail_msg("imported, and not refused with: %s", message);
    assert_contains(i.error.text, message);
    forget(&i);
}

static void a_base_of_another_model_is_refused(void **unused) {
    (void)unused;
    const TensorToWrite shapes[] = {EMBEDDING("gpt.ln_f.weight"), NORM("text_embedding.weight"),
                                    EMBEDDING("gpt.h.0.attn.c_attn.weight")};
    assert_import_fails(
        shapes, 3,
        "3 tensors do not fit: gpt.ln_f.weight is F32 [4, 5] there, F32 [7] in the model; "
        "text_embedding.weight is F32 [7] there, F32 [4, 5] in the model; gpt.h.0.attn.c_attn.weight is "
        "F32 [4, 5] there, F32 [20, 4] in the model");
    const TensorToWrite none[] = {NORM("encoder.weight")};
    assert_import_fails(none, 1, "none of its 1 tensors is one of the model's (text_embedding.weight, ...)");
    TensorToWrite whole = LONGS("gpt.ln_f.weight");
    whole.dims[0] = 7;
    static const int64_t seven[7];
    whole.data = seven;
    assert_import_fails(&whole, 1, "tensor 'gpt.ln_f.weight' is I64; F32, F16, BF16 or F64 is needed");
    const TensorToWrite twice[] = {NORM("gpt.ln_f.weight"), NORM("gpt.base_layer.ln_f.weight")};
    assert_import_fails(twice, 2, "two tensors are named 'gpt.ln_f.weight'");
    Imported i = import("/nowhere.pth", 4);
    assert_false(i.good);
    assert_contains(i.error.text, "cannot open: No such file");
    forget(&i);
}

static void a_base_that_is_not_finite_is_refused_by_name(void **unused) {
    (void)unused;
    static float values[20], infinite[7] = {-1, -2, -3, -4, -5, -6, -7};
    values[6] = NAN;
    infinite[2] = -INFINITY;
    TensorToWrite embedding = EMBEDDING("text_embedding.weight"), norm = NORM("gpt.ln_f.weight");
    embedding.data = values;
    norm.data = infinite;
    assert_import_fails(&embedding, 1, "tensor 'text_embedding.weight': value 6 of 20 is nan, and weights must be");
    assert_import_fails(&norm, 1, "tensor 'gpt.ln_f.weight': value 2 of 7 is -inf, and weights must be finite");
    TensorToWrite carried_along[] = {NORM("gpt.ln_f.weight"), NORM("unknown.weight")};
    carried_along[1].data = infinite;
    Imported i = import(write_base(carried_along, 2), 4);
    assert_true(i.good && i.n == 1); /* not the model's */
    forget(&i);
}

static void a_pth_is_imported_from_under_model(void **unused) {
    (void)unused;
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 4, 3, "0.weight");
    param_add(&t, INIT_ZERO, 0, true, 6, 4, "transposed");
    float flat[64] = {0};
    TensorFile file, want;
    StoredTensor *tensors;
    ImportReport report;
    Error error;
    int n;
    if (!checkpoint_import("tests/reference/golden/torch_protocol2.pth", &t, &(ImportRules){0}, flat, &file, &tensors,
                           &n, &report, &error))
        fail_msg("%s", error.text);
    assert_true(tensor_file_open("tests/reference/golden/torch_expected.safetensors", &want, &error));
    const StoredTensor *weight = tensor_file_find(&want, "model.0.weight");
    assert_memory_equal(flat + t.items[0].offset, weight->data, weight->bytes);
    for (int row = 0; row < 6; row++)
        for (int column = 0; column < 4; column++)
            assert_true(flat[t.items[1].offset + 4 * row + column] == (float)(6 * column + row) / 7);
    assert_int_equal(report.loaded, 2);
    assert_true(n == report.carried && n > 15 && report.skipped > 10);
    for (int i = 0; i < n; i++) {
        char name[256];
        snprintf(name, sizeof name, "model.%s", tensors[i].name);
        const StoredTensor *expected = tensor_file_find(&want, name);
        assert_non_null(expected);
        assert_memory_equal(tensors[i].data, expected->data, expected->bytes);
    }
    tensor_file_close(&file);
    tensor_file_close(&want);
    free(tensors);
    free(report.missing_names);
    params_free(&t);
}

/* torch_lightning.ckpt: the encoder was compiled, the decoder not; the optimizer's moments lie beside both. */
static ParamTable lightning_table(void) {
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 4, 3, "encoder.embed.weight");
    param_add(&t, INIT_ZERO, 0, true, 4, 0, "encoder.embed.bias");
    param_add(&t, INIT_ZERO, 0, true, 2, 4, "decoder.weight");
    return t;
}

static const char lightning[] = "tests/reference/golden/torch_lightning.ckpt";

static void assert_imported(const Imported *i, const TensorFile *want, int param, const char *name) {
    const StoredTensor *tensor = tensor_file_find(want, name);
    assert_non_null(tensor);
    assert_memory_equal(i->weights + i->table.items[param].offset, tensor->data, tensor->bytes);
}

static void a_lightning_checkpoint_is_imported(void **unused) {
    (void)unused;
    static const char *const all[] = {""};
    Imported i = import_into(lightning_table(), lightning, &(ImportRules){.only = all, .n_only = 1});
    TensorFile want;
    Error error;
    if (!i.good) fail_msg("%s", i.error.text);
    assert_true(tensor_file_open("tests/reference/golden/torch_lightning.safetensors", &want, &error));
    assert_imported(&i, &want, 0, "encoder.embed.weight");
    assert_imported(&i, &want, 1, "encoder.embed.bias");
    assert_imported(&i, &want, 2, "decoder.weight");
    assert_int_equal(i.report.loaded, 3);
    assert_int_equal(i.report.missing, 0);
    assert_int_equal(i.n, 1); /* the decoder's bias, which this model has not */
    assert_string_equal(i.tensors[0].name, "decoder.bias");
    assert_true(i.report.skipped > 3); /* what the optimizer remembers */
    tensor_file_close(&want);
    forget(&i);
}

/* What a wrapped module puts into names is taken out in one pass, however often it is there. */
static void long_names_are_read_at_once(void **unused) {
    (void)unused;
    static const char *const parts[] = {"_orig_mod.", "module.", "x.base_layer."};
    enum { MOST = 10000000 };
    char *name = xmalloc(MOST + 100);
    alarm(60); /* rather than wait for hours */
    for (int p = 0; p < 3; p++) {
        size_t n = 0;
        while (n < MOST) n += (size_t)sprintf(name + n, "%s", parts[p]);
        sprintf(name + n, "encoder.embed.weight");
        const TensorToWrite base[] = {
            {.name = name, .dtype = "F32", .rank = 2, .dims = {4, 3}, .data = embedding_data},
            {.name = "encoder.embed.bias", .dtype = "F32", .rank = 1, .dims = {4}, .data = embedding_data}};
        Imported i = import_into(lightning_table(), write_base(base, 2), &(ImportRules){0});
        if (!i.good) fail_msg("%s", i.error.text);
        assert_int_equal(i.report.loaded, p < 2 ? 2 : 1);
        assert_true(p == 2 || checkpoint_name_is(name, "encoder.embed.weight"));
        forget(&i);
    }
    alarm(0);
    assert_true(checkpoint_name_is("state_dict._orig_mod.a._orig_mod.b", "a.b"));
    assert_true(checkpoint_name_is("model_state_dict.module.a.b", "a.b") && checkpoint_name_is("a.b", "a.b"));
    assert_false(checkpoint_name_is("a.b.c", "a.b") || checkpoint_name_is("a", "a.b") || checkpoint_name_is("b", "a"));
    free(name);
}

static void an_import_takes_only_what_it_is_told_to(void **unused) {
    (void)unused;
    static const char *const encoder[] = {"encoder."};
    const ImportRules rules = {.only = encoder, .n_only = 1};
    Imported i = import_into(lightning_table(), lightning, &rules);
    if (!i.good) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, 2);
    assert_int_equal(i.report.aside, 2);
    assert_int_equal(i.report.missing, 1);
    assert_string_equal(i.report.missing_names, "decoder.weight");
    assert_int_equal(i.n, 0);
    for (int64_t e = 0; e < 8; e++) assert_true(i.weights[i.table.items[2].offset + e] == 0.5f);
    forget(&i);
    ParamTable other = {0};
    param_add(&other, INIT_ZERO, 0, true, 4, 3, "encoder.embed.weight");
    param_add(&other, INIT_ZERO, 0, true, 5, 0, "encoder.embed.bias");
    param_add(&other, INIT_ZERO, 0, true, 2, 2, "encoder.head");
    param_add(&other, INIT_ZERO, 0, true, 2, 2, "head");
    i = import_into(other, lightning, &rules);
    assert_false(i.good);
    assert_string_equal(i.error.text,
                        "its tensors: 2 tensors do not fit: encoder.embed.bias is F32 [4] there, F32 [5] in the model; "
                        "encoder.head, F32 [2, 2] in the model, is not there");
    forget(&i);
}

/* A convolution without a bias, and its norm. */
static ParamTable norm_table(void) {
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 2, 3, "conv.weight");
    param_add_norm(&t, 2, "norm");
    t.items[param_add_buffer(&t, NULL, 2, 0, "norm.running_mean")].moves = true;
    return t;
}

static const AbsorbedBias conv_bias = {"conv", "norm"};
static const double biases[] = {0.125, -4};

/* As a parallel, compiled model has it, with the moments of its optimizer. */
#define LAYER "model_state_dict.module._orig_mod."
#define VECTOR(name_, dtype_, data_)                                                                                   \
    { .name = name_, .dtype = dtype_, .rank = 1, .dims = {2}, .data = data_ }

static void a_bias_before_a_norm_goes_into_its_running_mean(void **unused) {
    (void)unused;
    const TensorToWrite base[] = {
        {.name = LAYER "conv.weight", .dtype = "F32", .rank = 2, .dims = {2, 3}, .data = embedding_data},
        VECTOR(LAYER "conv.bias", "F64", biases),
        VECTOR(LAYER "norm.weight", "F32", norm_data),
        VECTOR(LAYER "norm.bias", "F32", norm_data + 2),
        VECTOR(LAYER "norm.running_mean", "F32", embedding_data),
        {.name = LAYER "norm.num_batches_tracked", .dtype = "I64", .data = counter_data},
        {.name = LAYER "other.num_batches_tracked", .dtype = "I64", .data = counter_data},
        VECTOR("optimizer_state_dict.state.0.exp_avg", "F32", norm_data),
        VECTOR("optimizer_state_dict.state.0.exp_avg_sq", "F32", norm_data),
        VECTOR("scheduler.x", "F32", norm_data)};
    static const char *const all[] = {""};
    const ImportRules rules = {.only = all, .n_only = 1, .absorbed = &conv_bias, .n_absorbed = 1};
    Imported i = import_into(norm_table(), write_base(base, 10), &rules);
    if (!i.good) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, 4);
    assert_int_equal(i.report.absorbed, 1);
    assert_int_equal(i.report.counters, 1);
    assert_int_equal(i.report.moments, 2);
    assert_int_equal(i.report.skipped, 3);
    assert_int_equal(i.report.missing, 0);
    assert_int_equal(i.n, 1); /* of a norm that this model has not */
    assert_string_equal(i.tensors[0].name, "other.num_batches_tracked");
    const float *mean = i.weights + i.table.items[3].offset;
    assert_true(mean[0] == 1 - 0.125f && mean[1] == 2 + 4);
    forget(&i);

    i = import_into(norm_table(), write_base(base, 10), &(ImportRules){0}); /* it is not expected: carried along */
    assert_true(i.good && i.n == 2 && i.report.absorbed == 0);
    forget(&i);
}

static void a_bias_that_no_norm_can_take_is_refused(void **unused) {
    (void)unused;
    TensorToWrite base[] = {VECTOR("norm.running_mean", "F32", norm_data), VECTOR("conv.bias", "F32", norm_data)};
    base[1].dims[0] = 3;
    Imported i =
        import_into(norm_table(), write_base(base, 2), &(ImportRules){.absorbed = &conv_bias, .n_absorbed = 1});
    assert_false(i.good);
    assert_contains(i.error.text, "conv.bias is F32 [3] there, F32 [2] in the model");
    forget(&i);
    base[1] = (TensorToWrite)LONGS("conv.bias");
    base[1].dims[0] = 2;
    i = import_into(norm_table(), write_base(base, 2), &(ImportRules){.absorbed = &conv_bias, .n_absorbed = 1});
    assert_false(i.good);
    assert_contains(i.error.text, "tensor 'conv.bias' is I64");
    forget(&i);
}

static void a_checkpoint_directory_stands_for_its_weights(void **unused) {
    (void)unused;
    char *directory = scratch();
    Checkpointer *c = open_checkpointer(directory, 3);
    save_good(c, 1, 1, false);
    checkpointer_close(c);
    Imported i = import(in(directory, "last"), 3);
    if (!i.good) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, i.table.count);
    TensorFile want;
    Error error;
    assert_true(tensor_file_open(in(directory, "last/model.safetensors"), &want, &error));
    for (int p = 0; p < i.table.count; p++) assert_imported(&i, &want, p, i.table.items[p].name);
    tensor_file_close(&want);
    forget(&i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_is_loaded_to_the_bit),
        cmocka_unit_test(the_newest_the_last_and_the_best_are_kept),
        cmocka_unit_test(a_step_written_again_is_replaced),
        cmocka_unit_test(a_save_allocates_nothing),
        cmocka_unit_test(two_runs_cannot_share_a_directory),
        cmocka_unit_test(a_run_goes_on_in_the_folder_that_it_began),
        cmocka_unit_test(a_run_whose_folder_is_removed_ends),
        cmocka_unit_test(a_kill_at_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(an_error_of_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(a_disk_that_dies_at_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(a_replacement_without_exchange_leaves_a_whole_checkpoint),
        cmocka_unit_test(everything_is_flushed_before_it_counts),
        cmocka_unit_test(a_new_folder_is_flushed_in_its_parent),
        cmocka_unit_test(no_locks_are_not_another_program),
        cmocka_unit_test(a_file_too_large_is_said),
        cmocka_unit_test(a_full_disk_leaves_a_whole_checkpoint),
        cmocka_unit_test(resume_finds_what_is_meant),
        cmocka_unit_test(resume_stops_at_what_it_cannot_use),
        cmocka_unit_test(a_directory_that_cannot_be_read_is_no_empty_one),
        cmocka_unit_test(the_newest_is_the_one_written_last),
        cmocka_unit_test(the_links_are_mended_from_the_newest_state),
        cmocka_unit_test(no_run_goes_on_before_a_damaged_step),
        cmocka_unit_test(leftovers_of_earlier_versions_go),
        cmocka_unit_test(files_in_the_way_of_the_links_stay),
        cmocka_unit_test(a_directory_holds_one_run),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(fields_out_of_range_are_refused_by_name),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused),
        cmocka_unit_test(a_vocabulary_may_grow_and_shrink),
        cmocka_unit_test(names_are_the_references_own),
        cmocka_unit_test(a_base_of_another_model_is_refused),
        cmocka_unit_test(a_base_that_is_not_finite_is_refused_by_name),
        cmocka_unit_test(a_pth_is_imported_from_under_model),
        cmocka_unit_test(a_lightning_checkpoint_is_imported),
        cmocka_unit_test(long_names_are_read_at_once),
        cmocka_unit_test(an_import_takes_only_what_it_is_told_to),
        cmocka_unit_test(a_bias_before_a_norm_goes_into_its_running_mean),
        cmocka_unit_test(a_bias_that_no_norm_can_take_is_refused),
        cmocka_unit_test(a_checkpoint_directory_stands_for_its_weights),
        cmocka_unit_test(a_checkpoint_of_an_older_program_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
