/* Prints what --estimate --gpus says of cards that share a step. */
#pragma once

#include <jansson.h>

#include "estimate/estimate.h"

/* Returns whether there is anything to say: several cards were asked for, or their number was to be chosen. */
bool shared_is_reported(const RunTime *run);
/* Prints the link, what a step waits for, what one card would take, and the advice. */
void shared_print(const TrainSpec *spec, const RunTime *run);
/* Writes "2 over pcie4 --zero 1, " for a line of several cards; "" for one. Returns text. */
const char *shared_text(const RunTime *run, char text[64]);
/* Returns the same as JSON. */
json_t *shared_json(const RunTime *run);
