/* Numbers as people read them. Each function with a `text` writes into it and returns it. */
#pragma once

#include <stdint.h>

const char *format_duration(double seconds, char text[32]); /* "45.2 s", "7m05s", "3h12m" */
/* The same, but "2.5 days", "12 days", "1000 years or more" from 48 h on. */
const char *format_days(double seconds, char text[32]);
const char *format_milliseconds(double seconds, char text[32]); /* "83.1 ms", but "12.3 s" from 10 s on */
/* With k, M, G, T: "4.5 TFLOP"; unit "": "386", "1.20 M". */
const char *format_count(double count, const char *unit, char text[32]);
const char *format_now(char text[32]);                 /* the time in UTC: "2026-01-31T12:00:00Z" */
const char *format_bytes(double bytes, char text[32]); /* "1.23 GB" */
const char *format_plural(int64_t count);              /* "" for 1, else "s": "1 field", "2 fields" */
