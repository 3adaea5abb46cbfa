/* Keeps report.html of a run up to date. */
#pragma once

#include "train/run/run.h"

/* Returns the least seconds between two pages of a running training. The later one reads the log anew: if the last page
 * took more than half a second, pages take a fiftieth of the time at most; of a log of more than 32 MiB, which also
 * takes memory, there is one every ten minutes. */
double page_pause(double seconds, int64_t log_bytes);
/* Writes report.html after a validation, unless the last page was written too recently. Warns once if that fails. */
void page_refresh(Run *run);
