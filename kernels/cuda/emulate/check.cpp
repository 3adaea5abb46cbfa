// emulate_check.cpp - memcheck + initcheck + racecheck for kernels on the CPU.
// Kernels are compiled with -fsanitize=thread but libtsan is NOT linked: the compiler's __tsan_* calls land here.
// Single worker only.  Build this file and emulate.cpp with -DEMULATE_CHECK and without -fsanitize=thread.
#include "kernels/cuda/emulate/check.h"
#include "kernels/cuda/emulate/emulate.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
extern "C" char __executable_start, _end;

namespace emulate {
void preempt(); // in emulate.cpp
extern const void *check_ok_lo[2], *check_ok_hi[2];
namespace check {
static constexpr size_t ARENA = 8ull << 30; // device memory, virtual
static constexpr int G = 1;                 // log2 of the shadow granule in bytes
enum { MULTI = 1, MULTIWARP = 2, ATOMIC = 4 };
enum : uint8_t { S_ALLOC = 1, S_INIT = 2, S_FREED = 4, S_PENDING = 8 };
struct Acc {
    uint32_t serial, epoch, clk, pc;
    uint16_t tid;
    uint8_t flags;
};
struct Cell {
    Acc w, r;
};
static char *arena, *arena_end, *smem, *smem_end;
static uint8_t *gst, *sst;
static Cell *gcell, *scell;
static size_t bump = 4096;
static std::map<char *, size_t> allocs;
static uint32_t serial = 1, launch_first = 1, epoch = 0;
static uint32_t clk[32][32], vc[32][32][32]; // [warp][lane], [warp][lane][known lane]
static int preempt_every = -1;
static uint64_t prng = 88172645463325252ull;

template <class T> static T *vmap(size_t n) {
    void *p = mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap shadow");
        abort();
    }
    return (T *)p;
}
static void init() {
    if (arena) return;
    arena = vmap<char>(ARENA);
    arena_end = arena + ARENA;
    gst = vmap<uint8_t>(ARENA);
    gcell = vmap<Cell>(ARENA >> G);
    const char *e = getenv("EMULATE_PREEMPT");
    preempt_every = e ? atoi(e) : 0;
}
static std::string where(uint32_t pc) {
    static std::map<uint32_t, std::string> memo;
    auto it = memo.find(pc);
    if (it != memo.end()) return it->second;
    char exe[512], cmd[700], buf[600];
    ssize_t n = readlink("/proc/self/exe", exe, 511);
    exe[n > 0 ? n : 0] = 0;
    std::string r = "?";
    snprintf(cmd, sizeof cmd, "addr2line -Cse %s 0x%x 2>/dev/null", exe, pc - 1);
    if (FILE *f = popen(cmd, "r")) {
        if (fgets(buf, sizeof buf, f)) {
            r = buf;
            while (!r.empty() && (r.back() == '\n')) r.pop_back();
        }
        pclose(f);
    }
    return memo[pc] = r;
}
static void report(const char *kind, const void *p, const void *pc, const Acc *a) {
    static std::set<std::string> seen;
    std::string here = where((uint32_t)(uintptr_t)pc), key = std::string(kind) + here;
    stats.reports++;
    if (!seen.insert(key).second) return;
    fprintf(stderr, "CHECK %s at %s", kind, here.c_str());
    if (cur) fprintf(stderr, " by thread %u of block %u,%u,%u", cur->linear, grid->bid.x, grid->bid.y, grid->bid.z);
    if (p >= smem && p < smem_end)
        fprintf(stderr, ", shared+%ld", (long)((char *)p - smem));
    else {
        auto it = allocs.upper_bound((char *)p);
        if (it != allocs.begin()) {
            --it;
            fprintf(stderr, ", device allocation of %zu bytes, offset %ld", it->second, (long)((char *)p - it->first));
        }
    }
    if (a)
        fprintf(stderr, "; other: thread %u at %s%s", a->tid, where(a->pc).c_str(),
                a->serial != serial ? " (another block)" : "");
    fprintf(stderr, "\n");
}
// is the earlier access a unordered with the current thread?
static inline bool races(const Acc &a, bool shared) {
    if (!a.serial || a.serial < launch_first) return false;
    if (a.serial != serial) return !shared;
    if (a.epoch < epoch || a.tid == cur->linear) return false;
    uint32_t w = cur->linear >> 5;
    if ((uint32_t)(a.tid >> 5) != w) return true;
    return vc[w][cur->lane][a.tid & 31] < a.clk;
}
enum Kind { READ, WRITE, ATOM };
template <Kind K> static inline void access(const void *p, size_t n, const void *pc) {
    bool sh;
    uint8_t *st;
    Cell *c;
    char *base;
    if (__builtin_expect(!cur, 0)) {
        if (p >= arena && p < arena_end) report("host code touches device memory", p, pc, nullptr);
        return;
    }
    if ((uintptr_t)p - (uintptr_t)__builtin_frame_address(0) < (64u << 10)) return; // own stack
    if (p >= smem && p < smem_end) {
        sh = true;
        base = smem;
        st = sst;
        c = scell;
    } else if (p >= arena && p < arena_end) {
        sh = false;
        base = arena;
        st = gst;
        c = gcell;
    } else {
        if (p >= &__executable_start && p < &_end) {
            if (K != READ) report("kernel writes a host global", p, pc, nullptr);
            return;
        }
        for (int i = 0; i < 2; i++)
            if (p >= check_ok_lo[i] && p < check_ok_hi[i]) return;
        if (p == &emulate::cur || p == &emulate::grid) return;
        report(K == READ ? "kernel reads host memory" : "kernel writes host memory", p, pc, nullptr);
        return;
    }
    if (preempt_every > 0) {
        prng ^= prng << 13;
        prng ^= prng >> 7;
        prng ^= prng << 17;
        if (prng % preempt_every == 0) preempt();
    }
    size_t o = (char *)p - base;
    if ((uintptr_t)p & (n - 1) && (n & (n - 1)) == 0 && n <= 16) report("misaligned access", p, pc, nullptr);
    const uint32_t me = cur->linear, w = me >> 5, ck = clk[w][cur->lane];
    const uint32_t pc32 = (uint32_t)(uintptr_t)pc;
    for (size_t i = o; i < o + n; i++) {
        if (!(st[i] & S_ALLOC)) {
            report(st[i] & S_FREED ? "use after free" : "out of bounds", base + i, pc, nullptr);
            return;
        }
        if (K != WRITE && !(st[i] & S_INIT)) {
            report("read of uninitialised memory", base + i, pc, nullptr);
            st[i] |= S_INIT;
        }
        if (st[i] & S_PENDING) {
            report("cp.async destination touched before its wait", base + i, pc, nullptr);
            st[i] &= ~S_PENDING;
        }
        if (K != READ) st[i] |= S_INIT;
    }
    for (size_t i = o >> G; i <= (o + n - 1) >> G; i++) {
        Cell &x = c[i];
        if (races(x.w, sh) && !(K == ATOM && (x.w.flags & ATOMIC))) {
            report(K == READ ? "race: read after unordered write" : "race: write after unordered write",
                   base + (i << G), pc, &x.w);
        }
        if (K == READ) {
            Acc &r = x.r;
            if (r.serial == serial && r.epoch == epoch && r.tid != me) {
                if ((uint32_t)(r.tid >> 5) != w) r.flags |= MULTIWARP;
                r.flags |= MULTI;
                if (r.flags & MULTIWARP) { /* keep tid: any */
                } else {
                    r.tid = me;
                    r.clk = ck;
                }
                r.pc = pc32;
            } else
                r = Acc{serial, epoch, ck, pc32, (uint16_t)me, (uint8_t)0};
        } else {
            if (x.r.serial) {
                bool bad;
                if (x.r.serial == serial && x.r.epoch == epoch && (x.r.flags & MULTIWARP))
                    bad = true;
                else
                    bad = races(x.r, sh);
                if (bad) report("race: write after unordered read", base + (i << G), pc, &x.r);
            }
            x.w = Acc{serial, epoch, ck, pc32, (uint16_t)me, (uint8_t)(K == ATOM ? ATOMIC : 0)};
            if (K == WRITE) x.r.serial = 0;
        }
    }
}
void read(const void *p, size_t n, const void *pc) { access<READ>(p, n, pc); }
void write(void *p, size_t n, const void *pc) { access<WRITE>(p, n, pc); }
void on_launch() {
    init();
    launch_first = serial + 1;
}
void on_block(void *dyn, size_t n) {
    serial++;
    epoch = 1;
    memset(sst, 0, smem_end - smem);
    if (n) memset(sst + ((char *)dyn - smem), S_ALLOC, n);
    for (auto &w : clk)
        for (auto &l : w) l = 1;
    memset(vc, 0, sizeof vc);
}
void on_block_end() {}
void on_barrier() { epoch++; }
void on_warp_sync(uint32_t w, uint32_t live) {
    uint32_t j[32] = {};
    for (uint32_t m = live; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        vc[w][l][l] = clk[w][l];
        for (int k = 0; k < 32; k++) j[k] = j[k] > vc[w][l][k] ? j[k] : vc[w][l][k];
    }
    for (uint32_t m = live; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        memcpy(vc[w][l], j, sizeof j);
        clk[w][l]++;
    }
}
void smem_arena(char *p, size_t n) {
    smem = p;
    smem_end = p + n;
    sst = vmap<uint8_t>(n);
    scell = vmap<Cell>(n >> G);
}
void smem_var(void *p, size_t n) { memset(sst + ((char *)p - smem), S_ALLOC, n); }
void pending(void *p, size_t n, bool on) {
    uint8_t *q = sst + ((char *)p - smem);
    for (size_t i = 0; i < n; i++) q[i] = on ? q[i] | S_PENDING : q[i] & ~S_PENDING;
}
void *dev_alloc(size_t n) {
    init();
    size_t o = bump;
    bump = (bump + n + 512) & ~(size_t)255;
    if (bump > ARENA) return nullptr;
    memset(gst + o, S_ALLOC, n);
    allocs[arena + o] = n;
    return arena + o;
}
bool dev_free(void *p) {
    auto it = allocs.find((char *)p);
    if (it == allocs.end()) return false;
    memset(gst + ((char *)p - arena), S_FREED, it->second);
    madvise(p, it->second, MADV_DONTNEED);
    return true;
}
void host_copy(void *d, const void *s, size_t n) {
    if (d >= arena && d < arena_end) {
        uint8_t *q = gst + ((char *)d - arena);
        for (size_t i = 0; i < n; i++) {
            if (!(q[i] & S_ALLOC)) {
                report("cudaMemcpy/Memset out of bounds", (char *)d + i, __builtin_return_address(0), nullptr);
                return;
            }
            q[i] |= S_INIT;
        }
    }
    if (s && s >= arena && s < arena_end) {
        uint8_t *q = gst + ((char *)s - arena);
        for (size_t i = 0; i < n; i++)
            if (!(q[i] & S_ALLOC)) {
                report("cudaMemcpy source out of bounds", (char *)s + i, __builtin_return_address(0), nullptr);
                return;
            }
    }
}
} // namespace check
} // namespace emulate
using namespace emulate::check;
#define PC __builtin_return_address(0)
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
#define RW(n)                                                                                                          \
    void __tsan_read##n(void *p) { access<READ>(p, n, PC); }                                                           \
    void __tsan_write##n(void *p) { access<WRITE>(p, n, PC); }                                                         \
    void __tsan_unaligned_read##n(void *p) { access<READ>(p, n, PC); }                                                 \
    void __tsan_unaligned_write##n(void *p) { access<WRITE>(p, n, PC); }                                               \
    void __tsan_volatile_read##n(void *p) { access<READ>(p, n, PC); }                                                  \
    void __tsan_volatile_write##n(void *p) { access<WRITE>(p, n, PC); }
RW(1) RW(2) RW(4) RW(8) RW(16) void __tsan_read_range(void *p, size_t n) { access<READ>(p, n, PC); }
void __tsan_write_range(void *p, size_t n) { access<WRITE>(p, n, PC); }
void *__tsan_memcpy(void *d, const void *s, size_t n) {
    access<READ>(s, n, PC);
    access<WRITE>(d, n, PC);
    return memcpy(d, s, n);
}
void *__tsan_memset(void *d, int v, size_t n) {
    access<WRITE>(d, n, PC);
    return memset(d, v, n);
}
#define AT(b, T)                                                                                                       \
    T __tsan_atomic##b##_load(const volatile T *p, int) {                                                              \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_load_n(p, 5);                                                                                  \
    }                                                                                                                  \
    void __tsan_atomic##b##_store(volatile T *p, T v, int) {                                                           \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        __atomic_store_n(p, v, 5);                                                                                     \
    }                                                                                                                  \
    T __tsan_atomic##b##_exchange(volatile T *p, T v, int) {                                                           \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_exchange_n(p, v, 5);                                                                           \
    }                                                                                                                  \
    T __tsan_atomic##b##_fetch_add(volatile T *p, T v, int) {                                                          \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_fetch_add(p, v, 5);                                                                            \
    }                                                                                                                  \
    T __tsan_atomic##b##_fetch_sub(volatile T *p, T v, int) {                                                          \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_fetch_sub(p, v, 5);                                                                            \
    }                                                                                                                  \
    T __tsan_atomic##b##_fetch_and(volatile T *p, T v, int) {                                                          \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_fetch_and(p, v, 5);                                                                            \
    }                                                                                                                  \
    T __tsan_atomic##b##_fetch_or(volatile T *p, T v, int) {                                                           \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_fetch_or(p, v, 5);                                                                             \
    }                                                                                                                  \
    T __tsan_atomic##b##_fetch_xor(volatile T *p, T v, int) {                                                          \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_fetch_xor(p, v, 5);                                                                            \
    }                                                                                                                  \
    int __tsan_atomic##b##_compare_exchange_strong(volatile T *p, T *e, T v, int, int) {                               \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_compare_exchange_n(p, e, v, 0, 5, 5);                                                          \
    }                                                                                                                  \
    int __tsan_atomic##b##_compare_exchange_weak(volatile T *p, T *e, T v, int, int) {                                 \
        access<ATOM>((void *)p, sizeof(T), PC);                                                                        \
        return __atomic_compare_exchange_n(p, e, v, 0, 5, 5);                                                          \
    }
AT(8, uint8_t) AT(16, uint16_t) AT(32, uint32_t) AT(64, uint64_t) void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
}
