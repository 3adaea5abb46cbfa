#include "data/tts/recordings_read.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/text/encoding.h"
#include "data/tts/recordings_fields.h"
#include "data/tts/recordings_folder.h"
#include "data/tts/recordings_json.h"

/* ---- lists ---- */

/* Refuses a first line that has two or more names of columns in place of values. */
static bool check_no_header(const Recording *r, Error *error) {
    int names = !strcasecmp(r->id, "id") + !strcasecmp(r->speaker, "speaker") + !strcasecmp(r->audio, "audio") +
                !strcasecmp(r->text, "text");
    return names < 2 || error_set(error,
                                  "this line looks like a header (%s, %s, ...); name its columns with --audio-field "
                                  "and --text-field, or remove it",
                                  r->id, r->speaker);
}

static bool names_a_field(const RecordingsSource *source) {
    for (int i = 0; i < RECORDING_FIELDS; i++)
        if (source->names[i]) return true;
    return false;
}

/* Returns the format of a list by the end of its name, else by its first line; RECORDINGS_AUTO: it is none. */
static RecordingsFormat recognise(const RecordingsSource *source, const char *line, size_t n) {
    const char *path = source->path;
    bool is_jsonl = ends_with(path, ".jsonl"), is_tsv = ends_with(path, ".tsv");
    if (is_jsonl || (!is_tsv && *line == '{')) return RECORDINGS_JSONL;
    if (!is_tsv && !memchr(line, '\t', n)) return memchr(line, '|', n) ? RECORDINGS_LJSPEECH : RECORDINGS_AUTO;
    if (recordings_find_column(line, n, "path") >= 0 && recordings_find_column(line, n, "sentence") >= 0)
        return recordings_find_column(line, n, "client_id") >= 0 && !source->names[FIELD_AUDIO]
                   ? RECORDINGS_COMMON_VOICE
                   : RECORDINGS_TABLE; /* which says what it needs if no columns are named */
    if (names_a_field(source)) return RECORDINGS_TABLE;
    bool has_names = recordings_find_column(line, n, "audio") >= 0 && recordings_find_column(line, n, "text") >= 0;
    return has_names ? RECORDINGS_TABLE : RECORDINGS_LIST;
}

static void choose_names(ListReader *reader, const char *const *given) {
    static const char *const common_voice[] = {NULL, "client_id", "path", "sentence", "locale"};
    bool is_common_voice = reader->out->format == RECORDINGS_COMMON_VOICE;
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        reader->given[i] = given[i];
        reader->names[i] = given[i] ? given[i] : is_common_voice ? common_voice[i] : recording_field_name(i);
    }
}

static bool has_header(RecordingsFormat format) {
    return format == RECORDINGS_TABLE || format == RECORDINGS_COMMON_VOICE;
}

/* Prepares for the format, which the first line may decide. */
static bool begin_list(ListReader *reader, const RecordingsSource *source, const char *line, size_t n, Error *error) {
    RecordingsFormat format = source->format ? source->format : recognise(source, line, n);
    reader->out->format = format;
    if (!format)
        return error_set(error, "the format is not known; expected JSON objects, fields between tabs, or ID|TEXT as in "
                                "LJSpeech; for the audio and .txt files of a folder, give it with --input-format "
                                "folder");
    choose_names(reader, source->names);
    reader->out->has_ids = format == RECORDINGS_LIST || format == RECORDINGS_LJSPEECH;
    reader->out->has_speakers = format == RECORDINGS_LIST;
    return has_header(format) || format == RECORDINGS_JSONL || !names_a_field(source) ||
           error_set(error, "fields were named by options, but have no names in this format: %s",
                     recordings_format_description(format));
}

static bool parse_line(ListReader *reader, const char *line, size_t n, int64_t number, Error *error) {
    RecordingsFormat format = reader->out->format;
    bool first = !reader->started;
    reader->started = true;
    if (first && has_header(format)) return recordings_read_header(reader, line, n, error);
    Recording *r = recordings_add(reader->out);
    r->line = number;
    return recordings_read_fields(reader, line, n, r, error) && recording_finish(r, error) &&
           (!first || format != RECORDINGS_LIST || check_no_header(r, error));
}

static bool parse_json_line(ListReader *reader, const char *line, size_t n, int64_t number, int *column, Error *error) {
    Recording *r = recordings_add(reader->out);
    r->line = number;
    return recordings_read_json(reader, line, n, r, column, error) && recording_finish(r, error);
}

/* Puts "LINE: " or "LINE:COLUMN: " before an error. */
static void add_place(int64_t line, int column, Error *error) {
    Error why = *error;
    if (column)
        error_set(error, "%lld:%d: %s", (long long)line, column, why.text);
    else
        error_set(error, "%lld: %s", (long long)line, why.text);
}

/* Refuses JSON in which no line has the field that an option names for the language. */
static bool check_language(const ListReader *reader, int64_t lines, Error *error) {
    if (reader->out->format != RECORDINGS_JSONL || !reader->given[FIELD_LANGUAGE] || reader->has_language) return true;
    return error_set(error, "%lld: neither this line nor one before it has %s (--language-field)", (long long)lines,
                     reader->names[FIELD_LANGUAGE]);
}

bool recordings_parse(const char *text, size_t size, const RecordingsSource *source, Recordings *out, Error *error) {
    const char *end = text + size;
    int64_t number = 0;
    bool ok = true;
    ListReader reader = {.out = out};
    const char *binary = encoding_of_binary(text, size);
    *out = (Recordings){0};
    if (binary) return error_set(error, "1: the file %s", binary);
    if (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) text += 3;
    for (const char *at = text, *stop; ok && at < end; at = stop + 1) {
        int column = 0;
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t n = (size_t)(stop - at);
        if (n && at[n - 1] == '\r') n--;
        number++;
        if (!n) continue;
        ok = out->format || begin_list(&reader, source, at, n, error);
        ok = ok && (out->format == RECORDINGS_JSONL ? parse_json_line(&reader, at, n, number, &column, error)
                                                    : parse_line(&reader, at, n, number, error));
        if (!ok) add_place(number, column, error);
    }
    ok = ok && check_language(&reader, number, error) && recordings_check_unique(out, error);
    if (!ok) recordings_close(out);
    return ok;
}

/* ---- files and folders ---- */

static bool has_tables(const char *folder) {
    DIR *directory = opendir(folder);
    bool found = false;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));)
        found = ends_with(entry->d_name, ".tsv");
    if (directory) closedir(directory);
    return found;
}

/* Finds the list to read: the path, or the metadata.csv of a folder. *list is NULL if the folder itself is to be read;
 * free(). */
static bool find_list(const RecordingsSource *source, char **list, Error *error) {
    const char *path = source->path;
    *list = NULL;
    if (!path_is_folder(path)) {
        if (source->format == RECORDINGS_FOLDER) return error_set(error, "%s: is not a folder", path);
        *list = xstrdup(path);
        return true;
    }
    if (source->format == RECORDINGS_FOLDER) return true;
    char *metadata = path_join(path, "metadata.csv"), *clips = path_join(path, "clips");
    bool is_ljspeech = !source->format || source->format == RECORDINGS_LJSPEECH;
    bool has_metadata = is_ljspeech && !access(metadata, F_OK), has_clips = path_is_folder(clips) && has_tables(path);
    if (has_metadata) *list = xstrdup(metadata);
    free(metadata);
    free(clips);
    if (has_metadata) return true;
    if ((has_clips && !source->format) || source->format == RECORDINGS_COMMON_VOICE)
        return error_set(error,
                         "%s: a folder of Common Voice has several lists: name one, such as %s/validated.tsv; for the "
                         "folder's audio and .txt files, --input-format folder",
                         path, path);
    return !source->format || error_set(error, "%s: is a folder, not a regular file; expected a file for %s", path,
                                        recordings_format_description(source->format));
}

static bool read_list(const char *path, const RecordingsSource *source, Recordings *out, Error *error) {
    RecordingsSource list = *source;
    char *bytes;
    size_t size;
    Error why;
    list.path = path;
    if (!read_file(path, &bytes, &size, &why)) return error_set(error, "%s: %s", path, why.text);
    bool ok = recordings_parse(bytes, size, &list, out, &why);
    free(bytes);
    if (!ok) return error_set(error, "%s:%s", path, why.text);
    out->list = xstrdup(path);
    out->directory = path_directory(path);
    return out->count > 0 || error_set(error, "%s: holds no recordings", path);
}

static bool read_folder(const RecordingsSource *source, Recordings *out, Error *error) {
    const char *path = source->path;
    Error why;
    if (names_a_field(source)) return error_set(error, "%s: fields were named by options, but a folder has none", path);
    out->format = RECORDINGS_FOLDER;
    out->directory = xstrdup(path);
    return recordings_read_folder(path, out, error) &&
           (recordings_check_unique(out, &why) || error_set(error, "%s: %s", path, why.text));
}

bool recordings_read(const RecordingsSource *source, Recordings *out, Error *error) {
    char *list;
    *out = (Recordings){0};
    if (!find_list(source, &list, error)) return false;
    bool ok = list ? read_list(list, source, out, error) : read_folder(source, out, error);
    free(list);
    if (!ok) recordings_close(out);
    return ok;
}
