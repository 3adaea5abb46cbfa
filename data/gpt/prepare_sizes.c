#include "data/gpt/prepare_sizes.h"

#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "data/audio/mel.h"
#include "data/split.h"

enum { CHARACTERS_PER_MERGE = 50 };
enum { MOST_HELD_OUT = 20, LARGEST_PERCENT = 30 };

int64_t prepare_count_frames(const Clip *clips, int64_t n) {
    int64_t frames = 0;
    for (int64_t i = 0; i < n; i++) frames += clips[i].reject == CLIP_KEPT ? clips[i].n_codes : 0;
    return frames;
}

double prepare_full_seconds(void) {
    return (double)PREPARE_FULL_ENTRIES * PREPARE_FRAMES_PER_ENTRY * MEL_HOP / MEL_RATE;
}

static int64_t fit_codebook(int64_t frames) {
    int64_t entries = 2;
    while (2 * entries * PREPARE_FRAMES_PER_ENTRY <= frames) entries *= 2;
    return entries;
}

/* Returns the pieces for all characters and for merges that are seen often. */
static int64_t fit_vocabulary(const Clip *clips, int64_t n) {
    enum { CONTROLS = 3, POINTS = 0x110000 };
    OWNED unsigned char *seen = xcalloc(POINTS, 1);
    int64_t pieces = CONTROLS + 1, characters = 0; /* 1: SentencePiece's space */
    for (int64_t i = 0; i < n; i++) {
        if (clips[i].reject != CLIP_KEPT) continue;
        ucs4_t c;
        for (const uint8_t *at = (const uint8_t *)clips[i].normalized; (at = u8_next(&c, at)); characters++) {
            pieces += !seen[c] && c != ' ';
            seen[c] = 1;
        }
    }
    return pieces + characters / CHARACTERS_PER_MERGE;
}

static int by_speaker(const void *a, const void *b) {
    return strcmp((*(const Clip *const *)a)->recording->speaker, (*(const Clip *const *)b)->recording->speaker);
}

/* Returns whether the share holds out `want` clips, leaves as many, and some speaker has two on each side. kept[n]: in
 * the order of their speakers. */
static bool is_good_share(const Clip *const *kept, int64_t n, double ratio, int64_t want, bool pairs) {
    int64_t held = 0, side[2] = {0, 0};
    bool paired[2] = {!pairs, !pairs};
    for (int64_t i = 0; i < n; i++) {
        if (i && by_speaker(&kept[i - 1], &kept[i])) side[0] = side[1] = 0;
        bool out = split_is_validation(kept[i]->recording->id, ratio);
        held += out;
        paired[out] |= ++side[out] > 1;
    }
    return held >= want && n - held >= want && paired[0] && paired[1];
}

static double fit_share(const Clip *clips, int64_t n, double full) {
    OWNED const Clip **kept = xmalloc((size_t)(n + 1) * sizeof *kept);
    int64_t count = 0;
    double ratio = full;
    for (int64_t i = 0; i < n; i++)
        if (clips[i].reject == CLIP_KEPT) kept[count++] = &clips[i];
    if (count) qsort(kept, (size_t)count, sizeof(Clip *), by_speaker);
    int64_t want = count / 10 < 1 ? 1 : count / 10 > MOST_HELD_OUT ? MOST_HELD_OUT : count / 10;
    bool found = false;
    for (int pairs = 1; pairs >= 0 && !found; pairs--) /* without pairs if nobody has enough clips */
        for (int percent = 1; percent <= LARGEST_PERCENT && !found; percent++)
            if ((found = is_good_share(kept, count, percent / 100.0, want, pairs))) ratio = percent / 100.0;
    return ratio;
}

bool prepare_fit_sizes(const Clip *clips, int64_t n, const PrepareFit *fit, PrepareSizes *sizes) {
    int64_t frames = prepare_count_frames(clips, n), vocabulary;
    if (frames >= (int64_t)PREPARE_FULL_ENTRIES * PREPARE_FRAMES_PER_ENTRY) return false;
    if (fit->codebook_size) sizes->codebook_size = fit_codebook(frames);
    if (fit->d_model) sizes->d_model = PREPARE_SMALL_WIDTH;
    if (fit->vocabulary && (vocabulary = fit_vocabulary(clips, n)) < sizes->vocabulary) sizes->vocabulary = vocabulary;
    if (fit->val_ratio) sizes->val_ratio = fit_share(clips, n, sizes->val_ratio);
    return fit->codebook_size || fit->d_model || fit->vocabulary || fit->val_ratio;
}
