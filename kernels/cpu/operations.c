/* All operations of the cpu device in one translation unit, compiled once for each instruction set (CPU_TABLE names the
 * table). Loops are written so that the compiler vectorises them. Sums have a fixed order, so the same call gives the
 * same bits for any scheduling of the threads. */
#include "kernels/cpu/attention.c"
#include "kernels/cpu/attention_cached.c"
#include "kernels/cpu/augment.c"
#include "kernels/cpu/batchnorm.c"
#include "kernels/cpu/binary_cross_entropy.c"
#include "kernels/cpu/contrastive.c"
#include "kernels/cpu/conv3d.c"
#include "kernels/cpu/convolution.c"
#include "kernels/cpu/cross_entropy.c"
#include "kernels/cpu/depthwise.c"
#include "kernels/cpu/elementwise.c"
#include "kernels/cpu/embedding.c"
#include "kernels/cpu/layernorm.c"
#include "kernels/cpu/linear.c"
#include "kernels/cpu/nearest_direction.c"
#include "kernels/cpu/norm_activate.c"
#include "kernels/cpu/optimizer.c"
#include "kernels/cpu/optimizer_muon.c"
#include "kernels/cpu/soft_cross_entropy.c"
#include "kernels/cpu/squared_error.c"
#include "kernels/cpu/stem.c"

#define OP_ENTRY(op) .op = cpu_##op,
extern const DeviceOps CPU_TABLE;
const DeviceOps CPU_TABLE = {FOR_EACH_OP(OP_ENTRY)};
