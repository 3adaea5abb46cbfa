/* How programs begin and end: output that cannot be written, signals and their exit status, running threads, characters
 * that reach a terminal. */
#include <dnnl.h>
#include <fcntl.h>

#include "base/program.h"
#include "base/stop.h"
#include "tests/train_rig.h"

/* ---- streams ---- */

TEST(help_that_cannot_be_written_is_an_error) {
    int n;
    const char *const *names = program_names(&n);
    for (int i = 0; i < n; i++) {
        const char *program = program_at(names[i]);
        assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s --help >/dev/null", program), 0);
        assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s --help >/dev/full", program), 1);
        assert_contains(fixture.output, names[i]);
        assert_contains(fixture.output, ": standard output cannot be written (No space left on device)");
    }
}

typedef enum { PRINTS, PRINTS_RESULTS, FLUSHES_RESULTS, WORKS_ON } Printing;

/* Prints when its reader has ended. */
static void print_to_nobody(void *how) {
    const Printing printing = *(const Printing *)how;
    int ends[2];
    if (pipe(ends)) _exit(126);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    program_start();
    if (printing == PRINTS || printing == WORKS_ON) {
        printf("a line\n");
    } else {
        static char much[1 << 16];
        FILE *results = program_results();
        if (printing == PRINTS_RESULTS) program_put(results, much, sizeof much, "the rows");
        fputs("a row\n", results);
        program_flush(results, true, "the rows");
    }
    if (printing == WORKS_ON) program_outlive_reader();
    exit(0);
}

TEST(only_work_that_goes_on_tells_of_a_reader_that_ended) {
    for (Printing how = PRINTS; how <= FLUSHES_RESULTS; how++) {
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, print_to_nobody, &how), 128 + SIGPIPE);
        assert_string_equal(fixture.output, "");
    }
    Printing how = WORKS_ON;
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, print_to_nobody, &how), 1);
    assert_contains(fixture.output, "standard output cannot be written (Broken pipe): no more is printed");
}

static void print_nasty(void *how) {
    program_start();
    const char *text =
        "\x1b[31m \t\x7f \xc2\x9b \xff \xe1\x88\xb0\xe1\x88\x8b\xe1\x88\x9d \xf0\x9f\x98\x80 caf\xc3\xa9";
    if (how)
        warn("%s", text);
    else
        for (const char *at = text; *at; at++) { /* byte by byte: a character arrives in pieces */
            printf("%c", *at);
            fflush(stdout);
        }
    printf("\n");
}

/* Only control characters and bytes that are not UTF-8 are escaped. */
TEST(control_characters_are_shown_and_letters_stay) {
    const char *shown =
        "\\x1b[31m \t\\x7f \\xc2\\x9b \\xff \xe1\x88\xb0\xe1\x88\x8b\xe1\x88\x9d \xf0\x9f\x98\x80 caf\xc3\xa9\n";
    for (int warned = 0; warned < 2; warned++) {
        run_function(fixture.output, sizeof fixture.output, print_nasty, warned ? &warned : NULL);
        assert_contains(fixture.output, shown);
        assert_null(strchr(fixture.output, '\x1b'));
    }
}

/* ---- several processes ---- */

static void work_as_rank(void *rank) {
    program_start();
    printf("before\n");
    program_be_rank(*(int *)rank, 4);
    printf("a result\n");
    fputs("a row\n", program_results());
    warn("the data are short");
    stop_defer(true);
    kill(getpid(), SIGTERM);
    while (!stop_signal()) usleep(1000);
    die_usage("--epochs 0");
}

TEST(of_several_ranks_only_the_first_prints_and_others_name_themselves) {
    static int first = 0, third = 2;
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, work_as_rank, &first), 2);
    assert_contains(fixture.output, "before\na result\n");
    assert_contains(fixture.output, "test_signals: warning: the data are short\n[Stopping] after this step");
    assert_contains(fixture.output, "test_signals: --epochs 0\ntest_signals: see --help\n");
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, work_as_rank, &third), 2);
    assert_string_equal(fixture.output, "before\n"
                                        "test_signals [rank 2]: warning: the data are short\n"
                                        "test_signals [rank 2]: --epochs 0\n"
                                        "test_signals [rank 2]: see --help\n");
}

static void speak_as_rank(void *rank) {
    program_start();
    printf("before\n");
    program_be_rank(*(int *)rank, 4);
    printf("the data\n");
    program_speak_as_rank();
    printf("half a");
    fflush(stdout);
    printf(" line\n\ntwo\nlines, %01500d\n", 1);
}

TEST(ranks_that_do_different_work_begin_each_line_with_their_name) {
    static int first = 0, third = 2;
    char *long_line = kept_format("lines, %01500d\n", 1);
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, speak_as_rank, &first), 0);
    assert_string_equal(fixture.output, kept_format("before\nthe data\nhalf a line\n\ntwo\n%s", long_line));
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, speak_as_rank, &third), 0);
    assert_string_equal(fixture.output,
                        kept_format("before\n[rank 2] half a line\n\n[rank 2] two\n[rank 2] %s", long_line));
}

/* ---- signals ---- */

static void wait_stopped(void *number) {
    program_start();
    printf("ready\n");
    kill(getpid(), *(int *)number);
    for (;;) pause();
}

TEST(one_signal_ends_a_program_without_unsaved_work) {
    static int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, wait_stopped, &numbers[i]),
                         128 + numbers[i]);
}

static void wait_stopped_twice(void *number) {
    program_start();
    stop_defer(true);
    kill(getpid(), *(int *)number);
    while (!stop_signal()) usleep(1000);
    flockfile(stdout); /* as a thread does that waits for a reader */
    flockfile(stderr);
    kill(getpid(), *(int *)number);
    for (;;) pause();
}

TEST(the_first_signal_is_answered_and_the_second_ends_the_program) {
    static int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, wait_stopped_twice, &numbers[i]),
                         128 + numbers[i]);
        assert_string_equal(fixture.output, "[Stopping] after this step; again to stop at once\n");
    }
}

static void wait_with_a_full_stderr(void *unused) {
    (void)unused;
    int ends[2];
    program_start();
    stop_defer(true);
    if (pipe(ends) || fcntl(ends[1], F_SETFL, O_NONBLOCK)) _exit(1);
    while (write(ends[1], "x", 1) == 1) {
    }
    if (fcntl(ends[1], F_SETFL, 0) || dup2(ends[1], STDERR_FILENO) < 0) _exit(1);
    kill(getpid(), SIGTERM);
    while (!stop_signal()) usleep(1000);
    kill(getpid(), SIGTERM);
    for (;;) pause();
}

TEST(a_reader_that_does_not_read_hides_no_signal) {
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, wait_with_a_full_stderr, NULL), 128 + SIGTERM);
}

static _Noreturn void wait_for_a_disk(void) {
    kill(getpid(), SIGTERM);
    for (;;) pause();
}

static void wait_for_a_hanging_disk(void *unused) {
    (void)unused;
    program_start();
    last_calls_add(wait_for_a_disk);
    kill(getpid(), SIGTERM);
    for (;;) pause();
}

TEST(a_signal_ends_a_program_that_hangs_in_its_last_calls) {
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, wait_for_a_hanging_disk, NULL), 128 + SIGTERM);
}

static void return_after_a_signal(void *number) {
    program_start();
    stop_defer(true);
    kill(getpid(), *(int *)number);
    while (!stop_signal()) usleep(1000);
    stop_defer(false);
    exit(0); /* like return 0 in main */
}

TEST(a_stopped_program_does_not_exit_with_zero) {
    static int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, return_after_a_signal, &numbers[i]),
                         128 + numbers[i]);
}

/* ---- libraries and threads ---- */

void *cpp_new(size_t bytes) __asm__("_Znwm"); /* C++'s operator new */

static void throw_for_want_of_memory(void *unused) {
    (void)unused;
    program_start();
    free(cpp_new((size_t)1 << 60));
}

TEST(an_exception_of_a_library_is_reported) {
    skip_under_sanitizer("out of memory in a library"); /* operator new of the sanitizer ends the program */
    assert_int_equal(run_function(fixture.output, sizeof fixture.output, throw_for_want_of_memory, NULL), 1);
    assert_contains(fixture.output, ": out of memory: a library asked for more than there is");
}

static void *multiply_for_ever(void *unused) {
    enum { N = 96 };
    static float a[N * N], b[N * N], c[N * N];
    for (;;) dnnl_sgemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N);
    return unused;
}

/* Functions that libraries register with atexit destroy data that threads still use. Here abort is registered: it must
 * not be called. */
static void die_while_threads_compute(void *delay) {
    pthread_t threads[2];
    atexit(abort);
    for (int i = 0; i < 2; i++) thread_start(&threads[i], multiply_for_ever, NULL, "that computes");
    usleep(*(useconds_t *)delay);
    die("the end");
}

TEST(a_program_that_dies_while_threads_compute_exits_with_one) {
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

TEST(threads_that_die_together_print_one_message) {
    for (int i = 0; i < 20; i++) {
        assert_int_equal(run_function(fixture.output, sizeof fixture.output, die_in_many_threads, NULL), 1);
        assert_ptr_equal(strchr(fixture.output, '\n'), fixture.output + strlen(fixture.output) - 1);
    }
}

int main(void) {
    heed_signals();
    return tests_run(NULL, NULL);
}
