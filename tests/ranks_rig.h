/* Facts that hold for every training on several ranks, beside one rank with as many micro-batches a step. The tests of
 * a model's tests/X/mpi/test_ranks.c run its program over MPI, those of tests/X/nccl/test_ranks.c on emulated cards:
 * RANKS_TESTS in their table, with a RanksCase in the group's state. */
#pragma once

#include "tests/side_by_side_rig.h"

typedef struct {
    bool cards;            /* as in SideCase; trainings are then short */
    int most;              /* ranks; 0: 4 over MPI, 3 with cards */
    const char *program;   /* "train_slm", with its command */
    char *options;         /* the data, the model, -b, the threads of one rank; all but -g and the output */
    const char *loss;      /* its name in the log */
    bool whole_step;       /* -g counts the micro-batches of all ranks */
    const char *run;       /* the folder of the run in the output folder; "" */
    const char *validates; /* options with which a few steps have validations of an odd number of batches */
    /* The ending of the names of tensors that begin as zeros and of which much has gradients as small as rounding, so
     * that AdamW, whose steps have the same size whatever the gradient's, makes a different tensor of another rounding:
     * they are left out of weights, not of gradients. NULL: there are none. */
    const char *noise;
} RanksCase;

/* Micro-batches of a step, which 1 to ranks_most ranks can share, and steps of a training. */
int ranks_micro_batches(const RanksCase *c);
int ranks_most(const RanksCase *c);
int ranks_steps(const RanksCase *c);

/* Trains a case on so many ranks. Returns the output folder, to be kept; fails the test if the training fails. */
char *ranks_train(const RanksCase *c, int ranks, const char *more);
/* Returns the folder of such a training that may have been made for another test. */
const char *ranks_trained(const RanksCase *c, int ranks, const char *more);
/* The same, but returns the exit status; what was printed is in fixture.output. */
int ranks_try(const RanksCase *c, int ranks, const char *folder, const char *more);
/* Fails unless both trainings logged the same losses to 1e-5, and their last weights differ by at most 1e-5 of each
 * tensor's norm. */
void ranks_compare(const RanksCase *c, const char *folder, const char *reference);
/* Trains on 1 to ranks_most ranks with more options, and compares. */
void ranks_check(const RanksCase *c, const char *more);

// clang-format off
#define RANKS_TESTS(ranks_case) \
    cmocka_unit_test_prestate(several_ranks_train_as_one, ranks_case), \
    cmocka_unit_test_prestate(the_first_gradients_are_those_of_one_rank, ranks_case), \
    cmocka_unit_test_prestate(a_divided_optimizer_has_the_same_bits, ranks_case), \
    cmocka_unit_test_prestate(the_same_ranks_give_the_same_bits, ranks_case), \
    cmocka_unit_test_prestate(a_run_goes_on_with_other_ranks, ranks_case), \
    cmocka_unit_test_prestate(validations_have_the_values_of_one_rank, ranks_case), \
    cmocka_unit_test_prestate(killed_ranks_lose_nothing, ranks_case)

/* More of those that have cards. */
#define CARDS_TESTS(ranks_case) \
    cmocka_unit_test_prestate(the_order_of_streams_changes_no_bit, ranks_case), \
    cmocka_unit_test_prestate(sixteen_bit_copies_are_those_of_gathered_weights, ranks_case), \
    cmocka_unit_test_prestate(a_step_of_one_pass_is_shared, ranks_case)
// clang-format on
void several_ranks_train_as_one(void **state);
void the_first_gradients_are_those_of_one_rank(void **state);
void a_divided_optimizer_has_the_same_bits(void **state);
void the_same_ranks_give_the_same_bits(void **state);
void a_run_goes_on_with_other_ranks(void **state);
void validations_have_the_values_of_one_rank(void **state);
void killed_ranks_lose_nothing(void **state);
void the_order_of_streams_changes_no_bit(void **state);
void sixteen_bit_copies_are_those_of_gathered_weights(void **state);
void a_step_of_one_pass_is_shared(void **state);
