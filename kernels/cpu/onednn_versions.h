/* The declarations in which oneDNN 2 and 3 differ. A layout is how a tensor lies in memory: its sizes, their order. */
#ifndef KERNELS_CPU_ONEDNN_VERSIONS_H
#define KERNELS_CPU_ONEDNN_VERSIONS_H

#include <stdlib.h>

#include "kernels/cpu/cpu.h"

#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t *Layout;
typedef const dnnl_memory_desc_t *ConstLayout;
#else
typedef dnnl_memory_desc_t Layout;
typedef const_dnnl_memory_desc_t ConstLayout;
#endif

typedef enum { CONV_FORWARD, CONV_DATA, CONV_WEIGHTS } ConvPass;

/* A convolution: its layouts, and the padding before and after x. x, w, bias and y are tensors or their gradients. */
typedef struct {
    ConstLayout x, w, bias, y;
    dnnl_dims_t strides, before, after;
    dnnl_primitive_attr_t attributes;
    dnnl_engine_t engine;
} ConvRequest;

#if DNNL_VERSION_MAJOR < 3
/* The caller destroys a layout. */
static inline Layout layout_copy(ConstLayout from) {
    Layout layout = malloc(sizeof *layout); /* as oneDNN 3 does itself: it is not counted with our own memory */
    check_dnnl(layout ? dnnl_success : dnnl_out_of_memory, "a tensor's layout");
    *layout = *from;
    return layout;
}

static inline Layout layout_create(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t layout;
    check_dnnl(dnnl_memory_desc_init_by_tag(&layout, rank, dims, dnnl_f32, tag), "a tensor's layout");
    return layout_copy(&layout);
}

static inline void layout_destroy(Layout layout) { free(layout); }

/* Adds the result to what is there. */
static inline dnnl_status_t append_sum(dnnl_post_ops_t list) { return dnnl_post_ops_append_sum(list, 1); }

/* Describes the primitive of a pass; a backward pass needs the description of the forward one. */
static inline dnnl_status_t conv_choose(dnnl_primitive_desc_t *chosen, ConvPass pass, const ConvRequest *r,
                                        dnnl_primitive_desc_t forward) {
    static const dnnl_alg_kind_t how = dnnl_convolution_direct;
    dnnl_convolution_desc_t c;
    dnnl_status_t status =
        pass == CONV_FORWARD ? dnnl_convolution_forward_desc_init(&c, dnnl_forward_training, how, r->x, r->w, r->bias,
                                                                  r->y, r->strides, r->before, r->after)
        : pass == CONV_DATA
            ? dnnl_convolution_backward_data_desc_init(&c, how, r->x, r->w, r->y, r->strides, r->before, r->after)
            : dnnl_convolution_backward_weights_desc_init(&c, how, r->x, r->w, r->bias, r->y, r->strides, r->before,
                                                          r->after);
    return status == dnnl_success ? dnnl_primitive_desc_create(chosen, &c, r->attributes, r->engine, forward) : status;
}
#else
static inline Layout layout_copy(ConstLayout from) {
    Layout layout;
    check_dnnl(dnnl_memory_desc_clone(&layout, from), "a tensor's layout");
    return layout;
}

static inline Layout layout_create(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag) {
    Layout layout;
    check_dnnl(dnnl_memory_desc_create_with_tag(&layout, rank, dims, dnnl_f32, tag), "a tensor's layout");
    return layout;
}

static inline void layout_destroy(Layout layout) { dnnl_memory_desc_destroy(layout); }

static inline dnnl_status_t append_sum(dnnl_post_ops_t list) {
    return dnnl_post_ops_append_sum(list, 1, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t conv_choose(dnnl_primitive_desc_t *chosen, ConvPass pass, const ConvRequest *r,
                                        dnnl_primitive_desc_t forward) {
    static const dnnl_alg_kind_t how = dnnl_convolution_direct;
    static const dnnl_dims_t dense = {0};
    switch (pass) {
    case CONV_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(chosen, r->engine, dnnl_forward_training, how, r->x, r->w,
                                                              r->bias, r->y, r->strides, dense, r->before, r->after,
                                                              r->attributes);
    case CONV_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            chosen, r->engine, how, r->x, r->w, r->y, r->strides, dense, r->before, r->after, forward, r->attributes);
    default:
        return dnnl_convolution_backward_weights_primitive_desc_create(chosen, r->engine, how, r->x, r->w, r->bias,
                                                                       r->y, r->strides, dense, r->before, r->after,
                                                                       forward, r->attributes);
    }
}
#endif

#endif
