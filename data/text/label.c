#include "data/text/label.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <uninorm.h>
#include <unistr.h>

#include "data/text/characters.h"
#include "data/text/strings.h"

/* Puts a zero byte behind n bytes of libunistring. The name as it is if it is not UTF-8, as the name of a folder. */
static char *ended(uint8_t *text, size_t n, const char *name) {
    if (!text) return xstrdup(name);
    text = xrealloc(text, n + 1);
    text[n] = 0;
    return (char *)text;
}

static bool is_blank(uint32_t c) { return c < CHARACTER_NONE && character_classes()[c] & CHARACTER_BLANK; }

/* Cuts white space off both ends, and makes blanks of no-break spaces; in place. */
static void trim(char *text) {
    const char *at = text, *end = text + strlen(text);
    char *to = text, *last = text; /* last: behind the last visible character */
    uint32_t c;
    for (size_t n; (n = character_at(at, end, &c)); at += n) {
        if (is_blank(c) && to == text) continue;
        if (c == 0xA0)
            *to++ = ' ';
        else
            for (size_t i = 0; i < n; i++) *to++ = at[i];
        if (!is_blank(c)) last = to;
    }
    *last = 0;
}

char *label_normal(const char *name) {
    size_t n = 0;
    const uint8_t *bytes = (const uint8_t *)name;
    uint8_t *composed = u8_check(bytes, strlen(name)) ? NULL : u8_normalize(UNINORM_NFC, bytes, strlen(name), NULL, &n);
    char *normal = ended(composed, n, name);
    trim(normal);
    return normal;
}

/* Returns whether a character changes the direction of those that follow, so that a name looks like another one. */
static bool turns_text(uint32_t c) { return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069); }

bool label_check(const char *name, Error *error) {
    enum { LONGEST = 256 };
    size_t n = strlen(name);
    uint32_t c;
    if (n > LONGEST)
        return error_set(error, "the name that begins \"%.40s\" has %zu bytes; expected at most %d", name, n, LONGEST);
    for (size_t at = 0, size; (size = character_at(name + at, name + n, &c)); at += size)
        if (c < 0x20 || (c >= 0x7F && c < 0xA0) || turns_text(c))
            return error_set(error, "the name \"%s\" has the control character U+%04X", name, (unsigned)c);
    return true;
}

/* Returns the digits of a whole number without those that mean nothing; their number in *n. NULL: it is none. */
static const char *whole_number(const char *name, size_t *n) {
    const char *at = name + (*name == '-');
    size_t digits = strspn(at, "0123456789");
    const char *rest = at + digits;
    if (!digits || (*rest == '.' && rest[1 + strspn(rest + 1, "0")]) || (*rest && *rest != '.')) return NULL;
    while (digits > 1 && *at == '0') at++, digits--;
    *n = digits;
    return at;
}

char *label_key(const char *name) {
    size_t n = 0;
    const char *digits = whole_number(name, &n);
    if (digits) return xformat("%s%.*s", *name == '-' && *digits != '0' ? "-" : "", (int)n, digits);
    const uint8_t *bytes = (const uint8_t *)name;
    uint8_t *lower =
        u8_check(bytes, strlen(name)) ? NULL : u8_tolower(bytes, strlen(name), NULL, UNINORM_NFC, NULL, &n);
    return ended(lower, n, name);
}

const char *label_difference(const char *a, const char *b) {
    size_t n;
    return whole_number(a, &n) && whole_number(b, &n) ? "are the same number" : "differ in case only";
}

/* Returns the first of the names that has the same key as name i, and frees the key. first: [names] that name for each
 * number of a key. */
static int64_t first_with(Strings *keys, int64_t *first, int64_t i, char *key) {
    uint32_t known = keys->n, number = strings_add(keys, key, strlen(key));
    free(key);
    if (number == known) first[number] = i;
    return first[number];
}

bool labels_find_alike(const char *const *names, int64_t n, int64_t *earlier, int64_t *later) {
    OWNED_BY(strings_free) Strings keys = {0};
    OWNED int64_t *first = xmalloc((size_t)n * sizeof *first);
    bool found = false;
    for (int64_t i = 0; i < n && !found; i++) {
        *earlier = first_with(&keys, first, i, label_key(names[i]));
        *later = i;
        found = strcmp(names[*earlier], names[i]) != 0;
    }
    return found;
}

void labels_warn_alike(const char *where, const char *what, const char *const *names, int64_t n) {
    int64_t a, b;
    if (labels_find_alike(names, n, &a, &b))
        warn("%s: the %s \"%.100s\" and \"%.100s\" %s, and count as two; give them one name if they are one", where,
             what, names[a], names[b], label_difference(names[a], names[b]));
}

int64_t labels_unify(char **const *names, int64_t n) {
    OWNED_BY(strings_free) Strings normals = {0};
    OWNED int64_t *first = xmalloc((size_t)n * sizeof *first);
    int64_t replaced = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *spelling = *names[first_with(&normals, first, i, label_normal(*names[i]))];
        if (!strcmp(*names[i], spelling)) continue;
        free(*names[i]);
        *names[i] = xstrdup(spelling);
        replaced++;
    }
    return replaced;
}
