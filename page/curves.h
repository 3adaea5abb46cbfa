/* Charts of runs from their logs: every metric in training and validation, learning rate, gradient norm, speed. */
#pragma once

#include <jansson.h>

#include "report/plot.h"

/* A run to draw. */
typedef struct {
    const char *name;      /* in the legend, if there are several runs */
    const json_t *records; /* of log.jsonl (log_read) */
    /* A known value of a metric ("mel_loss") for comparison; none if a text is NULL or the value is not
     * finite. */
    const char *baseline, *baseline_metric;
    double baseline_value;
    const char *token; /* what it counts in a second, "cells"; NULL: tokens */
} RunLog;

/* Charts that borrow nothing from the logs. Titles are names of metrics, in the order of the log; then "objective" if
 * it is none of them, "learning rate", "gradient norm", "tokens per second" (or what the runs count instead),
 * "utilisation" and sensors of the GPU. */
typedef struct {
    Plot *plots; /* [n] */
    int n;
} RunCurves;

/* Makes a chart for each quantity of which some log has a finite value. For a single run, rings the validation of
 * the best weights and marks restarts with vertical lines. Free with run_curves_free. */
RunCurves run_curves_make(const RunLog *runs, int n_runs);
/* Returns the chart of this title, or NULL. */
const Plot *run_curves_find(const RunCurves *curves, const char *title);
void run_curves_free(RunCurves *curves);
