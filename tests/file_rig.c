#include "tests/file_rig.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void only_regular_files_are_read(void **cases) {
    const FileCases *c = *cases;
    need_links();
    char *directory = kept_folder(), *fifo = kept_path(directory, "x.tsv");
    char *folder = kept_path(directory, "folder.tsv"), *link = kept_path(directory, "zero.tsv");
    const char *const paths[] = {fifo, folder, link};
    assert_int_equal(mkfifo(fifo, 0666), 0);
    make_directories(folder);
    assert_int_equal(symlink("/dev/zero", link), 0);
    alarm(60); /* ends the test if a call blocks */
    for (int r = 0; r < c->n_readers; r++)
        for (int p = 0; p < 3; p++) {
            Error error = {""};
            if (c->readers[r].read(paths[p], &error))
                fail_msg("the reader '%s' accepts %s", c->readers[r].name, paths[p]);
            assert_contains(error.text, "not a regular file");
        }
    alarm(0);
}

static void only_regular_files_are_replaced(void **cases) {
    const FileCases *c = *cases;
    need_links();
    const char *root = run_directory();
    char *fifo = kept_path(root, "x.npy"), *folder = kept_path(root, "folder.npy"), *victim = kept_path(root, "victim");
    char *link = kept_path(root, "link.npy"), *dangling = kept_path(root, "dangling.npy"), before[512], after[512];
    const char *const paths[] = {fifo, folder, link, dangling, "/dev/null"};
    struct stat status;
    assert_int_equal(mkfifo(fifo, 0666), 0);
    make_directories(folder);
    write_text(victim, "mine");
    assert_true(!symlink("victim", link) && !symlink("nowhere", dangling));
    alarm(60); /* ends the test if a call blocks */
    for (int w = 0; w < c->n_writers; w++)
        for (int p = 0; p < 5; p++) {
            Error error = {""};
            run_command(before, sizeof before, "ls -lA %s", root);
            if (c->writers[w].write(paths[p], &error))
                fail_msg("the writer '%s' replaces %s", c->writers[w].name, paths[p]);
            assert_true(error.text[0]);
            run_command(after, sizeof after, "ls -lA %s", root);
            assert_string_equal(after, before);
        }
    alarm(0);
    char *text = kept_text(victim);
    assert_string_equal(text, "mine");
    assert_true(!stat("/dev/null", &status) && S_ISCHR(status.st_mode) && access("/dev/null.lock", F_OK));
}

typedef struct {
    const FileWriterCase *writer;
    const char *path;
} Writing;

static void write_on_a_full_disk(void *argument) {
    const Writing *writing = argument;
    Error error = {""};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){3, 3})) _exit(3);
    if (writing->writer->write(writing->path, &error)) _exit(4);
    printf("%s", error.text);
}

static void a_full_disk_leaves_the_old_file(void **cases) {
    const FileCases *c = *cases;
    char said[1024], names[256];
    for (const FileWriterCase *w = c->writers; w < c->writers + c->n_writers; w++) {
        const char *root = run_directory();
        char *path = kept_path(root, "x.npy");
        if (!w->reads) write_text(path, "old");
        int status = run_function(said, sizeof said, write_on_a_full_disk, &(Writing){w, path});
        if (status) fail_msg("%s: status %d: %s", w->name, status, said);
        assert_contains(said, w->appends ? "only a part" : "File too large");
        assert_contains(said, root);
        run_command(names, sizeof names, "ls -A %s | tr '\n' ' '", root);
        assert_string_equal(names, w->appends || !w->reads ? "x.npy " : "");
        if (!w->reads) {
            assert_string_equal(kept_text(path), "old");
        }
    }
}

int file_tests_run(FileCases cases) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(only_regular_files_are_read, &cases),
        cmocka_unit_test_prestate(only_regular_files_are_replaced, &cases),
        cmocka_unit_test_prestate(a_full_disk_leaves_the_old_file, &cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
