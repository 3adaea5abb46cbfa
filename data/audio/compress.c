#include "data/audio/compress.h"

#include <stdlib.h>
#include <string.h>

#include <sndfile.h>

#include "base/file.h"

/* SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, which the header of libsndfile before 1.1 does not have. */
enum { FORMAT_MP3 = 0x230000 | 0x0082 };

/* A file in memory that libsndfile writes. */
typedef struct {
    char *bytes;
    sf_count_t size, at, capacity;
} Memory;

static sf_count_t memory_size(void *user) { return ((Memory *)user)->size; }
static sf_count_t memory_tell(void *user) { return ((Memory *)user)->at; }

static sf_count_t memory_seek(sf_count_t offset, int whence, void *user) {
    Memory *m = user;
    m->at = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m->at : m->size);
    return m->at;
}

static sf_count_t memory_read(void *to, sf_count_t count, void *user) {
    Memory *m = user;
    if (count > m->size - m->at) count = m->size - m->at;
    if (count <= 0) return 0;
    memcpy(to, m->bytes + m->at, (size_t)count);
    m->at += count;
    return count;
}

static sf_count_t memory_write(const void *from, sf_count_t count, void *user) {
    Memory *m = user;
    if (m->at + count > m->capacity) {
        m->capacity = 2 * (m->at + count);
        m->bytes = xrealloc(m->bytes, (size_t)m->capacity);
    }
    memcpy(m->bytes + m->at, from, (size_t)count);
    m->at += count;
    if (m->at > m->size) m->size = m->at;
    return count;
}

/* Encodes samples[frames * channels]. */
static bool encode(const float *samples, const SF_INFO *from, Memory *memory, const char **type, Error *error) {
    SF_VIRTUAL_IO io = {memory_size, memory_seek, memory_read, memory_write, memory_tell};
    SF_INFO info = {.samplerate = from->samplerate, .channels = from->channels, .format = FORMAT_MP3};
    *type = "audio/mpeg";
    if (!sf_format_check(&info)) {
        info.format = SF_FORMAT_OGG | SF_FORMAT_VORBIS;
        *type = "audio/ogg";
    }
    SNDFILE *file = sf_open_virtual(&io, SFM_WRITE, &info, memory);
    if (!file) return error_set(error, "it cannot be encoded: %s", sf_strerror(NULL));
    bool ok = sf_writef_float(file, samples, from->frames) == from->frames;
    ok = !sf_close(file) && ok;
    return ok || error_set(error, "it cannot be encoded");
}

bool sound_compress(const char *path, char **bytes, size_t *size, const char **type, Error *error) {
    SF_INFO info = {0};
    Memory memory = {0};
    size_t file_size;
    int fd = file_open(path, &file_size, error);
    if (fd < 0) return false;
    SNDFILE *file = sf_open_fd(fd, SFM_READ, &info, SF_TRUE);
    if (!file) return error_set(error, "no sound: %s", sf_strerror(NULL));
    bool ok = info.frames <= (sf_count_t)SOUND_MAX_SECONDS * info.samplerate ||
              error_set(error, "longer than %d seconds", SOUND_MAX_SECONDS);
    float *samples = ok ? xmalloc((size_t)(info.frames * info.channels + 1) * sizeof *samples) : NULL;
    ok = ok && (sf_readf_float(file, samples, info.frames) == info.frames || error_set(error, "cut off"));
    sf_close(file);
    ok = ok && encode(samples, &info, &memory, type, error);
    free(samples);
    if (!ok) free(memory.bytes);
    if (!ok) return false;
    *bytes = memory.bytes;
    *size = (size_t)memory.size;
    return true;
}
