#include "commands/trained.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"

char *trained_checkpoint(const char *given) {
    char *weights = checkpoint_weights(given), *path = checkpoint_hold(given);
    if (path_is_folder(weights)) {
        free(path);
        MUST_OR(checkpoint_best(given, &path, &error), "--checkpoint %s: %s", given, error.text);
        const char *which = path ? "the best weights of the run" : "the last weights of a run that has not validated";
        if (!path) path = checkpoint_resolve(given, "auto");
        if (path)
            printf("[Checkpoint] %s: %s\n", path, which);
        else
            die("--checkpoint %s: it holds neither a run nor a checkpoint", given);
    }
    free(weights);
    return path;
}

json_t *trained_option(const char *checkpoint, const char *option) {
    TrainState state = {0};
    json_t *found = NULL;
    OWNED char *folder = checkpoint_folder(checkpoint), *file = path_join(folder, "state.json");
    if (!access(file, F_OK)) {
        MUST_OR(state_read(folder, &state, &error), "%s: %s; give --%s", file, error.text, option);
        json_auto_t *options = json_loads(state.options_json ? state.options_json : "{}", 0, NULL);
        found = json_incref(json_object_get(options, option));
        free(state.options_json);
    }
    return found;
}

char *trained_text(const char *checkpoint, const char *option) {
    json_auto_t *value = trained_option(checkpoint, option);
    return json_is_string(value) ? xstrdup(json_string_value(value)) : NULL;
}
