/* Numbers as text with 2 or 3 digits. A text is valid for the next 63 calls. */
#pragma once

#define HOUR (3600.0)
#define DAY  (24 * HOUR)

const char *number(double x);
const char *seconds(double x); /* "12 ms", "3.1 days" */
const char *bytes(double x);   /* "12.6 GB" */
const char *percent(double share);
const char *dollars(double x);
const char *times(double x); /* "1.3x" */
const char *count(double x); /* "14.1K", "26.2M" */
