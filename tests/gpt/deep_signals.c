/* Trainings whose streams are closed, full or paused, and that signals stop: they keep what they have done. */
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <termios.h>

#include "tests/gpt/train_rig.h"

/* Starts train_gpt as fixture_start does, after `before` in the new process. */
static pid_t start_with(void (*before)(void), const char *run, const char *options) {
    char *command = kept_format("exec %s -m %s %s --output-dir %s -b 3 -g 2 %s", fixture.program, fixture.manifest,
                                gpt_model_options, run, options);
    pid_t child = fork();
    if (!child) {
        before();
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

static int end_of(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void close_streams(void) {
    for (int i = 0; i < 3; i++) close(i);
}

TEST(closed_streams_are_not_taken_by_files) {
    char *run = kept_folder(), *path = kept_path(run, "log.jsonl");
    assert_int_equal(end_of(start_with(close_streams, run, gpt_short_run)), 0);
    assert_same_result(run, fixture_reference_run());
    char *log = kept_text(path);
    for (char *line = log, *end; (end = strchr(line, '\n')); line = end + 1)
        if (*line != '{') fail_msg("%.*s", (int)(end - line), line);
}

static char *complaints; /* a file */

static void write_to_file(int stream) {
    int file = open(complaints, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(file, stream);
    close(file);
}

static void break_stdout(void) {
    int ends[2];
    if (pipe(ends)) _exit(126);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    write_to_file(STDERR_FILENO);
}

TEST(a_reader_that_goes_away_does_not_end_the_training) {
    char *run = kept_folder();
    complaints = path_join(run, "complaints");
    assert_int_equal(end_of(start_with(break_stdout, run, gpt_short_run)), 1);
    assert_same_result(run, fixture_reference_run());
    char *said = kept_text(complaints);
    assert_contains(said, "train_gpt: standard output cannot be written (Broken pipe): no more is printed");
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* once */
    free(complaints);
}

/* Its output, its log and its checkpoints go to files that may not grow. */
static void limit_files(void) {
    struct rlimit limit = {512, 512};
    write_to_file(STDOUT_FILENO);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(a_limit_on_file_sizes_is_an_error_and_no_end) {
    char *run = kept_folder();
    complaints = path_join(run, "complaints");
    assert_int_equal(end_of(start_with(limit_files, run, gpt_short_run)), 1);
    assert_int_equal(strlen(kept_text(complaints)), 512);
    free(complaints);
}

static void ignore_hangup(void) {
    signal(SIGHUP, SIG_IGN);
    write_to_file(STDOUT_FILENO);
}

/* Starts the run as nohup does. */
TEST(an_ignored_hangup_stays_ignored) {
    char *run = kept_folder();
    complaints = path_join(run, "output");
    pid_t child = start_with(ignore_hangup, run, gpt_short_run);
    wait_for_step(run, child, 2);
    kill(child, SIGHUP);
    assert_int_equal(end_of(child), 0);
    assert_same_result(run, fixture_reference_run());
    free(complaints);
}

static void forget_spinning(void) {
    unsetenv("GOMP_SPINCOUNT"); /* without it the program starts itself anew */
    write_to_file(STDOUT_FILENO);
}

TEST(a_program_that_starts_itself_anew_keeps_its_name) {
    char *run = kept_folder(), name[32] = "";
    complaints = path_join(run, "output");
    pid_t child = start_with(forget_spinning, run, gpt_short_run);
    wait_for_step(run, child, 1);
    FILE *file = fopen(kept_format("/proc/%d/comm", (int)child), "r");
    assert_non_null(file);
    assert_non_null(fgets(name, sizeof name, file));
    fclose(file);
    kill(child, SIGKILL);
    end_of(child);
    assert_string_equal(name, "train_gpt\n");
    free(complaints);
}

static int paused; /* what the program prints to */

static void print_to_paused(void) {
    dup2(paused, STDOUT_FILENO);
    dup2(paused, STDERR_FILENO);
}

/* Reads what the program prints until it trains. */
static void read_until_it_trains(int reader) {
    size_t n = 0;
    do {
        ssize_t got = read(reader, fixture.output + n, sizeof fixture.output - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
        fixture.output[n] = 0;
    } while (!strstr(fixture.output, "[Train]"));
}

/* Starts a long run without checkpoints, which pauses as soon as it has trained; then a signal comes. */
static void expect_end_with_a_checkpoint(int reader, void (*pause_reader)(void)) {
    char *run = kept_folder();
    pid_t child = start_with(print_to_paused, run, "--max-steps 4000 --log-interval 1 --save-interval 0");
    int status = 0;
    read_until_it_trains(reader);
    pause_reader();
    kill(child, SIGTERM);
    for (int i = 0; i < 3000 && !waitpid(child, &status, WNOHANG); i++) {
        usleep(10000);
        if (i + 1 == 3000) kill(child, SIGKILL); /* it would wait for ever */
    }
    char *last = keep(path_through(run, "last/model.safetensors"));
    assert_int_equal(access(last, R_OK), 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void fill_pipe(void) {
    static const char bytes[PIPE_BUF];
    int own = open(kept_format("/proc/self/fd/%d", paused), O_WRONLY | O_NONBLOCK);
    assert_true(own >= 0);
    while (write(own, bytes, sizeof bytes) > 0) {
    }
    close(own);
}

TEST(a_signal_is_answered_while_a_pipe_is_full) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    paused = ends[1];
    expect_end_with_a_checkpoint(ends[0], fill_pipe);
    close(ends[0]);
    close(ends[1]);
}

static void stop_output(void) { assert_int_equal(tcflow(paused, TCOOFF), 0); } /* Ctrl-S */

TEST(a_signal_is_answered_while_a_terminal_is_stopped) {
    int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios mode;
    if (ours < 0 || grantpt(ours) || unlockpt(ours)) {
        printf("SKIPPED: a_signal_is_answered_while_a_terminal_is_stopped: no pseudo-terminal here\n");
        skip();
    }
    paused = open(ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_int_equal(tcgetattr(paused, &mode), 0);
    cfmakeraw(&mode);
    assert_int_equal(tcsetattr(paused, TCSANOW, &mode), 0);
    expect_end_with_a_checkpoint(ours, stop_output);
    tcflow(paused, TCOON); /* else closing it waits */
    close(paused);
    close(ours);
}

int main(void) { return tests_run(gpt_fixture_open, NULL); }
