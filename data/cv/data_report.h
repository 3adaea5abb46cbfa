/* Reports on FLIM cells before a model is trained on them, as text and as JSON: above all how well the classes can be
 * separated without any biology (data/cv/confounds.h). */
#pragma once

#include "base/json.h"
#include "data/cv/splits.h"

/* Prints the table of donors and classes, the confounds and the copies, and adds them to the report. Returns the number
 * of warnings. */
int cv_data_report(json_t *report, const CvCells *cells, uint64_t seed);
/* Prints what a filter keeps of each donor and class, and adds it to the report under `name`. */
void cv_data_report_filter(json_t *report, const char *name, const CvCells *cells, const CvFilter *filter);
