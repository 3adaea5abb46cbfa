/* A description of the options, for those who read the record of a run. */
#include <jansson.h>

#include "base/json.h"
#include "base/options.h"
#include "base/options/value.h"

/* Returns the value that the option has when it is not given. */
static json_t *default_to_json(const Option *option) {
    Value value;
    Option unset = *option;
    unset.value = &value;
    option_clear(&unset);
    option_set_default(&unset);
    return option_to_json(&unset);
}

json_t *options_record(const OptionSet *set) {
    json_t *values = json_object(), *defaults = json_object(), *given = json_array(), *adopted = json_array();
    for (int i = 0; i < set->count; i++) {
        const Option *option = &set->options[i];
        const char *name = option->row.name;
        if (options_holding(set, option->value) != option) continue; /* another name of an earlier option */
        json_t *value = option_to_json(option);
        json_auto_t *unset = default_to_json(option);
        if (!value) die_usage("--%s: the value is not valid UTF-8", name);
        json_object_set_new(values, name, value);
        if (!json_equal(value, unset)) json_object_set(defaults, name, unset);
        if (options_value_given(set, option->value))
            json_array_append_new(option->adopted ? adopted : given, json_string(name));
    }
    return json_build("the options", "{s:o, s:o, s:o, s:o}", "options", values, "defaults", defaults, "given", given,
                      "adopted", adopted);
}
