/* Keeps report.html of a run up to date. */
#ifndef TRAIN_RUN_PAGE_H
#define TRAIN_RUN_PAGE_H

#include "train/run/run.h"

/* Writes report.html after a validation; that of a long log, which takes more than half a second, only if pages have
 * then taken less than a fiftieth of the time. Warns once if that fails. */
void page_refresh(Run *run);

#endif
