/* Whether a sound file was cut off. libsndfile reads what is left of one without a word, and a clip would get half its
 * speech and the whole of its text. */
#ifndef DATA_SOUND_FILE_H
#define DATA_SOUND_FILE_H

#include <sndfile.h>

#include "base/base.h"

/* WAV (RIFF, RF64) and AIFF by the size that they say their sound has, Ogg by its last page; others are taken for
 * whole. `info` is of the open file. */
bool sound_file_is_whole(int fd, const SF_INFO *info, Error *error);
/* Whether info->frames is what the file says of itself, neither unknown nor an estimate. */
bool sound_file_says_frames(int fd, const SF_INFO *info);

#endif
