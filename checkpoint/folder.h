/* The directory of a run: its checkpoints step_N, in the order in which they were written, and the links last and best.
 *
 * Names that end in .partial are leftovers, to be deleted. step_N.replaced is a checkpoint that was about to be
 * replaced by another one of the same step, on a file system that cannot exchange two names. It stands for step_N as
 * long as there is no step_N.
 *
 * last and best are symbolic links, or, on a file system without them, small files with the name of the step. A tool
 * that follows links when it copies (rsync -L, zip, a network drive) makes folders of them: copies of checkpoints. */
#pragma once

#include <limits.h>

#include "base/file.h"

/* The files beside the weights of a checkpoint (description.h). */
#define DESCRIPTION_FILE "config.json"
#define DECISION_FILE    "decision.json"

/* The links to checkpoints. */
#define LAST_LINK "last"
#define BEST_LINK "best"

typedef char Path[PATH_MAX];
typedef char StepName[48]; /* "step_00001000", "step_00001000.replaced" */

/* A complete checkpoint. Two checkpoints of the same step differ in serial or seconds. */
typedef struct {
    int64_t step, serial, best_step;
    double seconds;
    const char *copy; /* LAST_LINK or BEST_LINK: it lies in the folder of this name, and not in step_N; NULL */
    bool spared;      /* it could have been removed after the checkpoint before */
} Step;

/* The checkpoints of a directory, the newest last, and the number of unusable ones, with the reason of the first. A
 * copy counts if there is no step_N of its step. */
typedef struct {
    Step *items;
    int n, room;
    int n_bad;
    Error why;
} Steps;

/* Joins directory and name; dies if the path is too long. */
void folder_join(Path out, const char *directory, const char *name);
/* Writes "step_N" followed by a suffix. */
void step_name(StepName name, int64_t step, const char *suffix);
/* Writes the path of "step_N" followed by a suffix in a directory. */
void step_path(Path out, const char *directory, int64_t step, const char *suffix);
/* Returns N of "step_N" followed by `suffix`; -1 for other names. */
int64_t step_of(const char *name, const char *suffix);

/* Reads the checkpoints of a directory, none if there is no directory; free(items). Returns false with the reason if
 * the directory cannot be read. */
bool steps_read(Steps *steps, const char *directory, Error *error);
/* Makes room for `more` checkpoints. */
void steps_reserve(Steps *steps, int more);
/* Adds the newest checkpoint, in place of one of the same step. */
void steps_add(Steps *steps, Step step);
/* Writes the folder of a checkpoint: DIR/step_N, or that of its copy. */
void step_folder(Path out, const char *directory, const Step *step);
/* Returns the checkpoint of this step, or NULL. */
const Step *steps_find(const Steps *steps, int64_t step);

/* Renames every step_N.replaced back to step_N where there is no step_N. */
bool folder_recover(const char *directory, Error *error);
/* Reads the name that DIR/link points to, or that of the step in a small file instead of it; "" if there is neither. */
void folder_link(const char *directory, const char *link, StepName target);
/* Returns whether DIR/link is a folder with weights: the copy of a checkpoint. */
bool folder_is_copy(const char *directory, const char *link);
/* Returns the path with the link last or best in it (RUN/best, RUN/best/model.safetensors) replaced by the step that it
 * names; free(). Other paths are returned as they are. */
char *checkpoint_follow(const char *path);

/* ---- reading while a run writes and removes checkpoints ---- */

/* Follows the path as checkpoint_follow does, and protects the folder of the step in it: the run that writes there does
 * not remove it before checkpoint_release or the end of this program. Until then the same link leads to the same step.
 * Follows the link again if the step was removed in between. Where the file system has no locks, the step is not
 * protected. Not for several threads. free() */
char *checkpoint_hold(const char *path);
/* Ends the protection of all held checkpoints. */
void checkpoint_release(void);
/* Locks the folder of a step that is about to be removed. LOCK_BUSY: a program holds it. close(*fd), if it is not -1,
 * after the removal. */
LockResult folder_claim(const char *path, int *fd);
/* Opens a file behind a link (RUN/last/state.json) as file_open does, without holding its checkpoint. */
int checkpoint_file_open(const char *path, size_t *size, Error *error);
