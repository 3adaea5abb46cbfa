#include "train/meter.h"

#include <stdio.h>

#include "base/format.h"

/* Adds the device's counts `times` times: -1 at the start and 1 at the stop leave the difference. */
static void add(Meter *meter, const Device *device, int64_t step, int times) {
    meter->steps += times * step;
    meter->seconds += times * seconds_now();
    work_add_counters(&meter->work, device, times);
    meter->runs = times < 0;
}

void meter_start(Meter *meter, const Device *device, int64_t step) {
    if (!meter->runs && step >= METER_LEFT_OUT) add(meter, device, step, -1);
}

void meter_stop(Meter *meter, const Device *device, int64_t step) {
    if (meter->runs) add(meter, device, step, 1);
}

void meter_batch(Meter *meter, const Batch *batch) {
    if (meter->runs) work_add_batch(&meter->work, batch);
}

void meter_waited(Meter *meter, double seconds) {
    if (meter->runs) meter->seconds -= seconds;
}

StepTime meter_step_time(const Meter *meter, const Machine *machine) {
    StepTime time = {.steps = meter->steps, .known = meter->steps && machine};
    double steps = (double)meter->steps;
    Work work = meter->work;
    if (!time.steps) return time;
    time.seconds = meter->seconds / steps;
    if (!machine) return time;
    time.predicted = cost_of_work(machine, &work);
    time.predicted.seconds /= steps;
    return time;
}

void meter_text(const StepTime *s, const TrainSpec *spec, char text[256]) {
    char measured[32], predicted[32];
    double of_all = s->predicted.seconds;
    if (!s->steps)
        snprintf(text, 256, "not measured: the first %d steps are left out, and there are no others", METER_LEFT_OUT);
    else if (s->known)
        snprintf(text, 256,
                 "%s (mean of %lld; the first %d are left out), predicted %s (measured / predicted %.2f), bound by %s",
                 format_milliseconds(s->seconds, measured), (long long)s->steps, METER_LEFT_OUT,
                 format_milliseconds(of_all, predicted), s->seconds / of_all, cost_bound_names[s->predicted.bound]);
    else
        snprintf(
            text, 256,
            "%s (mean of %lld; the first %d are left out); it is predicted, too, once --calibrate --device %s%s has "
            "measured this machine",
            format_milliseconds(s->seconds, measured), (long long)s->steps, METER_LEFT_OUT, spec->device->name,
            spec->options->threads ? ", with these --threads," : "");
}
