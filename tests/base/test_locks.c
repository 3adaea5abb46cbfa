/* Locks and what killed writers leave: who may write, who waits, and which files are removed. */
#include "tests/base/folder_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[4096];

/* Replaces flock of the C library. If without_locks is set, file systems have no locks. */
static bool without_locks;
int flock(int fd, int operation) {
    if (!without_locks) return (int)syscall(SYS_flock, fd, operation);
    errno = ENOLCK;
    return -1;
}

static int setup(void **state) {
    without_locks = false;
    return fresh(state);
}

/* ---- leftovers ---- */

static void be_killed_while_writing(void *path) {
    FileWriter writer;
    if (!file_begin(&writer, path, 0, NULL)) _exit(1);
    file_put(&writer, "half", 4);
    raise(SIGKILL);
}

/* Removes the files of writers that were killed, and no others. */
TEST_WITH(leftovers_of_killed_writers_are_removed, setup, NULL) {
    FileWriter alive;
    Error error;
    static const char *const killed[] = {"k", "l", "m"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_function(output, sizeof output, be_killed_while_writing, (void *)(uintptr_t)in(killed[i])),
                         128 + SIGKILL);
    static const char *const kept[] = {"x.partial", "x.123.partial", "x.0123456789ABCDEF.partial",
                                       ".0123456789abcdef.partial.x", "0123456789abcdef.partial"};
    for (int i = 0; i < 5; i++) write_text(in(kept[i]), "mine");
    assert_int_equal(mkdir(in("a.0123456789abcdef.partial"), 0777), 0);
    assert_int_equal(has_links() ? symlink("x.partial", in("b.0123456789abcdef.partial"))
                                 : mkfifo(in("b.0123456789abcdef.partial"), 0666),
                     0);
    assert_int_equal(mkfifo(in("c.0123456789abcdef.partial"), 0666), 0);
    assert_true(file_begin(&alive, in("x"), 0, &error));
    without_locks = true;
    assert_int_equal(directory_remove_leftovers(root),
                     0); /* without locks nobody knows whether their writers still run */
    without_locks = false;
    assert_int_equal(directory_remove_leftovers(root), 3);
    assert_int_equal(directory_remove_leftovers(root), 0);
    assert_int_equal(access(alive.partial, F_OK), 0);
    file_put(&alive, "whole", 5);
    assert_true(file_end(&alive, &error));
    expect_text(in("x"), "whole");
    for (int i = 0; i < 5; i++) expect_text(in(kept[i]), "mine");
    struct stat status;
    for (int i = 0; i < 3; i++) {
        char name[] = "a.0123456789abcdef.partial";
        name[0] = (char)('a' + i);
        assert_int_equal(lstat(in(name), &status), 0);
    }
    assert_int_equal(directory_remove_leftovers(in("no_such_folder")), 0);
}

static bool make_temporary_folder(const char *path) {
    const char *folder = directory_temporary(path, NULL);
    if (folder) write_text(path_join(folder, "x"), "much");
    return folder != NULL;
}

/* Starts a process that has begun something when this returns, and does no more. */
static pid_t begin(bool (*function)(const char *path), const char *path) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        if (!function(path) || write(ends[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST_WITH(the_next_program_removes_temporary_folders_of_killed_ones, setup, NULL) {
    const char *mine = "test.abcdef test.abcdefg ", *one = "test.XXXXXX ";
    char *before = getenv("TMPDIR") ? xstrdup(getenv("TMPDIR")) : NULL;
    setenv("TMPDIR", root, 1);
    assert_int_equal(mkdir(in("test.abcdefg"), 0777), 0);
    write_text(in("test.abcdef"), "mine");
    pid_t killed = begin(make_temporary_folder, "test"), running = begin(make_temporary_folder, "test");
    end(killed);
    for (int i = 0; i < 2; i++) {
        assert_non_null(directory_temporary("test", NULL));
        assert_int_equal(strlen(listing()), strlen(mine) + (i ? 1 : 2) * strlen(one));
        directory_remove_temporary();
        if (!i) end(running);
    }
    assert_string_equal(listing(), mine);
    if (before) setenv("TMPDIR", before, 1);
    if (!before) unsetenv("TMPDIR");
    free(before);
}

static bool begin_file(const char *path) {
    static FileWriter writer;
    return file_begin(&writer, path, 0, NULL);
}

/* Also of several writers that were killed at the same time, and not of those that still write. */
TEST_WITH(the_next_writer_removes_what_killed_ones_left, setup, NULL) {
    pid_t writers[3];
    Error error;
    for (int i = 0; i < 3; i++) writers[i] = begin(begin_file, in("x"));
    for (int i = 2; i >= 0; i--) {
        if (!file_write_atomic(in("x"), "1", 1, &error)) fail_msg("%s", error.text);
        assert_int_equal(strlen(listing()), strlen("x ") + (size_t)(i + 1) * strlen("x.0000000000000000.partial "));
        end(writers[i]);
    }
    if (!file_write_atomic(in("x"), "2", 1, &error)) fail_msg("%s", error.text);
    assert_string_equal(listing(), "x ");
}

static void *write_often(void *path) {
    enum { TIMES = 300 };
    Error error;
    for (int i = 0; i < TIMES; i++)
        if (!file_write_atomic(path, &i, sizeof i, &error)) return xstrdup(error.text);
    return NULL;
}

TEST_WITH(writers_of_one_file_at_the_same_time_do_not_remove_each_other, setup, NULL) {
    enum { WRITERS = 8 };
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) thread_start(&threads[i], write_often, (void *)(uintptr_t)in("x"), "that writes");
    for (int i = 0; i < WRITERS; i++) {
        void *error;
        pthread_join(threads[i], &error);
        if (error) fail_msg("%s", (char *)error);
    }
    assert_string_equal(listing(), "x ");
}

/* One process removes leftovers as fast as it can while another one writes: every file is written. */
TEST_WITH(files_of_running_writers_are_not_removed, setup, NULL) {
    enum { TIMES = 100 };
    pid_t child = fork();
    assert_true(child >= 0);
    for (; !child;) directory_remove_leftovers(root);
    bool ok = true;
    Error error;
    for (int i = 0; i < TIMES && ok; i++) ok = file_write_atomic(in("x"), &i, sizeof i, &error);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (!ok) fail_msg("%s", error.text);
    assert_string_equal(listing(), "x ");
}

/* ---- locks ---- */

static void lock_without_rights(void *path) {
    FileLock lock;
    Error error;
    if (!getuid() && (setgid(65534) || setuid(65534))) _exit(3);
    if (file_lock(&lock, path, &error)) _exit(4);
    printf("%s\n", error.text);
}

TEST_WITH(a_lock_in_a_read_only_folder_names_the_remedy, setup, NULL) {
    char want[2 * PATH_MAX];
    snprintf(want, sizeof want, "%s is written in that folder: make it writable, or work in a copy of it", in("x"));
    assert_int_equal(chmod(root, 0555), 0);
    int status = run_function(output, sizeof output, lock_without_rights, (void *)(uintptr_t)in("x"));
    assert_int_equal(chmod(root, 0700), 0);
    if (status) fail_msg("status %d: %s", status, output);
    assert_contains(output, ".lock: Permission denied; ");
    assert_contains(output, want);
}

/* Waits for the lock and then finds the file. */
static void find_it_made(void *path) {
    FileLock lock;
    Error error;
    if (!file_lock(&lock, path, &error)) die("%s", error.text);
    expect_text(path, "made");
    file_unlock(&lock);
    printf("found\n");
}

TEST_WITH(the_second_program_waits_and_finds_the_file, setup, NULL) {
    FileLock lock;
    Error error;
    int ends[2];
    char line[256] = "", more[256] = "";
    assert_true(file_lock(&lock, in("x"), &error));
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(ends[1], 1);
        find_it_made((void *)(uintptr_t)in("x"));
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], line, sizeof line - 1) > 0); /* the child has found the lock taken */
    assert_contains(line, "[Wait] another program makes ");
    must_write(in("x"), "made");
    file_unlock(&lock);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(read(ends[0], more, sizeof more - 1) > 0);
    assert_string_equal(more, "found\n"); /* the child has printed [Wait] only once */
    close(ends[0]);
    assert_string_equal(listing(), "x ");
}

/* Processes that add one to a number in a file lose no addition. */
TEST_WITH(concurrent_programs_take_turns, setup, NULL) {
    enum { PROCESSES = 4, TIMES = 12 };
    int n = 0, status;
    Error error;
    assert_true(file_write_atomic(in("n"), &n, sizeof n, &error));
    for (int p = 0; p < PROCESSES; p++) {
        pid_t child = fork();
        assert_true(child >= 0);
        for (int i = 0; !child && i < TIMES; i++) {
            FileLock lock;
            size_t size;
            if (!freopen("/dev/null", "w", stdout) || !file_lock(&lock, in("n"), &error) ||
                !read_file_into(in("n"), (char *)&n, sizeof n, &size, &error))
                _exit(1);
            n++;
            if (!file_write_atomic(in("n"), &n, sizeof n, &error)) _exit(1);
            file_unlock(&lock);
        }
        if (!child) _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) assert_true(wait(&status) > 0 && !status);
    size_t size;
    assert_true(read_file_into(in("n"), (char *)&n, sizeof n, &size, &error));
    assert_int_equal(n, PROCESSES * TIMES);
    assert_string_equal(listing(), "n ");
}

static void lock_and_be_killed(void *path) {
    FileLock lock;
    if (file_lock(&lock, path, NULL)) raise(SIGKILL);
}

static void write_locked_and_be_killed(void *path) {
    FileLock lock;
    FileWriter writer;
    if (file_lock(&lock, path, NULL) && file_begin(&writer, path, 0, NULL)) raise(SIGKILL);
}

static void lock_and_die(void *path) {
    FileLock lock;
    if (file_lock(&lock, path, NULL)) die("at once");
}

TEST_WITH(locks_end_with_their_program, setup, NULL) {
    FileLock lock;
    Error error;
    assert_int_equal(run_function(output, sizeof output, lock_and_be_killed, (void *)(uintptr_t)in("x")),
                     128 + SIGKILL);
    assert_true(file_lock(&lock, in("x"), &error)); /* returns at once */
    assert_int_equal(run_function(output, sizeof output, lock_and_die, (void *)(uintptr_t)in("y")), 1);
    assert_string_equal(listing(), "x.lock "); /* the lock that is held */
    file_remove_stale(in("x"));
    assert_string_equal(listing(), "x.lock ");
    file_unlock(&lock);
    assert_string_equal(listing(), "");
    assert_int_equal(run_function(output, sizeof output, lock_and_be_killed, (void *)(uintptr_t)in("x")),
                     128 + SIGKILL);
    file_remove_stale(in("x")); /* as after the file was written by other means */
    assert_string_equal(listing(), "");
}

/* Unmaps the memory of a lock right after its release, as if it had been on the stack of a thread that has ended. */
static _Atomic int at_work;

static void *lock_and_unlock(void *directory) {
    for (int i = 0; i < 500; i++) {
        Error error;
        char *path = kept_format("%s/%lx_%d", (char *)directory, (unsigned long)pthread_self(), i);
        FileLock *lock = mmap(NULL, sizeof *lock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (lock == MAP_FAILED || !file_lock(lock, path, &error)) {
            at_work--;
            return "no lock";
        }
        file_unlock(lock);
        munmap(lock, sizeof *lock);
    }
    at_work--;
    return NULL;
}

TEST_WITH(all_locks_are_released_while_threads_lock_and_unlock, setup, NULL) {
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    at_work = THREADS;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_and_unlock, (void *)(uintptr_t)root), 0);
    while (at_work) file_end_of_program();
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_string_equal(listing(), "");
}

TEST_WITH(leftovers_of_a_killed_writer_are_removed_with_its_lock, setup, NULL) {
    FileLock lock;
    Error error;
    const char *others = "other.0123456789abcdef.partial";
    write_text(in(others), "other");
    for (int locks = 0; locks < 2; locks++) {
        run_function(output, sizeof output, write_locked_and_be_killed, (void *)(uintptr_t)in("x"));
        assert_contains(listing(), ".partial x.lock ");
        if (locks && !file_lock(&lock, in("x"), &error)) fail_msg("%s", error.text);
        if (locks)
            file_unlock(&lock);
        else
            file_remove_stale(in("x"));
        assert_string_equal(listing(), "other.0123456789abcdef.partial ");
    }
    assert_int_equal(unlink(in(others)), 0);
}

static void lock_twice_without_locks(void *path) {
    FileLock first, second;
    Error error;
    without_locks = true;
    if (!file_lock(&first, path, &error) || !file_lock(&second, path, &error)) _exit(1);
    file_unlock(&second);
    file_unlock(&first);
    if (!file_write_atomic(path, "made", 4, &error)) _exit(2);
}

TEST_WITH(a_file_system_without_locks_gives_a_warning, setup, NULL) {
    int fd = open(root, O_RDONLY | O_DIRECTORY), other = open(root, O_RDONLY | O_DIRECTORY);
    assert_int_equal(lock_descriptor(fd, false), LOCK_TAKEN);
    assert_int_equal(lock_descriptor(other, false), LOCK_BUSY);
    without_locks = true;
    assert_int_equal(lock_descriptor(other, false), LOCK_UNKNOWN);
    without_locks = false;
    close(fd);
    close(other);
    assert_int_equal(run_function(output, sizeof output, lock_twice_without_locks, (void *)(uintptr_t)in("x")), 0);
    assert_contains(output, "this file system has no locks");
    expect_text(in("x"), "made");
    assert_string_equal(listing(), "x ");
}

TEST_WITH(a_users_own_lock_file_stays, setup, NULL) {
    FileLock lock;
    Error error;
    write_text(in("x.lock"), "mine");
    assert_true(file_lock(&lock, in("x"), &error));
    file_unlock(&lock);
    expect_text(in("x.lock"), "mine");
}

TEST_WITH(a_lock_that_is_a_link_is_refused, setup, NULL) {
    FileLock lock;
    Error error;
    need_links();
    assert_int_equal(symlink("victim", in("y.lock")), 0);
    assert_false(file_lock(&lock, in("y"), &error));
    assert_contains(error.text, "y.lock");
    assert_int_equal(access(in("victim"), F_OK), -1);
}

int main(void) { return tests_run(NULL, NULL); }
