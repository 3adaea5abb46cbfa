/* Elements of SVG pictures: the page, rectangles, text, and the palette.
 *
 * A picture is one <svg> element, the same text in a file of its own and within an HTML page. It has no ids; its
 * classes begin with "plot", and every picture defines them alike. Colours of data are attributes that serve on white
 * and on the dark page. Paper, ink and grid follow prefers-color-scheme. A page scales pictures with
 * svg.plot{max-width:100%;height:auto}; with a switch of its own it overrides plot-paper, plot-ink, plot-muted,
 * plot-grid, plot-axis, and plot-halo (behind labels within the data: of earlier pictures). */
#pragma once

#include <stdio.h>

#include "base/base.h"

#define SVG_LIGHT "#ffffff" /* the paper of a light page, and of a dark one */
#define SVG_DARK  "#16181d"
enum { SVG_COLOURS = 6, SVG_DASHES = 5 };
/* Colours that people with any colour vision can tell apart, with a contrast of at least 3:1 on both papers. */
extern const char *const SVG_PALETTE[SVG_COLOURS];
/* Values of stroke-dasharray, so that lines differ in print too; the first is solid. Curve i has colour i % SVG_COLOURS
 * and dashes i % SVG_DASHES: 30 different lines. */
extern const char *const SVG_DASH[SVG_DASHES];

/* The rules of the classes, which every picture has in its <style>. */
extern const char SVG_STYLE[];
/* Begins a picture of this size in pixels, with its title for screen readers. */
void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);
/* attributes: fill, stroke ... */
void svg_rectangle(FILE *out, double x, double y, double width, double height, const char *attributes);
/* Writes text between two tags. Characters that XML cannot represent become spaces. */
void svg_escape(FILE *out, const char *text);
/* attributes: those of the element but its position. */
void svg_text(FILE *out, double x, double y, const char *attributes, const char *text);
/* The same, turned clockwise about that position. */
void svg_turned(FILE *out, double x, double y, double degrees, const char *attributes, const char *text);
#define SVG_TITLE   "font-size=\"17\" font-weight=\"600\""
#define SVG_CENTRED "text-anchor=\"middle\""
/* Writes formatted text of at most 255 bytes. */
void svg_label(FILE *out, double x, double y, const char *attributes, const char *format, ...) PRINTF_LIKE(5, 6);
/* Estimates the width of text in pixels at the font size 13, rather too wide than too narrow. */
double svg_text_width(const char *text);
/* Returns the text, shortened with an ellipsis in its middle to at most `width` pixels; free() */
char *svg_text_fit(const char *text, double width);
