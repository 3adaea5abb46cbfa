#include "data/gpt/recordings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/formats/csv.h"

enum { MAX_ID_BYTES = 200 }; /* ID.npy.<16 hex>.partial then has 229; file systems allow 255 */

static const struct {
    const char *name, *description;
} formats[RECORDINGS_FORMATS] = {
    [RECORDINGS_AUTO] = {"auto", "any format"},
    [RECORDINGS_LIST] = {"list", "tab-separated list"},
    [RECORDINGS_TABLE] = {"table", "tab-separated table with a header"},
    [RECORDINGS_COMMON_VOICE] = {"common-voice", "table of Common Voice"},
    [RECORDINGS_LJSPEECH] = {"ljspeech", "metadata of LJSpeech"},
    [RECORDINGS_BARS] = {"bars", "list between bars"},
    [RECORDINGS_FLEURS] = {"fleurs", "list of FLEURS"},
    [RECORDINGS_JSONL] = {"jsonl", "JSON lines"},
    [RECORDINGS_KALDI] = {"kaldi", "folder of Kaldi"},
    [RECORDINGS_FOLDER] = {"folder", "folder of audio and .txt files"},
};

RecordingsFormat recordings_format(const char *name) {
    RecordingsFormat format = RECORDINGS_AUTO;
    while (format < RECORDINGS_FORMATS && strcmp(formats[format].name, name) != 0) format++;
    return format;
}

const char *recordings_format_description(RecordingsFormat format) { return formats[format].description; }

const char *recordings_description(const Recordings *r) {
    return r->format != RECORDINGS_TABLE || r->separator == '\t' ? recordings_format_description(r->format)
           : r->separator == '|'                                 ? "table between bars with a header"
                                                                 : "CSV table with a header";
}

/* ---- one recording ---- */

/* The names that Coqui, XTTS, Hugging Face, NeMo, DeepSpeech and Whisper give them. "path" is not among them: in lists
 * of Common Voice it needs a folder before it. Ids have one name alone, because other ids hold out other clips. */
static const char *const names[RECORDING_FIELDS][11] = {
    [FIELD_ID] = {"id"},
    [FIELD_SPEAKER] = {"speaker", "speaker_name", "speaker_id", "spk", "spk_id"},
    [FIELD_AUDIO] = {"audio", "audio_file", "file_name", "audio_filepath", "audio_path", "wav", "wav_path",
                     "wav_filename", "filename", "file"},
    [FIELD_TEXT] = {"text", "transcription", "transcript", "sentence", "normalized_text", "raw_transcription"},
    [FIELD_LANGUAGE] = {"language", "lang", "locale"},
    [FIELD_START] = {"start", "offset", "start_time", "begin_time"},
    [FIELD_END] = {"end", "end_time"},
    [FIELD_DURATION] = {"duration"},
};

const char *recording_field_name(int field) { return names[field][0]; }

const char *const *recording_field_names(int field) { return names[field]; }

char **recording_field(Recording *r, int i) {
    char **const fields[] = {&r->id, &r->speaker, &r->audio, &r->text, &r->language, &r->start, &r->end, &r->duration};
    return fields[i];
}

bool recording_is_part(const Recording *r) { return r->from > 0 || isfinite(r->to); }

/* An id becomes the name of a file, so it must not leave the directory, nor be a hidden file. */
static bool check_id(const char *id, Error *error) {
    if (!*id) return error_set(error, "the id is empty");
    if (strlen(id) > MAX_ID_BYTES)
        return error_set(error, "the id is longer than %d bytes: %.60s...", MAX_ID_BYTES, id);
    if (*id == '.') return error_set(error, "the id %s begins with a dot, but files are named after it", id);
    for (const char *c = id; *c; c++)
        if (*c == '/' || (unsigned char)*c < ' ' || *c == 127)
            return error_set(error, "the id %s has a slash or a control character, but files are named after it", id);
    return true;
}

char *recording_id_of(const char *audio) {
    if (*audio == '/') audio = strrchr(audio, '/') + 1;
    audio += strspn(audio, "./");
    const char *dot = path_extension(audio);
    char *id = dot ? xformat("%.*s", (int)(dot - audio), audio) : xstrdup(audio);
    for (char *c = id; *c; c++)
        if (*c == '/') *c = '_';
    return id;
}

/* Converts seconds, or hours, minutes and seconds between colons. */
static bool seconds_of(const char *text, double *out) {
    char part[64];
    double number;
    *out = 0;
    for (int parts = 0; parts < 3; parts++) {
        size_t n = strcspn(text, ":");
        if (n >= sizeof part) return false;
        memcpy(part, text, n);
        part[n] = 0;
        if (!csv_number(part, &number) || number < 0) return false;
        *out = 60 * *out + number;
        if (!text[n]) return *out <= 1e9; /* milliseconds of it are a whole number */
        text += n + 1;
    }
    return false;
}

/* Reads a time that decides which sound belongs to the text. */
static bool read_time(const char *text, int field, double *out, Error *error) {
    const char *name = recording_field_name(field);
    return seconds_of(text, out) ||
           error_set(error, "the %s is %.60s, expected seconds; --%s-field none leaves it alone", name, text, name);
}

/* Sets from, to and stated by start, end and duration, in seconds or [HOURS:]MINUTES:SECONDS. A duration is the length
 * of a part only if the list says where that begins; one that is no time is left alone then. */
static bool read_times(Recording *r, Error *error) {
    double length;
    r->from = r->stated = 0;
    r->to = INFINITY;
    if (r->duration && seconds_of(r->duration, &length)) r->stated = length;
    if (r->start && !read_time(r->start, FIELD_START, &r->from, error)) return false;
    if (r->end && !read_time(r->end, FIELD_END, &r->to, error)) return false;
    if (r->start && !r->end && r->duration) {
        if (!read_time(r->duration, FIELD_DURATION, &length, error)) return false;
        r->to = r->from + length;
    }
    return r->to > r->from ||
           error_set(error, "the recording begins at %.10g s of its file and ends at %.10g s", r->from, r->to);
}

/* Returns the id of a recording that has none: of a part of a file with its times in milliseconds; free(). */
static char *id_of(const Recording *r) {
    char *id = recording_id_of(r->audio);
    if (isfinite(r->to))
        xappend(&id, "_%07lld-%07lld", llround(1000 * r->from), llround(1000 * r->to));
    else if (recording_is_part(r))
        xappend(&id, "_%07lld-end", llround(1000 * r->from));
    return id;
}

bool recording_finish(Recording *r, Error *error) {
    if (!*r->audio) return error_set(error, "%s%shas no audio file", r->id ? r->id : "", r->id ? " " : "");
    for (int i = FIELD_LANGUAGE; i < RECORDING_FIELDS; i++) {
        char **field = recording_field(r, i);
        if (!*field || **field) continue;
        free(*field);
        *field = NULL;
    }
    if (!read_times(r, error)) return false;
    if (!r->id) r->id = id_of(r);
    if (!r->speaker) r->speaker = xstrdup("speaker");
    if (!check_id(r->id, error)) return false;
    return *r->speaker || error_set(error, "%s has no speaker", r->id);
}

Recording *recordings_add(Recordings *out) {
    out->items = xgrow(out->items, (size_t)out->count, sizeof *out->items);
    Recording *r = &out->items[out->count++];
    *r = (Recording){.line = out->count, .to = INFINITY};
    return r;
}

/* ---- all recordings ---- */

void recordings_complete_times(Recordings *all) {
    bool parts = false;
    for (int64_t i = 0; i < all->count && !parts; i++) parts = all->items[i].start;
    for (int64_t i = 0; i < all->count && parts; i++) {
        Recording *r = &all->items[i];
        if (!r->start && !r->end && r->stated > 0) r->to = r->stated;
    }
}

static int by_id(const void *a, const void *b) {
    const Recording *x = *(Recording *const *)a, *y = *(Recording *const *)b;
    int order = strcmp(x->id, y->id);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Says that two recordings have one id. Returns false. */
static bool set_duplicate(const Recordings *all, const Recording *first, const Recording *second, Error *error) {
    if (all->format == RECORDINGS_FOLDER)
        return error_set(error, "the id %s is made of the names of both %s and %s: rename one", first->id, first->audio,
                         second->audio);
    return error_set(error, "%lld: the id %s is also that of line %lld%s", (long long)second->line, second->id,
                     (long long)first->line,
                     all->has_ids ? "" : "; ids are the names of the audio files, unless --id-field gives others");
}

bool recordings_check_unique(const Recordings *all, Error *error) {
    OWNED const Recording **sorted = xmalloc((size_t)all->count * sizeof *sorted);
    const Recording *duplicate = NULL, *first = NULL;
    for (int64_t i = 0; i < all->count; i++) sorted[i] = &all->items[i];
    qsort(sorted, (size_t)all->count, sizeof *sorted, by_id);
    for (int64_t i = 1; i < all->count; i++)
        if (!strcmp(sorted[i]->id, sorted[i - 1]->id) && (!duplicate || sorted[i]->line < duplicate->line)) {
            first = sorted[i - 1];
            duplicate = sorted[i];
        }
    return !duplicate || set_duplicate(all, first, duplicate, error);
}

char *recording_place(const Recordings *recordings, const Recording *recording) {
    return recordings->list ? xformat("%s:%lld", recordings->list, (long long)recording->line)
                            : path_join(recordings->directory, recording->audio);
}

/* Removes the recordings from number `count` on. */
static void cut(Recordings *out, int64_t count) {
    while (out->count > count) {
        Recording *last = &out->items[--out->count];
        for (int k = 0; k < RECORDING_FIELDS; k++) free(*recording_field(last, k));
        free(last->other);
    }
}

bool recordings_leave_out(Recordings *out, bool may, int64_t before, Error *error) {
    Error why = *error;
    if (!may) return error_set(error, "%s; --skip-bad leaves such lines out, and counts them", why.text);
    cut(out, before);
    if (!out->bad++) out->first_bad = xstrdup(why.text);
    return true;
}

void recordings_close(Recordings *recordings) {
    cut(recordings, 0);
    void *const owned[] = {recordings->items,
                           recordings->list,
                           recordings->directory,
                           recordings->first_lone_text,
                           recordings->first_other_file,
                           recordings->first_subtitles,
                           recordings->first_bad,
                           recordings->moved_to,
                           recordings->doubt};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    *recordings = (Recordings){0};
}
