#include "data/gpt/recordings_folder.h"

#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/file.h"
#include "base/format.h"
#include "data/formats/text_source.h"
#include "data/gpt/recordings_foreign.h"
#include "data/text/encoding.h"
#include "data/text/utf8.h"

enum { MAX_TEXT_BYTES = 1 << 16 }; /* of a recording: more is no sentence */

/* READ: sound that libsndfile reads; FOREIGN: sound that it does not read, which is reported when it is opened. */
typedef enum { KIND_TEXT, KIND_NORMALIZED, KIND_LAB, KIND_READ, KIND_FOREIGN, KIND_OTHER } Kind;

typedef struct {
    char *path;  /* below the folder */
    size_t stem; /* length without the extension */
    Kind kind;
} File;

typedef struct {
    File *items;
    int64_t count;
} Files;

static Kind kind_of(const char *extension) {
    static const char *const read[] = {"wav", "wave", "bwf",   "flac", "ogg",  "oga",  "opus", "mp3",
                                       "mp2", "mp1",  "aiff",  "aif",  "aifc", "au",   "snd",  "caf",
                                       "w64", "rf64", "sph",   "nist", "voc",  "8svx", "svx",  "iff",
                                       "paf", "sf",   "ircam", "pvf",  "avr",  "sds",  "wve"};
    static const char *const foreign[] = {"m4a", "m4b", "m4r", "mp4", "aac", "webm", "mkv", "mka",
                                          "mov", "wma", "asf", "amr", "3gp", "3g2",  "spx", "wv",
                                          "ape", "tta", "ac3", "dts", "ra",  "rm",   "flv"};
    if (*extension == '.') extension++;
    if (!strcasecmp(extension, "txt")) return KIND_TEXT;
    if (!strcasecmp(extension, "lab")) return KIND_LAB;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!strcasecmp(extension, read[i])) return KIND_READ;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strcasecmp(extension, foreign[i])) return KIND_FOREIGN;
    return KIND_OTHER;
}

bool recordings_name_sound(const char *path) {
    const char *dot = path_extension(path);
    return dot && kind_of(dot) == KIND_READ;
}

/* Counts a path, and keeps the first in order. */
static void count_path(int64_t *n, char **first, const char *path) {
    if ((*n)++ && strcmp(*first, path) <= 0) return;
    free(*first);
    *first = xstrdup(path);
}

static void leave_out(Recordings *out, const char *path) {
    if (recordings_name_subtitles(path)) count_path(&out->subtitles, &out->first_subtitles, path);
    count_path(&out->other_files, &out->first_other_file, path);
}

static bool add_file(Files *files, Recordings *out, const char *path, Error *error) {
    const char *dot = path_extension(path);
    Kind kind = dot ? kind_of(dot) : KIND_OTHER;
    if (kind == KIND_OTHER) {
        leave_out(out, path);
        return true;
    }
    if (u8_check((const uint8_t *)path, strlen(path))) return error_set(error, "%s: its name is not UTF-8", path);
    files->items = xgrow(files->items, (size_t)files->count, sizeof *files->items);
    files->items[files->count++] = (File){xstrdup(path), (size_t)(dot - path), kind};
    return true;
}

static bool find_files(const char *folder, Files *files, Recordings *out, Error *error) {
    FTS *tree = fts_open((char *const[]){(char *)folder, NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    if (!tree) die("cannot list %s", folder);
    bool ok = true;
    for (FTSENT *entry; ok && (entry = fts_read(tree));) {
        int kind = entry->fts_info;
        const char *below = entry->fts_path + strlen(folder), *dot = path_extension(entry->fts_name);
        below += strspn(below, "/");
        bool hidden = entry->fts_level > 0 && *entry->fts_name == '.';
        if (kind == FTS_ERR || kind == FTS_DNR || kind == FTS_NS)
            ok = error_set(error, "%s: %s", entry->fts_path, strerror(entry->fts_errno));
        else if (kind == FTS_DC)
            ok = error_set(error, "%s: the folder contains a link to itself", entry->fts_path);
        else if (kind == FTS_SLNONE && !hidden && dot && kind_of(dot) != KIND_OTHER)
            ok = error_set(error, "%s: is a link to a file that does not exist", entry->fts_path);
        else if (kind == FTS_D && hidden)
            fts_set(tree, entry, FTS_SKIP);
        else if (kind == FTS_F && !hidden)
            ok = add_file(files, out, below, error);
        else if (kind != FTS_D && kind != FTS_DP)
            leave_out(out, below);
    }
    fts_close(tree);
    return ok;
}

/* Takes the texts NAME.normalized.txt as those of NAME.wav, unless a sound is called NAME.normalized.wav. */
static void rename_normalized(Files *files) {
    static const char end[] = ".normalized";
    const size_t size = sizeof end - 1;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < files->count; i++) {
            File *file = &files->items[i];
            if (file->stem <= size || memcmp(file->path + file->stem - size, end, size) != 0) continue;
            if (!pass && file->kind >= KIND_READ) return;
            if (!pass || file->kind != KIND_TEXT) continue;
            file->stem -= size;
            file->kind = KIND_NORMALIZED;
        }
}

/* Orders by the name without its extension, then by kind, then by name. */
static int compare_files(const void *a, const void *b) {
    const File *x = a, *y = b;
    int order = memcmp(x->path, y->path, x->stem < y->stem ? x->stem : y->stem);
    if (order) return order;
    if (x->stem != y->stem) return x->stem < y->stem ? -1 : 1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

/* Returns whether a text begins with two whole numbers, as a label of HTK does: "0 2050000 sil". */
static bool begins_with_times(const char *text) {
    size_t first = strspn(text, "0123456789"), blank = strspn(text + first, " ");
    return first && blank && strspn(text + first + blank, "0123456789") && text[strspn(text, "0123456789 ")];
}

/* Reads a text as one line; free(). The error begins with the path. */
static bool read_text(const char *folder, const char *name, char **text, Error *error) {
    OWNED char *path = path_join(folder, name), *bytes = xmalloc(MAX_TEXT_BYTES + 1);
    size_t size;
    if (!read_file_into(path, bytes, MAX_TEXT_BYTES, &size, error) || !text_decode(&bytes, &size, error))
        return error_before(error, "%s: ", path);
    if (u8_check((const uint8_t *)bytes, size))
        return error_set(error, "%s: is not UTF-8; %s", path, encoding_advice(bytes, size));
    if (memchr(bytes, 0, size)) return error_set(error, "%s: has a zero byte; %s", path, encoding_advice(bytes, size));
    bytes[size] = 0;
    for (char *c = bytes; *c; c++)
        if (*c == '\n' || *c == '\r' || *c == '\t') *c = ' ';
    *text = xstrdup(bytes + utf8_mark(bytes, size));
    return !path_ending(name, ".lab") || !begins_with_times(*text) ||
           error_set(error,
                     "%s: holds times and phones of HTK, not the text: move it away, or write the text to a .txt file",
                     path);
}

/* Returns the folder of a path that the name of the file begins with, before '_' or '-', else its first folder; NULL:
 * there is none; free(). */
static char *speaker_of(const char *path) {
    const char *first = strchr(path, '/'), *name = strrchr(path, '/');
    if (!first) return NULL;
    const size_t size = strcspn(name + 1, "_-");
    for (const char *at = path, *slash; (slash = strchr(at, '/')); at = slash + 1)
        if ((size_t)(slash - at) == size && !memcmp(at, name + 1, size)) return xformat("%.*s", (int)size, at);
    return xformat("%.*s", (int)(first - path), path);
}

/* Adds the recording that files[0..n-1] of one name are. */
static bool add_recording(const char *folder, const File *files, int64_t n, Recordings *out, Error *error) {
    int64_t texts = 0;
    while (texts < n && files[texts].kind < KIND_READ) texts++;
    const File *sound = texts < n ? &files[texts] : NULL,
               *twin = texts > 1 && files[1].kind == files[0].kind ? &files[1] : NULL;
    if (texts + 1 < n && files[texts + 1].kind == sound->kind) twin = &files[texts + 1];
    if (twin)
        return error_set(error,
                         "%s: %s and %s have the same name, so that it is not clear which one counts: move one away",
                         folder, twin[-1].path, twin->path);
    if (!sound) {
        if (!out->lone_texts++) out->first_lone_text = xstrdup(files[0].path);
        return true;
    }
    for (const File *file = files + 1; file < files + n; file++)
        if (file != sound) leave_out(out, file->path);
    Recording *r = recordings_add(out);
    r->audio = xstrdup(sound->path);
    if (texts && !read_text(folder, files[0].path, &r->text, error)) return false;
    if (!texts) r->text = xstrdup("");
    r->speaker = speaker_of(r->audio);
    out->has_speakers |= r->speaker != NULL;
    return recording_finish(r, error) || error_before(error, "%s/%s: ", folder, sound->path);
}

char *recordings_subtitles(const Recordings *recordings) {
    return xformat("%lld file%s with subtitles (the first: %s) %s not read: %s", (long long)recordings->subtitles,
                   format_plural(recordings->subtitles), recordings->first_subtitles,
                   recordings->subtitles == 1 ? "is" : "are", recordings_subtitles_advice());
}

bool recordings_read_folder(const char *path, Recordings *out, Error *error) {
    Files files = {0};
    int64_t with_text = 0;
    bool ok = find_files(path, &files, out, error);
    rename_normalized(&files);
    if (files.count) qsort(files.items, (size_t)files.count, sizeof *files.items, compare_files);
    for (int64_t i = 0, end; ok && i < files.count; i = end) {
        const File *first = &files.items[i];
        for (end = i + 1; end < files.count; end++)
            if (files.items[end].stem != first->stem || memcmp(files.items[end].path, first->path, first->stem)) break;
        with_text += first->kind < KIND_READ;
        ok = add_recording(path, first, end - i, out, error);
    }
    for (int64_t i = 0; i < files.count; i++) free(files.items[i].path);
    free(files.items);
    if (!ok) return false;
    if (!out->count && out->other_files)
        return error_set(error, "%s: holds no audio files, but %lld others (the first: %s); give a list itself", path,
                         (long long)out->other_files, out->first_other_file);
    if (!out->count) return error_set(error, "%s: holds no audio files", path);
    if (with_text > out->lone_texts) return true;
    if (out->first_lone_text && path_ending(out->first_lone_text, ".trans.txt"))
        return error_set(error,
                         "%s: %s has the texts of several sounds, as in LibriSpeech: make a list of them "
                         "(docs/train_gpt.md, \"What prepare reads\", has the line of the shell), and give that",
                         path, out->first_lone_text);
    OWNED char *words = out->subtitles ? recordings_subtitles(out) : xstrdup("");
    return error_set(error, "%s: none of its %lld audio files has a text: expected NAME.txt beside NAME.wav%s%s", path,
                     (long long)out->count, *words ? "; " : "", words);
}
