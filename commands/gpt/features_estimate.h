/* train_gpt prepare --indextts2 DIR --estimate: the time, the memory and the price of computing IndexTTS2's features on
 * a card, without its weights. */
#pragma once

#include "base/options.h"
#include "commands/gpt/feature_passes.h"
#include "commands/gpt/features.h"
#include "cost/cost.h"
#include "cost/price_list.h"
#include "data/gpt/prepare.h"

typedef struct {
    bool estimate, json;
    double hours; /* of speech; 0: that of recordings */
    const char *gpu, *calibration, *price, *prices_file;
} FeatureEstimateOptions;

/* What is computed with certain types and a certain memory, whatever the card. */
typedef struct {
    PassTarget target;
    PassPlan plan;
    bool fits;
    Work networks[FEATURE_NETWORKS]; /* of a pass, the mean of all */
} FeatureWork;

/* Recordings by their lengths. */
typedef struct {
    int64_t *rows; /* [n], 50 a second */
    int64_t n, left_out;
    double seconds;
} Speech;

/* A run on a card. Seconds of the whole run, but those of a pass. */
typedef struct {
    Machine machine;
    const FeatureWork *work;
    Machine on[FEATURE_NETWORKS]; /* the machine with each network's type of products */
    WorkTime networks[FEATURE_NETWORKS], pass;
    double measuring;                 /* the recordings, before the networks compute */
    double reading;                   /* them again, beside the networks */
    double computing, floor, seconds; /* floor: of computing, at the card's stated rates */
    bool reading_is_longer;
    const CardPrice *price;
} FeatureTime;

/* Dies if options of estimates are given without --estimate, or do not fit each other or --input and --indextts2. */
void feature_estimate_check(const FeatureEstimateOptions *options, const OptionSet *set);
/* Prints the estimate on each card of --gpu. workers: of --num-workers; 0: not given. */
void feature_estimate(const FeatureEstimateOptions *options, const PrepareOptions *prepare, const FeatureDevice *on,
                      int workers);
/* Prints it as text, in full for one card and in one line each for several. */
void feature_estimate_print(const FeatureEstimateOptions *options, const Speech *speech, const FeatureTime *times,
                            int n);
/* Returns it as JSON. */
char *feature_estimate_json(const FeatureEstimateOptions *options, const Speech *speech, const FeatureTime *times,
                            int n);

/* Seconds of recordings that a core measures in a second, and reads and makes frames of. */
extern const double feature_measuring_rate, feature_reading_rate;
extern const char *const feature_network_names[FEATURE_NETWORKS];
/* Assumed where --hours says no more, and where --num-workers is not given. */
enum { FEATURE_CLIP_SECONDS = 10, FEATURE_WORKERS = 4 };
