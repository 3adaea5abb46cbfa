#include "data/gpt/recordings_read.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/format.h"
#include "data/formats/csv.h"
#include "data/formats/json_records.h"
#include "data/formats/text_source.h"
#include "data/gpt/list_reader.h"
#include "data/gpt/recordings_folder.h"
#include "data/gpt/recordings_foreign.h"
#include "data/gpt/recordings_kaldi.h"
#include "data/gpt/recordings_places.h"
#include "data/text/encoding.h"
#include "data/text/label.h"
#include "data/text/utf8.h"

/* ---- lists ---- */

/* "none" says that there is no such field. */
static bool is_none(const char *name) { return name && !strcmp(name, "none"); }

static const char *name_of(const RecordingsSource *source, int field) {
    return is_none(source->names[field]) ? NULL : source->names[field];
}

static bool names_a_field(const RecordingsSource *source) {
    for (int i = 0; i < RECORDING_FIELDS; i++)
        if (name_of(source, i)) return true;
    return false;
}

/* Returns whether the fields that options give are given by numbers, and the line has none of these as names. */
static bool has_numbers(const RecordingsSource *source, const char *line, size_t n, char separator) {
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        const char *name = name_of(source, i);
        if (name && (recordings_column_number(name) < 0 || recordings_find_column(line, n, separator, name) >= 0))
            return false;
    }
    return names_a_field(source);
}

/* Returns whether a line names the columns: both those of audio and text, or those that options give. */
static bool names_columns(const RecordingsSource *source, const char *line, size_t n, char separator) {
    const char *audio = name_of(source, FIELD_AUDIO), *text = name_of(source, FIELD_TEXT);
    if (has_numbers(source, line, n, separator)) return recordings_look_like_header(line, n, separator);
    if (names_a_field(source) && separator == '\t') return true; /* the message then lists the columns */
    return recordings_column_name(line, n, separator, FIELD_AUDIO, audio) &&
           recordings_column_name(line, n, separator, FIELD_TEXT, text);
}

static RecordingsFormat recognise_tabs(const RecordingsSource *source, const char *line, size_t n) {
    if (recordings_find_column(line, n, '\t', "path") >= 0 && recordings_find_column(line, n, '\t', "sentence") >= 0)
        return recordings_find_column(line, n, '\t', "client_id") >= 0 && !source->names[FIELD_AUDIO]
                   ? RECORDINGS_COMMON_VOICE
                   : RECORDINGS_TABLE; /* which says what it needs if no columns are named */
    if (names_columns(source, line, n, '\t')) return RECORDINGS_TABLE;
    return !names_a_field(source) && recordings_look_like_fleurs(line, n) ? RECORDINGS_FLEURS : RECORDINGS_LIST;
}

/* Returns what separates the fields of a line. */
static char separator_of(const RecordingsSource *source, const char *line, size_t n) {
    return text_ending(source->path, ".tsv") || memchr(line, '\t', n) || !memchr(line, '|', n) ? '\t' : '|';
}

/* Returns the format of a list by the end of its name, else by its first line; RECORDINGS_AUTO: it is none. */
static RecordingsFormat recognise(const RecordingsSource *source, const char *line, size_t n) {
    const char *path = source->path;
    bool is_jsonl = text_ending(path, ".jsonl"), is_tsv = text_ending(path, ".tsv");
    size_t blanks = 0;
    while (blanks + 1 < n && line[blanks] == ' ') blanks++;
    if (is_jsonl || (!is_tsv && line[blanks] == '{')) return RECORDINGS_JSONL;
    if (separator_of(source, line, n) == '\t')
        return is_tsv || memchr(line, '\t', n) ? recognise_tabs(source, line, n) : RECORDINGS_AUTO;
    if (names_columns(source, line, n, '|')) return RECORDINGS_TABLE;
    return name_of(source, FIELD_AUDIO) || recordings_begin_with_path(line, n) ? RECORDINGS_BARS : RECORDINGS_LJSPEECH;
}

/* Takes, for each field, the name that an option gives, else that of Common Voice, or a usual one that the first line
 * has. */
static void choose_names(ListReader *reader, const RecordingsSource *source, const char *line, size_t n) {
    static const char *const common_voice[RECORDING_FIELDS] = {NULL, "client_id", "path", "sentence", "locale"};
    bool is_common_voice = reader->out->format == RECORDINGS_COMMON_VOICE;
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        const char *given = name_of(source, i),
                   *usual = reader->has_header ? recordings_column_name(line, n, reader->separator, i, NULL) : NULL;
        reader->given[i] = source->names[i];
        reader->columns[i] = -1;
        reader->names[i] = source->names[i]  ? given
                           : is_common_voice ? common_voice[i]
                           : usual           ? usual
                                             : recording_field_name(i);
    }
}

static bool has_header(RecordingsFormat format) {
    return format == RECORDINGS_TABLE || format == RECORDINGS_COMMON_VOICE;
}

/* Prepares for the format, which the first line may decide. */
static bool begin_list(ListReader *reader, const RecordingsSource *source, const char *line, size_t n, Error *error) {
    RecordingsFormat format = source->format ? source->format : recognise(source, line, n);
    reader->out->format = format;
    if (!format && text_ending(source->path, ".csv"))
        return error_set(error, "the format is not known; expected a line that names the columns (audio,text), or "
                                "their numbers: --audio-field 1 --text-field 2; for the audio and .txt files of a "
                                "folder, give it with --input-format folder");
    if (!format)
        return error_set(error, "the format is not known; expected JSON objects, fields between tabs, or ID|TEXT as in "
                                "LJSpeech; for the audio and .txt files of a folder, give it with --input-format "
                                "folder");
    if (is_none(source->names[FIELD_AUDIO]) || is_none(source->names[FIELD_TEXT]))
        return error_set(error, "--audio-field and --text-field cannot be none");
    reader->separator = format == RECORDINGS_LJSPEECH || format == RECORDINGS_BARS ? '|'
                        : format == RECORDINGS_TABLE                               ? separator_of(source, line, n)
                                                                                   : '\t';
    reader->out->separator = reader->separator;
    reader->has_header = has_header(format);
    choose_names(reader, source, line, n);
    return has_header(format) || format == RECORDINGS_JSONL || !names_a_field(source) ||
           has_numbers(source, line, n, reader->separator) ||
           error_set(error,
                     "fields were named by options, but have no names in this format: %s; give the numbers of its "
                     "columns, from 1",
                     recordings_format_description(format));
}

static bool parse_line(ListReader *reader, const char *line, size_t n, int64_t number, Error *error) {
    RecordingsFormat format = reader->out->format;
    bool first = !reader->started;
    reader->started = true;
    if (first && has_header(format)) return recordings_read_header(reader, line, n, error);
    if (first && !recordings_choose_columns(reader, line, n, error)) return false;
    Recording *r = recordings_add(reader->out);
    r->line = number;
    return recordings_read_fields(reader, line, n, r, error) && recording_finish(r, error);
}

static bool parse_json_line(ListReader *reader, const char *line, size_t n, int64_t *number, int *column,
                            Error *error) {
    Recording *r = recordings_add(reader->out);
    r->line = *number;
    return recordings_read_json(reader, line, n, r, number, column, error) && recording_finish(r, error);
}

/* Refuses JSON in which no line has the field that an option names for the language. */
static bool check_language(const ListReader *reader, int64_t lines, Error *error) {
    if (reader->out->format != RECORDINGS_JSONL || !reader->given[FIELD_LANGUAGE] || reader->has_language) return true;
    return error_set(error, "%lld: neither this line nor one before it has %s (--language-field)", (long long)lines,
                     reader->names[FIELD_LANGUAGE]);
}

/* Reads a line: a JSON object, or fields between tabs or bars. The first one decides the format. column: in which a
 * record of an array begins; else 0. */
static bool read_line(ListReader *reader, const RecordingsSource *source, const char *line, size_t n, int64_t number,
                      int column, Error *error) {
    Recordings *out = reader->out;
    int64_t before = out->count;
    bool first = !out->format;
    if (first && !begin_list(reader, source, line, n, error)) return error_before(error, "%lld: ", (long long)number);
    bool json = out->format == RECORDINGS_JSONL;
    if (json ? parse_json_line(reader, line, n, &number, &column, error) : parse_line(reader, line, n, number, error))
        return true;
    error_before(error, column ? "%lld:%d: " : "%lld: ", (long long)number, column);
    return (!first || json) && recordings_leave_out(out, source->skip_bad, before, error);
}

/* Returns a record of a .csv as a line with tabs between the fields; free(). Line ends and tabs in a field are blanks.
 */
static char *tabbed(const Csv *csv) {
    char *line = xstrdup("");
    for (int i = 0; i < csv->n; i++) {
        for (char *c = csv->fields[i]; *c; c++)
            if (*c == '\n' || *c == '\r' || *c == '\t') *c = ' ';
        xappend(&line, "%s%s", i ? "\t" : "", csv->fields[i]);
    }
    return line;
}

/* Returns whether the list is a .csv with a header, or numbers in place of one. LJSpeech has the same end, and bars
 * between its fields. */
static bool is_csv(const RecordingsSource *source, const char *text, size_t size) {
    RecordingsFormat format = source->format;
    Csv csv;
    Error error;
    for (; size && (*text == '\n' || *text == '\r'); size--) text++; /* empty lines, which the reader skips */
    const char *end = memchr(text, '\n', size);
    if (!text_ending(source->path, ".csv") || (format && !has_header(format))) return false;
    OWNED char *head = xformat("%.*s", (int)(end ? end - text + 1 : (int64_t)size), text);
    bool found = csv_statement(head, strlen(head), &(char){0}) > 0;
    if (!found && csv_open(&csv, head, strlen(head), ',', &error)) {
        OWNED char *line = csv_next(&csv, &error) && csv.n > 1 ? tabbed(&csv) : xstrdup("");
        found = *line && !strchr(head, '|') && csv.separator != '\t' &&
                (has_header(recognise(source, line, strlen(line))) || has_numbers(source, line, strlen(line), '\t'));
        csv_close(&csv);
    }
    return found;
}

static bool parse_csv(ListReader *reader, const RecordingsSource *source, const char *text, size_t size, Error *error) {
    OWNED char *copy = memcpy(xmalloc(size + 1), text, size);
    Csv csv;
    copy[size] = 0;
    bool ok = csv_open(&csv, copy, size, ',', error), more = ok;
    while (ok && more) {
        more = csv_next(&csv, error);
        OWNED char *line = more ? tabbed(&csv) : NULL;
        if (more)
            ok = read_line(reader, source, line, strlen(line), csv.line, 0, error);
        else if (error->text[0])
            ok = more =
                csv_skip(&csv) && recordings_leave_out(reader->out, source->skip_bad, reader->out->count, error);
    }
    reader->out->separator = ',';
    csv_close(&csv);
    return ok;
}

static bool parse_array(ListReader *reader, const RecordingsSource *source, const char *text, size_t size,
                        int64_t *number, Error *error) {
    JsonRecords records = json_records_open(text, size, 1, true);
    while (json_records_next(&records, error))
        if (!read_line(reader, source, records.text, records.size, *number = records.line, records.column, error))
            return false;
    return !error->text[0];
}

static bool parse_lines(ListReader *reader, const RecordingsSource *source, const char *text, size_t size,
                        int64_t *number, Error *error) {
    const char *end = text + size;
    for (const char *at = text, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t n = (size_t)(stop - at);
        if (n && at[n - 1] == '\r') n--;
        ++*number;
        if (n && !read_line(reader, source, at, n, *number, 0, error)) return false;
    }
    return true;
}

bool recordings_parse(const char *text, size_t size, const RecordingsSource *source, Recordings *out, Error *error) {
    RecordingsSource as_it_is = *source;
    ListReader reader = {.out = out};
    size_t mark = utf8_mark(text, size);
    int64_t lines = 0;
    bool json = text_ending(source->path, ".json") || text_ending(source->path, ".jsonl") ||
                source->format == RECORDINGS_JSONL,
         array = json && json_begins_array(text + mark, size - mark), ok;
    const char *binary = encoding_of_binary(text, size);
    *out = (Recordings){0};
    if (size >= 5 && !memcmp(text, "PAR1\x15", 5)) /* other tables have no sound */
        return error_set(error, "1: the file is a Parquet table, which may hold the sound as well: docs/train_gpt.md, "
                                "\"What prepare reads\", has the lines of Python that write both out");
    if (binary) return error_set(error, "1: the file %s", binary);
    text += mark;
    size -= mark;
    if ((!source->format && !names_a_field(source) && recordings_are_foreign(source->path, text, size, error)) ||
        (json && !array && recordings_are_one_object(text, size, error)))
        return error_before(error, "1: ");
    if (array && !source->format) as_it_is.format = RECORDINGS_JSONL;
    ok = array                        ? parse_array(&reader, &as_it_is, text, size, &lines, error)
         : is_csv(source, text, size) ? parse_csv(&reader, source, text, size, error)
                                      : parse_lines(&reader, source, text, size, &lines, error);
    ok = ok && check_language(&reader, lines, error) && recordings_settle_columns(&reader, error) &&
         recordings_check_unique(out, error);
    if (ok) recordings_complete_times(out);
    if (!ok) recordings_close(out);
    return ok;
}

/* ---- files and folders ---- */

static bool has_tables(const char *folder) {
    DIR *directory = opendir(folder);
    bool found = false;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));)
        found = path_ending(entry->d_name, ".tsv") != NULL;
    if (directory) closedir(directory);
    return found;
}

/* Finds the list to read: the path, or the metadata.csv or .jsonl of a folder. *list is NULL if the folder itself is to
 * be read; free(). */
static bool find_list(const RecordingsSource *source, char **list, Error *error) {
    static const char *const names[] = {"metadata.csv", "metadata.jsonl"};
    const char *path = source->path;
    RecordingsFormat format = source->format;
    *list = NULL;
    if (!path_is_folder(path)) {
        if (format == RECORDINGS_FOLDER || format == RECORDINGS_KALDI)
            return error_set(error, "%s: is not a folder", path);
        *list = xstrdup(path);
        return true;
    }
    if (format == RECORDINGS_FOLDER || format == RECORDINGS_KALDI) return true;
    for (int i = 0; i < 2 && !*list && (!format || format == (i ? RECORDINGS_JSONL : RECORDINGS_LJSPEECH)); i++)
        if (path_holds(path, names[i])) *list = path_join(path, names[i]);
    if (*list) return true;
    OWNED char *clips = path_join(path, "clips");
    bool has_clips = path_is_folder(clips) && has_tables(path);
    if ((has_clips && !format) || format == RECORDINGS_COMMON_VOICE)
        return error_set(error,
                         "%s: a folder of Common Voice has several lists: name one, such as %s/validated.tsv; for the "
                         "folder's audio and .txt files, --input-format folder",
                         path, path);
    return !format || error_set(error, "%s: is a folder, not a regular file; expected a file for %s", path,
                                recordings_format_description(format));
}

static bool read_list(const char *path, const RecordingsSource *source, Recordings *out, Error *error) {
    RecordingsSource list = *source;
    OWNED char *bytes = NULL;
    size_t size;
    list.path = path;
    if (!list.format && !names_a_field(&list) && recordings_is_in_kaldi(path))
        return error_set(error, "%s: is one of the files of a folder of Kaldi: give the folder", path);
    if (!text_read(path, &bytes, &size, error)) return error_before(error, "%s: ", path);
    if (!recordings_parse(bytes, size, &list, out, error)) return error_before(error, "%s:", path);
    out->list = xstrdup(path);
    out->directory = path_directory(path);
    if (out->format != RECORDINGS_COMMON_VOICE) recordings_find_audio(out);
    return out->count > 0 ||
           (out->bad ? error_set(error, "%s: holds no recordings: none of its lines can be used, the first: line %s",
                                 path, out->first_bad)
                     : error_set(error, "%s: holds no recordings", path));
}

static bool read_folder(const RecordingsSource *source, Recordings *out, Error *error) {
    const char *path = source->path;
    if (names_a_field(source)) return error_set(error, "%s: fields were named by options, but a folder has none", path);
    bool is_kaldi = !source->format ? recordings_is_kaldi(path) : source->format == RECORDINGS_KALDI;
    out->format = is_kaldi ? RECORDINGS_KALDI : RECORDINGS_FOLDER;
    out->directory = xstrdup(path);
    if (is_kaldi && !recordings_read_kaldi(path, source->skip_bad, out, error)) return false;
    if (is_kaldi) recordings_find_audio(out);
    return (is_kaldi || recordings_read_folder(path, out, error)) &&
           (recordings_check_unique(out, error) || error_before(error, "%s: ", path));
}

/* Gives a speaker one spelling, so that his recordings are pairs of each other. */
static void unify_speakers(Recordings *out) {
    OWNED char ***speakers = xmalloc((size_t)out->count * sizeof *speakers);
    for (int64_t i = 0; i < out->count; i++) speakers[i] = &out->items[i].speaker;
    out->speakers_changed = labels_unify(speakers, out->count);
    OWNED const char **names = xmalloc((size_t)out->count * sizeof *names);
    for (int64_t i = 0; i < out->count; i++) names[i] = out->items[i].speaker;
    labels_warn_alike(out->list ? out->list : out->directory, "speakers", names, out->count);
}

static void warn_of_texts(const Recordings *all) {
    const char *place = all->list ? all->list : all->directory;
    if (all->doubt) warn("%s: %s", place, all->doubt);
    if (10 * all->quoted >= 9 * all->count)
        warn("%s: %lld of %lld texts are in quotes, which are taken as a part of the text; a program that writes CSV "
             "has put them there: write the list without them (in pandas quoting=3), or with commas to a .csv, whose "
             "quotes are understood",
             place, (long long)all->quoted, (long long)all->count);
}

/* Warns of parts of MP3 files that take long: what lies before them must be decoded, too. */
static void warn_of_parts(const Recordings *all) {
    static const double LONG = 10 * 3600; /* seconds of sound, a minute of a processor's time */
    const char *place = all->list ? all->list : all->directory;
    const Recording *first = NULL;
    double before = 0;
    int64_t parts = 0;
    char duration[32];
    for (int64_t i = 0; i < all->count; i++) {
        const Recording *r = &all->items[i];
        if (!recording_is_part(r) || !path_ending(r->audio, ".mp3")) continue;
        before += r->from;
        if (!parts++) first = r;
    }
    if (before < LONG) return;
    warn("%s: %lld recordings are parts of MP3 files (the first: %s), each of which is decoded from its beginning for "
         "each part: %s of sound in all; FLAC or WAV made of them is read at once",
         place, (long long)parts, first->audio, format_duration(before, duration));
}

bool recordings_read(const RecordingsSource *source, Recordings *out, Error *error) {
    OWNED char *list = NULL;
    *out = (Recordings){0};
    if (!find_list(source, &list, error)) return false;
    if (!(list ? read_list(list, source, out, error) : read_folder(source, out, error))) {
        recordings_close(out);
        return false;
    }
    unify_speakers(out);
    warn_of_texts(out);
    warn_of_parts(out);
    return true;
}
