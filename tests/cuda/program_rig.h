/* For tests that run a whole program on the cuda device: on the emulated card, or, with GPU_PROGRAMS, the folder of
 * programs that were built for it (behind a loader's command, if they need one), on the GPU of this machine. */
#pragma once

#include "tests/train_rig.h"

extern bool emulated; /* set by cuda_program: whether the card is the emulator's */

/* Returns the command of the program to be tested, "train_gpt"; valid until the next call. */
const char *cuda_program(const char *name);
/* Sets an environment variable; NULL: unsets it. */
void set_variable(const char *name, const char *value);
/* Sets the emulator's order of threads, blocks and copies, and the card; NULL: the default. */
void set_emulator(const char *seed, const char *capability);
/* Trains into a new folder under three schedules of the emulator. Fails unless the runs are the same. */
void check_schedules(void (*train)(const char *run), void (*assert_same)(const char *a, const char *b));
/* Options that make a run on a real card last until a signal reaches it; "" on the emulated one. */
const char *long_enough(void);
/* Stops a training of the fixture in step 3 of 6, on a card without bfloat16, and resumes it. Fails unless it ends with
 * the bytes of a training that was not stopped. float16: the loss scale goes on where it was, too. */
void check_resume(const char *short_run);
/* Copies the autotune cache, if there is one, to the folder of a run that must compute the same bits. */
void share_autotune_cache(const char *from, const char *to);
/* Fails unless a training with these options puts at most `most` kernels and fills a step into streams that are in no
 * recording, in the 16 steps behind the first `early`, in which passes of all sizes are recorded. `train` leaves the
 * output in fixture.output. */
void check_launches(int (*train)(const char *run, const char *more), const char *options, int early, double most);
/* Fails unless a training with these options gives the same bits when its passes are repeated from recordings and when
 * all are called directly, as with --profile. */
void check_recorded(int (*train)(const char *run, const char *more), const char *options);
/* Requires the plan to lie within 2 % of the memory taken, all of it in the first step. */
void assert_memory_as_planned(const char *run);
/* Does so after a training of the fixture with these options and more. */
void check_memory(const char *options, const char *more);
/* Trains into a new folder while every stride-th call that can run out of memory, from the first on, does so, one call
 * a run. `train` leaves the output in fixture.output and returns the exit status. Fails unless each run ends with one
 * line that says so, or is the same as a run with enough memory. Every stride-th: the loop's tests take all calls of a
 * small model. */
void check_shortage(int (*train)(const char *run), void (*assert_same)(const char *a, const char *b), int stride);
