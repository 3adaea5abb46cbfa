/* What is worth knowing of recordings before a model is trained on them, printed and gathered for doctor.json. */
#ifndef DATA_PSD_DOCTOR_H
#define DATA_PSD_DOCTOR_H

#include "base/json.h"

#include "data/psd_scan.h"

/* What was scanned: what is left out, labels in doubt, copies, widths, bins and rows that hold nothing. Adds to the
 * report. */
void psd_doctor_files(json_t *report, const PsdScan *scan);
/* Rows of each sensor and technology. */
void psd_doctor_rows(json_t *report, const PsdManifest *manifest);

/* What splits are checked for: an id in two parts is an error; files, and contents, that are in the test and in another
 * part as well are counted. */
typedef struct {
    PsdRows rows;
    int32_t *contents; /* [rows] the same number for files of the same bytes */
} PsdGroups;
PsdGroups psd_groups_of(const PsdManifest *manifest, const PsdScan *scan);
void psd_groups_free(PsdGroups *groups);

/* A split, or (n > 1) those of sensors, under the name of their file. */
bool psd_doctor_splits(json_t *report, const char *name, const PsdSplit *splits, int64_t n, const PsdGroups *groups,
                       Error *error);

#endif
