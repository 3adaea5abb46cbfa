#include "tools/claims/numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"
#include "base/format.h"

enum { TURNS = 64, LENGTH = 48 };

/* Returns a buffer that is reused after TURNS calls. */
static char *buffer(void) {
    static char buffers[TURNS][LENGTH];
    static int turn;
    return buffers[turn++ % TURNS];
}

static const char *print(const char *format, ...) PRINTF_LIKE(1, 2);
static const char *print(const char *format, ...) {
    char *text = buffer();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, LENGTH, format, arguments);
    va_end(arguments);
    return text;
}

/* Writes whole numbers exactly and others with three digits, without trailing zeros or an exponent. */
const char *number(double x) {
    double scale = x ? pow(10, floor(log10(fabs(x))) - 2) : 1, whole = round(x);
    double rounded = fabs(x - whole) <= 1e-12 * fabs(x) ? whole : round(x / scale) * scale;
    if (fabs(rounded) >= 1e6)
        return print("%.0f,%03d,%03d", floor(rounded / 1e6), (int)fmod(rounded / 1e3, 1e3), (int)fmod(rounded, 1e3));
    if (fabs(rounded) >= 1e3) return print("%.0f,%03d", floor(rounded / 1e3), (int)fmod(rounded, 1e3));
    return print(fabs(rounded) >= 1e-3 || x == 0 ? "%.3g" : "%.1g", rounded);
}

const char *seconds(double x) {
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{2 * DAY, DAY, "days"}, {2 * HOUR, HOUR, "h"}, {120, 60, "min"}, {0.9995, 1, "s"}, {0, 1e-3, "ms"}};
    size_t i = 0;
    while (x < units[i].from) i++;
    return print("%s %s", number(x / units[i].unit), units[i].name);
}

const char *bytes(double x) { return format_bytes(x, buffer()); }

const char *percent(double share) {
    double x = fabs(share);
    return print("%.*f %%", x >= 0.0995 ? 0 : x >= 0.000995 || x == 0 ? 1 : 3, 100 * share);
}

const char *dollars(double x) { return print(x < 0.1 ? "$%.4f" : "$%.2f", x); }

const char *times(double x) { return x < 9.995 ? print("%.2fx", x) : print("%sx", number(x)); }

const char *count(double x) { return x < 1e6 ? print("%sK", number(x / 1e3)) : print("%sM", number(x / 1e6)); }
