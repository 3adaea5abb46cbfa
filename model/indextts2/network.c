#include "model/indextts2/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 1 << 22 }; /* numbers that are read at once, at least a row */

/* ---- the table ---- */

int network_add(Network *network, int64_t rows, int64_t columns, const char *name) {
    return param_add(&network->table, INIT_ZERO, 0, false, rows, columns, "%s", name);
}

static int add_bias(Network *network, int64_t out, const char *prefix) {
    OWNED char *name = xformat("%s.bias", prefix);
    return network_add(network, out, 0, name);
}

Layer network_add_linear(Network *network, int64_t out, int64_t in, bool bias, const char *prefix) {
    OWNED char *name = xformat("%s.weight", prefix);
    int weight = network_add(network, out, in, name);
    return (Layer){weight, bias ? add_bias(network, out, prefix) : -1};
}

Layer network_add_convolution(Network *network, int64_t out, int64_t in, int64_t taps, bool bias, const char *prefix) {
    OWNED char *name = xformat("%s.weight", prefix);
    int weight = network_add(network, out, in * taps, name);
    param_file_shape(&network->table, 3, (int64_t[]){out, in, taps});
    return (Layer){weight, bias ? add_bias(network, out, prefix) : -1};
}

int network_add_norm(Network *network, int64_t width, const char *prefix) {
    return param_add_norm(&network->table, width, prefix);
}

/* ---- memory ---- */

void network_allocate(Network *network, Device *device, DType type) {
    int64_t n = network->table.flat_count;
    if (type != DTYPE_F32 && type != network->fit)
        die("%s: products in %s spoil the results; use %s or %s", network->name, dtype_name(type),
            dtype_name(network->fit), dtype_name(DTYPE_F32));
    if (type != DTYPE_F32 && type != device->half)
        die("%s: this device does not compute in %s", network->name, dtype_name(type));
    network->device = device;
    network->type = type;
    network->weights = tensor_1d(device->allocate(device, (size_t)n * sizeof(float)), DTYPE_F32, n);
    if (type != DTYPE_F32) network->half = tensor_1d(device->allocate(device, (size_t)n * dtype_size(type)), type, n);
}

void network_release(Network *network) {
    Device *device = network->device;
    if (tensor_given(network->weights)) device->release(device, network->weights.data, tensor_bytes(network->weights));
    if (tensor_given(network->half)) device->release(device, network->half.data, tensor_bytes(network->half));
    params_free(&network->table);
    *network = (Network){0};
}

/* Reads one parameter through `group` [GROUP or a row]. */
static bool read_parameter(Network *network, const WeightSource *source, int row, float *group, Error *error) {
    const Param *p = &network->table.items[row];
    Device *device = network->device;
    int64_t columns = p->columns ? p->columns : 1, most = columns < GROUP ? GROUP / columns : 1;
    for (int64_t first = 0; first < p->rows; first += most) {
        int64_t n = p->rows - first < most ? p->rows - first : most;
        if (!source->read(source->context, p->name, first * columns, n * columns, group, error)) return false;
        if (network->fold && !network->fold(network, source, row, first, n, group, error)) return false;
        float *to = (float *)network->weights.data + p->offset + first * columns;
        device->upload(device, to, group, (size_t)(n * columns) * sizeof(float));
        device->synchronize(device); /* the group is read into again */
    }
    return true;
}

bool network_read(Network *network, const WeightSource *source, Error *error) {
    int64_t longest = GROUP;
    for (int i = 0; i < network->table.count; i++)
        if (network->table.items[i].columns > longest) longest = network->table.items[i].columns;
    OWNED float *group = xmalloc((size_t)longest * sizeof *group);
    for (int i = 0; i < network->table.count; i++)
        if (!read_parameter(network, source, i, group, error)) return false;
    if (tensor_given(network->half)) cast(network->device, network->half, network->weights);
    return true;
}

/* ---- files ---- */

static const StoredTensor *find(const NetworkFile *from, const char *name) {
    OWNED char *full = xformat("%s%s", from->prefix, name);
    return tensor_file_find(from->file, full);
}

static bool read_from_file(void *context, const char *name, int64_t first, int64_t count, float *out, Error *error) {
    const NetworkFile *from = context;
    const StoredTensor *stored = find(from, name);
    if (!stored) return error_set(error, "%s has no tensor '%s%s'", from->file->path, from->prefix, name);
    size_t size = stored_element_size(stored->dtype);
    if (first + count > stored->count)
        return error_set(error, "%s: '%s' has %lld numbers, expected at least %lld", from->file->path, stored->name,
                         (long long)stored->count, (long long)(first + count));
    StoredTensor part = *stored;
    part.data = (const char *)stored->data + (size_t)first * size;
    part.count = count;
    part.bytes = (size_t)count * size;
    Error reason;
    if (!stored_to_f32(&part, out, &reason)) return error_set(error, "%s: %s", from->file->path, reason.text);
    return true;
}

WeightSource network_file_source(NetworkFile *file) { return (WeightSource){read_from_file, file}; }

const char *network_prefix(const Network *network, const TensorFile *file, const char *const *prefixes) {
    for (; *prefixes; prefixes++)
        if (find(&(NetworkFile){file, *prefixes}, network->table.items[0].name)) return *prefixes;
    return NULL;
}

/* Writes what does not fit of a parameter to text. Returns whether there is something. */
static bool misfit(const NetworkFile *from, const Param *p, char *text, size_t size) {
    const StoredTensor *stored = find(from, p->name);
    char have[128], want[128];
    if (!stored) {
        snprintf(text, size, "%s%s is missing", from->prefix, p->name);
        return true;
    }
    bool same = stored->rank == p->rank;
    for (int i = 0; same && i < p->rank; i++) same = stored->dims[i] == p->dims[i];
    if (same) return false;
    snprintf(text, size, "%s is %s, expected%s", stored->name,
             shape_text(stored->dtype, stored->rank, stored->dims, have), shape_text("", p->rank, p->dims, want));
    return true;
}

bool network_check(const Network *network, const NetworkFile *file, Error *error) {
    enum { SHOWN = 3 };
    char list[1024] = "", one[320];
    int n = 0;
    for (int i = 0; i < network->table.count; i++) {
        if (!misfit(file, &network->table.items[i], one, sizeof one)) continue;
        size_t used = strlen(list);
        if (n++ < SHOWN) snprintf(list + used, sizeof list - used, "%s%s", used ? "; " : "", one);
    }
    if (!n) return true;
    return error_set(error, "%s does not fit %s: %d of %d tensors: %s%s", file->file->path, network->name, n,
                     network->table.count, list, n > SHOWN ? "; ..." : "");
}

/* ---- steps ---- */

Context network_context(const Network *network, Arena *arena) {
    bool half = tensor_given(network->half);
    return (Context){.device = network->device,
                     .arena = arena,
                     .table = &network->table,
                     .weights = network->weights,
                     .matmul_weights = half ? network->half : network->weights};
}

Tensor network_push(const Context *context, int64_t rows, int64_t columns) {
    return arena_2d(context->arena, DTYPE_F32, rows, columns);
}

static Tensor flat(Tensor x) { return tensor_1d(x.data, x.dtype, tensor_numel(x)); }

static Tensor convert(const Context *context, Tensor x, DType type) {
    if (x.dtype == type) return x;
    Tensor y = arena_2d(context->arena, type, x.dims[0], x.dims[1]);
    cast(context->device, flat(y), flat(x));
    return y;
}

Tensor network_narrow(const Context *context, Tensor x) { return convert(context, x, context->matmul_weights.dtype); }
Tensor network_widen(const Context *context, Tensor x) { return convert(context, x, DTYPE_F32); }

void network_norm_to(const Context *context, Tensor y, int row, Tensor x, float epsilon) {
    size_t mark = arena_mark(context->arena);
    LayerNormOutput to = {.y = y,
                          .mean = arena_1d(context->arena, DTYPE_F32, x.dims[0]),
                          .rstd = arena_1d(context->arena, DTYPE_F32, x.dims[0])};
    layernorm_forward(context->device, to, x, context_weight(context, row), context_weight(context, row + 1), epsilon);
    arena_release(context->arena, mark);
}

Tensor network_norm(const Context *context, int row, Tensor x, float epsilon) {
    Tensor y = arena_2d(context->arena, x.dtype, x.dims[0], x.dims[1]);
    network_norm_to(context, y, row, x, epsilon);
    return y;
}

Tensor network_linear(const Context *context, Layer layer, Tensor x) {
    Tensor w = context_matmul_weight(context, layer.weight), y = context_push(context, x.dims[0], w.dims[0]);
    linear_forward(context->device, y, network_narrow(context, x), w, context_matmul_weight(context, layer.bias),
                   WEIGHT_OUT_IN);
    return y;
}

Tensor network_linear_exact(const Context *context, Layer layer, Tensor x) {
    Device *device = context->device;
    Tensor w = context_weight(context, layer.weight), y = network_push(context, x.dims[0], w.dims[0]);
    bool tf32 = device->tf32;
    device->tf32 = false;
    linear_forward(device, y, x, w, context_weight(context, layer.bias), WEIGHT_OUT_IN);
    device->tf32 = tf32;
    return y;
}

void network_copy(const Context *context, Tensor y, Tensor x) { cast(context->device, flat(y), flat(x)); }

void network_add_to(const Context *context, Tensor y, Tensor x) {
    size_t mark = arena_mark(context->arena);
    residual_forward(context->device, y, y, network_widen(context, x), (Dropout){0});
    arena_release(context->arena, mark);
}
