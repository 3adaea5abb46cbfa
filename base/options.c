/* The command line, the YAML file, --help, --help-markdown and the record in JSON. Every source sets values with
 * option_set, in the order default, YAML, command line. Two options may set the same value, as two names for it: then
 * the value counts as given if one of them is. */
#include "base/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/json.h"
#include "base/program.h"

/* Compares names; - and _ are the same. */
static bool same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return false;
    return *a == *b;
}

static bool holds_text(const Option *option) {
    return option->row.type == OPTION_TEXT || option->row.type == OPTION_LIST || option->row.type == OPTION_CHOICE;
}

/* Returns whether an option that sets this value was given. */
static bool value_given(const OptionSet *set, const void *value) {
    for (int i = 0; i < set->count; i++)
        if (set->options[i].value == value && set->options[i].given) return true;
    return false;
}

static bool in_range(const Option *option, double value, const char *text, Error *error) {
    if (option->row.min == 0 && option->row.max == 0) return true;
    if (value >= option->row.min && value <= option->row.max) return true;
    return error_set(error, "%s: expected %.15g to %.15g, found %.64s", option->row.name, option->row.min,
                     option->row.max, text);
}

static bool choice_allowed(const Option *option, const char *text) {
    size_t n = strlen(text);
    if (strchr(text, '|')) return false;
    for (const char *at = option->row.metavar; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (!strncmp(at, text, n) && (at[n] == '|' || !at[n])) return true;
    return false;
}

/* Takes decimal numbers only. strtod would also take spaces, hexadecimal numbers, infinity and NaN. */
static bool parse_int(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && !*end && !errno && !text[strspn(text, "+-0123456789")];
}

static bool parse_float(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && isfinite(*value) && !text[strspn(text, "+-.0123456789eE")];
}

/* Returns whether an INT may be "auto". */
static bool takes_auto(const Option *option) {
    return option->row.type == OPTION_INT && option->row.metavar && !strcmp(option->row.metavar, "N|auto");
}

/* Returns whether a text is a name, which must not be empty. */
static bool names_path(const Option *option) {
    static const char *const metavars[] = {"PATH", "DIR", "FILE", "NAME", "auto|PATH"};
    for (int i = 0; i < 5; i++)
        if (option->row.metavar && !strcmp(option->row.metavar, metavars[i])) return true;
    return false;
}

/* Sets the value, or adds to a list. `text` must live as long as the options if the option holds text. */
static bool option_set(const Option *option, const char *text, Error *error) {
    if (!*text && names_path(option)) return error_set(error, "%s: expected a name, found none", option->row.name);
    switch (option->row.type) {
    case OPTION_FLAG:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return error_set(error, "%s: expected true or false, found '%.64s'", option->row.name, text);
        *(bool *)option->value = !strcmp(text, "true");
        break;
    case OPTION_INT: {
        int64_t value = OPTION_AUTO;
        bool chosen = takes_auto(option) && !strcmp(text, "auto");
        if (!chosen && !parse_int(text, &value))
            return error_set(error, "%s: expected %s, found '%.64s'", option->row.name,
                             takes_auto(option) ? "a whole number or auto" : "an integer", text);
        if (!chosen && !in_range(option, (double)value, text, error)) return false;
        *(int64_t *)option->value = value;
        break;
    }
    case OPTION_FLOAT: {
        double value;
        if (!parse_float(text, &value))
            return error_set(error, "%s: expected a number, found '%.64s'", option->row.name, text);
        if (!in_range(option, value, text, error)) return false;
        *(double *)option->value = value;
        break;
    }
    case OPTION_CHOICE:
        if (!choice_allowed(option, text))
            return error_set(error, "%s: expected %s, found '%.64s'", option->row.name, option->row.metavar, text);
        *(const char **)option->value = text;
        break;
    case OPTION_TEXT:
        *(const char **)option->value = text;
        break;
    case OPTION_LIST: {
        OptionList *list = option->value;
        enum { MOST = sizeof list->text / sizeof *list->text };
        if (list->count == MOST) return error_set(error, "%s: more than %d entries", option->row.name, MOST);
        list->text[list->count++] = text;
        break;
    }
    }
    return true;
}

/* Returns a JSON scalar as it would be typed, or NULL for anything else; free(). */
static char *json_typed(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return strlen(json_string_value(value)) == json_string_length(value) ? xstrdup(json_string_value(value)) : NULL;
    case JSON_INTEGER:
        return xformat("%lld", (long long)json_integer_value(value));
    case JSON_REAL:
        return xformat("%.17g", json_real_value(value));
    case JSON_TRUE:
    case JSON_FALSE:
        return xstrdup(json_is_true(value) ? "true" : "false");
    default:
        return NULL;
    }
}

bool option_from_json(const Option *option, const json_t *value, Error *error) {
    char *text = json_typed(value);
    if (!text || option->row.type == OPTION_LIST) {
        free(text);
        return error_set(error, "%s: expected a single value", option->row.name);
    }
    bool ok = option_set(option, text, error);
    if (!ok || !holds_text(option)) free(text);
    return ok;
}

static void option_clear(const Option *option) {
    switch (option->row.type) {
    case OPTION_FLAG:
        *(bool *)option->value = false;
        break;
    case OPTION_INT:
        *(int64_t *)option->value = 0;
        break;
    case OPTION_FLOAT:
        *(double *)option->value = 0;
        break;
    case OPTION_TEXT:
    case OPTION_CHOICE:
        *(const char **)option->value = NULL;
        break;
    case OPTION_LIST:
        ((OptionList *)option->value)->count = 0;
        break;
    }
}

/* Sets the value to the default of the row, if the row has one. */
static void set_default(const Option *option) {
    Error error;
    const char *text = option->row.default_value;
    if (text && !option_set(option, text, &error)) die("default of --%s", error.text);
}

/* YAML. A document is a map from names to scalars or lists, and from sections to such maps. The library resolves an
 * alias to the node of its anchor without a copy, and this reader goes two maps deep: nothing can grow. */

typedef struct {
    OptionSet *set;
    yaml_document_t *document;
    Error *error;
} Yaml;

static bool PRINTF_LIKE(3, 4) yaml_fail(const Yaml *y, const yaml_node_t *node, const char *format, ...) {
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return error_set(y->error, "line %zu: %s", node->start_mark.line + 1, message);
}

/* Returns NULL if the node is no scalar, or has a zero byte inside. */
static const char *scalar_text(const yaml_node_t *node) {
    if (!node || node->type != YAML_SCALAR_NODE) return NULL;
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length ? text : NULL;
}

static bool is_null(const yaml_node_t *node) {
    const char *text = scalar_text(node);
    return text && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*text || !strcmp(text, "~") || !strcmp(text, "null"));
}

static bool yaml_scalar(const Yaml *y, const Option *option, const yaml_node_t *node) {
    Error why;
    const char *text = scalar_text(node);
    if (!text || is_null(node)) return yaml_fail(y, node, "%s: expected a single value", option->row.name);
    char *copy = holds_text(option) ? xstrdup(text) : NULL;
    if (option_set(option, copy ? copy : text, &why)) return true;
    free(copy);
    return yaml_fail(y, node, "%s", why.text);
}

static bool yaml_value(const Yaml *y, Option *option, const yaml_node_t *node) {
    if (!strcmp(option->row.name, "config")) return yaml_fail(y, node, "config: a file cannot name another one");
    if (is_null(node)) return true;
    if (holds_text(option) && !value_given(y->set, option->value)) option_clear(option);
    option->given = true; /* so that options_free frees its texts, which are on the heap */
    if (option->row.type != OPTION_LIST || node->type != YAML_SEQUENCE_NODE) return yaml_scalar(y, option, node);
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
        if (!yaml_scalar(y, option, yaml_document_get_node(y->document, *item))) return false;
    return true;
}

static bool section_exists(const Yaml *y, const char *name) {
    for (int i = 0; i < y->set->count; i++)
        if (y->set->options[i].row.section && !strcmp(y->set->options[i].row.section, name)) return true;
    return false;
}

static bool in_section(const Option *option, const char *section) {
    return section ? option->row.section && !strcmp(section, option->row.section) : !option->row.section;
}

/* Fails with the section where the key belongs, or with the nearest key. */
static bool unknown_key(const Yaml *y, const yaml_node_t *key, const char *section) {
    const char *name = scalar_text(key), *names[2 * OPTIONS_MAX];
    int n = 0;
    for (int i = 0; i < y->set->count; i++) {
        const Option *o = &y->set->options[i];
        if (same_name(o->row.name, name))
            return o->row.section ? yaml_fail(y, key, "%s: belongs into the section '%s:'", o->row.name, o->row.section)
                                  : yaml_fail(y, key, "%s: belongs to the top level, into no section", o->row.name);
        if (in_section(o, section)) names[n++] = o->row.name;
        if (!section && o->row.section) names[n++] = o->row.section;
    }
    const char *nearest = nearest_name(name, names, n), *where = section ? " in section " : "";
    return yaml_fail(y, key, "unknown key '%.64s'%s%s%s%s%s", name, where, section ? section : "",
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static bool yaml_map(const Yaml *y, const yaml_node_t *map, const char *section) {
    yaml_node_pair_t *first = map->data.mapping.pairs.start;
    for (yaml_node_pair_t *pair = first; pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(y->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(y->document, pair->value);
        const char *name = scalar_text(key);
        if (!name) return yaml_fail(y, key, "a key must be a text");
        for (yaml_node_pair_t *earlier = first; earlier < pair; earlier++)
            if (same_name(name, scalar_text(yaml_document_get_node(y->document, earlier->key))))
                return yaml_fail(y, key, "%s is given twice", name);
        if (!section && section_exists(y, name)) {
            if (is_null(value)) continue;
            if (value->type != YAML_MAPPING_NODE)
                return yaml_fail(y, value, "%s is a section: expected keys and values in it", name);
            if (!yaml_map(y, value, name)) return false;
            continue;
        }
        Option *option = NULL;
        for (int i = 0; i < y->set->count && !option; i++)
            if (in_section(&y->set->options[i], section) && same_name(y->set->options[i].row.name, name))
                option = &y->set->options[i];
        if (!option) return unknown_key(y, key, section);
        if (!yaml_value(y, option, value)) return false;
    }
    return true;
}

/* Loads the next document of the stream; it has no root if the stream has ended. */
static bool yaml_load(yaml_parser_t *parser, yaml_document_t *document, const char *text, size_t size, Error *error) {
    if (yaml_parser_load(parser, document)) return true;
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) { /* it has an offset in bytes, but no line */
        line = 1;
        for (size_t i = 0; i < parser->problem_offset && i < size; i++) line += text[i] == '\n';
    }
    return error_set(error, "line %zu: not YAML: %s", line, parser->problem ? parser->problem : "out of memory");
}

/* Returns whether the text, as far as it is YAML, has no more nesting and anchors than a configuration needs. The time
 * of the library grows with the square of both. */
static bool yaml_is_simple(const char *text, size_t size, Error *error) {
    enum { DEEPEST = 16, MAX_ANCHORS = 256 };
    yaml_parser_t parser;
    yaml_event_t event;
    int depth = 0, anchors = 0;
    bool ok = true, more = true;
    if (!yaml_parser_initialize(&parser)) die("out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    while (ok && more && yaml_parser_parse(&parser, &event)) { /* yaml_load reports what is not YAML */
        depth += event.type == YAML_MAPPING_START_EVENT || event.type == YAML_SEQUENCE_START_EVENT;
        depth -= event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT;
        anchors += event.type == YAML_ALIAS_EVENT || (event.type == YAML_SCALAR_EVENT && event.data.scalar.anchor) ||
                   (event.type == YAML_MAPPING_START_EVENT && event.data.mapping_start.anchor) ||
                   (event.type == YAML_SEQUENCE_START_EVENT && event.data.sequence_start.anchor);
        size_t line = event.start_mark.line + 1;
        if (depth > DEEPEST)
            ok = error_set(error, "line %zu: nested deeper than %d: no configuration is", line, DEEPEST);
        else if (anchors > MAX_ANCHORS)
            ok = error_set(error, "line %zu: more than %d anchors and aliases: no configuration has so many", line,
                           MAX_ANCHORS);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return ok;
}

bool options_apply_yaml(OptionSet *set, const char *text, size_t size, Error *error) {
    yaml_parser_t parser;
    yaml_document_t document, second;
    if (!yaml_is_simple(text, size, error)) return false;
    if (!yaml_parser_initialize(&parser)) die("out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    bool ok = yaml_load(&parser, &document, text, size, error);
    if (ok) {
        Yaml y = {set, &document, error};
        const yaml_node_t *root = yaml_document_get_root_node(&document);
        if (root && !is_null(root))
            ok = root->type == YAML_MAPPING_NODE ? yaml_map(&y, root, NULL)
                                                 : yaml_fail(&y, root, "expected keys and values");
        if (ok && (ok = yaml_load(&parser, &second, text, size, error))) {
            const yaml_node_t *more = yaml_document_get_root_node(&second);
            if (more) ok = yaml_fail(&y, more, "a second document; one is expected");
            yaml_document_delete(&second);
        }
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return ok;
}

static void read_yaml(OptionSet *set, const char *path) {
    char *text;
    size_t size;
    Error error;
    if (!read_file(path, &text, &size, &error)) die_usage("--config %s: %s", path, error.text);
    if (!options_apply_yaml(set, text, size, &error)) {
        /* Every message of options_apply_yaml begins with "line N: ", which becomes "PATH:N: ". */
        die_usage("%s:%s", path, error.text + strlen("line "));
    }
    free(text);
}

/* Help. */

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

static void print_help(const OptionsHeader *header, const OptionSet *set) {
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

static void print_markdown(const OptionSet *set) {
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

/* The command line. */

typedef struct {
    const OptionsHeader *header;
    OptionSet *set;
    int argc;
    char **argv;
    bool from_file[OPTIONS_MAX]; /* options from YAML that the command line has not replaced */
} CommandLine;

static _Noreturn void unknown_option(const CommandLine *c, const char *name) {
    const char *names[OPTIONS_MAX];
    for (int i = 0; i < c->set->count; i++) names[i] = c->set->options[i].row.name;
    const char *nearest = nearest_name(name, names, c->set->count);
    die_usage("unknown option --%s%s%s%s", name, nearest ? "; did you mean --" : "", nearest ? nearest : "",
              nearest ? "?" : "");
}

/* Returns the option that a word names. *value: its value if the same word has it ("--name=value", "-b8"), else NULL.
 */
static Option *word_option(const CommandLine *c, const char *word, const char **value) {
    char name[64];
    *value = NULL;
    if (word[0] == '-' && word[1] && word[1] != '-') {
        for (int i = 0; i < c->set->count; i++) {
            if (c->set->options[i].row.letter != word[1]) continue;
            if (word[2]) *value = word + 2;
            return &c->set->options[i];
        }
        die_usage("unknown option -%c", word[1]);
    }
    if (strncmp(word, "--", 2) || !word[2])
        die_usage("unexpected argument '%s': an option is --name value, a flag --name or --name=false", word);
    size_t length = strcspn(word + 2, "=");
    if (word[2 + length]) *value = word + 3 + length;
    snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : (int)sizeof name - 1, word + 2);
    for (int i = 0; i < c->set->count; i++)
        if (same_name(c->set->options[i].row.name, name)) return &c->set->options[i];
    unknown_option(c, name);
}

/* Returns whether a word begins with '-' and is no number, so that it cannot be the value of the option before it. */
static bool is_option_word(const char *word) {
    return word[0] == '-' && word[1] && word[1] != '.' && !isdigit((unsigned char)word[1]);
}

/* Returns the next option of the command line, or NULL at the end; *value is its value. Advances *at. */
static Option *next_option(const CommandLine *c, int *at, const char **value) {
    if (*at >= c->argc) return NULL;
    Option *option = word_option(c, c->argv[(*at)++], value);
    if (*value) return option;
    if (option->row.type == OPTION_FLAG) {
        *value = "true";
        return option;
    }
    if (*at == c->argc || is_option_word(c->argv[*at]))
        die_usage("--%s needs a value: --%s %s", option->row.name, option->row.name, option->row.metavar);
    *value = c->argv[(*at)++];
    return option;
}

/* Handles --help wherever it stands. Returns the file of --config, or NULL. */
static const char *read_requests(const CommandLine *c) {
    const char *config = NULL, *value;
    for (int i = 1; i < c->argc; i++) {
        bool markdown = !strcmp(c->argv[i], "--help-markdown");
        if (!markdown && strcmp(c->argv[i], "--help") && strcmp(c->argv[i], "-h")) continue;
        if (markdown)
            print_markdown(c->set);
        else
            print_help(c->header, c->set);
        exit(0);
    }
    int at = 1;
    for (Option *option; (option = next_option(c, &at, &value));) {
        if (strcmp(option->row.name, "config")) continue;
        if (config) die_usage("--config is given twice");
        config = value;
    }
    return config;
}

static void free_texts(const Option *option) {
    OptionList *list = option->value;
    if (option->row.type == OPTION_LIST)
        while (list->count) free((char *)list->text[--list->count]);
    else if (holds_text(option))
        free(*(char **)option->value);
}

static bool in_arguments(const char *text, int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if ((uintptr_t)text - (uintptr_t)argv[i] <= strlen(argv[i])) return true;
    return false;
}

void options_free(OptionSet *set, int argc, char **argv) {
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        if (!o->given || !holds_text(o)) continue;
        const OptionList *list = o->value;
        const char *text = o->row.type != OPTION_LIST ? *(const char **)o->value : list->count ? list->text[0] : NULL;
        if (!text || in_arguments(text, argc, argv)) continue;
        free_texts(o);
        option_clear(o);
    }
}

/* Discards what the file set, under this name or another. */
static void forget_file(CommandLine *c, const Option *option) {
    for (int i = 0; i < c->set->count; i++) {
        if (!c->from_file[i] || c->set->options[i].value != option->value) continue;
        free_texts(option);
        for (int k = i; k < c->set->count; k++)
            if (c->set->options[k].value == option->value) c->from_file[k] = c->set->options[k].given = false;
    }
}

static void apply_arguments(CommandLine *c) {
    const char *value;
    Error error;
    int at = 1;
    for (Option *option; (option = next_option(c, &at, &value));) {
        forget_file(c, option);
        if (option->row.type == OPTION_LIST && !value_given(c->set, option->value)) option_clear(option);
        if (!option_set(option, value, &error)) die_usage("--%s", error.text);
        option->given = true;
    }
}

/* Protects the files that are read from being replaced. */
static void keep_inputs(const OptionSet *set) {
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        if (!o->row.metavar || strcmp(o->row.metavar, "PATH") || !o->given) continue;
        const OptionList *list = o->value;
        bool several = o->row.type == OPTION_LIST;
        char *name = xformat("--%s", o->row.name), *path, *label;
        for (int k = 0; k < (several ? list->count : 1); k++) {
            file_split_label(several ? list->text[k] : *(const char **)o->value, &path, &label);
            file_keep(path, name);
            free(path);
            free(label);
        }
        free(name);
    }
}

void options_add(OptionSet *set, const OptionRow *rows, int count, void *values) {
    assert(set->count + count <= OPTIONS_MAX);
    for (int i = 0; i < count; i++)
        set->options[set->count++] = (Option){.row = rows[i], .value = (char *)values + rows[i].offset};
}

/* Returns the index of the option of this name, or -1. */
static int index_of(const OptionSet *set, const char *name) {
    for (int i = 0; i < set->count; i++)
        if (!strcmp(set->options[i].row.name, name)) return i;
    return -1;
}

const Option *options_find(const OptionSet *set, const char *name) {
    int i = index_of(set, name);
    return i < 0 ? NULL : &set->options[i];
}

const Option *options_holding(const OptionSet *set, const void *value) {
    for (int i = 0; i < set->count; i++)
        if (set->options[i].value == value) return &set->options[i];
    return NULL;
}

bool options_given(const OptionSet *set, const char *name) {
    const Option *option = options_find(set, name);
    return option && option->given;
}

void options_override(OptionSet *set, const OptionOverride *overrides, int count) {
    for (const OptionOverride *o = overrides; o < overrides + count; o++) {
        int i = index_of(set, o->name);
        assert(i >= 0);
        OptionRow *row = &set->options[i].row;
        if (o->default_value) row->default_value = o->default_value;
        if (o->help) row->help = o->help;
        if (o->metavar) row->metavar = o->metavar;
        if (o->min > 0) row->min = o->min;
    }
}

void options_remove(OptionSet *set, const char *const *names) {
    for (; *names; names++) {
        int i = index_of(set, *names);
        assert(i >= 0);
        option_clear(&set->options[i]);
        set_default(&set->options[i]);
        set->count--;
        memmove(&set->options[i], &set->options[i + 1], (size_t)(set->count - i) * sizeof set->options[i]);
    }
}

void options_parse(const OptionsHeader *header, OptionSet *set, int argc, char **argv) {
    CommandLine line = {.header = header, .set = set, .argc = argc, .argv = argv};
    for (int i = 0; i < set->count; i++) {
        set->options[i].given = false;
        option_clear(&set->options[i]);
    }
    for (int i = 0; i < set->count; i++) set_default(&set->options[i]);
    const char *config = read_requests(&line);
    if (config) read_yaml(set, config);
    for (int i = 0; i < set->count; i++) line.from_file[i] = set->options[i].given;
    apply_arguments(&line);
    for (int i = 0; i < set->count; i++)
        if (set->options[i].row.required && !value_given(set, set->options[i].value))
            die_usage("--%s is missing: %s", set->options[i].row.name, set->options[i].row.help);
    keep_inputs(set);
}

OptionSet options_parse_table(const OptionsHeader *header, const OptionRow *rows, int count, void *values, int argc,
                              char **argv) {
    OptionSet set = {0};
    options_add(&set, rows, count, values);
    options_parse(header, &set, argc, argv);
    return set;
}

/* The record. */

json_t *option_to_json(const Option *option) {
    switch (option->row.type) {
    case OPTION_FLAG:
        return json_boolean(*(bool *)option->value);
    case OPTION_INT:
        if (takes_auto(option) && *(int64_t *)option->value == OPTION_AUTO) return json_string("auto");
        return json_integer(*(int64_t *)option->value);
    case OPTION_FLOAT:
        return json_real(*(double *)option->value);
    case OPTION_TEXT:
    case OPTION_CHOICE: {
        const char *text = *(const char **)option->value;
        return text ? json_string(text) : json_null();
    }
    case OPTION_LIST:
        break;
    }
    const OptionList *list = option->value;
    json_t *array = json_array();
    for (int i = 0; i < list->count; i++) {
        json_t *text = json_string(list->text[i]);
        if (!text) {
            json_decref(array);
            return NULL;
        }
        json_array_append_new(array, text);
    }
    return array;
}

char *options_to_json(const OptionSet *set) {
    json_t *all = json_object();
    for (int i = 0; i < set->count; i++) {
        json_t *value = option_to_json(&set->options[i]);
        if (!value) die_usage("--%s: the value is not valid UTF-8", set->options[i].row.name);
        json_object_set_new(all, set->options[i].row.name, value);
    }
    char *text = json_text("the options", all, JSON_INDENT(1));
    json_decref(all);
    return text;
}
