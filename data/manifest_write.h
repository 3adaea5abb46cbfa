/* The manifests that a data set is delivered with: single utterances and prompt/target pairs, JSON lines. */
#ifndef DATA_MANIFEST_WRITE_H
#define DATA_MANIFEST_WRITE_H

#include "data/clip.h"

typedef struct {
    const char *directory, *language; /* of clips that do not say */
    double val_ratio;
    int64_t pairs_per_target;
    uint64_t seed;
} ManifestOptions;

typedef struct {
    int64_t train, val, train_pairs, val_pairs;
    int64_t lone_train, lone_val; /* clips without pairs: their speaker has no other in the same half */
} ManifestReport;

/* Writes manifest.jsonl (all), train_manifest.jsonl and val_manifest.jsonl (its halves by the hash of the id), and
 * train_pairs.jsonl and val_pairs.jsonl, each half paired by itself: every clip is a target for as many different
 * prompts of its speaker as asked for and there are, drawn with Philox. Only clips that are CLIP_KEPT, in their order.
 */
bool manifests_write(const Clip *clips, int64_t n, const ManifestOptions *options, ManifestReport *report,
                     Error *error);
/* Takes away what manifests_write wrote: a manifest must not stand while what it names is being replaced. */
void manifests_remove(const char *directory);

#endif
