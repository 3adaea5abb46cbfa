#include "commands/cv/report/epoch_curves.h"

#include <math.h>
#include <stdlib.h>

#include "page/log.h"
#include "train/options.h"

static void set_values(EpochCurves *c, int epoch, const double values[EPOCH_CURVES]) {
    for (int i = 0; i < EPOCH_CURVES; i++) {
        if (epoch >= c->n) c->values[i] = xrealloc(c->values[i], ((size_t)epoch + 1) * sizeof **c->values);
        for (int at = c->n; at < epoch; at++) c->values[i][at] = NAN;
        c->values[i][epoch] = values[i];
    }
    if (epoch >= c->n) c->n = epoch + 1;
}

EpochCurves epoch_curves_read(const char *path) {
    static const char *const names[EPOCH_CURVES] = {"train/loss", "val/loss", "train/accuracy", "val/accuracy"};
    EpochCurves c = {.n = 0};
    json_t *records = log_read(path), *record;
    double sums[EPOCH_CURVES] = {0}, values[EPOCH_CURVES], steps = 0, before = 0, epoch = 0;
    size_t r;
    json_array_foreach(records, r, record) {
        if (!isnan(log_number(record, names[CURVE_TRAIN_LOSS]))) {
            double more = log_number(record, "step") - before;
            for (int i = CURVE_TRAIN_LOSS; i < EPOCH_CURVES; i += 2) sums[i] += more * log_number(record, names[i]);
            steps += more;
            before += more;
            epoch = log_number(record, "train/epoch");
        }
        if (isnan(log_number(record, names[CURVE_VAL_LOSS]))) continue;
        for (int i = 0; i < EPOCH_CURVES; i++) values[i] = i % 2 ? log_number(record, names[i]) : sums[i] / steps;
        if (epoch >= 1 && epoch <= MAX_EPOCHS && epoch == floor(epoch))
            set_values(&c, (int)epoch - 1, values);
        else
            c.left_out++;
        sums[CURVE_TRAIN_LOSS] = sums[CURVE_TRAIN_ACCURACY] = steps = 0;
    }
    json_decref(records);
    return c;
}

void epoch_curves_free(EpochCurves *c) {
    for (int i = 0; i < EPOCH_CURVES; i++) free(c->values[i]);
    *c = (EpochCurves){.n = 0};
}
