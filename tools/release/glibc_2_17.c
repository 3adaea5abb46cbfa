/* Functions that the objects of a release use and that glibc 2.17 lacks, where it is the C library of the machine: the
 * release is compiled with the headers of a newer one. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 2.28 */
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

/* 2.28. A 64-bit file has the same commands under both names. */
int fcntl64(int file, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fcntl(file, command, argument);
}

/* 2.25. Kernels before 3.17 have only the device. */
ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
    ssize_t got = syscall(SYS_getrandom, bytes, size, flags);
    if (got >= 0 || errno != ENOSYS) return got;
    int device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (device < 0) return -1;
    got = read(device, bytes, size);
    close(device);
    return got;
}

/* 2.25 */
int getentropy(void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t got = getrandom((char *)bytes + done, size - done, 0);
        if (got < 0 && errno != EINTR) return -1;
        if (got > 0) done += (size_t)got;
    }
    return 0;
}

/* 2.36. It cannot report that there is no randomness. */
void arc4random_buf(void *bytes, size_t size) {
    if (getentropy(bytes, size)) abort();
}

/* 2.36 */
uint32_t arc4random(void) {
    uint32_t value;
    arc4random_buf(&value, sizeof value);
    return value;
}

/* 2.32. The C++ library then counts references atomically, as it must: the programs have threads. */
char __libc_single_threaded = 0;

typedef struct {
    uintptr_t address;
    struct dl_find_object *found;
} Search;

static int search_object(struct dl_phdr_info *object, size_t size, void *context) {
    Search *search = context;
    const void *frames = NULL;
    uintptr_t start = UINTPTR_MAX, end = 0;
    bool here = false;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t first = object->dlpi_addr + part->p_vaddr, last = first + part->p_memsz;
        if (part->p_type == PT_GNU_EH_FRAME) frames = (const void *)first;
        if (part->p_type != PT_LOAD) continue;
        if (first < start) start = first;
        if (last > end) end = last;
        here |= search->address >= first && search->address < last;
    }
    if (!here || !frames) return 0;
    *search->found = (struct dl_find_object){
        .dlfo_map_start = (void *)start, .dlfo_map_end = (void *)end, .dlfo_eh_frame = (void *)(uintptr_t)frames};
    return 1;
}

/* 2.35. Finds the unwind tables of the object that holds an address, for C++ exceptions: 0 if there is one, or -1. */
int _dl_find_object(void *address, struct dl_find_object *found) {
    Search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(search_object, &search) ? 0 : -1;
}
