/* Finds audio files that lie elsewhere than their list says. */
#pragma once

#include "data/gpt/recordings.h"

/* Where files do not exist, looks for one of them in the folders that data sets have (wavs/, audio/, ...), in the
 * folder above the list, and with the usual extensions. All missing files that lie at the place where the first one is
 * found are taken from there: sets their paths, moved and moved_to. */
void recordings_find_audio(Recordings *all);
