#include "data/formats/text_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>

#include "base/file.h"

enum { BLOCK = 1 << 20 };

const char *text_ending(const char *path, const char *ending) {
    OWNED char *compressed = xformat("%s.gz", ending);
    const char *plain = path_ending(path, ending), *at = plain ? plain : path_ending(path, compressed);
    return at;
}

/* Reads the next block. Blocks are always full but the last one, because the checksum depends on where they begin. */
static bool next_block(TextSource *s, Error *error) {
    s->at = s->filled = 0;
    while (s->fd >= 0 && s->filled < BLOCK) {
        ssize_t n = read(s->fd, s->block + s->filled, BLOCK - s->filled);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set(error, "cannot read it: %s", strerror(errno));
        if (!n) break;
        s->filled += (size_t)n;
    }
    if (s->filled) s->sum = checksum(s->sum, s->block, s->filled);
    s->size += (int64_t)s->filled;
    return true;
}

static bool is_compressed(const void *bytes, size_t size) { return size >= 2 && !memcmp(bytes, "\x1f\x8b", 2); }

bool text_source_open(TextSource *s, const char *path, Error *error) {
    size_t size;
    *s = (TextSource){.fd = file_open(path, &size, error)};
    if (s->fd < 0) return false;
    s->block = xmalloc(BLOCK);
    bool ok = next_block(s, error);
    s->compressed = ok && is_compressed(s->block, s->filled);
    if (s->compressed && inflateInit2(&s->stream, 15 + 16) != Z_OK) die("zlib cannot be initialised");
    if (!ok) text_source_close(s);
    return ok;
}

void text_source_close(TextSource *s) {
    if (!s->block) return;
    if (s->compressed) inflateEnd(&s->stream);
    free(s->block);
    close(s->fd);
    *s = (TextSource){.fd = -1};
}

static bool read_plain(TextSource *s, char *buffer, size_t size, size_t *n, Error *error) {
    while (*n < size) {
        if (s->at == s->filled && !next_block(s, error)) return false;
        if (!s->filled) break;
        size_t some = s->filled - s->at < size - *n ? s->filled - s->at : size - *n;
        memcpy(buffer + *n, s->block + s->at, some);
        s->at += some;
        *n += some;
    }
    return true;
}

/* Returns how many of these bytes zlib takes at once: it counts in 32 bits. */
static uInt part_of(size_t bytes) { return bytes < 1u << 30 ? (uInt)bytes : 1u << 30; }

/* A compressed file may consist of several members, one behind the other. */
static bool read_compressed(TextSource *s, char *buffer, size_t size, size_t *n, Error *error) {
    z_stream *z = &s->stream;
    while (*n < size) {
        if (s->at == s->filled && !next_block(s, error)) return false;
        if (!s->filled && s->ended) break;
        if (!s->filled) return error_set(error, "its compressed data are cut off");
        if (s->ended && inflateReset(z) != Z_OK) die("zlib cannot be reset");
        const uInt in = part_of(s->filled - s->at), room = part_of(size - *n);
        z->next_in = s->block + s->at;
        z->avail_in = in;
        z->next_out = (Bytef *)buffer + *n;
        z->avail_out = room;
        int state = inflate(z, Z_NO_FLUSH);
        s->at += in - z->avail_in;
        *n += room - z->avail_out;
        s->ended = state == Z_STREAM_END;
        if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
            return error_set(error, "its compressed data are damaged near byte %lld: %s",
                             (long long)(s->size - (int64_t)(s->filled - s->at)), z->msg ? z->msg : zError(state));
    }
    return true;
}

bool text_source_read(TextSource *s, char *buffer, size_t size, size_t *n, Error *error) {
    *n = 0;
    return s->compressed ? read_compressed(s, buffer, size, n, error) : read_plain(s, buffer, size, n, error);
}

bool text_source_measure(const char *path, int64_t *size, uint64_t *sum, Error *error) {
    TextSource s;
    if (!text_source_open(&s, path, error)) return false;
    bool ok = true;
    while (ok && s.filled) ok = next_block(&s, error);
    *size = s.size;
    *sum = s.sum;
    text_source_close(&s);
    return ok;
}

/* ---- whole files ---- */

/* Returns the text of compressed bytes, with a zero byte behind it; free(). NULL with the reason. */
static char *decompress(const char *bytes, size_t size, size_t *out, Error *error) {
    /* A source without a file: its only block is all of the bytes. */
    TextSource s = {.fd = -1, .compressed = true, .block = (unsigned char *)(uintptr_t)bytes, .filled = size};
    size_t capacity = 0, n = 0;
    char *text = NULL;
    bool ok = true;
    if (inflateInit2(&s.stream, 15 + 16) != Z_OK) die("zlib cannot be initialised");
    s.size = (int64_t)size;
    for (*out = 0; ok && *out == capacity; *out += n) {
        char *longer = realloc(text, (capacity = 2 * capacity + BLOCK) + 1);
        ok = longer || error_set(error, "there is no memory for the %zu bytes of its text", capacity);
        if (longer) text = longer;
        ok = ok && text_source_read(&s, text + *out, capacity - *out, &n, error);
    }
    inflateEnd(&s.stream);
    if (ok) text[*out] = 0;
    if (ok) return text;
    free(text);
    return NULL;
}

/* Returns UTF-16 without its mark as UTF-8, with a zero byte behind it; free(). NULL with the reason. */
static char *of_utf16(const char *bytes, size_t size, bool big_endian, size_t *out, Error *error) {
    size_t n = size / 2;
    OWNED uint16_t *units = xmalloc(size);
    uint8_t *text = NULL;
    for (size_t i = 0; i < n; i++) {
        unsigned char first = (unsigned char)bytes[2 * i], second = (unsigned char)bytes[2 * i + 1];
        units[i] = (uint16_t)(big_endian ? first << 8 | second : second << 8 | first);
    }
    if (size % 2)
        error_set(error, "begins as UTF-16, and has half a character at its end: it is cut off");
    else if (!(text = u16_to_u8(units, n, NULL, out)))
        error_set(error, "begins as UTF-16, and has half of a pair of code units in it; save it as UTF-8");
    if (!text) return NULL;
    text = xrealloc(text, *out + 1);
    text[*out] = 0;
    return (char *)text;
}

static bool replace_bytes(char **bytes, char *text) {
    free(*bytes);
    *bytes = text;
    return text != NULL;
}

bool text_decode(char **bytes, size_t *size, Error *error) {
    const size_t before = *size;
    if (is_compressed(*bytes, before) && !replace_bytes(bytes, decompress(*bytes, before, size, error))) return false;
    const size_t n = *size;
    bool little = n >= 2 && !memcmp(*bytes, "\xFF\xFE", 2), big = n >= 2 && !memcmp(*bytes, "\xFE\xFF", 2);
    return !(little || big) || replace_bytes(bytes, of_utf16(*bytes + 2, n - 2, big, size, error));
}

bool text_read(const char *path, char **text, size_t *size, Error *error) {
    return read_file(path, text, size, error) && text_decode(text, size, error);
}
