/* Normal forms and removal of marks. ASCII is left alone but for the one character before others, which may compose. */
#include <stdlib.h>
#include <string.h>
#include <uninorm.h>
#include <unistr.h>

#include "data/text/bpe_normalize.h"
#include "data/text/characters.h"

static const char *ascii_end(const char *at, const char *end) {
    while (at < end && (unsigned char)*at < 0x80) at++;
    return at;
}

static void put_without_marks(Bytes *buffer, const char *at, const char *end) {
    const uint8_t *classes = character_classes();
    uint32_t c;
    for (size_t size; (size = character_at(at, end, &c)); at += size)
        if (!(classes[c] & CHARACTER_MARK)) bytes_add(buffer, at, size);
}

/* Puts a run without ASCII but its first character. Bytes that are not UTF-8 leave the run as it is. */
static void put_run(Bytes *buffer, const BpeSettings *settings, const char *at, const char *end) {
    uint8_t small[512], *normal = NULL;
    size_t n = sizeof small;
    const size_t size = (size_t)(end - at);
    if (settings->form != NORMAL_NONE && !u8_check((const uint8_t *)at, size)) {
        normal = u8_normalize(settings->form == NORMAL_NFC ? UNINORM_NFC : UNINORM_NFD, (const uint8_t *)at, size,
                              small, &n);
        if (!normal) die("out of memory while normalising a text");
        at = (const char *)normal, end = at + n;
    }
    if (settings->strip_marks)
        put_without_marks(buffer, at, end);
    else
        bytes_add(buffer, at, (size_t)(end - at));
    if (normal != small) free(normal);
}

char *bpe_normalize(const Bpe *bpe, const char *text, size_t *size) {
    const char *end = text + *size, *at = text;
    if (bpe->settings.form == NORMAL_NONE && !bpe->settings.strip_marks) return NULL;
    if (ascii_end(text, end) == end) return NULL;
    Bytes buffer = {xmalloc(*size), 0, *size};
    for (const char *begin = text; begin < end; begin = at) {
        at = ascii_end(begin, end);
        const char *run = at > begin && at < end ? at - 1 : at;
        bytes_add(&buffer, begin, (size_t)(run - begin));
        while (at < end && (unsigned char)*at >= 0x80) at++;
        if (run < at) put_run(&buffer, &bpe->settings, run, at);
    }
    *size = buffer.n;
    return buffer.at;
}
