/* A training as its folder tells it: log.jsonl, and the record of its newest checkpoint. What an older program did not
 * write is unknown: NULL, NaN or -1. */
#pragma once

#include <jansson.h>

#include "base/base.h"

typedef enum { RUN_FINISHED, RUN_OUT_OF_PATIENCE, RUN_STOPPED, RUN_ENDED, RUN_UNENDED } RunEnd;

typedef struct {
    char *directory, *name; /* name: as the page calls it */
    json_t *records;        /* of log.jsonl */
    int64_t torn;           /* number of a half-written last line; 0: none */
    json_t *state;          /* state.json of the newest checkpoint; NULL: there is none */
    /* Records, which `records` owns. start: the last one; summary: after the last start, or NULL. */
    const json_t *start, *summary;
    const json_t *measured; /* start record of the part whose speed and utilisation follow, or NULL */
    int starts;
    const char *date; /* of the first start, in UTC: "2026-11-23T10:00:00Z" */
    RunEnd end;
    int64_t signal;                 /* RUN_STOPPED */
    int64_t step, total_steps;      /* done so far; of the whole run, or -1 */
    double seconds, epoch;          /* of training */
    const char *metric;             /* "val/auroc", which decides; NULL: there was no validation */
    int64_t best_step;              /* -1: none */
    double best, best_epoch;        /* the metric's value there; NaN: the log does not have it */
    double steps_rate, tokens_rate; /* medians, per second */
    double utilisation;             /* mean share of the peak */
    bool recomputes;                /* the utilisation is that of the hardware (HFU) */
    double peak_flops;              /* that it divides by */
    double planned_bytes, peak_bytes;
    const char *currency;          /* of the last part with a price; NULL: none has one */
    double price, cost, part_cost; /* per hour, of the last part; of all parts so far, NaN if one has no price or
                                    * another currency; of the last part */
} LoggedRun;

/* Reads the run of a folder. Fails if log.jsonl cannot be read, or has a damaged line. */
bool logged_run_open(LoggedRun *run, const char *directory, const char *name, Error *error);
void logged_run_close(LoggedRun *run);

/* Returns a field of the start record: a text or NULL; a number or NaN; an object or array, or NULL. */
const char *logged_run_text(const LoggedRun *run, const char *key);
double logged_run_number(const LoggedRun *run, const char *key);
/* Returns the run's options: of the start record, or of the checkpoint; NULL: unknown. */
const json_t *logged_run_options(const LoggedRun *run);

/* The values of one name in the log, in the order of steps. */
typedef struct {
    double *steps, *values; /* [n], finite */
    int64_t n;
} LoggedValues;
LoggedValues logged_values(const LoggedRun *run, const char *name);
/* Returns the index of the least value; n > 0. */
int64_t logged_values_least(const LoggedValues *values);
void logged_values_free(LoggedValues *values);
