#include "commands/adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "model/block.h"

CheckpointOptions checkpoint_options_of(const json_t *description, const char *checkpoint, const char *const *names) {
    CheckpointOptions from = {.checkpoint = checkpoint, .names = names, .stated = description != NULL};
    from.options = json_incref(json_object_get(description, "options"));
    return from;
}

json_t *adopt_description(const char *checkpoint, const DescriptionRules *rules) {
    Error error;
    json_t *description = description_read(checkpoint, rules, &error);
    if (!description && error.text[0]) die("%s", error.text);
    return description;
}

CheckpointOptions checkpoint_options_read(const char *checkpoint, const DescriptionRules *rules,
                                          const char *const *names) {
    json_auto_t *description = adopt_description(checkpoint, rules);
    return checkpoint_options_of(description, checkpoint, names);
}

static bool is_in(const char *const *names, const char *name) {
    for (; names && *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

void checkpoint_options_validate(const CheckpointOptions *from, const OptionSet *rules) {
    const char *name;
    const json_t *value;
    json_object_foreach(from->options, name, value) {
        const Option *option = options_find(rules, name);
        if (option)
            MUST_OR(option_check_json(option, value, &error), "the options in the config.json of %s: %s",
                    from->checkpoint, error.text);
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
        json_auto_t *given = option_to_json(option);
        checkpoint_options_check(from, option->row.name, given, NULL);
    }
}

void checkpoint_options_adopt(const CheckpointOptions *from, OptionSet *set, const char *const *unchecked) {
    OWNED char *adopted = NULL; /* printed when all are known to be good */
    checkpoint_options_check_given(from, set, unchecked);
    for (Option *option = set->options; option < set->options + set->count; option++) {
        const json_t *value = json_object_get(from->options, option->row.name);
        if (!value || option->given || !is_in(from->names, option->row.name)) continue;
        MUST_OR(option_from_json(option, value, &error), "the options in the config.json of %s: %s", from->checkpoint,
                error.text);
        option->given = option->adopted = true; /* as if it had been typed; options_free frees a text */
        OWNED char *text = value_text(option->row.name, value);
        xappend(&adopted, "%s%s %s", adopted ? ", " : "", option->row.name, text);
    }
    if (adopted)
        printf("[Model] from %s: %s\n",
               from->source   ? from->source
               : from->stated ? "its checkpoint"
                              : "the shapes of its tensors",
               adopted);
}

void adopt_check_tensors(const char *option, const char *path, TensorFile *file, Model *model,
                         const ImportRules *rules) {
    bool there = file || (path && checkpoint_exists(path));
    if (there)
        MUST_OR((file ? checkpoint_check(file, &model->params, rules, &error)
                      : checkpoint_check_base(path, &model->params, rules, &error)),
                "%s %s: %s", option, path, error.text);
    model->close(model);
}

const StoredTensor *adopt_tensor(const TensorFile *file, const char *root, const char *name) {
    OWNED char *full = xformat("%s%s", root, name);
    const StoredTensor *tensor = checkpoint_tensor(file, full);
    return tensor ? tensor : checkpoint_tensor(file, name);
}

int64_t adopt_dimension(const TensorFile *file, const char *root, const char *name, int axis) {
    const StoredTensor *t = adopt_tensor(file, root, name);
    return t && t->rank == 2 ? t->dims[axis] : 0;
}

int64_t adopt_count_layers(const TensorFile *file, const char *root, const char *before, const char *after) {
    for (int64_t n = 0; n < BLOCKS_MAX; n++) {
        OWNED char *name = xformat("%s%lld%s", before, (long long)n, after);
        if (!adopt_tensor(file, root, name)) return n;
    }
    return BLOCKS_MAX;
}

void adopt_set_number(json_t *options, const char *name, int64_t value) {
    if (value > 0) json_object_set_new(options, name, json_integer((json_int_t)value));
}

int64_t adopt_known_heads(int64_t layers, int64_t width) {
    return layers == 12 && width == 768 ? 12 : layers == 24 && width == 1024 ? 16 : 0;
}
