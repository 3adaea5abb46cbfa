#include "data/audio/sound_memory.h"

#include <stdlib.h>
#include <string.h>

/* libsndfile seeks back to write the lengths into the header. */
static sf_count_t memory_size(void *context) { return ((SoundMemory *)context)->size; }

static sf_count_t memory_tell(void *context) { return ((SoundMemory *)context)->at; }

static sf_count_t memory_seek(sf_count_t offset, int whence, void *context) {
    SoundMemory *m = context;
    sf_count_t to = offset + (whence == SEEK_CUR ? m->at : whence == SEEK_END ? m->size : 0);
    return to < 0 || to > m->size ? -1 : (m->at = to);
}

static sf_count_t memory_write(const void *bytes, sf_count_t n, void *context) {
    SoundMemory *m = context;
    if (m->at + n > m->capacity) m->bytes = xrealloc(m->bytes, (size_t)(m->capacity = 2 * (m->at + n)));
    memcpy(m->bytes + m->at, bytes, (size_t)n);
    m->at += n;
    if (m->at > m->size) m->size = m->at;
    return n;
}

bool sound_memory_write(SoundMemory *memory, SF_INFO *info, const float *samples, int64_t frames, Error *error) {
    SF_VIRTUAL_IO io = {memory_size, memory_seek, NULL, memory_write, memory_tell}; /* it reads nothing */
    SNDFILE *file = sf_open_virtual(&io, SFM_WRITE, info, memory);
    if (!file) return error_set(error, "%s", sf_strerror(NULL));
    sf_command(file, SFC_SET_CLIPPING, NULL, SF_TRUE);
    sf_count_t written = sf_writef_float(file, samples, frames);
    return (!sf_close(file) && written == frames) ||
           error_set(error, "only %lld of %lld samples fit into the file", (long long)written, (long long)frames);
}
