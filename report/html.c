#include "report/html.h"

#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "report/svg.h"

/* ---- text ---- */

/* Returns whether a character is drawn, and does not change how others are. */
static bool is_plain(ucs4_t c) {
    bool control = (c < ' ' && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
    bool turns = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e || c == 0x200f;
    return !control && !turns && c != 0xfffd && c != 0xfffe && c != 0xffff;
}

void html_text(FILE *out, const char *text) {
    size_t left = strlen(text);
    while (left) {
        ucs4_t c;
        int n = u8_mbtouc(&c, (const uint8_t *)text, left);
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else if (c == '"')
            fputs("&quot;", out);
        else if (c == '\'')
            fputs("&#39;", out);
        else if (is_plain(c))
            fwrite(text, 1, (size_t)n, out);
        else
            fputs("\xef\xbf\xbd", out);
        text += n;
        left -= (size_t)n;
    }
}

void html_format(FILE *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *text = vxformat(format, arguments);
    va_end(arguments);
    html_text(out, text);
}

void html_print(FILE *out, const char *format, ...) {
    va_list texts;
    va_start(texts, format);
    for (const char *end; (end = strstr(format, "%s")); format = end + strlen("%s")) {
        fwrite(format, 1, (size_t)(end - format), out);
        html_text(out, va_arg(texts, const char *));
    }
    va_end(texts);
    fputs(format, out);
}

void html_fact(FILE *out, const char *name, const char *value) {
    if (value && *value)
        html_print(out, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, value);
    else
        html_print(out, "<div><dt>%s</dt><dd class=\"unknown\">unknown</dd></div>\n", name);
}

void html_data_uri(FILE *out, const char *type, const void *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = bytes;
    fprintf(out, "data:%s;base64,", type);
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        unsigned group = (unsigned)at[i] << 16;
        if (n > 1) group |= (unsigned)at[i + 1] << 8;
        if (n > 2) group |= at[i + 2];
        for (size_t k = 0; k < 4; k++) fputc(k <= n ? digits[group >> (18 - 6 * k) & 63] : '=', out);
    }
}

/* ---- tables ---- */

static void table_open(FILE *out, const char *caption) {
    html_print(out,
               "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><caption>%s</caption>"
               "<thead><tr>",
               caption, caption);
}

void html_table_begin_cells(FILE *out, const char *caption, const char *const *cells, int n) {
    table_open(out, caption);
    for (int i = 0; i < n; i++) html_print(out, "<th scope=\"col\">%s</th>", cells[i]);
    fputs("</tr></thead><tbody>\n", out);
}

void html_table_begin(FILE *out, const char *caption, const char *header) {
    table_open(out, caption);
    for (const char *at = header; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        size_t size = strcspn(at, "|");
        bool right = size && at[size - 1] == ':';
        fprintf(out, "<th scope=\"col\"%s>", right ? " class=\"n\"" : "");
        html_format(out, "%.*s", (int)size - right, at);
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
}

void html_table_end(FILE *out) { fputs("</tbody></table></div>\n", out); }

/* ---- pictures ---- */

/* Returns whether a word of `size` bytes is in a list of words separated by spaces. */
static bool in_words(const char *list, const char *word, size_t size) {
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == size && !strncmp(at, word, size)) return true;
    return false;
}

/* Returns whether the text behind a tag is the style of this program's pictures, and no more. */
static bool is_own_style(const char *at) {
    size_t size = strlen(SVG_STYLE);
    return *at == '>' && !strncmp(at + 1, SVG_STYLE, size) && !strncmp(at + 1 + size, "</style>", 8);
}

/* Checks the attributes of a tag up to its '>', which *at then is. */
static bool check_attributes(const char **at, Error *error) {
    static const char allowed[] =
        "xmlns width height viewBox role aria-label class d x y x1 y1 x2 y2 cx cy r rx ry dx dy "
        "points fill fill-opacity stroke stroke-width stroke-opacity stroke-dasharray opacity "
        "stroke-linejoin stroke-linecap text-anchor font-size font-weight font-family "
        "transform paint-order dominant-baseline preserveAspectRatio";
    for (;;) {
        *at += strspn(*at, " \n\t/");
        if (**at == '>') return true;
        size_t size = strcspn(*at, "= \n\t/>");
        if (!in_words(allowed, *at, size))
            return error_set(error, "the attribute '%.*s'", size > 40 ? 40 : (int)size, *at);
        *at += size;
        if (strncmp(*at, "=\"", 2)) return error_set(error, "an attribute without quotes");
        bool has_functions = in_words("transform", *at - size, size);
        size_t length = strcspn(*at + 2, "\"<"), plain = strcspn(*at + 2, has_functions ? "\"<&\\" : "\"<&\\(");
        if (plain < length)
            return error_set(error, "the attribute '%.*s' with '%c'", (int)size, *at - size, (*at)[2 + plain]);
        *at += 2 + length;
        if (**at != '"') return error_set(error, "an attribute without an end");
        (*at)++;
    }
}

enum { SVG_DEEPEST = 16 /* elements within each other */ };

bool html_svg_check(const char *text, Error *error) {
    static const char allowed[] = "svg g path rect circle line polyline text tspan title desc style";
    const char *open[SVG_DEEPEST];
    int depth = 0;
    if (strncmp(text, "<svg ", 5)) return error_set(error, "it does not begin with <svg");
    for (const char *at = text; (at = strchr(at, '<'));) {
        bool closes = at[1] == '/';
        const char *name = at + 1 + closes;
        size_t size = strcspn(name, " \n\t/>");
        if (!depth && at != text) return error_set(error, "it is more than one element");
        if (!in_words(allowed, name, size))
            return error_set(error, "it has an element '%.*s', which no picture of this program has",
                             size > 40 ? 40 : (int)size, name);
        at = name + size;
        if (!check_attributes(&at, error)) return error_before(error, "it has ");
        if (closes) {
            if (!depth || strncmp(open[depth - 1], name, size) || strcspn(open[depth - 1], " \n\t/>") != size)
                return error_set(error, "'</%.*s>' does not close what is open", (int)size, name);
            depth--;
            continue;
        }
        if (at[-1] != '/' && depth == SVG_DEEPEST) return error_set(error, "its elements are too deep");
        if (at[-1] != '/') open[depth++] = name;
        if (in_words("style", name, size) && !is_own_style(at))
            return error_set(error, "its style is not that of this program's pictures");
    }
    return !depth || error_set(error, "it is cut off");
}
