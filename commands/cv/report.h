/* The reports of train_cv: the tables and diagrams of each fold, and of all folds together. */
#pragma once

#include "commands/cv/fold.h"
#include "commands/cv/report/tested_fold.h"

typedef struct {
    json_t *options;
    const char *directory;
} CvReport;

/* Opens the reports of a run, which go to its --output-dir. */
CvReport cv_report_open(const CvRun *run);
void cv_report_close(CvReport *report);
/* Writes the report of a fold that was tested, with the curves of its training. */
void cv_report_fold(const CvReport *report, CvFold *f);
/* Writes the report over n folds; one fold has none. */
void cv_report_folds(const CvReport *report, const CvFold *folds, int n);
/* Writes report.html about the folds so far. */
void cv_report_page(const CvReport *report, bool is_running);
