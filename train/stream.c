#include "train/stream.h"

#include <string.h>

LoaderOptions train_loader_options(const TrainOptions *o, const TrainState *from) {
    return (LoaderOptions){.batch_size = (int)o->batch_size,
                           .token_budget = o->token_budget,
                           .accumulate = (int)o->grad_accumulation,
                           .shuffle = true,
                           .bucket = !strcmp(o->bucketing, "on"),
                           .seed = (uint64_t)o->seed,
                           .n_workers = (int)o->num_workers,
                           .start_epoch = from ? from->epoch : 0,
                           .start_index = from ? from->batch_index : 0,
                           .stop_after = -1};
}

LoaderOptions validation_loader_options(const TrainOptions *o) {
    return (LoaderOptions){.batch_size = (int)o->val_batch_size,
                           .accumulate = 1,
                           .n_workers = 1,
                           .epoch_limit = o->max_val_batches,
                           .stop_after = -1};
}

int64_t validation_samples(const Dataset *dataset, const LoaderOptions *o) {
    int64_t samples = loader_epoch_batches(dataset, o, 0) * o->batch_size;
    return samples < dataset->n_samples ? samples : dataset->n_samples;
}

int64_t train_steps(const TrainSpec *spec, const LoaderOptions *options, int64_t epochs) {
    const TrainOptions *o = spec->options;
    int64_t batches = 0, first = loader_epoch_batches(spec->train, options, 0);
    if (options->drop_last && o->token_budget)
        die("--token-budget makes micro-batches of any size, and only full ones are trained on; give -b instead");
    if (!first)
        die("the training data has %lld samples, and micro-batches of fewer than -b %lld are left out: lower -b",
            (long long)spec->train->n_samples, (long long)o->batch_size);
    if (!o->token_budget)
        batches = first * epochs;
    else
        for (int64_t epoch = 0; epoch < epochs; epoch++) batches += loader_epoch_batches(spec->train, options, epoch);
    int64_t steps = batches / o->grad_accumulation;
    if (!steps)
        die("nothing to do: %lld epochs have %lld micro-batches, fewer than the %lld of one optimizer step; lower %s",
            (long long)epochs, (long long)batches, (long long)o->grad_accumulation,
            o->auto_batch ? "--effective-batch" : "-g or -b");
    return o->max_steps && o->max_steps < steps ? o->max_steps : steps;
}
