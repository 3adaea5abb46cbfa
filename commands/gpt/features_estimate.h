/* train_gpt prepare --indextts2 DIR --estimate: the time, the memory and the price of computing IndexTTS2's features on
 * a card, without its weights. */
#pragma once

#include "base/options.h"
#include "commands/gpt/features.h"
#include "commands/gpt/features_estimate_report.h"
#include "data/gpt/prepare.h"

/* Dies if options of estimates are given without --estimate, or do not fit each other or --input and --indextts2. */
void feature_estimate_check(const FeatureEstimateOptions *options, const OptionSet *set);
/* Reads the prices of --price or --prices. */
void feature_prices(const FeatureEstimateOptions *options, PriceList *prices);
/* Prints the estimate on each card of --gpu. workers: of --num-workers; 0: not given. */
void feature_estimate(const FeatureEstimateOptions *options, const PrepareOptions *prepare, const FeatureDevice *on,
                      int workers);
