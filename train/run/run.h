/* The state of a run, shared by train_run and its parts. */
#pragma once

#include "checkpoint/dump.h"
#include "train/gradient_norm.h"
#include "train/log.h"
#include "train/meter.h"
#include "train/pass.h"
#include "train/plan/plan.h"
#include "train/run/eta.h"

enum { TRAIN_MAX_GROUPS = 8 }; /* groups of parameters whose rates RateSpec.at decides */

/* A queued step whose results have not been read yet. */
typedef struct {
    TrainState before; /* before the step */
    double *counts;    /* [g, BATCH_MAX_COUNTS]: Batch.counts per micro-batch */
    int32_t *samples;  /* for the message about a loss that is not finite */
    int64_t n_samples;
} QueuedStep;

/* The value that decides which weights are the best, and the step of these weights. */
typedef struct {
    double value;
    int64_t step;
} Best;

/* Measurements since the last train record of log.jsonl. Checkpoints hold the sums and counts; the other values, for
 * rates, begin anew with the program. */
typedef struct {
    double sums[MODEL_MAX_METRICS], counts[BATCH_MAX_COUNTS];
    int64_t tokens, steps;
    double flops; /* of training */
    double start;
} LogWindow;

/* The checkpoints of a run. */
typedef struct {
    Checkpointer *checkpointer;
    int64_t saved_step;
    bool failed;        /* whether the last write failed */
    Best kept, written; /* the best on the disk; the best on the disk after the write under way */
    double lost;        /* the best value whose weights could not be kept; INFINITY: none */
    TrainState waiting; /* the state of a best checkpoint that waits in the staging copy other than `slot` */
    bool is_waiting;
    char *aside; /* the log that log_set_aside kept, until the run has written a checkpoint; or NULL */
    int slot;    /* the staging copy of the current or latest write */
} Keeping;

/* The validation data, and the results of a validation. */
typedef struct {
    Loader *loader; /* NULL: no validation */
    int64_t batches;
    Tensor sums;    /* f32 [batches, n_metrics] on the device */
    Tensor outputs; /* f32 [samples, n_outputs] on the device, if the spec evaluates them */
    float *host_sums, *host_outputs;
    double *counts; /* [batches, BATCH_MAX_COUNTS] Batch.counts */
} Validation;

/* The first time of the run that is told: see forecast.h. */
typedef struct {
    bool told, warned;        /* all but roughly; that the run is too long */
    bool first_left_out;      /* out of the measured micro-batches */
    double from, mean_tokens; /* the clock before them; the rows of a mean micro-batch */
    int64_t tokens;           /* rows of the measured ones */
} Forecast;

typedef struct Run {
    Training *t;
    Log *log;
    Loader *loader;
    ParamUpdates updates;
    Segment *moving; /* of the buffers that training updates */
    int n_moving;
    int n_groups; /* groups of parameters with a schedule of their own: 1 unless RateSpec.at decides */

    bool over;              /* no step is left to do */
    int64_t accumulation;   /* micro-batches of a step */
    int64_t total_steps;    /* the last step of the run */
    int64_t schedule_steps; /* where the learning rate reaches 0: --max-steps, if that is given */
    int64_t epoch_batches;
    /* The results of steps stay on the device until they are needed (for a log line, a validation, a checkpoint), so
     * that the host need not wait for a step before it queues the next. Each step has a row [1 + g n_metrics]: the
     * gradient norm, and the sums of each micro-batch. The host works ahead only of a device with memory of its own,
     * and not of other ranks. */
    QueuedStep queued[TRAIN_MAX_QUEUED];
    int n_queued, max_queued;
    Tensor results, row; /* f32 [max_queued, 1 + g n_metrics]; the row of the step being queued */
    Tensor stopped;      /* f32 [1]: see norm_guard; also set when a rank is lost whose share the device waits for */
    float *host_results;
    float *loss_scale; /* [g, n_metrics]: the weight of one row of each metric in the objective */
    Passes passes;
    const StepNumbers *numbers;            /* of the latest micro-batch, on the device */
    double step_start, exchanged_before;   /* of the step: the clock, Group.seconds */
    double own_tokens, step_flops;         /* of the step's micro-batches of this rank */
    double group_counts[BATCH_MAX_COUNTS]; /* of all micro-batches of the step */
    bool untold;                           /* the ranks have not told each other of the step what their hosts know */
    bool stops;                            /* a signal asks a rank to stop */

    GradientNorm norm;
    bool dumps;          /* the ranks take part in a dump of the current step */
    Dump *dump;          /* the dump of the current step, or NULL */
    float dumped_scale;  /* the factor on its gradients */
    double flops_before; /* the device's FLOPs before the current step */
    Validation validation;
    Keeping keeping;
    LogWindow window;
    Meter meter;
    Eta eta;
    Forecast forecast;
    Machine machine; /* whose rates are known, if has_machine */
    bool has_machine;
    double run_start, seconds_before, shown_at;
    double cost_before;    /* money of the earlier parts; NaN: not known */
    DeviceSensors sensors; /* read at most once a second */
    double sensors_at;
    double page_end, page_seconds; /* when the latest report.html was done, and how long it took */
    bool page_failed;
    double peak_flops; /* the card's stated rate for the type of the matrix products; 0: not known */
    float grad_norm;
    int64_t step_epoch; /* epoch of the last step's first micro-batch */
    bool epoch_ended;   /* whether an epoch ended in the last step */
    int64_t first_step;
    int64_t faults; /* skipped steps, except those skipped because the loss scale was too large */
} Run;
