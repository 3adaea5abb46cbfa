/* Line charts as SVG: curves of a run, and curves in the unit square. */
#pragma once

#include <stdio.h>

#include "base/base.h"

typedef struct {
    const char *name;         /* in the legend; "": none */
    const double *x, *y;      /* [n], x ascending; a point that is not finite is a gap in the line */
    const double *low, *high; /* [n] a band around the line, such as an interval; NULL: none */
    const char *band;         /* its name in the legend */
    int n;
    int best;              /* this point is ringed, counted from 1; 0: none */
    const char *best_text; /* the ring's text in the legend: "best 0.512, epoch 3"; NULL: none */
    bool reference;        /* such as a known floor: thin, grey, dashed */
    bool mean;             /* of the other series: thick, in the colour of text */
    bool minor;            /* has the colour of the next series, thin and without markers */
    bool steps;            /* y[i] holds from x[i - 1] to x[i] */
} PlotSeries;

typedef struct {
    const char *title, *x_label, *y_label; /* labels with units; title: "" or of the chart within a figure */
    const PlotSeries *series;
    int n_series;
    const double *restarts; /* [n_restarts] values of x with a vertical line */
    int n_restarts;
    bool log_y;  /* y is drawn on a logarithmic scale; values that are not positive are gaps */
    bool unit;   /* both axes go from 0 to 1, in a square */
    bool narrow; /* for a column of a page: still legible where that is a phone's screen */
} Plot;

/* Returns true if there is a finite point, and the range can be drawn. */
bool plot_can_draw(const Plot *plot, Error *error);
/* Draws one chart, or several in two columns, as one <svg> element. Writes nothing and fails if a chart cannot be
 * drawn. title: of the figure. */
bool plot_draw(FILE *out, const Plot *plots, int n, const char *title, Error *error);
/* Writes the same as a file, atomically. */
bool plot_write(const char *path, const Plot *plots, int n, const char *title, Error *error);
