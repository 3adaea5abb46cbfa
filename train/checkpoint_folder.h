/* The directory of a run: its checkpoints step_N, in the order in which they were written, and the links last and best.
 *
 * Names that end in .partial are rubbish. step_N.replaced is a checkpoint that another one of the same step was about
 * to replace, where the file system cannot exchange two names: it stands for step_N as long as there is none. */
#ifndef TRAIN_CHECKPOINT_FOLDER_H
#define TRAIN_CHECKPOINT_FOLDER_H

#include <limits.h>

#include "base/base.h"

typedef char Path[PATH_MAX];
typedef char StepName[48]; /* "step_00001000", "step_00001000.replaced" */

/* A whole checkpoint. Another one of the same step has another serial or other seconds. */
typedef struct {
    int64_t step, serial, best_step;
    double seconds;
} Step;

/* Those of a directory, the newest last; and how many there are that cannot be used, with the first one's reason. */
typedef struct {
    Step *items;
    int n, room;
    int n_bad;
    Error why;
} Steps;

/* Joins the two; dies if that is too long. */
void folder_join(Path out, const char *directory, const char *name);
/* "step_N" and a suffix. */
void step_name(StepName name, int64_t step, const char *suffix);
/* Returns N of "step_N" followed by `suffix`; -1: another name. */
int64_t step_of(const char *name, const char *suffix);

/* Reads what is there; no directory: nothing. free(items). False: it cannot be read. */
bool steps_read(Steps *steps, const char *directory, Error *error);
/* Makes room for so many more. */
void steps_reserve(Steps *steps, int more);
/* Adds the newest, in place of one of the same step. */
void steps_add(Steps *steps, Step step);
/* NULL: there is none of this step. */
const Step *steps_find(const Steps *steps, int64_t step);

/* Renames every step_N.replaced back to step_N if there is none. */
bool folder_recover(const char *directory, Error *error);
/* Reads the name that DIR/link points to; "" if there is no such link. */
void folder_link(const char *directory, const char *link, StepName target);

#endif
