/* How the cards of a run share its steps: what connects them, what a step takes therefore, and what would be faster. */
#pragma once

#include "train/run/run.h"

/* Measures the link between the cards of a run, and prints it; where the card's rates are known, prints what a step
 * takes, and what one card or another way would. With --gpus auto all ranks end to be started again as is best, unless
 * that is how they are; the options then say their number. Does nothing on one card, on CPUs, and in the later
 * trainings of a program. run->machine, run->has_machine and the exchange's buckets are there. */
void sharing_begin(Run *run);
