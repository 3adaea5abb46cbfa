/* Plots any doubles as the points of two curves. The result is an error or a plot with a bounded number of ticks, whose
 * numbers are finite. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "report/plot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[64];
    int n = (int)(size / (2 * sizeof(double)) < 64 ? size / (2 * sizeof(double)) : 64);
    double x[64], y[64];
    if (!*path) snprintf(path, sizeof path, "/dev/shm/fuzz_plot_%d.svg", (int)getpid());
    if (n) memcpy(x, data, (size_t)n * sizeof *x);
    if (n) memcpy(y, data + (size_t)n * sizeof *x, (size_t)n * sizeof *y);
    PlotSeries series[2] = {{.name = "a", .x = x, .y = y, .n = n}, {.name = "b", .x = y, .y = x, .n = n / 2}};
    Error error = {.text = ""};
    Plot plot = {.x_label = "x", .y_label = "y", .series = series, .n_series = 2};
    plot.log_y = n && x[0] > 0; /* both scales */
    if (plot_write(path, &plot, 1, "title", &error)) {
        char *text;
        size_t bytes;
        if (!read_file(path, &text, &bytes, &error) || bytes > 100000) abort();
        if (memmem(text, bytes, "nan", 3) || memmem(text, bytes, "inf", 3)) abort();
        free(text);
        unlink(path);
    } else if (!error.text[0]) {
        abort();
    }
    return 0;
}
