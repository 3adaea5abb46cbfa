/* Counts what the program's own code allocates, by functions in the place of the C library's, which call those: in test
 * programs, and in a program that preloads this file as a library. That appends the count to the file $ALLOCATIONS when
 * the program ends. What libraries allocate for themselves does not count. */
#include "tests/allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* which have such functions themselves */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static _Atomic int64_t allocations;
static _Atomic uintptr_t code_begin, code_end; /* of the program */

/* The first object is the program. */
static int find_code(struct dl_phdr_info *program, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &program->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        code_begin = program->dlpi_addr + part->p_vaddr;
        code_end = code_begin + part->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void find_program(void) { dl_iterate_phdr(find_code, NULL); }

static void count(const void *caller) {
    if ((uintptr_t)caller >= code_begin && (uintptr_t)caller < code_end) allocations++;
}

void *malloc(size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

/* Stands for vasprintf in hardened code. */
int __vasprintf_chk(char **text, int flag, const char *format, va_list arguments);
int __vasprintf_chk(char **text, int flag, const char *format, va_list arguments) {
    int (*next)(char **, int, const char *, va_list);
    *(void **)&next = dlsym(RTLD_NEXT, "__vasprintf_chk");
    count(__builtin_return_address(0));
    return next(text, flag, format, arguments);
}

int64_t allocation_count(void) { return allocations; }

__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv("ALLOCATIONS");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd < 0) return;
    dprintf(fd, "%s %lld\n", program_invocation_short_name, (long long)allocations);
    close(fd);
}
#else
int64_t allocation_count(void) { return 0; }
#endif
