/* Tells once, as early as it can, how long the run will take, until when, and what it will cost. */
#pragma once

#include "train/run/run.h"

/* Returns the steps and pauses that are left. */
EtaLeft forecast_left(const Run *run);
/* Tells before the first step, if the rates of the device are known: measured, or those of a card of the table. On a
 * CPU of which nothing is known, tells roughly if a micro-batch takes long; more is told after it. */
void forecast_begin(Run *run);
/* Call it before and after each micro-batch of `batch->n_tokens` rows. If a device that does not work ahead needs more
 * than a second for those of the first step, tells what they say. */
void forecast_before_micro_batch(Run *run);
void forecast_after_micro_batch(Run *run, const Batch *batch);
/* Tells after the first step whose time is known, if nothing was told before. Call it between steps, before what else
 * is due. */
void forecast_after_step(Run *run);
