/* Runs the threads of a block as fibers, and decides which of those that can run does.
 *
 * The order is where mistakes hide: a missing barrier gives the right result as long as the warps happen to run in
 * step. So seeds 0 and 1 run each warp as far as it gets before the next, from either end, and random ones draw for
 * each block how eagerly it changes warps, from never to at every step: a fair choice at every step is a bad finder of
 * races, since no warp ever gets far ahead.
 *
 * Never built with -fsanitize=thread: the checker takes what this file does for no access of the kernel. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>

#include "kernels/cuda/emulate/internal.h"

#ifdef EMULATE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulate {

__thread Thread *current_thread;
__thread Block *current_block;
__thread Worker *worker;

void fail(const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "emulate: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (current_thread) {
        const uint3 &block = current_block->index, &thread = current_thread->index;
        fprintf(stderr, "\n  in block (%u,%u,%u), thread (%u,%u,%u): warp %u, lane %u", block.x, block.y, block.z,
                thread.x, thread.y, thread.z, current_thread->number / 32, current_thread->lane);
    }
    fprintf(stderr, "\n  EMULATE_SEED=%llu shows it again\n", (unsigned long long)emulate_seed());
    fflush(stderr);
    _exit(FAILED);
}

/* ---- stacks and switching between them ---- */

constexpr size_t PAGE = 4096;

/* Stacks lie whole pages apart, so that their tops would all share one set of the first-level cache. Each starts at an
 * offset of its own instead, which makes switching up to twice as fast. */
static size_t stack_offset(const char *stack) { return (uintptr_t)stack / PAGE * 832 & 4032; }

static char *stack_get(Worker &w) {
    if (w.free_stacks.empty()) {
        const int count = 32;
        char *memory = (char *)mmap(NULL, count * (STACK_BYTES + PAGE), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (memory == MAP_FAILED) fail("no memory for the stacks of a block's threads");
        for (int i = count - 1; i >= 0; i--) { /* a page below each that may not be touched: overflow is a crash */
            char *guard = memory + i * (STACK_BYTES + PAGE);
            mprotect(guard, PAGE, PROT_NONE);
            w.free_stacks.push_back(guard + PAGE);
        }
    }
    char *stack = w.free_stacks.back();
    w.free_stacks.pop_back();
    /* The last fiber on this stack ended in the scheduler without unwinding, so red zones of its frames remain. */
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK_BYTES);
    return stack;
}

#ifndef EMULATE_UCONTEXT
/* Saves and restores the registers that a called function must preserve, and the stack pointer. Ends with ret, not with
 * a jump: fibers run the same chain of calls, so the processor's prediction of return addresses stays right. ucontext
 * makes two system calls instead and is 20 times slower; it serves other processors. */
extern "C" void emulate_switch_stack(void **save, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl emulate_switch_stack\n"
        ".type emulate_switch_stack,@function\n"
        "emulate_switch_stack:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp,(%rdi)\n"
        "    movq %rsi,%rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size emulate_switch_stack,.-emulate_switch_stack\n");
#endif

static void fiber_main();

static void prepare_stack(Fiber &fiber, char *stack) {
    fiber.stack = stack;
#ifdef EMULATE_UCONTEXT
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = NULL;
    makecontext(&fiber.context, fiber_main, 0);
#else
    void **top = (void **)(stack + STACK_BYTES - 64 - stack_offset(stack));
    *--top = NULL; /* as if fiber_main had been called: its stack is aligned as the ABI says */
    *--top = (void *)fiber_main;
    for (int registers = 0; registers < 6; registers++) *--top = NULL;
    fiber.stack_pointer = top;
#endif
}

static void switch_fiber(Worker &w, Fiber &from, Fiber &to, bool from_has_ended) {
    bool to_host = &to == &w.host;
    current_thread = to_host ? NULL : &to;
    if (!to_host && !to.stack) prepare_stack(to, stack_get(w));
#ifdef EMULATE_ASAN /* it keeps the bounds of the stack, and with use-after-return a second one beside it */
    __sanitizer_start_switch_fiber(from_has_ended ? NULL : &from.asan_stack, to_host ? w.host_stack : to.stack,
                                   to_host ? w.host_stack_bytes : STACK_BYTES);
#else
    (void)from_has_ended;
#endif
#ifdef EMULATE_UCONTEXT
    swapcontext(&from.context, &to.context);
#else
    emulate_switch_stack(&from.stack_pointer, to.stack_pointer);
#endif
#ifdef EMULATE_ASAN
    __sanitizer_finish_switch_fiber(from.asan_stack, NULL, NULL);
#endif
}

/* ---- who runs next ---- */

static int pick_bit(Worker &w, uint32_t bits) {
    if (!w.random) return w.descending ? 31 - __builtin_clz(bits) : __builtin_ctz(bits);
    uint64_t draw = random_next(w.random_state) & 0xFFFFFFFFu;
    for (uint64_t skip = draw * (uint64_t)__builtin_popcount(bits) >> 32; skip; skip--) bits &= bits - 1;
    return __builtin_ctz(bits);
}

static void make_ready(Worker &w, Warp &warp, uint32_t lanes) {
    if (!lanes) return;
    warp.ready |= lanes;
    w.ready_warps |= 1u << warp.number;
}

static void make_unready(Worker &w, Warp &warp, int lane) {
    warp.ready &= ~(1u << lane);
    if (!warp.ready) w.ready_warps &= ~(1u << warp.number);
}

/* Returns a fiber that can run, and unmarks it; NULL if none can. */
static Fiber *pick(Worker &w) {
    if (!w.warp->ready || (w.random && (random_next(w.random_state) & w.switch_mask) == w.switch_mask)) {
        if (!w.ready_warps) return NULL;
        w.warp = &w.warps[pick_bit(w, w.ready_warps)];
    }
    Warp &warp = *w.warp;
    int lane = pick_bit(w, warp.ready);
    make_unready(w, warp, lane);
    return &warp.lanes[lane];
}

/* Describes the threads that wait: "3 threads (the first 5, the last 7): __syncthreads at x.cu:12". */
static std::string waiting_threads(const Worker &w) {
    struct Group {
        int count, first, last;
    };
    std::map<std::string, Group> groups;
    for (int i = 0; i < w.n_threads; i++) {
        const Fiber &fiber = w.fibers[i];
        std::string where = "returned";
        if (!(fiber.warp->exited >> fiber.lane & 1))
            where = std::string(fiber.operation) + " at " + fiber.site.file + ":" + std::to_string(fiber.site.line);
        Group &group = groups.insert({where, {0, i, i}}).first->second;
        group.count++;
        group.last = i;
    }
    std::string text;
    for (const auto &entry : groups)
        text += "\n    " + std::to_string(entry.second.count) + " threads (the first " +
                std::to_string(entry.second.first) + ", the last " + std::to_string(entry.second.last) +
                "): " + entry.first;
    return text;
}

[[noreturn]] static void fail_deadlock(const Worker &w) {
    fail("deadlock, no thread of the block can run:%s", waiting_threads(w).c_str());
}

/* Lets others run until somebody has made the calling fiber ready and it is picked. */
static void wait_until_picked(Worker &w) {
    Fiber &self = *current_fiber(), *next = pick(w);
    if (!next) fail_deadlock(w);
    if (next != &self) switch_fiber(w, self, *next, false);
}

/* ---- a thread of a block, from its first instruction to its last ---- */

/* Ends the calling fiber's thread. True: another thread, not begun so far, goes on at once on the same stack, which is
 * still in the cache; a kernel without barriers thus runs as a loop. Else it does not return. */
static bool next_thread(Worker &w) {
    Fiber &self = *current_fiber();
    if (!self.copies.empty() || !self.groups.empty())
        fail("a thread returns while its asynchronous copies are under way: no copy_async_wait");
    self.warp->exited |= 1u << self.lane;
    w.exited++;
    if (w.arrived && w.arrived + w.exited == w.n_threads)
        fail("some threads returned while others wait at a barrier:%s", waiting_threads(w).c_str());
    Fiber *next = pick(w);
    if (!next && w.exited < w.n_threads) fail_deadlock(w);
    char *stack = self.stack;
    self.stack = NULL;
    if (next && !next->stack) {
        next->stack = stack;
        current_thread = next;
        return true;
    }
    w.free_stacks.push_back(stack);
    switch_fiber(w, self, next ? *next : w.host, true);
    __builtin_unreachable();
}

static void fiber_main() {
    Worker &w = *worker;
#ifdef EMULATE_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
    if (!w.host_stack) { /* the very first fiber: it comes from the host's stack */
        w.host_stack = bottom;
        w.host_stack_bytes = bytes;
    }
#endif
    do w.call(w.arguments);
    while (next_thread(w));
}

void run_block(Worker &w) {
    w.arrived = w.exited = 0;
    w.ready_warps = 0;
    w.warp = &w.warps[w.descending ? w.n_warps - 1 : 0];
    for (int i = 0; i < w.n_warps; i++) {
        Warp &warp = w.warps[i];
        warp.ready = warp.waiting = warp.exited = 0;
        make_ready(w, warp, warp.members);
    }
    switch_fiber(w, w.host, *pick(w), false);
    w.counts.blocks++;
}

/* The loss of the device, as on a card: the block's threads never get on; what its kernels have printed is lost. */
static std::atomic<bool> lost{false};
bool is_lost() { return lost; }
void lose_device() { lost = true; }

void trap() {
    Worker &w = *worker;
    lose_device();
    switch_fiber(w, *current_fiber(), w.host, true);
    __builtin_unreachable();
}

/* ---- waiting for each other ---- */

static bool same_place(Site a, Site b) { return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file)); }

int block_barrier(int predicate, Vote vote, Site site) {
    Worker &w = *worker;
    Fiber &self = *current_fiber();
    self.operation = "__syncthreads";
    self.site = site;
    if (!w.arrived) {
        w.barrier = site;
        w.votes = 0;
    } else if (!same_place(w.barrier, site))
        fail("threads of one block are at different barriers: __syncthreads at %s:%d and at %s:%d", w.barrier.file,
             w.barrier.line, site.file, site.line);
    if (w.exited)
        fail("__syncthreads at %s:%d, but %d threads of the block have returned", site.file, site.line, w.exited);
    w.votes += predicate != 0;
    if (++w.arrived < w.n_threads) {
        wait_until_picked(w);
        return w.result; /* nobody can complete the next barrier before this thread arrives there */
    }
    w.result = vote == COUNT ? w.votes : vote == ALL ? w.votes == w.n_threads : w.votes > 0;
    w.arrived = 0;
    w.counts.barriers++;
    check::barrier();
    for (int i = 0; i < w.n_warps; i++) make_ready(w, w.warps[i], w.warps[i].members);
    if (w.random)
        wait_until_picked(w);
    else
        make_unready(w, *self.warp, (int)self.lane); /* it just goes on */
    return w.result;
}

/* Lanes must come to an operation at the same place: `.aligned` instructions, those of the tensor cores, are undefined
 * otherwise, and others are slower than they look. __syncwarp is there to bring lanes together. */
void warp_operation(uint32_t mask, Collective work, void *argument, const char *name, Site site) {
    Worker &w = *worker;
    Fiber &self = *current_fiber();
    Warp &warp = *self.warp;
    uint32_t bit = 1u << self.lane, lanes = mask & warp.members;
    self.operation = name;
    self.site = site;
    if (!(mask & bit)) fail("%s at %s:%d: the calling lane is not in its mask %08x", name, site.file, site.line, mask);
    if (lanes & warp.exited)
        fail("%s at %s:%d: the mask %08x names lanes that have returned (%08x)", name, site.file, site.line, mask,
             lanes & warp.exited);
    warp.arguments[self.lane] = argument;
    warp.masks[self.lane] = mask;
    warp.work[self.lane] = work;
    warp.waiting |= bit;
    if ((warp.waiting & lanes) != lanes) {
        wait_until_picked(w);
        return;
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        const Fiber &other = warp.lanes[lane];
        if (warp.masks[lane] != mask || warp.work[lane] != work)
            fail("%s at %s:%d with mask %08x: lane %d is in another operation, %s at %s:%d with mask %08x", name,
                 site.file, site.line, mask, lane, other.operation, other.site.file, other.site.line, warp.masks[lane]);
        if (argument && !same_place(site, other.site)) /* NULL: __syncwarp */
            fail("%s: lanes of one warp are at different places: at %s:%d and, lane %d, at %s:%d", name, site.file,
                 site.line, lane, other.site.file, other.site.line);
    }
    work(warp, lanes);
    w.counts.warp_operations++;
    check::warp_synchronized(warp.number, lanes);
    warp.waiting &= ~lanes;
    make_ready(w, warp, lanes & ~bit);
    if (w.random) { /* after it, anybody may be first */
        make_ready(w, warp, bit);
        wait_until_picked(w);
    }
}

} // namespace emulate
