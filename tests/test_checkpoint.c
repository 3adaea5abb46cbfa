/* Checkpoints: whole at every moment, resumed to the bit, imported by rule.
 *
 * This program has its own write, fsync, rename, ... instead of the C library's: each is a system call, with a fault in
 * front of the k-th one. A child writes a checkpoint and is killed there (in the middle of a write), or is told that
 * the disk is full; the parent then looks at what is left. So every place between two calls is tried. */
#include "tests/helpers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#include "train/checkpoint.h"

/* ---- faults ---- */

typedef enum { FAULT_NONE, FAULT_KILL, FAULT_ONCE, FAULT_FROM, FAULT_ORDER } Fault;

static struct {
    Fault kind;
    int at; /* the call, from 1 */
    atomic_int calls;
    char dirty[64][PATH_MAX]; /* FAULT_ORDER: written and not flushed */
    int n_dirty;
} fault;

/* Before a call: kills the process, or returns true: the call must fail. */
static bool strike(void) {
    if (fault.kind == FAULT_NONE) return false;
    int call = ++fault.calls;
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
    if (strike()) return -1;
    dirty_add_parent(path);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
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
    if (strike()) return -1;
    note_rename(from, to);
    return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
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

static TrainState state_of(int64_t step, uint64_t seed) {
    TrainState state = {.step = step,
                        .micro_step = 4 * step,
                        .epoch = step / 7,
                        .batch_index = step + 11,
                        .seed = UINT64_MAX - seed,
                        .samples_seen = step << 40,
                        .tokens_seen = INT64_MAX - step,
                        .n_samples = 300,
                        .data_hash = INT64_MIN + step,
                        .skipped_steps = 1,
                        .frozen_rows = 2,
                        .seconds = 0.1 * (double)step,
                        .best = step == 1 ? (double)INFINITY : 1.0 / (double)step,
                        .best_step = step - 1,
                        .worse = 3 * step,
                        .revision = "0123456789ab",
                        .options_json = "{\"learning-rate\": 5.0000000000000002e-5, \"batch-size\": 8}",
                        .n_metrics = 3,
                        .metric_names = {"loss", "mel \"top1\"", "val"},
                        .metric_values = {1.0 / 3, -0.0, (double)NAN}};
    return state;
}

static void save(Checkpointer *c, int64_t step, uint64_t seed, bool best) {
    TrainState state = state_of(step, seed);
    fill_parts(step, seed);
    checkpointer_save(c, &table, weights, m, v, &state, best);
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
    assert_int_equal(got->skipped_steps, want->skipped_steps);
    assert_true(got->frozen_rows == want->frozen_rows && got->best_step == want->best_step);
    assert_true(got->worse == want->worse);
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
        if (!strncmp(entry->d_name, "step_", 5) && !strstr(entry->d_name, ".partial")) check_whole(path, &seed);
    }
    closedir(entries);
}

/* What must hold after any fault: resume finds the old or the new checkpoint whole, best is whole, the next run cleans
 * up and can write. */
static void assert_survived(const Attempt *a, bool written) {
    uint64_t seed = 0;
    int64_t step = step_to_resume(a->directory, &seed);
    bool is_new = step == a->step && seed == a->seed, is_old = step == a->steps_before && (!step || seed == 1);
    if (!is_new && (written || !is_old)) fail_msg("call %d: step %lld is resumed", a->at, (long long)step);
    char best[PATH_MAX], output[4096];
    snprintf(best, sizeof best, "%s/best", a->directory);
    if (a->steps_before || written) check_whole(best, &seed);
    assert_all_whole(a->directory);
    Checkpointer *c = open_checkpointer(a->directory, 2);
    assert_int_equal(run_command(output, sizeof output, "ls -A '%s'", a->directory), 0);
    if (strstr(output, "partial")) fail_msg("call %d leaves: %s", a->at, output);
    save_good(c, 9, 4, false);
    assert_int_equal(step_to_resume(a->directory, &seed), 9);
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

static void resume_finds_what_is_meant(void **unused) {
    (void)unused;
    char *directory = resolve_directory = scratch(), output[2048];
    Checkpointer *c = open_checkpointer(directory, 3);
    for (int64_t step = 1; step <= 3; step++) save_good(c, step, 1, step == 2);
    checkpointer_close(c);
    char *one = in(directory, "step_00000001"), *three = in(directory, "step_00000003");
    assert_string_equal(resolve("/nowhere", one), one);
    assert_string_equal(resolve("/nowhere", in(one, "state.json")), one);
    assert_null(resolve("/nowhere", "auto"));
    assert_string_equal(resolve(directory, "auto"), three);
    unlink(in(directory, "last"));
    assert_string_equal(resolve(directory, "auto"), three);
    unlink(in(three, "optimizer.safetensors")); /* not whole */
    assert_string_equal(resolve(directory, "auto"), in(directory, "step_00000002"));

    assert_int_equal(run_function(output, sizeof output, resolve_or_die, three), 1);
    assert_contains(output, "cannot read its optimizer.safetensors: No such file");
    assert_int_equal(run_function(output, sizeof output, resolve_or_die, "/nowhere"), 1);
    assert_contains(output, "--resume /nowhere: no checkpoint: cannot read its state.json");
    assert_int_equal(symlink("step_00000001", in(directory, "last")), 0);
    assert_int_equal(run_function(output, sizeof output, resolve_or_die, directory), 1);
    assert_contains(output, "/last?");
    write_text(in(one, "state.json"), "{\"format\": \"another\"}");
    assert_int_equal(run_function(output, sizeof output, resolve_or_die, one), 1);
    assert_contains(output, "not one of a checkpoint of this program");
    write_text(in(one, "state.json"), "{\n\"format\": \"another\"");
    assert_int_equal(run_function(output, sizeof output, resolve_or_die, one), 1);
    assert_contains(output, "state.json, line 2, column");
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
    char *text = read_text(file), *version = strstr(text, "\"version\": 4");
    assert_non_null(version);
    version[strlen("\"version\": ")] = '3';
    write_text(file, "%s", text);
    assert_load_fails(path, &table,
                      "state.json is of version 3, and this program reads 4: go on with the program that");
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
        cmocka_unit_test(a_kill_at_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(an_error_of_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(a_disk_that_dies_at_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(everything_is_flushed_before_it_counts),
        cmocka_unit_test(a_file_too_large_is_said),
        cmocka_unit_test(a_full_disk_leaves_a_whole_checkpoint),
        cmocka_unit_test(resume_finds_what_is_meant),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused),
        cmocka_unit_test(a_vocabulary_may_grow_and_shrink),
        cmocka_unit_test(names_are_the_references_own),
        cmocka_unit_test(a_base_of_another_model_is_refused),
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
