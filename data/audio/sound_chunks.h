/* Compares the sizes that the headers of WAV (RIFF, RIFX, RF64, BW64), AIFF and AU files declare with those of the
 * files. */
#pragma once

#include "data/audio/sound_view.h"

typedef struct {
    int64_t at;              /* where the sound begins */
    int64_t declared, there; /* bytes of sound; declared is 0 if the header does not tell */
    int64_t behind;          /* bytes behind the sound that belong to no chunk, are no tag and not all zero */
    SoundParts parts;        /* what is to be read in place of the file; none: libsndfile reads it right */
} SoundChunks;

/* Reads the headers of an open file's chunks. There is a part for each format in the file if libsndfile would not read
 * all sound: a recorder did not write the size (0), an odd chunk has no pad byte, the sound has several chunks, files
 * were joined, BW64. Returns false if the file is none of these, or has no chunk for sound.
 * sound_parts_close(&chunks->parts)
 */
bool sound_chunks_read(int fd, SoundChunks *chunks);
