/* Reads options from YAML. A document is a map from names to scalars or lists, and from sections to such maps. The
 * library resolves an alias to the node of its anchor without a copy, and this reader goes two maps deep: nothing can
 * grow. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/options/value.h"

typedef struct {
    OptionSet *set;
    yaml_document_t *document;
    FILE *problems;
    int n_problems;
    bool *here; /* [OPTIONS_MAX] options that this document has set */
} Yaml;

static bool PRINTF_LIKE(3, 4) yaml_fail(Yaml *y, const yaml_node_t *node, const char *format, ...) {
    char message[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    for (char *at = message; (at = strchr(at, '\n'));) *at = ' '; /* of a quoted key or value */
    fprintf(y->problems, "line %zu: %s\n", node->start_mark.line + 1, message);
    y->n_problems++;
    return false;
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

/* Sets an option to `text`, or to what the node says if that is NULL. */
static bool yaml_scalar(Yaml *y, const Option *option, const yaml_node_t *node, const char *text) {
    Error why;
    if (!text) text = scalar_text(node);
    if (!text || is_null(node)) return yaml_fail(y, node, "%s: expected a single value", option->row.name);
    char *copy = option_holds_text(option) ? xstrdup(text) : NULL;
    if (option_set(option, copy ? copy : text, &why)) return true;
    free(copy);
    return yaml_fail(y, node, "%s", why.text);
}

/* Forgets what an earlier file has set, under this name or another. Fails if this file has set it. */
static bool begin_value(Yaml *y, const Option *option, const yaml_node_t *node) {
    for (int i = 0; i < y->set->count; i++) {
        Option *other = &y->set->options[i];
        if (other->value != option->value) continue;
        if (y->here[i] && option->row.type != OPTION_LIST)
            return yaml_fail(y, node, "%s is given twice, by this key and one before it", option->row.name);
        if (y->here[i] || !other->given) continue;
        if (option_holds_text(other)) option_free_texts(other);
        option_clear(other);
        other->given = false;
    }
    return true;
}

/* Sets an option to `text`, or to what the node says if that is NULL. */
static bool yaml_value(Yaml *y, Option *option, const yaml_node_t *node, const char *text) {
    if (!strcmp(option->row.name, "config")) return yaml_fail(y, node, "config: a file cannot name another one");
    if (is_null(node)) return true;
    if (!begin_value(y, option, node)) return false;
    if (option_holds_text(option) && !options_value_given(y->set, option->value)) option_clear(option);
    option->given = true; /* so that options_free frees its texts, which are on the heap */
    y->here[option - y->set->options] = true;
    if (option->row.type != OPTION_LIST || node->type != YAML_SEQUENCE_NODE) return yaml_scalar(y, option, node, text);
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
        if (!yaml_scalar(y, option, yaml_document_get_node(y->document, *item), NULL)) return false;
    return true;
}

/* ---- keys of other programs ---- */

static bool same_section(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static Option *option_named(const Yaml *y, const char *name) {
    for (int i = 0; i < y->set->count; i++)
        if (option_has_name(y->set->options[i].row.name, name)) return &y->set->options[i];
    return NULL;
}

/* Returns the i-th alias of all tables, or NULL. */
static const OptionAlias *alias_at(const Yaml *y, int i) {
    for (int t = y->set->n_tables - 1; t >= 0; i -= y->set->n_aliases[t--])
        if (i < y->set->n_aliases[t]) return &y->set->aliases[t][i];
    return NULL;
}

/* Returns the alias that a key is, or NULL. */
static const OptionAlias *alias_find(const Yaml *y, const char *section, const char *name) {
    const OptionAlias *alias;
    for (int i = 0; (alias = alias_at(y, i)); i++) {
        if (!same_section(alias->section, section) || (alias->name && !option_has_name(alias->name, name))) continue;
        const Option *option = option_named(y, alias->name && alias->option ? alias->option : name);
        if (alias->name ? !alias->option || option : option && !option->row.section) return alias;
    }
    return NULL;
}

/* Adds "NAME MEANS" to what has been read through aliases, "enable_tf32 sets --no-tf32 to false". */
static void add_mapped(const Yaml *y, const char *section, const char *name, const char *means) {
    xappend(&y->set->mapped, "%s%s%s%s %s", y->set->mapped ? ", " : "", section ? section : "", section ? "." : "",
            name, means);
}

/* Returns whether two scalars are one value: a text, a truth value in any case, or a number, 0.90 and 9e-1. */
static bool same_value(const char *a, const char *b) {
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return !strcasecmp(a, b) || (end_a != a && !*end_a && end_b != b && !*end_b && x == y);
}

/* Returns whether a node says nothing: null, '', [] or {}. */
static bool is_empty(const yaml_node_t *node) {
    if (node->type == YAML_SEQUENCE_NODE) return node->data.sequence.items.start == node->data.sequence.items.top;
    if (node->type == YAML_MAPPING_NODE) return node->data.mapping.pairs.start == node->data.mapping.pairs.top;
    return is_null(node) || !*(const char *)node->data.scalar.value;
}

/* Returns the value here of a value there; NULL with an error if it is not allowed. */
static const char *mapped_value(Yaml *y, const OptionAlias *alias, const char *name, const yaml_node_t *node) {
    const char *text = scalar_text(node);
    char allowed[400] = "";
    int i = 0;
    for (; alias->values[i]; i += 2) {
        if (text && same_value(text, alias->values[i])) return alias->values[i + 1];
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", alias->values[i]);
    }
    const char *remedy = alias->values[i + 1];
    if (!*allowed) return yaml_fail(y, node, "%s: is not supported: %s", name, remedy), NULL;
    yaml_fail(y, node, "%s: expected %s, found '%.64s'; %s%s", name, allowed, text ? text : "no single value",
              alias->option ? "it sets " : remedy, alias->option ? alias->option : "");
    return NULL;
}

/* Reads the key of an alias that sets no option. */
static bool yaml_unneeded(Yaml *y, const OptionAlias *alias, const char *section, const char *name,
                          const yaml_node_t *node) {
    if (alias->values[0] && !is_empty(node) && !mapped_value(y, alias, name, node)) return false;
    add_mapped(y, section, name, "is not needed");
    return true;
}

static bool yaml_alias(Yaml *y, const OptionAlias *alias, const char *section, const char *name,
                       const yaml_node_t *node) {
    if (!alias->option && alias->name) return yaml_unneeded(y, alias, section, name, node);
    Option *option = option_named(y, alias->name ? alias->option : name);
    const char *text = alias->values[0] && !is_null(node) ? mapped_value(y, alias, name, node) : NULL;
    if (alias->values[0] && !is_null(node) && !text) return false;
    if (text && !*text) return yaml_unneeded(y, &(OptionAlias){0}, section, name, node);
    if (!is_null(node)) {
        const char *value = text ? text : scalar_text(node);
        OWNED char *means = xformat("sets --%s%s%s", option->row.name, value ? " to " : "", value ? value : "");
        add_mapped(y, section, name, means);
    }
    return yaml_value(y, option, node, text);
}

/* ---- maps ---- */

static bool section_exists(const Yaml *y, const char *name) {
    const OptionAlias *alias;
    for (int i = 0; (alias = alias_at(y, i)); i++)
        if (same_section(alias->section, name)) return true;
    for (int i = 0; i < y->set->count; i++)
        if (y->set->options[i].row.section && !strcmp(y->set->options[i].row.section, name)) return true;
    return false;
}

static bool in_section(const Option *option, const char *section) {
    return section ? option->row.section && !strcmp(section, option->row.section) : !option->row.section;
}

/* Fails with the section where the key belongs, or with the nearest key. */
static bool unknown_key(Yaml *y, const yaml_node_t *key, const char *section) {
    const char *name = scalar_text(key), *names[2 * OPTIONS_MAX] = {NULL};
    int n = 0;
    for (int i = 0; i < y->set->count; i++) {
        const Option *o = &y->set->options[i];
        if (option_has_name(o->row.name, name))
            return o->row.section ? yaml_fail(y, key, "%s: belongs into the section '%s:'", o->row.name, o->row.section)
                                  : yaml_fail(y, key, "%s: belongs to the top level, into no section", o->row.name);
        if (in_section(o, section)) names[n++] = o->row.name;
        if (!section && o->row.section) names[n++] = o->row.section;
    }
    const char *nearest = nearest_name(name, names, n), *where = section ? " in section " : "";
    return yaml_fail(y, key, "unknown key '%.64s'%s%s%s%s%s", name, where, section ? section : "",
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

enum { MOST_PROBLEMS = 50 };

static void yaml_map(Yaml *y, const yaml_node_t *map, const char *section);

static void yaml_section(Yaml *y, const yaml_node_t *value, const char *name) {
    if (value->type == YAML_MAPPING_NODE)
        yaml_map(y, value, name);
    else if (!is_null(value))
        yaml_fail(y, value, "%s is a section: expected keys and values in it", name);
}

/* Reads on after a wrong key, up to MOST_PROBLEMS: who corrects a file wants to know all of them. */
static void yaml_map(Yaml *y, const yaml_node_t *map, const char *section) {
    yaml_node_pair_t *first = map->data.mapping.pairs.start;
    for (yaml_node_pair_t *pair = first; pair < map->data.mapping.pairs.top && y->n_problems < MOST_PROBLEMS; pair++) {
        const yaml_node_t *key = yaml_document_get_node(y->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(y->document, pair->value);
        const char *name = scalar_text(key);
        const yaml_node_pair_t *earlier = first;
        while (name && earlier < pair) {
            const char *other = scalar_text(yaml_document_get_node(y->document, earlier->key));
            if (other && option_has_name(name, other)) break;
            earlier++;
        }
        Option *option = NULL;
        for (int i = 0; name && i < y->set->count && !option; i++)
            if (in_section(&y->set->options[i], section) && option_has_name(y->set->options[i].row.name, name))
                option = &y->set->options[i];
        const OptionAlias *alias = option || !name ? NULL : alias_find(y, section, name);
        if (!name)
            yaml_fail(y, key, "a key must be a text");
        else if (earlier < pair)
            yaml_fail(y, key, "%s is given twice", name);
        else if (!section && section_exists(y, name))
            yaml_section(y, value, name);
        else if (option)
            yaml_value(y, option, value, NULL);
        else if (alias)
            yaml_alias(y, alias, section, name, value);
        else
            unknown_key(y, key, section);
    }
}

/* Loads the next document of the stream; it has no root if the stream has ended. */
static bool yaml_load(yaml_parser_t *parser, yaml_document_t *document, const char *text, size_t size, FILE *problems) {
    if (yaml_parser_load(parser, document)) return true;
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) { /* it has an offset in bytes, but no line */
        line = 1;
        for (size_t i = 0; i < parser->problem_offset && i < size; i++) line += text[i] == '\n';
    }
    fprintf(problems, "line %zu: not YAML: %s\n", line, parser->problem ? parser->problem : "out of memory");
    return false;
}

/* Returns whether the text, as far as it is YAML, has no more nesting and anchors than a configuration needs. The time
 * of the library grows with the square of both. */
static bool yaml_is_simple(const char *text, size_t size, FILE *problems) {
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
        ok = depth <= DEEPEST && anchors <= MAX_ANCHORS;
        if (depth > DEEPEST)
            fprintf(problems, "line %zu: nested deeper than %d: no configuration is\n", line, DEEPEST);
        else if (anchors > MAX_ANCHORS)
            fprintf(problems, "line %zu: more than %d anchors and aliases: no configuration has so many\n", line,
                    MAX_ANCHORS);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return ok;
}

static void apply_documents(OptionSet *set, yaml_parser_t *parser, const char *text, size_t size, FILE *problems) {
    yaml_document_t document, second;
    if (!yaml_load(parser, &document, text, size, problems)) return;
    bool here[OPTIONS_MAX] = {false};
    Yaml y = {set, &document, problems, 0, here};
    const yaml_node_t *root = yaml_document_get_root_node(&document), *more;
    if (root && root->type == YAML_MAPPING_NODE)
        yaml_map(&y, root, NULL);
    else if (root && !is_null(root))
        yaml_fail(&y, root, "expected keys and values");
    if (y.n_problems >= MOST_PROBLEMS)
        yaml_fail(&y, root, "%d problems are enough: the rest was not read", y.n_problems);
    if (!y.n_problems && yaml_load(parser, &second, text, size, problems)) {
        if ((more = yaml_document_get_root_node(&second))) yaml_fail(&y, more, "a second document; one is expected");
        yaml_document_delete(&second);
    }
    yaml_document_delete(&document);
}

char *options_apply_yaml(OptionSet *set, const char *text, size_t size) {
    yaml_parser_t parser;
    char *found = NULL;
    size_t length;
    FILE *problems = open_memstream(&found, &length);
    if (!problems || !yaml_parser_initialize(&parser)) die("out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (yaml_is_simple(text, size, problems)) apply_documents(set, &parser, text, size, problems);
    yaml_parser_delete(&parser);
    if (fclose(problems)) die("out of memory");
    if (*found) return found;
    free(found);
    return NULL;
}
