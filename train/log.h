/* Where a run's numbers go: lines and a progress line on the terminal, log.jsonl, and a TensorBoard event file. */
#ifndef TRAIN_LOG_H
#define TRAIN_LOG_H

#include <jansson.h>

#include "base/base.h"

typedef struct Log Log;

/* Opens DIR/log.jsonl, appending, after an atomic rewrite that drops a torn last line and the lines of steps after
 * `resume_step`, which will be done again (a fresh start, 0, begins a new log); and an event file in
 * DIR/logs/run_YYYYmmdd_HHMMSS, or DIR/logs/$INDEXTTS_RUN_NAME (as file_name_of makes a name of it). Dies if it cannot.
 * What cannot be written later is warned of once, kept, and written with the next record; training goes on. */
Log *log_open(const char *directory, int64_t resume_step);
/* Call it before log_open. `newest` is the serial of the newest checkpoint there; 0: there is none, and a log that lies
 * there, of a run that was moved away or left no checkpoint, or the user's, is kept as log.before.N.jsonl. goes_back:
 * the run goes on from an earlier one. Keeps the log that belongs to the newest as log.SERIAL.jsonl until the run has a
 * checkpoint of its own, which removes the file; a run that was killed before that has changed nothing: its log makes
 * way for the one kept. Returns the file's path, free(); NULL: the run does not go back. */
char *log_set_aside(const char *directory, int64_t newest, bool goes_back);
/* Tries to write what is kept; false: the files lack something. */
bool log_flush(Log *log);
void log_close(Log *log);

typedef struct {
    const char *name; /* "train/text_loss" */
    double value;
} LogValue;

/* One JSON line {"kind": "train", "step": N, "time": seconds, name: value, ...}, in which a value that is not finite is
 * null, and one TensorBoard scalar a value. At most 64 values, names shorter than 64 characters. No allocation. */
void log_values(Log *log, const char *kind, int64_t step, double wall_time, const LogValue *values, int count);

/* The records of a file of such lines: an array, for json_decref. No file: no records. */
json_t *log_read(const char *path);

/* Terminal. A line scrolls; the progress line stays at the bottom of a terminal, and is silent when stdout is none. */
void log_line(Log *log, const char *format, ...) PRINTF_LIKE(2, 3);
void log_progress(Log *log, const char *format, ...) PRINTF_LIKE(2, 3);
bool log_is_terminal(const Log *log);

/* "3h12m", "45.2 s"; "1.23 GB"; "4.5 TFLOP": into text, which is returned. */
const char *format_duration(double seconds, char text[32]);
const char *format_bytes(double bytes, char text[32]);
const char *format_count(double count, const char *unit, char text[32]); /* k, M, G, T */

#endif
