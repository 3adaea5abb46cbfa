#include "train/run/eta.h"

#include <math.h>

#include "train/meter.h"

bool eta_needs(int64_t done) { return done == 1 || done == METER_LEFT_OUT; }

static double paused(const Eta *eta) { return eta->seconds[PAUSE_VALIDATION] + eta->seconds[PAUSE_CHECKPOINT]; }

void eta_step(Eta *eta, int64_t done, double now) {
    if (eta->begun && done > eta->steps)
        eta->step_seconds = (now - eta->from - (paused(eta) - eta->paused)) / (double)(done - eta->steps);
    if (eta->begun && !eta_needs(done)) return;
    eta->begun = true;
    eta->from = now;
    eta->paused = paused(eta);
    eta->steps = done;
}

void eta_pause(Eta *eta, Pause pause, double seconds) {
    eta->latest = pause;
    eta->count[pause]++;
    eta_wait(eta, seconds);
}

void eta_wait(Eta *eta, double seconds) { eta->seconds[eta->latest] += seconds; }

double eta_seconds(const Eta *eta, const EtaLeft *left) {
    double seconds = (double)left->steps * eta->step_seconds;
    for (int i = 0; i < PAUSES; i++)
        if (eta->count[i]) seconds += (double)left->count[i] * eta->seconds[i] / (double)eta->count[i];
    return eta->step_seconds > 0 ? seconds : (double)NAN;
}

/* Returns the number of multiples of `interval` from `from` to `to`, and one more if `to` is none: the last step. */
static int64_t pauses_of(int64_t from, int64_t to, int64_t interval) {
    if (!interval) return 1;
    return to / interval - (from - 1) / interval + (to % interval != 0);
}

/* A step that ends several epochs validates once. */
static int64_t epochs_left(const EtaPlan *p) {
    int64_t steps = p->last - p->step + 1, begin = p->batch_index + (p->epoch_batches - 1) * p->batches_per_step;
    int64_t epochs = pauses_of(begin + 1, begin + steps * p->batches_per_step, p->epoch_batches);
    return epochs < steps ? epochs : steps;
}

EtaLeft eta_left(const EtaPlan *p) {
    EtaLeft left = {p->last - p->step, {0, pauses_of(p->step, p->last, p->save_interval)}};
    if (p->validates)
        left.count[PAUSE_VALIDATION] = p->val_interval ? pauses_of(p->step, p->last, p->val_interval) : epochs_left(p);
    return left;
}
