#include "data/text/utf8.h"

#include <string.h>
#include <unistr.h>

#include "data/text/encoding.h"

char *utf8_of_bytes(const char *bytes, size_t size) {
    static const char replacement[] = "\xEF\xBF\xBD";
    char *text = xmalloc(3 * size + 1);
    size_t length = 0;
    for (size_t at = 0; at < size;) {
        ucs4_t character;
        int count = u8_mbtoucr(&character, (const uint8_t *)bytes + at, size - at);
        bool whole = count > 0 && character;
        size_t written = whole ? (size_t)count : 3;
        memcpy(text + length, whole ? bytes + at : replacement, written);
        length += written;
        at += count > 0 ? (size_t)count : 1;
    }
    text[length] = 0;
    return text;
}

bool utf8_check(const char *text, size_t size, Error *error) {
    const char *wrong = (const char *)u8_check((const uint8_t *)text, size);
    const char *zero = memchr(text, 0, size);
    const char *first = zero && (!wrong || zero < wrong) ? zero : wrong;
    if (!first) return true;
    long long line = 1;
    for (const char *c = text; c < first; c++) line += *c == '\n';
    const char *binary = encoding_of_binary(text, size);
    if (binary) return error_set(error, "1: the file %s", binary);
    return first == zero ? error_set(error, "%lld: has a zero byte; take it out", line)
                         : error_set(error, "%lld: is not UTF-8; %s", line, encoding_advice(text, size));
}

size_t utf8_mark(const char *text, size_t size) { return size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0; }
