/* The money that a run has cost, by --price and the time of its training. */
#pragma once

#include "train/run/run.h"

/* Returns what all parts of the run have cost until `now` (seconds_now), in the currency of --price. NaN if there is no
 * price, or if an earlier part had none or one in another currency. */
double money_spent(const Run *run, double now);
/* Writes "1.23 EUR", or "0.40 EUR in this part" if the earlier parts' cost is not known; "" without a price. Returns
 * text. */
const char *money_text(const Run *run, char text[96]);
