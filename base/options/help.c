#include "base/options/help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"

enum { FEW_OPTIONS = 12 /* which -h prints all */, WIDEST = 120 };

/* ---- texts of one option ---- */

static void option_label(const Option *option, char label[96]) {
    char letter[8] = "    ";
    if (option->row.letter) snprintf(letter, sizeof letter, "-%c, ", option->row.letter);
    snprintf(label, 96, "%s--%s%s%s", letter, option->row.name, option->row.metavar ? " " : "",
             option->row.metavar ? option->row.metavar : "");
}

/* Writes a limit of a range, "65,536" or "1e-6". Returns text. */
static const char *limit_text(double limit, char text[40]) {
    int n = snprintf(text, 40, "%.15g", limit);
    char *power = strstr(text, "e-0");
    if (power) memmove(power + 2, power + 3, strlen(power + 3) + 1);
    bool whole = text[strspn(text, "-0123456789")] == 0;
    for (int at = n - 3; whole && at > (text[0] == '-'); at -= 3) {
        memmove(text + at + 1, text + at, strlen(text + at) + 1);
        text[at] = ',';
    }
    return text;
}

/* Writes the range of a number, "0 to 65,536", or "1 or more" if nobody meets the upper limit; "" if there is none.
 * Returns text. */
static const char *option_range(const OptionRow *row, char text[96]) {
    char low[40], high[40];
    text[0] = 0;
    if (row->min == 0 && row->max == 0) return text;
    limit_text(row->min, low);
    if (row->max >= 1e9 && fmod(row->max, 1e9) == 0)
        snprintf(text, 96, "%s or more", low);
    else
        snprintf(text, 96, "%s to %s", low, limit_text(row->max, high));
    return text;
}

/* Writes what stands in brackets behind an option: " [8; 0 to 65,536]", " [required]"; "" for nothing. Returns text. */
static const char *option_bracket(const OptionRow *row, char text[192]) {
    char range[96];
    const char *value = row->default_value ? row->default_value : row->required ? "required" : "";
    bool off = row->type == OPTION_FLAG && !strcmp(value, "false");
    option_range(row, range);
    text[0] = 0;
    if ((*value && !off) || *range)
        snprintf(text, 192, " [%s%s%s]", off ? "" : value, *value && *range ? "; " : "", range);
    return text;
}

/* ---- --help ---- */

static int page_width(void) {
    int columns = terminal_columns();
    return columns < WIDEST ? columns : WIDEST;
}

void help_print_wrapped(const char *text, int column, int indent) {
    int width = page_width();
    bool begun = false; /* whether a word is on the line */
    while (*text) {
        int n = *text == '[' ? (int)strcspn(text, "]") + 1 : (int)strcspn(text, " "); /* [8; 0 to 65,536] stays whole */
        if (begun && column + 1 + n > width) {
            printf("\n%*s", indent, "");
            column = indent;
            begun = false;
        }
        column += printf("%s%.*s", begun ? " " : "", n, text);
        begun = true;
        text += n + (text[n] == ' ');
    }
    printf("\n");
}

/* Prints an option's name and value. A long list of choices is divided behind a bar. */
static void print_label(const char *label) {
    int column = printf("  ");
    for (int n; *label; label += n) {
        n = (int)strcspn(label, "|");
        n += label[n] == '|';
        if (column + n > page_width()) column = printf("\n%*s", 10, "") - 1;
        column += printf("%.*s", n, label);
    }
}

static void print_option(const Option *o, int indent) {
    char label[96], bracket[192];
    int column = indent;
    option_label(o, label);
    print_label(label);
    if ((int)strlen(label) + 4 > indent)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - 2 - (int)strlen(label), "");
    OWNED char *text =
        xformat("%s%s%s%s%s", o->row.help, o->row.section ? " (in YAML under " : "",
                o->row.section ? o->row.section : "", o->row.section ? ":)" : "", option_bracket(&o->row, bracket));
    help_print_wrapped(text, column, indent);
}

static bool is_usual(const OptionRow *row) { return row->usual || row->required || row->positional; }

/* Prints the options under their headings, a heading where its first option stands. */
static void print_options(const OptionSet *set, bool brief) {
    int indent = page_width() < 100 ? 28 : 34;
    bool done[OPTIONS_MAX] = {false};
    for (int i = 0; i < set->count; i++) {
        const char *heading = set->options[i].row.heading;
        bool begun = false;
        for (int k = i; k < set->count; k++) {
            const Option *o = &set->options[k];
            if (done[k] || strcmp(o->row.heading, heading) != 0) continue;
            done[k] = true;
            if (brief && !is_usual(&o->row)) continue;
            if (!begun) printf("\n%s\n", heading);
            begun = true;
            print_option(o, indent);
        }
    }
}

/* Prints "usage: ./train_x prepare ARGUMENTS", the program as it was called. */
static void print_call(const char *what, const OptionsHeader *header, const char *arguments) {
    const char *command = strchr(header->program, ' ');
    OWNED char *line = xformat("%-9s%s%s %s", what, program_as_called(), command ? command : "", arguments);
    help_print_wrapped(line, 0, 11);
}

void options_print_help(const OptionsHeader *header, const OptionSet *set, bool brief) {
    OWNED char *first = xformat("%s: %s", header->program, header->purpose);
    brief = brief && set->count > FEW_OPTIONS;
    help_print_wrapped(first, 0, 2);
    printf("\n");
    print_call("usage:", header, header->usage);
    if (header->example) print_call("example:", header, header->example);
    print_options(set, brief);
    printf("\n");
    if (brief) {
        const char *command = strchr(header->program, ' ');
        printf("All %d options: %s%s --help\n", set->count, program_as_called(), command ? command : "");
    } else {
        help_print_wrapped(
            "Values are --name value or --name=value; a flag is --name or --name=false. In a YAML file the keys are "
            "the long names; the command line wins over the file, the file over the defaults in brackets, where the "
            "range of a number follows.",
            0, 0);
        printf("\n");
        help_print_wrapped(PROGRAM_STATUS, 0, 0);
    }
}

void options_print_markdown(const OptionSet *set) {
    printf("| option | default | range | meaning |\n|---|---|---|---|\n");
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        char range[96];
        printf("| ");
        if (o->row.letter) printf("`-%c`, ", o->row.letter);
        printf("`--%s%s", o->row.name, o->row.metavar ? " " : "");
        for (const char *at = o->row.metavar ? o->row.metavar : ""; *at; at++) printf(*at == '|' ? "\\|" : "%c", *at);
        printf("` | %s | %s | %s",
               o->row.default_value ? o->row.default_value
               : o->row.required    ? "required"
                                    : "",
               option_range(&o->row, range), o->row.help);
        if (o->row.section) printf(" (in YAML under `%s:`)", o->row.section);
        printf(" |\n");
    }
}
