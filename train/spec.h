/* The request of a program to the engine: everything in which trainings differ. */
#pragma once

#include "checkpoint/description.h"
#include "checkpoint/load.h"
#include "data/dataset.h"
#include "model/model.h"
#include "train/options.h"
#include "train/schedule.h"

enum { TRAIN_MAX_METRICS = 8 /* of SelectionSpec.evaluate */ };

typedef struct Training Training; /* train.h */

/* The division of the data into micro-batches. */
typedef struct {
    /* Returns a batch that dominates every micro-batch of at most `batch_size` sequences and `token_budget` tokens:
     * what the memory is planned for. 0: no such limit, so batch_size is 0 if only a token budget is given. batch_size
     * may be more than dataset->n_samples; the function clips it. */
    Batch (*largest)(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
    bool drop_last;      /* only micro-batches of --batch-size samples are trained on */
    int64_t min_samples; /* samples of the smallest micro-batch that is trained on; 0: 1 */
    /* The reason why -b auto must not divide the effective batch, if its parts do not train like the whole: "batch
     * norms see each micro-batch separately". NULL: it may be divided. */
    const char *indivisible;
} BatchSpec;

/* The schedule of the learning rate. */
typedef struct {
    /* Returns the rate of a parameter group in a step; `epoch` is the epoch of the step's first micro-batch. NULL:
     * --learning-rate times `schedule` for all groups. */
    double (*at)(const void *context, int group, int64_t step, int64_t epoch);
    const void *context; /* the program's own */
    /* The engine sets its warm-up to --warmup-steps, or where that is 0 to its warmup_share of the total, and its total
     * to --max-steps or else to the steps of the run.
     * NULL: schedule_cosine. */
    const Schedule *schedule;
    /* Multiply the scheduled rate of each parameter group; NULL: all are 1. The log has the rate without them. They are
     * not read if `at` is given. */
    const double *factors;
} RateSpec;

/* The optimizer; the learning rate, its schedule, weight decay and clipping are options. */
typedef struct {
    float beta1, beta2, epsilon; /* of AdamW; 0: 0.9, 0.999, 1e-8 */
    bool coupled_decay;          /* weight decay is part of the gradients: Adam with an L2 term, not AdamW */
    /* Muon for the matrices of the transformer blocks, AdamW for the rest. A program that lets the user choose lists
     * its option in fixed_options: the moments of one optimizer are not those of the other. */
    bool muon;
} OptimizerSpec;

/* Decides which weights are the best, and whether a run ends early or is extended. */
typedef struct {
    int metric; /* the model's metric whose validation mean decides, less is better; -1: the objective */
    /* If not NULL, decides instead of `metric`. Computes metrics[n_metrics], which are logged under `names`, from the
     * model's outputs [n, n_outputs] for the first n validation samples (all, unless --max-val-batches limits them).
     * Returns the number that decides, less is better. */
    double (*evaluate)(void *context, const float *outputs, int64_t n, double *metrics);
    void *context;            /* the program's own */
    const char *const *names; /* at most TRAIN_MAX_METRICS, other than those of the model's metrics */
    const char *decisive;     /* the name under which val/NAME has the number that decides; NULL: names[0] */
    int n_metrics;
    int64_t patience; /* number of validations without a new best after which the run ends; 0: never */
    /* A new best in one of the last three epochs adds extension_epochs epochs, at most max_extensions times. */
    int64_t extension_epochs, max_extensions;
} SelectionSpec;

/* A known loss for comparison, drawn into the plot. */
typedef struct {
    const char *name; /* "unigram entropy"; NULL: none */
    double value;
    int metric; /* the model's metric that the plot shows */
} BaselineSpec;

/* The measurements behind a log line: means over the steps since the last line. */
typedef struct {
    int64_t step, epoch;         /* steps done; the epoch under way, from 1 */
    const double *values;        /* [n_metrics] of the model's metrics */
    double step_seconds, tokens; /* of one step; per second. Time of validations and checkpoints does not count */
    double flops, peak;          /* per second; the card's stated rate, 0: not known */
    double learning_rate, grad_norm;
    const char *rest; /* for the end of the line: " ETA 5m12s ...", what is known of time left, sensors, cost */
} StepLine;

/* The same of a validation. */
typedef struct {
    int64_t step, epoch;
    const double *train, *values; /* [n_metrics] of the latest training steps, and of the validation */
    int64_t batches;
    double seconds; /* that the validation took */
} ValidationLine;

/* Words for log lines; NULL: "step" and "tokens". run: the name of the TensorBoard run; NULL: its time. part: the place
 * of this training among several, "fold 2 of 6"; NULL: it is the only one. follow: the number of trainings after it
 * that take about as long. */
typedef struct {
    const char *step, *token, *run, *part;
    int follow;
    /* Print log lines of the program's own in place of "[Train] ..." and "[Val] ...". NULL: these. */
    void (*print_step)(const void *context, const StepLine *line);
    void (*print_validation)(const void *context, const ValidationLine *line);
    const void *context; /* the program's own */
} LogLabels;

/* The action of a program after each validation: it may use the model, and write texts with train_log_text. Its time
 * counts as the validation's. */
typedef struct {
    void (*function)(void *context, Training *training, int64_t step); /* NULL: nothing */
    void *context;
} ValidationHook;

typedef struct {
    const TrainOptions *options;
    const OptionSet *set; /* all options of the program, for the checkpoint's record */
    /* The program's own options that decide what a sample, the model or the best weights are. A run does not resume if
     * one of them has changed. The list ends with NULL; NULL: none. */
    const char *const *fixed_options;
    Description description; /* of the model, for config.json */
    Model *model;
    Device *device;
    const char *device_why;      /* why the device is not a GPU, or NULL */
    Dataset *train, *validation; /* validation may be NULL */
    bool synthetic;              /* `train` holds one synthetic micro-batch instead of the user's data */
    BatchSpec batch;
    ImportRules import;      /* of a base checkpoint */
    const char *base_option; /* the option that names it; NULL: the one that sets options->base_checkpoint */
    RateSpec rate;
    OptimizerSpec optimizer;
    SelectionSpec selection;
    BaselineSpec baseline;
    LogLabels labels;
    ValidationHook after_validation;
    const char *autotune_file; /* the autotune cache, which a resumed run reuses; NULL: OUTPUT-DIR/choices.txt */
    size_t max_staged;         /* weights of up to this many bytes have two copies on the host; 0: 256 MiB */
} TrainSpec;
