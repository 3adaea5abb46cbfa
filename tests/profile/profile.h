/* The profile of the kernels: what tests/profile/profile.c runs and counts. */
#ifndef TESTS_PROFILE_PROFILE_H
#define TESTS_PROFILE_PROFILE_H

#include "kernels/tensor.h"

typedef struct {
    void (*run)(DType type);
    enum { EVERY_TYPE, ONLY_F32, ONLY_16_BITS } types;
} ProfileCase;

/* The text to print behind the names of the operations that are called next, "" at the beginning of each case. */
extern const char *profile_shape;

extern const ProfileCase profile_cases[];
extern const int n_profile_cases;

#endif
