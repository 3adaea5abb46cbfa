/* The training loop of every program: loader -> micro-batches -> forward/backward -> clip -> step -> log -> validate ->
 * checkpoint; signals, resume, and exact accounting of time and work. */
#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H

#include "data/loader.h"
#include "model/model.h"
#include "train/checkpoint.h"
#include "train/options.h"

/* The options that all programs share. */
typedef struct {
    OptionList manifest, val_manifest;
    const char *config, *output_dir, *base_checkpoint, *resume, *device, *debug_dump, *loss_norm, *bucketing;
    int64_t batch_size, grad_accumulation, epochs, warmup_steps, max_steps, log_interval, val_interval, val_batch_size;
    int64_t effective_batch; /* samples an optimizer step, for -b auto */
    int64_t max_val_batches, num_workers, threads, save_interval, keep_checkpoints, seed, token_budget;
    double learning_rate, weight_decay, grad_clip, val_ratio;
    bool amp, no_tf32, grad_checkpointing, skip_nonfinite, profile, dry_run;
    bool estimate, json, calibrate;
    /* -b auto: until train_choose_batch, -b is all of the effective batch and -g 1. */
    bool auto_batch;
    int val_times; /* --val-batch-size is not given: so many times -b; 0: it is */
    const char *gpu, *calibration;
    double price;  /* dollars an hour; 0: not asked */
    int json_file; /* --json: where it goes; the text that would be on stdout goes to stderr */
} TrainOptions;

enum { TRAIN_MAX_OPTIONS = 64, MOST_EPOCHS = 1000000 };
/* Writes the shared rows of the option table; a program appends its own. Returns how many. */
int train_option_rows(TrainOptions *options, Option *rows);
/* Replaces 0 = auto by its value, and refuses combinations that make no sense. */
void train_options_resolve(TrainOptions *options, const Option *rows, int n_rows);

enum { TRAIN_MAX_JUDGED = 8, TRAIN_MAX_RESIDENTS = 4, TRAIN_MAX_QUEUED = 16 /* steps, see loop.c */ };

/* A data set's resident tensor in the memory of a device that cannot read the host's. */
typedef struct {
    const void *host;
    void *device;
    size_t bytes;
} Resident;

/* What a program hands to the loop. */
typedef struct Training Training;
struct Training {
    const TrainOptions *options;
    const Option *rows; /* the whole table, for the checkpoint's record */
    int n_rows;
    /* Options of the program's own that decide what a sample, the model or the best is: a run cannot go on bit by bit
     * if one of them has changed. The last is NULL; NULL: none. */
    const char *const *fixed_options;
    Model *model;
    Device *device;
    const char *device_why;      /* why it is no GPU, or NULL */
    Dataset *train, *validation; /* validation may be NULL */
    bool typical;                /* train is no data of the user's, but one micro-batch as there may be */
    const char *floor_name;      /* a known loss to compare with, drawn into the plot: "unigram entropy"; or NULL */
    double floor_value;
    int floor_metric; /* the metric that it belongs to */
    /* A batch that dominates every micro-batch of `batch_size` sequences (or of `token_budget` tokens), for the memory.
     */
    Batch (*largest_batch)(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
    const char *const *resizable; /* tables of which a base checkpoint may have another number of rows */
    int n_resizable;
    const char *const *import_only; /* what is taken of a base checkpoint, and must be there; see ImportRules */
    int n_import_only;
    const AbsorbedBias *absorbed; /* biases of the reference's that the model does without; see ImportRules */
    int n_absorbed;
    bool coupled_decay;  /* weight decay is part of the gradients: Adam with an L2 term, not AdamW */
    bool drop_last;      /* only micro-batches of --batch-size samples are trained on */
    int64_t least_batch; /* samples of the smallest micro-batch that is ever trained on; 0: 1 */
    /* Why parts of a micro-batch are not the same as the whole, so that -b auto may not divide the effective batch:
     * "batch norms see each micro-batch for itself". NULL: they are. */
    const char *whole_batches;
    /* The rate of a group of parameters in a step; epoch: of the step's first micro-batch. NULL: --learning-rate by
     * schedule_cosine for all. */
    double (*learning_rate)(const Training *training, int group, int64_t step, int64_t epoch);
    /* What decides, after a validation, whether the weights are the best so far: a metric's mean; -1: the objective. */
    int monitor;
    /* Or this: from the model's outputs for the first n samples of the validation (all, unless --max-val-batches says
     * otherwise), [n, n_outputs] in their order, it fills values[n_judged], which are logged under the names `judged`,
     * and returns what decides, of which less is better; messages call that judged[0]. NULL: none. */
    double (*judge)(const Training *training, const float *outputs, int64_t n, double *values);
    const char *const *judged; /* at most TRAIN_MAX_JUDGED */
    int n_judged;
    int64_t patience; /* the run ends after so many validations without a new best; 0: never */
    /* A new best in one of the last two epochs, or in the one before them, adds so many epochs, at most so often. */
    int64_t extension_epochs, most_extensions;
    /* Where the device's choices are kept, which a run that goes on takes again; NULL: OUTPUT-DIR/choices.txt. */
    const char *choices;
    const char *step_name, *token_name; /* of log lines: "it", "cells"; NULL: "step", "tokens" */
    void *context;                      /* the program's own, for these functions */
    /* Bytes of weights of which a second copy is kept on the host (see staging); 0: 256 MiB. */
    size_t most_staged;

    /* Set by train_prepare. */
    bool inference; /* by train_prepare_inference */
    Resident residents[TRAIN_MAX_RESIDENTS];
    int n_residents;
    Tensor m, v;
    Arena activations;
    size_t planned_bytes; /* of the device's memory */
    /* Weights, m and v on the host, where the device's memory cannot be read in place; and again, for a checkpoint to
     * wait in while another one is written, unless they are large. */
    float *staging[2][3];
    TrainState state;
    TensorFile source; /* the base checkpoint, or the one resumed from: owns the carried tensors */
    StoredTensor *carried;
    int n_carried;
    char *resumed_from;  /* NULL: a fresh start */
    bool ended;          /* by itself, at its last step or out of patience, whatever signal came meanwhile */
    size_t kept_choices; /* the length of what is in the choices' file */
    ImportReport import; /* of the base checkpoint */
};

/* Plans the memory on the dry device, prints it by group, dies with what would make it fit if it does not, then
 * allocates; initialises the weights, or imports the base checkpoint, or resumes. */
void train_prepare(Training *training);
/* The same for train_outputs alone: no gradients, no optimizer, no run in --output-dir. All weights come from
 * --base-checkpoint. Memory is planned for the validation data, or without any for `train`. */
void train_prepare_inference(Training *training);
/* What the model says of every sample of a data set, in its order: [n_samples, n_outputs] on the host. */
void train_outputs(Training *training, const Dataset *dataset, float *outputs);
/* The options of the loaders, of the training data from a state on (NULL: the beginning), and of the validation's. */
LoaderOptions train_loader_options(const TrainOptions *options, const TrainState *from);
LoaderOptions validation_loader_options(const TrainOptions *options);
/* How many samples it visits. */
int64_t validation_samples(const Dataset *dataset, const LoaderOptions *options);
/* How many optimizer steps the run has: floor(micro-batches of all epochs / accumulation), at most --max-steps. */
int64_t train_steps(const Training *training, const LoaderOptions *options);
/* Trains until the last step or a signal; the exit status of the program. */
int train_run(Training *training);
/* Writes the device's choices to their file, if it has made new ones. directory: where the run's folder is now; the
 * file is there if it has been moved. */
void train_keep_choices(Training *training, const char *directory);
/* Gives everything back that train_prepare took: another training may follow on the same device. */
void train_close(Training *training);

/* The optimizer after the updates that the state has seen (step). Its rate is 1: every segment has its own. */
AdamW train_adamw(const Training *training);

/* Trains nothing: prints the memory that train_prepare would take, and what one optimizer step of the largest
 * micro-batches does: parameters, FLOPs and bytes by operation. */
void train_dry_run(Training *training);

/* The device of --device; for --estimate the dry one. *why: as device_open has it. */
Device *train_device_open(const TrainOptions *options, const char **why);

/* The learning rate's multiplier after k updates: k / max(1, w) for k < w, then 0.5 (1 + cos(pi (k-w) / max(1, n-w))).
 */
double schedule_cosine(int64_t k, int64_t warmup, int64_t total);
/* Half a cosine: `from` at share 0, `to` at 1; beyond, it comes back. */
double schedule_between(double from, double to, double share);

/* --debug-dump: collects copies of named tensors, then writes them as one safetensors file. */
typedef struct Dump Dump;
Dump *dump_open(Device *device);
/* On the device; returns the copy on the host that will be written. */
void *dump_add(Dump *dump, const char *name, Tensor tensor);
void dump_add_host(Dump *dump, const char *name, Tensor tensor); /* on the host */
void dump_write_close(Dump *dump, const char *path, int64_t micro_batches);

#endif
