#include "train/start/import.h"

#include <stdio.h>
#include <string.h>

#include "train/start/buffers.h"

const char *train_base_option(const TrainSpec *spec) {
    if (spec->base_option) return spec->base_option;
    const Option *option = options_holding(spec->set, &spec->options->base_checkpoint);
    return option ? option->row.name : "base-checkpoint";
}

void import_base(Training *t, const ImportRules *rules) {
    const char *path = t->spec.options->base_checkpoint;
    const CheckpointBuffers into = buffers_copy(t, 0);
    ImportReport *r = &t->import;
    char more[512] = ""; /* longer than all of it together */
    MUST_OR(checkpoint_import(path, &into, rules, &t->carried, r, &error), "--%s %s: %s", train_base_option(&t->spec),
            path, error.text);
    const struct {
        int count;
        const char *what;
    } rare[] = {{r->absorbed, "absorbed by running means"},
                {r->counters, "counters of batches dropped"},
                {r->unwanted, "not asked for"},
                {r->transposed, "transposed"},
                {r->conventions.copies, "a copy of another"},
                {r->conventions.zero_biases, "biases of zeros dropped"},
                {r->conventions.constants, "constants dropped"}};
    for (size_t i = 0, used = 0; i < sizeof rare / sizeof *rare; i++)
        if (rare[i].count)
            used += (size_t)snprintf(more + used, sizeof more - used, ", %d %s", rare[i].count, rare[i].what);
    const char *const *ignored = rules->conventions ? rules->conventions->ignored : NULL;
    for (size_t i = 0, used = strlen(more); ignored && ignored[i]; i++)
        if (r->conventions.ignored[i])
            used += (size_t)snprintf(more + used, sizeof more - used, ", %d %s* left out", r->conventions.ignored[i],
                                     ignored[i]);
    printf("[Base] %s: %d tensors loaded, %d resized, %d carried along untouched%s, %d skipped, %d missing%s%s\n", path,
           r->loaded, r->resized, r->carried, more, r->skipped, r->missing, r->missing ? ": " : "",
           r->missing ? r->missing_names : "");
    if (r->moments && !t->inference)
        printf("[Base] its optimizer's state (%d tensors) is not taken: the optimizer begins anew\n", r->moments);
}
