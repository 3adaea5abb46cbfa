/* SVG text. The palette has the hues of Okabe and Ito ("Color Universal Design", 2008). Their lightness was chosen
 * anew, so that all six colours have a contrast of 3:1 on white and on the dark paper, and stay apart for protanopes,
 * deuteranopes and tritanopes; the test of this file computes both. */
#include "report/svg.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const SVG_PALETTE[SVG_COLOURS] = {"#126bda", "#e77300", "#00804f", "#c8508c", "#9e6526", "#11a0c6"};
const char *const SVG_DASH[SVG_DASHES] = {"none", "9 4", "3 3", "9 3 2 3", "14 4"};

const char SVG_STYLE[] =
    ".plot-line{fill:none;stroke-linejoin:round}"
    ".plot-paper{fill:" SVG_LIGHT "}.plot-ink{fill:#22262b}.plot-ink.plot-line{fill:none;stroke:#22262b}"
    ".plot-muted{fill:#5f6670}.plot-muted.plot-line{fill:none;stroke:#6b727c}.plot-grid{stroke:#e3e5e8}"
    ".plot-axis{stroke:#868d97;fill:none}.plot-halo{stroke:" SVG_LIGHT ";stroke-width:4;stroke-linejoin:round}"
    "@media(prefers-color-scheme:dark){.plot-paper{fill:" SVG_DARK "}.plot-ink{fill:#dfe2e7}"
    ".plot-ink.plot-line{stroke:#dfe2e7}.plot-muted{fill:#a3aab5}.plot-muted.plot-line{stroke:#9aa1ac}"
    ".plot-grid{stroke:#30353d}.plot-axis{stroke:#7d848f}.plot-halo{stroke:" SVG_DARK "}}";

void svg_begin(FILE *out, double width, double height, const char *title) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot plot-ink\" role=\"img\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"system-ui, Helvetica, Arial, sans-serif\" "
            "font-size=\"13\">\n<title>",
            width, height, width, height);
    svg_escape(out, title);
    fputs("</title>\n<style>", out);
    fputs(SVG_STYLE, out);
    fputs("</style>\n", out);
    fprintf(out, "<rect class=\"plot-paper\" width=\"%.0f\" height=\"%.0f\"/>\n", width, height);
}

void svg_end(FILE *out) { fputs("</svg>\n", out); }

void svg_rectangle(FILE *out, double x, double y, double width, double height, const char *attributes) {
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n", x, y, width, height, attributes);
}

/* ---- text ---- */

/* Reads one character of UTF-8 and returns its bytes. For a byte that is not part of one, and for what XML cannot
 * represent, returns 1 and sets *code to a space. */
static int read_character(const char *text, uint32_t *code) {
    static const uint32_t least[] = {0, ' ', 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    int n = *at < 0x80 ? 1 : *at < 0xC0 ? 0 : *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : *at < 0xF8 ? 4 : 0;
    *code = n > 1 ? *at & (0x7Fu >> n) : *at;
    for (int i = 1; i < n; i++) {
        if ((at[i] & 0xC0) != 0x80) n = 0;
        *code = *code << 6 | (at[i] & 0x3F);
    }
    bool surrogate = *code >= 0xD800 && *code <= 0xDFFF, no_character = (*code & 0xFFFE) == 0xFFFE;
    if (n && *code >= least[n] && *code != 0x7F && !surrogate && !no_character && *code <= 0x10FFFF) return n;
    *code = ' ';
    return 1;
}

void svg_escape(FILE *out, const char *text) {
    uint32_t code;
    for (int n; *text; text += n) {
        n = read_character(text, &code);
        if (code == '<')
            fputs("&lt;", out);
        else if (code == '>')
            fputs("&gt;", out);
        else if (code == '&')
            fputs("&amp;", out);
        else
            fwrite(code == ' ' ? " " : text, 1, (size_t)n, out);
    }
}

void svg_text(FILE *out, double x, double y, const char *attributes, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    svg_escape(out, text);
    fputs("</text>\n", out);
}

void svg_turned(FILE *out, double x, double y, double degrees, const char *attributes, const char *text) {
    fprintf(out, "<g transform=\"translate(%.1f %.1f) rotate(%.0f)\">\n", x, y, degrees);
    svg_text(out, 0, 0, attributes, text);
    fputs("</g>\n", out);
}

void svg_label(FILE *out, double x, double y, const char *attributes, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    svg_text(out, x, y, attributes, text);
}

/* Widths of DejaVu Sans, the widest of the fonts that systems show for "sans-serif". */
static double character_width(uint32_t code) {
    if (code >= 0x1100) return 13.5;
    if (code < 0x80 && strchr(" ijlt.,:;|'!()[]fIr/", (int)code)) return 5;
    if (code < 0x80 && strchr("mwMW%@", (int)code)) return 12.5;
    return code >= 'A' && code <= 'Z' ? 9.5 : 8.2;
}

double svg_text_width(const char *text) {
    double width = 0;
    uint32_t code;
    for (int n; *text; text += n) {
        n = read_character(text, &code);
        width += character_width(code);
    }
    return width;
}

/* Returns where the text must begin for its end to be as wide. */
static const char *text_tail(const char *text, double width) {
    uint32_t code;
    for (double left = svg_text_width(text); *text && left > width; left -= character_width(code))
        text += read_character(text, &code);
    return text;
}

char *svg_text_fit(const char *text, double width) {
    if (svg_text_width(text) <= width) return xformat("%s", text);
    double half = (width - 13.5) / 2, head = 0;
    const char *end = text;
    uint32_t code;
    for (int n; n = read_character(end, &code), head + character_width(code) <= half; end += n)
        head += character_width(code);
    return xformat("%.*s\xE2\x80\xA6%s", (int)(end - text), text, text_tail(end, half));
}
