/* For the tests of what we assume of NVIDIA's libraries: mk/contracts.mk compiles each of them once per version,
 * against that version's headers, and names the folder of its libraries. They need no GPU. */
#pragma once

#include "tests/helpers.h"

#include <dlfcn.h>
#include <limits.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/libraries/library.h"

/* The prototype of a function in the list is that of the header, but for names: C's enums are unsigned integers. */
#define SAME_PROTOTYPE(result, name, arguments)                                                                        \
    _Static_assert(__builtin_types_compatible_p(result(*) arguments, __typeof__(name) *), #name);
#define SAME_VALUE(ours, theirs) _Static_assert((ours) == (int)(theirs), #ours)
#define SAME_PLACE(Ours, our_field, Theirs, their_field)                                                               \
    _Static_assert(offsetof(Ours, our_field) == offsetof(Theirs, their_field) &&                                       \
                       sizeof((Ours){0}.our_field) == sizeof((Theirs){0}.their_field),                                 \
                   #our_field)

/* The folder of the libraries, which mk/contracts.mk names without quotes. */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char real_folder[] = TEXT(REAL_LIBRARIES);

/* Returns the path of one of this version's libraries, links resolved. */
static inline const char *real_path(const char *file) {
    static char path[PATH_MAX];
    char *wanted = xformat("%s/%s", real_folder, file);
    if (!realpath(wanted, path)) fail_msg("%s was not found", wanted);
    free(wanted);
    return path;
}

/* Loads a library, which stays loaded: after that its name alone finds it. */
static inline void *load_real(const char *file) {
    void *library = dlopen(real_path(file), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    return library;
}

/* Requires that the program finds the library by its name, unless it finds one that is installed here before it, and by
 * the variable; and that it finds all functions in it. */
static inline void assert_found(void (*find)(char *), const char *variable, const char *file, const char *version) {
    char text[LIBRARY_DESCRIPTION], *wanted = xformat("%s: %s", version, real_path(file));
    load_real(file);
    unsetenv(variable);
    find(text);
    bool another = text[0] >= '0' && text[0] <= '9' && !strstr(text, real_folder);
    if (!another) assert_string_equal(text, wanted);
    setenv(variable, real_path(file), 1);
    find(text);
    assert_string_equal(text, wanted);
    free(wanted);
}
