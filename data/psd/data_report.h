/* Reports on the recordings before a model is trained on them: prints, and collects data_report.json. */
#pragma once

#include "base/json.h"

#include "data/psd/scan.h"

/* Adds what the scan found: files that are left out, doubtful labels, copies, unusual widths, bins and rows without
 * information. */
void psd_data_report_files(json_t *report, const PsdScan *scan);
/* Adds the number of rows per sensor and technology. */
void psd_data_report_rows(json_t *report, const PsdManifest *manifest);

/* Groups of rows that should not be in two splits. */
typedef struct {
    PsdRows rows;
    int32_t *contents; /* [rows] the same number for files with the same bytes */
} PsdGroups;
/* Groups the rows of a manifest, whose files the scan has hashed. */
PsdGroups psd_data_report_groups(const PsdManifest *manifest, const PsdScan *scan);
void psd_data_report_groups_free(PsdGroups *groups);

/* Adds the partitions of one split file under its name: their sizes, and how many files and contents are in the test
 * and in another split. False with an error if a row is in two splits. n: 1, or the number of sensors times shots. */
bool psd_data_report_splits(json_t *report, const char *name, const PsdPartition *partitions, int64_t n,
                            const PsdGroups *groups, Error *error);
