#include "data/gpt/sounds_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "data/audio/mel.h"

static bool is_measured(const Clip *clip) { return clip->samples > 0 && clip->reject != CLIP_BAD_AUDIO; }

/* ---- durations ---- */

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
