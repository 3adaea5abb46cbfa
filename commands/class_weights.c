#include "commands/class_weights.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"

void class_weights_parse(const char *text, const char *rule, int classes, double *weights) {
    const char *at = text;
    bool valid = true;
    for (int c = 0; c < classes && valid; c++) {
        char *end;
        weights[c] = strtod(at, &end);
        valid = end > at && isfinite((float)weights[c]) && (float)weights[c] > 0 && *end == (c + 1 < classes ? ',' : 0);
        at = end + 1;
    }
    if (!valid) die_usage("--class-weights: expected %s, none or %d numbers above 0, found %s", rule, classes, text);
}
