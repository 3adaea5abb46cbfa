/* Reports events to the checker (check.cpp, built with EMULATE_CHECK). Without the checker: does nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace emulate {
namespace check {

#ifdef EMULATE_CHECK
void launch_begins(const void *arguments, size_t bytes);
void block_begins(const void *worker, size_t worker_bytes, int n_warps);
void block_ends();
void barrier();
void warp_synchronized(uint32_t warp, uint32_t lanes);

void shared_arena(char *arena, size_t bytes);
void shared_variable(void *memory, size_t bytes);

/* Accesses that a wrapper makes for the kernel; `pc` lies in the kernel. */
void read(const void *p, size_t bytes, const void *pc);
void write(void *p, size_t bytes, const void *pc);
void copy_pending(void *shared, size_t bytes, bool pending); /* touching it meanwhile is a mistake */

void *allocate(size_t bytes); /* NULL: out of memory */
void release(void *memory, size_t bytes);
void host_copies(void *to, const void *from, size_t bytes); /* either may be host memory */
#else
inline void launch_begins(const void *, size_t) {}
inline void block_begins(const void *, size_t, int) {}
inline void block_ends() {}
inline void barrier() {}
inline void warp_synchronized(uint32_t, uint32_t) {}
inline void shared_arena(char *, size_t) {}
inline void shared_variable(void *, size_t) {}
inline void read(const void *, size_t, const void *) {}
inline void write(void *, size_t, const void *) {}
inline void copy_pending(void *, size_t, bool) {}
inline void host_copies(void *, const void *, size_t) {}
#endif

} // namespace check
} // namespace emulate
