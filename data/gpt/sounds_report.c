#include "data/gpt/sounds_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "data/audio/conversion.h"
#include "data/audio/mel.h"

/* ---- sounds that cannot be used, or perhaps not ---- */

enum { MAX_REPORTED = 20 };

static void report_bad(const Recordings *recordings, const Clip *clip) {
    OWNED char *place = recording_place(recordings, clip->recording);
    OWNED char *command = clip->convertible ? conversion_command(clip->audio_path, MEL_RATE) : NULL;
    bool named = !recordings->list; /* the place is the path */
    warn("%s: %s%s%s%s%s", place, named ? "" : clip->audio_path, named ? "" : ": ", clip->error.text,
         command ? "; convert it: " : "", command ? command : "");
}

/* A file that was read, or can be converted. */
typedef struct {
    const Clip *clip;
    const char *extension;
    char *folder; /* in which a command would convert all files of the extension */
} Sound;

static int by_command(const void *a, const void *b) {
    const Sound *x = a, *y = b;
    int order = strcmp(x->extension, y->extension);
    return order ? order : strcmp(x->folder, y->folder);
}

/* Fills sounds[n] and sorts them by extension and folder. Returns their number. */
static int64_t find_sounds(const Recordings *recordings, const Clip *clips, int64_t n, Sound *sounds) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const Clip *clip = &clips[i];
        if (!clip->convertible && clip->samples <= 0) continue;
        const char *extension = path_extension(clip->audio_path);
        char *folder = recordings->list ? path_directory(clip->audio_path) : xstrdup(recordings->directory);
        sounds[count++] = (Sound){clip, extension ? extension : "", folder};
    }
    if (count) qsort(sounds, (size_t)count, sizeof *sounds, by_command);
    return count;
}

/* Returns where the sounds of the extension and folder of sounds[i] end. */
static int64_t group_end(const Sound *sounds, int64_t count, int64_t i) {
    int64_t end = i + 1;
    while (end < count && !by_command(&sounds[i], &sounds[end])) end++;
    return end;
}

static int64_t count_convertible(const Sound *sounds, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += sounds[i].clip->convertible;
    return count;
}

/* Sets covered[i] for each clip whose group one command converts. If some files of a group were read, the command would
 * convert those too. */
static void find_covered(const Clip *clips, const Sound *sounds, int64_t count, bool *covered) {
    for (int64_t i = 0, end; i < count; i = end) {
        end = group_end(sounds, count, i);
        bool whole = end - i > 1 && count_convertible(sounds + i, end - i) == end - i && *sounds[i].extension;
        for (int64_t k = i; k < end; k++) covered[sounds[k].clip - clips] = whole;
    }
}

/* Reports the groups of several convertible files. In a list each command is for one folder alone, as what else lies
 * around has nothing to do with the list; a folder is converted with all below it. */
static void report_groups(const Recordings *recordings, const Clip *clips, const Sound *sounds, int64_t count,
                          const bool *covered) {
    const char *list = recordings->list;
    for (int64_t i = 0, end; i < count; i = end) {
        end = group_end(sounds, count, i);
        int64_t convertible = count_convertible(sounds + i, end - i);
        bool whole = covered[sounds[i].clip - clips];
        OWNED char *loop = conversion_loop(sounds[i].folder, sounds[i].extension, !list, MEL_RATE);
        if (convertible > 1)
            warn("%lld files %s can be converted%s%s%s%s", (long long)convertible, sounds[i].extension,
                 whole ? ": " : ", see above", whole ? loop : "", list ? "; then name the converted files in " : "",
                 list ? list : "");
    }
}

int64_t sounds_report_bad(const Recordings *recordings, const Clip *clips, int64_t n) {
    int64_t bad = 0, unnamed = 0;
    OWNED bool *covered = xcalloc((size_t)n + 1, sizeof *covered);
    OWNED Sound *sounds = xmalloc((size_t)(n + 1) * sizeof *sounds);
    int64_t count = find_sounds(recordings, clips, n, sounds);
    find_covered(clips, sounds, count, covered);
    for (int64_t i = 0; i < n; i++) {
        if (clips[i].reject != CLIP_BAD_AUDIO) continue;
        if (++bad <= MAX_REPORTED || (clips[i].convertible && !covered[i]))
            report_bad(recordings, &clips[i]);
        else
            unnamed++;
    }
    if (unnamed) warn("... and %lld more", (long long)unnamed);
    report_groups(recordings, clips, sounds, count, covered);
    for (int64_t i = 0; i < count; i++) free(sounds[i].folder);
    return bad;
}

void sounds_report_doubtful(const Recordings *recordings, const Clip *clips, int64_t n) {
    for (int doubt = 0; doubt < AUDIO_DOUBTS; doubt++) {
        int64_t count = 0;
        Error first, words;
        for (int64_t i = 0; i < n; i++) {
            if (clips[i].reject != CLIP_KEPT || !audio_doubt(&clips[i].facts, (AudioDoubt)doubt, &words)) continue;
            if (count++) continue;
            OWNED char *place = recording_place(recordings, clips[i].recording);
            bool named = !recordings->list;
            (void)error_set(&first, "%s: %s%s%s", place, named ? "" : clips[i].audio_path, named ? "" : ": ",
                            words.text);
        }
        if (count) warn("%s (%lld of %lld recordings)", first.text, (long long)count, (long long)n);
    }
}

/* ---- durations ---- */

static bool is_measured(const Clip *clip) { return clip->samples > 0 && clip->reject != CLIP_BAD_AUDIO; }

/* Returns whether a clip lasts otherwise than its list says. A list may have whole seconds, and a codec pads. */
static bool contradicts(const Clip *clip) {
    const Recording *r = clip->recording;
    if (!is_measured(clip) || !(r->stated > 0)) return false;
    double seconds = (double)clip->samples / MEL_RATE,
           tolerance = (strchr(r->duration, '.') ? 0.1 : 1) + 0.02 * seconds;
    return fabs(seconds - r->stated) > tolerance;
}

static void report_durations(const Recordings *recordings, const Clip *clips, int64_t n) {
    const Clip *first = NULL;
    int64_t count = 0, cut = 0;
    for (int64_t i = 0; i < n; i++) {
        cut += is_measured(&clips[i]) && clips[i].is_cut;
        if (!contradicts(&clips[i])) continue;
        if (!count++) first = &clips[i];
    }
    if (cut)
        printf("[List] %lld file%s as long as the part that the list names, and taken whole\n", (long long)cut,
               cut == 1 ? " is" : "s are");
    if (!count) return;
    OWNED char *place = recording_place(recordings, first->recording);
    bool is_long = first->reject == CLIP_LONG;
    warn("the durations of %lld recording%s are not those that the list says: the first, %s, should last %.10g s and "
         "lasts %s%.2f s; if it is a part of a longer file, say where it begins (--start-field)",
         (long long)count, format_plural(count), place, first->recording->stated, is_long ? "at least " : "",
         (double)first->samples / MEL_RATE);
}

/* ---- equal sounds ---- */

static int by_sound(const void *a, const void *b) {
    const Clip *x = *(const Clip *const *)a, *y = *(const Clip *const *)b;
    if (x->sound != y->sound) return x->sound < y->sound ? -1 : 1;
    return (x > y) - (x < y);
}

static void report_equal(const Recordings *recordings, const Clip *clips, int64_t n) {
    OWNED const Clip **sorted = xmalloc((size_t)n * sizeof *sorted);
    const Clip *pair[2] = {NULL, NULL};
    int64_t kept = 0, equal = 0, other_text = 0;
    for (int64_t i = 0; i < n; i++)
        if (clips[i].reject == CLIP_KEPT) sorted[kept++] = &clips[i];
    if (kept) qsort(sorted, (size_t)kept, sizeof *sorted, by_sound);
    for (int64_t i = 1, first = 0; i < kept; i++) {
        if (sorted[i]->sound != sorted[first]->sound || sorted[i]->samples != sorted[first]->samples) {
            first = i;
            continue;
        }
        equal++;
        other_text += strcmp(sorted[i]->normalized, sorted[first]->normalized) != 0;
        if (!pair[1] || sorted[i] < pair[1]) pair[0] = sorted[first], pair[1] = sorted[i];
    }
    if (!equal) return;
    OWNED char *first = recording_place(recordings, pair[0]->recording),
               *copy = recording_place(recordings, pair[1]->recording);
    warn("%lld recording%s the same sound as one before, %lld of them with another text (the first: %s and %s): each "
         "sound should be there once, with what it says; copies may stand on both sides of training and validation",
         (long long)equal, equal == 1 ? " has" : "s have", (long long)other_text, first, copy);
}

void sounds_report(const Recordings *recordings, const Clip *clips, int64_t n) {
    report_durations(recordings, clips, n);
    report_equal(recordings, clips, n);
}
