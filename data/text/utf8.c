#include "data/text/utf8.h"

#include <string.h>
#include <unistr.h>

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
