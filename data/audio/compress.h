/* Makes a small copy of a sound, to embed it in a page. */
#pragma once

#include "base/base.h"

enum { SOUND_MAX_SECONDS = 60 };

/* Reads a sound file as audio_read does, and encodes it as mono MP3, or as Ogg Vorbis where libsndfile has no MP3. Sets
 * bytes[size], free(), and the media type, "audio/mpeg". Fails if the file is no sound, is longer than
 * SOUND_MAX_SECONDS, or cannot be encoded. */
bool sound_compress(const char *path, char **bytes, size_t *size, const char **type, Error *error);
