/* Shared by every part of the project: one way to fail, allocation, time and paths.
 *
 * There are two kinds of failure. A program stops with die() (exit 1) or die_usage() (exit 2) and one line that says
 * what was found, what was expected and what to do. A reader of untrusted bytes never stops the program: it returns
 * false and fills an Error, so that its caller can add the file and line, and so that a fuzzer can run it for hours.
 *
 * An Error names the place inside the data (a line, a field), but no path where the caller has the only one: the caller
 * puts "PATH: " before the text. Functions that write, lock or flush, and those that read several files, name the path
 * themselves. */
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char text[512];
} Error;

#define PRINTF_LIKE(at, first) __attribute__((format(printf, at, first)))

/* Prints "PROGRAM: message" and exits with 1 at once, without atexit and destructors: other threads may be running. */
_Noreturn void die(const char *format, ...) PRINTF_LIKE(1, 2);
_Noreturn void die_with(int status, const char *format, ...) PRINTF_LIKE(2, 3); /* the same with another status */
_Noreturn void die_usage(const char *format, ...) PRINTF_LIKE(1, 2);            /* the same and "see --help", exit 2 */
void warn(const char *format, ...) PRINTF_LIKE(1, 2);                           /* "PROGRAM: warning: message" */
/* Warns, unless the program has warned with the same words before: of what several stages or folds find in one file. */
void warn_once(const char *format, ...) PRINTF_LIKE(1, 2);
/* Lets this process's messages begin with "PROGRAM [rank N]: " from now on; 0: "PROGRAM: ". */
void messages_name_rank(int rank);
/* Adds a function that is called before an error or a signal ends the program, which takes no other way out. Not for
 * several threads at once. */
void last_calls_add(void (*function)(void));
void last_calls_make(void);
/* Fills error (may be NULL) and returns false. Leaves out the middle of a text that is too long: long paths come first,
 * the reason last. */
bool error_set(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);
/* Puts a text, "PATH: ", before what an error (may be NULL) says, and returns false. */
bool error_before(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);
#ifdef __clang_analyzer__ /* the analyzer sees one file at a time, so the constant result is stated here */
#define error_set(...)    ((void)error_set(__VA_ARGS__), false)
#define error_before(...) ((void)error_before(__VA_ARGS__), false)
#endif
/* Makes a call that may fill an Error of the name `error`, and dies with its text, or with another one, if the call
 * returns false: MUST(file_lock(&lock, path, &error)), MUST_OR(..., "%s: %s", path, error.text). */
#define MUST(call) MUST_OR(call, "%s", error.text)
#define MUST_OR(call, ...)                                                                                             \
    do {                                                                                                               \
        Error error;                                                                                                   \
        if (!(call)) die(__VA_ARGS__);                                                                                 \
    } while (0)

/* Allocate; never return NULL, but die with the size. Release with free(). */
void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t bytes);
void *xrealloc(void *old, size_t bytes);
/* Returns rows with room for one more than n: their number doubles where n is 0 or a power of two. */
void *xgrow(void *rows, size_t n, size_t row_bytes);
void *xaligned(size_t bytes); /* 64-byte aligned, zeroed */
/* Also 64-byte aligned, but not initialised: pages that are never written take no memory. */
void *xuntouched(size_t bytes);
char *xstrdup(const char *text);
/* Returns a copy that lives as long as the process; leak checkers find it reachable. */
void *xkeep(const void *data, size_t bytes);
char *xformat(const char *format, ...) PRINTF_LIKE(1, 2);
char *vxformat(const char *format, va_list arguments) PRINTF_LIKE(1, 0);
void xappend(char **text, const char *format, ...) PRINTF_LIKE(2, 3); /* puts more behind *text, which may be NULL */
/* Frees the pointers of a declaration at the end of their scope: OWNED char *path = path_join(folder, name); */
#define OWNED __attribute__((cleanup(free_owned)))
void free_owned(void *pointer); /* the address of one */
/* Frees each of several pointers. */
#define FREE(...) free_each((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
void free_each(void *const *pointers, size_t n);
/* Releases what a variable holds at the end of its scope: OWNED_BY(strings_free) Strings seen = {0}; */
#define OWNED_BY(release) __attribute__((cleanup(release)))
/* Adds bytes to a buffer that grows; begin with {0}. */
typedef struct {
    char *at;
    size_t n, capacity;
} Bytes;
void bytes_add(Bytes *to, const void *bytes, size_t size);

/* Starts a thread; dies, with its purpose `what` ("for signals"), if that fails. */
void thread_start(pthread_t *thread, void *(*function)(void *), void *argument, const char *what);

double seconds_now(void); /* monotonic */

bool ends_with(const char *text, const char *end);
/* Returns where the ending of a file's name begins, ".csv", in capitals or not; NULL: the name ends otherwise. */
const char *path_ending(const char *path, const char *ending);

/* Returns `text` as one word of a shell's command line, quoted if necessary; free(). */
char *shell_word(const char *text);
char *shell_path(const char *path); /* the same, and never an option; free() */

const char *path_name(const char *path); /* Returns its last part: "a/b" -> "b". */
/* Returns where the ending of that part begins, ".csv"; NULL: it has no dot. */
const char *path_extension(const char *path);
/* Returns the path of `relative` inside `directory`; absolute paths stay as they are. free(). */
char *path_join(const char *directory, const char *relative);
char *path_directory(const char *path); /* "a/b" -> "a", "b" -> "."; release with free() */
/* Returns the path of a file as it is seen from a directory, "../raw/a.npy". Links on the way to the directory are
 * followed, those on the way to the file stay. free() */
char *path_relative(const char *directory, const char *path);
/* Returns the path from the root. Links stay: only "./" and "../" at its beginning are resolved. free() */
char *path_absolute(const char *path);

/* Returns the entry of names[0..count-1] closest to `name` in edit distance; NULL if none is close enough for a typo.
 */
const char *nearest_name(const char *name, const char *const *names, int count);

/* Compare elements of arrays for qsort: texts (char *), whole numbers (int64_t). */
int compare_texts(const void *a, const void *b);
int compare_integers(const void *a, const void *b);

/* Returns the first i with sorted[i] >= value; n if there is none. */
int64_t first_at_least(const int32_t *sorted, int64_t n, int64_t value);
/* Returns the last i in 0 .. n - 1 with sorted[i] <= value; 0 if there is none. */
int64_t last_at_most(const int64_t *sorted, int64_t n, int64_t value);

/* Returns the FNV-1a hash (64 bits) of more bytes after those of `hash`; begin with HASH_START. */
#define HASH_START 14695981039346656037u
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);
