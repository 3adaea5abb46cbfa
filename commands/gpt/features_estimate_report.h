/* The estimate of computing IndexTTS2's features, and its report. */
#pragma once

#include "commands/gpt/feature_passes.h"
#include "cost/cost.h"
#include "cost/price_list.h"

typedef struct {
    bool estimate, json;
    double hours; /* of speech; 0: that of recordings */
    const char *gpu, *calibration, *price, *prices_file;
} FeatureEstimateOptions;

/* Assumed: how long recordings of --hours are; the threads without --num-workers; seconds of compressed sound that a
 * core measures in a second, or reads and makes frames of. Measured on a core of a server: reading WAV 5,100, FLAC
 * 2,500, MP3 1,900, Ogg Vorbis 1,400; resampling twice and making frames 2,300 to 3,000. */
enum { FEATURE_CLIP_SECONDS = 10, FEATURE_WORKERS = 4, FEATURE_MEASURING_RATE = 1500, FEATURE_READING_RATE = 1000 };

/* Recordings by their lengths. */
typedef struct {
    int64_t *rows; /* [n], 50 a second */
    int64_t n, left_out;
    double seconds;
} Speech;

/* The work with certain types and a certain memory, whatever the card. */
typedef struct {
    PassTarget target;
    PassPlan plan;
    bool fits;
    Work networks[FEATURE_NETWORKS]; /* of a pass, the mean of all */
} FeatureWork;

/* A run on a card. Seconds of the whole run, but those of a pass. */
typedef struct {
    Machine machine;
    const FeatureWork *work;
    Machine on[FEATURE_NETWORKS]; /* the machine with each network's type of products */
    WorkTime networks[FEATURE_NETWORKS], pass;
    double measuring;                 /* the recordings, before the networks compute */
    double reading;                   /* them again, beside the networks */
    double computing, floor, seconds; /* floor: of computing, at the card's stated rates */
    const CardPrice *price;
} FeatureTime;

/* Prints the estimates for n cards as text, in full for one and in one line each for several. */
void feature_estimate_print(const FeatureEstimateOptions *options, const Speech *speech, const FeatureTime *times,
                            int n);
/* Returns them as JSON; free(). */
char *feature_estimate_json(const FeatureEstimateOptions *options, const Speech *speech, const FeatureTime *times,
                            int n);
