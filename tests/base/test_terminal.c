/* The line of progress at the bottom of a terminal, and what is printed above it. */
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/program.h"

static void talk(void) {
    program_start();
    printf("before %d\n", 1);
    terminal_progress("step %d of 100", 1);
    terminal_progress("step %d", 2);
    printf("a line\n");
    printf("half a ");
    fflush(stdout);
    printf("line\n");
    warn("on stderr");
    terminal_progress("%s", "0123456789012345678901234567890123456789");
    terminal_progress("\033[32m%s\033[0m", "äääääääääääääääääääääääääääääääääääääääääää");
    terminal_progress("\033[32m%s\033[0m", "short");
    terminal_progress_end();
    printf("after\n");
    terminal_progress("left over");
}

static void talk_to_a_pipe(void *unused) {
    (void)unused;
    talk();
}

TEST(without_a_terminal_only_lines_are_shown) {
    char output[1024];
    assert_int_equal(run_function(output, sizeof output, talk_to_a_pipe, NULL), 0);
    assert_contains(output, "before 1\na line\nhalf a line\n");
    assert_contains(output, "on stderr\nafter\n");
    assert_null(strstr(output, "step"));
    assert_null(strstr(output, "\033"));
}

/* Makes the terminal stdout and stderr of a child. */
static void take_terminal(const char *name) {
    int terminal = open(name, O_RDWR | O_NOCTTY);
    if (terminal < 0 || dup2(terminal, STDOUT_FILENO) < 0 || dup2(terminal, STDERR_FILENO) < 0) _exit(1);
    program_invocation_short_name = "test";
}

static void talk_to_a_terminal(void *name) {
    take_terminal(name);
    talk();
    exit(0);
}

/* Prints a bar to the terminal as its environment and the user want it. */
static void draw_bars(void *name) {
    static const char *const settings[][2] = {
        {"xterm", NULL}, {"xterm", ""}, {"xterm", "1"}, {"dumb", NULL}, {NULL, NULL}};
    static const double shares[] = {0, 0.52, 1, 1.5, -1};
    char text[128];
    int terminal = open(name, O_RDWR | O_NOCTTY);
    if (terminal < 0 || dup2(terminal, STDOUT_FILENO) < 0) _exit(1);
    program_start();
    for (int i = 0; i < 5; i++) {
        unsetenv("TERM");
        unsetenv("NO_COLOR");
        if (settings[i][0]) setenv("TERM", settings[i][0], 1);
        if (settings[i][1]) setenv("NO_COLOR", settings[i][1], 1);
        terminal_progress("%s;", terminal_bar(shares[i], text));
    }
    exit(0);
}

/* Prints lines of several parts to a terminal of 32 columns, the last of which stays empty. */
static void draw_parts(void *name) {
    take_terminal(name);
    program_start();
    terminal_progress("one\ttwo\t\tthree"); /* an empty part takes no room */
    terminal_progress("%s\t%s\t%s", "0123456789", "too long to stand here", "short");
    terminal_progress("%s\t%s", "0123456789", "a part of 19 bytes.");
    terminal_progress("%s\t%s", "0123456789", "a part of 20 bytes..");
    terminal_progress("\033[32m%s\033[0m\t%s", "0123456789", "äääääääääääääääääää");
    terminal_progress("0123456789012345678901234567890\ta");
    exit(0);
}

/* Opens both ends of a terminal of 32 columns. Returns false if there are no terminals. */
static bool open_terminal(int *ours, int *theirs) {
    struct termios mode;
    *ours = posix_openpt(O_RDWR | O_NOCTTY);
    if (*ours < 0 || grantpt(*ours) || unlockpt(*ours)) return false;
    *theirs = open(ptsname(*ours), O_RDWR | O_NOCTTY);
    if (*theirs < 0 || tcgetattr(*theirs, &mode)) return false;
    cfmakeraw(&mode);
    tcsetattr(*theirs, TCSANOW, &mode);
    ioctl(*theirs, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 32});
    return true;
}

/* Runs a function that is given the name of a terminal, and reads what it shows there. Returns its exit status. */
static int watch(void (*function)(void *), char shown[4096]) {
    int ours = -1, theirs = -1;
    char output[64];
    if (!open_terminal(&ours, &theirs)) {
        printf("SKIPPED: what a terminal shows: no pseudo-terminal here\n");
        skip();
    }
    int status = run_function(output, sizeof output, function, ptsname(ours));
    /* One read may return a part of what was written, so that a mark shows the end of it. */
    const char end = '\004';
    assert_int_equal(write(theirs, &end, 1), 1);
    size_t length = 0;
    do {
        ssize_t n = read(ours, shown + length, 4096 - length);
        assert_true(n > 0);
        length += (size_t)n;
    } while (shown[length - 1] != end);
    shown[length - 1] = 0;
    close(theirs);
    close(ours);
    return status;
}

TEST(progress_stays_below_everything_that_is_printed) {
    char shown[4096];
    assert_int_equal(watch(talk_to_a_terminal, shown), 0);
#define ERASE "\r\033[K"
    assert_string_equal(shown, "before 1\nstep 1 of 100" ERASE "step 2" ERASE "a line\nstep 2" ERASE
                               "half a line\nstep 2" ERASE "test: warning: on stderr\nstep 2" ERASE
                               "0123456789012345678901234567890\033[0m" ERASE
                               "\033[32määäääääääääääääääääääääääääääää\033[0m" ERASE "\033[32mshort\033[0m" ERASE
                               "after\nleft over" ERASE);
}

TEST(colours_are_for_terminals_that_want_them) {
    char shown[4096], text[128];
    assert_int_equal(watch(draw_bars, shown), 0);
#define FIVE "━━━━━"
    assert_string_equal(shown, "\033[36m\033[90m" FIVE FIVE FIVE FIVE "\033[0m;" ERASE "\033[36m" FIVE FIVE
                               "\033[90m" FIVE FIVE "\033[0m;" ERASE "[####################];" ERASE
                               "[####################];" ERASE "[--------------------];" ERASE);
    assert_string_equal(terminal_bar(0.26, text), "[#####---------------]"); /* not a terminal */
}

TEST(parts_without_room_are_left_out) {
    char shown[4096];
    assert_int_equal(watch(draw_parts, shown), 0);
    assert_string_equal(shown, "one  two  three" ERASE "0123456789  short" ERASE "0123456789  a part of 19 bytes." ERASE
                               "0123456789" ERASE "\033[32m0123456789\033[0m  äääääääääääääääääää" ERASE
                               "0123456789012345678901234567890" ERASE);
}

/* Prints a line of progress and ends by an error, or by a signal that nothing defers. */
static void end_by_an_error(void *name) {
    take_terminal(name);
    program_start();
    terminal_progress("step 1");
    die("no more");
}

static void end_by_a_signal(void *name) {
    take_terminal(name);
    program_start();
    terminal_progress("step 1");
    kill(getpid(), SIGTERM);
    for (;;) pause();
}

TEST(progress_goes_before_the_end) {
    static const struct {
        void (*end)(void *);
        int status;
        const char *shown;
    } ends[] = {{end_by_an_error, 1, "step 1" ERASE "test: no more\n"},
                {end_by_a_signal, 128 + SIGTERM, "step 1" ERASE}};
    for (int i = 0; i < 2; i++) {
        char shown[4096];
        assert_int_equal(watch(ends[i].end, shown), ends[i].status);
        assert_string_equal(shown, ends[i].shown);
    }
}
