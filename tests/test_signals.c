/* How programs begin and end: closed streams, readers that go away, signals and their exit status, threads at work,
 * what reaches a terminal. */
#include "tests/train_rig.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <termios.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/program.h"
#include "base/stop.h"

static const char *const programs[] = {"train_gpt",  "train_psd",   "train_cv",    "prepare_tts",
                                       "decode_tts", "prepare_psd", "prepare_flim"};

enum { PROGRAMS = sizeof programs / sizeof *programs };

/* Starts train_gpt as start_training does, after `before` in the new process. */
static pid_t start_with(void (*before)(void), const char *run, const char *options) {
    char *command = xformat("exec %s -m %s %s --output-dir %s -b 3 -g 2 %s", fixture.program, fixture.manifest,
                            model_options, run, options);
    pid_t child = fork();
    if (!child) {
        before();
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    free(command);
    return child;
}

static int end_of(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- streams ---- */

static void close_streams(void) {
    for (int i = 0; i < 3; i++) close(i);
}

static void closed_streams_are_not_taken_by_files(void **state) {
    (void)state;
    char *run = scratch_directory(), *path = path_join(run, "log.jsonl");
    assert_int_equal(end_of(start_with(close_streams, run, short_run)), 0);
    assert_same_result(run, reference_run());
    char *log = read_text(path);
    for (char *line = log, *end; (end = strchr(line, '\n')); line = end + 1)
        if (*line != '{') fail_msg("%.*s", (int)(end - line), line);
    free(log);
    free(path);
    free(run);
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

static void a_reader_that_goes_away_does_not_end_the_training(void **state) {
    (void)state;
    char *run = scratch_directory();
    complaints = path_join(run, "complaints");
    assert_int_equal(end_of(start_with(break_stdout, run, short_run)), 1);
    assert_same_result(run, reference_run());
    char *said = read_text(complaints);
    assert_contains(said, "train_gpt: standard output cannot be written (Broken pipe): no more is printed");
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* once */
    free(said);
    free(complaints);
    free(run);
}

/* What it prints and the log go to files that may not grow: checkpoints, which are larger, neither. */
static void limit_files(void) {
    struct rlimit limit = {512, 512};
    write_to_file(STDOUT_FILENO);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void a_limit_on_file_sizes_is_an_error_and_no_end(void **state) {
    (void)state;
    char *run = scratch_directory();
    complaints = path_join(run, "complaints");
    assert_int_equal(end_of(start_with(limit_files, run, short_run)), 1);
    char *said = read_text(complaints);
    assert_int_equal(strlen(said), 512);
    free(said);
    free(complaints);
    free(run);
}

static void help_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        char program[256]; /* program_at("train_gpt") stays as it is */
        const char *build = getenv("BUILD");
        snprintf(program, sizeof program, "%s/%s", build ? build : "build/release", programs[i]);
        assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s --help >/dev/null", program), 0);
        assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s --help >/dev/full", program), 1);
        assert_contains(fixture.output, programs[i]);
        assert_contains(fixture.output, ": standard output cannot be written (No space left on device)");
    }
}

static void print_nasty(void *how) {
    program_start();
    const char *text =
        "\x1b[31m \t\x7f \xc2\x9b \xff \xe1\x88\xb0\xe1\x88\x8b\xe1\x88\x9d \xf0\x9f\x98\x80 caf\xc3\xa9";
    if (how)
        warn("%s", text);
    else
        for (const char *at = text; *at; at++) { /* characters come in pieces */
            printf("%c", *at);
            fflush(stdout);
        }
    printf("\n");
}

/* Only that which no text has is changed: control characters and bytes that are no UTF-8. */
static void control_characters_are_shown_and_letters_stay(void **state) {
    (void)state;
    const char *shown =
        "\\x1b[31m \t\\x7f \\xc2\\x9b \\xff \xe1\x88\xb0\xe1\x88\x8b\xe1\x88\x9d \xf0\x9f\x98\x80 caf\xc3\xa9\n";
    for (int warned = 0; warned < 2; warned++) {
        run_function(fixture.output, sizeof fixture.output, print_nasty, warned ? &warned : NULL);
        assert_contains(fixture.output, shown);
        assert_null(strchr(fixture.output, '\x1b'));
    }
}

/* ---- signals ---- */

static void wait_stopped(void *number) {
    program_start();
    printf("ready\n");
    kill(getpid(), *(int *)number);
    for (;;) pause();
}

static void one_signal_ends_a_program_that_has_nothing_to_keep(void **state) {
    (void)state;
    static int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, wait_stopped, &numbers[i]),
                         128 + numbers[i]);
}

static void return_after_a_signal(void *number) {
    program_start();
    stop_defer(true);
    kill(getpid(), *(int *)number);
    while (!stop_signal()) usleep(1000);
    stop_defer(false);
    exit(0); /* as main's return 0 */
}

static void a_program_that_was_stopped_does_not_end_with_zero(void **state) {
    (void)state;
    static int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, return_after_a_signal, &numbers[i]),
                         128 + numbers[i]);
}

static void ignore_hangup(void) {
    signal(SIGHUP, SIG_IGN);
    write_to_file(STDOUT_FILENO);
}

/* As nohup starts it. */
static void an_ignored_hangup_stays_ignored(void **state) {
    (void)state;
    char *run = scratch_directory();
    complaints = path_join(run, "output");
    pid_t child = start_with(ignore_hangup, run, short_run);
    wait_for_step(run, child, 2);
    kill(child, SIGHUP);
    assert_int_equal(end_of(child), 0);
    assert_same_result(run, reference_run());
    free(complaints);
    free(run);
}

static void forget_spinning(void) {
    unsetenv("GOMP_SPINCOUNT"); /* without it the program starts itself anew */
    write_to_file(STDOUT_FILENO);
}

static void a_program_that_starts_itself_anew_keeps_its_name(void **state) {
    (void)state;
    char *run = scratch_directory(), name[32] = "";
    complaints = path_join(run, "output");
    pid_t child = start_with(forget_spinning, run, short_run);
    wait_for_step(run, child, 1);
    char *path = xformat("/proc/%d/comm", (int)child);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(name, sizeof name, file));
    fclose(file);
    kill(child, SIGKILL);
    end_of(child);
    assert_string_equal(name, "train_gpt\n");
    free(path);
    free(complaints);
    free(run);
}

/* ---- readers that pause ---- */

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
    char *run = scratch_directory(), *last = path_join(run, "last/model.safetensors");
    pid_t child = start_with(print_to_paused, run, "--max-steps 4000 --log-interval 1 --save-interval 0");
    int status = 0;
    read_until_it_trains(reader);
    pause_reader();
    kill(child, SIGTERM);
    for (int i = 0; i < 3000 && !waitpid(child, &status, WNOHANG); i++) {
        usleep(10000);
        if (i + 1 == 3000) kill(child, SIGKILL); /* it would wait for ever */
    }
    assert_int_equal(access(last, R_OK), 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    free(last);
    free(run);
}

static void fill_pipe(void) {
    static const char bytes[PIPE_BUF];
    char *path = xformat("/proc/self/fd/%d", paused);
    int own = open(path, O_WRONLY | O_NONBLOCK);
    assert_true(own >= 0);
    while (write(own, bytes, sizeof bytes) > 0) {
    }
    close(own);
    free(path);
}

static void a_signal_is_answered_while_a_pipe_is_full(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    paused = ends[1];
    expect_end_with_a_checkpoint(ends[0], fill_pipe);
    close(ends[0]);
    close(ends[1]);
}

static void stop_output(void) { assert_int_equal(tcflow(paused, TCOOFF), 0); } /* Ctrl-S */

static void a_signal_is_answered_while_a_terminal_is_stopped(void **state) {
    (void)state;
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

/* ---- libraries and threads ---- */

void *cpp_new(size_t bytes) __asm__("_Znwm"); /* C++'s operator new */

static void throw_for_want_of_memory(void *unused) {
    (void)unused;
    program_start();
    free(cpp_new((size_t)1 << 60));
}

static void what_a_library_throws_is_told(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    fprintf(stderr, "SKIPPED: memory is out, under the sanitizer\n");
    skip(); /* its own operator new ends the program */
#endif
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, throw_for_want_of_memory, NULL), 1);
    assert_contains(fixture.output, ": out of memory: a library asked for more than there is");
}

static void *multiply_for_ever(void *unused) {
    enum { N = 96 };
    static float a[N * N], b[N * N], c[N * N];
    for (;;) dnnl_sgemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N);
    return unused;
}

/* What libraries compute with is destroyed by what they have registered for the exit, as abort is here. */
static void die_while_threads_compute(void *delay) {
    pthread_t threads[2];
    atexit(abort);
    for (int i = 0; i < 2; i++) thread_start(&threads[i], multiply_for_ever, NULL, "that computes");
    usleep(*(useconds_t *)delay);
    die("the end");
}

static void a_program_that_dies_while_threads_compute_ends_with_one(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        useconds_t delay = 1000 + 2000 * (useconds_t)i;
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, die_while_threads_compute, &delay), 1);
        assert_contains(fixture.output, ": the end\n");
    }
}

static void *die_too(void *unused) {
    die("one of many");
    return unused;
}

static void die_in_many_threads(void *unused) {
    (void)unused;
    pthread_t threads[16];
    for (int i = 0; i < 16; i++) thread_start(&threads[i], die_too, NULL, "that dies");
    for (int i = 0; i < 16; i++) pthread_join(threads[i], NULL);
}

static void of_threads_that_die_together_one_speaks(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, die_in_many_threads, NULL), 1);
        assert_ptr_equal(strchr(fixture.output, '\n'), fixture.output + strlen(fixture.output) - 1);
    }
}

static int open_fixture(void **state) {
    (void)state;
    heed_signals();
    fixture_open("train_gpt");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_streams_are_not_taken_by_files),
        cmocka_unit_test(a_reader_that_goes_away_does_not_end_the_training),
        cmocka_unit_test(a_limit_on_file_sizes_is_an_error_and_no_end),
        cmocka_unit_test(help_that_cannot_be_written_is_an_error),
        cmocka_unit_test(control_characters_are_shown_and_letters_stay),
        cmocka_unit_test(one_signal_ends_a_program_that_has_nothing_to_keep),
        cmocka_unit_test(a_program_that_was_stopped_does_not_end_with_zero),
        cmocka_unit_test(an_ignored_hangup_stays_ignored),
        cmocka_unit_test(a_program_that_starts_itself_anew_keeps_its_name),
        cmocka_unit_test(a_signal_is_answered_while_a_pipe_is_full),
        cmocka_unit_test(a_signal_is_answered_while_a_terminal_is_stopped),
        cmocka_unit_test(what_a_library_throws_is_told),
        cmocka_unit_test(a_program_that_dies_while_threads_compute_ends_with_one),
        cmocka_unit_test(of_threads_that_die_together_one_speaks),
    };
    return cmocka_run_group_tests(tests, open_fixture, NULL);
}
