#include "data/audio/compress.h"

#include <stdlib.h>

#include "data/audio/audio.h"
#include "data/audio/sound_memory.h"

/* SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, which the header of libsndfile before 1.1 does not have. */
enum { FORMAT_MP3 = 0x230000 | 0x0082 };

bool sound_compress(const char *path, char **bytes, size_t *size, const char **type, Error *error) {
    Audio audio;
    SoundMemory memory = {0};
    if (!audio_read(path, 0, SOUND_MAX_SECONDS + 1, &audio, error)) return false;
    SF_INFO info = {.samplerate = audio.rate, .channels = 1, .format = FORMAT_MP3};
    bool is_mp3 = sf_format_check(&info);
    if (!is_mp3) info.format = SF_FORMAT_OGG | SF_FORMAT_VORBIS;
    bool ok = audio.count <= (int64_t)SOUND_MAX_SECONDS * audio.rate ||
              error_set(error, "longer than %d seconds", SOUND_MAX_SECONDS);
    ok = ok && sound_memory_write(&memory, &info, audio.samples, audio.count, error);
    audio_close(&audio);
    if (!ok) free(memory.bytes);
    if (!ok) return false;
    *type = is_mp3 ? "audio/mpeg" : "audio/ogg";
    *bytes = memory.bytes;
    *size = (size_t)memory.size;
    return true;
}
