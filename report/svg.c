/* SVG text. */
#include "report/svg.h"

#include <stdarg.h>

void svg_begin(FILE *out, double width, double height, const char *title) {
    (void)title;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"system-ui, Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#333\">\n"
            "<style>.grid{stroke:#e5e5e5}.axis{stroke:#888;fill:none}"
            ".line{fill:none;stroke-linejoin:round;stroke-linecap:round}</style>\n"
            "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n",
            width, height, width, height, width, height);
}

void svg_end(FILE *out) { fputs("</svg>\n", out); }

void svg_rectangle(FILE *out, double x, double y, double width, double height, const char *attributes) {
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n", x, y, width, height, attributes);
}

static void write_escaped(FILE *out, const char *text) {
    for (; *text; text++) switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
        }
}

void svg_text(FILE *out, double x, double y, const char *attributes, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    write_escaped(out, text);
    fputs("</text>\n", out);
}

void svg_label(FILE *out, double x, double y, const char *attributes, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    svg_text(out, x, y, attributes, text);
}
