#include "kernels/door.h"

#include <stdio.h>

void door_expect(const char *op, const char *name, Tensor t, DType dtype, int64_t rows, int64_t columns) {
    int rank = columns ? 2 : 1;
    bool fits = t.data && t.dtype == dtype && t.rank == rank && (rows < 0 || t.dims[0] == rows) &&
                (columns <= 0 || t.dims[1] == columns);
    if (fits) return;
    char found[96], wanted_rows[24] = "any", wanted_columns[24] = "any";
    if (rows >= 0) snprintf(wanted_rows, sizeof wanted_rows, "%lld", (long long)rows);
    if (columns >= 0) snprintf(wanted_columns, sizeof wanted_columns, "%lld", (long long)columns);
    die("%s: %s is %s, expected %s [%s%s%s]", op, name, tensor_shape_text(t, found), dtype_name(dtype), wanted_rows,
        columns ? ", " : "", columns ? wanted_columns : "");
}

DType door_activation_type(const Device *device, const char *op, const char *name, Tensor t) {
    if (t.dtype != DTYPE_F32 && t.dtype != device->half) {
        char found[96];
        die("%s: %s is %s; the %s device computes in f32%s%s", op, name, tensor_shape_text(t, found), device->name,
            device->half == DTYPE_F32 ? "" : " and ", device->half == DTYPE_F32 ? "" : dtype_name(device->half));
    }
    return t.dtype;
}

void door_expect_optional(const char *op, const char *name, Tensor t, DType dtype, int64_t rows, int64_t columns) {
    if (tensor_given(t)) door_expect(op, name, t, dtype, rows, columns);
}

void door_expect_probability(const char *op, Dropout drop) {
    if (!(drop.p >= 0 && drop.p < 1))
        die("%s: the dropout is %g, expected at least 0 and less than 1", op, (double)drop.p);
}

void door_expect_loss_scale(const char *op, Tensor loss_scale) {
    door_expect_optional(op, "loss_scale", loss_scale, DTYPE_F32, LOSS_SCALE_FIELDS, 0);
}

void door_product(Device *device, int op, TrafficProduct product) {
    if (device->traffic) traffic_add_product(device->traffic, op, product);
}

OpCounter *door_count(Device *device, int op, double flops, Accesses accesses) {
    double bytes = 0;
    for (const TrafficAccess *a = accesses.each; a < accesses.each + accesses.n; a++)
        if (!a->again) bytes += (a->reads + a->writes) * a->bytes;
    OpCounter *counter = &device->counters[op];
    if (device->uncounted) return counter;
    if (device->traffic) traffic_add(device->traffic, op, accesses.each, accesses.n);
    CallWork *size = &counter->sizes[call_size(flops, bytes)];
    counter->calls++;
    counter->flops += flops;
    counter->bytes += bytes;
    size->calls++;
    size->flops += flops;
    size->bytes += bytes;
    return counter;
}
