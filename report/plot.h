/* A line chart as an SVG file: the picture of a run's loss. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include "base/base.h"

typedef struct {
    const char *name;    /* in the legend */
    const double *x, *y; /* [n], x ascending; a point that is not finite is a gap in the line */
    int n;
    bool dashed; /* a reference, such as a known floor: thin, grey, dashed */
} PlotSeries;

/* Returns true if there is a finite point, and the range can be drawn. */
bool plot_can_draw(const PlotSeries *series, int n_series, Error *error);
/* Writes the chart to `path`, atomically. Fails when no series has a finite point, or the file cannot be written. */
bool plot_write_svg(const char *path, const PlotSeries *series, int n_series, const char *title, const char *x_label,
                    const char *y_label, Error *error);

#endif
