/* Arenas and counters, which all devices share, and the dry device, which has addresses but no memory. */
#include "kernels/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void device_beside(Device *device, bool yes) {
    if (device->beside && device->ops) device->beside(device, yes);
}

void device_mark(Device *device, int number) {
    if (device->mark && device->ops) device->mark(device, number);
}

void device_await(Device *device, int number) {
    if (device->await && device->ops) device->await(device, number);
}

void device_close(Device *device) { device->close(device); }

void device_reset_counters(Device *device) {
    memset(device->counters, 0, sizeof device->counters);
    device->unaligned_flops = 0;
    if (device->traffic) traffic_reset(device->traffic);
}

int call_size(double flops, double bytes) {
    double size = flops > bytes ? flops : bytes;
    int fourths = size >= 1 ? ilogb(size) / 2 : 0;
    return fourths < CALL_SIZES ? fourths : CALL_SIZES - 1;
}

void device_totals(const Device *device, double *flops, double *bytes) {
    *flops = *bytes = 0;
    for (int i = 0; i < DEVICE_MAX_OPS; i++) {
        *flops += device->counters[i].flops;
        *bytes += device->counters[i].bytes;
    }
}

void device_follow(Device *dry) { dry->traffic = traffic_open(DEVICE_MAX_OPS); }

double device_dram_bytes(const Device *dry, int op, double cache) {
    double sum = 0;
    for (int kernel = 0; kernel < TRAFFIC_KERNELS; kernel++)
        sum += traffic_bytes(traffic_of(dry->traffic, op), (TrafficKernel)kernel, cache);
    return sum;
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

static void dry_stage(Device *device, void *to, const void *head, size_t head_bytes, const void *from, size_t bytes) {
    (void)device, (void)to, (void)head, (void)head_bytes, (void)from, (void)bytes;
}

static void dry_download(Device *device, void *to, const void *from, size_t bytes) {
    (void)device, (void)from;
    memset(to, 0, bytes);
}

static void dry_clear(Device *device, void *memory, size_t bytes) { (void)device, (void)memory, (void)bytes; }

static void dry_synchronize(Device *device) { (void)device; }

static void dry_close(Device *device) {
    traffic_close(device->traffic);
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
                       .download = dry_download,
                       .clear = dry_clear,
                       .synchronize = dry_synchronize,
                       .close = dry_close,
                       .state = next};
    return device;
}
