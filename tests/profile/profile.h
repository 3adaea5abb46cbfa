/* The profile of the kernels: what tests/profile/profile.c runs and counts. */
#pragma once

typedef struct {
    const char *operations, *changes; /* names; one text of changes for all, as tests/kernels/op_cases.h has them */
    const char *shape;                /* printed behind the names */
    enum { EVERY_TYPE, ONLY_F32, ONLY_16_BITS } types;
} ProfileCall;

extern const ProfileCall profile_calls[];
extern const int n_profile_calls;
