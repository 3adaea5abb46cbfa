/* All operations of the cpu device in one translation unit, compiled once for each instruction set (CPU_TABLE names the
 * table). Loops are written so that the compiler makes vectors of them; sums have a fixed order, so the same call gives
 * the same bits whatever the threads do. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/layernorm.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/optimizer.h"

#define OP_ENTRY(op) .op = cpu_##op,
extern const DeviceOps CPU_TABLE;
const DeviceOps CPU_TABLE = {FOR_EACH_OP(OP_ENTRY)};
