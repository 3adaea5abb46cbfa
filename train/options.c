/* The option table at work: the command line, the YAML file, --help, --help-markdown, and the record in JSON. A value
 * is set by one function, option_set, whoever it comes from, and each source is tried in the order default, YAML,
 * command line. */
#include "train/options.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* Names are compared with - and _ alike. */
static bool same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return false;
    return *a == *b;
}

static Option *option_find(Option *options, int count, const char *section, const char *name) {
    for (int i = 0; i < count; i++) {
        bool in_section = section ? options[i].section && !strcmp(section, options[i].section) : !options[i].section;
        if (in_section && same_name(options[i].name, name)) return &options[i];
    }
    return NULL;
}

/* "; did you mean 'epochs'?", or nothing. */
static const char *suggestion(const Option *options, int count, const char *name, char text[96]) {
    const char *names[128];
    int n = 0;
    for (int i = 0; i < count && n < 128; i++) names[n++] = options[i].name;
    const char *nearest = nearest_name(name, names, n);
    text[0] = 0;
    if (nearest) snprintf(text, 96, "; did you mean '%.60s'?", nearest);
    return text;
}

static bool in_range(const Option *option, double value, const char *text, Error *error) {
    if (option->least == 0 && option->most == 0) return true;
    if (value >= option->least && value <= option->most) return true;
    return error_set(error, "%s: expected %.10g to %.10g, found %.64s", option->name, option->least, option->most,
                     text);
}

static bool choice_allowed(const Option *option, const char *text) {
    size_t n = strlen(text);
    for (const char *at = option->argument; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (!strncmp(at, text, n) && (at[n] == '|' || !at[n])) return true;
    return false;
}

/* `text` must live as long as the options for TEXT, LIST and CHOICE. */
static bool option_set(Option *option, const char *text, Error *error) {
    char *end;
    errno = 0;
    switch (option->type) {
    case OPTION_FLAG:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return error_set(error, "%s: expected true or false, found '%.64s'", option->name, text);
        *(bool *)option->value = !strcmp(text, "true");
        return true;
    case OPTION_INT: {
        long long value = strtoll(text, &end, 10);
        if (end == text || *end || errno)
            return error_set(error, "%s: expected an integer, found '%.64s'", option->name, text);
        if (!in_range(option, (double)value, text, error)) return false;
        *(int64_t *)option->value = value;
        return true;
    }
    case OPTION_FLOAT: {
        double value = strtod(text, &end);
        if (end == text || *end || !isfinite(value))
            return error_set(error, "%s: expected a number, found '%.64s'", option->name, text);
        if (!in_range(option, value, text, error)) return false;
        *(double *)option->value = value;
        return true;
    }
    case OPTION_CHOICE:
        if (!choice_allowed(option, text))
            return error_set(error, "%s: expected %s, found '%.64s'", option->name, option->argument, text);
        *(const char **)option->value = text;
        return true;
    case OPTION_TEXT:
        *(const char **)option->value = text;
        return true;
    case OPTION_LIST: {
        OptionList *list = option->value;
        if (list->count == (int)(sizeof list->text / sizeof *list->text))
            return error_set(error, "%s: given more than %d times", option->name, list->count);
        list->text[list->count++] = text;
        return true;
    }
    }
    return error_set(error, "%s: no such type", option->name);
}

/* YAML. A document is a map of names to scalars or lists, and of sections to such maps. */

typedef struct {
    Option *options;
    int count;
    yaml_document_t *document;
    Error *error;
} Yaml;

static bool yaml_fail(const Yaml *y, const yaml_node_t *node, const char *message) {
    return error_set(y->error, "line %zu: %.400s", node->start_mark.line + 1, message);
}

static const char *scalar_text(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static bool yaml_value(const Yaml *y, Option *option, const yaml_node_t *node, char *keep(const char *)) {
    Error why;
    if (node->type == YAML_SCALAR_NODE)
        return option_set(option, keep(scalar_text(node)), &why) || yaml_fail(y, node, why.text);
    if (option->type != OPTION_LIST || node->type != YAML_SEQUENCE_NODE) {
        snprintf(why.text, sizeof why.text, "%s: expected a single value", option->name);
        return yaml_fail(y, node, why.text);
    }
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *element = yaml_document_get_node(y->document, *item);
        if (!scalar_text(element)) return yaml_fail(y, node, "a list may hold texts only");
        if (!option_set(option, keep(scalar_text(element)), &why)) return yaml_fail(y, element, why.text);
    }
    return true;
}

static bool section_exists(const Yaml *y, const char *name) {
    for (int i = 0; i < y->count; i++)
        if (y->options[i].section && !strcmp(y->options[i].section, name)) return true;
    return false;
}

static bool yaml_map(const Yaml *y, const yaml_node_t *map, const char *section, char *keep(const char *)) {
    char message[512], hint[96];
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(y->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(y->document, pair->value);
        const char *name = scalar_text(key);
        if (!name || !value) return yaml_fail(y, map, "a key must be a text");
        if (!section && value->type == YAML_MAPPING_NODE && section_exists(y, name)) {
            if (!yaml_map(y, value, name, keep)) return false;
            continue;
        }
        Option *option = option_find(y->options, y->count, section, name);
        if (!option) {
            snprintf(message, sizeof message, "unknown key '%.64s'%s%.32s%s", name, section ? " in section " : "",
                     section ? section : "", suggestion(y->options, y->count, name, hint));
            return yaml_fail(y, key, message);
        }
        if (option->given) {
            snprintf(message, sizeof message, "%s is given twice", option->name);
            return yaml_fail(y, key, message);
        }
        if (!yaml_value(y, option, value, keep)) return false;
        option->given = true;
    }
    return true;
}

/* Strings of a YAML file live as long as the process: options point at them. */
static char *keep_text(const char *text) { return xstrdup(text); }

bool options_apply_yaml(Option *options, int count, const char *text, size_t size, Error *error) {
    yaml_parser_t parser;
    yaml_document_t document;
    if (!yaml_parser_initialize(&parser)) return error_set(error, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    bool fine = yaml_parser_load(&parser, &document);
    if (!fine) {
        error_set(error, "line %zu: %.300s", parser.problem_mark.line + 1,
                  parser.problem ? parser.problem : "invalid YAML");
        yaml_parser_delete(&parser);
        return false;
    }
    Yaml y = {options, count, &document, error};
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    if (root && root->type == YAML_MAPPING_NODE)
        fine = yaml_map(&y, root, NULL, keep_text);
    else if (root && !(scalar_text(root) && !*scalar_text(root)))
        fine = yaml_fail(&y, root, "expected keys and values");
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return fine;
}

static void read_yaml(Option *options, int count, const char *path) {
    char *text;
    size_t size;
    Error error;
    if (!read_file(path, &text, &size, &error)) die_usage("--config %s: %s", path, error.text);
    if (!options_apply_yaml(options, count, text, size, &error)) {
        int line = 0, used = 0; /* "line N: what" becomes "PATH:N: what" */
        if (sscanf(error.text, "line %d: %n", &line, &used) == 1 && used)
            die_usage("%s:%d: %s", path, line, error.text + used);
        die_usage("%s: %s", path, error.text);
    }
    free(text);
}

/* Help. */

static void option_label(const Option *option, char label[96]) {
    char letter[8] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(label, 96, "%s--%s%s%s", letter, option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
}

static void print_help(const OptionsHeader *header, const Option *options, int count) {
    enum { INDENT = 38, WIDTH = 100 };
    printf("%s\n\nusage: %s\n\n", header->purpose, header->usage);
    for (int i = 0; i < count; i++) {
        char label[96], text[512];
        option_label(&options[i], label);
        snprintf(text, sizeof text, "%s%s%s%s", options[i].help, options[i].preset ? " [" : "",
                 options[i].preset ? options[i].preset : "", options[i].preset ? "]" : "");
        printf("  %-*s", INDENT - 2, label);
        int column = (int)strlen(label) + 2;
        if (column >= INDENT) printf("\n%*s", INDENT, "");
        column = INDENT;
        for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
            int n = (int)strlen(word);
            if (column + n + 1 > WIDTH && column > INDENT) {
                printf("\n%*s", INDENT, "");
                column = INDENT;
            }
            printf("%s%s", column > INDENT ? " " : "", word);
            column += n + 1;
        }
        printf("\n");
    }
    printf("\nIn a --config file a key is the long name; keys of the model stand under their section.\n");
}

static void print_markdown(const Option *options, int count) {
    printf("| option | default | meaning |\n|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        const Option *o = &options[i];
        printf("| ");
        if (o->letter) printf("`-%c`, ", o->letter);
        printf("`--%s", o->name);
        for (const char *at = o->argument ? o->argument : ""; *at; at++)
            printf("%s%s%c", at == o->argument ? " " : "", *at == '|' ? "\\" : "", *at);
        printf("` | %s | %s%s%s%s |\n", o->preset ? o->preset : "", o->help, o->section ? " (in YAML under `" : "",
               o->section ? o->section : "", o->section ? ":`)" : "");
    }
}

/* The command line. */

typedef struct {
    const OptionsHeader *header;
    Option *options;
    int count, argc;
    char **argv;
} CommandLine;

/* The option that argument i names, and its value if it is in the same word ("--name=value", "-b8"). Dies if unknown.
 */
static Option *argument_option(const CommandLine *c, int i, const char **value) {
    const char *word = c->argv[i];
    char name[64], hint[96];
    *value = NULL;
    if (word[0] == '-' && word[1] && word[1] != '-') {
        for (int k = 0; k < c->count; k++) {
            if (c->options[k].letter != word[1]) continue;
            if (word[2]) *value = word + 2;
            return &c->options[k];
        }
        die_usage("unknown option -%c", word[1]);
    }
    if (strncmp(word, "--", 2)) die_usage("unexpected argument '%s'", word);
    const char *equals = strchr(word, '=');
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word - 2) : 60, word + 2);
    if (equals) *value = equals + 1;
    for (int k = 0; k < c->count; k++)
        if (same_name(c->options[k].name, name)) return &c->options[k];
    die_usage("unknown option --%s%s", name, suggestion(c->options, c->count, name, hint));
}

/* Visits every option on the command line; applies them, or only looks for --config, --help. */
static const char *read_arguments(const CommandLine *c, bool apply) {
    const char *config = NULL, *value;
    Error error;
    for (int i = 1; i < c->argc; i++) {
        if (!strcmp(c->argv[i], "--help") || !strcmp(c->argv[i], "-h")) {
            print_help(c->header, c->options, c->count);
            exit(0);
        }
        if (!strcmp(c->argv[i], "--help-markdown")) {
            print_markdown(c->options, c->count);
            exit(0);
        }
        Option *option = argument_option(c, i, &value);
        if (!value && option->type == OPTION_FLAG) value = "true";
        if (!value && ++i == c->argc) die_usage("--%s needs a value (%s)", option->name, option->argument);
        if (!value) value = c->argv[i];
        if (!strcmp(option->name, "config")) config = value;
        if (!apply) continue;
        /* A list on the command line replaces the one of the file. */
        if (option->type == OPTION_LIST && option->given) ((OptionList *)option->value)->count = 0;
        option->given = false;
        if (!option_set(option, value, &error)) die_usage("--%s", error.text);
    }
    return config;
}

void options_parse(const OptionsHeader *header, Option *options, int count, int argc, char **argv) {
    CommandLine line = {header, options, count, argc, argv};
    Error error;
    for (int i = 0; i < count; i++) {
        options[i].given = false;
        if (options[i].preset && !option_set(&options[i], options[i].preset, &error))
            die("default of --%s", error.text);
    }
    const char *config = read_arguments(&line, false);
    if (config) read_yaml(options, count, config);
    bool from_file[128] = {false};
    for (int i = 0; i < count && i < 128; i++) from_file[i] = options[i].given;
    read_arguments(&line, true);
    for (int i = 0; i < count && i < 128; i++) {
        bool set = options[i].type == OPTION_LIST ? ((OptionList *)options[i].value)->count > 0 : from_file[i];
        if (options[i].type == OPTION_TEXT) set = *(const char **)options[i].value != NULL;
        options[i].given = options[i].given || set;
        if (options[i].required && !options[i].given)
            die_usage("--%s is missing: %s", options[i].name, options[i].help);
    }
}

char *options_to_json(const Option *options, int count) {
    json_t *all = json_object();
    for (int i = 0; i < count; i++) {
        const Option *o = &options[i];
        json_t *value = NULL;
        switch (o->type) {
        case OPTION_FLAG:
            value = json_boolean(*(bool *)o->value);
            break;
        case OPTION_INT:
            value = json_integer(*(int64_t *)o->value);
            break;
        case OPTION_FLOAT:
            value = json_real(*(double *)o->value);
            break;
        case OPTION_TEXT:
        case OPTION_CHOICE: {
            const char *text = *(const char **)o->value;
            value = text ? json_string(text) : json_null();
            break;
        }
        case OPTION_LIST: {
            const OptionList *list = o->value;
            value = json_array();
            for (int k = 0; k < list->count; k++) json_array_append_new(value, json_string(list->text[k]));
            break;
        }
        }
        json_object_set_new(all, o->name, value);
    }
    char *text = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    if (!text) die("the options are not valid UTF-8");
    return text;
}
