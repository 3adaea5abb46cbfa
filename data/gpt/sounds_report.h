/* Reports what the sounds of a list say about the list. */
#ifndef DATA_GPT_SOUNDS_REPORT_H
#define DATA_GPT_SOUNDS_REPORT_H

#include "data/gpt/clip.h"

/* Warns of clips[n] whose duration is not what the list says, and of kept clips with the sound of another one; prints
 * how many files are parts that were cut out before. */
void sounds_report(const Recordings *recordings, const Clip *clips, int64_t n);

#endif
