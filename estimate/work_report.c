#include "estimate/work_report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

const char *work_report_type(const Machine *m) {
    return m->half != DTYPE_F32 ? dtype_name(m->half) : machine_numbers(m) == NUMBERS_TF32 ? "TF32" : "f32";
}

/* ---- operations ---- */

typedef struct {
    const CallWork *work;
    const OpTime *time;
    int op;
} Row;

static int by_time(const void *a, const void *b) {
    double x = ((const Row *)a)->time->seconds, y = ((const Row *)b)->time->seconds;
    return (x < y) - (x > y);
}

/* Fills rows with the operations that are called, the longest first, and returns their number. */
static int sorted_rows(const Work *work, const WorkTime *time, Row rows[OP_COUNT]) {
    int n = 0;
    for (int op = 0; op < OP_COUNT; op++)
        if (work->ops[op].all.calls > 0) rows[n++] = (Row){&work->ops[op].all, &time->ops[op], op};
    qsort(rows, (size_t)n, sizeof *rows, by_time);
    return n;
}

void work_report_operations(const Work *work, const WorkTime *time, const char *of) {
    Row rows[OP_COUNT];
    double bytes = 0, sum = 0;
    int n = sorted_rows(work, time, rows);
    for (int i = 0; i < n; i++) sum += rows[i].time->seconds;
    char head[40];
    snprintf(head, sizeof head, "operation, %s", of);
    printf("%-32s %8s %12s %10s %10s %6s  %s\n", head, "calls", "GFLOP", "GB", "ms", "%", "bound by");
    for (int i = 0; i < n; i++) {
        const CallWork *w = rows[i].work;
        bytes += w->bytes;
        printf("%-32s %8.0f %12.4f %10.4f %10.3f %6.1f  %s\n", op_names[rows[i].op], w->calls, w->flops * 1e-9,
               w->bytes * 1e-9, rows[i].time->seconds * 1e3, 100 * rows[i].time->seconds / sum,
               cost_bound_names[rows[i].time->bound]);
    }
    printf("%-32s %8s %12.4f %10.4f %10.3f\n", "total", "", time->flops * 1e-9, bytes * 1e-9, sum * 1e3);
}

json_t *work_report_operations_json(const Work *work, const WorkTime *time) {
    Row rows[OP_COUNT];
    json_t *list = json_array();
    int n = sorted_rows(work, time, rows);
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_build("the estimate", "{s:s, s:f, s:f, s:f, s:f, s:s}", "operation",
                                               op_names[rows[i].op], "calls", rows[i].work->calls, "flops",
                                               rows[i].work->flops, "bytes", rows[i].work->bytes, "seconds",
                                               rows[i].time->seconds, "bound", cost_bound_names[rows[i].time->bound]));
    return list;
}

/* ---- rates ---- */

/* Prints the shares of the stated rates that are assumed. */
static void print_shares(const Card *c) {
    printf(
        "[Assumed] sustained: %.0f %% of the tensor cores' rate by large products, less by small ones, %.0f %% of the "
        "f32 rate, %.0f %% of %.0f GB/s; %.1f us a launch. Their sources are in kernels/cards.c; --calibrate on the "
        "card measures instead\n",
        100 * c->of_tensor, 100 * c->of_f32, 100 * c->of_bandwidth, c->bandwidth * 1e-9, c->launch * 1e6);
    printf("[Assumed] %.0f of the %.0f MB of L2 keep what was used last, as in a step of typical micro-batches\n",
           CARD_L2_USABLE * c->l2 / 0x1p20, c->l2 / 0x1p20);
}

static void print_measured(const Machine *m, const char *calibration) {
    const Rates *r = m->rates;
    OWNED char *path = rates_path(calibration);
    printf("[Measured] on %s, %s: rates of operations by size, up to %.4g TFLOP/s of products (%s) and %.0f GB/s from "
           "far memory; %.2f us a launch",
           r->date, r->device, rates_best(r, machine_numbers(m)) * 1e-12, work_report_type(m),
           r->bytes.rate[r->bytes.n - 1] * 1e-9, r->launch * 1e6);
    if (r->copy > 0) printf("; %.1f GB/s from the host", r->copy * 1e-9);
    printf(" (%s)\n", path);
}

void work_report_rates(const Machine *m, const char *calibration) {
    if (m->rates)
        print_measured(m, calibration);
    else
        print_shares(m->card);
}

static json_t *assumed_json(const Card *c) {
    return json_build("the estimate", "{s:f, s:f, s:f, s:f, s:f}", "of_tensor_rate", c->of_tensor, "of_f32_rate",
                      c->of_f32, "of_bandwidth", c->of_bandwidth, "launch_seconds", c->launch, "l2_bytes",
                      CARD_L2_USABLE * c->l2);
}

static json_t *measured_json(const Machine *m, const char *calibration) {
    const Rates *r = m->rates;
    OWNED char *path = rates_path(calibration);
    return json_build("the estimate", "{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "device", r->device, "date", r->date,
                      "file", path, "product_rate", rates_best(r, machine_numbers(m)), "bandwidth",
                      r->bytes.rate[r->bytes.n - 1], "launch_seconds", r->launch, "copy_bandwidth", r->copy);
}

void work_report_add_rates(json_t *card, const Machine *m, const char *calibration) {
    json_object_set_new(card, m->rates ? "measured" : "assumed",
                        m->rates ? measured_json(m, calibration) : assumed_json(m->card));
}
