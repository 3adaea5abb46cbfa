#include "base/program.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>

#include "base/base.h"
#include "base/limits.h"
#include "base/stop.h"
#include "base/uncaught.h"

/* An output stream: the layer between stdio and the file. */
typedef struct {
    int file;            /* pipes and terminals are opened again, without blocking */
    bool lost;           /* writing has failed */
    char buffer[BUFSIZ]; /* of stdio: "out of memory" is printed without allocating */
    uint8_t held[8];     /* the beginning of a character whose end has not been printed yet */
    size_t n_held;
} Stream;

static Stream out = {.file = STDOUT_FILENO}, err = {.file = STDERR_FILENO};
static bool outlives_reader, reader_ended;
static bool muted; /* stdout is /dev/null: rank 0 prints */

/* A rank other than 0. */
static struct {
    int rank, file; /* file: stdout as it was */
    char name[24];  /* begins each line; "": none */
    bool begun;     /* the line that is being written has its name */
} speaker = {.file = -1};

static void write_bytes(Stream *stream, const char *bytes, size_t size);

/* Writes around stdio, whose lock another thread may hold while it waits for this one's. */
static void report_lost(int error, const char *reason) {
    char text[256];
    reader_ended = error == EPIPE && !outlives_reader;
    if (reader_ended) return;
    int n = snprintf(text, sizeof text,
                     "%s: standard output cannot be written (%s): no more is printed, and the exit status will not be "
                     "0\n",
                     program_invocation_short_name, reason);
    write_bytes(&err, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* error: of errno; 0: none, `reason` says why */
static void give_up(Stream *stream, int error, const char *reason) {
    stream->lost = true;
    if (stream == &out) report_lost(error, error ? strerror(error) : reason);
}

/* Writes to the file. Waits for the reader (a pager, a terminal after Ctrl-S); after a signal for only a second,
 * because the checkpoint matters more. */
static void write_bytes(Stream *stream, const char *bytes, size_t size) {
    enum { PAUSE = 100 }; /* milliseconds */
    int pauses = 10;
    while (size && !stream->lost) {
        bool ready = poll(&(struct pollfd){.fd = stream->file, .events = POLLOUT}, 1, PAUSE) != 0;
        /* A pipe that could not be opened again gets only as much as it certainly has room for. */
        ssize_t n = ready ? write(stream->file, bytes, size < PIPE_BUF ? size : PIPE_BUF) : 0;
        if (n < 0 && errno == EINTR) continue;
        if (!ready || (n < 0 && errno == EAGAIN)) {
            if (stop_signal() && !pauses--) give_up(stream, 0, "its reader does not read, and a signal came");
            if (ready) poll(NULL, 0, PAUSE); /* a terminal may have room for a byte, but a line end takes two */
            continue;
        }
        if (n <= 0) {
            give_up(stream, errno, NULL);
            return;
        }
        bytes += n;
        size -= (size_t)n;
    }
}

/* Copies one character of 1 to 4 bytes; escapes control characters and invalid bytes. Returns the length. */
static size_t escape(char *to, const uint8_t *bytes, int length, ucs4_t character) {
    bool control = length < 1 || character < 32 || (character >= 127 && character < 160);
    size_t n = length < 1 ? 1 : (size_t)length;
    if (control && character != '\n' && character != '\t') {
        for (size_t i = 0; i < n; i++) snprintf(to + 4 * i, 5, "\\x%02x", bytes[i]);
        return 4 * n;
    }
    memcpy(to, bytes, n);
    return n;
}

/* ---- the line at the bottom of the terminal ---- */

static struct {
    pthread_mutex_t lock; /* held while anything is written */
    bool terminal;        /* whether stdout is one */
    bool drawn;           /* whether the line is on the screen */
    char text[512];       /* the line; "": there is none */
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void progress_erase(void) {
    if (progress.drawn) write_bytes(&out, "\r\033[K", 4);
    progress.drawn = false;
}

/* Returns how many of a text's bytes fit into *room columns, and takes their columns from *room. Control sequences take
 * no column. */
static size_t progress_fit(const char *text, size_t size, int *room) {
    size_t n = 0;
    for (; n < size; n++) {
        if (text[n] == '\033')
            while (n < size && text[n] != 'm') n++;
        else if ((text[n] & 0xC0) != 0x80 && --*room < 0)
            break;
    }
    return n < size ? n : size;
}

/* Returns the width of the terminal; 0: unknown. */
static int window_columns(void) {
    struct winsize window;
    return ioctl(out.file, TIOCGWINSZ, &window) ? 0 : window.ws_col;
}

/* Writes the first part of the text, cut at the width of the terminal, and those of the others for which there is room:
 * a longer line would wrap, and could not be erased. */
static void progress_draw(void) {
    int columns = window_columns(), room = columns ? columns - 1 : INT_MAX; /* the last column stays empty */
    const char *part = progress.text;
    size_t size = strcspn(part, "\t"), n = progress_fit(part, size, &room);
    if (!n) return;
    write_bytes(&out, part, n);
    if (n < size) write_bytes(&out, "\033[0m", 4); /* the cut may have lost the end of a colour */
    progress.drawn = true;
    for (part += size; *part; part += size) {
        size = strcspn(++part, "\t");
        int left = room - 2;
        if (!size || progress_fit(part, size, &left) < size) continue;
        write_bytes(&out, "  ", 2);
        write_bytes(&out, part, size);
        room = left;
    }
}

void terminal_progress(const char *format, ...) {
    if (!progress.terminal) return;
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    pthread_mutex_lock(&progress.lock);
    progress_erase();
    vsnprintf(progress.text, sizeof progress.text, format, arguments);
    progress_draw();
    pthread_mutex_unlock(&progress.lock);
    va_end(arguments);
}

void terminal_progress_end(void) {
    pthread_mutex_lock(&progress.lock);
    progress_erase();
    progress.text[0] = 0;
    pthread_mutex_unlock(&progress.lock);
}

/* Removes it from a program that is about to end in whatever state; gives up after a second if another thread is stuck
 * in writing. */
static void terminal_progress_abandon(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_mutex_timedlock(&progress.lock, &until)) return;
    progress_erase();
    progress.text[0] = 0;
    pthread_mutex_unlock(&progress.lock);
}

bool terminal_is_open(void) { return progress.terminal; }

int terminal_columns(void) {
    const char *given = getenv("COLUMNS");
    int columns = given ? atoi(given) : 0;
    if (columns <= 0) columns = window_columns();
    return columns > 0 ? columns : 80;
}

/* Returns whether the terminal may be sent colours: NO_COLOR is not set, and TERM is not dumb. */
static bool has_colours(void) {
    const char *none = getenv("NO_COLOR"), *type = getenv("TERM");
    return progress.terminal && !(none && *none) && type && strcmp(type, "dumb") != 0;
}

const char *terminal_bar(double share, char text[128]) {
    enum { WIDTH = 20 };
    bool colours = has_colours();
    int filled = (int)(WIDTH * (share < 0 ? 0 : share < 1 ? share : 1)), n = sprintf(text, colours ? "\033[36m" : "[");
    for (int i = 0; i < WIDTH; i++) {
        if (colours && i == filled) n += sprintf(text + n, "\033[90m");
        n += sprintf(text + n, "%s", colours ? "━" : i < filled ? "#" : "-");
    }
    sprintf(text + n, colours ? "\033[0m" : "]");
    return text;
}

/* ---- the streams ---- */

/* Begins a line with the name of its rank, if it has one. Returns the length. */
static size_t name_line(char *to) {
    size_t n = speaker.begun ? 0 : strlen(speaker.name);
    memcpy(to, speaker.name, n);
    speaker.begun = true;
    return n;
}

static void write_lines(Stream *stream, const char *bytes, size_t size) {
    char escaped[1024];
    bool named = stream == &out && speaker.name[0];
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        stream->held[stream->n_held++] = (uint8_t)bytes[i];
        while (stream->n_held) {
            ucs4_t character = 0;
            int length = u8_mbtoucr(&character, stream->held, stream->n_held);
            if (length == -2) break; /* the rest of the character will follow */
            if (named && character != '\n') n += name_line(escaped + n);
            n += escape(escaped + n, stream->held, length, character);
            stream->n_held -= length < 1 ? 1 : (size_t)length;
            memmove(stream->held, stream->held + (length < 1 ? 1 : length), stream->n_held);
        }
        bool whole = named && bytes[i] == '\n'; /* lines of other ranks come between */
        if (whole) speaker.begun = false;
        if (n < sizeof escaped - 4 * sizeof stream->held - sizeof speaker.name && !whole) continue;
        write_bytes(stream, escaped, n);
        n = 0;
    }
    write_bytes(stream, escaped, n);
}

static ssize_t write_escaped(void *context, const char *bytes, size_t size) {
    pthread_mutex_lock(&progress.lock);
    progress_erase();
    write_lines(context, bytes, size);
    if (size && bytes[size - 1] == '\n') progress_draw();
    pthread_mutex_unlock(&progress.lock);
    return (ssize_t)size;
}

/* Opens the file again, without blocking: O_NONBLOCK applies to the open file description, which other programs (a
 * shell) may share. Where that is not allowed (another user's terminal), only poll prevents blocking. */
static void reopen(Stream *stream) {
    struct stat status;
    char path[32];
    if (fstat(stream->file, &status) || !(S_ISFIFO(status.st_mode) || isatty(stream->file))) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", stream->file);
    int file = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file >= 0) stream->file = file;
}

static FILE *open_escaped(FILE *old, Stream *stream) {
    FILE *file = fopencookie(stream, "w", (cookie_io_functions_t){.write = write_escaped});
    if (!file) return old;
    setvbuf(file, stream->buffer, _IOLBF, sizeof stream->buffer);
    reopen(stream);
    return file;
}

static void fill_closed_streams(void) {
    int file;
    do file = open("/dev/null", O_RDWR);
    while (file >= 0 && file <= STDERR_FILENO);
    close(file);
}

/* Closes stdout, because a network file system may report a full disk only then, and sets the exit status. */
static void finish(int status, void *unused) {
    (void)unused;
    fflush(stdout);
    terminal_progress_end();
    if (close(STDOUT_FILENO) && errno != EBADF && !out.lost) give_up(&out, errno, NULL);
    if (!status && stop_signal()) stop_end(stop_signal());
    if (!status && out.lost) _exit(reader_ended ? 128 + SIGPIPE : 1);
}

const char *program_as_called(void) {
    static char *name;
    if (!name) name = shell_path(program_invocation_name);
    return name;
}

void program_end_with_reader(void) { signal(SIGPIPE, SIG_DFL); }
void program_outlive_reader(void) {
    outlives_reader = true;
    if (reader_ended) report_lost(EPIPE, strerror(EPIPE));
}

int program_free_stdout(void) {
    fflush(stdout);
    progress.terminal = false;
    int file = dup(STDOUT_FILENO);
    if (file < 0 || (!muted && dup2(STDERR_FILENO, STDOUT_FILENO) < 0))
        die("cannot print to stderr instead: %s", strerror(errno));
    if (!muted) out.file = err.file;
    return file;
}

void program_be_rank(int rank, int size) {
    if (size < 2 || rank < 1) return;
    messages_name_rank(rank);
    speaker.rank = rank;
    stop_answer(false);
    terminal_progress_end();
    fflush(stdout);
    int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    speaker.file = out.file == STDOUT_FILENO ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : out.file;
    if (file < 0 || speaker.file < 0 || dup2(file, STDOUT_FILENO) < 0)
        die("cannot leave printing to rank 0: /dev/null: %s", strerror(errno));
    pthread_mutex_lock(&progress.lock);
    progress.terminal = false;
    muted = true;
    out.file = STDOUT_FILENO;
    pthread_mutex_unlock(&progress.lock);
    close(file);
}

void program_speak_as_rank(void) {
    terminal_progress_end();
    progress.terminal = false;
    if (speaker.file < 0) return;
    fflush(stdout);
    pthread_mutex_lock(&progress.lock);
    out.file = speaker.file;
    snprintf(speaker.name, sizeof speaker.name, "[rank %d] ", speaker.rank);
    pthread_mutex_unlock(&progress.lock);
}

FILE *program_results(void) {
    FILE *results = fdopen(program_free_stdout(), "w");
    if (!results) die("standard output: %s", strerror(errno));
    return results;
}

/* Ends the program after results that could not be written. */
static _Noreturn void die_unwritten(int reason, const char *what) {
    if (reason == EPIPE) {
        program_end_with_reader();
        raise(SIGPIPE);
    }
    die("standard output: %s; a part of %s is missing", reason ? strerror(reason) : "it cannot be written", what);
}

void program_put(FILE *results, const char *text, size_t size, const char *what) {
    if (fwrite(text, 1, size, results) < size) die_unwritten(errno, what);
}

void program_flush(FILE *results, bool close, const char *what) {
    errno = 0;
    bool failed = fflush(results) | ferror(results);
    int reason = errno;
    if (close && fclose(results) && !failed) { /* a network file system may report a full disk only then */
        failed = true;
        reason = errno;
    }
    if (failed) die_unwritten(reason, what);
}

void program_start(void) {
    limits_start();
    fill_closed_streams();
    progress.terminal = isatty(STDOUT_FILENO);
    prctl(PR_SET_NAME, program_invocation_short_name); /* for pkill, if the program was started as /proc/self/exe */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    uncaught_install();
    /* Loads libgcc_s now: the C library needs it where a thread is cancelled or calls pthread_exit, and aborts the
     * program if there is no memory to load it then. */
    backtrace(&(void *){NULL}, 1);
    last_calls_add(terminal_progress_abandon);
    stop_watch();
    stdout = open_escaped(stdout, &out);
    stderr = open_escaped(stderr, &err);
    on_exit(finish, NULL);
}
