// check.h - hooks of the optional memory checker (emulate_check.cpp, -DEMULATE_CHECK); no-ops otherwise
#pragma once
#include <cstddef>
#include <cstdint>
namespace emulate {
namespace check {
#ifdef EMULATE_CHECK
void on_launch();
void on_block(void *dyn, size_t n);
void on_block_end();
void on_barrier();
void on_warp_sync(uint32_t warp, uint32_t live);
void smem_arena(char *p, size_t n);
void smem_var(void *p, size_t n);
void read(const void *p, size_t n, const void *pc);
void write(void *p, size_t n, const void *pc);
void pending(void *p, size_t n, bool on);
void *dev_alloc(size_t n);
bool dev_free(void *p);
void host_copy(void *d, const void *s, size_t n);
#else
inline void on_launch() {}
inline void on_block(void *, size_t) {}
inline void on_block_end() {}
inline void on_barrier() {}
inline void on_warp_sync(uint32_t, uint32_t) {}
inline void smem_arena(char *, size_t) {}
inline void smem_var(void *, size_t) {}
inline void read(const void *, size_t, const void *) {}
inline void write(void *, size_t, const void *) {}
inline void pending(void *, size_t, bool) {}
inline void *dev_alloc(size_t) { return nullptr; }
inline bool dev_free(void *) { return false; }
inline void host_copy(void *, const void *, size_t) {}
#endif
} // namespace check
} // namespace emulate
