/* Recognises sound that libsndfile could not open, and writes the commands that convert it. */
#pragma once

#include "base/base.h"

/* Returns what sound the open file holds by its first bytes, "MPEG-4 (M4A, MP4, MOV, 3GP)". NULL if it is none that
 * ffmpeg is known to read, or a WAV or CAF file of a codec that libsndfile reads. Sets *damaged if this libsndfile
 * reads sound of this kind, so that a file that it does not open is damaged. */
const char *conversion_kind(int fd, bool *damaged);

/* Returns whether the open file is something else than sound, and says what and what to do: "is a text, which begins
 * ...". */
bool conversion_none(int fd, Error *words);

/* Returns the shell command that converts a file to mono sound at `rate`: to WAV beside it, or to FLAC if it is named
 * .wav; free(). */
char *conversion_command(const char *path, int rate);
/* Returns the shell command that does so with all files in a folder, or also below it, whose name ends in `extension`
 * (".m4a"); links are followed; free(). */
char *conversion_loop(const char *folder, const char *extension, bool below, int rate);
