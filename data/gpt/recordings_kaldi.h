/* Reads a folder of Kaldi: wav.scp (recording, file), text (utterance, text), and, if there are, segments (utterance,
 * recording, start, end) and utt2spk (utterance, speaker). */
#pragma once

#include "data/gpt/recordings.h"

/* Returns whether a folder has wav.scp and text. */
bool recordings_is_kaldi(const char *folder);
/* Returns whether a file is one of such a folder, which says nothing alone. */
bool recordings_is_in_kaldi(const char *path);
/* Adds the utterances of wav.scp, or of segments, in their order; one without a line in text has an empty text, and a
 * text without sound is counted. Commands in wav.scp are refused, and so is an utterance without a recording, unless
 * such lines may be left out (skip_bad). The error begins with a path. */
bool recordings_read_kaldi(const char *folder, bool skip_bad, Recordings *out, Error *error);
