/* Writes the manifests of a prepared data set, JSON lines: single utterances and prompt/target pairs. */
#pragma once

#include "data/gpt/clip.h"

typedef struct {
    const char *directory, *language; /* language of clips whose line names none */
    double val_ratio;
    int64_t pairs_per_target;
    uint64_t seed;
} ManifestOptions;

typedef struct {
    int64_t train, val, train_pairs, val_pairs;
    bool own_prompts;             /* a side has no pair of two clips */
    int64_t lone_train, lone_val; /* clips without pairs: their speaker has no other clip in the same split */
} ManifestReport;

/* Writes manifest.jsonl (all clips), train_manifest.jsonl and val_manifest.jsonl (split by the hash of the id), and
 * train_pairs.jsonl and val_pairs.jsonl, in which every clip of the split is the target of up to pairs_per_target
 * different prompts: other clips of its speaker in the same split, drawn with Philox. If there are none at all in a
 * split, each clip is its own prompt, so that the file can be trained on. Kept clips only, in their order.
 */
bool manifests_write(const Clip *clips, int64_t n, const ManifestOptions *options, ManifestReport *report,
                     Error *error);
