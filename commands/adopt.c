#include "commands/adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "checkpoint/description.h"

CheckpointOptions checkpoint_options_of(const json_t *description, const char *checkpoint, const char *model,
                                        const char *const *names) {
    const char *found = json_string_value(json_object_get(description, "model"));
    if (found && strncmp(found, model, strlen(model)) != 0)
        die("%s is a checkpoint of another model, %s", checkpoint, found);
    CheckpointOptions from = {.checkpoint = checkpoint, .names = names, .stated = description != NULL};
    from.options = json_incref(json_object_get(description, "options"));
    return from;
}

CheckpointOptions checkpoint_options_read(const char *checkpoint, const char *model, const char *const *names) {
    Error error;
    json_t *description = description_read(checkpoint, &error);
    if (!description && error.text[0]) die("%s", error.text);
    CheckpointOptions from = checkpoint_options_of(description, checkpoint, model, names);
    json_decref(description);
    return from;
}

static bool is_in(const char *const *names, const char *name) {
    for (; names && *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

void checkpoint_options_validate(const CheckpointOptions *from, const OptionSet *rules) {
    const char *name;
    const json_t *value;
    Error error;
    json_object_foreach(from->options, name, value) {
        const Option *option = options_find(rules, name);
        if (option && !option_check_json(option, value, &error))
            die("the options in the config.json of %s: %s", from->checkpoint, error.text);
    }
}

static char *value_text(const char *name, const json_t *value) {
    return json_text(name, value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
}

void checkpoint_options_check(const CheckpointOptions *from, const char *name, const json_t *given, const char *what) {
    const json_t *value = json_object_get(from->options, name);
    if (!value || json_equal(given, value)) return;
    char *is = value_text(name, given), *was = value_text(name, value);
    char *option = what ? xformat("%s (%s %s)", what, name, is) : xformat("%s %s", name, is);
    die_usage("--%s contradicts %s, which has %s %s: leave it out", option, from->checkpoint, name, was);
}

void checkpoint_options_check_given(const CheckpointOptions *from, const OptionSet *set, const char *const *unchecked) {
    for (const Option *option = set->options; option < set->options + set->count; option++) {
        if (!option->given || !is_in(from->names, option->row.name) || is_in(unchecked, option->row.name)) continue;
        json_t *given = option_to_json(option);
        checkpoint_options_check(from, option->row.name, given, NULL);
        json_decref(given);
    }
}

void checkpoint_options_adopt(const CheckpointOptions *from, OptionSet *set, const char *const *unchecked) {
    char *adopted = NULL; /* printed when all are known to be good */
    Error error;
    checkpoint_options_check_given(from, set, unchecked);
    for (Option *option = set->options; option < set->options + set->count; option++) {
        const json_t *value = json_object_get(from->options, option->row.name);
        if (!value || option->given || !is_in(from->names, option->row.name)) continue;
        if (!option_from_json(option, value, &error))
            die("the options in the config.json of %s: %s", from->checkpoint, error.text);
        option->given = option->adopted = true; /* as if it had been typed; options_free frees a text */
        char *text = value_text(option->row.name, value), *before = adopted;
        adopted = xformat("%s%s%s %s", before ? before : "", before ? ", " : "", option->row.name, text);
        free(before);
        free(text);
    }
    if (adopted)
        printf("[Model] from %s: %s\n",
               from->source   ? from->source
               : from->stated ? "its checkpoint"
                              : "the shapes of its tensors",
               adopted);
    free(adopted);
}

void adopt_check_tensors(const char *option, const char *path, TensorFile *file, Model *model,
                         const ImportRules *rules) {
    Error error;
    bool there = file || (path && checkpoint_exists(path));
    if (there && !(file ? checkpoint_check(file, &model->params, rules, &error)
                        : checkpoint_check_base(path, &model->params, rules, &error)))
        die("%s %s: %s", option, path, error.text);
    model->close(model);
}
