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

static bool is_linear(const PsdLevel *l) { return l->rows && l->least >= 0 && l->most < 1; }

static double order_of(const PsdLevel *l) { return l->magnitudes / (double)l->rows; }

/* Returns whether more than half of the other sensors, without those of linear power, are orders away from this one.
 * *other: one of these. */
static bool is_far(const PsdLevel *levels, int n, int sensor, int *other) {
    int others = 0, far = 0;
    for (int i = 0; i < n; i++) {
        if (i == sensor || !levels[i].rows || is_linear(&levels[i])) continue;
        others++;
        if (fabs(order_of(&levels[i]) - order_of(&levels[sensor])) < ORDERS) continue;
        far++;
        *other = i;
    }
    return levels[sensor].rows && 2 * far > others;
}

json_t *psd_levels_doubtful(const PsdLevel *levels, const char *const *sensors, int n) {
    json_t *list = json_array();
    for (int i = 0, other = 0; i < n; i++) {
        const PsdLevel *l = &levels[i];
        OWNED char *text = NULL;
        if (is_linear(l))
            text =
                xformat("sensor %s is no dB: its bins are from %.3g to %.3g, as linear power is; 10 log10 of it is dB",
                        sensors[i], l->least, l->most);
        else if (is_far(levels, n, i, &other))
            text =
                xformat("sensor %s seems to be no dB: its bins are from %.3g to %.3g, those of sensor %s from %.3g to "
                        "%.3g",
                        sensors[i], l->least, l->most, sensors[other], levels[other].least, levels[other].most);
        if (text) json_array_append_new(list, json_string_nocheck(text));
    }
    return list;
}
