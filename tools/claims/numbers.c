#include "tools/claims/numbers.h"

#include <math.h>
#include <stdio.h>

#include "base/format.h"

/* Returns a buffer that is reused after TURNS calls. */
static char *buffer(void) {
    enum { TURNS = 64, LENGTH = 48 };
    static char buffers[TURNS][LENGTH];
    static int turn;
    return buffers[turn++ % TURNS];
}

/* Writes whole numbers exactly and others with three digits, without trailing zeros or an exponent. */
const char *number(double x) {
    char *text = buffer();
    double scale = x ? pow(10, floor(log10(fabs(x))) - 2) : 1, whole = round(x);
    double rounded = fabs(x - whole) <= 1e-12 * fabs(x) ? whole : round(x / scale) * scale;
    if (fabs(rounded) >= 1e6)
        snprintf(text, 48, "%.0f,%03d,%03d", floor(rounded / 1e6), (int)fmod(rounded / 1e3, 1e3),
                 (int)fmod(rounded, 1e3));
    else if (fabs(rounded) >= 1e3)
        snprintf(text, 48, "%.0f,%03d", floor(rounded / 1e3), (int)fmod(rounded, 1e3));
    else
        snprintf(text, 48, fabs(rounded) >= 1e-3 || x == 0 ? "%.3g" : "%.1g", rounded);
    return text;
}

const char *seconds(double x) {
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{2 * DAY, DAY, "days"}, {2 * HOUR, HOUR, "h"}, {120, 60, "min"}, {0.9995, 1, "s"}, {0, 1e-3, "ms"}};
    size_t i = 0;
    char *text = buffer();
    while (x < units[i].from) i++;
    snprintf(text, 48, "%s %s", number(x / units[i].unit), units[i].name);
    return text;
}

const char *bytes(double x) { return format_bytes(x, buffer()); }

const char *percent(double share) {
    char *text = buffer();
    double x = fabs(share);
    snprintf(text, 48, "%.*f %%", x >= 0.0995 ? 0 : x >= 0.000995 || x == 0 ? 1 : 3, 100 * share);
    return text;
}

const char *dollars(double x) {
    char *text = buffer();
    snprintf(text, 48, x < 0.1 ? "$%.4f" : "$%.2f", x);
    return text;
}

const char *times(double x) {
    char *text = buffer();
    if (x < 9.995)
        snprintf(text, 48, "%.2fx", x);
    else
        snprintf(text, 48, "%sx", number(x));
    return text;
}

const char *count(double x) {
    char *text = buffer();
    snprintf(text, 48, x < 1e6 ? "%sK" : "%sM", number(x / (x < 1e6 ? 1e3 : 1e6)));
    return text;
}
