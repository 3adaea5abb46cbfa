#include "data/gpt/list_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "data/formats/csv.h"
#include "data/gpt/recordings_folder.h"
#include "data/text/encoding.h"

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

static size_t field_size(const char *const *fields, int i) { return (size_t)(fields[i + 1] - fields[i] - 1); }

/* Returns field i of a line that was split; free(). */
static char *copy_field(const char *const *fields, int i) {
    return xformat("%.*s", (int)field_size(fields, i), fields[i]);
}

static bool field_is(const char *const *fields, int i, const char *name, bool any_case) {
    size_t size = field_size(fields, i);
    return size == strlen(name) && !(any_case ? strncasecmp(fields[i], name, size) : memcmp(fields[i], name, size));
}

/* ---- columns by name and number ---- */

int recordings_find_column(const char *line, size_t n, char separator, const char *name) {
    const char *fields[MAX_COLUMNS + 1];
    int count = split(line, n, separator, fields);
    for (int i = 0; i < count && i < MAX_COLUMNS; i++)
        if (field_is(fields, i, name, false)) return i;
    return -1;
}

int recordings_column_number(const char *name) {
    int64_t number;
    return csv_integer(name, &number) && number > 0 && number <= MAX_COLUMNS ? (int)number - 1 : -1;
}

const char *recordings_column_name(const char *line, size_t n, char separator, int field, const char *given) {
    if (given) return recordings_find_column(line, n, separator, given) >= 0 ? given : NULL;
    for (const char *const *name = recording_field_names(field); *name; name++)
        if (recordings_find_column(line, n, separator, *name) >= 0) return *name;
    return NULL;
}

bool recordings_look_like_header(const char *line, size_t n, char separator) {
    static const char *const others[] = {"path", "client_id", NULL};
    const char *fields[MAX_COLUMNS + 1];
    int count = split(line, n, separator, fields), found = 0;
    for (int i = 0; i < count && i < MAX_COLUMNS; i++) {
        bool is_name = false;
        for (int k = 0; k <= RECORDING_FIELDS; k++)
            for (const char *const *name = k < RECORDING_FIELDS ? recording_field_names(k) : others; *name; name++)
                is_name |= field_is(fields, i, *name, true);
        found += is_name;
    }
    return found >= 2;
}

bool recordings_look_like_fleurs(const char *line, size_t n) {
    const char *fields[MAX_COLUMNS + 1];
    if (split(line, n, '\t', fields) != 7) return false;
    OWNED char *audio = copy_field(fields, 1), *samples = copy_field(fields, 5);
    return recordings_name_sound(audio) && csv_integer(samples, &(int64_t){0}) &&
           (field_is(fields, 6, "MALE", true) || field_is(fields, 6, "FEMALE", true) ||
            field_is(fields, 6, "OTHER", true));
}

bool recordings_begin_with_path(const char *line, size_t n) {
    const char *fields[MAX_COLUMNS + 1];
    return split(line, n, '|', fields) == 4 || memchr(fields[0], '/', field_size(fields, 0));
}

/* Returns the place of a column in a header: by its name, else by its number. */
static int find_given(const char *line, size_t n, char separator, const char *name) {
    int column = recordings_find_column(line, n, separator, name);
    return column >= 0 ? column : recordings_column_number(name);
}

static bool check_number(const ListReader *reader, int field, int column, Error *error) {
    return column < reader->n_columns || error_set(error, "there is no column %d (--%s-field): the line has %d",
                                                   column + 1, recording_field_name(field), reader->n_columns);
}

static bool count_columns(ListReader *reader, const char *line, size_t n, const char **fields, Error *error) {
    if (!encoding_check_line(line, n, error)) return false;
    reader->n_columns = split(line, n, reader->separator, fields);
    return reader->n_columns <= MAX_COLUMNS ||
           error_set(error, "has %d columns; at most %d are read", reader->n_columns, MAX_COLUMNS);
}

bool recordings_read_header(ListReader *reader, const char *line, size_t n, Error *error) {
    const char *fields[MAX_COLUMNS + 1];
    if (!count_columns(reader, line, n, fields, error)) return false;
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        const char *name = reader->names[i];
        int column = reader->columns[i] = name ? find_given(line, n, reader->separator, name) : -1;
        if (column < 0 && name && (reader->given[i] || i == FIELD_AUDIO || i == FIELD_TEXT))
            return error_set(error, "the header has no column %s (--%s-field): %.*s", name, recording_field_name(i),
                             (int)n, line);
        if (!check_number(reader, i, column, error)) return false;
        if (column >= 0 && column + 1 < reader->n_columns &&
            recordings_find_column(fields[column + 1], (size_t)(line + n - fields[column + 1]), reader->separator,
                                   name) >= 0)
            return error_set(error, "the header has two columns %s", name);
    }
    reader->out->has_ids = reader->columns[FIELD_ID] >= 0;
    reader->out->has_speakers = reader->columns[FIELD_SPEAKER] >= 0;
    return true;
}

/* ---- columns without a header ---- */

/* Sets the columns that the format has of itself. */
static void set_usual_columns(ListReader *reader) {
    static const int list[] = {0, 1, 2, 3}, fleurs[] = {-1, -1, 1, 2}, list_of_bars[] = {-1, 1, 0, 3, 2},
                     bars[] = {-1, -1, 0, 1}, ljspeech[] = {0, -1, -1, 1};
    RecordingsFormat format = reader->out->format;
    const int *usual = format == RECORDINGS_LIST       ? list
                       : format == RECORDINGS_FLEURS   ? fleurs
                       : format == RECORDINGS_LJSPEECH ? ljspeech
                       : reader->n_columns == 4        ? list_of_bars
                                                       : bars;
    for (int i = 0; i < RECORDING_FIELDS; i++) reader->columns[i] = -1;
    for (int i = 0; i <= (usual == list_of_bars ? FIELD_LANGUAGE : FIELD_TEXT); i++) reader->columns[i] = usual[i];
}

/* Sets the columns that options give by their numbers, in place of the usual ones but for the first one between bars.
 * There the text is the last column that is not given. */
static bool set_given_columns(ListReader *reader, Error *error) {
    const RecordingsFormat format = reader->out->format;
    const bool bars = format == RECORDINGS_LJSPEECH || format == RECORDINGS_BARS;
    bool taken[MAX_COLUMNS] = {bars};
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        if (!bars || reader->columns[i] > 0) reader->columns[i] = -1;
        if (!reader->given[i] || !reader->names[i]) continue;
        int column = reader->columns[i] = recordings_column_number(reader->names[i]);
        if (!check_number(reader, i, column, error)) return false;
        taken[column] = true;
    }
    for (int k = reader->n_columns - 1; bars && k > 0 && reader->columns[FIELD_TEXT] < 0; k--)
        if (!taken[k]) reader->columns[FIELD_TEXT] = k;
    bool has_audio = reader->columns[FIELD_AUDIO] >= 0 || format == RECORDINGS_LJSPEECH;
    return (has_audio && reader->columns[FIELD_TEXT] >= 0) ||
           error_set(error, "the list has no header: give the numbers of the columns of both audio and text "
                            "(--audio-field 2 --text-field 3)");
}

bool recordings_choose_columns(ListReader *reader, const char *line, size_t n, Error *error) {
    const char *fields[MAX_COLUMNS + 1];
    bool given = false;
    if (!count_columns(reader, line, n, fields, error)) return false;
    if (recordings_look_like_header(line, n, reader->separator) && reader->n_columns > 1)
        return error_set(error,
                         "this line looks like a header (%.*s, %.*s, ...); name its columns with --audio-field and "
                         "--text-field, or remove it",
                         (int)field_size(fields, 0), fields[0], (int)field_size(fields, 1), fields[1]);
    set_usual_columns(reader);
    for (int i = 0; i < RECORDING_FIELDS; i++) given |= reader->given[i];
    reader->open_roles = !given && (reader->out->format == RECORDINGS_LJSPEECH ||
                                    (reader->out->format == RECORDINGS_BARS && reader->n_columns == 3));
    if (given && !set_given_columns(reader, error)) return false;
    reader->by_number = given;
    reader->out->has_ids = reader->columns[FIELD_ID] >= 0;
    reader->out->has_speakers = reader->columns[FIELD_SPEAKER] >= 0;
    return true;
}

/* ---- lines ---- */

/* Returns how to give the columns by their numbers if the first line has several: the sound is the first that is named
 * like one, the text the longest of the others; free(). */
static char *numbers_of(const ListReader *reader, const char *const *fields, int count) {
    int audio = 0, text = -1;
    if (count < 2 || count > MAX_COLUMNS || reader->out->count > 1) return xstrdup("");
    for (int i = count - 1; i >= 0; i--) {
        OWNED char *field = copy_field(fields, i);
        if (recordings_name_sound(field)) audio = i;
    }
    for (int i = 0; i < count; i++)
        if (i != audio && (text < 0 || field_size(fields, i) > field_size(fields, text))) text = i;
    return xformat("; or give the columns by their numbers: --audio-field %d --text-field %d", audio + 1, text + 1);
}

static bool check_count(const ListReader *reader, const char *const *fields, int count, Error *error) {
    const char *expected = NULL;
    RecordingsFormat format = reader->by_number ? RECORDINGS_FORMATS : reader->out->format;
    if (format == RECORDINGS_LIST && count != 4)
        expected = "%d tab-separated field%s, expected 4: id, speaker, audio file, text";
    if (format == RECORDINGS_LJSPEECH && (count < 2 || count > 3))
        expected = "%d field%s between bars, expected 3: id|text|normalized text";
    if (format == RECORDINGS_BARS && (count < 2 || reader->n_columns > 4))
        expected = "%d field%s between bars, expected 4: audio file|speaker|language|text";
    if (expected) {
        OWNED char *has = xformat(expected, count, format_plural(count)), *numbers = numbers_of(reader, fields, count);
        return error_set(error, "has %s%s", has, numbers);
    }
    if (format == RECORDINGS_LIST || format == RECORDINGS_LJSPEECH) return true;
    const char *kind = reader->separator == '|' ? "field%s between bars" : "tab-separated field%s";
    OWNED char *what = xformat(kind, format_plural(count));
    return count == reader->n_columns || error_set(error, "has %d %s, but the %s has %d", count, what,
                                                   reader->has_header ? "header" : "first line", reader->n_columns);
}

/* Sets the audio file of a line of LJSpeech. */
static void set_ljspeech(Recording *r) {
    r->audio = xformat("wavs/%s%s", r->id, path_ending(r->id, ".wav") ? "" : ".wav");
}

/* Sets id and audio of a line of Common Voice, which names files in clips/; a path with a folder stands as it is. The
 * names of its first releases have no extension. */
static void set_common_voice(Recording *r) {
    if (!*r->audio || strchr(r->audio, '/')) return;
    OWNED char *name = r->audio;
    if (!r->id) r->id = recording_id_of(name);
    r->audio = xformat("clips/%s%s", name, strchr(name, '.') ? "" : ".mp3");
}

bool recordings_read_fields(ListReader *reader, const char *line, size_t n, Recording *r, Error *error) {
    RecordingsFormat format = reader->out->format;
    const char *fields[MAX_COLUMNS + 1];
    int count = split(line, n, reader->separator, fields);
    if (!check_count(reader, fields, count, error) || !encoding_check_line(line, n, error)) return false;
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        int column = i == FIELD_TEXT && reader->open_roles ? count - 1 : reader->columns[i];
        if (column >= 0) *recording_field(r, i) = copy_field(fields, column);
    }
    if (reader->open_roles && count == 3) r->other = copy_field(fields, 1);
    for (int i = 0; i < count; i++)
        if (memchr(fields[i], ' ', field_size(fields, i))) reader->phrases[i] += (int64_t)field_size(fields, i);
    if (format == RECORDINGS_LJSPEECH && !r->audio) set_ljspeech(r);
    if (format == RECORDINGS_COMMON_VOICE) set_common_voice(r);
    return true;
}
