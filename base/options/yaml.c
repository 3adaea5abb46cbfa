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
    Error *error;
    bool *here; /* [OPTIONS_MAX] options that this document has set */
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
    char *copy = option_holds_text(option) ? xstrdup(text) : NULL;
    if (option_set(option, copy ? copy : text, &why)) return true;
    free(copy);
    return yaml_fail(y, node, "%s", why.text);
}

/* Forgets what an earlier file has set, under this name or another. Fails if this file has set it. */
static bool begin_value(const Yaml *y, const Option *option, const yaml_node_t *node) {
    for (int i = 0; i < y->set->count; i++) {
        Option *other = &y->set->options[i];
        if (other->value != option->value) continue;
        if (y->here[i] && option->row.type != OPTION_LIST)
            return yaml_fail(y, node, "%s is given twice", option->row.name);
        if (y->here[i] || !other->given) continue;
        if (option_holds_text(other)) option_free_texts(other);
        option_clear(other);
        other->given = false;
    }
    return true;
}

static bool yaml_value(const Yaml *y, Option *option, const yaml_node_t *node) {
    if (!strcmp(option->row.name, "config")) return yaml_fail(y, node, "config: a file cannot name another one");
    if (is_null(node)) return true;
    if (!begin_value(y, option, node)) return false;
    if (option_holds_text(option) && !options_value_given(y->set, option->value)) option_clear(option);
    option->given = true; /* so that options_free frees its texts, which are on the heap */
    y->here[option - y->set->options] = true;
    if (option->row.type != OPTION_LIST || node->type != YAML_SEQUENCE_NODE) return yaml_scalar(y, option, node);
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
        if (!yaml_scalar(y, option, yaml_document_get_node(y->document, *item))) return false;
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
    for (int t = 0; t < 2; i -= y->set->n_aliases[t++])
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

static void add_mapped(const Yaml *y, const char *section, const char *name, const char *means, const char *option) {
    char *before = y->set->mapped;
    y->set->mapped = xformat("%s%s%s%s%s %s%s", before ? before : "", before ? ", " : "", section ? section : "",
                             section ? "." : "", name, means, option);
    free(before);
}

/* Returns the value here of a value there; NULL with an error if it is not allowed. */
static const char *mapped_value(const Yaml *y, const OptionAlias *alias, const char *name, const yaml_node_t *node) {
    const char *text = scalar_text(node);
    char allowed[200] = "";
    for (int i = 0; i < 10 && alias->values[i]; i += 2) {
        if (text && !strcmp(text, alias->values[i])) return alias->values[i + 1];
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", alias->values[i]);
    }
    yaml_fail(y, node, "%s: expected %s, found '%.64s'; it sets %s", name, allowed, text ? text : "no single value",
              alias->option);
    return NULL;
}

static bool yaml_alias(const Yaml *y, const OptionAlias *alias, const char *section, const char *name,
                       const yaml_node_t *node) {
    Error why;
    if (!alias->option && alias->name) {
        add_mapped(y, section, name, "is not needed", "");
        return true;
    }
    Option *option = option_named(y, alias->name ? alias->option : name);
    if (!is_null(node)) add_mapped(y, section, name, "sets --", option->row.name);
    if (!alias->values[0] || is_null(node)) return yaml_value(y, option, node);
    const char *text = mapped_value(y, alias, name, node);
    if (!text || !begin_value(y, option, node)) return false;
    if (option_holds_text(option) && !options_value_given(y->set, option->value)) option_clear(option);
    option->given = y->here[option - y->set->options] = true;
    return option_set(option, option_holds_text(option) ? xstrdup(text) : text, &why) ||
           yaml_fail(y, node, "%s", why.text);
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
static bool unknown_key(const Yaml *y, const yaml_node_t *key, const char *section) {
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

static bool yaml_map(const Yaml *y, const yaml_node_t *map, const char *section) {
    yaml_node_pair_t *first = map->data.mapping.pairs.start;
    for (yaml_node_pair_t *pair = first; pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(y->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(y->document, pair->value);
        const char *name = scalar_text(key);
        if (!name) return yaml_fail(y, key, "a key must be a text");
        for (yaml_node_pair_t *earlier = first; earlier < pair; earlier++)
            if (option_has_name(name, scalar_text(yaml_document_get_node(y->document, earlier->key))))
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
            if (in_section(&y->set->options[i], section) && option_has_name(y->set->options[i].row.name, name))
                option = &y->set->options[i];
        const OptionAlias *alias = option ? NULL : alias_find(y, section, name);
        if (!option && !alias) return unknown_key(y, key, section);
        if (alias ? !yaml_alias(y, alias, section, name, value) : !yaml_value(y, option, value)) return false;
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
        bool here[OPTIONS_MAX] = {false};
        Yaml y = {set, &document, error, here};
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
