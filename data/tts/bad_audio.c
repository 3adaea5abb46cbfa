#include "data/tts/bad_audio.h"

#include <stdlib.h>
#include <string.h>

#include "data/audio/conversion.h"
#include "data/audio/mel.h"

enum { MAX_REPORTED = 20, MAX_EXTENSIONS = 16 };

static const char *extension_of(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot ? dot : "";
}

static void report(const Recordings *recordings, const Clip *clip) {
    char *place = recording_place(recordings, clip->recording);
    char *command = clip->convertible ? conversion_command(clip->audio_path, MEL_RATE) : NULL;
    bool named = !recordings->list; /* the place is the path */
    warn("%s: %s%s%s%s%s", place, named ? "" : clip->audio_path, named ? "" : ": ", clip->error.text,
         command ? "; convert it: " : "", command ? command : "");
    free(place);
    free(command);
}

/* The files of one extension that can be converted. */
typedef struct {
    const char *extension;
    int64_t count, readable; /* of the others, those that were read */
    char *folder;            /* the deepest that has all of them */
} Convertible;

static void add_convertible(Convertible *group, const char *path) {
    char *folder = path_directory(path);
    if (!group->count++) {
        group->folder = folder;
        return;
    }
    while (strcmp(group->folder, ".") != 0 && strcmp(group->folder, "/") != 0) {
        size_t n = strlen(group->folder);
        if (!strncmp(folder, group->folder, n) && (!folder[n] || folder[n] == '/')) break;
        char *above = path_directory(group->folder);
        free(group->folder);
        group->folder = above;
    }
    free(folder);
}

static int find_groups(const Clip *clips, int64_t n, Convertible *groups) {
    int count = 0, at;
    for (int64_t i = 0; i < n; i++) {
        if (!clips[i].convertible) continue;
        const char *extension = extension_of(clips[i].audio_path);
        for (at = 0; at < count && strcmp(groups[at].extension, extension) != 0;) at++;
        if (at == MAX_EXTENSIONS) continue;
        if (at == count) groups[count++] = (Convertible){.extension = extension};
        add_convertible(&groups[at], clips[i].audio_path);
    }
    for (int64_t i = 0; i < n; i++)
        for (at = 0; at < count; at++)
            groups[at].readable +=
                clips[i].samples > 0 && !strcmp(groups[at].extension, extension_of(clips[i].audio_path));
    return count;
}

/* Warns of several convertible files with a command for all of one extension. If some files of the extension were read,
 * the command would convert those too, so that the commands of the single files remain. */
static void report_loops(const Recordings *recordings, const Clip *clips, int64_t n) {
    Convertible groups[MAX_EXTENSIONS];
    int count = find_groups(clips, n, groups);
    for (int i = 0; i < count; i++) {
        Convertible *g = &groups[i];
        char *loop = conversion_loop(g->folder, g->extension, MEL_RATE);
        bool whole = g->count > 1 && !g->readable && *g->extension;
        if (g->count > 1)
            warn("%lld files %s can be converted%s%s%s%s", (long long)g->count, g->extension,
                 whole ? ": " : ", see above", whole ? loop : "",
                 recordings->list ? "; then name the converted files in " : "",
                 recordings->list ? recordings->list : "");
        free(loop);
        free(g->folder);
    }
}

int64_t bad_audio_report(const Recordings *recordings, const Clip *clips, int64_t n) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        if (clips[i].reject == CLIP_BAD_AUDIO && ++bad <= MAX_REPORTED) report(recordings, &clips[i]);
    if (bad > MAX_REPORTED) warn("... and %lld more", (long long)bad - MAX_REPORTED);
    report_loops(recordings, clips, n);
    return bad;
}
