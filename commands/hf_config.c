#include "commands/hf_config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/load.h"

json_t *hf_config_read(const char *checkpoint, char **path) {
    Error error;
    OWNED char *folder = checkpoint_folder(checkpoint);
    *path = path_join(folder, "config.json");
    json_auto_t *config = access(*path, F_OK) ? NULL : json_read(*path, 0, &error);
    return json_is_string(json_object_get(config, "model_type")) ? json_incref(config) : NULL;
}

void hf_config_check_type(const char *path, const json_t *config, const char *type) {
    const char *is = json_string_value(json_object_get(config, "model_type"));
    if (strcmp(is, type)) die("%s: model_type is %s; only %s has the layout of this program's model", path, is, type);
}

void hf_config_check(const char *path, const json_t *config, const char *name, double want) {
    const json_t *value = json_object_get(config, name);
    double is = json_is_boolean(value) ? (double)json_is_true(value) : json_number_value(value);
    if (value && !json_is_null(value) && !json_is_boolean(value) && !json_is_number(value))
        die("%s: %s is no number; the model of this program computes with %g", path, name, want);
    if (value && !json_is_null(value) && !(is > want * 0.999 && is < want * 1.001) && is != want)
        die("%s: %s is %g, and the model of this program computes with %g", path, name, is, want);
}

void hf_config_check_text(const char *path, const json_t *config, const char *name, const char *want) {
    const json_t *value = json_object_get(config, name);
    const char *is = value && !json_is_null(value) && !json_is_string(value) ? "no text" : json_string_value(value);
    if (is && strcmp(is, want) != 0)
        die("%s: %s is %s, and the model of this program computes with %s", path, name, is, want);
}
