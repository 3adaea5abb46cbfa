/* base/file.h: reading and replacing files, names, checksums; base/mapping.h. */
#include "base/file.h"
#include "base/file_name.h"
#include "tests/base/folder_rig.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mapping.h"
#include "base/stop.h"

static char output[4096];

/* Makes one file of each kind that is not a regular file. */
static const struct {
    const char *name, *kind;
} odd[] = {{"folder", "a folder"},  {"fifo", "a FIFO"},      {"socket", "a socket"},  {"dangling", "symbolic"},
           {"to_file", "symbolic"}, {"to_null", "symbolic"}, {"to_fifo", "symbolic"}, {"/dev/null", "a device"}};
enum { ODD = sizeof odd / sizeof *odd };

static void make_odd_files(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    need_links();
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", in("socket"));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    assert_int_equal(mkdir(in("folder"), 0777), 0);
    assert_int_equal(mkfifo(in("fifo"), 0666), 0);
    write_text(in("file"), "mine");
    assert_int_equal(symlink("nowhere", in("dangling")), 0);
    assert_int_equal(symlink("file", in("to_file")), 0);
    assert_int_equal(symlink("/dev/null", in("to_null")), 0);
    assert_int_equal(symlink("fifo", in("to_fifo")), 0);
}

/* ---- reading ---- */

TEST_WITH(only_regular_files_are_read_without_blocking, fresh, NULL) {
    static const char *const refused[] = {"folder", "fifo", "to_null", "to_fifo", "/dev/null", "/dev/zero"};
    static const char *const kinds[] = {"a folder", "a FIFO", "a device", "a FIFO", "a device", "a device"};
    char *bytes, buffer[8];
    size_t size;
    void *mapped;
    Error error;
    make_odd_files();
    for (int i = 0; i < 6; i++) {
        assert_int_equal(file_open(in(refused[i]), &size, &error), -1);
        assert_contains(error.text, kinds[i]);
        assert_false(read_file(in(refused[i]), &bytes, &size, &error));
        assert_contains(error.text, "not a regular file");
        assert_false(read_file_into(in(refused[i]), buffer, sizeof buffer, &size, &error));
        assert_false(file_map(in(refused[i]), &mapped, &size, &error));
    }
    assert_false(read_file(in("dangling"), &bytes, &size, &error));
    assert_contains(error.text, "No such file");
    assert_false(read_file(in("socket"), &bytes, &size, &error));
    expect_text(in("to_file"), "mine"); /* links to regular files are followed */
}

TEST_WITH(links_to_folders_are_folders, fresh, NULL) {
    make_odd_files();
    assert_int_equal(symlink("folder", in("to_folder")), 0);
    assert_true(path_is_folder(in("folder")));
    assert_true(path_is_folder(in("to_folder")));
    for (int i = 1; i < ODD; i++) assert_false(path_is_folder(in(odd[i].name)));
    assert_false(path_is_folder(in("file")));
    assert_false(path_is_folder(in("nowhere")));
}

TEST_WITH(a_file_is_read_whole_and_zero_terminated, fresh, NULL) {
    char *bytes, buffer[4];
    size_t size;
    Error error;
    write_bytes(in("a"), "x\0y", 3);
    assert_true(read_file(in("a"), &bytes, &size, &error));
    assert_int_equal(size, 3);
    assert_memory_equal(bytes, "x\0y\0", 4);
    free(bytes);
    assert_true(read_file_into(in("a"), buffer, 3, &size, &error) && size == 3);
    assert_false(read_file_into(in("a"), buffer, 2, &size, &error));
    assert_contains(error.text, "3 bytes, more than the 2 expected");
    write_bytes(in("empty"), "", 0);
    assert_true(read_file(in("empty"), &bytes, &size, &error) && !size && !*bytes);
    free(bytes);
}

TEST_WITH(lines_are_appended_to_regular_files_only, fresh, NULL) {
    Error error;
    make_odd_files();
    for (int i = 0; i < ODD; i++) {
        assert_int_equal(file_open_to_append(in(odd[i].name), &error), -1);
        if (strcmp(odd[i].name, "folder") && strcmp(odd[i].name, "socket")) assert_contains(error.text, odd[i].kind);
    }
    assert_int_equal(access(in("nowhere"), F_OK), -1); /* the target of the dangling link is not created */
    expect_text(in("file"), "mine");
    for (int i = 0; i < 2; i++) {
        int fd = file_open_to_append(in("lines"), &error);
        assert_true(fd >= 0 && write(fd, "line\n", 5) == 5);
        close(fd);
    }
    expect_text(in("lines"), "line\nline\n");
}

/* ---- writing ---- */

TEST_WITH(only_regular_files_are_replaced, fresh, NULL) {
    FileWriter writer;
    Error error;
    make_odd_files();
    char *before = keep(xstrdup(listing()));
    for (int i = 0; i < ODD; i++) {
        assert_false(file_is_replaceable(in(odd[i].name), &error));
        assert_contains(error.text, odd[i].kind);
        assert_false(file_begin(&writer, in(odd[i].name), 0, &error));
        assert_contains(error.text, odd[i].name);
        assert_false(file_write_atomic(in(odd[i].name), "x", 1, &error));
    }
    assert_string_equal(listing(), before);
    expect_text(in("file"), "mine");
    struct stat status;
    assert_true(!stat("/dev/null", &status) && S_ISCHR(status.st_mode));
    assert_false(file_begin(&writer, "", 0, &error));
    assert_contains(error.text, "empty");
    assert_false(file_begin(&writer, in("no/such"), 0, &error));
    assert_contains(error.text, "No such file");
}

/* Refuses an input under all its names, and a new file under its name, but not the old file after it was renamed. */
TEST_WITH(inputs_are_not_replaced, fresh, NULL) {
    Error error;
    must_write(in("list"), "mine");
    assert_int_equal(link(in("list"), in("other")), 0);
    file_keep(in("list"), "--input");
    const char *const names[] = {"list", "./list", "other"};
    for (int i = 0; i < 3; i++) {
        assert_false(file_write_atomic(in(names[i]), "x", 1, &error));
        assert_contains(error.text, names[i]);
        assert_contains(error.text, "is read by this run (--input) and is not replaced");
        expect_text(in("list"), "mine");
    }
    must_write(in("free"), "x");
    assert_int_equal(rename(in("list"), in("moved")), 0);
    must_write(in("moved"), "x");
    must_write(in("list"), "of somebody else");
    assert_false(file_is_replaceable(in("list"), &error));
}

TEST_WITH(two_writers_do_not_mix, fresh, NULL) {
    enum { SIZE = 300000 };
    char *a = memset(xmalloc(SIZE), 'a', SIZE), *b = memset(xmalloc(SIZE), 'b', SIZE), *bytes;
    FileWriter first, second;
    size_t size;
    Error error;
    assert_true(file_begin(&first, in("x"), 0, &error) && file_begin(&second, in("x"), 0, &error));
    assert_string_not_equal(first.partial, second.partial);
    for (int i = 0; i < 10; i++) {
        file_put(&first, a, SIZE / 10);
        file_put(&second, b, SIZE / 10);
    }
    assert_int_equal(access(in("x"), F_OK), -1); /* does not exist before it is complete */
    assert_true(file_end(&second, &error));
    assert_true(read_file(in("x"), &bytes, &size, &error));
    assert_int_equal(size, SIZE);
    assert_memory_equal(bytes, b, SIZE);
    free(bytes);
    assert_true(file_end(&first, &error)); /* the last one to end wins */
    assert_true(read_file(in("x"), &bytes, &size, &error));
    assert_memory_equal(bytes, a, SIZE);
    free(bytes);
    assert_string_equal(listing(), "x ");
    free(a);
    free(b);
}

/* Leaves alone what is no file of a killed writer, though a user, or an attacker, has put it under a name that writers
 * use. */
TEST_WITH(names_that_are_taken_are_left_alone, fresh, NULL) {
    need_links();
    write_text(in("x.partial"), "mine");
    must_write(in("x"), "1");
    expect_text(in("x.partial"), "mine");
    write_text(in("victim"), "mine");
    assert_int_equal(symlink("victim", in("y.0000000000000000.partial")), 0);
    assert_int_equal(mkfifo(in("z.0000000000000000.partial"), 0666), 0);
    must_write(in("y"), "2");
    must_write(in("z"), "3"); /* does not block on the FIFO */
    expect_text(in("victim"), "mine");
    assert_string_equal(listing(), "victim x x.partial y y.0000000000000000.partial z z.0000000000000000.partial ");
}

static void write_too_much(void *path) {
    struct rlimit limit = {100000, 100000};
    char *bytes = xcalloc(1, 200000);
    Error error;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (file_write_atomic(path, bytes, 200000, &error)) _exit(2);
    printf("%s\n", error.text);
}

/* Writes to a disk of its own that is too small. Exits with 3 if this machine does not allow such a mount. */
static void fill_a_disk(void *directory) {
    char *path = path_join(directory, "x"), *bytes = xcalloc(1, 200000);
    Error error;
    bool own = !unshare(CLONE_NEWNS) || !unshare(CLONE_NEWUSER | CLONE_NEWNS);
    if (!own || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", directory, "tmpfs", 0, "size=64k"))
        _exit(3);
    if (!file_write_atomic(path, "old", 3, &error)) _exit(4);
    if (file_write_atomic(path, bytes, 200000, &error)) _exit(5);
    printf("%s\n", error.text);
    expect_text(path, "old");
    root = directory;
    printf("there: %s\n", listing());
}

TEST_WITH(a_full_disk_leaves_the_old_file, fresh, NULL) {
    must_write(in("x"), "old");
    assert_int_equal(run_function(output, sizeof output, write_too_much, (void *)(uintptr_t)in("x")), 0);
    assert_contains(output, in("x"));
    assert_contains(output, "100000 of 200000 bytes were written, then: File too large");
    expect_text(in("x"), "old");
    assert_string_equal(listing(), "x ");
    int status = run_function(output, sizeof output, fill_a_disk, (void *)(uintptr_t)root);
    if (status == 3) {
        print_message("SKIPPED: a full tmpfs: it cannot be mounted here\n");
        return;
    }
    if (status) fail_msg("status %d: %s", status, output);
    assert_contains(output, "of 200000 bytes were written, then: No space left on device");
    assert_contains(output, "there: x \n");
}

static void begin_and_end_by(void *signal_number) {
    static FileWriter writer;
    Error error;
    if (!file_begin(&writer, in("unfinished"), 0, &error)) _exit(2);
    file_put(&writer, "half", 4);
    if (*(int *)signal_number)
        stop_end(*(int *)signal_number);
    else
        die("an error");
}

TEST_WITH(what_is_not_written_to_its_end_leaves_nothing, fresh, NULL) {
    for (int i = 0; i < 2; i++) {
        char *before = keep(xstrdup(listing()));
        int number = i ? SIGINT : 0;
        assert_int_equal(run_function(output, sizeof output, begin_and_end_by, &number), i ? 128 + SIGINT : 1);
        assert_string_equal(listing(), before);
    }
}

static void write_without_rights_to_read(void *directory) {
    Error error;
    if (!getuid() && (setgid(65534) || setuid(65534))) _exit(3);
    char *path = path_join(directory, "x"), *folder = path_join(directory, "made");
    if (!file_write_atomic(path, "new", 3, &error)) die("%s", error.text);
    make_directories(folder);
}

/* Writes into a folder of mode -wx, into which users may only drop files. */
TEST_WITH(a_folder_that_cannot_be_read_is_written_to, fresh, NULL) {
    assert_int_equal(chmod(root, 0333), 0);
    int status = run_function(output, sizeof output, write_without_rights_to_read, (void *)(uintptr_t)root);
    assert_int_equal(chmod(root, 0700), 0);
    if (status) fail_msg("status %d: %s", status, output);
    assert_string_equal(listing(), "made x ");
    expect_text(in("x"), "new");
}

static void refuse_with_folders(void *directory) {
    char *deep = path_join(directory, "new/deep/er"), *used = path_join(directory, "used/deep"),
         *file = path_join(used, "x"), *lock_path = path_join(directory, "new/deep/locked");
    FileLock lock;
    Error error;
    make_directories(used);
    make_directories(deep);
    if (!file_write_atomic(file, "new", 3, &error) || !file_lock(&lock, lock_path, &error)) exit(3);
    die("refused");
}

/* Expects folders to stay that were there before, or hold a file. */
TEST_WITH(a_refused_command_leaves_no_empty_folder, fresh, NULL) {
    assert_int_equal(mkdir(in("there"), 0777), 0);
    assert_int_equal(run_function(output, sizeof output, refuse_with_folders, (void *)(uintptr_t)root), 1);
    assert_contains(output, "refused");
    assert_string_equal(listing(), "there used ");
    expect_text(in("used/deep/x"), "new");
    make_directories(in("there/new"));
    assert_int_equal(run_function(output, sizeof output, refuse_with_folders, (void *)(uintptr_t)in("there")), 1);
    assert_true(path_is_folder(in("there/new"))); /* another process has made it */
    assert_false(path_is_folder(in("there/new/deep")));
}

/* ---- names ---- */

TEST_WITH(file_names_are_safe_and_distinct, fresh, NULL) {
    enum { LONG = 300 };
    char long_a[LONG + 1], long_b[LONG + 1], wide[LONG + 1] = "", forged[LONG + 1];
    memset(long_a, 'x', LONG);
    long_a[LONG] = 0;
    strcpy(long_b, long_a);
    long_b[LONG - 1] = 'y';
    while (strlen(wide) + 3 <= LONG) strcat(wide, "ሰ");
    char *cut = keep(file_name_of(long_a));
    snprintf(forged, sizeof forged, "%s", cut); /* a text that equals the name of another text */
    const char *const texts[] = {"",       ".",     "..",      "../evil", "/abs",     "a/b",   "a%2Fb", "a%2fb", "-rf",
                                 "--help", ".x",    "%2Ex",    "%",       "%%",       "%25",   "\n",    "\x7f",  "a\tb",
                                 "ሰላም",    "plain", "a b.npy", long_a,    long_b,     wide,    forged,  "a.",    "CON",
                                 "\xff",   "~",     "%~",      "x/../y",  "x\\..\\y", "$(ls)", "last",  " "};
    enum { N = sizeof texts / sizeof *texts };
    char *names[N];
    for (int i = 0; i < N; i++) {
        Error error;
        const char *name = names[i] = file_name_of(texts[i]);
        assert_true(strlen(name) >= 1 && strlen(name) <= 120);
        assert_true(!strchr(name, '/') && name[0] != '.' && name[0] != '-');
        for (const char *c = name; *c; c++) assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
        for (int k = 0; k < i; k++) assert_string_not_equal(name, names[k]);
        assert_true(file_write_atomic(in(name), texts[i], strlen(texts[i]), &error));
    }
    for (int i = 0; i < N; i++) { /* no file has replaced another */
        expect_text(in(names[i]), texts[i]);
        free(names[i]);
    }
    char *same = keep(file_name_of("a b.npy"));
    assert_string_equal(same, "a b.npy"); /* a harmless name is not changed */
}

/* The name of a long text is cut and ends in a hash. Some hashes begin like an escaped character (%25); no short text
 * with that character may get the same name. */
TEST_WITH(no_short_text_has_the_name_of_a_long_one, fresh, NULL) {
    for (int i = 0; i < 3000; i++) {
        char text[201], guess[201];
        memset(text, 'x', 200);
        text[200] = 0;
        text[199] = (char)('a' + i % 26);
        text[198] = (char)('a' + i / 26 % 26);
        text[197] = (char)('a' + i / 676);
        char *name = keep(file_name_of(text)), *percent = strchr(name, '%');
        assert_non_null(percent);
        int code;
        if (sscanf(percent, "%%%2d", &code) == 1) { /* as if it were an escaped character */
            snprintf(guess, sizeof guess, "%.*s%c%s", (int)(percent - name), name, (char)strtol(percent + 1, NULL, 16),
                     percent + 3);
            assert_string_not_equal(name, keep(file_name_of(guess)));
        }
    }
}

TEST_WITH(a_checksum_detects_one_flipped_bit, fresh, NULL) {
    assert_true(checksum(0, "abc", 3) == 0x78af5f94892f3950); /* as published for XXH3 */
    unsigned char bytes[1000];
    for (int i = 0; i < 1000; i++) bytes[i] = (unsigned char)(i * 7);
    uint64_t whole = checksum(0, bytes, sizeof bytes);
    for (int bit = 0; bit < 8000; bit += 37) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(checksum(0, bytes, sizeof bytes) != whole);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_true(checksum(0, bytes, sizeof bytes) == whole);
    assert_true(checksum(whole, bytes, 0) == whole); /* no more bytes change nothing */
    assert_true(checksum(checksum(0, "a", 1), "b", 1) != checksum(checksum(0, "b", 1), "a", 1));
}

/* ---- mapped files ---- */

enum { PAGES = 64 };

static void map_and_cut(void *path) {
    void *bytes, *other;
    size_t size;
    Error error;
    int sum = 0;
    if (!file_map(path, &other, &size, &error)) die("%s", error.text);
    file_unmap(other, size); /* frees its place in the list of mappings */
    if (!file_map(path, &bytes, &size, &error) || truncate(path, 4096)) die("%s", error.text);
#pragma omp parallel for num_threads(3) reduction(+ : sum)
    for (int i = 0; i < PAGES; i++) sum += ((volatile char *)bytes)[4096 * i];
    printf("read %d\n", sum);
}

TEST_WITH(a_file_cut_off_while_it_is_read_ends_the_program, fresh, NULL) {
    char *bytes = xcalloc(PAGES, 4096);
    write_bytes(in("store"), bytes, (size_t)PAGES * 4096);
    assert_int_equal(run_function(output, sizeof output, map_and_cut, (void *)(uintptr_t)in("store")), 1);
    assert_contains(output, in("store"));
    assert_contains(output,
                    ": became unreadable while the program was using it: the file was truncated, or its disk fails");
    assert_null(strstr(output, "read 0"));
    free(bytes);
}

static void fail_elsewhere(void *path) {
    void *bytes;
    size_t size;
    if (!file_map(path, &bytes, &size, NULL)) _exit(1);
    int fd = open(path, O_RDONLY);
    volatile char *own = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    file_unmap(bytes, size);
    signal(SIGALRM, SIG_DFL);
    alarm(20); /* ends the test if the handler returns for ever */
    printf("%d\n", truncate(path, 0) + own[4096]);
}

TEST_WITH(other_bus_errors_still_kill_the_program, fresh, NULL) {
    char bytes[8192] = "";
    write_bytes(in("other"), bytes, sizeof bytes);
    int status = run_function(output, sizeof output, fail_elsewhere, (void *)(uintptr_t)in("other"));
    assert_true(status != 0 && status != 128 + SIGALRM);
    assert_null(strstr(output, "became unreadable"));
}

static void expect_label(const char *text, const char *path, const char *label) {
    char *found, *found_label;
    file_split_label(text, &found, &found_label);
    assert_string_equal(found, path);
    if (label)
        assert_string_equal(found_label, label);
    else
        assert_null(found_label);
    free(found);
    free(found_label);
}

TEST_WITH(a_label_is_split_from_a_path, fresh, NULL) {
    char *directory = kept_folder(), *plain = kept_path(directory, "m.jsonl");
    char *odd = kept_path(directory, "a=b@c::d.jsonl"), *prefix = kept_path(directory, "a");
    write_text(plain, "\n");
    write_text(odd, "\n");
    write_text(prefix, "\n");
    static const char *const separators[] = {"::", "@", "="};
    for (int i = 0; i < 3; i++) {
        char *text = kept_format("%s%sam", plain, separators[i]);
        expect_label(text, plain, "am");
        text = kept_format("%s%sam", odd, separators[i]);
        expect_label(text, odd, "am");
    }
    expect_label(plain, plain, NULL);
    expect_label(odd, odd, NULL); /* an existing name is taken whole, whatever its characters */
    expect_label("nowhere.jsonl::am", "nowhere.jsonl::am", NULL);
}

int main(void) { return tests_run(NULL, NULL); }
