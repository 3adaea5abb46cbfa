#include "commands/chance_cause.h"

#include <stdlib.h>

#include "base/json.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "checkpoint/state.h"

enum { FEW_STEPS = 200, FAR = 10 /* times the usual rate, or this part of it */ };

/* Returns how many steps the training had: those of the newest checkpoint of its run. */
static int64_t steps_of(const char *folder, int64_t own) {
    OWNED char *run = path_directory(folder), *last = path_join(run, LAST_LINK), *newest = checkpoint_follow(last);
    TrainState state = {0};
    Error error;
    int64_t steps = state_read(newest, &state, &error) && state.step > own ? state.step : own;
    free(state.options_json);
    return steps;
}

/* Returns what is wrong with the rate; NULL: nothing. free() */
static char *rate_cause(double rate, double usual, bool pretrained) {
    if (rate <= FAR * usual && rate * FAR >= usual) return NULL;
    return xformat("a learning rate of %g, which is %s for %s weights: try %g", rate, rate > usual ? "high" : "low",
                   pretrained ? "pretrained" : "random", usual);
}

char *chance_cause(const char *checkpoint, UsualRates usual, const char *more_epochs) {
    TrainState state = {0};
    Error error;
    OWNED char *folder = checkpoint_folder(checkpoint), *rated = NULL;
    char *cause = NULL;
    if (state_read(folder, &state, &error)) {
        json_auto_t *options = json_loads(state.options_json, 0, NULL);
        double rate = json_number_value(json_object_get(options, "learning-rate"));
        bool pretrained = state.base_sum != 0;
        long long steps = (long long)steps_of(folder, state.step);
        rated = rate_cause(rate, pretrained ? usual.pretrained : usual.scratch, pretrained);
        if (steps < FEW_STEPS)
            cause = xformat("%s%sonly %lld step%s%s%s", rated ? rated : "", rated ? "; and " : "", steps,
                            steps == 1 ? "" : "s", more_epochs ? ": give more " : "", more_epochs ? more_epochs : "");
        else
            cause = rated ? xstrdup(rated)
                          : xformat("none that the settings show (learning rate %g, %lld steps): are the labels those "
                                    "of these rows, and do the rows hold what they depend on?",
                                    rate, steps);
    }
    free(state.options_json);
    return cause;
}
