/* Prints the report of --estimate. */
#pragma once

#include "estimate/estimate.h"

/* Call it before data is read: dies at once if --gpu names no machine, and with --json lets text go to stderr. */
void estimate_begin(TrainOptions *options);
/* Prints the estimate of the run on each machine of --gpu, as text or as JSON. is_part: the run is one of several, so
 * the caller compares the cards, by the times of all. */
void estimate_report(const TrainSpec *spec, bool is_part);
