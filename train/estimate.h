/* --estimate: what a run needs of a card's memory and how long it takes there, by arithmetic that can be followed.
 *
 * The run's own micro-batches go through the dry device, which yields the FLOPs and bytes of every operation exactly.
 * A call of it then takes the larger of
 *   FLOPs / (sustained share * the card's rate for its type)    and    bytes / (sustained share * the bandwidth),
 * or, on a device that --calibrate has measured, over the rates that it has reached with calls of this size; and its
 * kernels' launches besides. A step is the sum, or what copies or fills its batches, if that takes longer. */
#ifndef TRAIN_ESTIMATE_H
#define TRAIN_ESTIMATE_H

#include "kernels/cards.h"
#include "kernels/device.h"
#include "train/memory.h"
#include "train/rates.h"
#include "train/sizing.h"

/* Bytes of a card's memory, less what CUDA itself takes and what a run keeps free. */
double estimate_available(const Card *card);
/* bytes/s that a checkpoint is written at, and that a worker of the loader fills. */
extern const double estimate_disk_rate, estimate_loader_rate;

/* The operations of kernels/ops_table.h, and behind them the clearing of the gradients. */
enum { ESTIMATE_OPS = DEVICE_MAX_OPS + 1, ESTIMATE_CLEAR = DEVICE_MAX_OPS };
const char *estimate_op_name(int op);

/* An operation in a step, or in a validation: a mean over an epoch; all its calls, and by call_size. */
typedef struct {
    CallWork all, sizes[CALL_SIZES];
} OpWork;
/* Adds calls that are of one size. */
void op_work_add(OpWork *work, CallWork calls);

typedef struct {
    OpWork ops[ESTIMATE_OPS];
    double micro_batches, sequences, tokens;
    double batch_bytes; /* that the loader fills, and that go to the device */
} Work;

typedef enum { BY_COMPUTE, BY_MEMORY, BY_LAUNCHES, BY_COPY, BY_LOADER } Bound;
extern const char *const bound_names[];

typedef struct {
    double compute, memory, launches; /* seconds of each alone */
    double seconds;                   /* max(compute, memory) + launches */
    Bound bound;                      /* the largest of the three */
} OpTime;

typedef struct {
    OpTime ops[ESTIMATE_OPS];
    double parts[BY_LAUNCHES + 1]; /* seconds of the operations that compute bounds, that memory bounds; of launches */
    double copy, loader;           /* seconds that go on beside them */
    double seconds;                /* the largest of the operations' sum, copy and loader */
    double flops, mfu;
    Bound bound;
} WorkTime;

/* What it is computed with. half: the 16-bit type, f32 without --amp. */
typedef struct {
    const Card *card;
    DType half;
    bool tf32;
    int workers;        /* threads of the loader */
    const Rates *rates; /* NULL: not measured */
} Machine;

/* In what numbers it multiplies matrices. */
NumberType machine_numbers(const Machine *machine);
/* Adds, or with times -1 takes away, what a device has counted since its counters were reset. */
void work_add_counters(Work *work, const Device *device, int times);
void work_add_batch(Work *work, const Batch *batch);
OpTime estimate_op(const Machine *machine, int op, const OpWork *work);
WorkTime estimate_work(const Machine *machine, const Work *work);
/* Seconds that the operations take at the card's stated rates and its whole bandwidth, launches for nothing: what no
 * program that does this work can be faster than. */
double estimate_floor(const Machine *machine, const Work *work);
/* The stated rate of matrix products, which an MFU is of; where none is stated the best that has been measured. */
double estimate_peak(const Machine *machine);

/* A run, whatever the card. */
typedef struct {
    Work step, validation; /* one of each */
    int64_t steps;         /* 0: not known, there is no data */
    double epoch_batches, epoch_samples, epoch_tokens;
    int64_t validations, checkpoints;
    double checkpoint_bytes;
    MemoryPlan memory;
} RunWork;

/* And on a card. */
typedef struct {
    Machine machine;
    const RunWork *work;
    BatchChoice batch; /* of -b auto; size 0: it is not asked */
    WorkTime step, validation;
    double steps_seconds, validation_seconds, checkpoint_seconds, seconds;
    double available; /* bytes of its memory, less what CUDA itself takes */
    bool fits;
    Changes changes; /* with which it would */
} RunTime;

RunWork estimate_run_work(Training *training);
/* *work must live as long as the result. */
RunTime estimate_run(Training *training, const RunWork *work, const Machine *machine);

/* The machines that --gpu names, with what has been measured of them; dies, naming those that are known. free(). */
Machine *estimate_machines(const TrainOptions *options, int *n);
/* What an opened device is: its row of the table of cards and its measured rates, either of which is enough; a CPU, or
 * a card that is not in the table, gets a Card made of its rates. Both live as long as the process. False: nothing is
 * known of it. A damaged file of rates is warned of. */
bool estimate_machine(const Device *device, const TrainOptions *options, Machine *machine);

/* --calibrate: measures the device of --device, prints and keeps what it can do, and ends the program. */
_Noreturn void train_calibrate(const TrainOptions *options);

/* Prints the estimate of --gpu, as text or JSON. */
void train_estimate(Training *training);

const char *milliseconds(double seconds, char text[32]); /* "83.1 ms"; from 10 s on "12.3 s" */

/* The two forms of it. */
void estimate_print(const Training *training, const RunTime *times, int n);
char *estimate_json(const Training *training, const RunTime *times, int n); /* free() */

#endif
