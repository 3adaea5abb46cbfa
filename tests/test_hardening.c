/* The programs are built so that a fault that is not found yet does little: what their files say about it. */
#include <elf.h>

#include "base/file.h"
#include "tests/helpers.h"

static const char *const programs[] = {"train_gpt",  "train_psd",   "train_cv",    "prepare_tts",
                                       "decode_tts", "prepare_psd", "prepare_flim"};
enum { PROGRAMS = sizeof programs / sizeof *programs };

typedef struct {
    char *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Phdr *parts;
} Binary;

static Binary open_binary(const char *program) {
    const char *build = getenv("BUILD");
    char *path = path_join(build ? build : "build/release", program);
    Binary b = {.bytes = NULL};
    Error error;
    if (!read_file(path, &b.bytes, &b.size, &error)) fail_msg("%s", error.text);
    b.header = (const Elf64_Ehdr *)(void *)b.bytes;
    assert_true(b.size > sizeof *b.header && !memcmp(b.bytes, ELFMAG, SELFMAG));
    assert_int_equal(b.header->e_ident[EI_CLASS], ELFCLASS64);
    b.parts = (const Elf64_Phdr *)(void *)(b.bytes + b.header->e_phoff);
    free(path);
    return b;
}

static const Elf64_Phdr *part(const Binary *b, uint32_t type) {
    for (int i = 0; i < b->header->e_phnum; i++)
        if (b->parts[i].p_type == type) return &b->parts[i];
    return NULL;
}

/* The value of an entry of the dynamic section; 0: there is none. */
static uint64_t dynamic(const Binary *b, int64_t tag) {
    const Elf64_Phdr *section = part(b, PT_DYNAMIC);
    assert_non_null(section);
    const Elf64_Dyn *entry = (const Elf64_Dyn *)(void *)(b->bytes + section->p_offset);
    while (entry->d_tag != DT_NULL && entry->d_tag != tag) entry++;
    return entry->d_tag == tag ? entry->d_un.d_val : 0;
}

/* Whether the program takes a function from a library: its name is among the dynamic strings. The first part that is
 * loaded has them, at offsets that are addresses. */
static bool takes(const Binary *b, const char *function) {
    char name[64] = "";
    size_t n = (size_t)snprintf(name + 1, sizeof name - 1, "%s", function) + 2; /* a zero byte on both sides */
    uint64_t at = dynamic(b, DT_STRTAB), size = dynamic(b, DT_STRSZ);
    return at <= b->size && size <= b->size - at && memmem(b->bytes + at, size, name, n);
}

static void programs_lie_at_any_address(void **state) {
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        Binary b = open_binary(programs[i]);
        if (b.header->e_type != ET_DYN || !(dynamic(&b, DT_FLAGS_1) & DF_1_PIE)) fail_msg("%s: no PIE", programs[i]);
        free(b.bytes);
    }
}

static void tables_of_addresses_cannot_be_written(void **state) {
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        Binary b = open_binary(programs[i]);
        if (!part(&b, PT_GNU_RELRO)) fail_msg("%s: no RELRO", programs[i]);
        if (!(dynamic(&b, DT_FLAGS_1) & DF_1_NOW)) fail_msg("%s: no BIND_NOW", programs[i]);
        free(b.bytes);
    }
}

static void no_stack_can_be_executed(void **state) {
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        Binary b = open_binary(programs[i]);
        const Elf64_Phdr *stack = part(&b, PT_GNU_STACK);
        if (!stack || stack->p_flags & PF_X) fail_msg("%s: its stack can be executed", programs[i]);
        free(b.bytes);
    }
}

static void stacks_and_buffers_are_checked(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIPPED: stack protector and FORTIFY: the sanitizer stands in for them\n");
    skip();
#endif
    static const char *const checks[] = {"__stack_chk_fail", "__snprintf_chk"};
    for (int i = 0; i < PROGRAMS; i++) {
        Binary b = open_binary(programs[i]);
        for (int k = 0; k < 2; k++)
            if (!takes(&b, checks[k])) fail_msg("%s: no %s", programs[i], checks[k]);
        free(b.bytes);
    }
}

/* Before main, whose own frame may not fit. */
static void a_small_stack_is_refused(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIPPED: a small stack: the sanitizer begins before the program, and needs more\n");
    skip();
#endif
    const char *build = getenv("BUILD");
    char output[1024];
    for (int i = 0; i < PROGRAMS; i++)
        for (int kilobytes = 32; kilobytes <= 512; kilobytes *= 4) {
            int status = run_command(output, sizeof output, "env -i sh -c 'ulimit -s %d; exec %s/%s --help'", kilobytes,
                                     build ? build : "build/release", programs[i]);
            if (status != 1 || !strstr(output, "and the program needs 512: raise ulimit -s"))
                fail_msg("%s with %d kB: status %d, %s", programs[i], kilobytes, status, output);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_lie_at_any_address), cmocka_unit_test(tables_of_addresses_cannot_be_written),
        cmocka_unit_test(no_stack_can_be_executed), cmocka_unit_test(stacks_and_buffers_are_checked),
        cmocka_unit_test(a_small_stack_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
