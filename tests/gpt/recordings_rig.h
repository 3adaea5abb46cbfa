/* For tests of lists and folders of recordings. */
#pragma once

#include "data/gpt/recordings_read.h"
#include "tests/gpt/corpus.h"

/* Parses a list, which must succeed. */
Recordings parse_recordings(RecordingsSource source, const char *text);
/* Recording i must be this. */
void check_recording(const Recordings *all, int64_t i, const char *id, const char *speaker, const char *audio,
                     const char *text);
/* Makes folder NAME below corpus_root with these files; a text of NULL stands for an empty file. */
char *make_recordings_folder(const char *name, const char *const (*files)[2], int n);
