/* state.json: a TrainState as text. The file also marks a directory as a checkpoint of this program. */
#pragma once

#include "model/model.h"

/* Everything that a run needs to resume as if it had never stopped. */
typedef struct {
    int64_t serial;             /* of the checkpoint; the one written last into a directory has the largest serial */
    int64_t step;               /* optimizer steps taken */
    int64_t micro_step;         /* micro-batches since the start; the step of dropout's random numbers */
    int64_t epoch, batch_index; /* of the next micro-batch */
    uint64_t seed;
    int64_t samples_seen, tokens_seen;
    /* A resumed run must see the same training data: the number of samples, a hash of ids and lengths, a hash of
     * contents. */
    int64_t n_samples, data_hash, content_hash;
    int64_t validation_hash;             /* content hash of the validation data; 0: there is none */
    uint64_t base_sum;                   /* checkpoint_base_sum of the base checkpoint; 0: none */
    int64_t skipped_steps;               /* steps skipped because of a loss or gradient that was not finite */
    int64_t frozen_rows;                 /* rows of the base vocabulary that are not trained */
    float loss_scale[LOSS_SCALE_FIELDS]; /* for 16-bit types that need a loss scale */
    double seconds;                      /* seconds of training so far */
    double cost;                         /* money so far, in the currency of --price; NaN: not known of every part */
    double best;                         /* smallest validation objective so far; INFINITY: none */
    int64_t best_step;                   /* 0: none */
    int64_t validations_since_best;
    int64_t extensions; /* number of times that the run was extended */
    int64_t validating; /* 1: the validation after this step is still to be done */
    /* Sums of the steps since the last train record of log.jsonl, so that the next record is the mean over its whole
     * window. */
    double window_sums[MODEL_MAX_METRICS], window_counts[BATCH_MAX_COUNTS];
    char revision[48];  /* git revision of the program */
    char device[256];   /* Device.description, with the libraries that computed; "": an earlier version's */
    char sums_by[128];  /* Group.description of what adds the ranks' gradients in an order of its own; "": none */
    char *options_json; /* the options of the run (owned by the caller) */
    int n_metrics;
    char metric_names[24][32]; /* names of the latest train and validation values */
    double metric_values[24];
} TrainState;

/* Returns the text of state.json; free(). Dies if a field is outside of its range. */
char *state_to_json(const TrainState *state);
/* Reads that text: every byte must be as it was written, every field there and in its range; the error names the field.
 * options_json: free(). */
bool state_parse(const char *text, size_t size, TrainState *state, Error *error);
/* Reads PATH/state.json. */
bool state_read(const char *path, TrainState *state, Error *error);
/* Returns whether the directory is a complete checkpoint of this program, and reads its state. */
bool checkpoint_is_whole(const char *path, TrainState *state, Error *error);
