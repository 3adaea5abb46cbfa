/* Measures what connects the cards: bytes a second that each sends and receives at once, as --link of an estimate has
 * them, while ranks exchange buckets of gradients as a step without --zero does.
 *
 *   bench_step link --gpus N [--bucket-mb 25] [--max-steps 20]
 *
 * It prints "link" with GB/s: what a rank sends, over the seconds of so many exchanges after some that are not timed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/device_open.h"
#include "tests/bench/bench.h"
#include "train/parallel/gpus.h"
#include "train/parallel/ranks.h"

/* Exchanges so many times: every rank gets the sum of all. Returns the seconds. */
static double exchange(Group *group, Device *device, Tensor mine, Tensor all, int64_t times) {
    group_barrier(group);
    double start = seconds_now();
    for (int64_t i = 0; i < times; i++) {
        group_reduce_scatter(group, device, mine, all, REDUCE_SUM);
        group_all_gather(group, device, all, mine);
    }
    device->synchronize(device);
    return seconds_now() - start;
}

int bench_link(int argc, char **argv) {
    static const OptionsHeader header = {"bench_step link", "--gpus N [OPTIONS]", "--gpus 2", "Measures a link."};
    static const char *const kept[] = {"gpus", "device", "bucket-mb", "max-steps", NULL};
    static const OptionOverride steps = {.name = "max-steps", .default_value = "20", .min = 1};
    enum { WARM_UP = 3 };
    TrainOptions o = {0};
    OptionSet set = {.count = 0};
    const char *why;
    train_options_add(&set, &o);
    options_keep(&set, 0, kept);
    options_override(&set, &steps, 1);
    options_parse(&header, &set, argc, argv);
    train_options_resolve(&o, &set);
    gpus_start(&o);
    ranks_begin(&o, &set);
    Device *device = train_device_open(&o, &why);
    ranks_connect(device, "");
    Group *group = ranks_group();
    if (!group) die("bench_step link: one card has no link: --gpus 2, or another number of them");
    int64_t part = (int64_t)(o.bucket_mb * 1e6 / sizeof(float)) / group->size + 1, n = part * group->size;
    size_t bytes = (size_t)n * sizeof(float);
    Tensor all = tensor_1d(device->allocate(device, bytes), DTYPE_F32, n),
           mine = tensor_1d((float *)all.data + part * group->rank, DTYPE_F32, part);
    exchange(group, device, mine, all, WARM_UP);
    double before = group->sent, seconds = exchange(group, device, mine, all, o.max_steps);
    if (!group->rank) printf("link %.6g\n", (group->sent - before) / seconds * 1e-9);
    device->release(device, all.data, bytes);
    ranks_disconnect();
    device_close(device);
    return 0;
}
