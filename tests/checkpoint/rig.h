/* Checkpoints of a small model for tests: every number follows from the step and the seed, so that a checkpoint can be
 * checked to the bit. */
#pragma once

#include "checkpoint/load.h"
#include "tests/test.h"

/* The model, its weights and the moments of its optimizer; rig_set_up allocates them. */
extern ParamTable rig_table;
extern float *rig_weights, *rig_m, *rig_v;
/* The data of an I64 tensor that every checkpoint carries along. */
extern const int64_t rig_counter[3];
/* The step of the best weights, as rig_save notes it; 0: none. */
extern int64_t rig_best_step;

/* Sets the model up, for tests_run. */
int rig_set_up(void **unused);
/* Adds the model's parameters; rows: of its embedding, which has 3 in rig_table. */
void rig_make_table(ParamTable *table, int64_t rows);

/* Opens a checkpointer that carries two tensors along. keep: how many checkpoints stay. */
Checkpointer *rig_checkpointer(const char *directory, int keep);
/* Begins to save the numbers of a step and a seed. */
void rig_save(Checkpointer *c, int64_t step, uint64_t seed, bool best);
/* Saves them, and fails the test if that fails. */
void rig_save_good(Checkpointer *c, int64_t step, uint64_t seed, bool best);
/* Loads the checkpoint and compares every bit with what its step and seed give. Returns the step; *seed: its seed. */
int64_t rig_check_whole(const char *path, uint64_t *seed);
/* Checks the checkpoint that --resume auto chooses, and returns its step; 0: there is none. */
int64_t rig_step_to_resume(const char *directory, uint64_t *seed);
/* Returns the path that --resume leads to, which is kept, or NULL. */
char *rig_resolve(const char *directory, const char *resume);
/* Returns the step that the link leads to; 0: there is no link. */
int64_t rig_linked(const char *directory, const char *link);
TrainState rig_read_state(const char *path);

/* Fails unless the directory has exactly these entries, each with a space behind it. */
void rig_assert_listing(const char *directory, const char *want);
