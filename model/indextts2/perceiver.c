#include "model/indextts2/perceiver.h"

#include <math.h>
#include <stdlib.h>

void perceiver_open(Perceiver *perceiver, Network *network, const PerceiverConfig *config, const char *prefix) {
    *perceiver = (Perceiver){.network = network, .config = *config};
    OWNED char *project = xformat("%s.proj_context", prefix), *latents = xformat("%s.latents", prefix),
               *gamma = xformat("%s.norm.gamma", prefix);
    int width = config->width, wide = config->heads * config->head_size;
    perceiver->project = network_add_linear(network, width, config->context, true, project);
    perceiver->latents = network_add(network, config->latents, width, latents);
    for (int i = 0; i < PERCEIVER_LAYERS; i++) {
        OWNED char *q = xformat("%s.layers.%d.0.to_q.weight", prefix, i),
                   *kv = xformat("%s.layers.%d.0.to_kv.weight", prefix, i),
                   *out = xformat("%s.layers.%d.0.to_out", prefix, i), *up = xformat("%s.layers.%d.1.0", prefix, i),
                   *down = xformat("%s.layers.%d.1.2", prefix, i);
        PerceiverLayer *l = &perceiver->layers[i];
        l->qkv = (Layer){network_add(network, wide, width, q), -1};
        network->table.items[l->qkv.weight].joined = 1; /* to_kv, which has twice as many rows */
        network_add(network, 2 * wide, width, kv);
        l->out = network_add_linear(network, width, wide, false, out);
        l->up = network_add_linear(network, 2 * config->inner, width, true, up);
        l->down = network_add_linear(network, width, config->inner, true, down);
    }
    perceiver->gamma = network_add(network, width, 0, gamma);
}

void perceiver_scale(const Perceiver *perceiver, float *scale) {
    Device *device = perceiver->network->device;
    int64_t width = perceiver->config.width;
    Tensor gamma = param_view(&perceiver->network->table, perceiver->network->weights, perceiver->gamma);
    device->download(device, scale, gamma.data, tensor_bytes(gamma));
    for (int64_t i = 0; i < width; i++) scale[i] *= sqrtf((float)width);
}

/* The rows of a layer's attention: of each clip its latents, and behind them its context. */
typedef struct {
    Sequences sequences;
    int64_t count;
    Tensor latents, context; /* i32: where the latents of all clips go, and all valid rows of the context */
} Joined;

static Joined join(const Perceiver *perceiver, Device *device, Arena *arena, const ClipRows *rows) {
    int n = rows->sequences.count, latents = perceiver->config.latents;
    Joined j = {.sequences.count = n, .count = (int64_t)n * latents + rows->n_valid};
    Tensor memory = arena_1d(arena, DTYPE_I32, n + 1 + j.count);
    int32_t *all = xmalloc(tensor_bytes(memory)), *offsets = all, *of_latents = offsets + n + 1,
            *of_context = of_latents + n * latents, *kept = xmalloc((size_t)(n + 1) * sizeof *kept);
    for (int s = 0, at = 0; s < n; s++) {
        offsets[s] = at;
        for (int i = 0; i < latents; i++) of_latents[s * latents + i] = at++;
        for (int32_t i = rows->host_valid[s]; i < rows->host_valid[s + 1]; i++) of_context[i] = at++;
    }
    offsets[n] = (int32_t)j.count;
    for (int s = 0; s <= n; s++) kept[s] = offsets[s];
    device->upload(device, memory.data, all, tensor_bytes(memory));
    device->synchronize(device);
    int32_t *to = memory.data;
    j.sequences.host_offsets = kept;
    j.sequences.offsets = tensor_1d(to, DTYPE_I32, n + 1);
    j.latents = tensor_1d(to + n + 1, DTYPE_I32, (int64_t)n * latents);
    j.context = tensor_1d(to + n + 1 + n * latents, DTYPE_I32, rows->n_valid);
    free(all);
    return j;
}

/* Computes a layer; l are the latents. The context is neither normed nor changed. */
static void layer_forward(const Perceiver *perceiver, const Context *c, const PerceiverLayer *layer, const Joined *j,
                          Tensor l, Tensor x) {
    const PerceiverConfig *config = &perceiver->config;
    Device *device = c->device;
    int64_t n = l.dims[0], wide = config->heads * config->head_size;
    Tensor both = network_push(c, j->count, config->width), heads = context_push(c, j->count, wide),
           mine = context_push(c, n, wide), gated = context_push(c, n, config->inner);
    scatter_rows(device, both, l, j->latents);
    scatter_rows(device, both, x, j->context);
    Tensor qkv = context_push(c, j->count, 3 * wide), w = context_matmul_weight(c, layer->qkv.weight);
    w.dims[0] = 3 * wide;
    linear_forward(device, qkv, network_narrow(c, both), w, tensor_none(), WEIGHT_OUT_IN);
    /* attention_forward would compute a short clip with another kernel alone than beside a longer one. */
    attention_terms_forward(device, heads, qkv, j->sequences,
                            (Attention){config->heads, false, 1 / sqrtf((float)config->head_size)},
                            (AttentionTerms){0});
    gather_rows(device, mine, heads, j->latents);
    network_add_to(c, l, network_linear(c, layer->out, mine));
    gate_forward(device, gated, network_linear(c, layer->up, l), GATE_GELU);
    network_add_to(c, l, network_linear(c, layer->down, gated));
}

Tensor perceiver_forward(const Perceiver *perceiver, Arena *arena, Tensor context, const ClipRows *rows) {
    Context of_pass = network_context(perceiver->network, arena), *c = &of_pass;
    const PerceiverConfig *config = &perceiver->config;
    Device *device = c->device;
    int n = rows->sequences.count;
    Tensor result = network_push(c, (int64_t)n * config->latents, config->width);
    size_t mark = arena_mark(arena);
    Joined j = join(perceiver, device, arena, rows);
    Tensor valid = network_push(c, rows->n_valid, config->context), l = network_push(c, result.dims[0], config->width);
    gather_rows(device, valid, context, rows->valid);
    Tensor x = network_widen(c, network_linear(c, perceiver->project, valid));
    for (int s = 0; s < n; s++)
        network_copy(c, tensor_rows(l, (int64_t)s * config->latents, config->latents),
                     context_weight(c, perceiver->latents));
    size_t inner = arena_mark(arena);
    for (int i = 0; i < PERCEIVER_LAYERS; i++) {
        layer_forward(perceiver, c, &perceiver->layers[i], &j, l, x);
        arena_release(arena, inner);
    }
    normalize_rows_forward(device, result, arena_1d(arena, DTYPE_F32, result.dims[0]), l);
    free((void *)j.sequences.host_offsets);
    arena_release(arena, mark);
    return result;
}
