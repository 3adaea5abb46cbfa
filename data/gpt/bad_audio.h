/* Reports recordings whose audio cannot be used, with the commands that convert what only ffmpeg reads. */
#ifndef DATA_GPT_BAD_AUDIO_H
#define DATA_GPT_BAD_AUDIO_H

#include "data/gpt/clip.h"

/* Warns of clips[n] whose audio is bad, and returns their number: up to a limit, and each that needs a command of its
 * own to be converted. */
int64_t bad_audio_report(const Recordings *recordings, const Clip *clips, int64_t n);
/* Warns of those of clips[n] that are kept although their sound may be none, or not all that there is (audio_doubt):
 * one warning for each such doubt, with the number of the clips and the first. */
void doubtful_audio_report(const Recordings *recordings, const Clip *clips, int64_t n);

#endif
