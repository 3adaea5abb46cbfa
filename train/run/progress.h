/* Reports the progress of a run: lines, the progress line, and records of log.jsonl. */
#pragma once

#include "train/run/run.h"

/* The forms of a report. REPORT_PROGRESS: the progress line. REPORT_LINE: a line on the terminal, if a signal ends the
 * run within a window; the next record of the resumed run covers the whole window. REPORT_RECORD: a line and a record,
 * after which the next window begins. */
typedef enum { REPORT_PROGRESS, REPORT_LINE, REPORT_RECORD } ReportForm;

/* Returns whether the progress line should be drawn: on a terminal, a few times per second, since drawing waits for the
 * device. */
bool progress_is_due(Run *run);
/* Reads the sensors of the device, at most once per second. Call it while the device still works on queued steps. */
void progress_read_sensors(Run *run);
/* Reports the steps of the window whose results have been read. Does nothing if there are none. */
void progress_log(Run *run, ReportForm form);
