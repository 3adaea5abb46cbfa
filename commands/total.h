/* The time and the cost of several trainings in a row, with the tests between them. */
#ifndef COMMANDS_TOTAL_H
#define COMMANDS_TOTAL_H

#include "train/train.h"

typedef struct {
    const Price *price;
    double start, seconds_before, cost_before; /* of the trainings, in earlier parts; the cost NaN: not known */
} Total;

/* Begins to count, in this part by the clock. The price must outlive the total. */
Total total_begin(const Price *price);
/* Adds what earlier parts of a training took that was opened and does not run yet. A TrainerHook; context: the Total,
 * or NULL, which does nothing. */
void total_add(const TrainSpec *spec, Training *training, void *total);
/* Prints "[Run] in all: 1h12m, 0.96 EUR"; only the time if there is no price. */
void total_print(const Total *total);

#endif
