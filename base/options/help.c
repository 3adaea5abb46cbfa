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
        char label[96], text[512];
        option_label(o, label);
        if (o->row.section && (!section || strcmp(section, o->row.section)))
            printf("\nin YAML under %s:\n", o->row.section);
        section = o->row.section;
        snprintf(text, sizeof text, "%s%s%s%s", o->row.help,
                 o->row.default_value ? " ["
                 : o->row.required    ? " [required"
                                      : "",
                 o->row.default_value ? o->row.default_value : "", o->row.default_value || o->row.required ? "]" : "");
        if (strlen(label) + 4 > INDENT)
            printf("  %s\n%*s", label, INDENT, "");
        else
            printf("  %-*s", INDENT - 2, label);
        print_wrapped(text, INDENT);
    }
    printf("\n  ");
    print_wrapped(
        "Values are --name value or --name=value; a flag is --name or --name=false. In a YAML file the keys are "
        "the long names; the command line wins over the file, the file over the defaults in brackets.",
        2);
    printf("\n  ");
    print_wrapped(PROGRAM_STATUS, 2);
}

void options_print_markdown(const OptionSet *set) {
    printf("| option | default | meaning |\n|---|---|---|\n");
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        printf("| ");
        if (o->row.letter) printf("`-%c`, ", o->row.letter);
        printf("`--%s%s", o->row.name, o->row.metavar ? " " : "");
        for (const char *at = o->row.metavar ? o->row.metavar : ""; *at; at++) printf(*at == '|' ? "\\|" : "%c", *at);
        printf("` | %s | %s",
               o->row.default_value ? o->row.default_value
               : o->row.required    ? "required"
                                    : "",
               o->row.help);
        if (o->row.section) printf(" (in YAML under `%s:`)", o->row.section);
        printf(" |\n");
    }
}
