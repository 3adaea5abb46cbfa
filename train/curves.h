/* Charts of runs from their logs: every metric in training and validation, learning rate, gradient norm, speed. */
#ifndef TRAIN_CURVES_H
#define TRAIN_CURVES_H

#include <jansson.h>

#include "report/plot.h"

/* A run to draw. */
typedef struct {
    const char *name;            /* in the legend; not shown if there is one run only */
    const json_t *records;       /* of log.jsonl (log_read) */
    const char *baseline;        /* name of a known value of the metric `baseline_metric` for comparison; NULL: none */
    const char *baseline_metric; /* "mel_loss" */
    double baseline_value;
} RunLog;

/* Charts that borrow nothing from the logs. */
typedef struct {
    Plot *plots; /* [n] titles: "mel_loss", "learning rate" ...; the metrics come first, as the model lists them */
    int n;
    void *storage;
} RunCurves;

/* Makes a chart for each quantity that some log has finite values of. The best validation is ringed in charts of one
 * run; its restarts are vertical lines. Free with run_curves_free. */
RunCurves run_curves_make(const RunLog *runs, int n_runs);
/* Returns the chart of this title, or NULL. */
const Plot *run_curves_find(const RunCurves *curves, const char *title);
void run_curves_free(RunCurves *curves);

#endif
