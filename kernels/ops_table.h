/* Lists all operations. A device's table, the counters' names and the tests' coverage come from this list alone. A new
 * operation is declared in ops.h, named here, given its door in ops_*.c, and implemented by every device. */
#pragma once

#include "kernels/ops.h"

#define FOR_EACH_OP(X)                                                                                                 \
    X(cast)                                                                                                            \
    X(embedding_forward)                                                                                               \
    X(embedding_backward)                                                                                              \
    X(place_rows)                                                                                                      \
    X(gather_rows)                                                                                                     \
    X(scatter_rows)                                                                                                    \
    X(dropout)                                                                                                         \
    X(residual_forward)                                                                                                \
    X(layernorm_forward)                                                                                               \
    X(layernorm_backward)                                                                                              \
    X(residual_layernorm_forward)                                                                                      \
    X(augment_volumes)                                                                                                 \
    X(mixup)                                                                                                           \
    X(linear_forward)                                                                                                  \
    X(linear_backward)                                                                                                 \
    X(linear_gelu_forward)                                                                                             \
    X(gelu_linear_backward)                                                                                            \
    X(gelu_forward)                                                                                                    \
    X(gelu_backward)                                                                                                   \
    X(tanh_forward)                                                                                                    \
    X(tanh_backward)                                                                                                   \
    X(leaky_relu_forward)                                                                                              \
    X(leaky_relu_backward)                                                                                             \
    X(silu_forward)                                                                                                    \
    X(gate_forward)                                                                                                    \
    X(attention_forward)                                                                                               \
    X(attention_backward)                                                                                              \
    X(attention_terms_forward)                                                                                         \
    X(cache_rows)                                                                                                      \
    X(attention_cached_forward)                                                                                        \
    X(unfold_forward)                                                                                                  \
    X(unfold_backward)                                                                                                 \
    X(depthwise_forward)                                                                                               \
    X(conv3d_forward)                                                                                                  \
    X(conv3d_backward)                                                                                                 \
    X(max_pool_forward)                                                                                                \
    X(max_pool_backward)                                                                                               \
    X(batchnorm_forward)                                                                                               \
    X(batchnorm_apply)                                                                                                 \
    X(batchnorm_backward)                                                                                              \
    X(batchnorm_statistics)                                                                                            \
    X(batchnorm_from_running)                                                                                          \
    X(norm_activate_forward)                                                                                           \
    X(norm_activate_backward)                                                                                          \
    X(stem_statistics)                                                                                                 \
    X(stem_forward)                                                                                                    \
    X(stem_backward)                                                                                                   \
    X(mean_rows_forward)                                                                                               \
    X(mean_rows_backward)                                                                                              \
    X(nearest_direction)                                                                                               \
    X(cross_entropy_forward)                                                                                           \
    X(cross_entropy_forward_backward)                                                                                  \
    X(soft_cross_entropy_forward)                                                                                      \
    X(soft_cross_entropy_forward_backward)                                                                             \
    X(squared_error_forward)                                                                                           \
    X(squared_error_forward_backward)                                                                                  \
    X(binary_cross_entropy_forward)                                                                                    \
    X(binary_cross_entropy_forward_backward)                                                                           \
    X(normalize_rows_forward)                                                                                          \
    X(normalize_rows_backward)                                                                                         \
    X(nt_xent_forward)                                                                                                 \
    X(nt_xent_backward)                                                                                                \
    X(sum_forward)                                                                                                     \
    X(sum_squares)                                                                                                     \
    X(finish_norm)                                                                                                     \
    X(adamw_update)                                                                                                    \
    X(muon_update)                                                                                                     \
    X(loss_scale_update)                                                                                               \
    X(norm_guard)                                                                                                      \
    X(copy_segments)                                                                                                   \
    X(clear_segments)

#define OP_ENUM(op) OP_##op,
enum { FOR_EACH_OP(OP_ENUM) OP_COUNT };
#undef OP_ENUM

_Static_assert((int)OP_COUNT <= (int)DEVICE_MAX_OPS, "raise DEVICE_MAX_OPS");

#ifndef __cplusplus /* C++ allows no field named like its type; kernels fill no tables */
#define OP_FIELD(op) __typeof__(op) *op;
struct DeviceOps {
    FOR_EACH_OP(OP_FIELD)
};
#undef OP_FIELD
#endif

extern const char *const op_names[OP_COUNT];

/* Prints one line per operation, most FLOPs first: calls, FLOPs, bytes, and with Device.profile time and achieved
 * rates. */
void ops_print_counters(Device *device, void *stdio_file);
