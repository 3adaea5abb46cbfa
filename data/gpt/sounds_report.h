/* Reports what the sounds of a list say about the list, and those that cannot be used. */
#pragma once

#include "data/gpt/clip.h"

/* Warns of clips[n] whose audio is bad, with the commands that convert what only ffmpeg reads, and returns their
 * number: up to a limit, and each that needs a command of its own to be converted. */
int64_t sounds_report_bad(const Recordings *recordings, const Clip *clips, int64_t n);
/* Warns of those of clips[n] that are kept although their sound may be none, or not all that there is (audio_doubt):
 * one warning for each such doubt, with the number of the clips and the first. */
void sounds_report_doubtful(const Recordings *recordings, const Clip *clips, int64_t n);
/* Warns of clips[n] whose duration is not what the list says, and of kept clips with the sound of another one; prints
 * how many files are parts that were cut out before. */
void sounds_report(const Recordings *recordings, const Clip *clips, int64_t n);
