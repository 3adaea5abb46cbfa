/* Divides samples by the hash of their ids: a sample stays in its split when other samples are added or removed. */
#pragma once

#include "base/base.h"

typedef enum { SPLIT_ALL, SPLIT_TRAIN, SPLIT_VALIDATION } Split;

/* Returns whether a sample is held out: sha1(id) mod 10^6 / 10^6 < ratio. */
bool split_is_validation(const char *id, double ratio);
/* Returns whether a sample belongs to the split. */
bool split_includes(Split split, const char *id, double ratio);
