#include "data/gpt/recordings_places.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/gpt/recordings_folder.h"

enum { MOST_SEARCHED = 50 }; /* missing files, before it is given up: a disk may be slow */

typedef struct {
    const char *before, *stem, *between, *extension; /* before + stem of the list + between + NAME + extension */
    bool slashes;                                    /* instead of Windows' backslashes */
} Place;

/* Returns the path of a name at a place; free(). The folder that the format has put before it (wavs/ID.wav) is not part
 * of the name. */
static char *path_at(const Recordings *all, const Place *place, const char *name) {
    if (all->format == RECORDINGS_LJSPEECH && !strncmp(name, "wavs/", 5)) name += 5;
    size_t n = strlen(name);
    if (*place->extension && n > 4 && path_ending(name, ".wav")) n -= 4;
    char *path = xformat("%s%s%s%.*s%s", place->before, place->stem, place->between, (int)n, name, place->extension);
    for (char *c = path; place->slashes && (c = strchr(c, '\\'));) *c = '/';
    return path;
}

static bool exists(const Recordings *all, const char *audio) {
    OWNED char *path = path_join(all->directory, audio);
    return !access(path, F_OK);
}

static bool is_at(const Recordings *all, const Place *place, const char *name) {
    OWNED char *path = path_at(all, place, name);
    return exists(all, path);
}

static bool find_place(const Recordings *all, const char *stem, const char *name, Place *place) {
    static const char *const folders[][2] = {{"wavs/"}, {"wav/"},   {"audio/"},    {"clips/"}, {""},
                                             {"../"},   {"../../"}, {"../../../"}, {"", "/"},  {"audio/", "/"}};
    static const char *const extensions[] = {"", ".wav", ".flac", ".mp3", ".ogg", ".opus"};
    const bool has_extension = all->format != RECORDINGS_LJSPEECH && recordings_name_sound(name);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (size_t k = 0; k < (has_extension ? 1 : sizeof extensions / sizeof *extensions); k++) {
            const char *between = folders[i][1];
            *place = (Place){folders[i][0], between ? stem : "", between ? between : "", extensions[k],
                             strchr(name, '\\') != NULL};
            if (is_at(all, place, name)) return true;
        }
    return false;
}

/* Takes all missing files from a place at which they lie. */
static void move_to(Recordings *all, const Place *place) {
    for (int64_t i = 0; i < all->count; i++) {
        Recording *r = &all->items[i];
        if (*r->audio == '/' || exists(all, r->audio) || !is_at(all, place, r->audio)) continue;
        OWNED char *before = r->audio;
        r->audio = path_at(all, place, before);
        all->moved++;
    }
    OWNED char *path = path_at(all, place, *place->extension ? "NAME" : "FILE");
    all->moved_to = xformat("%s%s", path, place->slashes ? ", with / for \\" : "");
}

void recordings_find_audio(Recordings *all) {
    const char *list = all->list ? all->list : "", *name = path_name(list);
    OWNED char *stem = xformat("%.*s", (int)strcspn(name, "."), name);
    int searched = 0;
    bool found = false;
    Place place;
    for (int64_t i = 0; i < all->count && !found && searched < MOST_SEARCHED; i++) {
        const char *audio = all->items[i].audio;
        if (*audio == '/' || exists(all, audio)) continue;
        searched++;
        found = find_place(all, stem, audio, &place);
    }
    if (found) move_to(all, &place);
}
