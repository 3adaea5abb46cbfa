/* Files: read without ever blocking, written whole or not at all, made by one program at a time, named safely.
 *
 * What is read or replaced is a regular file. Anything else under its name (a folder, a FIFO, a device, and for writing
 * a symbolic link) is refused by what it is, before it can block a reader or be replaced. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <limits.h>
#include <sys/types.h>

#include "base/base.h"

/* ---- reading ---- */

/* Opens a regular file for reading and returns its descriptor; *size: its bytes. -1 with the reason. */
int file_open(const char *path, size_t *size, Error *error);
/* Reads the whole file, with a zero byte behind its end; release with free(). */
bool read_file(const char *path, char **bytes, size_t *size, Error *error);
/* Reads the whole file into a buffer that is there already; an error if the file is larger. */
bool read_file_into(const char *path, char *buffer, size_t capacity, size_t *size, Error *error);

/* Opens, or creates, a regular file to append whole lines to, and to read; -1 with the reason. A symbolic link is
 * refused, like all that is no regular file. */
int file_open_to_append(const char *path, Error *error);

/* ---- writing: whole or not there ---- */

/* A file being written beside `path` under a name of its own, PATH.<16 hexadecimal digits>.partial, which file_end
 * renames. As long as it is written it is locked, which tells it from what a killed program left. Two writers of one
 * path never mix; the last to end wins. */
typedef struct {
    int fd;
    int reason; /* errno of the first failure; what follows it is dropped */
    uint64_t written, buffered, total;
    char path[PATH_MAX], partial[PATH_MAX];
    char buffer[1 << 16];
} FileWriter;

/* Begins to write `path`, of `total` bytes (for messages; 0: not known). On failure there is nothing to end. Allocates
 * nothing, nor do the functions below. */
bool file_begin(FileWriter *writer, const char *path, uint64_t total, Error *error);
/* Appends bytes; a failure is kept for file_end to report. */
void file_put(FileWriter *writer, const void *bytes, size_t size);
/* Flushes (fsync), renames, flushes the directory. On a failure before the renaming (a full disk) the partial file is
 * removed, what was at `path` before is whole, and the reason names the file and says how much was written. If only the
 * directory cannot be flushed, the new file is in its place, and a power cut may bring the old one back. */
bool file_end(FileWriter *writer, Error *error);
/* Removes the partial file and leaves what is at `path`. */
void file_abandon(FileWriter *writer);
/* Writes a small file in one call of those three. */
bool file_write_atomic(const char *path, const void *bytes, size_t size, Error *error);
/* Notes that this run reads `path`, which was given as `option` ("--input"): from now on no writer replaces the file
 * that the name leads to. Call it before other threads write. Nothing there: nothing to keep. */
void file_keep(const char *path, const char *option);
/* Whether the two names lead to one file, which is there. */
bool file_is_same(const char *a, const char *b);
/* Says why `path` must not be replaced: there is something that is no regular file, or a file that was given to be read
 * (file_keep). True: nothing is there, or a file that may be replaced. */
bool file_is_replaceable(const char *path, Error *error);

/* Whether `name` is a partial file's of `base` (NULL: of any). */
bool file_is_partial(const char *name, const char *base);
/* Flushes a directory (fsync): its entries, new or renamed, outlive a power cut. One that may be
 * written but not read cannot be flushed; that is no error. */
bool directory_flush(const char *path, Error *error);
/* Whether the path leads to the open file or directory: another one may have taken the name since it was opened. */
bool path_leads_to(const char *path, int fd);
/* Removes partial files that killed programs left in this directory (not below it), and returns how many. Files of
 * writers that live, and of other names, stay; so does everything where the file system has no locks. */
int directory_remove_leftovers(const char *path);

/* ---- one at a time ---- */

typedef enum { LOCK_TAKEN, LOCK_BUSY, LOCK_UNKNOWN } LockResult;
/* Locks an open file or directory for this process alone (flock). LOCK_BUSY: another one has it; LOCK_UNKNOWN: this
 * file system has no locks. With `wait` the first of these never comes. */
LockResult lock_descriptor(int fd, bool wait);

/* The lock of those who make `path`: PATH.lock, which goes with file_unlock, or when the program exits or dies. */
typedef struct FileLock FileLock;
struct FileLock {
    int fd;
    pid_t owner;
    char path[PATH_MAX];
    FileLock *next; /* of those that this program holds */
};

/* Takes the lock, and waits, saying so once, while another program makes the file: look again then whether it is made.
 * Where the file system has no locks it warns and goes on without. The lock must live until file_unlock. */
bool file_lock(FileLock *lock, const char *path, Error *error);
void file_unlock(FileLock *lock);
/* Gives up all locks that this program holds, whichever thread took them: when it exits or dies. */
void file_unlock_all(void);
/* Removes what killed makers of `path` left: PATH.lock and partial files. */
void file_remove_stale(const char *path);

/* ---- names ---- */

/* Returns a file's name for any text: one component that leads nowhere else, and another one for another text. Slashes,
 * control characters, '%' and a leading '.' or '-' become %XX; a long text is cut and ends with its hash. Release with
 * free(). */
char *file_name_of(const char *text);

/* Returns the checksum of bytes behind those that `before` is of (XXH3 of 64 bits; 0: there are none): for files, of
 * which it tells damage, not malice. It is of the pieces: the same bytes cut elsewhere have another. */
uint64_t checksum(uint64_t before, const void *bytes, size_t size);

#endif
