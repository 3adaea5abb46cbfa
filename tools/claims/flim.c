/* The guide for the classifier of FLIM cells on an L4. */
#include <math.h>

#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

#define CV(options) "train_cv " options " -g 1 --num-workers 8"

/* The data of the guide's split, and what its code keeps and moves. */
static const double cells = 10158, validation_cells = 4167, epochs = 75;
static const double cell_bytes = 2.0 * 256 * 21 * 21 * 4;
static const double kept_values = 27021824,
                    pool_indices = 330e6; /* numbers that autograd keeps per cell; bytes, 64 cells */
static const double touches = 288.9e6,
                    hooks = 245e6;         /* numbers per cell that an eager step, and its debug hooks, move */
static const double augmentation = 9.1e-3; /* seconds per cell in Python, measured on one EPYC core */

/* Return the training steps and the validation batches of an epoch. */
static double steps(const Run *run) { return ceil(cells / run->sequences); }
static double forwards(const Run *run) { return ceil(validation_cells / run->sequences); }
/* Returns the seconds of an epoch. A forward is taken as a third of a step. */
static double epoch(const Run *run, double step) { return (steps(run) + forwards(run) / 3) * step; }

static double cells_a_second(const Run *run) { return run->sequences / run->step; }

/* Returns the least seconds of an eager step of PyTorch that moves so many f32 numbers per cell at the stated
 * bandwidth. */
static double eager(const Run *run, double numbers) { return run->sequences * numbers * 4 / run->card->bandwidth; }

static void speed(const Run *before, const Run *after) {
    claim_theirs(eager(before, touches + hooks));
    claim_time("old speed: 2.03 it/s of 32", 1 / 2.03, 1 / 2.03, before->step, before->floor,
               "%s TFLOP in f32, %s it/s; PyTorch's step moves %s, with the reference's debugging hooks %s: at the "
               "whole %s GB/s %s it/s",
               number(before->flops / 1e12), number(1 / before->step), bytes(before->sequences * touches * 4),
               bytes(before->sequences * (touches + hooks) * 4), number(before->card->bandwidth / 1e9),
               number(1 / eager(before, touches + hooks)));
    claim_theirs(eager(after, touches));
    claim_time("new speed: 5-6 it/s of 64 (said twice)", 1 / 6.0, 1 / 5.0, after->step, after->floor,
               "%s it/s of our program, which moves each tensor few times; PyTorch's step, the guide's, moves %s in "
               "f32: at most %s it/s at the whole bandwidth, with the hooks %s",
               number(1 / after->step), bytes(after->sequences * touches * 4), number(1 / eager(after, touches)),
               number(1 / eager(after, touches + hooks)));
    claim_time("an epoch took 15 minutes", 900, 900, epoch(before, before->step), epoch(before, before->floor),
               "%s cells are %s steps of %s, %s to validate on %s forwards; if it had been 2.03 s a step or forward, "
               "not 2.03 it/s: %s",
               number(cells), number(steps(before)), seconds(before->step), number(validation_cells),
               number(forwards(before)), seconds((steps(before) + forwards(before)) * 2.03));
    claim_time("an epoch takes 6 minutes", 360, 360, epoch(after, after->step), epoch(after, after->floor),
               "%s steps of %s, %s forwards; 6 min at 5-6 it/s would be %s to %s steps", number(steps(after)),
               seconds(after->step), number(forwards(after)), number(5 * 360), number(6 * 360));
    claim_time("75 epochs took 18.75 hours", 18.75 * HOUR, 18.75 * HOUR, epochs * epoch(before, before->step),
               epochs * epoch(before, before->floor), "%s x %s", number(epochs), seconds(epoch(before, before->step)));
    claim_time("75 epochs take 7.5 hours (said twice)", 7.5 * HOUR, 7.5 * HOUR, epochs * epoch(after, after->step),
               epochs * epoch(after, after->floor), "%s x %s", number(epochs), seconds(epoch(after, after->step)));
}

static void speed_ups(const Run *before, const Run *after, const Run *f32, const Run *tf32_32, const Run *amp) {
    const Card *c = after->card;
    double all = cells_a_second(after) / cells_a_second(before), long_epoch = epoch(after, after->step);
    double factors = 1.8 * 1.3 * 1.1 * 1.02; /* factors in the guide's table, without that of cuDNN */
    claim_ratio("batch 64 instead of 32: 1.8x", 1.8, 1.8, cells_a_second(after) / cells_a_second(tf32_32),
                "cells a second, %c over %c: twice the cells take %s the time", after->name, tf32_32->name,
                times(after->step / tf32_32->step));
    claim_ratio("TF32: 1.3x", 1.3, 1.3, f32->step / after->step, "%c over %c: %s of the step is bound by memory",
                f32->name, after->name, percent(after->memory_bound / after->step));
    claim_ratio("TF32: about 3x on an L4 (said twice)", 3, 3, c->tf32 / c->f32,
                "stated %s over %s TFLOP/s, of products alone; the L4 is Ada, and PyTorch's convolutions use TF32 "
                "unless told otherwise",
                number(c->tf32 / 1e12), number(c->f32 / 1e12));
    claim_amount(number, "TF32 has a mantissa of 19 bits", 19, 19, 10,
                 "as f16; with the sign and the 8 bits of f32's exponent it has 19");
    claim_unknown("cuDNN benchmark: 1.05-1.1x (5-10 %)",
                  "which algorithms would be chosen without it is not known; convolutions are %s of the FLOPs",
                  percent(after->convolutions / after->flops));
    claim_ratio(
        "8 workers instead of 4: 1.1x", 1.1, 1.1,
        fmin(8 / augmentation, cells_a_second(after)) / fmin(4 / augmentation, cells_a_second(after)),
        "in Python a core augments %s cells a second: 4 make %s, the card takes %s; our program augments on the card",
        number(1 / augmentation), number(4 / augmentation), number(cells_a_second(after)));
    claim_unknown("persistent workers: 1.02x, 2-5 s an epoch",
                  "how long Python takes to start processes cannot be computed; 2-5 s more would be %s to %s of an "
                  "epoch of %s, %s to %s of its own of 15 min",
                  percent(2 / long_epoch), percent(5 / long_epoch), seconds(long_epoch), percent(2.0 / 900),
                  percent(5.0 / 900));
    claim_ratio("in all about 2.5x (said twice)", 2.5, 2.5, all,
                "cells a second, %c over %c; its own factors make %s to %s, its own it/s %s to %s", after->name,
                before->name, times(factors * 1.05), times(factors * 1.1), times(2 * 5 / 2.03), times(2 * 6 / 2.03));
    claim_ratio("mixed precision: 2x", 2, 2, after->step / amp->step, "%c over %c: twice the rate, half the bytes",
                after->name, amp->name);
    claim_amount(percent, "mixed precision: half the memory", 0.5, 0.5, 1 - amp->memory / after->memory,
                 "activations %s become %s", bytes(after->activations), bytes(amp->activations));
}

static void memory(const Run *after, const Run *batch_96) {
    double activations = after->sequences * kept_values * 4 + pool_indices, kept = 16 * after->parameters + activations;
    claim_amount(bytes, "input: 115 MB a batch", 115e6, 115e6, after->sequences * cell_bytes,
                 "64 x 2 x 256 x 21 x 21 x 4 bytes; the guide's is that of f64");
    claim_amount(bytes, "model: 3.6 MB", 3.6e6, 3.6e6, 4 * after->parameters, "%s parameters of 4 bytes",
                 count(after->parameters));
    claim_amount(count, "909k parameters", 909e3, 909e3, after->parameters,
                 "11 biases before batch norms are left out, which have no effect");
    claim_amount(bytes, "gradients and optimizer: 15 MB", 15e6, 15e6, after->states,
                 "3 x 4 bytes a parameter; with the weights it is %s", bytes(after->states + 4 * after->parameters));
    claim_theirs(kept);
    claim_amount(bytes, "in all about 134 MB", 134e6, 134e6, after->memory,
                 "the guide leaves out the activations: %s; PyTorch keeps %s", bytes(after->activations),
                 bytes(activations));
    claim_theirs(kept);
    claim_amount(bytes, "8-10 GB of 24 GB are used (said twice)", 8e9, 10e9, after->memory,
                 "PyTorch keeps %s values a cell in f32, x 64, and the pool's indices", count(kept_values));
    claim_theirs(kept);
    claim_fits("no out-of-memory at batch 64", after, "as above, in f32");
    claim_theirs(kept * 96 / 64);
    claim_fits("batch 96 fits 24 GB easily", batch_96, "the same x 96/64");
    claim_amount(bytes, "the program prints VRAM: 24.0 GB", 24e9, 24e9, (1 - CARD_WITHHELD) * after->card->memory,
                 "it divides what the driver offers by 10^9: %s less the %s that it keeps; of 24 GiB ECC takes a "
                 "sixteenth",
                 bytes(after->card->memory), percent(CARD_WITHHELD));
}

static void the_rest(const Run *after, const Run *batch_96) {
    claim_unknown(
        "GPU utilisation 40-50 % before, 80-90 % after (said three times)",
        "it says that some kernel runs, not how well; at 5-6 it/s the FLOPs are %s to %s of the stated TF32 rate",
        percent(5 * after->flops / after->peak), percent(6 * after->flops / after->peak));
    claim_unknown("batch 96 pushes utilisation to over 90 %", "as above; cells a second become %s those of batch 64",
                  times(cells_a_second(batch_96) / cells_a_second(after)));
    claim_unknown("persistent workers take more RAM and save time",
                  "how much a process of Python holds cannot be computed; a batch is %s in f32, and 8 workers hold two "
                  "each: %s",
                  bytes(after->sequences * cell_bytes), bytes(16 * after->sequences * cell_bytes));
    claim_ratio("8 workers: no data stalls, the GPU is kept fed", 1, 1e9, 8 / augmentation / cells_a_second(after),
                "8 free cores augment %s cells a second in Python, the card takes %s; an L4 machine with 4 has %s",
                number(8 / augmentation), number(cells_a_second(after)), number(4 / augmentation));
}

void estimates_cv(void) {
    section(
        "The classifier of FLIM cells on an L4",
        "Cells of 256 x 21 x 21. Before: batch 32 in f32; after: batch 64 in TF32. The guide's split has 10,158 cells "
        "to train on and 4,167 to validate on; 75 epochs. What PyTorch keeps for the backward pass and what a step of "
        "it moves was counted in the reference's code: %s and %s numbers a cell; its debugging hooks move %s more.",
        count(kept_values), count(touches), count(hooks));
    Run before = run_program("l4", CV("-b 32 --no-tf32"));
    Run after = run_program("l4", CV("-b 64"));
    Run f32 = run_program("l4", CV("-b 64 --no-tf32"));
    Run tf32_32 = run_program("l4", CV("-b 32"));
    Run amp = run_program("l4", CV("-b 64 --amp"));
    Run batch_96 = run_program("l4", CV("-b 96"));
    speed(&before, &after);
    speed_ups(&before, &after, &f32, &tf32_32, &amp);
    memory(&after, &batch_96);
    the_rest(&after, &batch_96);
}
