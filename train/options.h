/* The options that all training programs share. */
#pragma once

#include "base/options.h"
#include "cost/machine.h"
#include "cost/price_list.h"
#include "kernels/device.h"

typedef struct {
    OptionList config, manifest, val_manifest;
    const char *output_dir, *base_checkpoint, *resume, *device, *debug_dump, *loss_norm, *bucketing;
    int64_t batch_size, grad_accumulation, epochs, warmup_steps, max_steps, log_interval, val_interval, val_batch_size;
    int64_t effective_batch; /* samples per optimizer step; 0: not given */
    int64_t max_val_batches, num_workers, threads, save_interval, keep_checkpoints, seed, token_budget;
    double learning_rate, weight_decay, grad_clip, val_ratio;
    bool amp, no_tf32, grad_checkpointing, skip_nonfinite, profile, dry_run;
    bool estimate, json, calibrate;
    /* -b auto. Until sizing_choose_batch has chosen, -b is the whole effective batch and -g is 1. */
    bool auto_batch;
    bool whole_step;         /* -g follows from the size of a step or is as given, and is that of all ranks together */
    bool in_a_row;           /* there may be several trainings in a row, which ranks do side by side */
    const char *undivided;   /* why ranks share a step only if its -g allows it; NULL: they always do */
    const char *gpus, *link; /* NULL: not given */
    bool automatic_gpus;     /* --gpus auto, whose number is not known yet: -g is that of all of them */
    bool g_of_each;          /* once it is known, -g is to be given for each */
    int planned_ranks;       /* for which --estimate plans; 0: those of this job */
    int planned_apart;       /* cards to which it plans to deal out trainings in a row; 0: it does not */
    const char *zero, *reduce_type;
    double bucket_mb;
    int val_times; /* --val-batch-size as a multiple of -b; 0: it was set explicitly */
    const char *gpu, *calibration;
    const char *price_text, *prices_file; /* --price and --prices */
    PriceList prices;                     /* of them, read by train_options_resolve */
    int cards;                            /* of this job, each of which has a price; 0: one */
    Price price;                          /* of the device or of all cards, known once it is open */
    int json_file; /* file descriptor that --json writes to; the text for stdout goes to stderr then */
} TrainOptions;

enum { MAX_EPOCHS = 1000000 };

/* Adds the shared options to those of a program. */
void train_options_add(OptionSet *set, TrainOptions *options);
/* Replaces 0 (auto) by the chosen values. Dies on combinations of options that contradict each other. */
void train_options_resolve(TrainOptions *options, const OptionSet *set);
/* Returns the options that decide what computes. */
MachineOptions train_machine_options(const TrainOptions *options);

/* Reads the prices of --price or --prices. */
void train_options_resolve_prices(TrainOptions *options);
/* Sets the price to that of the device, if there is one. train_device_open calls it. */
void train_options_set_price(TrainOptions *options, const Device *device);

/* Opens the device of --device and sets its price, or opens the dry device for --estimate. Sets *why like device_open.
 */
Device *train_device_open(TrainOptions *options, const char **why);
