/* Writes the log of a run: log.jsonl and a TensorBoard event file. */
#pragma once

#include <jansson.h>

#include "base/base.h"

typedef struct Log Log;

/* Opens DIR/log.jsonl for appending, after an atomic rewrite that drops a torn last line and the lines of steps after
 * `resume_step`, which the run will repeat (0, a fresh start, begins a new log). Opens an event file in
 * DIR/logs/run_YYYYmmdd_HHMMSS, or in DIR/logs/RUN (made a valid name by file_name_in) if `run` is not NULL or empty.
 * Dies if either fails. Later write errors are warned of once; the data are kept and written with the next record, and
 * training goes on. */
Log *log_open(const char *directory, const char *run, int64_t resume_step);
/* Sets the log of an earlier run aside. Call this before log_open. `newest` is the serial of the directory's newest
 * checkpoint. 0: there is no checkpoint, and an existing log (of a run that was moved away or left no checkpoint, or
 * the user's) is kept as log.before.N.jsonl. goes_back: the run resumes from an older checkpoint. Then the log of the
 * newest checkpoint is kept as log.SERIAL.jsonl until the run has written a checkpoint. If the run is killed before
 * that, the kept log replaces the run's log. Returns the path of the kept file, free(); NULL if the run does not go
 * back. */
char *log_set_aside(const char *directory, int64_t newest, bool goes_back);
/* Tries to write what is kept. Returns false if the files are still incomplete. */
bool log_flush(Log *log);
void log_close(Log *log);

typedef struct {
    const char *name; /* "train/text_loss" */
    double value;
} LogValue;

/* Writes one JSON line {"kind": "train", "step": N, "time": seconds, name: value, ...}, with null for values that are
 * not finite, and one TensorBoard scalar per value. Takes at most 64 values with names shorter than 64 characters.
 * Allocates nothing. */
void log_values(Log *log, const char *kind, int64_t step, double wall_time, const LogValue *values, int count);

/* Writes one JSON line {"kind": "text", "step": N, "time": seconds, "name": name, "text": text}, and one TensorBoard
 * text. Bytes that are no UTF-8 become U+FFFD. */
void log_text(Log *log, int64_t step, double wall_time, const char *name, const char *text);

/* Writes one JSON line {"kind": "start", "step": N, "time": seconds, name: value, ...} with the values of `fields`, any
 * JSON. Takes over `fields`. */
void log_object(Log *log, const char *kind, int64_t step, double wall_time, json_t *fields);
