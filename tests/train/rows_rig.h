/* For tests of every device: trainings of a model with a table of which most rows are never used. */
#pragma once

/* Tests with the device that toy_device opens (tests/train/loop_rig.h). */
void unused_rows_stay_and_the_others_keep_their_bits(void **state);
void unused_rows_do_not_decay(void **state);
void a_resumed_run_keeps_unused_rows(void **state);
void work_and_memory_know_unused_rows(void **state);
