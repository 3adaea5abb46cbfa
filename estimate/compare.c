#include "estimate/compare.h"

#include <math.h>
#include <stdio.h>

#include "base/format.h"

static double cost_of(const RunTime *r) { return price_cost(&r->price->price, r->seconds); }

Comparison compare_runs(const PriceList *prices, const RunTime *times, int n) {
    Comparison c = {NULL, NULL};
    for (const RunTime *r = times; r < times + n; r++) {
        if (!r->fits || !(r->seconds > 0)) continue;
        if (!c.fastest || r->seconds < c.fastest->seconds) c.fastest = r;
        bool priced = prices->by_card && r->price->price.per_hour > 0;
        if (priced && (!c.cheapest || cost_of(r) < cost_of(c.cheapest))) c.cheapest = r;
    }
    return c;
}

double compare_break_even(const Comparison *c, const RunTime *r) {
    if (!r->fits || !(r->seconds > 0)) return (double)NAN;
    return c->cheapest ? c->cheapest->price->price.per_hour * c->cheapest->seconds / r->seconds
                       : c->fastest->seconds / r->seconds;
}

/* Prints "[Price] cheapest that fits: l4, 5h09m, 4.12 USD at 0.80 USD an hour (PROVIDER, DATE)". */
static void print_card(const char *what, const RunTime *r, bool priced) {
    char time[32], money[2][64];
    const CardPrice *p = r->price;
    const char *provider = p->provider, *date = p->date;
    printf("[Price] %s that fits: %s, %s", what, r->machine.card->key, format_duration(r->seconds, time));
    if (priced && p->price.per_hour > 0)
        printf(", %s at %s an hour", price_amount(&p->price, cost_of(r), money[0]),
               price_amount(&p->price, p->price.per_hour, money[1]));
    if (priced && (*provider || *date)) printf(" (%s%s%s)", provider, *provider && *date ? ", " : "", date);
    printf("\n");
}

void compare_print(const Comparison *c, const PriceList *prices) {
    char amount[64];
    if (c->cheapest) print_card("cheapest", c->cheapest, true);
    if (c->fastest) print_card("fastest", c->fastest, prices->by_card);
    if (c->cheapest)
        printf(
            "[Price] break-even: the price of an hour in %s below which a card is cheaper for this run than the %s\n",
            c->cheapest->price->price.currency, c->cheapest->machine.card->key);
    else if (c->fastest)
        printf(
            "[Price] break-even: the price of an hour, in percent of the %s's, below which a card is cheaper for this "
            "run\n",
            c->fastest->machine.card->key);
    if (!prices->by_card && prices->any.price.per_hour > 0)
        printf("[Price] one price, %s, does not say which card is the cheapest: ",
               price_amount(&prices->any.price, prices->any.price.per_hour, amount));
    else if (c->fastest && !c->cheapest)
        printf("[Price] no card that fits has a price: ");
    if (c->fastest && !c->cheapest) printf("give --price l4=0.80,h200=3.50 or --prices FILE\n");
}
