/* Losses, every gradient and five optimizer steps against an independent implementation in float64
 * (tests/reference/make_golden.py), the block's other forms against torch's own encoder layer, and convolutions against
 * torch's own. */
#include "kernels/device_open.h"
#include "tests/golden.h"
#include "tests/gpt/rig.h"
#include "tests/norm.h"

#include "model/block.h"
#include "train/schedule.h"

#include <math.h>

static const char *const key_bias = "c_attn.bias";
static const float learning_rate = 1e-3f, weight_decay = 0.01f;
enum { STEPS = 5, WARMUP = 2, TOTAL = 10, FROZEN_ROWS = 20 };

static GptConfig golden_config(void) { return gpt_config_small(32, 2, 0); }

static Batch read_batch(const TensorFile *file) {
    const StoredTensor *ids = find(file, "batch.", "text_ids"), *codes = find(file, "batch.", "codes");
    float *conditioning = floats(file, "batch.", "condition"), *emotion = floats(file, "batch.", "emotion");
    GptConfig config = golden_config();
    int n = (int)ids->dims[0], width = config.d_model;
    for (int i = 0; i < n * 32 * width; i++) {
        conditioning[i] += emotion[i / (32 * width) * width + i % width];
    }
    assert_string_equal(ids->dtype, "I32");
    Batch batch = gpt_batch_pack(&config, (GptRigSamples){.n = n,
                                                          .text_stride = (int)ids->dims[1],
                                                          .code_stride = (int)codes->dims[1],
                                                          .text_lengths = find(file, "batch.", "text_lengths")->data,
                                                          .code_lengths = find(file, "batch.", "code_lengths")->data,
                                                          .text_ids = ids->data,
                                                          .codes = codes->data,
                                                          .conditioning = conditioning});
    free(conditioning);
    free(emotion);
    return batch;
}

static ModelRig open_rig(int frozen_rows) {
    static const char *const frozen[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
    GptConfig config = golden_config();
    ModelRig rig = gpt_rig_open(&config, cpu_device_open(0), 16 << 20);
    ParamTable *table = &rig.model->params;
    for (int i = 0; i < 3; i++) table->items[params_find(table, frozen[i])].frozen_rows = frozen_rows;
    TensorFile weights = open_golden("weights");
    assert_int_equal(weights.n_tensors, rig.model->params.count);
    read_parameters(&weights, "", &rig.model->params, rig.model->weights.data);
    tensor_file_close(&weights);
    return rig;
}

static void compare_loss_and_gradients(const char *name) {
    TensorFile file = open_golden(name);
    ModelRig rig = open_rig(0);
    Batch batch = read_batch(&file);
    float *means = floats(&file, "", "means");
    for (int recompute = 0; recompute < 2; recompute++) {
        Pass pass = model_rig_pass(&rig, batch.counts, 1);
        pass.recompute = recompute;
        model_rig_clear_gradients(&rig);
        model_rig_run(&rig, &batch, &pass);
        for (int i = 0; i < rig.model->n_metrics; i++) {
            float mean = ((float *)rig.sums.data)[i] / (float)batch.counts[rig.model->metrics[i].count];
            assert_close(rig.model->metrics[i].name, &mean, &means[i], 1, 1e-5);
        }
        assert_int_equal(compare_parameters(name, &file, "grad.", &rig.model->params, rig.model->gradients.data, NULL),
                         rig.model->params.count);
    }
    free(means);
    batch_close(&batch);
    model_rig_close(&rig);
    tensor_file_close(&file);
}

TEST(equal_text_lengths_match_the_padded_reference) { compare_loss_and_gradients("equal"); }

TEST(unequal_lengths_match_the_samples_one_by_one) { compare_loss_and_gradients("unequal"); }

static void take_five_steps(const char *name, const char *const *micro_batches, int n_micro, float clip, int frozen) {
    TensorFile golden = open_golden(name), files[2];
    ModelRig rig = open_rig(frozen);
    Model *model = rig.model;
    Batch batches[2];
    for (int i = 0; i < n_micro; i++) {
        files[i] = open_golden(micro_batches[i]);
        batches[i] = read_batch(&files[i]);
    }
    Tensor m = model_rig_flat(&rig), v = model_rig_flat(&rig),
           norm = tensor_1d(rig.device->allocate(rig.device, 64), DTYPE_F32, 1);
    float *norms = floats(&golden, "", "norms"), *start = xmalloc(tensor_bytes(model->weights));
    memcpy(start, model->weights.data, tensor_bytes(model->weights));
    Segment *segments;
    int n_segments = params_segments(&model->params, weight_decay, &segments);
    double rates = 0;
    for (int k = 0; k < STEPS; k++) {
        model_rig_clear_gradients(&rig);
        for (int i = 0; i < n_micro; i++) {
            Pass pass = model_rig_pass(&rig, batches[i].counts, 1.0 / n_micro);
            model_rig_run(&rig, &batches[i], &pass);
        }
        const float rate = learning_rate * (float)schedule_cosine(k, WARMUP, TOTAL);
        AdamW options = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .clip = clip, .step = k + 1};
        for (int i = 0; i < n_segments; i++) segments[i].learning_rate = rate;
        global_norm(rig.device, norm, model->gradients, tensor_none(), segments, n_segments);
        assert_close("gradient norm", norm.data, &norms[k], 1, golden_tolerance);
        adamw_update(rig.device, (AdamWBuffers){.params = model->weights, .m = m, .v = v, .grads = model->gradients},
                     norm, tensor_none(), segments, n_segments, options);
        if (k == 0) assert_memory_equal(start, model->weights.data, tensor_bytes(model->weights)); /* rate 0 */
        rates += (double)rate;
    }
    assert_int_equal(compare_parameters("five steps", &golden, "after.", &model->params, model->weights.data, key_bias),
                     model->params.count);
    check_key_bias(&golden, "after.", &model->params, model->weights.data, key_bias, rates);
    const Param *frozen_table = &model->params.items[params_find(&model->params, "text_head.weight")];
    size_t frozen_bytes = (size_t)frozen * (size_t)frozen_table->dims[1] * sizeof(float);
    if (frozen)
        assert_memory_equal(start + frozen_table->offset, (float *)model->weights.data + frozen_table->offset,
                            frozen_bytes);
    model_rig_release_moments(&rig, m, v, norm);
    for (int i = 0; i < n_micro; i++) {
        batch_close(&batches[i]);
        tensor_file_close(&files[i]);
    }
    free(segments);
    free(norms);
    free(start);
    model_rig_close(&rig);
    tensor_file_close(&golden);
}

TEST(five_steps_match) { take_five_steps("equal", (const char *const[]){"equal"}, 1, 1.0f, 0); }

TEST(five_accumulated_steps_with_frozen_rows_match) {
    take_five_steps("unequal", (const char *const[]){"equal", "unequal"}, 2, 0.25f, FROZEN_ROWS);
}

/* ---- the block's other forms ---- */

static const BlockNames torch_names = {
    .tensor = {"layers.%d.norm1.weight", "layers.%d.norm1.bias", "layers.%d.self_attn.in_proj_weight",
               "layers.%d.self_attn.in_proj_bias", "layers.%d.self_attn.out_proj.weight",
               "layers.%d.self_attn.out_proj.bias", "layers.%d.norm2.weight", "layers.%d.norm2.bias",
               "layers.%d.linear1.weight", "layers.%d.linear1.bias", "layers.%d.linear2.weight",
               "layers.%d.linear2.bias"}};

static void compare_blocks(const char *name, bool pre_norm, bool biases, bool causal) {
    TensorFile file = open_golden("blocks");
    char *prefix = kept_format("%s.", name), *grad_prefix = kept_format("%s.grad.", name);
    BlockConfig config = {.d_model = 32,
                          .n_heads = 2,
                          .d_ff = 40,
                          .pre_norm = pre_norm,
                          .biases = biases,
                          .causal = causal,
                          .gelu = GELU_ERF,
                          .layout = WEIGHT_OUT_IN};
    ParamTable table = {0};
    BlockStack stack = block_stack_open(name, &table, &config, 2, &torch_names);
    int32_t offsets[] = {0, 5, 6, 15};
    Device *device = cpu_device_open(0);
    Arena arena = arena_open(device, 4 << 20, "activations");
    float *weights = xaligned((size_t)table.flat_count * 4), *gradients = xaligned((size_t)table.flat_count * 4);
    read_parameters(&file, prefix, &table, weights);
    Pass pass = {.train = true};
    Context context = {.device = device,
                       .arena = &arena,
                       .table = &table,
                       .weights = tensor_1d(weights, DTYPE_F32, table.flat_count),
                       .gradients = tensor_1d(gradients, DTYPE_F32, table.flat_count),
                       .matmul_weights = tensor_1d(weights, DTYPE_F32, table.flat_count),
                       .pass = &pass};
    BlockRows rows = {.sequences = {tensor_1d(offsets, DTYPE_I32, 4), offsets, 3}};
    float *x = floats(&file, prefix, "x"), *y = floats(&file, prefix, "y");
    float *dy = floats(&file, prefix, "dy"), *dx = floats(&file, prefix, "dx");
    Tensor got = blocks_forward(&stack, &context, &rows, tensor_2d(x, DTYPE_F32, 15, 32));
    assert_close("output", got.data, y, 15 * 32, golden_tolerance);
    blocks_backward(&stack, &context, &rows, tensor_2d(dy, DTYPE_F32, 15, 32));
    assert_close("gradient of the input", dy, dx, 15 * 32, golden_tolerance);
    assert_int_equal(compare_parameters(name, &file, grad_prefix, &table, gradients, NULL), table.count);
    pass.train = false;
    arena_release(&arena, 0);
    got = blocks_forward(&stack, &context, &rows, tensor_2d(x, DTYPE_F32, 15, 32));
    assert_close("output without a backward", got.data, y, 15 * 32, golden_tolerance);
    assert_int_equal(arena.used, 0);
    void *owned[] = {weights, gradients, x, y, dy, dx};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    arena_close(&arena);
    device_close(device);
    block_stack_close(&stack);
    params_free(&table);
    tensor_file_close(&file);
}

TEST(post_norm_blocks_match) { compare_blocks("post", false, true, false); }

TEST(causal_blocks_without_biases_match) { compare_blocks("plain", true, false, true); }

TEST(pre_norm_bidirectional_blocks_match) { compare_blocks("pre", true, true, false); }

/* ---- convolutions ---- */

/* A convolution without bias and its batch norm, of sequences of window.length rows. */
typedef struct {
    const char *name;
    Window window;
    int64_t in, out;
    float *weight, *gain, *bias, *running_mean, *running_var, *dweight, *dgain, *dbias;
    Tensor windows, convolved, mean, rstd, y; /* of the last forward */
} Layer;

enum { STEM, WIDE, SAME, SHORTCUT, LAYERS };

typedef struct {
    Device *device;
    Arena arena;
    TensorFile file;
    Layer layers[LAYERS];
    Tensor stem, wide; /* after GELU */
    Tensor sum, pooled;
} Convolutions;

static void read_layer(const TensorFile *file, Layer *layer) {
    char *norm = kept_format("%s_norm.", layer->name);
    layer->weight = floats(file, layer->name, ".weight");
    layer->gain = floats(file, norm, "weight");
    layer->bias = floats(file, norm, "bias");
    layer->dweight = xcalloc((size_t)(layer->out * layer->in * layer->window.taps), sizeof(float));
    layer->dgain = xcalloc((size_t)layer->out, sizeof(float));
    layer->dbias = xcalloc((size_t)layer->out, sizeof(float));
    layer->running_mean = xcalloc((size_t)layer->out, sizeof(float));
    layer->running_var = xcalloc((size_t)layer->out, sizeof(float));
    for (int64_t i = 0; i < layer->out; i++) layer->running_var[i] = 1;
}

static Tensor column_values(const Layer *layer, float *values) { return tensor_1d(values, DTYPE_F32, layer->out); }
static Tensor weights_of(const Layer *layer, float *values) {
    return tensor_2d(values, DTYPE_F32, layer->out, layer->in * layer->window.taps);
}

static Tensor layer_forward(Convolutions *net, Layer *layer, Tensor x, bool train) {
    int64_t rows = x.dims[0] / layer->window.length * window_positions(layer->window);
    Tensor gain = column_values(layer, layer->gain), bias = column_values(layer, layer->bias);
    Tensor running_mean = column_values(layer, layer->running_mean);
    Tensor running_var = column_values(layer, layer->running_var);
    layer->windows = arena_2d(&net->arena, DTYPE_F32, rows, layer->in * layer->window.taps);
    layer->convolved = arena_2d(&net->arena, DTYPE_F32, rows, layer->out);
    layer->y = arena_2d(&net->arena, DTYPE_F32, rows, layer->out);
    layer->mean = arena_1d(&net->arena, DTYPE_F32, layer->out);
    layer->rstd = arena_1d(&net->arena, DTYPE_F32, layer->out);
    unfold_forward(net->device, layer->windows, x, layer->window);
    linear_forward(net->device, layer->convolved, layer->windows, weights_of(layer, layer->weight), tensor_none(),
                   WEIGHT_OUT_IN);
    if (train)
        batchnorm_forward(net->device, layer->y,
                          (BatchStatistics){layer->mean, layer->rstd, running_mean, running_var, 0.1f},
                          layer->convolved, gain, bias);
    else
        batchnorm_apply(net->device, layer->y, layer->convolved, running_mean, running_var, gain, bias);
    return layer->y;
}

/* dy is overwritten; dx may be none. */
static void layer_backward(Convolutions *net, Layer *layer, Tensor dx, Tensor dy) {
    Tensor dwindows = arena_2d(&net->arena, DTYPE_F32, layer->windows.dims[0], layer->windows.dims[1]);
    Tensor dgain = column_values(layer, layer->dgain), dbias = column_values(layer, layer->dbias);
    batchnorm_backward(net->device, (NormGradients){.dx = dy, .dgain = dgain, .dbias = dbias}, dy, layer->convolved,
                       layer->mean, layer->rstd, column_values(layer, layer->gain));
    linear_backward(net->device, (LayerGradients){.dx = dwindows, .dw = weights_of(layer, layer->dweight)}, dy,
                    layer->windows, weights_of(layer, layer->weight), WEIGHT_OUT_IN);
    if (tensor_given(dx)) unfold_backward(net->device, dx, dwindows, layer->window);
}

static Tensor like(Convolutions *net, Tensor t) { return arena_2d(&net->arena, DTYPE_F32, t.dims[0], t.dims[1]); }

static Tensor convolutions_forward(Convolutions *net, Tensor x, bool train) {
    Device *device = net->device;
    Layer *layers = net->layers;
    Tensor stem = layer_forward(net, &layers[STEM], x, train), y;
    net->stem = like(net, stem);
    gelu_forward(device, net->stem, stem, GELU_ERF);
    Tensor wide = layer_forward(net, &layers[WIDE], net->stem, train);
    net->wide = like(net, wide);
    gelu_forward(device, net->wide, wide, GELU_ERF);
    Tensor same = layer_forward(net, &layers[SAME], net->wide, train);
    Tensor shortcut = layer_forward(net, &layers[SHORTCUT], net->stem, train);
    net->sum = like(net, same), y = like(net, same);
    residual_forward(device, net->sum, same, shortcut, (Dropout){0});
    gelu_forward(device, y, net->sum, GELU_ERF);
    net->pooled = arena_2d(&net->arena, DTYPE_F32, 5, y.dims[1]);
    mean_rows_forward(device, net->pooled, y, y.dims[0] / 5);
    return net->pooled;
}

static void convolutions_backward(Convolutions *net, Tensor dy) {
    Device *device = net->device;
    Layer *layers = net->layers;
    Tensor dsum = like(net, net->sum), dshortcut = like(net, net->sum), dwide = like(net, net->wide);
    Tensor dstem = like(net, net->stem), dpast = like(net, net->stem);
    mean_rows_backward(device, dsum, dy, dsum.dims[0] / 5);
    gelu_backward(device, dsum, dsum, net->sum, GELU_ERF);
    memcpy(dshortcut.data, dsum.data, tensor_bytes(dsum));
    layer_backward(net, &layers[SHORTCUT], dpast, dshortcut);
    layer_backward(net, &layers[SAME], dwide, dsum);
    gelu_backward(device, dwide, dwide, layers[WIDE].y, GELU_ERF);
    layer_backward(net, &layers[WIDE], dstem, dwide);
    residual_forward(device, dstem, dstem, dpast, (Dropout){0});
    gelu_backward(device, dstem, dstem, layers[STEM].y, GELU_ERF);
    layer_backward(net, &layers[STEM], tensor_none(), dstem);
}

static void expect_golden(const TensorFile *file, const char *prefix, const char *name, const float *got) {
    char *what = kept_format("%s%s", prefix, name);
    float *want = floats(file, prefix, name);
    assert_close(what, got, want, find(file, prefix, name)->count, golden_tolerance);
    free(want);
}

static void expect_layer(const TensorFile *file, Layer *layer) {
    char *norm = kept_format("%s_norm.", layer->name), *grad = kept_format("grad.%s", layer->name);
    char *grad_norm = kept_format("grad.%s", norm);
    expect_golden(file, grad, ".weight", layer->dweight);
    expect_golden(file, grad_norm, "weight", layer->dgain);
    expect_golden(file, grad_norm, "bias", layer->dbias);
    expect_golden(file, norm, "running_mean", layer->running_mean);
    expect_golden(file, norm, "running_var", layer->running_var);
    void *owned[] = {layer->weight, layer->gain,  layer->bias,         layer->dweight,
                     layer->dgain,  layer->dbias, layer->running_mean, layer->running_var};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

/* A stem, a residual block and a mean of our operations are torch's Conv1d, BatchNorm1d, GELU and mean. */
TEST(convolutions_match) {
    Convolutions net = {.device = cpu_device_open(0),
                        .file = open_golden("convolution"),
                        .layers = {{.name = "stem", .window = {37, 7, 2, 3}, .in = 1, .out = 24},
                                   {.name = "wide", .window = {19, 3, 2, 1}, .in = 24, .out = 40},
                                   {.name = "same", .window = {10, 3, 1, 1}, .in = 40, .out = 40},
                                   {.name = "shortcut", .window = {19, 1, 2, 0}, .in = 24, .out = 40}}};
    net.arena = arena_open(net.device, 4 << 20, "activations");
    for (int i = 0; i < LAYERS; i++) read_layer(&net.file, &net.layers[i]);
    float *first = floats(&net.file, "", "first"), *second = floats(&net.file, "", "second");
    float *dy = floats(&net.file, "", "dy");
    convolutions_forward(&net, tensor_2d(first, DTYPE_F32, 5 * 37, 1), true);
    arena_release(&net.arena, 0);
    Tensor y = convolutions_forward(&net, tensor_2d(second, DTYPE_F32, 5 * 37, 1), true);
    expect_golden(&net.file, "", "y", y.data);
    convolutions_backward(&net, tensor_2d(dy, DTYPE_F32, 5, 40));
    arena_release(&net.arena, 0);
    y = convolutions_forward(&net, tensor_2d(second, DTYPE_F32, 5 * 37, 1), false);
    expect_golden(&net.file, "eval.", "y", y.data);
    for (int i = 0; i < LAYERS; i++) expect_layer(&net.file, &net.layers[i]);
    free(first), free(second), free(dy);
    tensor_file_close(&net.file);
    arena_close(&net.arena);
    device_close(net.device);
}

/* ---- convolutions in three dimensions ---- */

static void compare_conv3d(Device *device, const TensorFile *file, const char *name, int64_t in, int64_t out,
                           Convolution c) {
    enum { SAMPLES = 2 };
    char *prefix = kept_format("%s.", name);
    int frames = convolution_positions(c, 0), plane = convolution_positions(c, 1) * convolution_positions(c, 2);
    int64_t rows = (int64_t)SAMPLES * c.in[0] * c.in[1] * c.in[2], tall = (int64_t)SAMPLES * frames * plane;
    int64_t taps = (int64_t)c.taps[0] * c.taps[1] * c.taps[2], pairs = (int64_t)SAMPLES * (frames / 2) * plane;
    Arena arena = arena_open(device, 4 << 20, "activations");
    float *inputs[] = {floats(file, prefix, "x"), floats(file, prefix, "w"), floats(file, prefix, "bias"),
                       floats(file, prefix, "dpooled")};
    Tensor x = tensor_2d(inputs[0], DTYPE_F32, rows, in), w = tensor_2d(inputs[1], DTYPE_F32, out, in * taps);
    Tensor y = arena_2d(&arena, DTYPE_F32, tall, out), active = arena_2d(&arena, DTYPE_F32, tall, out);
    Tensor pooled = arena_2d(&arena, DTYPE_F32, pairs, out), dy = arena_2d(&arena, DTYPE_F32, tall, out);
    Tensor dx = arena_2d(&arena, DTYPE_F32, rows, in), dw = arena_2d(&arena, DTYPE_F32, out, in * taps);
    Tensor dbias = arena_1d(&arena, DTYPE_F32, out);
    device->clear(device, dw.data, tensor_bytes(dw));
    device->clear(device, dbias.data, tensor_bytes(dbias));
    conv3d_forward(device, y, x, w, tensor_1d(inputs[2], DTYPE_F32, out), c);
    leaky_relu_forward(device, active, y, 0.01f);
    max_pool_forward(device, pooled, active, frames, plane);
    expect_golden(file, prefix, "y", y.data);
    expect_golden(file, prefix, "pooled", pooled.data);
    max_pool_backward(device, dy, tensor_2d(inputs[3], DTYPE_F32, pairs, out), active, frames, plane);
    leaky_relu_backward(device, dy, dy, y, 0.01f);
    conv3d_backward(device, (LayerGradients){.dx = dx, .dw = dw, .dbias = dbias}, dy, x, w, c, false);
    expect_golden(file, prefix, "dx", dx.data);
    expect_golden(file, prefix, "dw", dw.data);
    expect_golden(file, prefix, "dbias", dbias.data);
    for (int i = 0; i < 4; i++) free(inputs[i]);
    arena_close(&arena);
}

/* conv3d, leaky_relu and max_pool are torch's Conv3d, LeakyReLU and MaxPool3d. */
TEST(convolutions_in_three_dimensions_match) {
    Device *device = cpu_device_open(0);
    TensorFile file = open_golden("conv3d");
    compare_conv3d(device, &file, "stem", 2, 8, (Convolution){{9, 3, 2}, {7, 1, 1}, {1, 1, 1}, {3, 0, 0}});
    compare_conv3d(device, &file, "halves", 8, 8, (Convolution){{7, 2, 3}, {3, 1, 1}, {2, 1, 1}, {1, 0, 0}});
    compare_conv3d(device, &file, "block", 8, 16, (Convolution){{4, 5, 6}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}});
    compare_conv3d(device, &file, "shortcut", 8, 16, (Convolution){{4, 5, 6}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}});
    compare_conv3d(device, &file, "odd", 3, 5, (Convolution){{6, 7, 8}, {4, 2, 3}, {3, 1, 2}, {2, 0, 1}});
    tensor_file_close(&file);
    device_close(device);
}
