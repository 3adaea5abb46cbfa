#include "commands/cv/estimate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "estimate/estimate_report.h"

/* Prints for each card the time to train all folds. */
static void print_totals(const CvRun *run, TrainSpec *specs, int n) {
    char text[32], money[2][64];
    int n_cards = 1;
    MachineOptions options = train_machine_options(&run->train);
    Machine *machines = machines_named(&options, &n_cards);
    for (int k = 0; machines && k < n_cards; k++) {
        double seconds = 0;
        for (int i = 0; i < n; i++) {
            RunWork work = estimate_run_work(&specs[i]);
            seconds += estimate_run(&specs[i], &work, &machines[k]).seconds;
        }
        printf("[Folds] %s: training all %d folds: %s", machines[k].card->key, n, format_duration(seconds, text));
        const Price *price = &price_list_find(&run->train.prices, machines[k].card)->price;
        if (price->per_hour > 0 && (run->train.prices.by_card || n_cards == 1))
            printf(", %s at %s an hour", price_amount(price, price_cost(price, seconds), money[0]),
                   price_amount(price, price->per_hour, money[1]));
        printf("\n");
    }
    free(machines);
}

void cv_estimate(const CvRun *run, const CvFold *folds, int n) {
    TrainSpec *specs = xcalloc((size_t)n, sizeof *specs);
    int longest = 0;
    for (int i = 0; i < n; i++) {
        specs[i] = folds[i].spec;
        specs[i].model = flim_open(&folds[i].run.model);
        if (folds[i].train->n_samples > folds[longest].train->n_samples) longest = i;
    }
    if (n > 1) printf("[Estimate] for fold %s, which has the most training cells\n", folds[longest].fold->name);
    (run->train.estimate ? estimate_report : train_dry_run)(&specs[longest]);
    if (run->train.estimate && n > 1) print_totals(run, specs, n);
    for (int i = 0; i < n; i++) specs[i].model->close(specs[i].model);
    free(specs);
}
