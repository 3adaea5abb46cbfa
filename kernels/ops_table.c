#include "kernels/ops_table.h"

#include <stdio.h>
#include <stdlib.h>

#define OP_NAME(op) #op,
const char *const op_names[OP_COUNT] = {FOR_EACH_OP(OP_NAME)};
#undef OP_NAME

typedef struct {
    OpCounter counter;
    const char *name;
} NamedCounter;

static int more_flops(const void *a, const void *b) {
    double x = ((const NamedCounter *)a)->counter.flops, y = ((const NamedCounter *)b)->counter.flops;
    return (x < y) - (x > y);
}

void ops_print_counters(Device *device, void *stdio_file) {
    device->synchronize(device); /* which completes the times */
    FILE *out = stdio_file;
    NamedCounter order[OP_COUNT];
    double flops, bytes;
    device_totals(device, &flops, &bytes);
    for (int i = 0; i < OP_COUNT; i++) order[i] = (NamedCounter){device->counters[i], op_names[i]};
    qsort(order, OP_COUNT, sizeof *order, more_flops);
    fprintf(out, "%-32s %8s %12s %10s%s\n", "operation", "calls", "GFLOP", "GB",
            device->profile ? "        ms  GFLOP/s    GB/s" : "");
    for (int i = 0; i < OP_COUNT; i++) {
        const OpCounter *c = &order[i].counter;
        if (!c->calls) continue;
        fprintf(out, "%-32s %8lld %12.4f %10.4f", order[i].name, (long long)c->calls, c->flops * 1e-9, c->bytes * 1e-9);
        if (device->profile && c->seconds > 0)
            fprintf(out, " %9.2f %8.1f %7.1f", c->seconds * 1e3, c->flops / c->seconds * 1e-9,
                    c->bytes / c->seconds * 1e-9);
        fputc('\n', out);
    }
    fprintf(out, "%-32s %8s %12.4f %10.4f\n", "total", "", flops * 1e-9, bytes * 1e-9);
}
