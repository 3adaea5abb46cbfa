/* Recognises files of other programs that have texts, or their times, but name no sounds. */
#pragma once

#include "base/base.h"

/* Returns whether the name of a file ends as those of subtitles and annotations. */
bool recordings_name_subtitles(const char *path);
/* Returns what subtitles are to be made into: "make a list of their texts ...". */
const char *recordings_subtitles_advice(void);
/* Returns whether a list is none that can be read, by the end of its name or its first lines, and says what it is and
 * what to do: "holds subtitles (SubRip): ...". */
bool recordings_are_foreign(const char *path, const char *text, size_t size, Error *words);
