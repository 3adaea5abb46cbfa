#include "train/parallel/statistics.h"

#include <stdlib.h>
#include <string.h>

Statistics statistics_open(Group *group, Device *device, const ParamTable *table, const Segment *moving, int n_moving,
                           int64_t micro_batches) {
    Statistics s = {.group = group, .device = device, .table = table, .moving = moving, .n_moving = n_moving};
    for (int i = 0; i < n_moving; i++) s.count += moving[i].end - moving[i].begin;
    if (!s.count) return s;
    size_t bytes = (size_t)(micro_batches * s.count) * sizeof(float);
    s.added = tensor_1d(device->allocate(device, bytes), DTYPE_F32, micro_batches * s.count);
    s.host = xmalloc(bytes);
    s.now = xmalloc((size_t)s.count * sizeof(float));
    return s;
}

void statistics_close(Statistics *s) {
    if (s->count) s->device->release(s->device, s->added.data, tensor_bytes(s->added));
    FREE(s->host, s->now);
    *s = (Statistics){0};
}

void statistics_begin(const Statistics *s) {
    if (s->count) s->device->clear(s->device, s->added.data, tensor_bytes(s->added));
}

static Tensor part(Tensor flat, int64_t begin, int64_t count) {
    return tensor_1d((float *)flat.data + begin, DTYPE_F32, count);
}

void statistics_before_pass(const Statistics *s, Tensor gradients) {
    if (s->count) clear_segments(s->device, gradients, s->moving, s->n_moving);
}

void statistics_after_pass(const Statistics *s, Tensor gradients, int64_t micro) {
    int64_t at = micro * s->count;
    for (int i = 0; i < s->n_moving; i++) {
        int64_t n = s->moving[i].end - s->moving[i].begin;
        cast(s->device, part(s->added, at, n), part(gradients, s->moving[i].begin, n));
        at += n;
    }
}

/* Returns the share of a running statistic that a batch replaces. */
static float share_at(const ParamTable *table, int64_t element) {
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        if (param->moves > 0 && element >= param->offset && element < param->offset + param->count) return param->moves;
    }
    die("element %lld is no running statistic", (long long)element);
}

/* now = (1 - share) now + what a micro-batch added, for all of them in the order of the stream. */
static void apply_additions(Statistics *s) {
    int64_t micro_batches = s->added.dims[0] / s->count, at = 0;
    for (int i = 0; i < s->n_moving; i++)
        for (int64_t e = s->moving[i].begin; e < s->moving[i].end; e++, at++) {
            float share = share_at(s->table, e);
            for (int64_t k = 0; k < micro_batches; k++)
                s->now[at] = (1 - share) * s->now[at] + s->host[k * s->count + at];
        }
}

void statistics_apply(Statistics *s, Tensor gradients, Tensor weights) {
    int64_t at = 0;
    if (!s->count) return;
    group_all_reduce(s->group, s->device, s->added, REDUCE_SUM); /* all but one rank have zeros */
    s->device->download(s->device, s->host, s->added.data, tensor_bytes(s->added));
    for (int i = 0; i < s->n_moving; i++) {
        Tensor from = part(weights, s->moving[i].begin, s->moving[i].end - s->moving[i].begin);
        s->device->download(s->device, s->now + at, from.data, tensor_bytes(from));
        at += from.dims[0];
    }
    apply_additions(s);
    at = 0;
    for (int i = 0; i < s->n_moving; i++) {
        Tensor to = part(gradients, s->moving[i].begin, s->moving[i].end - s->moving[i].begin);
        s->device->upload(s->device, to.data, s->now + at, tensor_bytes(to));
        at += to.dims[0];
    }
    s->device->synchronize(s->device);
}
