/* Features of recordings by IndexTTS2's own networks, for train_gpt prepare. */
#pragma once

#include "commands/gpt/indextts2.h"
#include "data/gpt/prepare.h"

typedef struct {
    const char *folder; /* --indextts2 */
    IndexWeights weights;
    Device *device;    /* NULL until something must be computed */
    size_t pass_bytes; /* of memory */
    int64_t pass_rows; /* of 50 a second, at most, unless a clip alone has more */
    DType type, voice_type;
    Features features;
    double audio_seconds, seconds; /* what was computed, and the time that it took */
} FeatureRun;

/* Finds and checks the weights. Ends the program with the reason if they cannot be used. */
void feature_run_find(FeatureRun *run, const char *folder);
/* Computes and writes what is missing of the kept clips: text ids, codes, condition and emotion vectors. Opens the
 * device and reads the weights only if something is. The bytes that are written depend neither on what is computed
 * together nor on earlier runs. Ends the program if the features of the first minutes do not have the statistics that
 * the networks were made with, or a number is not finite. */
typedef struct {
    const char *device; /* auto, cpu or cuda */
    bool no_tf32, no_half;
} FeatureDevice;
void feature_run_compute(FeatureRun *run, Prepare *p, const FeatureDevice *on);
void feature_run_close(FeatureRun *run);
