/* The checks and counts of operations between ranks, and the dry group. */
#include "kernels/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Dies unless t is [n] in one of the types; n -1: any size. */
static void expect(const char *op, const char *name, Tensor t, int64_t n) {
    bool known = t.dtype == DTYPE_F32 || t.dtype == DTYPE_BF16 || t.dtype == DTYPE_F16 || t.dtype == DTYPE_I32;
    if (t.data && known && t.rank == 1 && (n < 0 || t.dims[0] == n)) return;
    char found[96], wanted[24] = "any";
    if (n >= 0) snprintf(wanted, sizeof wanted, "%lld", (long long)n);
    die("%s: %s is %s, expected f32, bf16, f16 or i32 [%s]", op, name, tensor_shape_text(t, found), wanted);
}

static void expect_reduction(const char *op, Reduction reduction) {
    if (reduction != REDUCE_SUM && reduction != REDUCE_MAX)
        die("%s: the reduction is %d, expected REDUCE_SUM or REDUCE_MAX", op, (int)reduction);
}

/* Dies unless mine is [n], and `all` is [size n] of the same type, with mine as its rank-th part or apart from it. */
static void expect_parts(const Group *group, const char *op, Tensor mine, Tensor all) {
    expect(op, "mine", mine, -1);
    expect(op, "all", all, mine.dims[0] * group->size);
    char found[96];
    if (mine.dtype != all.dtype)
        die("%s: all is %s, expected %s as mine is", op, tensor_shape_text(all, found), dtype_name(mine.dtype));
    uintptr_t a = (uintptr_t)all.data, m = (uintptr_t)mine.data;
    size_t bytes = tensor_bytes(mine);
    bool apart = m + bytes <= a || a + tensor_bytes(all) <= m;
    if (!apart && m != a + (size_t)group->rank * bytes)
        die("%s: mine lies %td bytes behind the beginning of all %s, expected part %d, %zu bytes behind it, or apart",
            op, (ptrdiff_t)(m - a), tensor_shape_text(all, found), group->rank, (size_t)group->rank * bytes);
}

static void count(Group *group, const Device *device, double elements, Tensor x) {
    if (device->uncounted) return;
    group->calls++;
    group->sent += elements * (double)dtype_size(x.dtype);
}

/* Returns whether there is more to do than to count. */
static bool computes(const Group *group, const Device *device, Tensor x) {
    return group->size > 1 && group->barrier && device->ops && x.dims[0];
}

/* Copies mine to `all` or back in a group of one rank, on the device. */
static void copy_alone(const Group *group, Device *device, Tensor to, Tensor from) {
    if (group->size > 1 || !device->ops || to.data == from.data || !from.dims[0]) return;
    size_t bytes = tensor_bytes(from);
    if (device->host_memory) {
        memcpy(to.data, from.data, bytes);
        return;
    }
    void *copy = xmalloc(bytes);
    device->download(device, copy, from.data, bytes);
    device->upload(device, to.data, copy, bytes);
    device->synchronize(device);
    free(copy);
}

void group_all_reduce(Group *group, Device *device, Tensor x, Reduction reduction) {
    expect("all_reduce", "x", x, -1);
    expect_reduction("all_reduce", reduction);
    int64_t part = (x.dims[0] + group->size - 1) / group->size;
    count(group, device, 2.0 * (group->size - 1) * (double)part, x);
    if (!computes(group, device, x)) return;
    double start = seconds_now();
    group->all_reduce(group, device, x, reduction);
    group->seconds += seconds_now() - start;
}

void group_reduce_scatter(Group *group, Device *device, Tensor mine, Tensor all, Reduction reduction) {
    expect_parts(group, "reduce_scatter", mine, all);
    expect_reduction("reduce_scatter", reduction);
    count(group, device, (group->size - 1) * (double)mine.dims[0], mine);
    copy_alone(group, device, mine, all);
    if (!computes(group, device, mine)) return;
    double start = seconds_now();
    group->reduce_scatter(group, device, mine, all, reduction);
    group->seconds += seconds_now() - start;
}

void group_all_gather(Group *group, Device *device, Tensor all, Tensor mine) {
    expect_parts(group, "all_gather", mine, all);
    count(group, device, (group->size - 1) * (double)mine.dims[0], mine);
    copy_alone(group, device, all, mine);
    if (!computes(group, device, mine)) return;
    double start = seconds_now();
    group->all_gather(group, device, all, mine);
    group->seconds += seconds_now() - start;
}

void group_broadcast(Group *group, Device *device, Tensor x, int root) {
    expect("broadcast", "x", x, -1);
    if (root < 0 || root >= group->size)
        die("broadcast: the root is %d, expected a rank of 0 to %d", root, group->size - 1);
    count(group, device, group->rank == root ? (group->size - 1) * (double)x.dims[0] : 0, x);
    if (!computes(group, device, x)) return;
    double start = seconds_now();
    group->broadcast(group, device, x, root);
    group->seconds += seconds_now() - start;
}

void group_barrier(Group *group) {
    group->calls++;
    if (group->size == 1 || !group->barrier) return;
    double start = seconds_now();
    group->barrier(group);
    group->seconds += seconds_now() - start;
}

static void dry_close(Group *group) { free(group); }

Group *group_dry(int rank, int size) {
    if (size < 1 || rank < 0 || rank >= size) die("rank %d of %d: expected a rank of 0 to %d", rank, size, size - 1);
    Group *group = xcalloc(1, sizeof *group);
    *group = (Group){.rank = rank, .size = size, .close = dry_close};
    snprintf(group->description, sizeof group->description, "dry: counts only");
    return group;
}

void group_leave(Group *group) {
    if (group->leave) group->leave(group);
}

void group_close(Group *group) { group->close(group); }
