/* Three-dimensional convolutions, by oneDNN: rows of channels are its format ndhwc, so that only the weights, which it
 * wants in an order of its own, are copied, in a hundredth of the time. Forward takes 0.5 to 0.9 of the time of windows
 * in rows and a GEMM, at the FLIM network's 3 x 3 x 3 shapes. It keeps what it has compiled for the next time. */
#include "kernels/cpu/simd.h"

typedef enum { CONV_FORWARD, CONV_DATA, CONV_WEIGHTS } ConvPass;

/* How oneDNN sees the tensors of a call. It may choose the order of the weights (ANY). */
typedef struct {
    dnnl_memory_desc_t x, y, bias, torch, any;
    dnnl_dims_t strides, padding;
} ConvShapes;

static dnnl_memory_desc_t describe_dims(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t description;
    check_dnnl(dnnl_memory_desc_init_by_tag(&description, rank, dims, dnnl_f32, tag), "a convolution's tensor");
    return description;
}

static ConvShapes conv_shapes(int64_t samples, int64_t in, int64_t out, Convolution c) {
    dnnl_dims_t x = {samples, in}, y = {samples, out}, w = {out, in};
    ConvShapes shapes = {0};
    for (int i = 0; i < 3; i++) {
        x[2 + i] = c.in[i], w[2 + i] = c.taps[i], y[2 + i] = convolution_positions(c, i);
        shapes.strides[i] = c.stride[i], shapes.padding[i] = c.padding[i];
    }
    shapes.x = describe_dims(5, x, dnnl_ndhwc), shapes.y = describe_dims(5, y, dnnl_ndhwc);
    shapes.torch = describe_dims(5, w, dnnl_oidhw), shapes.any = describe_dims(5, w, dnnl_format_tag_any);
    shapes.bias = describe_dims(1, (dnnl_dims_t){out}, dnnl_a);
    return shapes;
}

/* The primitive's description; the backward ones want that of the forward one. */
static dnnl_primitive_desc_t choose_conv(const CpuState *state, const ConvShapes *s, ConvPass pass, bool bias) {
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t forward, chosen;
    const dnnl_memory_desc_t *b = bias ? &s->bias : NULL;
    const char *what = "the choice of a convolution";
    check_dnnl(dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct, &s->x,
                                                  &s->any, b, &s->y, s->strides, s->padding, s->padding),
               what);
    check_dnnl(dnnl_primitive_desc_create(&forward, &operation, NULL, state->engine, NULL), what);
    if (pass == CONV_FORWARD) return forward;
    if (pass == CONV_DATA)
        check_dnnl(dnnl_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &s->x, &s->any, &s->y,
                                                            s->strides, s->padding, s->padding),
                   what);
    else
        check_dnnl(dnnl_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct, &s->x, &s->any, b,
                                                               &s->y, s->strides, s->padding, s->padding),
                   what);
    check_dnnl(dnnl_primitive_desc_create(&chosen, &operation, NULL, state->engine, forward), what);
    dnnl_primitive_desc_destroy(forward);
    return chosen;
}

/* Compiles what was chosen, or finds it compiled, and runs it. */
static void run_primitive(const CpuState *state, dnnl_primitive_desc_t chosen, const dnnl_exec_arg_t *arguments,
                          int count) {
    dnnl_primitive_t primitive;
    check_dnnl(dnnl_primitive_create(&primitive, chosen), "compiling a convolution");
    check_dnnl(dnnl_primitive_execute(primitive, state->stream, count, arguments), "a convolution");
    check_dnnl(dnnl_stream_wait(state->stream), "a convolution");
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(chosen);
}

static dnnl_memory_t memory_of(const CpuState *state, const dnnl_memory_desc_t *shape, const void *data) {
    dnnl_memory_t memory;
    check_dnnl(dnnl_memory_create(&memory, shape, state->engine, (void *)(uintptr_t)data), "a convolution's tensor");
    return memory;
}

/* to = from in another order, or += . */
static void reorder(const CpuState *state, const dnnl_memory_desc_t *to_shape, dnnl_memory_t to,
                    const dnnl_memory_desc_t *from_shape, dnnl_memory_t from, bool add) {
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t after;
    dnnl_primitive_desc_t chosen;
    check_dnnl(dnnl_primitive_attr_create(&attributes), "a reorder");
    check_dnnl(dnnl_post_ops_create(&after), "a reorder");
    if (add) check_dnnl(dnnl_post_ops_append_sum(after, 1), "a reorder");
    check_dnnl(dnnl_primitive_attr_set_post_ops(attributes, after), "a reorder");
    check_dnnl(
        dnnl_reorder_primitive_desc_create(&chosen, from_shape, state->engine, to_shape, state->engine, attributes),
        "a reorder");
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    run_primitive(state, chosen, arguments, 2);
    dnnl_post_ops_destroy(after);
    dnnl_primitive_attr_destroy(attributes);
}

/* One of the three products; `add`: the data's gradient is added to x. The weights' copy lies in scratch, and behind it
 * the gradients of bias and data before they are added. */
static void convolve(Device *device, ConvPass pass, Tensor x, Tensor y, Tensor w, Tensor bias, Convolution c,
                     bool add) {
    const CpuState *state = device->state;
    int64_t in = x.dims[1], out = y.dims[1], samples = x.dims[0] / ((int64_t)c.in[0] * c.in[1] * c.in[2]);
    if (samples == 0) return;
    omp_set_num_threads(device->n_threads); /* oneDNN takes what OpenMP would */
    ConvShapes shapes = conv_shapes(samples, in, out, c);
    dnnl_primitive_desc_t chosen = choose_conv(state, &shapes, pass, bias.data != NULL);
    const dnnl_memory_desc_t own = *dnnl_primitive_desc_query_md(
        chosen, pass == CONV_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    size_t copy = dnnl_memory_desc_get_size(&own) / sizeof(float);
    int64_t added = add ? tensor_numel(x) : 0;
    float *weights = cpu_scratch(device, copy + (size_t)(out + added)), *sums = weights + copy, *dx = sums + out;
    dnnl_memory_t x_memory = memory_of(state, &shapes.x, add ? dx : x.data);
    dnnl_memory_t y_memory = memory_of(state, &shapes.y, y.data);
    dnnl_memory_t torch = memory_of(state, &shapes.torch, w.data), inside = memory_of(state, &own, weights);
    dnnl_memory_t b = memory_of(state, &shapes.bias, pass == CONV_WEIGHTS ? sums : bias.data);
    const dnnl_exec_arg_t arguments[3][4] = {
        {{DNNL_ARG_SRC, x_memory}, {DNNL_ARG_WEIGHTS, inside}, {DNNL_ARG_DST, y_memory}, {DNNL_ARG_BIAS, b}},
        {{DNNL_ARG_DIFF_SRC, x_memory}, {DNNL_ARG_WEIGHTS, inside}, {DNNL_ARG_DIFF_DST, y_memory}},
        {{DNNL_ARG_SRC, x_memory},
         {DNNL_ARG_DIFF_WEIGHTS, inside},
         {DNNL_ARG_DIFF_DST, y_memory},
         {DNNL_ARG_DIFF_BIAS, b}}};
    if (pass != CONV_WEIGHTS) reorder(state, &own, inside, &shapes.torch, torch, false);
    run_primitive(state, chosen, arguments[pass], bias.data ? 4 : 3);
    if (pass == CONV_WEIGHTS) {
        reorder(state, &shapes.torch, torch, &own, inside, true);
        for (int64_t j = 0; bias.data && j < out; j++) ((float *)bias.data)[j] += sums[j];
    }
#pragma omp parallel for num_threads(device->n_threads)
    for (int64_t i = 0; i < added; i++) ((float *)x.data)[i] += dx[i];
    dnnl_memory_t all[] = {x_memory, y_memory, torch, inside, b};
    for (int i = 0; i < 5; i++) dnnl_memory_destroy(all[i]);
}

static void cpu_conv3d_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Convolution c) {
    convolve(device, CONV_FORWARD, x, y, w, bias, c, false);
}

static void cpu_conv3d_backward(Device *device, Tensor dx, Tensor dw, Tensor dbias, Tensor dy, Tensor x, Tensor w,
                                Convolution c, bool add_dx) {
    int64_t rows = (int64_t)c.in[0] * c.in[1] * c.in[2], samples = x.dims[0] / rows;
    /* oneDNN overwrites. Sample by sample, what is added is still in the caches, and scratch is small. */
    int64_t parts = add_dx && samples ? samples : 1, tall = dy.dims[0] / parts;
    for (int64_t s = 0; dx.data && s < parts; s++)
        convolve(device, CONV_DATA, tensor_rows(dx, s * (x.dims[0] / parts), x.dims[0] / parts),
                 tensor_rows(dy, s * tall, tall), w, tensor_none(), c, add_dx);
    convolve(device, CONV_WEIGHTS, x, dy, dw, dbias, c, false);
}
