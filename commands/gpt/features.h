/* Features of recordings by IndexTTS2's own networks, for train_gpt prepare. */
#pragma once

#include "commands/gpt/indextts2.h"
#include "cost/price_list.h"
#include "data/gpt/prepare.h"

typedef struct {
    const char *folder; /* --indextts2 */
    IndexWeights weights;
    Device *device;    /* NULL until something must be computed */
    size_t pass_bytes; /* of memory */
    int64_t pass_rows; /* of 50 a second, at most, unless a clip alone has more */
    DType type, voice_type;
    Features features;
    Fingerprint setup;             /* of all files that features depend on */
    bool *todo;                    /* [clips]: which must be computed */
    double audio_seconds;          /* computed */
    Price price;                   /* of the device */
} FeatureRun;

/* Finds and checks the weights. Ends the program with the reason if they cannot be used. */
void feature_run_find(FeatureRun *run, const char *folder);
typedef struct {
    const char *device; /* auto, cpu or cuda */
    bool no_tf32, no_half;
    PriceList prices;
} FeatureDevice;
/* Finds which kept clips lack text ids, codes, condition or emotion vectors. Opens the device if any does, or `anyway`,
 * and chooses the types of products. */
void feature_run_plan(FeatureRun *run, Prepare *p, const FeatureDevice *on, bool anyway);
/* Computes and writes them; reads the weights only if something is missing. The bytes that are written depend neither
 * on what is computed together nor on earlier runs. Ends the program if the features of the first minutes do not have
 * the statistics that the networks were made with, or a number is not finite. */
void feature_run_compute(FeatureRun *run, Prepare *p);
void feature_run_close(FeatureRun *run);

/* Features of a clip that are kept, not written. Vectors are the condition [latents, width], then the emotion. */
typedef struct {
    ClipLength length;
    int32_t *codes;
    float *h, *margins, *vectors;
} TriedClip;
/* Computes all clips of p, in passes as in a run or each alone, with the device and the types of the run, whose
 * networks are not open, before and behind. Fills tried[p->n]. Clip.codes and n_codes are changed: give copies. */
void feature_run_try(FeatureRun *run, Prepare *p, bool alone, TriedClip *tried);
void tried_clip_free(TriedClip *clip);
