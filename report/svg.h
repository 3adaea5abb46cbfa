/* Elements of SVG pictures: the page, rectangles and text. */
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include <stdio.h>

#include "base/base.h"

/* Begins a white page in pixels. Classes of paths: "grid", "axis" (thin, grey) and "line" (round ends, no fill). */
void svg_begin(FILE *out, int width, int height);
void svg_end(FILE *out);
/* attributes: fill, stroke ... */
void svg_rectangle(FILE *out, double x, double y, double width, double height, const char *attributes);
/* attributes: those of the element but its position. Characters that XML cannot represent become spaces. */
void svg_text(FILE *out, double x, double y, const char *attributes, const char *text);
#define SVG_TITLE   "font-size=\"17\" font-weight=\"600\""
#define SVG_CENTRED "text-anchor=\"middle\""
/* Writes formatted text of at most 255 bytes. */
void svg_label(FILE *out, double x, double y, const char *attributes, const char *format, ...) PRINTF_LIKE(5, 6);

#endif
