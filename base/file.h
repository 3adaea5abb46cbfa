/* Files: reading that never blocks, atomic writing, locks between programs, checksums.
 *
 * Only regular files are read or replaced. Anything else (a directory, a FIFO, a device, for writing also a symbolic
 * link) is refused by what it is, before it can block a reader or be replaced. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/base.h"

/* ---- reading: errors do not name the path; the caller puts it before them ---- */

/* Opens a regular file for reading. Returns its descriptor, with the size in bytes in *size, or -1 with the reason. */
int file_open(const char *path, size_t *size, Error *error);
/* Reads the whole file and appends a zero byte; release with free(). The error does not name the path. */
bool read_file(const char *path, char **bytes, size_t *size, Error *error);
/* Reads the whole file into a buffer; an error if the file is larger. */
bool read_file_into(const char *path, char *buffer, size_t capacity, size_t *size, Error *error);

/* Opens or creates a regular file for reading and for appending whole lines. Returns -1 with the reason. */
int file_open_to_append(const char *path, Error *error);

/* ---- atomic writing: errors name the path, here and below ---- */

/* A file being written beside `path`, as PATH.<16 hexadecimal digits>.partial, which file_end renames to `path`. The
 * lock on the partial file distinguishes it from the leftover of a killed program, which the next writer of `path`
 * removes (a signal or an error that ends the program removes it at once): the digits count the writers that write it
 * at the same time. Two of them never mix; the last to end wins. */
typedef struct {
    int fd;
    int reason; /* errno of the first failure; later bytes are dropped */
    uint64_t written, buffered, total;
    char path[PATH_MAX], partial[PATH_MAX];
    char buffer[1 << 16];
} FileWriter;

/* Begins to write `path`. total: bytes, for messages; 0: unknown. After a failure there is nothing to end. These
 * functions allocate nothing. */
bool file_begin(FileWriter *writer, const char *path, uint64_t total, Error *error);
/* Appends bytes. file_end reports failures. */
void file_put(FileWriter *writer, const void *bytes, size_t size);
/* Flushes the file (fsync), renames it and flushes the directory. If something fails before the renaming (a full disk),
 * the partial file is removed, an earlier file at `path` stays, and the error names the file and says how much was
 * written. If only flushing the directory fails, the new file is in place, but a power cut may bring back the old one.
 */
bool file_end(FileWriter *writer, Error *error);
/* Writes a small file with one call. */
bool file_write_atomic(const char *path, const void *bytes, size_t size, Error *error);
/* Protects the file at `path`, which this run reads, from its own writers: they refuse to replace it. `option`
 * ("--input") gave the path. Call it before other threads write. Does nothing if there is no such file. */
void file_keep(const char *path, const char *option);
/* Splits PATH::LABEL, PATH@LABEL or PATH=LABEL at the last separator that leaves the name of a file. Takes a path that
 * exists as it stands whole; *label is NULL then. free() both. */
void file_split_label(const char *text, char **path, char **label);
/* Returns whether both names lead to the same existing file. */
bool file_is_same(const char *a, const char *b);
/* Returns whether `path` is free or a file that may be replaced. False with the reason: it is not a regular file, or it
 * is protected by file_keep. */
bool file_is_replaceable(const char *path, Error *error);

/* Returns whether `name` is the name of a partial file of `base`; NULL: of any file. */
bool file_is_partial(const char *name, const char *base);
/* Returns whether a call has failed, with this errno, because the file system does not have it. For fsync that is no
 * error: there is nothing better to be done. */
bool file_system_lacks(int reason);
/* Flushes a directory (fsync), so that new and renamed entries survive a power cut. A directory that may be written but
 * not read cannot be flushed; that is not an error. */
bool directory_flush(const char *path, Error *error);
/* Makes a directory and those above it (mkdir -p), and flushes their entries. Dies with the reason. If an error or a
 * signal ends the program while one that was made is still empty, it is removed again: a refused command leaves none.
 */
void make_directories(const char *path);
/* Returns whether the path leads to a folder. */
bool path_is_folder(const char *path);
/* Returns whether a folder has a file or a folder of this name. */
bool path_holds(const char *folder, const char *name);
/* Returns whether the path still leads to the open file or directory. */
bool path_leads_to(const char *path, int fd);
/* Makes a folder in $TMPDIR, or /tmp, that directory_remove_temporary or the end of the program, by itself, an error or
 * a signal, removes with the files in it. Removes those that killed programs left there. One at a time. Returns its
 * path, NULL with an error. */
const char *directory_temporary(const char *prefix, Error *error);
void directory_remove_temporary(void);
/* Removes partial files that killed programs left in this directory (not below it) and returns their number. Files of
 * running writers stay. Where the file system has no locks, all stay. */
int directory_remove_leftovers(const char *path);

/* ---- locks ---- */

typedef enum { LOCK_TAKEN, LOCK_BUSY, LOCK_UNKNOWN } LockResult;
/* Locks an open file or directory for this process (flock). LOCK_BUSY: another process has the lock (never with `wait`,
 * which waits for it). LOCK_UNKNOWN: the file system has no locks. */
LockResult lock_descriptor(int fd, bool wait);

/* The same with a lock that several programs may have at a time, for reading; never waits. LOCK_BUSY: one that excludes
 * it is taken. */
LockResult lock_descriptor_shared(int fd);

/* The lock for making `path`: the file PATH.lock. It goes with file_unlock, or when the program ends. */
typedef struct FileLock FileLock;
struct FileLock {
    int fd;
    pid_t owner;
    char path[PATH_MAX];
    FileLock *next; /* in the list of this program's locks */
};

/* Takes the lock. While another program makes the file it waits, saying so once; check afterwards whether the file
 * exists. Where the file system has no locks it warns and goes on. *lock must stay in place until file_unlock. */
bool file_lock(FileLock *lock, const char *path, Error *error);
void file_unlock(FileLock *lock); /* does nothing if it is not taken */
/* Releases all locks of this program, whichever thread took them, and removes its temporary folder. For the end of the
 * program. */
void file_end_of_program(void);
/* Removes PATH.lock and the partial files of `path` that killed programs left. */
void file_remove_stale(const char *path);

/* ---- checksums ---- */

/* Returns the checksum (64-bit XXH3) of bytes that follow those with the checksum `before`; 0: none. It reveals damage,
 * not malice. The same bytes in other pieces have another checksum. */
uint64_t checksum(uint64_t before, const void *bytes, size_t size);
/* Computes a checksum of a file's bytes, piece by piece, as large as the file may be. False with the reason, which does
 * not name the path, if it cannot be read. */
bool file_checksum(const char *path, uint64_t *sum, Error *error);
