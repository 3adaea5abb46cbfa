/* Markdown: files of it, and HTML of these, line by line. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "report/html.h"
#include "report/markdown.h"

/* ---- files ---- */

/* Copies text, with a backslash before what Markdown would take for a part of HTML or of a link. */
static void write_inert(FILE *out, const char *text, size_t size) {
    for (const char *at = text; at < text + size; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '\\' && at + 1 < text + size && ispunct((unsigned char)at[1])) { /* escaped already */
            fputc(*at++, out);
            fputc(*at, out);
        } else if ((c < 32 && c != '\n') || c == 127) {
            fprintf(out, "\xE2\x90%c", c == 127 ? 0xA1 : 0x80 + c); /* U+2400 and on: its picture */
        } else {
            if (strchr("<&[", c)) fputc('\\', out);
            fputc(c, out);
        }
    }
}

bool markdown_end(TextFile *file, const char *path, Error *error) {
    TextFile inert;
    text_file_begin(&inert);
    if (fclose(file->out)) die("out of memory for the text of %s", path);
    write_inert(inert.out, file->text, file->size);
    free(file->text);
    return text_file_end(&inert, path, error);
}

/* ---- HTML ---- */

/* The element that is open. */
typedef enum { NOTHING, PARAGRAPH, LIST, TABLE } Open;

typedef struct {
    FILE *out;
    Open open;
    int level;
    char *heading;   /* the last one, which names tables; NULL: none */
    char *header;    /* the first line of a table, until the second one shows that it is a table; or NULL */
    bool right[128]; /* columns of numbers */
} Page;

static void close_element(Page *p) {
    static const char *const ends[] = {"", "</p>\n", "</ul>\n", "</tbody></table></div>\n"};
    fputs(ends[p->open], p->out);
    p->open = NOTHING;
}

static void open_element(Page *p, Open element, const char *begin, const char *again) {
    if (p->open != element) close_element(p);
    fputs(p->open == element ? again : begin, p->out);
    p->open = element;
}

char *markdown_unescape(char *text) {
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at == '\\' && ispunct((unsigned char)at[1])) at++;
        *to++ = *at;
    }
    *to = 0;
    return text;
}

/* Writes text that is outside of a table. */
static void inline_text(Page *p, const char *text) {
    OWNED char *copy = markdown_unescape(xstrdup(text));
    html_text(p->out, copy);
}

static void heading(Page *p, const char *line, int marks) {
    int level = p->level + marks - 1 < 6 ? p->level + marks - 1 : 6;
    close_element(p);
    free(p->heading);
    p->heading = markdown_unescape(xstrdup(line + marks + 1));
    fprintf(p->out, "<h%d>", level);
    html_text(p->out, p->heading);
    fprintf(p->out, "</h%d>\n", level);
}

/* Copies the next cell of a table's line without the marks of its escapes. False: there is none. free(*cell) */
static bool next_cell(const char **at, char **cell) {
    if (**at == '|') (*at)++;
    if (!(*at)[strspn(*at, " ")]) return false;
    size_t n = 0;
    *at += strspn(*at, " ");
    *cell = xmalloc(strlen(*at) + 1);
    for (; **at && **at != '|'; (*at)++) {
        if (**at == '\\' && ispunct((unsigned char)(*at)[1])) (*at)++;
        (*cell)[n++] = **at;
    }
    while (n && (*cell)[n - 1] == ' ') n--;
    (*cell)[n] = 0;
    return true;
}

/* Writes a line of cells; the first cell of a body's row names the row. */
static void write_row(Page *p, const char *line, bool header) {
    char *cell;
    fputs("<tr>", p->out);
    for (int c = 0; next_cell(&line, &cell); c++) {
        bool right = c < 128 && p->right[c], names = header || (!c && !right);
        fprintf(p->out, names ? "<th scope=\"%s\"%s>" : "<td%s%s>", names ? header ? "col" : "row" : "",
                right ? " class=\"n\"" : "");
        html_text(p->out, cell);
        fputs(names ? "</th>" : "</td>", p->out);
        free(cell);
    }
    fputs("</tr>\n", p->out);
}

static void begin_table(Page *p, const char *alignment) {
    char *cell;
    memset(p->right, 0, sizeof p->right);
    for (int c = 0; next_cell(&alignment, &cell); c++) {
        if (c < 128) p->right[c] = ends_with(cell, ":");
        free(cell);
    }
    close_element(p);
    html_print(p->out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead>",
               p->heading ? p->heading : "table");
    write_row(p, p->header, true);
    fputs("</thead><tbody>\n", p->out);
    p->open = TABLE;
    free(p->header);
    p->header = NULL;
}

static void table_line(Page *p, const char *line) {
    if (p->open == TABLE)
        write_row(p, line, false);
    else if (p->header)
        begin_table(p, line);
    else
        p->header = xstrdup(line);
}

/* Writes a line that looked like the first of a table as the text that it is. */
static void flush_header(Page *p) {
    OWNED char *line = p->header;
    p->header = NULL;
    if (!line) return;
    open_element(p, PARAGRAPH, "<p>", "<br>");
    inline_text(p, line);
}

static void write_line(Page *p, const char *line) {
    if (line[0] != '|') flush_header(p);
    int marks = (int)strspn(line, "#");
    if (line[0] == '|') {
        table_line(p, line);
    } else if (marks && line[marks] == ' ') {
        heading(p, line, marks);
    } else if (!strncmp(line, "- ", 2)) {
        open_element(p, LIST, "<ul><li>", "<li>");
        inline_text(p, line + 2);
        fputs("</li>\n", p->out);
    } else if (!line[strspn(line, " ")]) {
        close_element(p);
    } else {
        open_element(p, PARAGRAPH, "<p>", "<br>");
        inline_text(p, line);
    }
}

void html_markdown(FILE *out, const char *text, int level) {
    Page page = {.out = out, .level = level};
    while (*text) {
        size_t size = strcspn(text, "\n");
        OWNED char *line = xformat("%.*s", (int)size, text);
        write_line(&page, line);
        text += size + (text[size] == '\n');
    }
    flush_header(&page);
    close_element(&page);
    free(page.heading);
}
