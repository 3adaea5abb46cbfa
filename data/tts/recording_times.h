/* The times in a list: which part of its file a recording is, and how long it lasts. */
#ifndef DATA_TTS_RECORDING_TIMES_H
#define DATA_TTS_RECORDING_TIMES_H

#include "data/tts/recordings.h"

/* Sets from, to and stated by start, end and duration, in seconds or [HOURS:]MINUTES:SECONDS. A duration is the length
 * of a part only if the list says where that begins; one that is no time is left alone then. */
bool recording_read_times(Recording *recording, Error *error);
/* Makes a recording with a duration and without a beginning the first part of its file, if another one of the list has
 * a beginning: 0 is left out. */
void recordings_complete_times(Recordings *all);

#endif
