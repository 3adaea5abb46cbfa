/* Hardening of the programs against bugs that are not found yet, as their ELF files show it. */
#include <elf.h>

#include "base/file.h"
#include "tests/train_rig.h"

static const char *const *programs;
static int n_programs;

typedef struct {
    char *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Phdr *parts;
} Binary;

static Binary open_binary(const char *program) {
    const char *path = program_at(program);
    Binary b = {.bytes = NULL};
    Error error;
    if (!read_file(path, &b.bytes, &b.size, &error)) fail_msg("%s", error.text);
    b.header = (const Elf64_Ehdr *)(void *)b.bytes;
    assert_true(b.size > sizeof *b.header && !memcmp(b.bytes, ELFMAG, SELFMAG));
    assert_int_equal(b.header->e_ident[EI_CLASS], ELFCLASS64);
    b.parts = (const Elf64_Phdr *)(void *)(b.bytes + b.header->e_phoff);
    return b;
}

static const Elf64_Phdr *part(const Binary *b, uint32_t type) {
    for (int i = 0; i < b->header->e_phnum; i++)
        if (b->parts[i].p_type == type) return &b->parts[i];
    return NULL;
}

/* Returns the value of an entry of the dynamic section; 0 if there is none. */
static uint64_t dynamic(const Binary *b, int64_t tag) {
    const Elf64_Phdr *section = part(b, PT_DYNAMIC);
    assert_non_null(section);
    const Elf64_Dyn *entry = (const Elf64_Dyn *)(void *)(b->bytes + section->p_offset);
    while (entry->d_tag != DT_NULL && entry->d_tag != tag) entry++;
    return entry->d_tag == tag ? entry->d_un.d_val : 0;
}

/* Returns whether the program imports a function, whose name is then among the dynamic strings. They are in the first
 * loaded segment, where addresses equal file offsets. */
static bool takes(const Binary *b, const char *function) {
    char name[64] = "";
    size_t n = (size_t)snprintf(name + 1, sizeof name - 1, "%s", function) + 2; /* a zero byte on both sides */
    uint64_t at = dynamic(b, DT_STRTAB), size = dynamic(b, DT_STRSZ);
    return at <= b->size && size <= b->size - at && memmem(b->bytes + at, size, name, n);
}

TEST(programs_are_position_independent) {
    for (int i = 0; i < n_programs; i++) {
        Binary b = open_binary(programs[i]);
        if (b.header->e_type != ET_DYN || !(dynamic(&b, DT_FLAGS_1) & DF_1_PIE))
            fail_msg("%s is not position-independent", programs[i]);
        free(b.bytes);
    }
}

TEST(relocations_are_read_only) {
    for (int i = 0; i < n_programs; i++) {
        Binary b = open_binary(programs[i]);
        if (!part(&b, PT_GNU_RELRO)) fail_msg("%s: no RELRO", programs[i]);
        if (!(dynamic(&b, DT_FLAGS_1) & DF_1_NOW)) fail_msg("%s: no BIND_NOW", programs[i]);
        free(b.bytes);
    }
}

TEST(stacks_are_not_executable) {
    for (int i = 0; i < n_programs; i++) {
        Binary b = open_binary(programs[i]);
        const Elf64_Phdr *stack = part(&b, PT_GNU_STACK);
        if (!stack || stack->p_flags & PF_X) fail_msg("%s has an executable stack", programs[i]);
        free(b.bytes);
    }
}

TEST(stacks_and_buffers_are_checked) {
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIPPED: stack protector and FORTIFY: the sanitizer replaces them\n");
    skip();
#endif
    static const char *const checks[] = {"__stack_chk_fail", "__snprintf_chk"};
    for (int i = 0; i < n_programs; i++) {
        Binary b = open_binary(programs[i]);
        for (int k = 0; k < 2; k++)
            if (!takes(&b, checks[k])) fail_msg("%s: no %s", programs[i], checks[k]);
        free(b.bytes);
    }
}

/* The check runs before main, because the frame of main may not fit. */
TEST(a_small_stack_is_refused) {
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIPPED: a small stack: the sanitizer starts before the program and needs more\n");
    skip();
#endif
    char output[1024];
    for (int i = 0; i < n_programs; i++)
        for (int kilobytes = 32; kilobytes <= 512; kilobytes *= 4) {
            int status = run_command(output, sizeof output, "env -i sh -c 'ulimit -s %d; exec %s --help'", kilobytes,
                                     program_at(programs[i]));
            if (status != 1 || !strstr(output, "the program itself needs 512 kB: raise ulimit -s"))
                fail_msg("%s with %d kB: status %d, %s", programs[i], kilobytes, status, output);
        }
}

int main(void) {
    programs = program_names(&n_programs);
    return tests_run(NULL, NULL);
}
