/* Detects whether a sound file was cut off. libsndfile reads the rest of such a file without an error, so that a clip
 * would get half of its speech with all of its text. */
#ifndef DATA_AUDIO_SOUND_FILE_H
#define DATA_AUDIO_SOUND_FILE_H

#include <sndfile.h>

#include "base/base.h"

/* Returns whether the open file is whole: WAV (RIFF, RF64) and AIFF by their declared size, Ogg by its last page. Other
 * formats count as whole. */
bool sound_file_is_whole(int fd, const SF_INFO *info, Error *error);
/* Returns whether info->frames was declared by the file, and is neither unknown nor estimated. */
bool sound_file_says_frames(int fd, const SF_INFO *info);

#endif
