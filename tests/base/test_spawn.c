/* Processes that a parent starts with its own arguments. This program is its own parent and child: "helper COUNT WHAT
 * FOLDER" starts COUNT processes, which do WHAT and report in files of the FOLDER. No test asserts a time. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program.h"
#include "base/spawn.h"
#include "base/stop.h"
#include "tests/test.h"

enum { ROOM = 4096 };

/* ---- the helper ---- */

static const char *text_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? text : "none";
}

/* Writes a file as a whole: who waits for it may read it. */
static void report(const char *folder, const char *what, int rank, const char *text) {
    OWNED char *path = xformat("%s/%s.%d", folder, what, rank), *early = xformat("%s.part", path);
    write_text(early, "%s", text);
    if (rename(early, path)) _exit(99);
}

/* Reports place, variables, arguments and standard input. */
static void report_start(const Launch *l, const char *folder, char **argv) {
    char input[64] = "";
    ssize_t n = isatty(STDIN_FILENO) ? 0 : read(STDIN_FILENO, input, sizeof input - 1);
    OWNED char *text = xformat("%d of %d, %d of %d by %s (%s) at %s, cards %s, input %s, process %d, arguments",
                               l->rank, l->size, l->local_rank, l->local_size, l->launcher, l->description, l->address,
                               text_of("CUDA_VISIBLE_DEVICES"), n > 0 ? input : "none", getpid());
    for (; *argv; argv++) xappend(&text, " [%s]", *argv);
    report(folder, "start", l->rank, text);
    OWNED char *secrets = xformat("%s %s %d", l->job, text_of("TRAINC_JOB_SECRET"), l->port);
    report(folder, "secret", l->rank, secrets);
}

/* Ends by the number of this rank in a list "0,3,-9": a status, or a signal. */
static void end_by_list(const char *list, int rank) {
    while (rank--) list += strcspn(list, ",") + 1;
    int end = atoi(list);
    if (end >= 0) exit(end);
    signal(-end, SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    raise(-end);
}

/* Waits for a signal, and longer for a second one, which ends this process before it reports. */
static void wait_for_signal(const char *folder, int rank, bool patient) {
    stop_defer(true);
    stop_answer(false);
    stop_count_apart(getppid());
    report(folder, "ready", rank, kept_format("%d", getpid()));
    while (!stop_signal()) usleep(1000);
    report(folder, "heard", rank, "");
    usleep(patient ? 60000000 : 400000);
    report(folder, "done", rank, "");
}

static void work(const char *what, const char *folder, char **argv) {
    static const char *const options[] = {"-g", "8 or so", NULL};
    Launch launch;
    MUST(launch_read(&launch, &error));
    report_start(&launch, folder, argv);
    if (launch.rank == 0) printf("the first speaks\n");
    if (!strcmp(what, "again") && spawn_may_ask()) exit(spawn_again(2, options) ? SPAWN_AGAIN : 98);
    if (!strcmp(what, "alone") && spawn_may_ask()) exit(spawn_again(1, options + 2) ? SPAWN_AGAIN : 98);
    if (!strcmp(what, "wait") || !strcmp(what, "stubborn"))
        wait_for_signal(folder, launch.rank, !strcmp(what, "stubborn"));
    if (strchr(what, ',')) end_by_list(what, launch.rank);
}

static int help(char **argv) {
    const char *what = argv[3];
    SpawnJob job = {.count = atoi(argv[2]), .nodes = {.count = 1}, .cards = getenv("TEST_CARDS")};
    program_start();
    if (getenv("TEST_NODE"))
        job.nodes = (LaunchNodes){
            .count = 3, .node = 1, .launcher = "a test", .job = "many", .address = "192.0.2.7", .port = 29500};
    job.may_ask = !strcmp(what, "again") || !strcmp(what, "alone");
    if (!spawn_is_child()) spawn_job(&job);
    work(what, argv[4], argv);
    return 0;
}

/* ---- running it ---- */

static char output[ROOM];
static char self[ROOM];

/* Runs the helper to its end. Returns its status, or 128 + the signal. */
static int run_helper(int count, const char *what, const char *folder, const char *before) {
    return run_command(output, sizeof output, "echo of the parent | %s %s helper %d %s %s", before, self, count, what,
                       folder);
}

static char *reported(const char *folder, const char *what, int rank) {
    return kept_text(kept_format("%s/%s.%d", folder, what, rank));
}

static bool has_reported(const char *folder, const char *what, int rank) {
    return !access(kept_format("%s/%s.%d", folder, what, rank), F_OK);
}

/* Waits until all ranks have reported. */
static void await_reports(const char *folder, const char *what, int ranks) {
    double until = seconds_now() + 60;
    for (int r = 0; r < ranks; r++)
        for (OWNED char *path = xformat("%s/%s.%d", folder, what, r); access(path, F_OK); usleep(2000))
            if (seconds_now() > until) fail_msg("rank %d does not report %s", r, what);
}

/* Starts the helper in a process group of its own, its output in FOLDER/output. Returns the parent's number. */
static pid_t start_helper(int count, const char *what, const char *folder) {
    heed_signals();
    OWNED char *command =
        xformat("exec %s helper %d %s %s >%s/output 2>&1 </dev/null", self, count, what, folder, folder);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process) return process;
    setpgid(0, 0);
    alarm(120);
    execl("/bin/sh", "sh", "-c", command, NULL);
    _exit(127);
}

/* Returns the status of a process that ends, or 128 + the signal. */
static int ended(pid_t process) {
    int status;
    while (waitpid(process, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the start ---- */

TEST(each_process_knows_its_place_and_only_the_first_has_the_input) {
    char *folder = kept_folder();
    assert_int_equal(run_helper(3, "report", folder, "TEST_CARDS=3,GPU-7,1"), 0);
    for (int r = 0; r < 3; r++) {
        const char *start = reported(folder, "start", r);
        assert_contains(start,
                        kept_format("%d of 3, %d of 3 by --gpus (--gpus) at 127.0.0.1, cards 3,GPU-7,1, input %s", r, r,
                                    r ? "none" : "of the parent"));
        assert_contains(start, kept_format("arguments [%s] [helper] [3] [report] [%s]", self, folder));
    }
    assert_string_equal(output, "the first speaks\n");
}

TEST(processes_share_a_job_a_port_and_a_secret_of_their_own) {
    char *one = kept_folder(), *two = kept_folder(), *known = kept_folder();
    assert_int_equal(run_helper(2, "report", one, "TRAINC_JOB_SECRET="), 0);
    assert_int_equal(run_helper(2, "report", two, ""), 0);
    assert_int_equal(run_helper(2, "report", known, "TRAINC_JOB_SECRET=known"), 0);
    assert_string_equal(reported(one, "secret", 0), reported(one, "secret", 1));
    assert_string_not_equal(reported(one, "secret", 0), reported(two, "secret", 0));
    char job[64], secret[64];
    int port;
    assert_int_equal(sscanf(reported(one, "secret", 0), "%63s %63s %d", job, secret, &port), 3);
    assert_int_equal(strlen(job), 32);
    assert_int_equal(strlen(secret), 32);
    assert_true(port > 1023);
    assert_contains(reported(known, "secret", 1), " known ");
    assert_contains(reported(one, "start", 0), "cards none");
}

TEST(processes_of_several_nodes_are_counted_through) {
    char *folder = kept_folder();
    assert_int_equal(run_helper(2, "report", folder, "env -u TRAINC_JOB_SECRET TEST_NODE=1"), 0);
    assert_contains(reported(folder, "start", 2),
                    "2 of 6, 0 of 2 by --gpus (--gpus on 3 nodes of a test) at 192.0.2.7");
    assert_contains(reported(folder, "start", 3), "3 of 6, 1 of 2 ");
    assert_contains(reported(folder, "start", 2), "input of the parent");
    assert_string_equal(reported(folder, "secret", 3), "many none 29500"); /* all nodes must have the same */
}

/* ---- the end ---- */

TEST(the_status_is_that_of_the_first_rank) {
    static const struct {
        const char *list;
        int status;
    } cases[] = {{"0,0,0", 0}, {"3,4,0", 3}, {"0,4,0", 4}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_helper(3, cases[i].list, kept_folder(), ""), cases[i].status);
        assert_string_equal(output, "the first speaks\n");
    }
}

TEST(a_rank_that_is_killed_is_named) {
    assert_int_equal(run_helper(3, "0,0,-9", kept_folder(), ""), 128 + SIGKILL);
    assert_contains(output, "test_spawn: rank 2 was killed by signal 9 (Killed)\n");
    assert_int_equal(run_helper(2, "-11,0", kept_folder(), "ulimit -c 0;"), 128 + SIGSEGV);
    assert_contains(output, "test_spawn: rank 0 was killed by signal 11 (Segmentation fault)\n");
    assert_int_equal(run_helper(2, "0,-15", kept_folder(), ""), 128 + SIGTERM);
    assert_contains(output, "test_spawn: rank 1 has ended by signal 15 (Terminated)\n");
}

/* ---- signals ---- */

static void assert_all_done(const char *folder, int ranks) {
    for (int r = 0; r < ranks; r++)
        if (!has_reported(folder, "done", r)) fail_msg("rank %d got two signals", r);
}

TEST(a_signal_is_passed_on_once) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < 3; i++) {
        char *folder = kept_folder();
        pid_t parent = start_helper(3, "wait", folder);
        await_reports(folder, "ready", 3);
        kill(parent, numbers[i]);
        assert_int_equal(ended(parent), 128 + numbers[i]);
        assert_all_done(folder, 3);
        assert_string_equal(kept_text(kept_path(folder, "output")), "the first speaks\n");
    }
}

TEST(a_signal_to_the_whole_group_counts_once) {
    char *folder = kept_folder();
    pid_t parent = start_helper(3, "wait", folder);
    await_reports(folder, "ready", 3);
    kill(-parent, SIGTERM);
    assert_int_equal(ended(parent), 128 + SIGTERM);
    assert_all_done(folder, 3);
}

TEST(a_second_signal_ends_all_at_once) {
    char *folder = kept_folder();
    pid_t parent = start_helper(3, "stubborn", folder);
    await_reports(folder, "ready", 3);
    kill(parent, SIGTERM);
    await_reports(folder, "heard", 3);
    kill(parent, SIGTERM);
    assert_int_equal(ended(parent), 128 + SIGTERM);
    for (int r = 0; r < 3; r++) assert_false(has_reported(folder, "done", r));
}

/* Starts the helper in the foreground of a new terminal. Returns the parent's number. */
static pid_t start_in_terminal(int count, const char *what, const char *folder, int *terminal) {
    char name[64], number[16];
    *terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*terminal < 0 || grantpt(*terminal) || unlockpt(*terminal) || ptsname_r(*terminal, name, sizeof name)) {
        printf("SKIPPED: Ctrl-C: there are no terminals here\n");
        skip();
    }
    heed_signals();
    snprintf(number, sizeof number, "%d", count);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process) return process;
    setsid();
    int file = open(name, O_RDWR);
    for (int i = 0; i < 3; i++) dup2(file, i);
    ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    alarm(120);
    execl(self, self, "helper", number, what, folder, NULL);
    _exit(127);
}

TEST(ctrl_c_reaches_each_process_once) {
    char *folder = kept_folder();
    int terminal;
    pid_t parent = start_in_terminal(3, "wait", folder, &terminal);
    await_reports(folder, "ready", 3);
    assert_int_equal(write(terminal, "\003", 1), 1);
    assert_int_equal(ended(parent), 128 + SIGINT);
    assert_all_done(folder, 3);
    close(terminal);
}

TEST(no_process_outlives_the_parent) {
    char *folder = kept_folder();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* to see the end of those that are left */
    pid_t parent = start_helper(3, "wait", folder);
    await_reports(folder, "ready", 3);
    kill(parent, SIGKILL);
    assert_int_equal(ended(parent), 128 + SIGKILL);
    for (int r = 0; r < 3; r++) assert_int_equal(ended(atoi(reported(folder, "ready", r))), 128 + SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    assert_all_done(folder, 3); /* they have stopped as after any SIGTERM */
}

/* ---- again ---- */

TEST(processes_that_ask_are_started_again_with_other_options) {
    char *folder = kept_folder();
    assert_int_equal(run_helper(3, "again", folder, ""), 0);
    assert_string_equal(output, "the first speaks\n[Ranks] starting again: --gpus 2 -g '8 or so'\nthe first speaks\n");
    assert_contains(reported(folder, "start", 0), "0 of 2, 0 of 2 by --gpus ");
    assert_contains(reported(folder, "start", 1), "1 of 2, 1 of 2 by --gpus ");
    assert_contains(reported(folder, "start", 1), kept_format("[%s] [--gpus] [2] [-g] [8 or so]", folder));
    assert_contains(reported(folder, "start", 2), "2 of 3, "); /* of the first time */
}

TEST(a_single_process_may_be_asked_for) {
    char *folder = kept_folder();
    assert_int_equal(run_helper(2, "alone", folder, ""), 0);
    assert_contains(output, "[Ranks] starting again: --gpus 1\n");
    assert_contains(reported(folder, "start", 0), "0 of 1, 0 of 1 by --gpus ");
    assert_contains(reported(folder, "start", 0), kept_format("[%s] [--gpus] [1]", folder));
}

TEST(who_may_not_ask_is_told) {
    static const char *const none[] = {NULL};
    char *much = keep(xcalloc(1, ROOM + 1));
    memset(much, 'x', ROOM);
    unsetenv("TRAINC_REQUEST");
    assert_false(spawn_may_ask());
    assert_false(spawn_again(1, none));
    setenv("TRAINC_REQUEST", "999", 1); /* of no file */
    assert_false(spawn_may_ask());
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    setenv("TRAINC_REQUEST", kept_format("%d", ends[1]), 1);
    assert_true(spawn_may_ask());
    assert_false(spawn_again(1, (const char *const[]){much, NULL}));
    assert_true(spawn_again(1, none));
    unsetenv("TRAINC_REQUEST");
}

int main(int argc, char **argv) {
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (argc > 4 && !strcmp(argv[1], "helper")) return help(argv);
    if (n < 0) die("/proc/self/exe: %s", strerror(errno));
    return tests_run(NULL, NULL);
}
