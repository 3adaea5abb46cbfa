#include "data/gpt/recordings_kaldi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/formats/text_source.h"
#include "data/text/encoding.h"
#include "data/text/strings.h"
#include "data/text/utf8.h"

/* A file of lines KEY VALUE, whose order is that of the keys. */
typedef struct {
    char *path, *bytes;
    Strings keys;
    char **values; /* [keys.n], pointers into bytes */
    int64_t *lines;
} Map;

static void map_close(Map *map) {
    strings_free(&map->keys);
    free(map->values);
    free(map->lines);
    free(map->bytes);
    free(map->path);
}

/* Returns the value of a key; NULL: it has none. */
static char *find(const Map *map, const char *key) {
    int64_t number = strings_find(&map->keys, key, strlen(key));
    return number < 0 ? NULL : map->values[number];
}

static bool add_line(Map *map, char *line, size_t n, int64_t number, Error *error) {
    if (n && line[n - 1] == '\r') n--;
    if (!encoding_check_line(line, n, error)) return error_before(error, "%s:%lld: ", map->path, (long long)number);
    line[n] = 0;
    line += strspn(line, " \t");
    size_t key = strcspn(line, " \t"), gap = strspn(line + key, " \t");
    uint32_t before = map->keys.n;
    if (!key) return true;
    if (strings_add(&map->keys, line, key) < before)
        return error_set(error, "%s:%lld: %.*s is there twice", map->path, (long long)number, (int)key, line);
    map->values = xgrow(map->values, before, sizeof *map->values);
    map->lines = xgrow(map->lines, before, sizeof *map->lines);
    map->values[before] = line + key + gap;
    map->lines[before] = number;
    return true;
}

/* Reads a file of the folder. One that is not there has no lines, unless it must be. */
static bool map_open(Map *map, const char *folder, const char *name, bool must, Error *error) {
    size_t size;
    *map = (Map){.path = path_join(folder, name)};
    if (!must && !path_holds(folder, name)) return true;
    if (!text_read(map->path, &map->bytes, &size, error)) return error_before(error, "%s: ", map->path);
    char *at = map->bytes + utf8_mark(map->bytes, size), *end = map->bytes + size;
    for (int64_t number = 1; at < end; number++) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        if (!add_line(map, at, (size_t)(stop - at), number, error)) return false;
        at = stop + 1;
    }
    return true;
}

/* Returns whether a value of wav.scp is the name of a file. */
static bool check_file(const char *value, Error *error) {
    size_t n = strlen(value);
    const char *colon = strrchr(value, ':');
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t')) n--;
    if (n && value[n - 1] == '|')
        return error_set(error, "wav.scp has a command (%.60s); run it, write the sound to a file, and name that",
                         value);
    if (colon && colon > value + 3 && !strncmp(colon - 4, ".ark", 4))
        return error_set(error, "wav.scp has a place in an archive (%.60s); write each sound to a file of its own",
                         value);
    return n || error_set(error, "wav.scp has no audio file");
}

typedef struct {
    Map files, texts, segments, speakers;
} Folder;

/* Sets recording and times of an utterance by its line of segments. */
static bool set_segment(Recording *r, const char *value, char **recording, Error *error) {
    char name[256], start[64], end[64];
    if (sscanf(value, "%255s %63s %63s", name, start, end) != 3)
        return error_set(error, "expected UTTERANCE RECORDING START END");
    *recording = xstrdup(name);
    r->start = xstrdup(start);
    r->end = *end == '-' ? NULL : xstrdup(end); /* -1: to the end of the file */
    return true;
}

static bool set_utterance(const Folder *f, Recording *r, const char *id, const char *segment, Error *error) {
    OWNED char *recording = NULL;
    if (segment && !set_segment(r, segment, &recording, error)) return false;
    const char *file = find(&f->files, recording ? recording : id), *text = find(&f->texts, id),
               *speaker = find(&f->speakers, id);
    if (!file) return error_set(error, "%s is not in wav.scp", recording ? recording : id);
    if (!check_file(file, error)) return false;
    r->id = xstrdup(id);
    r->audio = xstrdup(file);
    r->text = xstrdup(text ? text : "");
    r->speaker = f->speakers.keys.n ? xstrdup(speaker ? speaker : "") : NULL;
    return recording_finish(r, error);
}

static bool read_utterances(const Folder *f, bool skip_bad, Recordings *out, Error *error) {
    const Map *list = f->segments.keys.n ? &f->segments : &f->files;
    out->has_ids = true;
    out->has_speakers = f->speakers.keys.n > 0;
    for (uint32_t i = 0; i < list->keys.n; i++) {
        Recording *r = recordings_add(out);
        const char *id = strings_text(&list->keys, i);
        r->line = list->lines[i];
        if (set_utterance(f, r, id, list == &f->segments ? list->values[i] : NULL, error)) continue;
        error_before(error, "%s:%lld: ", list->path, (long long)r->line);
        if (!recordings_leave_out(out, skip_bad, out->count - 1, error)) return false;
    }
    for (uint32_t i = 0; i < f->texts.keys.n; i++) {
        const char *id = strings_text(&f->texts.keys, i);
        if (strings_find(&list->keys, id, strlen(id)) >= 0) continue;
        if (!out->lone_texts++) out->first_lone_text = xstrdup(id);
    }
    return out->count > 0 ||
           error_set(error, "%s: holds no recordings%s%s", list->path,
                     out->bad ? ": none of its lines can be used, the first: " : "", out->bad ? out->first_bad : "");
}

bool recordings_is_kaldi(const char *folder) { return path_holds(folder, "wav.scp") && path_holds(folder, "text"); }

bool recordings_is_in_kaldi(const char *path) {
    static const char *const names[] = {"wav.scp", "text", "segments", "utt2spk"};
    const char *name = path_name(path);
    OWNED char *folder = path_directory(path);
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) found |= !strcmp(name, names[i]);
    return found && recordings_is_kaldi(folder);
}

bool recordings_read_kaldi(const char *folder, bool skip_bad, Recordings *out, Error *error) {
    Folder f = {{0}, {0}, {0}, {0}};
    bool ok = map_open(&f.files, folder, "wav.scp", true, error) && map_open(&f.texts, folder, "text", true, error) &&
              map_open(&f.segments, folder, "segments", false, error) &&
              map_open(&f.speakers, folder, "utt2spk", false, error) && read_utterances(&f, skip_bad, out, error);
    map_close(&f.files);
    map_close(&f.texts);
    map_close(&f.segments);
    map_close(&f.speakers);
    return ok;
}
