#include "data/slm/text_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { BLOCK = 1 << 20 };

/* Reads the next block. Blocks are always full but the last one, because the checksum depends on where they begin. */
static bool next_block(TextSource *s, Error *error) {
    s->at = s->filled = 0;
    while (s->filled < BLOCK) {
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

bool text_source_open(TextSource *s, const char *path, Error *error) {
    size_t size;
    *s = (TextSource){.fd = file_open(path, &size, error)};
    if (s->fd < 0) return false;
    s->block = xmalloc(BLOCK);
    bool ok = next_block(s, error);
    s->compressed = ok && s->filled >= 2 && s->block[0] == 0x1f && s->block[1] == 0x8b;
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

/* A compressed file may consist of several members, one behind the other. */
static bool read_compressed(TextSource *s, char *buffer, size_t size, size_t *n, Error *error) {
    z_stream *z = &s->stream;
    while (*n < size) {
        if (s->at == s->filled && !next_block(s, error)) return false;
        if (!s->filled && s->ended) break;
        if (!s->filled) return error_set(error, "its compressed data are cut off");
        if (s->ended && inflateReset(z) != Z_OK) die("zlib cannot be reset");
        z->next_in = s->block + s->at;
        z->avail_in = (uInt)(s->filled - s->at);
        z->next_out = (Bytef *)buffer + *n;
        z->avail_out = (uInt)(size - *n);
        int state = inflate(z, Z_NO_FLUSH);
        s->at = s->filled - z->avail_in;
        *n = size - z->avail_out;
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
