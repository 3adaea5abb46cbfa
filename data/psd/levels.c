#include "data/psd/levels.h"

#include <math.h>
#include <stdlib.h>

static const double ORDERS = 2; /* levels in dB are of one order, some -120 to 0 */

void psd_level_add(PsdLevel *level, const PsdRow *row) {
    double magnitude = fmax(fabs(row->least), fabs(row->most));
    if (magnitude > 0) psd_level_join(level, &(PsdLevel){row->least, row->most, log10(magnitude), 1});
}

void psd_level_join(PsdLevel *level, const PsdLevel *other) {
    if (!other->rows) return;
    level->least = level->rows ? fmin(level->least, other->least) : other->least;
    level->most = level->rows ? fmax(level->most, other->most) : other->most;
    level->magnitudes += other->magnitudes;
    level->rows += other->rows;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median order of the other sensors; NaN: there are none. work: [n] */
static double order_of_others(const PsdLevel *levels, int n, int but, double *work) {
    int others = 0;
    for (int i = 0; i < n; i++)
        if (i != but && levels[i].rows) work[others++] = levels[i].magnitudes / (double)levels[i].rows;
    qsort(work, (size_t)others, sizeof *work, ascending);
    return others ? (work[(others - 1) / 2] + work[others / 2]) / 2 : (double)NAN;
}

json_t *psd_levels_doubtful(const PsdLevel *levels, const char *const *sensors, int n) {
    json_t *list = json_array();
    double *work = xmalloc(((size_t)n + 1) * sizeof *work);
    for (int i = 0; i < n; i++) {
        const PsdLevel *l = &levels[i];
        double order = l->magnitudes / (double)l->rows, others = order_of_others(levels, n, i, work);
        char *text = NULL;
        if (l->rows && l->least >= 0 && l->most < 1)
            text =
                xformat("sensor %s is no dB: its bins are from %.3g to %.3g, as linear power is; 10 log10 of it is dB",
                        sensors[i], l->least, l->most);
        else if (l->rows && fabs(order - others) >= ORDERS)
            text =
                xformat("sensor %s seems to be no dB: its bins are from %.3g to %.3g, of the order of 1e%.0f, those of "
                        "other sensors 1e%.0f",
                        sensors[i], l->least, l->most, order, others);
        if (text) json_array_append_new(list, json_string_nocheck(text));
        free(text);
    }
    free(work);
    return list;
}
