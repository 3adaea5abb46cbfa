/* Reads recordings and their texts in the formats that people have them in:
 *
 * list          .tsv without a header: id, speaker, audio file, text
 * table         .tsv with a header that names the columns, or .csv (data/formats/csv.h)
 * common-voice  .tsv of Common Voice, a header with path, sentence, client_id, locale; audio in clips/ beside it, but
 *               a path with a slash stands as it is
 * ljspeech      metadata.csv of LJSpeech: id|text|normalized text; audio in wavs/ID.wav beside it
 * jsonl         a JSON object per line, or in a .json file an array of them
 * folder        audio files at any depth, the text of NAME.wav in NAME.txt beside it
 *
 * Text is UTF-8, or UTF-16 with a byte order mark, plain or compressed by gzip; a byte order mark and empty lines are
 * skipped. Audio paths are relative to the list. Where there are no ids, they are made of the names of the audio files;
 * where there are no speakers, all recordings are of one. */
#pragma once

#include "data/gpt/recordings.h"

typedef struct {
    const char *path;        /* of a list, of a folder, or of a folder with a metadata.csv of LJSpeech */
    RecordingsFormat format; /* RECORDINGS_AUTO: recognised by the end of the path, else by the first line */
    /* Names of JSON fields or columns; NULL: "id", "speaker", "audio", "text", "language", or those of Common Voice. */
    const char *names[RECORDING_FIELDS];
    bool skip_bad; /* leave lines of a list out that cannot be used, and count them */
} RecordingsSource;

/* Parses the bytes of a list; source->path only decides the format. Returns false with "LINE: ..." or "LINE:COLUMN:
 * ..." for the first bad line or duplicate id. */
bool recordings_parse(const char *text, size_t size, const RecordingsSource *source, Recordings *out, Error *error);
/* Reads a list or a folder, at least one recording. The error begins with a path. */
bool recordings_read(const RecordingsSource *source, Recordings *out, Error *error);
