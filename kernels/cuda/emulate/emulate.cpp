// emulate.cpp - scheduler, collectives, tensor-core emulation and a small cudart.
// Never compiled with -fsanitize=thread (kernels may be); may be compiled with ASan/UBSan.
#include "kernels/cuda/emulate/emulate.h"
#include "kernels/cuda/emulate/check.h"
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#endif
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define EMULATE_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define EMULATE_ASAN                      0
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif
#ifdef EMULATE_TSAN
extern "C" {
void *__tsan_get_current_fiber();
void *__tsan_create_fiber(unsigned);
void __tsan_switch_to_fiber(void *, unsigned);
void __tsan_acquire(void *);
void __tsan_release(void *);
}
#endif

// ---- context switch: callee-saved registers and the stack pointer, nothing else ---------
#if defined(__x86_64__) && !defined(EMULATE_UCONTEXT)
extern "C" void emulate_switch(void **save_sp, void *to_sp);
asm(R"(
.text
.p2align 4
.globl emulate_switch
.type emulate_switch,@function
emulate_switch:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp,(%rdi)
    movq %rsi,%rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
.size emulate_switch,.-emulate_switch
)");
#else
#include <ucontext.h>
#endif

namespace emulate {
static constexpr int MAXT = 1024;
static constexpr size_t PAGE = 4096;
#if EMULATE_ASAN || defined(EMULATE_TSAN)
static constexpr size_t STACK = 256 << 10;
#else
static constexpr size_t STACK = 64 << 10;
#endif
// stacks are a multiple of 4096 apart, so their tops share L1 sets; a different start offset each keeps them apart
#ifndef COLOR
#define COLOR 832
#endif
static inline size_t color(const char *stack) { return ((uintptr_t)stack / PAGE * COLOR) & 4032; }
static constexpr size_t SMEM_ARENA = 256 << 10, REDZONE = 64;

__thread Thread *cur;
__thread Grid *grid;
Stats stats;
static uint64_t g_seed = 0;
static int g_workers = 1;
static uint64_t g_launches = 0;
void set_seed(uint64_t s) { g_seed = s; }
void set_workers(int n) { g_workers = n; }

struct Warp;
typedef void (*CollFn)(Warp &, uint32_t live);
struct CpItem {
    char *d;
    const char *s;
    int n, sn;
    bool done;
};
struct Fiber : Thread {
    Warp *warp;
    char *stack; // stack==null: not started
#if defined(__x86_64__) && !defined(EMULATE_UCONTEXT)
    void *sp;
#else
    ucontext_t uc;
#endif
    const char *file;
    int line;
    const char *what;
    std::vector<CpItem> cp;
    std::vector<size_t> groups;
    void *asan_fake, *tsan;
};
struct Warp {
    uint32_t id, lanes, ready, waiting, exited;
    Fiber *f;
    void *arg[32];
    uint32_t mask[32];
    CollFn fn[32];
    char sync_obj;
};
struct SharedVar {
    const void *key;
    char *p;
    size_t n;
};
struct Worker {
    Grid g;
    Fiber main_f, th[MAXT];
    Warp warps[32];
    int n, nw, arrived, exited, result, alive;
    uint32_t ready_warps;
    Warp *curw;
    const char *bfile;
    int bline;
    uint64_t epoch;
    char *smem, *dynp;
    size_t smem_used, dyn_n;
    SharedVar sv[64];
    int nsv;
    std::vector<char *> free_stacks;
    uint64_t rng, swmask;
    bool rnd, desc;
    int cpmode;
    Invoke invoke;
    const void *closure;
    Stats st;
    char sync_obj;
    const void *main_bottom;
    size_t main_size;
};
static __thread Worker *W;

[[noreturn]] void die(const char *fmt, ...) {
    fflush(stdout);
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "emulate: ERROR: ");
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (cur)
        fprintf(stderr, "\n  in block (%u,%u,%u) thread (%u,%u,%u) warp %u lane %u\n", grid->bid.x, grid->bid.y,
                grid->bid.z, cur->tid.x, cur->tid.y, cur->tid.z, cur->linear / 32, cur->lane);
    fflush(stderr);
    _exit(86);
}
static inline uint64_t rnd(Worker &w) {
    uint64_t x = w.rng;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return w.rng = x;
}
static inline int pick_bit(Worker &w, uint32_t m) {
    if (w.rnd) {
        int k = (int)(((rnd(w) & 0xffffffffu) * (uint64_t)__builtin_popcount(m)) >> 32);
        while (k--) m &= m - 1;
        return __builtin_ctz(m);
    }
    return w.desc ? 31 - __builtin_clz(m) : __builtin_ctz(m);
}
static inline void make_ready(Worker &w, Warp &wp, uint32_t m) {
    if (m) {
        wp.ready |= m;
        w.ready_warps |= 1u << wp.id;
    }
}
static inline Fiber *pick(Worker &w) {
    Warp *wp = w.curw;
    if (!wp->ready || (w.rnd && (rnd(w) & w.swmask) == w.swmask)) {
        if (!w.ready_warps) return nullptr;
        w.curw = wp = &w.warps[pick_bit(w, w.ready_warps)];
    }
    int l = pick_bit(w, wp->ready);
    if (!(wp->ready &= ~(1u << l))) w.ready_warps &= ~(1u << wp->id);
    return &wp->f[l];
}
static char *new_stack(Worker &w) {
    if (w.free_stacks.empty()) {
        const int n = 32;
        char *p = (char *)mmap(nullptr, n * (STACK + PAGE), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (p == MAP_FAILED) die("out of memory for fiber stacks");
        for (int i = n - 1; i >= 0; i--) {
            char *s = p + i * (STACK + PAGE);
            mprotect(s, PAGE, PROT_NONE);
            w.free_stacks.push_back(s + PAGE);
        }
    }
    char *s = w.free_stacks.back();
    w.free_stacks.pop_back();
    return s;
}
static void fiber_main();

static void switch_to(Worker &w, Fiber *from, Fiber *to, bool from_dies) {
    w.st.switches++;
    cur = (to == &w.main_f) ? nullptr : to;
    if (to != &w.main_f && !to->stack) {
        to->stack = new_stack(w);
        ASAN_UNPOISON_MEMORY_REGION(to->stack, STACK); // frames of a fiber that died here never unwound
#if defined(__x86_64__) && !defined(EMULATE_UCONTEXT)
        void **sp = (void **)(to->stack + STACK - 64 - color(to->stack));
        *--sp = nullptr; // fake return address: keeps rsp%16==8 at entry
        *--sp = (void *)fiber_main;
        for (int i = 0; i < 6; i++) *--sp = nullptr;
        to->sp = sp;
#else
        getcontext(&to->uc);
        to->uc.uc_stack.ss_sp = to->stack;
        to->uc.uc_stack.ss_size = STACK;
        to->uc.uc_link = nullptr;
        makecontext(&to->uc, fiber_main, 0);
#endif
    }
#if EMULATE_ASAN
    const void *b = to == &w.main_f ? w.main_bottom : to->stack;
    size_t sz = to == &w.main_f ? w.main_size : STACK;
    __sanitizer_start_switch_fiber(from_dies ? nullptr : &from->asan_fake, b, sz);
#else
    (void)from_dies;
#endif
#ifdef EMULATE_TSAN
    __tsan_switch_to_fiber(to->tsan, 1);
#endif
#if defined(__x86_64__) && !defined(EMULATE_UCONTEXT)
    emulate_switch(&from->sp, to->sp);
#else
    swapcontext(&from->uc, &to->uc);
#endif
#if EMULATE_ASAN
    const void *ob;
    size_t osz;
    __sanitizer_finish_switch_fiber(from->asan_fake, &ob, &osz);
#endif
}
static const char *waiting_list(Worker &w) {
    static char buf[4096];
    int o = 0;
    std::map<std::pair<std::string, int>, std::vector<int>> m;
    for (int i = 0; i < w.n; i++) {
        Fiber &f = w.th[i];
        if (f.warp->exited >> f.lane & 1)
            m[{"exited", 0}].push_back(i);
        else
            m[{std::string(f.what ? f.what : "?") + " at " + (f.file ? f.file : "?"), f.line}].push_back(i);
    }
    for (auto &k : m)
        o += snprintf(buf + o, sizeof buf - o, "\n    %zu threads (first %d, last %d): %s:%d", k.second.size(),
                      k.second.front(), k.second.back(), k.first.first.c_str(), k.first.second);
    return buf;
}
static void yield_blocked(Worker &w) {
    Fiber *me = (Fiber *)cur, *n = pick(w);
    if (!n) die("deadlock: nothing can run%s", waiting_list(w));
    if (n != me) switch_to(w, me, n, false);
}
static void maybe_shuffle(Worker &w) { // after a completed sync, let anybody go first
    if (!w.rnd) return;
    Fiber *me = (Fiber *)cur;
    make_ready(w, *me->warp, 1u << me->lane);
    yield_blocked(w);
}
static void release_barrier(Worker &w) {
    w.arrived = 0;
    w.epoch++;
    w.st.barriers++;
    check::on_barrier();
    for (int i = 0; i < w.nw; i++) make_ready(w, w.warps[i], w.warps[i].lanes & ~w.warps[i].exited);
}
static void fiber_main() {
    for (;;) {
        Worker &w = *W;
#if EMULATE_ASAN
        {
            const void *b;
            size_t s;
            __sanitizer_finish_switch_fiber(nullptr, &b, &s);
            if (!w.main_bottom) {
                w.main_bottom = b;
                w.main_size = s;
            }
        }
    again:
#endif
        w.invoke(w.closure);
        Fiber *t = (Fiber *)cur;
        if (!t->groups.empty() || !t->cp.empty()) die("thread exits with cp.async still pending (no cp.async.wait)");
#ifdef EMULATE_TSAN
        __tsan_release(&w.sync_obj);
#endif
        t->warp->exited |= 1u << t->lane;
        w.exited++;
        w.alive--;
        if (w.arrived && w.arrived + w.exited == w.n)
            die("barrier divergence: some threads exited while others wait%s", waiting_list(w));
        Fiber *n = pick(w);
        if (!n) {
            if (w.alive) die("deadlock: nothing can run%s", waiting_list(w));
            w.free_stacks.push_back(t->stack);
            t->stack = nullptr;
            switch_to(w, t, &w.main_f, true);
            __builtin_unreachable();
        }
        char *s = t->stack;
        t->stack = nullptr;
        if (!n->stack) { // a fresh thread: go on with the same (warm) stack, no switch
            n->stack = s;
            cur = n;
#ifdef EMULATE_TSAN
            __tsan_switch_to_fiber(n->tsan, 1);
            __tsan_acquire(&w.sync_obj);
#endif
#if EMULATE_ASAN
            goto again;
#else
            continue;
#endif
        }
        w.free_stacks.push_back(s);
        switch_to(w, t, n, true);
        __builtin_unreachable();
    }
}
const void *check_ok_lo[2], *check_ok_hi[2];
void preempt() { // called by the checker between memory accesses
    Worker &w = *W;
    Fiber *me = (Fiber *)cur;
    if (!me) return;
    bool r = w.rnd;
    w.rnd = true;
    make_ready(w, *me->warp, 1u << me->lane);
    w.curw = &w.warps[pick_bit(w, w.ready_warps)];
    yield_blocked(w);
    w.rnd = r;
}
// ---- collectives: the last lane of the mask to arrive runs fn over everybody's argument ---
static void collective(uint32_t mask, CollFn fn, void *arg, const char *what, const char *file, int line) {
    Worker &w = *W;
    Fiber *t = (Fiber *)cur;
    Warp &wp = *t->warp;
    uint32_t bit = 1u << t->lane;
    t->file = file;
    t->line = line;
    t->what = what;
    if (!(mask & bit)) die("%s at %s:%d: calling lane is not in its mask %08x", what, file, line, mask);
    uint32_t live = mask & wp.lanes;
    if (live & wp.exited)
        die("%s at %s:%d: mask %08x names lanes that have exited (%08x)", what, file, line, mask, live & wp.exited);
    wp.arg[t->lane] = arg;
    wp.mask[t->lane] = mask;
    wp.fn[t->lane] = fn;
    wp.waiting |= bit;
#ifdef EMULATE_TSAN
    __tsan_release(&wp.sync_obj);
#endif
    if ((wp.waiting & live) == live) {
        for (uint32_t m = live; m; m &= m - 1) {
            int l = __builtin_ctz(m);
            if (wp.mask[l] != mask || wp.fn[l] != fn)
                die("%s at %s:%d: lane %d is in a different warp operation (%s at %s:%d, mask %08x vs %08x)", what,
                    file, line, l, wp.f[l].what, wp.f[l].file, wp.f[l].line, wp.mask[l], mask);
        }
        fn(wp, live);
        w.st.collectives++;
        check::on_warp_sync(wp.id, live);
        wp.waiting &= ~live;
        make_ready(w, wp, live & ~bit);
        maybe_shuffle(w);
    } else
        yield_blocked(w);
#ifdef EMULATE_TSAN
    __tsan_acquire(&wp.sync_obj);
#endif
}
int sync_block(int pred, int kind, const char *file, int line) {
    Worker &w = *W;
    Fiber *t = (Fiber *)cur;
    t->file = file;
    t->line = line;
    t->what = "__syncthreads";
    static __thread int acc[3];
    if (w.arrived == 0) {
        w.bfile = file;
        w.bline = line;
        acc[0] = 0;
        acc[1] = 1;
        acc[2] = 0;
    } else if (w.bline != line || w.bfile != file)
        die("divergent barrier: __syncthreads at %s:%d and at %s:%d", file, line, w.bfile, w.bline);
    acc[0] += !!pred;
    acc[1] &= !!pred;
    acc[2] |= !!pred;
    if (w.exited) die("__syncthreads at %s:%d after %d threads of the block have exited", file, line, w.exited);
#ifdef EMULATE_TSAN
    __tsan_release(&w.sync_obj);
#endif
    if (++w.arrived == w.n) {
        w.result = acc[kind];
        release_barrier(w);
        Warp &wp = *t->warp;
        if (!w.rnd) {
            if (!(wp.ready &= ~(1u << t->lane))) w.ready_warps &= ~(1u << wp.id);
        } else
            yield_blocked(w);
    } else
        yield_blocked(w);
#ifdef EMULATE_TSAN
    __tsan_acquire(&w.sync_obj);
#endif
    return w.result; // safe: nobody can complete the next barrier before we arrive there
}
void sync_warp(uint32_t mask, const char *file, int line) {
    collective(
        mask, [](Warp &, uint32_t) {}, nullptr, "__syncwarp", file, line);
}
struct ShArg {
    uint64_t v, out;
    int src;
};
uint64_t shfl(uint32_t mask, uint64_t v, int src, const char *file, int line) {
    ShArg a{v, 0, src};
    collective(
        mask,
        [](Warp &w, uint32_t live) {
            for (uint32_t m = live; m; m &= m - 1) {
                ShArg *x = (ShArg *)w.arg[__builtin_ctz(m)];
                if (!(live >> x->src & 1)) die("shuffle reads lane %d, which takes no part (mask %08x)", x->src, live);
                x->out = ((ShArg *)w.arg[x->src])->v;
            }
        },
        &a, "__shfl_sync", file, line);
    return a.out;
}
uint32_t ballot(uint32_t mask, int pred, const char *file, int line) {
    ShArg a{(uint64_t) !!pred, 0, 0};
    collective(
        mask,
        [](Warp &w, uint32_t live) {
            uint32_t r = 0;
            for (uint32_t m = live; m; m &= m - 1) {
                int l = __builtin_ctz(m);
                if (((ShArg *)w.arg[l])->v) r |= 1u << l;
            }
            for (uint32_t m = live; m; m &= m - 1) ((ShArg *)w.arg[__builtin_ctz(m)])->out = r;
        },
        &a, "__ballot_sync", file, line);
    return (uint32_t)a.out;
}
uint32_t match_any(uint32_t mask, uint64_t v, const char *file, int line) {
    ShArg a{v, 0, 0};
    collective(
        mask,
        [](Warp &w, uint32_t live) {
            for (uint32_t m = live; m; m &= m - 1) {
                ShArg *x = (ShArg *)w.arg[__builtin_ctz(m)];
                x->out = 0;
                for (uint32_t k = live; k; k &= k - 1) {
                    int l = __builtin_ctz(k);
                    if (((ShArg *)w.arg[l])->v == x->v) x->out |= 1u << l;
                }
            }
        },
        &a, "__match_any_sync", file, line);
    return (uint32_t)a.out;
}
int64_t reduce(uint32_t mask, int64_t v, int kind, const char *file, int line) {
    ShArg a{(uint64_t)v, 0, kind};
    collective(
        mask,
        [](Warp &w, uint32_t live) {
            int k = ((ShArg *)w.arg[__builtin_ctz(live)])->src;
            int64_t r = (int64_t)((ShArg *)w.arg[__builtin_ctz(live)])->v;
            for (uint32_t m = live & (live - 1); m; m &= m - 1) {
                int64_t x = (int64_t)((ShArg *)w.arg[__builtin_ctz(m)])->v;
                r = k == 0 ? r + x : k == 1 ? (x < r ? x : r) : (x > r ? x : r);
            }
            for (uint32_t m = live; m; m &= m - 1) ((ShArg *)w.arg[__builtin_ctz(m)])->out = (uint64_t)r;
        },
        &a, "__reduce_sync", file, line);
    return (int64_t)a.out;
}
// ---- tensor cores -------------------------------------------------------------------------
static inline float b2f(uint16_t u) {
    uint32_t x = (uint32_t)u << 16;
    float f;
    memcpy(&f, &x, 4);
    return f;
}
#if defined(__F16C__)
#include <immintrin.h>
static inline float h2f(uint16_t u) { return _cvtsh_ss(u); }
#else
static inline float h2f(uint16_t u) {
    __half_raw r;
    r.x = u;
    return __half2float(__half(r));
}
#endif
struct MmaArg {
    float *d;
    const uint32_t *a, *b;
    ElemType t;
};
// PTX ISA, m16n8k16 .f16/.bf16: g = lane/4, t = lane%4
//   A: reg r holds (row g + 8*(r&1), cols 2t + 8*(r>>1) + {0,1});  B: reg r holds (rows(k) 2t + 8r + {0,1}, col g)
//   C/D: c0,c1 = (g, 2t + {0,1}), c2,c3 = (g+8, 2t + {0,1})
typedef float v8f __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef uint32_t v8u __attribute__((vector_size(32)));
template <bool BF> static inline v8f cvt8(const uint16_t *p) {
    v8h h;
    memcpy(&h, p, 16);
    if (BF) {
        v8u u = __builtin_convertvector(h, v8u) << 16;
        v8f f;
        memcpy(&f, &u, 32);
        return f;
    }
#if defined(__F16C__)
    __m128i x;
    memcpy(&x, &h, 16);
    return (v8f)_mm256_cvtph_ps(x);
#else
    v8f f;
    for (int i = 0; i < 8; i++) f[i] = h2f(h[i]);
    return f;
#endif
}
template <bool BF> static void mma_all(Warp &w) {
    // register r of all 32 lanes, in lane order, *is* an 8x8 row-major matrix of 16-bit values (row g, columns 2t,
    // 2t+1)
    alignas(64) uint32_t RA[4][32], RB[2][32];
    alignas(64) float C[2][8][8];
    alignas(64) float A[4][8][8], B[16][8];
    for (int l = 0; l < 32; l++) {
        MmaArg *x = (MmaArg *)w.arg[l];
        for (int r = 0; r < 4; r++) RA[r][l] = x->a[r];
        RB[0][l] = x->b[0];
        RB[1][l] = x->b[1];
        C[0][l >> 2][2 * (l & 3)] = x->d[0];
        C[0][l >> 2][2 * (l & 3) + 1] = x->d[1];
        C[1][l >> 2][2 * (l & 3)] = x->d[2];
        C[1][l >> 2][2 * (l & 3) + 1] = x->d[3];
    }
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 8; i++) {
            v8f f = cvt8<BF>((uint16_t *)&RA[r][4 * i]);
            memcpy(A[r][i], &f, 32);
        }
    for (int r = 0; r < 2; r++)
        for (int n = 0; n < 8; n++) {
            v8f f = cvt8<BF>((uint16_t *)&RB[r][4 * n]);
            for (int k = 0; k < 8; k++) B[8 * r + k][n] = f[k];
        }
    v8f bv[16];
    memcpy(bv, B, sizeof bv);
    for (int h = 0; h < 2; h++)
        for (int m = 0; m < 8; m++) {
            v8f acc;
            memcpy(&acc, C[h][m], 32);
            for (int k = 0; k < 8; k++) acc += A[h][m][k] * bv[k];
            for (int k = 0; k < 8; k++) acc += A[2 + h][m][k] * bv[8 + k];
            memcpy(C[h][m], &acc, 32);
        }
    for (int l = 0; l < 32; l++) {
        float *d = ((MmaArg *)w.arg[l])->d;
        d[0] = C[0][l >> 2][2 * (l & 3)];
        d[1] = C[0][l >> 2][2 * (l & 3) + 1];
        d[2] = C[1][l >> 2][2 * (l & 3)];
        d[3] = C[1][l >> 2][2 * (l & 3) + 1];
    }
}
void mma16816(float *d, const uint32_t *a, const uint32_t *b, ElemType t, const char *file, int line) {
    MmaArg x{d, a, b, t};
    if (((Fiber *)cur)->warp->lanes != 0xffffffffu) die("mma.sync in a partial warp");
    collective(
        0xffffffffu,
        [](Warp &w, uint32_t) {
            if (((MmaArg *)w.arg[0])->t == BF16)
                mma_all<true>(w);
            else
                mma_all<false>(w);
            W->st.mma++;
        },
        &x, "mma.sync", file, line);
}
struct LdArg {
    uint32_t *r;
    const char *p;
    int num;
    bool trans;
};
// lane 8i+j gives the address of row j of 8x8 matrix i; lane l receives row l/4, elements 2(l%4)+{0,1} of each (of its
// transpose if .trans)
void ldmatrix(uint32_t *r, const void *p, int num, bool trans, const char *file, int line) {
    LdArg x{r, (const char *)p, num, trans};
    if ((uintptr_t)p & 15) die("ldmatrix at %s:%d: row address %p is not 16-byte aligned", file, line, p);
    if ((int)cur->lane < 8 * num) {
        Worker &w = *W;
        if ((char *)p < w.smem || (char *)p + 16 > w.smem + SMEM_ARENA)
            die("ldmatrix at %s:%d: address is not in shared memory", file, line);
        check::read(p, 16, __builtin_return_address(0));
        volatile char sink = 0;
        for (int i = 0; i < 16; i += 8) sink = sink + ((const char *)p)[i]; // lets ASan look
    }
    collective(
        0xffffffffu,
        [](Warp &w, uint32_t) {
            LdArg *a0 = (LdArg *)w.arg[0];
            for (int i = 0; i < a0->num; i++) {
                uint16_t M[8][8];
                uint32_t banks = 0;
                for (int j = 0; j < 8; j++) {
                    const char *q = ((LdArg *)w.arg[8 * i + j])->p;
                    memcpy(M[j], q, 16);
                    uint32_t bk = 1u << (((uintptr_t)q >> 4) & 7);
                    if (banks & bk) W->st.ldm_conflict++;
                    banks |= bk;
                }
                for (int l = 0; l < 32; l++) {
                    int g = l / 4, t = l % 4;
                    uint32_t lo = a0->trans ? M[2 * t][g] : M[g][2 * t],
                             hi = a0->trans ? M[2 * t + 1][g] : M[g][2 * t + 1];
                    ((LdArg *)w.arg[l])->r[i] = lo | hi << 16;
                }
            }
            W->st.ldm++;
        },
        &x, "ldmatrix", file, line);
}
// ---- cp.async: each copy lands at issue or at the wait; both are legal, the seed chooses ----
static void cp_do(const CpItem &c) {
    memcpy(c.d, c.s, c.sn);
    memset(c.d + c.sn, 0, c.n - c.sn);
}
void cp_async(void *d, const void *s, int n, int sn, const char *file, int line) {
    Worker &w = *W;
    Fiber *t = (Fiber *)cur;
    if (((uintptr_t)d | (sn ? (uintptr_t)s : 0)) & (n - 1))
        die("cp.async at %s:%d: address not %d-byte aligned", file, line, n);
    if ((char *)d < w.smem || (char *)d + n > w.smem + SMEM_ARENA)
        die("cp.async at %s:%d: destination is not shared memory", file, line);
    check::write(d, n, __builtin_return_address(0));
    check::pending(d, n, true);
    if (sn) check::read(s, sn, __builtin_return_address(0));
    CpItem c{(char *)d, (const char *)s, n, sn, false};
    bool now = w.cpmode == 0 || (w.cpmode == 2 && (rnd(w) & 1));
    if (now) {
        cp_do(c);
        c.done = true;
    } else
        memset(d, 0xff, n); // poison until it lands
    t->cp.push_back(c);
}
void cp_commit() {
    Fiber *t = (Fiber *)cur;
    t->groups.push_back(t->cp.size());
}
void cp_wait(int pending) {
    Fiber *t = (Fiber *)cur;
    int done = (int)t->groups.size() - pending;
    if (done <= 0) return;
    size_t end = t->groups[done - 1];
    for (size_t i = 0; i < end; i++) {
        check::pending(t->cp[i].d, t->cp[i].n, false);
        check::write(t->cp[i].d, t->cp[i].n, __builtin_return_address(0));
        if (!t->cp[i].done) cp_do(t->cp[i]);
    }
    t->cp.erase(t->cp.begin(), t->cp.begin() + end);
    t->groups.erase(t->groups.begin(), t->groups.begin() + done);
    for (auto &g : t->groups) g -= end;
}
// ---- shared memory: one arena per worker, red zones between variables, 0xff (NaN) before every block
void *shared_static(const void *key, size_t n, size_t align) {
    Worker &w = *W;
    for (int i = 0; i < w.nsv; i++)
        if (w.sv[i].key == key) return w.sv[i].p;
    size_t o = (w.smem_used + REDZONE + align - 1) & ~(align - 1);
    if (o + n + REDZONE > SMEM_ARENA || w.nsv == 64) die("too much static shared memory");
    w.smem_used = o + n;
    char *p = w.smem + o;
    ASAN_UNPOISON_MEMORY_REGION(p, n);
    memset(p, 0xff, n);
    check::smem_var(p, n);
    w.sv[w.nsv++] = {key, p, n};
    return p;
}
static size_t g_smem_limit = 99 << 10; // sm_86/sm_89, the smallest opt-in limit after Turing's 64K
static std::map<const void *, size_t> g_fn_smem;
static thread_local cudaError_t g_err = cudaSuccess;

static Worker *worker() {
    if (W) return W;
    W = new Worker();
    W->smem = (char *)mmap(nullptr, SMEM_ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check::smem_arena(W->smem, SMEM_ARENA);
#ifdef EMULATE_TSAN
    W->main_f.tsan = __tsan_get_current_fiber();
    for (int i = 0; i < MAXT; i++) W->th[i].tsan = __tsan_create_fiber(0);
#endif
    return W;
}
static void run_blocks(dim3 g, dim3 b, size_t smem, Invoke inv, const void *cl, std::atomic<uint64_t> &next,
                       uint64_t total) {
    Worker &w = *worker();
    check_ok_lo[0] = &w;
    check_ok_hi[0] = &w + 1;
    check_ok_lo[1] = cl;
    check_ok_hi[1] = (const char *)cl + 512;
    w.g.bdim = b;
    w.g.gdim = g;
    w.invoke = inv;
    w.closure = cl;
    grid = &w.g;
    w.n = b.x * b.y * b.z;
    w.nw = (w.n + 31) / 32;
    w.rnd = g_seed > 1;
    w.desc = g_seed == 1;
    w.cpmode = g_seed == 0 ? 0 : g_seed == 1 ? 1 : 2;
    for (int i = 0; i < w.n; i++) {
        Fiber &f = w.th[i];
        f.linear = i;
        f.lane = i & 31;
        f.tid = make_uint3(i % b.x, i / b.x % b.y, i / (b.x * b.y));
        f.warp = &w.warps[i >> 5];
    }
    for (int i = 0; i < w.nw; i++) {
        Warp &p = w.warps[i];
        p.id = i;
        p.f = &w.th[32 * i];
        p.lanes = w.n - 32 * i >= 32 ? 0xffffffffu : (1u << (w.n - 32 * i)) - 1;
    }
    for (uint64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < total;) {
        uint64_t bi = w.desc ? total - 1 - k : k;
        w.rng = ((g_seed * 0x9E3779B97F4A7C15ull) ^ (((g_launches << 32) + bi + 1) * 0xD1B54A32D192ED03ull)) | 1;
        w.g.bid = make_uint3(bi % g.x, bi / g.x % g.y, bi / ((uint64_t)g.x * g.y));
        ASAN_POISON_MEMORY_REGION(w.smem, SMEM_ARENA);
        w.nsv = 0;
        w.dyn_n = smem;
        w.dynp = w.smem + 1024;
        w.g.dyn = smem ? w.dynp : nullptr;
        ASAN_UNPOISON_MEMORY_REGION(w.dynp, smem);
        memset(w.dynp, 0xff, smem);
        w.smem_used = 1024 + smem;
        check::on_block(w.dynp, smem);
        static const uint64_t sw[4] = {~0ull >> 1, 127, 7, 1}; // from one-warp-at-a-time to fully mixed
        w.swmask = sw[(w.rng >> 33) & 3];
        w.arrived = w.exited = 0;
        w.alive = w.n;
        w.epoch = 0;
        w.ready_warps = 0;
        w.curw = &w.warps[0];
        for (int i = 0; i < w.nw; i++) {
            Warp &p = w.warps[i];
            p.waiting = p.exited = 0;
            p.ready = 0;
            make_ready(w, p, p.lanes);
        }
        w.st.blocks++;
        w.st.threads += w.n;
#ifdef EMULATE_TSAN
        __tsan_release(&w.sync_obj);
#endif
        switch_to(w, &w.main_f, pick(w), false);
#ifdef EMULATE_TSAN
        __tsan_acquire(&w.sync_obj);
#endif
        cur = nullptr;
    }
    check::on_block_end();
    grid = nullptr;
#pragma omp critical
    {
        stats.blocks += w.st.blocks;
        stats.threads += w.st.threads;
        stats.switches += w.st.switches;
        stats.collectives += w.st.collectives;
        stats.barriers += w.st.barriers;
        stats.mma += w.st.mma;
        stats.ldm += w.st.ldm;
        stats.ldm_conflict += w.st.ldm_conflict;
    }
    w.st = Stats();
}
cudaError_t launch_raw(const void *fn, dim3 g, dim3 b, size_t smem, Invoke inv, const void *cl) {
    size_t n = (size_t)b.x * b.y * b.z;
    uint64_t total = (uint64_t)g.x * g.y * g.z;
    auto it = g_fn_smem.find(fn);
    size_t lim = it == g_fn_smem.end() ? 48 << 10 : it->second;
    if (n == 0 || n > 1024 || b.z > 64 || total == 0 || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535)
        return g_err = cudaErrorInvalidConfiguration;
    if (smem > lim) return g_err = cudaErrorInvalidValue; // forgot cudaFuncSetAttribute(MaxDynamicSharedMemorySize)
    if (cur) die("launch from inside a kernel");
    g_launches++;
    check::on_launch();
    std::atomic<uint64_t> next{0};
#ifdef _OPENMP
    if (g_workers > 1 && total > 1) {
#pragma omp parallel num_threads(g_workers)
        run_blocks(g, b, smem, inv, cl, next, total);
        return cudaSuccess;
    }
#endif
    run_blocks(g, b, smem, inv, cl, next, total);
    return cudaSuccess;
}
} // namespace emulate

// ---- the slice of the CUDA runtime API that the host code uses (same symbols as libcudart) --
using namespace emulate;
extern "C" {
cudaError_t cudaMalloc(void **p, size_t n) {
    *p = check::dev_alloc(n);
    if (!*p && posix_memalign(p, 256, n ? n : 1)) return g_err = cudaErrorMemoryAllocation;
    memset(*p, 0xff, n);
    return cudaSuccess;
}
cudaError_t cudaFree(void *p) {
    if (p && !check::dev_free(p)) free(p);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *d, const void *s, size_t n, cudaMemcpyKind) {
    check::host_copy(d, s, n);
    memcpy(d, s, n);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, cudaMemcpyKind k, cudaStream_t) {
    return cudaMemcpy(d, s, n, k);
}
cudaError_t cudaMemset(void *d, int v, size_t n) {
    check::host_copy(d, nullptr, n);
    memset(d, v, n);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *d, int v, size_t n, cudaStream_t) { return cudaMemset(d, v, n); }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError() {
    cudaError_t e = g_err;
    g_err = cudaSuccess;
    return e;
}
cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t e) {
    return e == cudaSuccess                     ? "no error"
           : e == cudaErrorInvalidValue         ? "invalid value"
           : e == cudaErrorInvalidConfiguration ? "invalid configuration"
                                                : "error";
}
cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute a, int v) {
    if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if ((size_t)v > g_smem_limit) return g_err = cudaErrorInvalidValue;
        g_fn_smem[f] = v;
    }
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t n) {
    *p = malloc(n ? n : 1);
    return *p ? cudaSuccess : g_err = cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *p) {
    free(p);
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    *available = *total = (size_t)4 << 30;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    memset((void *)p, 0, sizeof *p);
    strcpy(p->name, "emulated");
    p->major = 8;
    p->minor = 9;
    p->multiProcessorCount = 4;
    p->totalGlobalMem = (size_t)4 << 30;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)g_smem_limit; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 8; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 9; break;
    case cudaDevAttrMultiProcessorCount: *value = 4; break;
    default: return g_err = cudaErrorInvalidValue;
    }
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = (cudaStream_t)malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    free((void *)stream);
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = (cudaEvent_t)calloc(1, sizeof(struct timespec));
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free((void *)event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    clock_gettime(CLOCK_MONOTONIC, (struct timespec *)event);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    const struct timespec *a = (const struct timespec *)from, *b = (const struct timespec *)to;
    *milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
    return cudaSuccess;
}
}
