/* Two pictures of a classifier as SVG files: what it takes for what, and how true its confidence is. */
#ifndef TRAIN_DIAGRAMS_H
#define TRAIN_DIAGRAMS_H

#include "train/metrics.h"

/* confusion[classes, classes], truth down: each cell in the depth of its share of the row, with count and share. */
bool diagram_confusion(const char *path, const int64_t *confusion, int classes, const char *const *names,
                       const char *title, Error *error);
/* Accuracy by confidence: a bar a bin, the gap to its mean confidence shaded; below, how many rows each bin has. */
bool diagram_reliability(const char *path, const MetricsCalibration *calibration, const char *title, Error *error);

#endif
