/* A disk that lacks what the variable DISK_LACKS lists, for any program that preloads this library:
 *
 *   links       symbolic links (exFAT, network drives)
 *   hard-links
 *   exchange    renaming with flags
 *   open-target renaming over a file that the program has open or mapped
 *   locks       flock
 *   maps        mapping files
 *   flushes     fsync and fdatasync
 *   colons      names with a colon
 *
 * Calls that libc makes inside itself are not seen, but those of fopen. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Returns whether the disk lacks it, and then sets errno. */
static bool lacks(const char *what, int reason) {
    const char *all = getenv("DISK_LACKS");
    size_t size = strlen(what);
    for (const char *at = all; at && (at = strstr(at, what)); at += size)
        if ((at == all || at[-1] == ',') && (!at[size] || at[size] == ',')) {
            errno = reason;
            return true;
        }
    return false;
}

/* ---- links, locks, flushes ---- */

int symlinkat(const char *target, int folder, const char *path) {
    return lacks("links", EPERM) ? -1 : (int)syscall(SYS_symlinkat, target, folder, path);
}

int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    return lacks("hard-links", EPERM) ? -1 : (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int flock(int fd, int operation) { return lacks("locks", ENOLCK) ? -1 : (int)syscall(SYS_flock, fd, operation); }
int fsync(int fd) { return lacks("flushes", EINVAL) ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return lacks("flushes", EINVAL) ? -1 : (int)syscall(SYS_fdatasync, fd); }

/* ---- maps ---- */

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    if (!(flags & MAP_ANONYMOUS) && lacks("maps", ENODEV)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return mmap(address, size, protection, flags, fd, offset);
}

/* ---- names ---- */

static bool is_refused(const char *path) {
    const char *slash = strrchr(path, '/');
    return strchr(slash ? slash : path, ':') && lacks("colons", EINVAL);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    return is_refused(path) ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

static int open_at(int folder, const char *path, int flags, va_list arguments) {
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    if ((flags & O_CREAT) && is_refused(path)) return -1;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN(name, folder, ...)                                                                                        \
    int name(__VA_ARGS__ const char *path, int flags, ...) {                                                           \
        va_list arguments;                                                                                             \
        va_start(arguments, flags);                                                                                    \
        int fd = open_at(folder, path, flags, arguments);                                                              \
        va_end(arguments);                                                                                             \
        return fd;                                                                                                     \
    }
#define COMMA ,
OPEN(open, AT_FDCWD, )
OPEN(open64, AT_FDCWD, )
OPEN(openat, folder, int folder COMMA)
OPEN(openat64, folder, int folder COMMA)

int creat(const char *path, mode_t mode) { return open(path, O_WRONLY | O_CREAT | O_TRUNC, mode); }

FILE *fopen(const char *path, const char *mode) {
    FILE *(*next)(const char *path, const char *mode);
    void *found = dlsym(RTLD_NEXT, "fopen");
    memcpy(&next, &found, sizeof next);
    return mode[0] != 'r' && is_refused(path) ? NULL : next(path, mode);
}
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

/* ---- renaming ---- */

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

static bool has_descriptor(const struct stat *target) {
    DIR *all = opendir("/proc/self/fd");
    bool found = false;
    struct stat status;
    for (struct dirent *entry; all && !found && (entry = readdir(all));)
        found = entry->d_name[0] != '.' && !fstat(atoi(entry->d_name), &status) && is_same(&status, target);
    if (all) closedir(all);
    return found;
}

static bool is_mapped(const struct stat *target) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096 + 256];
    bool found = false;
    unsigned major, minor;
    unsigned long inode;
    while (maps && !found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%*s %*s %*s %x:%x %lu", &major, &minor, &inode) == 3 && inode == target->st_ino &&
                makedev(major, minor) == target->st_dev;
    if (maps) fclose(maps);
    return found;
}

static bool is_open_file(int folder, const char *path) {
    struct stat target;
    return !fstatat(folder, path, &target, AT_SYMLINK_NOFOLLOW) && S_ISREG(target.st_mode) &&
           (has_descriptor(&target) || is_mapped(&target));
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    if (is_refused(to) || (flags && lacks("exchange", EINVAL))) return -1;
    if (lacks("open-target", EBUSY) && is_open_file(to_folder, to)) {
        errno = EBUSY;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return renameat2(from_folder, from, to_folder, to, 0);
}

int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }
