#include "base/base.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char rank_name[32]; /* " [rank N]" */

void messages_name_rank(int rank) {
    if (rank)
        snprintf(rank_name, sizeof rank_name, " [rank %d]", rank);
    else
        rank_name[0] = 0;
}

/* Prints one line as a whole, because several threads may print at the same time. */
static void print_message(const char *prefix, const char *format, va_list arguments) {
    fflush(stdout);
    flockfile(stderr);
    fprintf(stderr, "%s%s: %s", program_invocation_short_name, rank_name, prefix);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    fflush(stderr);
    funlockfile(stderr);
}

static struct {
    void (*functions[4])(void);
    int n;
} last_calls;

void last_calls_add(void (*function)(void)) {
    assert(last_calls.n < (int)(sizeof last_calls.functions / sizeof *last_calls.functions));
    last_calls.functions[last_calls.n++] = function;
}

void last_calls_make(void) {
    for (int i = 0; i < last_calls.n; i++) last_calls.functions[i]();
}

/* Lets only the first of several threads that die at the same time print its message. exit() would destroy what
 * libraries compute with (oneDNN) while other threads compute. */
static void begin_to_die(void) {
    static atomic_flag dying = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&dying)) pause();
    last_calls_make();
}

void die(const char *format, ...) {
    va_list arguments;
    begin_to_die();
    va_start(arguments, format);
    print_message("", format, arguments);
    va_end(arguments);
    _exit(1);
}

void die_with(int status, const char *format, ...) {
    va_list arguments;
    begin_to_die();
    va_start(arguments, format);
    print_message("", format, arguments);
    va_end(arguments);
    _exit(status);
}

void die_usage(const char *format, ...) {
    va_list arguments;
    begin_to_die();
    va_start(arguments, format);
    print_message("", format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s%s: see --help\n", program_invocation_short_name, rank_name);
    _exit(2);
}

void warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message("warning: ", format, arguments);
    va_end(arguments);
}

void warn_once(const char *format, ...) {
    static struct Said {
        struct Said *before;
        char *text;
    } * last;
    va_list arguments;
    bool said = false;
    va_start(arguments, format);
    char *text = vxformat(format, arguments);
    va_end(arguments);
#pragma omp critical(warn_once)
    {
        for (const struct Said *s = last; s && !said; s = s->before) said = !strcmp(s->text, text);
        if (!said) {
            struct Said *now = xmalloc(sizeof *now);
            *now = (struct Said){last, text};
            last = now;
        }
    }
    if (said)
        free(text);
    else
        warn("%s", text);
}

static bool inside_character(const char *utf8) { return (*utf8 & 0xc0) == 0x80; }

static void leave_out_middle(char *to, int room, const char *text, int length) {
    static const char gap[] = " ... ";
    int head = (room - (int)sizeof gap) / 2;
    const char *tail = text + length - head;
    while (head && inside_character(text + head)) head--;
    while (inside_character(tail)) tail++;
    snprintf(to, (size_t)room, "%.*s%s%s", head, text, gap, tail);
}

bool(error_set)(Error *error, const char *format, ...) {
    enum { ROOM = sizeof error->text };
    if (!error) return false;
    va_list arguments;
    char *whole;
    va_start(arguments, format);
    int length = vasprintf(&whole, format, arguments);
    va_end(arguments);
    if (length < 0) {
        snprintf(error->text, ROOM, "out of memory for the message %s", format);
        return false;
    }
    if (length < ROOM)
        memcpy(error->text, whole, (size_t)length + 1);
    else
        leave_out_middle(error->text, ROOM, whole, length);
    free(whole);
    return false;
}

bool(error_before)(Error *error, const char *format, ...) {
    if (!error) return false;
    const Error why = *error;
    va_list arguments;
    va_start(arguments, format);
    OWNED char *before = vxformat(format, arguments);
    va_end(arguments);
    return error_set(error, "%s%s", before, why.text);
}

void thread_start(pthread_t *thread, void *(*function)(void *), void *argument, const char *what) {
    int reason = pthread_create(thread, NULL, function, argument);
    if (reason)
        die("cannot start a thread %s: %s; more threads or more memory for their stacks are not allowed (ulimit -u, "
            "ulimit -v)",
            what, strerror(reason));
}

static void *checked(void *memory, size_t bytes) {
    if (!memory && bytes) die("out of memory: %zu bytes were asked for", bytes);
    return memory;
}

void *xmalloc(size_t bytes) { return checked(malloc(bytes ? bytes : 1), bytes); }
void *xcalloc(size_t count, size_t bytes) {
    return checked(calloc(count ? count : 1, bytes ? bytes : 1), count * bytes);
}
void *xrealloc(void *old, size_t bytes) { return checked(realloc(old, bytes ? bytes : 1), bytes); }

void *xgrow(void *rows, size_t n, size_t row_bytes) {
    return n & (n - 1) ? rows : xrealloc(rows, (n ? 2 * n : 1) * row_bytes);
}

void bytes_add(Bytes *to, const void *bytes, size_t size) {
    if (to->n + size > to->capacity) to->at = xrealloc(to->at, to->capacity = 2 * to->capacity + size);
    if (size) memcpy(to->at + to->n, bytes, size);
    to->n += size;
}

static size_t whole_lines(size_t bytes) { return bytes ? (bytes + 63) / 64 * 64 : 64; }

void *xuntouched(size_t bytes) { return checked(aligned_alloc(64, whole_lines(bytes)), bytes); }

void *xaligned(size_t bytes) { return memset(xuntouched(bytes), 0, whole_lines(bytes)); }

void *xkeep(const void *data, size_t bytes) {
    typedef struct Kept {
        struct Kept *next;
        max_align_t data[];
    } Kept;
    static Kept *newest;
    Kept *kept = xmalloc(sizeof *kept + bytes);
    kept->next = newest;
    newest = kept;
    return memcpy(kept->data, data, bytes);
}

char *xstrdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(xmalloc(bytes), text, bytes);
}

char *xformat(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = vxformat(format, arguments);
    va_end(arguments);
    return text;
}

char *vxformat(const char *format, va_list arguments) {
    char *text;
    int length = vasprintf(&text, format, arguments);
    return checked(length < 0 ? NULL : text, 1);
}

void xappend(char **text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *before = *text, *more = vxformat(format, arguments);
    va_end(arguments);
    *text = xformat("%s%s", before ? before : "", more);
}

void free_owned(void *pointer) {
    void *owned;
    memcpy(&owned, pointer, sizeof owned);
    free(owned);
}

void free_each(void *const *pointers, size_t n) {
    while (n) free(pointers[--n]);
}

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

const char *path_ending(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && !strcasecmp(path + n - m, ending) ? path + n - m : NULL;
}

static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127) return true;
    return false;
}

/* Uses $'' of bash and zsh for control characters only; other texts can be read by any shell. */
char *shell_word(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    bool control = has_control(text);
    if (*text && !text[strspn(text, plain)]) return xstrdup(text);
    char *word = xmalloc(4 * strlen(text) + 4), *at = stpcpy(word, control ? "$'" : "'");
    for (; *text; text++) {
        if ((unsigned char)*text < 32 || *text == 127)
            at += sprintf(at, "\\x%02x", (unsigned char)*text);
        else if (*text == '\'')
            at = stpcpy(at, control ? "\\'" : "'\\''");
        else if (*text == '\\' && control)
            at = stpcpy(at, "\\\\");
        else
            *at++ = *text;
    }
    stpcpy(at, "'");
    return word;
}

char *shell_path(const char *path) {
    OWNED char *seen = xformat("%s%s", *path == '-' ? "./" : "", path);
    return shell_word(seen);
}

const char *path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *path_extension(const char *path) { return strrchr(path_name(path), '.'); }

char *path_join(const char *directory, const char *relative) {
    if (relative[0] == '/' || !strcmp(directory, ".") || !directory[0]) return xstrdup(relative);
    size_t n = strlen(directory);
    return xformat(directory[n - 1] == '/' ? "%s%s" : "%s/%s", directory, relative);
}

char *path_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return xstrdup(".");
    return xformat("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

char *path_absolute(const char *path) {
    OWNED char *from = realpath(".", NULL);
    while (from && path[0] == '.' && (path[1] == '/' || !strncmp(path, "../", 3))) {
        if (path[1] == '.') *(strrchr(from, '/') == from ? from + 1 : strrchr(from, '/')) = 0;
        path += path[1] == '.' ? 3 : 2;
        while (*path == '/') path++;
    }
    return path[0] == '/' || !from ? xstrdup(path) : xformat("%s/%s", strcmp(from, "/") ? from : "", path);
}

char *path_relative(const char *directory, const char *path) {
    OWNED char *from = realpath(directory, NULL);
    OWNED char *to = path_absolute(path);
    OWNED char *relative = xstrdup("");
    size_t common = 0; /* the length of the folders that both have; "/" has none */
    for (size_t i = 0; from; i++) {
        if ((from[i] == '/' || !from[i]) && (to[i] == '/' || !to[i])) common = i;
        if (!from[i] || from[i] != to[i]) break;
    }
    for (const char *at = from ? from + common : ""; *at; at++)
        if (*at == '/' && at[1]) xappend(&relative, "../");
    return from ? xformat("%s%s", relative, to + common + (to[common] == '/')) : xstrdup(path);
}

/* Returns the Levenshtein distance of two short names. */
static int edit_distance(const char *a, const char *b) {
    enum { LONGEST = 64 };
    int row[LONGEST + 1], n = (int)strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST) return LONGEST;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j - 1] + 1 < change) change = row[j - 1] + 1;
            if (diagonal + 1 < change) change = diagonal + 1;
            row[j] = change;
        }
    }
    return row[n];
}

const char *nearest_name(const char *name, const char *const *names, int count) {
    const char *best = NULL;
    int length = (int)strlen(name), least = 2 + length / 3;
    for (int i = 0; i < count; i++) {
        int distance = edit_distance(name, names[i]);
        if (distance < least && distance < length) { /* something of the name is left */
            least = distance;
            best = names[i];
        }
    }
    return best;
}

int compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int compare_integers(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t first_at_least(const int32_t *sorted, int64_t n, int64_t value) {
    int64_t low = 0;
    while (low < n) {
        int64_t middle = low + (n - low) / 2;
        if (sorted[middle] < value)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

int64_t last_at_most(const int64_t *sorted, int64_t n, int64_t value) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (sorted[middle] <= value)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return hash;
}
