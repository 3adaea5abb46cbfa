#include "train/run/money.h"

#include <math.h>
#include <stdio.h>

static double of_this_part(const Run *run, double now) {
    return price_cost(&run->t->spec.options->price, now - run->run_start);
}

double money_spent(const Run *run, double now) {
    return run->t->spec.options->price.per_hour > 0 ? run->cost_before + of_this_part(run, now) : (double)NAN;
}

const char *money_text(const Run *run, char text[96]) {
    const Price *price = &run->t->spec.options->price;
    double now = seconds_now(), all = money_spent(run, now);
    char amount[64];
    text[0] = 0;
    if (price->per_hour > 0)
        snprintf(text, 96, "%s%s", price_amount(price, isnan(all) ? of_this_part(run, now) : all, amount),
                 isnan(all) ? " in this part" : "");
    return text;
}
