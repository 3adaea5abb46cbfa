/* Reads a folder of audio files, each with its text in a .txt file of the same name beside it. */
#pragma once

#include "data/gpt/recordings.h"

/* Returns whether the name of a file ends as those of sound that libsndfile reads. */
bool recordings_name_sound(const char *path);
/* Adds the audio files in and below a folder, in the order of their names; hidden files and folders are left out. The
 * first folder of a path is the speaker, but the one that the name of the file begins with, if there is one
 * (84/121123/84_121123_000007.wav). The text of NAME.wav is in NAME.txt, else in NAME.normalized.txt, as in LibriTTS,
 * or NAME.lab; without one it is empty. If two audio files have one name, the one that libsndfile reads is taken. The
 * error begins with a path. */
bool recordings_read_folder(const char *path, Recordings *out, Error *error);
/* Says how many files with subtitles were left out, and what to do with them; free(). */
char *recordings_subtitles(const Recordings *recordings);
