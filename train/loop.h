/* The training loop of every program: loader -> micro-batches -> forward/backward -> clip -> step -> log -> validate ->
 * checkpoint; signals, resume, and exact accounting of time and work. */
#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H

#include "data/dataset.h"
#include "data/loader.h"
#include "model/model.h"
#include "train/options.h"

/* The options every program shares; its own rows are appended. Filled by options_parse. */
typedef struct {
    OptionList manifest, train_manifest, val_manifest; /* paths */
    const char *output_dir, *base_checkpoint, *resume, *device, *debug_dump, *loss_norm, *checkpoint_metric;
    int64_t batch_size, grad_accumulation, epochs, warmup_steps, max_steps, log_interval, val_interval, val_batch_size;
    int64_t max_val_batches, num_workers, threads, save_interval, keep_checkpoints, seed, token_budget;
    double learning_rate, weight_decay, grad_clip, val_ratio;
    bool amp, grad_checkpointing, no_bucketing, skip_nonfinite, profile, dry_run;
} TrainOptions;

/* The learning rate's multiplier after k updates: k / max(1, w) for k < w, then 0.5 (1 + cos(pi (k-w) / max(1, n-w))).
 */
double schedule_cosine(int64_t k, int64_t warmup, int64_t total);

#endif
