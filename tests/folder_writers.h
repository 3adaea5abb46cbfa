/* Tests of programs that write one folder at the same time. */
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/test.h"

typedef bool FolderWriter(const char *folder, int seed, Error *error);

/* Starts a child that writes the folder with this seed and logs to FOLDER.log.SEED. */
static inline pid_t start_writer(FolderWriter *write, const char *folder, int seed) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    char *log = xformat("%s.log.%d", folder, seed);
    Error error;
    if (!freopen(log, "w", stdout)) _exit(2);
    bool ok = write(folder, seed, &error);
    if (!ok) printf("%s\n", error.text);
    fflush(stdout);
    _exit(!ok);
}

/* Starts two programs that write different contents into one folder while a third holds its lock. Fails unless one of
 * them writes the folder, which then has exactly its contents and lists as `holds`, and the other refuses. */
static inline void expect_writers_not_to_mix(FolderWriter *write, const char *holds) {
    char *top = kept_folder(), *made = kept_path(top, "made"), *mark = kept_path(made, ".unfinished"), said[512];
    pid_t children[2];
    FileLock lock;
    Error error;
    make_directories(made);
    assert_true(file_lock(&lock, mark, &error));
    for (int i = 0; i < 2; i++) children[i] = start_writer(write, made, i);
    for (int i = 0; i < 2; i++)
        for (bool waits = false; !waits; usleep(1000)) {
            assert_int_equal(waitpid(children[i], NULL, WNOHANG), 0);
            run_command(said, sizeof said, "cat %s.log.%d", made, i);
            waits = strstr(said, "[Wait]");
        }
    file_unlock(&lock);
    int status[2];
    for (int i = 0; i < 2; i++) assert_int_equal(waitpid(children[i], &status[i], 0), children[i]);
    int winner = !status[1];
    assert_true(!status[winner] && status[!winner]);
    run_command(said, sizeof said, "cat %s.log.%d", made, !winner);
    assert_contains(said, "is there already");
    char *alone = kept_path(top, "alone");
    assert_true(waitpid(start_writer(write, alone, winner), &status[0], 0) > 0 && !status[0]);
    run_command(said, sizeof said, "diff -r %s %s && ls -A %s", made, alone, alone);
    assert_string_equal(said, holds);
}
