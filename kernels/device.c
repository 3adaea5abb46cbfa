/* What all devices share: arenas and counters; and the dry device, which has addresses but no memory. */
#include "kernels/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kernels/ops_table.h"

#define OP_NAME(op) #op,
const char *const op_names[OP_COUNT] = {FOR_EACH_OP(OP_NAME)};
#undef OP_NAME

Device *device_open(const char *which, int n_threads, bool no_tf32, const char **why) {
    bool cpu = !strcmp(which, "cpu");
    *why = cpu ? NULL : cuda_missing();
    if (!strcmp(which, "cuda") && *why) die("--device cuda: %s", *why);
    if (cpu || *why) return cpu_device_open(n_threads);
    Device *device = cuda_device_open(0);
    if (no_tf32 && device->tf32) snprintf(device->notes, sizeof device->notes, "TF32 disabled: f32 products are exact");
    device->tf32 &= !no_tf32;
    return device;
}

void device_close(Device *device) { device->close(device); }

void device_reset_counters(Device *device) { memset(device->counters, 0, sizeof device->counters); }

int call_size(double flops, double bytes) {
    double size = flops > bytes ? flops : bytes;
    int fourths = size >= 1 ? ilogb(size) / 2 : 0;
    return fourths < CALL_SIZES ? fourths : CALL_SIZES - 1;
}

void counter_add(OpCounter *to, const OpCounter *from, int times) {
    to->calls += times * from->calls;
    to->flops += times * from->flops;
    to->bytes += times * from->bytes;
    for (int i = 0; i < CALL_SIZES; i++) {
        to->sizes[i].calls += times * from->sizes[i].calls;
        to->sizes[i].flops += times * from->sizes[i].flops;
        to->sizes[i].bytes += times * from->sizes[i].bytes;
    }
}

void device_totals(const Device *device, double *flops, double *bytes) {
    *flops = *bytes = 0;
    for (int i = 0; i < OP_COUNT; i++) {
        *flops += device->counters[i].flops;
        *bytes += device->counters[i].bytes;
    }
}

typedef struct {
    OpCounter counter;
    const char *name;
} NamedCounter;

static int more_flops(const void *a, const void *b) {
    double x = ((const NamedCounter *)a)->counter.flops, y = ((const NamedCounter *)b)->counter.flops;
    return (x < y) - (x > y);
}

void device_print_counters(Device *device, void *stdio_file) {
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

/* Arenas. */

enum { ALIGNMENT = 64 };

Arena arena_open(Device *device, size_t capacity, const char *what) {
    return (Arena){.device = device, .base = device->allocate(device, capacity), .capacity = capacity, .what = what};
}

void arena_close(Arena *arena) {
    arena->device->release(arena->device, arena->base, arena->capacity);
    arena->base = NULL;
}

static void *arena_push(Arena *arena, size_t bytes) {
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena->device->ops && rounded > arena->capacity - arena->used)
        die("the %s arena is full: %zu bytes were asked for, %zu of %zu are in use", arena->what, bytes, arena->used,
            arena->capacity);
    void *memory = arena->base + arena->used;
    arena->used += rounded;
    if (arena->used > arena->peak) arena->peak = arena->used;
    return memory;
}

Tensor arena_1d(Arena *arena, DType dtype, int64_t n) {
    return tensor_1d(arena_push(arena, (size_t)n * dtype_size(dtype)), dtype, n);
}

Tensor arena_2d(Arena *arena, DType dtype, int64_t rows, int64_t columns) {
    return tensor_2d(arena_push(arena, (size_t)rows * (size_t)columns * dtype_size(dtype)), dtype, rows, columns);
}

void arena_release(Arena *arena, size_t mark) { arena->used = mark; }

/* The dry device hands out addresses that are never touched. */

static void *dry_allocate(Device *device, size_t bytes) {
    uintptr_t *next = device->state;
    void *memory = (void *)*next;
    *next += (bytes + 4095) / 4096 * 4096 + ((uintptr_t)1 << 40); /* room for an arena to grow */
    device->allocated += bytes;
    device->allocation_calls++;
    if (device->allocated > device->peak_allocated) device->peak_allocated = device->allocated;
    return memory;
}

static void dry_release(Device *device, void *memory, size_t bytes) {
    (void)memory;
    device->allocated -= bytes;
}

static void dry_upload(Device *device, void *to, const void *from, size_t bytes) {
    (void)device, (void)to, (void)from, (void)bytes;
}

static void dry_set(Device *device, void *to, const void *numbers, size_t bytes) {
    (void)device, (void)to, (void)numbers, (void)bytes;
}

static void dry_stage(Device *device, int slot, void *to, const void *from, size_t bytes) {
    (void)device, (void)slot, (void)to, (void)from, (void)bytes;
}

static void dry_download(Device *device, void *to, const void *from, size_t bytes) {
    (void)device, (void)from;
    memset(to, 0, bytes);
}

static void dry_clear(Device *device, void *memory, size_t bytes) { (void)device, (void)memory, (void)bytes; }

static void dry_synchronize(Device *device) { (void)device; }

static void dry_close(Device *device) {
    free(device->state);
    free(device);
}

Device *dry_device_open(void) {
    Device *device = xcalloc(1, sizeof *device);
    uintptr_t *next = xmalloc(sizeof *next);
    *next = (uintptr_t)1 << 40;
    *device = (Device){.name = "dry",
                       .description = "dry: shapes and counts only",
                       .n_threads = 1,
                       .allocate = dry_allocate,
                       .release = dry_release,
                       .upload = dry_upload,
                       .stage = dry_stage,
                       .set = dry_set,
                       .download = dry_download,
                       .clear = dry_clear,
                       .synchronize = dry_synchronize,
                       .close = dry_close,
                       .state = next};
    return device;
}
