#include "base/file_name.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* Returns file_name_of(text), with %XX for the characters in `others`, too. */
static char *name_without(const char *text, const char *others) {
    enum { MOST = 120, HASH = 16 }; /* bytes; hexadecimal digits */
    static const char digits[] = "0123456789ABCDEF";
    size_t length = strlen(text), used = 0;
    char *name = xmalloc(3 * length + 2);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain =
            c >= 0x20 && c != 0x7f && c != '/' && c != '%' && (i || (c != '.' && c != '-')) && !strchr(others, c);
        if (plain) {
            name[used++] = (char)c;
            continue;
        }
        name[used++] = '%';
        name[used++] = digits[c >> 4];
        name[used++] = digits[c & 15];
    }
    if (!length) name[used++] = '%';
    name[used] = 0;
    if (used <= MOST) return name;
    size_t cut = MOST - HASH - 2;
    while (cut && ((unsigned char)name[cut] & 0xc0) == 0x80) cut--; /* cut between UTF-8 characters */
    name[cut] = 0;
    char *shorter = xformat("%s%%~%016llx", name, (unsigned long long)checksum(0, text, length));
    free(name);
    return shorter;
}

char *file_name_of(const char *text) { return name_without(text, ""); }

const char file_name_risks[] = "\"*:<>?\\|";

/* Tries to begin a file of this name. */
static bool is_refused(const char *path) {
    FileWriter writer;
    errno = 0;
    if (!file_begin(&writer, path, 0, NULL)) return errno == EINVAL;
    writer.reason = ECANCELED; /* file_end removes it */
    file_end(&writer, NULL);
    return false;
}

bool file_name_is_refused(const char *folder, const char *name) {
    if (!strpbrk(name, file_name_risks)) return false;
    char *at = xstrdup(folder);
    while (access(at, F_OK) && strcmp(at, ".") && strcmp(at, "/")) {
        char *parent = path_directory(at);
        free(at);
        at = parent;
    }
    OWNED char *path = path_join(at, name);
    bool refused = access(path, F_OK) && is_refused(path);
    free(at);
    return refused;
}

char *file_name_in(const char *folder, const char *before, const char *text) {
    char *name = file_name_of(text), *other = name_without(text, file_name_risks);
    OWNED char *whole = xformat("%s%s", before, name);
    OWNED char *other_whole = xformat("%s%s", before, other);
    bool takes_other = strcmp(name, other) && !path_holds(folder, whole) &&
                       (path_holds(folder, other_whole) || file_name_is_refused(folder, whole));
    free(takes_other ? name : other);
    return takes_other ? other : name;
}
