/* What every part of the project uses: one way to fail, counted allocation, time and paths.
 *
 * Two kinds of failure. A program stops with die() (exit 1) or die_usage() (exit 2) and one line that says what was
 * found, what was expected and what to do. A reader of untrusted bytes never stops the program: it returns false and
 * fills an Error, so that its caller can add the file and line, and so that a fuzzer can run it for hours. */
#ifndef BASE_H
#define BASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char text[512];
} Error;

#define PRINTF_LIKE(at, first) __attribute__((format(printf, at, first)))

/* "PROGRAM: message", exit 1; at once, as other threads may be at work: without atexit and without destructors. */
_Noreturn void die(const char *format, ...) PRINTF_LIKE(1, 2);
_Noreturn void die_usage(const char *format, ...) PRINTF_LIKE(1, 2); /* the same and "see --help", exit 2 */
void warn(const char *format, ...) PRINTF_LIKE(1, 2);                /* "PROGRAM: warning: message" */
/* Fills error (if any), returns false. Leaves out the middle of a text that is too long, as paths can make it: the
 * reason stands at its end. */
bool error_set(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);
#ifdef __clang_analyzer__ /* it sees one file at a time: tell it what is always returned */
#define error_set(...) ((void)error_set(__VA_ARGS__), false)
#endif

/* Allocation that cannot return NULL (it dies, saying how much was asked for) and is counted, so that a test can see
 * that nothing is allocated after the first step. Release with free(). */
void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t bytes);
void *xrealloc(void *old, size_t bytes);
void *xaligned(size_t bytes); /* 64-byte aligned, zeroed */
/* Aligned too, with any contents: large memory that is never written is never taken from the machine. */
void *xuntouched(size_t bytes);
char *xstrdup(const char *text);
char *xformat(const char *format, ...) PRINTF_LIKE(1, 2);
int64_t allocation_count(void); /* calls to the five above so far, all threads */

/* Starts a thread; dies, saying what it is for ("for signals"), if there is none to be had. */
void thread_start(pthread_t *thread, void *(*function)(void *), void *argument, const char *what);

double seconds_now(void); /* monotonic */

bool ends_with(const char *text, const char *end);

/* `text` as one word of a command line that is printed to be typed into a shell; free(). Quoted if it has to be. */
char *shell_word(const char *text);
char *shell_path(const char *path); /* the same, and never taken for an option; free() */

/* `relative` seen from the directory `directory` (absolute paths stay as they are); release with free(). */
char *path_join(const char *directory, const char *relative);
char *path_directory(const char *path);  /* "a/b" -> "a", "b" -> "."; release with free() */
void make_directories(const char *path); /* mkdir -p and flushed; dies with the reason */

/* The entry of names[0..count-1] closest to `name` in edit distance, or NULL if none is near enough to be a typo of it.
 */
const char *nearest_name(const char *name, const char *const *names, int count);

/* FNV-1a of 64 bits, of bytes behind those that `hash` is of; begin with HASH_START. */
#define HASH_START 14695981039346656037u
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);

#endif
