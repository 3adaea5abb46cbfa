/* Indices that kernels check, like the cpu's operations, because one outside would read or write somebody else's
 * memory. Output of a kernel is lost when the kernel traps, so the error goes to memory of the host, and cuda_check
 * prints it. */
#pragma once

#include "kernels/cuda/cuda.h"

namespace {

struct Complaints {
    Complaint *to; /* set when the device is opened */
    int taken;     /* by the first thread that complains */
};
__device__ Complaints complaints; /* this file's */

template <class T> bool hear_complaints(const T &symbol) { return cuda_hear_complaints((const void *)&symbol); }
const bool complaints_are_heard = hear_complaints(complaints);

} // namespace

/* Stops the kernel, and with it the program at its next wait. */
GPU_INLINE void complain(const char *what, int64_t at, int64_t index, int64_t limit) {
    if (atomicExch(&complaints.taken, 1) == 0) {
        volatile Complaint *to = complaints.to;
        to->at = at, to->index = index, to->limit = limit;
        for (int i = 0; i < COMPLAINT - 1 && what[i]; i++) to->what[i] = what[i];
        __threadfence_system();
        __trap();
    }
    wait_for_trap();
    __builtin_unreachable();
}

/* Stops the kernel unless row is -1, no row, or 0 <= row < limit. */
GPU_INLINE void check_row(const char *what, int64_t at, int64_t row, int64_t limit) {
    if (row < -1 || row >= limit) complain(what, at, row, limit);
}

/* Stops the kernel unless 0 <= index < limit. */
GPU_INLINE void check_index(const char *what, int64_t at, int64_t index, int64_t limit) {
    if (index < 0 || index >= limit) complain(what, at, index, limit);
}
