/* Detects whether libsndfile reads all of a sound file. It reads the rest of one that was cut off, and the first of
 * several that were joined, without an error, so that a clip would get half of its speech with all of its text. */
#pragma once

#include <sndfile.h>

#include "data/audio/mpeg_frames.h"
#include "data/audio/sound_chunks.h"

/* Shorter missing sound is ignored: programs that count a header as sound are off by so much. */
static const double SOUND_MIN_MISSING_SECONDS = 0.02;

/* Returns whether the open file is whole: WAV, AIFF and AU by their declared size, where chunks->there bytes have so
 * many seconds; Ogg by its last page. Other formats count as whole. */
bool sound_file_is_whole(int fd, const SF_INFO *info, const SoundChunks *chunks, double seconds, Error *error);
/* Counts the frames of MPEG audio. Sets parts if libsndfile would not read all of them, and *says_frames to whether
 * info->frames was declared by the file, and is neither unknown nor estimated. */
void sound_file_count_frames(int fd, const SF_INFO *info, const SoundChunks *chunks, int64_t max_frames,
                             bool *says_frames, SoundParts *parts);
/* Finds the sounds of a file in which several were joined (Ogg, FLAC, AU, CAF, Wave64, SPHERE, VOC). Returns false if
 * there is only one. */
bool sound_file_split(int fd, SoundParts *parts);
