#include "base/format.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

const char *format_duration(double seconds, char text[32]) {
    double whole = round(seconds);
    if (!isfinite(seconds) || seconds < 0)
        snprintf(text, 32, "?");
    else if (seconds < 99.95)
        snprintf(text, 32, "%.1f s", seconds);
    else if (whole < 6000)
        snprintf(text, 32, "%dm%02ds", (int)whole / 60, (int)whole % 60);
    else
        snprintf(text, 32, "%.0fh%02dm", floor(whole / 3600), (int)fmod(whole / 60, 60));
    return text;
}

const char *format_days(double seconds, char text[32]) {
    double days = seconds / 86400;
    if (!(days >= 2 && isfinite(days))) return format_duration(seconds, text);
    if (days < 365e3)
        snprintf(text, 32, "%.*f days", days < 9.95, days);
    else
        snprintf(text, 32, "1000 years or more");
    return text;
}

const char *format_milliseconds(double seconds, char text[32]) {
    if (seconds < 10)
        snprintf(text, 32, "%.*f ms", seconds < 0.01 ? 3 : seconds < 1 ? 1 : 0, seconds * 1e3);
    else
        snprintf(text, 32, "%.1f s", seconds);
    return text;
}

const char *format_count(double count, const char *unit, char text[32]) {
    static const char prefixes[] = " kMGTPE";
    int p = 0;
    for (; fabs(count) >= 999.5 && prefixes[p + 1]; p++) count /= 1000;
    if (p)
        snprintf(text, 32, "%.*f %c%s", count < 9.995 ? 2 : count < 99.95 ? 1 : 0, count, prefixes[p], unit);
    else
        snprintf(text, 32, "%.0f%s%s", count, *unit ? " " : "", unit);
    return text;
}

const char *format_bytes(double bytes, char text[32]) { return format_count(bytes, "B", text); }

const char *format_plural(int64_t count) { return count == 1 ? "" : "s"; }

const char *format_now(char text[32]) {
    time_t now = time(NULL);
    struct tm utc;
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return text;
}
