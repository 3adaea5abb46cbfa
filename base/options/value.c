#include "base/options/value.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool option_has_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return false;
    return *a == *b;
}

bool option_holds_text(const Option *option) {
    return option->row.type == OPTION_TEXT || option->row.type == OPTION_LIST || option->row.type == OPTION_CHOICE;
}

bool options_value_given(const OptionSet *set, const void *value) {
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

/* Takes decimal numbers only, also 3.0. strtod would also take spaces, hexadecimal numbers, infinity and NaN. */
static bool parse_int(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end == text || errno || text[strspn(text, "+-.0123456789")]) return false;
    return !*end || (*end == '.' && end[1] && !end[1 + strspn(end + 1, "0")]);
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
    static const char *const metavars[] = {"PATH", "DIR", "FILE", "NAME", "auto|PATH", "DIR|PATH"};
    for (int i = 0; i < 6; i++)
        if (option->row.metavar && !strcmp(option->row.metavar, metavars[i])) return true;
    return false;
}

bool option_set(const Option *option, const char *text, Error *error) {
    if (!*text && names_path(option)) return error_set(error, "%s: expected a name, found none", option->row.name);
    switch (option->row.type) {
    case OPTION_FLAG:
        if (strcasecmp(text, "true") && strcasecmp(text, "false"))
            return error_set(error, "%s: expected true or false, found '%.64s'", option->row.name, text);
        *(bool *)option->value = !strcasecmp(text, "true");
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

/* Returns what a value of the option must be, if this one is something else; NULL: it is that. */
static const char *other_type(const Option *option, const json_t *value) {
    switch (option->row.type) {
    case OPTION_FLAG:
        return json_is_boolean(value) ? NULL : "true or false";
    case OPTION_INT:
        return json_is_integer(value) || (takes_auto(option) && json_is_string(value)) ? NULL : "a whole number";
    case OPTION_FLOAT:
        return json_is_number(value) ? NULL : "a number";
    case OPTION_TEXT:
    case OPTION_CHOICE:
        return json_is_string(value) ? NULL : "a text";
    case OPTION_LIST:
        break;
    }
    return "a single value";
}

bool option_from_json(const Option *option, const json_t *value, Error *error) {
    const char *expected = other_type(option, value);
    char *text = expected ? NULL : json_typed(value);
    if (!text) {
        OWNED char *found = json_text(option->row.name, value, JSON_ENCODE_ANY);
        return error_set(error, "%s: expected %s, found %.64s", option->row.name, expected ? expected : "no zero byte",
                         found);
    }
    bool ok = option_set(option, text, error);
    if (!ok || !option_holds_text(option)) free(text);
    return ok;
}

bool option_check_json(const Option *option, const json_t *value, Error *error) {
    Value unused;
    Option other = *option;
    other.value = &unused;
    bool ok = option_from_json(&other, value, error);
    if (ok && option_holds_text(&other)) option_free_texts(&other);
    return ok;
}

void option_clear(const Option *option) {
    static const size_t sizes[] = {
        [OPTION_FLAG] = sizeof(bool),   [OPTION_INT] = sizeof(int64_t),   [OPTION_FLOAT] = sizeof(double),
        [OPTION_TEXT] = sizeof(char *), [OPTION_CHOICE] = sizeof(char *), [OPTION_LIST] = sizeof(OptionList)};
    memset(option->value, 0, sizes[option->row.type]);
}

void option_set_default(const Option *option) {
    const char *text = option->row.default_value;
    if (text) MUST_OR(option_set(option, text, &error), "default of --%s", error.text);
}

void option_free_texts(const Option *option) {
    OptionList *list = option->value;
    if (option->row.type == OPTION_LIST)
        while (list->count) free((char *)list->text[--list->count]);
    else if (option_holds_text(option))
        free(*(char **)option->value);
}

/* ---- as JSON ---- */

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
    json_auto_t *array = json_array();
    for (int i = 0; i < list->count; i++)
        if (json_array_append_new(array, json_string(list->text[i]))) return NULL;
    return json_incref(array);
}

char *options_to_json(const OptionSet *set) {
    json_auto_t *all = json_object();
    for (int i = 0; i < set->count; i++) {
        json_t *value = option_to_json(&set->options[i]);
        if (!value) die_usage("--%s: the value is not valid UTF-8", set->options[i].row.name);
        json_object_set_new(all, set->options[i].row.name, value);
    }
    return json_text("the options", all, JSON_INDENT(1));
}
