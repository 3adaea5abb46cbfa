#include "commands/cv/estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "estimate/compare.h"
#include "estimate/estimate_report.h"

/* Returns the number of cards that train folds side by side. */
static int cards_of(const TrainOptions *o) { return o->planned_apart ? o->planned_apart : 1; }

/* Returns the times of fold `shown` on the machines, with the seconds until all folds are trained, which are dealt out
 * to the cards of a machine; free(). work[n_machines]. */
static RunTime *sum_times(TrainSpec *specs, int n, int shown, const Machine *machines, int n_machines, RunWork *work) {
    int cards = cards_of(specs->options);
    RunTime *totals = xcalloc((size_t)n_machines, sizeof *totals), *times = xcalloc((size_t)n_machines, sizeof *times);
    OWNED double *seconds = xcalloc((size_t)(n_machines * cards), sizeof *seconds);
    for (int i = 0; i < n; i++) {
        estimate_runs(&specs[i], machines, n_machines, work, times);
        for (int k = 0; k < n_machines; k++) {
            seconds[k * cards + i % cards] += times[k].seconds;
            if (i == shown) totals[k] = times[k];
        }
    }
    for (int k = 0; k < n_machines; k++) {
        totals[k].seconds = 0;
        if (cards > 1) totals[k].price = estimate_price(&specs->options->prices, machines[k].card, cards);
        for (int c = 0; c < cards; c++) totals[k].seconds = fmax(totals[k].seconds, seconds[k * cards + c]);
    }
    free(times);
    return totals;
}

/* Prints for each card the time to train all folds, and which card is the cheapest for them. */
static void print_totals(const CvRun *run, TrainSpec *specs, int n, int shown) {
    char text[32], money[2][64];
    int n_cards = 1;
    const PriceList *prices = &run->train.prices;
    MachineOptions options = train_machine_options(&run->train);
    OWNED Machine *machines = machines_named(&options, &n_cards);
    OWNED RunWork *work = xcalloc((size_t)n_cards, sizeof *work);
    OWNED RunTime *totals = sum_times(specs, n, shown, machines, n_cards, work);
    for (const RunTime *t = totals; t < totals + n_cards; t++) {
        const Price *price = &t->price->price;
        printf("[Folds] %s: training all %d folds", t->machine.card->key, n);
        if (run->train.planned_apart) printf(" on %d cards", run->train.planned_apart);
        printf(": %s", format_duration(t->seconds, text));
        if (price->per_hour > 0 && (prices->by_card || n_cards == 1))
            printf(", %s at %s an hour", price_amount(price, price_cost(price, t->seconds), money[0]),
                   price_amount(price, price->per_hour, money[1]));
        printf("\n");
    }
    Comparison compared = compare_runs(prices, totals, n_cards);
    if (n_cards > 1) compare_print(&compared, prices);
}

void cv_estimate(const CvRun *run, const CvFold *folds, int n) {
    OWNED TrainSpec *specs = xcalloc((size_t)n, sizeof *specs);
    int longest = 0;
    for (int i = 0; i < n; i++) {
        specs[i] = folds[i].spec;
        specs[i].model = cv_open(&folds[i].run.model);
        if (folds[i].train->n_samples > folds[longest].train->n_samples) longest = i;
    }
    if (n > 1) printf("[Estimate] for fold %s, which has the most training cells\n", folds[longest].fold->name);
    if (run->train.estimate)
        estimate_report(&specs[longest], n > 1);
    else
        train_dry_run(&specs[longest]);
    if (run->train.estimate && n > 1) print_totals(run, specs, n, longest);
    for (int i = 0; i < n; i++) specs[i].model->close(specs[i].model);
}
