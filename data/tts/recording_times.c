#include "data/tts/recording_times.h"

#include <math.h>
#include <string.h>

#include "data/formats/csv.h"

/* Converts seconds, or hours, minutes and seconds between colons. */
static bool seconds_of(const char *text, double *out) {
    char part[64];
    double number;
    *out = 0;
    for (int parts = 0; parts < 3; parts++) {
        size_t n = strcspn(text, ":");
        if (n >= sizeof part) return false;
        memcpy(part, text, n);
        part[n] = 0;
        if (!csv_number(part, &number) || number < 0) return false;
        *out = 60 * *out + number;
        if (!text[n]) return *out <= 1e9; /* milliseconds of it are a whole number */
        text += n + 1;
    }
    return false;
}

/* Reads a time that decides which sound belongs to the text. */
static bool read_time(const char *text, int field, double *out, Error *error) {
    const char *name = recording_field_name(field);
    return seconds_of(text, out) ||
           error_set(error, "the %s is %.60s, expected seconds; --%s-field none leaves it alone", name, text, name);
}

bool recording_read_times(Recording *r, Error *error) {
    double length;
    r->from = r->stated = 0;
    r->to = INFINITY;
    if (r->duration && seconds_of(r->duration, &length)) r->stated = length;
    if (r->start && !read_time(r->start, FIELD_START, &r->from, error)) return false;
    if (r->end && !read_time(r->end, FIELD_END, &r->to, error)) return false;
    if (r->start && !r->end && r->duration) {
        if (!read_time(r->duration, FIELD_DURATION, &length, error)) return false;
        r->to = r->from + length;
    }
    return r->to > r->from ||
           error_set(error, "the recording begins at %.10g s of its file and ends at %.10g s", r->from, r->to);
}

void recordings_complete_times(Recordings *all) {
    bool parts = false;
    for (int64_t i = 0; i < all->count && !parts; i++) parts = all->items[i].start;
    for (int64_t i = 0; i < all->count && parts; i++) {
        Recording *r = &all->items[i];
        if (!r->start && !r->end && r->stated > 0) r->to = r->stated;
    }
}
