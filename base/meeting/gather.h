/* Rank 0 waits for the others. */
#pragma once

#include "base/meeting/hello.h"

/* Waits for all other ranks. Fills members[size], whose wires are -1. Returns false with the reason, which is the same
 * for all that came. */
bool gather(const Launch *launch, const Hello *own, double patience, double silence, Member *members, Error *error);
