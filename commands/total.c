#include "commands/total.h"

#include <math.h>
#include <stdio.h>

#include "base/format.h"
#include "checkpoint/state.h"

Total total_begin(const Price *price) { return (Total){.price = price, .start = seconds_now()}; }

void total_add(const TrainSpec *spec, Training *training, void *total) {
    Total *all = total;
    (void)spec;
    if (!all) return;
    all->seconds_before += train_state(training)->seconds;
    all->cost_before += train_state(training)->cost;
}

void total_print(const Total *total) {
    double here = seconds_now() - total->start, cost = price_cost(total->price, here);
    bool whole = !isnan(total->cost_before);
    char duration[32], amount[64];
    printf("[Run] in all: %s", format_duration(total->seconds_before + here, duration));
    if (total->price->per_hour > 0)
        printf(", %s%s", price_amount(total->price, whole ? total->cost_before + cost : cost, amount),
               whole ? "" : " in this part");
    printf("\n");
}
