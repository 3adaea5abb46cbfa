/* A rank goes to rank 0, which may come later, and may be at any of several ports among strangers. */
#pragma once

#include "base/meeting/hello.h"

/* Looks for rank 0, says what `own` holds, and waits until all have come. Fills members[size], whose wires are -1.
 * Returns false with the reason. */
bool go_to_rank_0(const Launch *launch, const Hello *own, double patience, double silence, Member *members,
                  Error *error);
