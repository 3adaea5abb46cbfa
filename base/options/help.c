#include "base/options/help.h"

#include <stdio.h>
#include <string.h>

#include "base/program.h"

static void option_label(const Option *option, char label[96]) {
    char letter[8] = "    ";
    if (option->row.letter) snprintf(letter, sizeof letter, "-%c, ", option->row.letter);
    snprintf(label, 96, "%s--%s%s%s", letter, option->row.name, option->row.metavar ? " " : "",
             option->row.metavar ? option->row.metavar : "");
}

/* Writes the range of a number, "0 to 65536"; "" if there is none. Returns text. */
static const char *option_range(const OptionRow *row, char text[64]) {
    bool any = row->min == 0 && row->max == 0;
    text[0] = 0;
    if (!any) snprintf(text, 64, "%.15g to %.15g", row->min, row->max);
    return text;
}

/* Writes what stands in brackets behind an option: "[8; 0 to 65536]", "[required]"; "" for nothing. Returns text. */
static const char *option_bracket(const OptionRow *row, char text[160]) {
    char range[64];
    const char *value = row->default_value ? row->default_value : row->required ? "required" : "";
    option_range(row, range);
    text[0] = 0;
    if (*value || *range) snprintf(text, 160, " [%s%s%s]", value, *value && *range ? "; " : "", range);
    return text;
}

/* Prints words between column `indent` and column 100. */
static void print_wrapped(const char *text, int indent) {
    int column = indent;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column + n + 1 > 100 && column > indent) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        column += printf("%s%.*s", column > indent ? " " : "", n, text);
        text += n + (text[n] == ' ');
    }
    printf("\n");
}

void options_print_help(const OptionsHeader *header, const OptionSet *set) {
    enum { INDENT = 34 };
    const char *section = NULL;
    printf("%s: %s\n\nusage: %s\n\n", header->program, header->purpose, header->usage);
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        char label[96], bracket[160], text[512];
        option_label(o, label);
        if (o->row.section && (!section || strcmp(section, o->row.section)))
            printf("\nin YAML under %s:\n", o->row.section);
        section = o->row.section;
        snprintf(text, sizeof text, "%s%s", o->row.help, option_bracket(&o->row, bracket));
        if (strlen(label) + 4 > INDENT)
            printf("  %s\n%*s", label, INDENT, "");
        else
            printf("  %-*s", INDENT - 2, label);
        print_wrapped(text, INDENT);
    }
    printf("\n  ");
    print_wrapped(
        "Values are --name value or --name=value; a flag is --name or --name=false. In a YAML file the keys are "
        "the long names; the command line wins over the file, the file over the defaults in brackets, where the range "
        "of a number follows.",
        2);
    printf("\n  ");
    print_wrapped(PROGRAM_STATUS, 2);
}

void options_print_markdown(const OptionSet *set) {
    printf("| option | default | range | meaning |\n|---|---|---|---|\n");
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        char range[64];
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
