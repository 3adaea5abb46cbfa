#include "base/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode)                    ? "a folder"
           : S_ISLNK(mode)                  ? "a symbolic link"
           : S_ISFIFO(mode)                 ? "a FIFO"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "no file";
}

/* ---- reading ---- */

int file_open(const char *path, size_t *size, Error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO without a writer does not block */
    struct stat status = {.st_mode = 0};
    if (fd < 0) {
        error_set(error, "cannot open: %s", strerror(errno));
        return -1;
    }
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        close(fd);
        error_set(error, "is %s, not a regular file", kind_of(status.st_mode));
        return -1;
    }
    *size = (size_t)status.st_size;
    return fd;
}

static bool read_bytes(int fd, char *buffer, size_t want, Error *error) {
    for (size_t got = 0; got < want;) {
        ssize_t n = read(fd, buffer + got, want - got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return error_set(error, "read error after %zu of %zu bytes: %s", got, want,
                             n ? strerror(errno) : "the file got shorter");
        got += (size_t)n;
    }
    return true;
}

static bool read_and_close(int fd, char *buffer, size_t want, Error *error) {
    bool ok = read_bytes(fd, buffer, want, error);
    close(fd);
    return ok;
}

bool read_file(const char *path, char **bytes, size_t *size, Error *error) {
    int fd = file_open(path, size, error);
    if (fd < 0) return false;
    char *buffer = malloc(*size + 1);
    if (!buffer) {
        close(fd);
        return error_set(error, "there is no memory for its %zu bytes", *size);
    }
    if (!read_and_close(fd, buffer, *size, error)) {
        free(buffer);
        return false;
    }
    buffer[*size] = 0;
    *bytes = buffer;
    return true;
}

bool read_file_into(const char *path, char *buffer, size_t capacity, size_t *size, Error *error) {
    int fd = file_open(path, size, error);
    if (fd < 0) return false;
    if (*size <= capacity) return read_and_close(fd, buffer, *size, error);
    close(fd);
    return error_set(error, "has %zu bytes, more than the %zu expected", *size, capacity);
}

int file_open_to_append(const char *path, Error *error) {
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    struct stat status = {.st_mode = S_IFLNK};
    if (fd < 0 && errno != ELOOP) return error_set(error, "cannot open: %s", strerror(errno)) - 1;
    if (fd >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode)) return fd;
    if (fd >= 0) close(fd);
    return error_set(error, "is %s, which is not written to; give the name of a file", kind_of(status.st_mode)) - 1;
}

/* ---- atomic writing ---- */

static const char suffix[] = ".partial";
enum { UNIQUE = 16 }; /* hexadecimal digits between the name and the suffix: the number of the writer */

/* The files that file_keep protects. */
typedef struct Kept Kept;
struct Kept {
    char *path, *option;
    const Kept *next;
};
static const Kept *kept;

void file_keep(const char *path, const char *option) {
    Kept *one = xmalloc(sizeof *one);
    *one = (Kept){xstrdup(path), xstrdup(option), kept};
    kept = one;
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

void file_split_label(const char *text, char **path, char **label) {
    static const char *const separators[] = {"::", "@", "="}; /* in the order in which they are tried */
    *label = NULL;
    *path = xstrdup(text);
    if (!access(text, F_OK)) return;
    for (int i = 0; i < 3; i++) {
        char *last = NULL;
        for (char *at = *path; (at = strstr(at, separators[i])); at++) last = at;
        if (!last || !last[strlen(separators[i])]) continue;
        *last = 0;
        if (!access(*path, F_OK)) {
            *label = xstrdup(last + strlen(separators[i]));
            return;
        }
        *last = *separators[i];
    }
}

bool file_is_same(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && is_same(&x, &y);
}

/* Looks names up each time, because the inode number of a removed file may be reused. */
bool file_is_replaceable(const char *path, Error *error) {
    struct stat status;
    if (lstat(path, &status)) return true;
    if (!S_ISREG(status.st_mode))
        return error_set(error, "%s is %s, which is not replaced; give the name of a file", path,
                         kind_of(status.st_mode));
    for (const Kept *k = kept; k; k = k->next)
        if (file_is_same(path, k->path))
            return error_set(error, "%s is read by this run (%s) and is not replaced; give another name", path,
                             k->option);
    return true;
}

static bool name_partial(FileWriter *writer, uint64_t number) {
    int length = snprintf(writer->partial, sizeof writer->partial, "%s.%0*llx%s", writer->path, UNIQUE,
                          (unsigned long long)number, suffix);
    if (length >= (int)sizeof writer->partial) errno = ENAMETOOLONG;
    return length < (int)sizeof writer->partial;
}

/* Removes a partial file whose writer was killed. Returns whether it was one. */
static bool remove_leftover(int directory, const char *name) {
    struct stat here, there;
    enum { FLAGS = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
    int fd = openat(directory, name, O_RDWR | FLAGS); /* network file systems lock only what may be written */
    if (fd < 0 && errno == EACCES) fd = openat(directory, name, O_RDONLY | FLAGS);
    /* Its writer may have ended in between: then the descriptor is of the whole file. */
    bool gone = fd >= 0 && !fstat(fd, &here) && S_ISREG(here.st_mode) && lock_descriptor(fd, false) == LOCK_TAKEN &&
                !fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) && is_same(&here, &there) &&
                !unlinkat(directory, name, 0);
    if (fd >= 0) close(fd);
    return gone;
}

/* Creates the partial file with the first number that no other writer has, and locks it. In between, another program
 * may remove it as a leftover: then tries again. */
static int create_partial(FileWriter *writer) {
    for (uint64_t number = 0; name_partial(writer, number);) {
        struct stat status;
        int fd = open(writer->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) return -1;
        if (fd < 0) {
            number += !remove_leftover(AT_FDCWD, writer->partial);
            continue;
        }
        if (lock_descriptor(fd, false) != LOCK_BUSY && !fstat(fd, &status) && status.st_nlink) {
            for (uint64_t next = number + 1; name_partial(writer, next); next++)
                if (!remove_leftover(AT_FDCWD, writer->partial)) break;
            if (name_partial(writer, number)) return fd;
        }
        close(fd);
    }
    return -1;
}

/* The partial files of this process, for the end of a program that a signal or an error ends. */
static struct {
    pid_t owner; /* 0: this entry is free */
    int fd;
    char path[PATH_MAX];
} partials[16];
static pthread_mutex_t holding = PTHREAD_MUTEX_INITIALIZER;
static void watch_the_end(void);

static void note_partial(const FileWriter *writer) {
    const int n = sizeof partials / sizeof *partials;
    int i = 0;
    pthread_mutex_lock(&holding);
    watch_the_end();
    while (i < n && partials[i].owner) i++;
    if (i < n) { /* else it may be left behind, as after SIGKILL */
        partials[i].owner = getpid();
        partials[i].fd = writer->fd;
        memcpy(partials[i].path, writer->partial, sizeof partials[i].path);
    }
    pthread_mutex_unlock(&holding);
}

static void forget_partial(const FileWriter *writer) {
    pthread_mutex_lock(&holding);
    for (size_t i = 0; i < sizeof partials / sizeof *partials; i++)
        if (partials[i].fd == writer->fd && !strcmp(partials[i].path, writer->partial)) partials[i].owner = 0;
    pthread_mutex_unlock(&holding);
}

static void remove_partials(void) {
    pthread_mutex_lock(&holding);
    for (size_t i = 0; i < sizeof partials / sizeof *partials; i++)
        if (partials[i].owner == getpid() && path_leads_to(partials[i].path, partials[i].fd)) unlink(partials[i].path);
    pthread_mutex_unlock(&holding);
}

bool file_begin(FileWriter *writer, const char *path, uint64_t total, Error *error) {
    writer->total = total;
    writer->fd = -1;
    writer->written = writer->buffered = 0;
    writer->reason = 0;
    if (snprintf(writer->path, sizeof writer->path, "%s", path) >= (int)sizeof writer->path)
        return error_set(error, "the path is too long: %.100s...", path);
    if (!*path) return error_set(error, "the name of the file to write is empty");
    if (!file_is_replaceable(path, error)) return false;
    writer->fd = create_partial(writer);
    if (writer->fd < 0) return error_set(error, "cannot create %s: %s", path, strerror(errno));
    note_partial(writer);
    return true;
}

static void write_through(FileWriter *writer, const char *bytes, size_t size) {
    enum { PIECE = 1 << 24 };
    while (size && !writer->reason) {
        ssize_t n = write(writer->fd, bytes, size < PIECE ? size : PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            writer->reason = n ? errno : ENOSPC;
            return;
        }
        writer->written += (uint64_t)n;
        bytes += n;
        size -= (size_t)n;
    }
}

static void flush_buffer(FileWriter *writer) {
    write_through(writer, writer->buffer, writer->buffered);
    writer->buffered = 0;
}

void file_put(FileWriter *writer, const void *bytes, size_t size) {
    if (size > sizeof writer->buffer - writer->buffered) flush_buffer(writer);
    if (size > sizeof writer->buffer) {
        write_through(writer, bytes, size);
    } else if (size) {
        memcpy(writer->buffer + writer->buffered, bytes, size);
        writer->buffered += size;
    }
}

bool file_system_lacks(int reason) { return reason == EINVAL || reason == ENOSYS || reason == EOPNOTSUPP; }

bool directory_flush(const char *path, Error *error) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) return true; /* may be written but not read: cannot be flushed */
    if (fd < 0) return error_set(error, "%s: cannot open the directory: %s", path, strerror(errno));
    bool failed = fsync(fd) && !file_system_lacks(errno);
    int reason = errno;
    close(fd);
    return !failed || error_set(error, "%s: cannot flush the directory: %s", path, strerror(reason));
}

static bool flush_parent(const char *path, Error *error) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    memcpy(parent, path, length);
    parent[length] = 0;
    return directory_flush(!slash ? "." : length ? parent : "/", error);
}

/* A directory that this process has made. */
typedef struct Made Made;
struct Made {
    char *path;
    int fd; /* open, so that no other directory of this path is taken for it */
    pid_t owner;
    const Made *before;
};
static void note_made(const char *path);

void make_directories(const char *path) {
    if (!*path) die("the name of a directory to make is empty");
    OWNED char *partial = xstrdup(path);
    for (char *p = partial + 1;; p++) {
        if (*p && *p != '/') continue;
        char end = *p;
        *p = 0;
        if (!mkdir(partial, 0777)) {
            note_made(partial);
            MUST(flush_parent(partial, &error));
        } else if (errno != EEXIST) {
            die("cannot make the directory %s: %s", partial, strerror(errno));
        }
        if (!end) break;
        *p = end;
    }
}

bool file_end(FileWriter *writer, Error *error) {
    flush_buffer(writer);
    if (!writer->reason && fsync(writer->fd) && !file_system_lacks(errno)) writer->reason = errno;
    if (!writer->reason && rename(writer->partial, writer->path)) writer->reason = errno;
    if (writer->reason) unlink(writer->partial); /* still locked, so nobody else removes it */
    forget_partial(writer);
    close(writer->fd);
    writer->fd = -1;
    if (writer->reason) {
        char of[40] = "";
        if (writer->total) snprintf(of, sizeof of, " of %llu", (unsigned long long)writer->total);
        return error_set(error, "%s: %llu%s bytes were written, then: %s", writer->path,
                         (unsigned long long)writer->written, of, strerror(writer->reason));
    }
    return flush_parent(writer->path, error);
}

bool file_write_atomic(const char *path, const void *bytes, size_t size, Error *error) {
    FileWriter writer;
    if (!file_begin(&writer, path, size, error)) return false;
    file_put(&writer, bytes, size);
    return file_end(&writer, error);
}

bool file_is_partial(const char *name, const char *base) {
    size_t length = strlen(name), tail = 1 + UNIQUE + sizeof suffix - 1, stem = length - tail;
    if (length <= tail || !ends_with(name, suffix) || name[stem] != '.') return false;
    return strspn(name + stem + 1, "0123456789abcdef") == UNIQUE &&
           (!base || (strlen(base) == stem && !strncmp(name, base, stem)));
}

static int remove_leftovers(const char *path, const char *base) {
    DIR *directory = opendir(path);
    int removed = 0;
    if (!directory) return 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (file_is_partial(entry->d_name, base)) removed += remove_leftover(dirfd(directory), entry->d_name);
    closedir(directory);
    return removed;
}

int directory_remove_leftovers(const char *path) { return remove_leftovers(path, NULL); }

/* Removes the partial files of `path` that killed writers left. */
static void remove_leftovers_of(const char *path) {
    OWNED char *parent = path_directory(path);
    remove_leftovers(parent, path_name(path));
}

/* ---- locks ---- */

static LockResult lock(int fd, int operation) {
    int result;
    do result = flock(fd, operation);
    while (result && errno == EINTR);
    return !result ? LOCK_TAKEN : errno == EWOULDBLOCK ? LOCK_BUSY : LOCK_UNKNOWN;
}

LockResult lock_descriptor(int fd, bool wait) { return lock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)); }

LockResult lock_descriptor_shared(int fd) { return lock(fd, LOCK_SH | LOCK_NB); }

bool path_is_folder(const char *path) {
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

bool path_holds(const char *folder, const char *name) {
    OWNED char *path = path_join(folder, name);
    return !access(path, F_OK);
}

bool path_leads_to(const char *path, int fd) {
    struct stat here, there;
    return !fstat(fd, &here) && !stat(path, &there) && is_same(&here, &there);
}

/* Returns whether the file is still there: its last owner may have removed it. */
static bool is_current(const FileLock *lock) { return path_leads_to(lock->path, lock->fd); }

static FileLock *held;

/* Moves a lock from the list to *copy: this one, or with NULL any of this process. False if there is none: another
 * thread, which is ending the program, has it. */
static bool let_go(const FileLock *which, FileLock *copy) {
    pthread_mutex_lock(&holding);
    FileLock **at = &held;
    while (*at && (which ? *at != which : (*at)->owner != getpid())) at = &(*at)->next;
    bool found = *at != NULL;
    if (found) {
        *copy = **at;
        *at = copy->next;
    }
    pthread_mutex_unlock(&holding);
    return found;
}

static void release(const FileLock *lock) {
    struct stat status;
    /* Removed before unlocking, so that a waiting program sees that the name leads elsewhere. A user's own file of this
     * name, which is not empty, stays. */
    if (!fstat(lock->fd, &status) && !status.st_size && unlink(lock->path) && errno != ENOENT)
        warn("cannot remove %s: %s; it does no harm", lock->path, strerror(errno));
    flock(lock->fd, LOCK_UN); /* a forked child may have the descriptor, too */
    close(lock->fd);
}

void file_end_of_program(void) {
    remove_partials();
    for (FileLock lock; let_go(NULL, &lock);) release(&lock);
    directory_remove_temporary();
}

/* Call it with `holding` taken. */
static void watch_the_end(void) {
    static bool registered;
    if (!registered) atexit(file_end_of_program);
    if (!registered) last_calls_add(file_end_of_program);
    registered = true;
}

static void hold(FileLock *lock) {
    pthread_mutex_lock(&holding);
    watch_the_end();
    lock->owner = getpid();
    lock->next = held;
    held = lock;
    pthread_mutex_unlock(&holding);
}

bool file_lock(FileLock *lock, const char *path, Error *error) {
    static bool warned; /* once is enough */
    bool reported = false;
    *lock = (FileLock){.fd = -1};
    if (snprintf(lock->path, sizeof lock->path, "%s.lock", path) >= (int)sizeof lock->path)
        return error_set(error, "the path is too long: %.100s...", path);
    for (;;) {
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (lock->fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS))
            return error_set(error,
                             "cannot open %s: %s; %s is written in that folder: make it writable, or work in a copy of "
                             "it",
                             lock->path, strerror(errno), path);
        if (lock->fd < 0) return error_set(error, "cannot open %s: %s", lock->path, strerror(errno));
        LockResult result = lock_descriptor(lock->fd, false);
        if (result == LOCK_BUSY) {
            if (!reported) printf("[Wait] another program makes %s: waiting for it\n", path);
            fflush(stdout);
            reported = true;
            result = lock_descriptor(lock->fd, true);
        }
        if (result == LOCK_UNKNOWN && !warned)
            warn("%s: this file system has no locks; let one program at a time write into its folder", path);
        warned |= result == LOCK_UNKNOWN;
        if (result == LOCK_UNKNOWN || is_current(lock)) {
            hold(lock);
            remove_leftovers_of(path);
            return true;
        }
        close(lock->fd);
    }
}

void file_unlock(FileLock *lock) {
    FileLock copy;
    if (let_go(lock, &copy)) release(&copy);
    lock->fd = -1;
}

void file_remove_stale(const char *path) {
    FileLock lock = {.owner = 0};
    remove_leftovers_of(path);
    if (snprintf(lock.path, sizeof lock.path, "%s.lock", path) >= (int)sizeof lock.path) return;
    lock.fd = open(lock.path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock.fd < 0) return;
    if (lock_descriptor(lock.fd, false) == LOCK_TAKEN && is_current(&lock))
        release(&lock);
    else
        close(lock.fd);
}

/* ---- directories that were made for nothing ---- */

static const Made *made; /* the last one */

/* Removes those that are empty, the deepest first, after file_end_of_program has released the locks in them. */
static void remove_empty(void) {
    pthread_mutex_lock(&holding);
    for (const Made *one = made; one; one = one->before)
        if (one->owner == getpid() && path_leads_to(one->path, one->fd)) rmdir(one->path);
    made = NULL;
    pthread_mutex_unlock(&holding);
}

static void note_made(const char *path) {
    static bool registered;
    Made *one = xmalloc(sizeof *one);
    *one = (Made){xstrdup(path), open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), getpid(), NULL};
    pthread_mutex_lock(&holding);
    watch_the_end();
    if (!registered) last_calls_add(remove_empty);
    registered = true;
    one->before = made;
    made = one;
    pthread_mutex_unlock(&holding);
}

/* ---- a temporary folder ---- */

static char temporary[PATH_MAX];
static pid_t temporary_owner; /* a forked child does not remove it */

static int open_folder(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

/* Opens and locks the temporary folder of a killed program. Returns NULL if it is none, or another user's. */
static DIR *open_leftover(const char *path) {
    int fd = open_folder(path);
    struct stat status;
    bool ours = fd >= 0 && !fstat(fd, &status) && status.st_uid == geteuid();
    DIR *folder = ours && lock_descriptor(fd, false) == LOCK_TAKEN ? fdopendir(fd) : NULL;
    if (!folder && fd >= 0) close(fd);
    return folder;
}

static void remove_folder(DIR *folder, const char *path) {
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    if (folder) rmdir(path);
}

/* Removes the temporary folders that killed programs left. */
static void remove_temporary_leftovers(const char *parent, const char *prefix) {
    DIR *entries = opendir(parent);
    size_t length = strlen(prefix);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        if (strncmp(name, prefix, length) || name[length] != '.' || strlen(name) != length + strlen(".XXXXXX"))
            continue;
        OWNED char *path = path_join(parent, name);
        remove_folder(open_leftover(path), path);
    }
    if (entries) closedir(entries);
}

/* Makes the folder and locks it. In between, another program may remove it as a leftover: then tries again. */
static bool make_temporary(const char *parent, const char *prefix) {
    static int fd = -1; /* stays open until the end of the program, for its lock */
    for (bool made = false; !made;) {
        if (fd >= 0) close(fd);
        fd = -1;
        if (snprintf(temporary, sizeof temporary, "%s/%s.XXXXXX", parent, prefix) >= (int)sizeof temporary ||
            !mkdtemp(temporary)) {
            temporary[0] = 0;
            return false;
        }
        fd = open_folder(temporary);
        if (fd >= 0) lock_descriptor(fd, true);
        made = fd < 0 ? !access(temporary, F_OK) : path_leads_to(temporary, fd);
    }
    return true;
}

const char *directory_temporary(const char *prefix, Error *error) {
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent) parent = "/tmp";
    assert(!temporary[0]);
    remove_temporary_leftovers(parent, prefix);
    if (!make_temporary(parent, prefix)) {
        error_set(error, "%s: cannot make a folder in it: %s; name another one in TMPDIR", parent, strerror(errno));
        return NULL;
    }
    pthread_mutex_lock(&holding);
    watch_the_end();
    temporary_owner = getpid();
    pthread_mutex_unlock(&holding);
    return temporary;
}

void directory_remove_temporary(void) {
    if (temporary[0] && temporary_owner == getpid()) remove_folder(opendir(temporary), temporary);
    temporary[0] = 0;
}

/* ---- checksums ---- */

uint64_t checksum(uint64_t before, const void *bytes, size_t size) {
    return size ? XXH3_64bits_withSeed(bytes, size, before) : before;
}

bool file_checksum(const char *path, uint64_t *sum, Error *error) {
    enum { PIECE = 1 << 20 };
    size_t size, part;
    int fd = file_open(path, &size, error);
    if (fd < 0) return false;
    OWNED char *piece = xmalloc(PIECE);
    bool ok = true;
    *sum = 0;
    for (size_t at = 0; ok && at < size; at += part) {
        part = size - at < PIECE ? size - at : PIECE;
        ok = read_bytes(fd, piece, part, error);
        if (ok) *sum = checksum(*sum, piece, part);
    }
    close(fd);
    return ok;
}
