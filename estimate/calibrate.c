#include "estimate/calibrate.h"

#include <stdio.h>
#include <stdlib.h>

#include "estimate/rates_measure.h"
#include "kernels/cards.h"
#include "kernels/device_open.h"

/* TRAINC_CALIBRATE_SECONDS sets another time, for tests. */
static double calibration_seconds(void) {
    const char *text = getenv("TRAINC_CALIBRATE_SECONDS");
    return text ? atof(text) : 15;
}

static void print_curve(const char *what, const char *type, const RateCurve *c, const char *unit) {
    printf("%-22s %-8s", what, type);
    if (c->density > 0)
        printf(" %10.1f", c->density);
    else
        printf(" %10s", "");
    printf(" %-8s", unit);
    for (int i = 0; i < c->n; i++) printf(" %9.4g at %-7.2g", c->rate[i] * 1e-9, c->size[i]);
    printf("\n");
}

static void print_rates(const Rates *r) {
    static const char *const types[NUMBER_TYPES] = {"f32", "TF32", "16 bits"};
    printf("%-22s %-8s %10s %-8s  by the FLOPs, or bytes, of a call\n", "work", "numbers", "FLOPs/byte", "rate");
    for (int k = 0; k < WORK_KINDS; k++)
        for (int t = 0; t < NUMBER_TYPES; t++)
            for (int i = 0; i < CURVES && r->flops[k][t][i].n; i++)
                print_curve(work_kind_names[k], types[t], &r->flops[k][t][i], "GFLOP/s");
    print_curve("memory", "", &r->bytes, "GB/s");
    printf("[Calibrate] a launch takes %.2f us", r->launch * 1e6);
    if (r->copy > 0) printf("; the host's memory is read at %.1f GB/s", r->copy * 1e-9);
    printf("\n");
}

static void print_share(const char *what, double measured, double stated) {
    if (measured > 0 && stated > 0)
        printf(" %s %.0f %% of %.4g TFLOP/s,", what, 100 * measured / stated, stated * 1e-12);
}

/* Prints which shares of the data sheet's rates are reached. */
static void print_shares(const Card *card, const Rates *r) {
    double far = r->bytes.rate[r->bytes.n - 1];
    printf("[Calibrate] of what is stated of the %s, at best:", card->name);
    print_share("f32", rates_best(r, NUMBERS_F32), card->f32);
    print_share("TF32", rates_best(r, NUMBERS_TF32), card->tf32);
    print_share(dtype_name(r->half), rates_best(r, NUMBERS_16_BITS), card->half);
    printf(" %.0f %% of %.0f GB/s\n", 100 * far / card->bandwidth, card->bandwidth * 1e-9);
}

/* Measures TF32 even with --no-tf32: the rates are for all runs. */
int calibrate_device(const TrainOptions *o) {
    const char *why;
    Error error;
    if (rates_are_none(o->calibration)) die_usage("--calibration none: where is --calibrate to keep what it measures?");
    Rates known;
    char name[128];
    OWNED char *path = rates_path(o->calibration);
    if (!path) die_usage("--calibrate: give --calibration FILE, as neither XDG_CACHE_HOME nor HOME is set");
    if (!rates_read(o->calibration, "", &known, &error) && error.text[0])
        die("%s", error.text); /* before the measurement */
    Device *device = device_open(o->device, (int)o->threads, false, &why);
    rates_device_name(device, name);
    printf("[Calibrate] %s, for up to 20 s; nothing else should be at work%s%s\n", name,
           why ? "; no GPU is used: " : "", why ? why : "");
    fflush(stdout);
    Rates rates = rates_measure(device, calibration_seconds());
    const Card *card = device->product[0] ? card_find(device->product) : NULL;
    print_rates(&rates);
    if (card) print_shares(card, &rates);
    if (!rates_write(path, &rates, &error)) die("%s", error.text);
    printf("[Calibrate] %.1f s; kept in %s for --estimate --gpu here", rates.seconds, path);
    if (card) printf(", or %s", card->key);
    printf("\n");
    device_close(device);
    return 0;
}
