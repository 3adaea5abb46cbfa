#include "data/tts/recordings_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "data/text/encoding.h"

enum { MAX_COLUMNS = 64 };

/* Returns the number of fields between separators. The first MAX_COLUMNS begin at fields[i]; each ends before the
 * separator in front of the next, and fields[number] is where one behind the last would begin, if there is room. */
static int split(const char *line, size_t n, char separator, const char **fields) {
    int count = 0;
    for (const char *at = line, *end = line + n;; count++) {
        if (count <= MAX_COLUMNS) fields[count] = at;
        if (at > end) return count;
        const char *next = memchr(at, separator, (size_t)(end - at));
        at = (next ? next : end) + 1;
    }
}

/* Returns field i of a line that was split; free(). */
static char *copy_field(const char *const *fields, int i) {
    return xformat("%.*s", (int)(fields[i + 1] - fields[i] - 1), fields[i]);
}

int recordings_find_column(const char *line, size_t n, const char *name) {
    const char *fields[MAX_COLUMNS + 1];
    int count = split(line, n, '\t', fields);
    for (int i = 0; i < count && i < MAX_COLUMNS; i++) {
        size_t length = (size_t)(fields[i + 1] - fields[i] - 1);
        if (length == strlen(name) && !memcmp(fields[i], name, length)) return i;
    }
    return -1;
}

bool recordings_read_header(ListReader *reader, const char *line, size_t n, Error *error) {
    const char *fields[MAX_COLUMNS + 1];
    if (!encoding_check_line(line, n, error)) return false;
    reader->n_columns = split(line, n, '\t', fields);
    if (reader->n_columns > MAX_COLUMNS)
        return error_set(error, "has %d columns; at most %d are read", reader->n_columns, MAX_COLUMNS);
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        const char *name = reader->names[i];
        int column = reader->columns[i] = name ? recordings_find_column(line, n, name) : -1;
        if (column < 0 && (reader->given[i] || i == FIELD_AUDIO || i == FIELD_TEXT))
            return error_set(error, "the header has no column %s (--%s-field): %.*s", name, recording_field_name(i),
                             (int)n, line);
        if (column >= 0 && column + 1 < reader->n_columns &&
            recordings_find_column(fields[column + 1], (size_t)(line + n - fields[column + 1]), name) >= 0)
            return error_set(error, "the header has two columns %s", name);
    }
    reader->out->has_ids = reader->columns[FIELD_ID] >= 0;
    reader->out->has_speakers = reader->columns[FIELD_SPEAKER] >= 0;
    return true;
}

static bool check_count(const ListReader *reader, int count, Error *error) {
    switch (reader->out->format) {
    case RECORDINGS_LIST:
        return count == 4 || error_set(error, "has %d tab-separated field%s, expected 4: id, speaker, audio file, text",
                                       count, format_plural(count));
    case RECORDINGS_LJSPEECH:
        return count == 2 || count == 3 ||
               error_set(error, "has %d field%s between bars, expected 3: id|text|normalized text", count,
                         format_plural(count));
    default:
        return count == reader->n_columns || error_set(error, "has %d tab-separated field%s, but the header has %d",
                                                       count, format_plural(count), reader->n_columns);
    }
}

/* Sets id, audio and text of a line of LJSpeech: the normalised text if there is one. */
static void set_ljspeech(Recording *r, const char *const *fields, int count) {
    r->id = copy_field(fields, 0);
    r->audio = xformat("wavs/%s%s", r->id, path_ending(r->id, ".wav") ? "" : ".wav");
    r->text = copy_field(fields, count - 1);
    if (*r->text || count < 3) return;
    free(r->text);
    r->text = copy_field(fields, 1);
}

/* Sets id and audio of a line of Common Voice, which names files in clips/; a path with a folder stands as it is. The
 * names of its first releases have no extension. */
static void set_common_voice(Recording *r) {
    char *name = r->audio;
    if (!*name || strchr(name, '/')) return;
    if (!r->id) r->id = recording_id_of(name);
    r->audio = xformat("clips/%s%s", name, strchr(name, '.') ? "" : ".mp3");
    free(name);
}

bool recordings_read_fields(ListReader *reader, const char *line, size_t n, Recording *r, Error *error) {
    static const int list[RECORDING_FIELDS] = {0, 1, 2, 3, -1};
    RecordingsFormat format = reader->out->format;
    const int *columns = format == RECORDINGS_LIST ? list : reader->columns;
    const char *fields[MAX_COLUMNS + 1];
    int count = split(line, n, format == RECORDINGS_LJSPEECH ? '|' : '\t', fields);
    if (!check_count(reader, count, error) || !encoding_check_line(line, n, error)) return false;
    if (format == RECORDINGS_LJSPEECH)
        set_ljspeech(r, fields, count);
    else
        for (int i = 0; i < RECORDING_FIELDS; i++)
            if (columns[i] >= 0) *recording_field(r, i) = copy_field(fields, columns[i]);
    if (format == RECORDINGS_COMMON_VOICE) set_common_voice(r);
    return true;
}
