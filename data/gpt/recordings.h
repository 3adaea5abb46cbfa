/* Recordings and their texts. */
#pragma once

#include "base/base.h"

/* The formats that people have recordings in; recordings_read.h describes them. */
typedef enum {
    RECORDINGS_AUTO, /* to be recognised */
    RECORDINGS_LIST,
    RECORDINGS_TABLE,
    RECORDINGS_COMMON_VOICE,
    RECORDINGS_LJSPEECH,
    RECORDINGS_BARS,
    RECORDINGS_FLEURS,
    RECORDINGS_JSONL,
    RECORDINGS_KALDI,
    RECORDINGS_FOLDER,
    RECORDINGS_FORMATS
} RecordingsFormat;

/* Returns the format of a name, "common-voice"; RECORDINGS_FORMATS: there is none. */
RecordingsFormat recordings_format(const char *name);
/* Returns the format in words, "table of Common Voice". */
const char *recordings_format_description(RecordingsFormat format);

typedef struct {
    int64_t line; /* in a folder: the place in the order of the names */
    char *id;     /* unique; can be the name of a file */
    char *speaker, *audio, *text;
    char *language;               /* NULL: not given, or empty */
    char *start, *end, *duration; /* as the list has them; NULL: not given, or empty */
    char *other;                  /* between bars: the second of three fields, until all lines are known */
    double from, to;              /* seconds in the file; 0 and INFINITY: all of it */
    double stated;                /* seconds that it lasts, by the list; 0: the list does not say */
} Recording;

typedef struct {
    Recording *items;
    int64_t count;
    RecordingsFormat format;
    char separator;                           /* of a table; 0: none */
    char *list;                               /* path of the file; NULL: a folder */
    char *directory;                          /* audio paths are relative to it */
    bool has_ids, has_speakers;               /* false: made of the names of the audio files */
    int64_t lone_texts, other_files;          /* in a folder: texts without audio, and files that are neither */
    char *first_lone_text, *first_other_file; /* paths below the folder, first in order; NULL: none */
    int64_t subtitles;                        /* in a folder: files with texts and their times; also other files */
    char *first_subtitles;                    /* its path below the folder; NULL: none */
    int64_t bad;                              /* lines of a list that were left out */
    char *first_bad;                          /* "LINE: why"; NULL: none */
    int64_t speakers_changed;                 /* speakers that got the spelling of one before (labels_unify) */
    int64_t quoted;                           /* texts that begin and end with a quote */
    int64_t moved;                            /* audio files that lie elsewhere than the list says */
    char *moved_to;                           /* "wavs/NAME.wav"; NULL: none were moved */
    const char *read_as;                      /* "id|speaker|text" if the texts have decided it; NULL */
    char *doubt;                              /* why the column of the text may be another one; NULL: nothing */
} Recordings;

/* Returns what the recordings come from, "table of Common Voice". */
const char *recordings_description(const Recordings *recordings);
void recordings_close(Recordings *recordings);

/* Returns whether the recording is a part of its file. */
bool recording_is_part(const Recording *recording);
/* Returns where a recording is listed, "list.tsv:7", or the path of its audio file in a folder; free(). */
char *recording_place(const Recordings *recordings, const Recording *recording);

/* ---- for readers ---- */

enum {
    FIELD_ID,
    FIELD_SPEAKER,
    FIELD_AUDIO,
    FIELD_TEXT,
    FIELD_LANGUAGE,
    FIELD_START,
    FIELD_END,
    FIELD_DURATION,
    RECORDING_FIELDS
};
/* Returns the name of a field, "audio"; the option --audio-field gives another. */
const char *recording_field_name(int field);
/* Returns the names that columns and JSON fields of this kind have, the first of which is that of the field; the last
 * is followed by NULL. */
const char *const *recording_field_names(int field);
/* Returns the address of a field. */
char **recording_field(Recording *r, int field);
/* Appends an empty recording. It moves when the next one is added. */
Recording *recordings_add(Recordings *out);
/* Counts a line that cannot be used, because of the error, if it may be left out, and removes the recordings from
 * number `before` on. Returns whether it may. */
bool recordings_leave_out(Recordings *out, bool may, int64_t before, Error *error);
/* Returns the id for an audio file: its path without the extension, with '_' for '/', or only the name if the path is
 * absolute; free(). */
char *recording_id_of(const char *audio);
/* Sets id and speaker if the format has none, makes empty optional fields none, reads the times, and checks the
 * recording. */
bool recording_finish(Recording *r, Error *error);
/* Makes a recording with a duration and without a beginning the first part of its file, if another one of the list has
 * a beginning: 0 is left out. */
void recordings_complete_times(Recordings *all);
/* Returns whether no two recordings have the same id. The error begins with "LINE: ", but not that of a folder. */
bool recordings_check_unique(const Recordings *all, Error *error);
