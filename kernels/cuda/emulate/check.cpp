/* The checker: races, reads of what nobody wrote, accesses out of bounds, in kernels on the CPU (make test-race).
 *
 * The compiler is told -fsanitize=thread for files with kernels, which makes it call __tsan_read4, __tsan_write8 ... at
 * each access to memory. Its own library is not linked: those functions are here, and know what it could not: which
 * accesses a barrier, an operation of the warp, or the end of a launch puts in order.
 *
 * Each two bytes of shared and device memory have a Granule: who read and who wrote them last, and when. Two accesses
 * are in order if they are of different launches; or of one block, on two sides of a __syncthreads; or of one warp,
 * with a warp operation of both lanes between them; or of one thread. Else one of them being a write is a race,
 * reported with both lines of the source, whether or not this run's schedule has made it matter. Atomics do not race
 * with atomics.
 *
 * Not modelled: order between streams (all launches count as ordered), fences between blocks. One worker only. This
 * file and the emulator's others are built without -fsanitize=thread. */
#ifdef EMULATE_CHECK

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include "kernels/cuda/emulate/internal.h"

extern "C" const Elf64_Ehdr __executable_start; /* where the program lies in memory, by the linker */
extern "C" const char _end;

namespace emulate {
namespace check {

constexpr size_t DEVICE_ARENA = (size_t)8 << 30; /* addresses, never used twice; memory is taken as it is touched */
constexpr size_t GRANULE_BYTES = 2;

enum ByteState : uint8_t { ALLOCATED = 1, INITIALISED = 2, FREED = 4, PENDING = 8 };
enum Kind { READ, WRITE, ATOMIC };

struct Access {
    uint32_t block; /* a number that no other block of the run has; 0: none */
    uint32_t epoch; /* how many barriers the block had passed */
    uint32_t clock; /* how many operations of its warp the thread had passed */
    uint32_t pc;    /* relative to the program's start */
    uint16_t thread;
    bool atomic, many_warps; /* reads of several warps since the last write */
};
struct Granule {
    Access write, read;
};

struct Space { /* shared or device memory */
    char *begin, *end;
    uint8_t *states;
    Granule *granules;
    bool contains(const void *p) const { return p >= begin && p < end; }
};
static Space shared_space, device_space;

struct Range {
    const char *begin, *end;
    bool contains(const void *p) const { return p >= begin && p < end; }
};
static Range launch_arguments, worker_itself; /* host memory that a kernel reads because we have put things there */

static size_t device_used = 4096;
static std::map<const char *, size_t> allocations;
static uint32_t block = 1, first_block_of_launch = 1, epoch;
static uint32_t clocks[MAX_WARPS][32];
static uint32_t known[MAX_WARPS][32][32]; /* [warp][lane][of]: lane `of`'s clock when `lane` last heard of it */
static int64_t reports;

template <class T> static T *reserve(size_t count) {
    void *p = mmap(NULL, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail("the checker cannot reserve %zu bytes of addresses", count * sizeof(T));
    return static_cast<T *>(p);
}

static void open_space(Space &space, char *begin, size_t bytes) {
    space = {begin, begin + bytes, reserve<uint8_t>(bytes), reserve<Granule>(bytes / GRANULE_BYTES)};
}

static void set_states(Space &space, const void *p, size_t bytes, uint8_t state) {
    memset(space.states + (static_cast<const char *>(p) - space.begin), state, bytes);
}

/* ---- reports ---- */

static const char *program_begin() { return reinterpret_cast<const char *>(&__executable_start); }

/* Returns the line of the source, and if it was inlined also the line in the kernel: "gpu.h:62 in layernorm.cu:40". */
static std::string place(uint32_t pc) {
    static std::map<uint32_t, std::string> known_places;
    auto at = known_places.find(pc);
    if (at != known_places.end()) return at->second;
    bool relocated = __executable_start.e_type == ET_DYN;
    uintptr_t address = pc - 1 + (relocated ? 0 : (uintptr_t)program_begin());
    char program[1024], command[1200], line[1024];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    snprintf(command, sizeof command, "addr2line -ise '%s' 0x%lx 2>/dev/null", program, (unsigned long)address);
    std::string text;
    FILE *lines = popen(command, "r");
    while (lines && fgets(line, sizeof line, lines)) {
        line[strcspn(line, " \n")] = 0;
        bool of_header = strstr(line, ".h:") != NULL;
        text += (text.empty() ? "" : " in ") + std::string(line);
        if (!of_header) break;
    }
    if (lines) pclose(lines);
    return known_places[pc] = text.empty() ? "??" : text;
}

static void exit_with_failure() {
    if (!reports) return;
    fflush(NULL);
    fprintf(stderr, "emulate: the checker has reported %lld accesses\n", (long long)reports);
    _exit(FAILED);
}

static void report(const char *what, const void *p, uint32_t pc, const Access *other) {
    static std::set<std::string> seen;
    static const int registered = atexit(exit_with_failure);
    (void)registered;
    reports++;
    std::string here = place(pc);
    if (!seen.insert(what + here).second) return; /* once for each line */
    fprintf(stderr, "emulate: %s at %s", what, here.c_str());
    if (current_thread)
        fprintf(stderr, ", thread %u of block (%u,%u,%u)", current_thread->number, current_block->index.x,
                current_block->index.y, current_block->index.z);
    auto after = allocations.upper_bound(static_cast<const char *>(p));
    if (shared_space.contains(p))
        fprintf(stderr, ", shared memory");
    else if (device_space.contains(p) && after != allocations.begin())
        fprintf(stderr, ", byte %td of an allocation of %zu", static_cast<const char *>(p) - std::prev(after)->first,
                std::prev(after)->second);
    if (other)
        fprintf(stderr, "; the other: thread %u%s at %s", other->thread,
                other->block == block ? "" : " of another block", place(other->pc).c_str());
    fprintf(stderr, "\n");
}

/* ---- accesses ---- */

/* Returns whether the earlier access of the granule and the current thread's can happen in either order. */
static bool unordered(const Access &earlier, bool shared) {
    if (!earlier.block || earlier.block < first_block_of_launch) return false;
    if (earlier.block != block) return !shared; /* shared memory begins anew with each block */
    if (earlier.epoch < epoch || earlier.thread == current_thread->number) return false;
    uint32_t warp = current_thread->number / 32;
    return earlier.thread / 32u != warp || known[warp][current_thread->lane][earlier.thread % 32] < earlier.clock;
}

/* Checks an access; false if an error was reported, after which this access is not checked further. */
static bool check_bytes(Space &space, const char *p, size_t bytes, Kind kind, uint32_t pc) {
    for (size_t i = 0; i < bytes; i++) {
        uint8_t &state = space.states[p + i - space.begin];
        if (!(state & ALLOCATED)) {
            report(state & FREED ? "use after free" : "access out of bounds", p + i, pc, NULL);
            return false;
        }
        if (kind != WRITE && !(state & INITIALISED)) report("read of uninitialised memory", p + i, pc, NULL);
        if (state & PENDING) report("access to the destination of copy_async before its wait", p + i, pc, NULL);
        state = (state & ~PENDING) | INITIALISED; /* one report is enough */
    }
    return true;
}

static void check_order(Granule &granule, const char *p, bool shared, Kind kind, uint32_t pc) {
    uint32_t number = current_thread->number, clock = clocks[number / 32][current_thread->lane];
    Access now = {block, epoch, clock, pc, (uint16_t)number, kind == ATOMIC, false};
    if (unordered(granule.write, shared) && !(kind == ATOMIC && granule.write.atomic))
        report(kind == READ ? "race: a read, not ordered after a write" : "race: a write, not ordered after a write", p,
               pc, &granule.write);
    if (kind == READ) {
        /* Only one of several readers is kept, with a flag if several warps read. */
        if (granule.read.block == block && granule.read.epoch == epoch)
            now.many_warps = granule.read.many_warps || granule.read.thread / 32 != number / 32;
        granule.read = now;
        return;
    }
    bool readers_of_other_warps = granule.read.block == block && granule.read.epoch == epoch && granule.read.many_warps;
    if (readers_of_other_warps || unordered(granule.read, shared))
        report("race: a write, not ordered after a read", p, pc, &granule.read);
    granule.write = now;
    granule.read.block = 0;
}

static void access(Kind kind, const void *address, size_t bytes, const void *return_address) {
    const char *p = static_cast<const char *>(address);
    uint32_t pc = (uint32_t)(static_cast<const char *>(return_address) - program_begin());
    if (!current_thread) {
        if (device_space.contains(p)) report("host code touches device memory", p, pc, NULL);
        return;
    }
    const char *stack = current_fiber()->stack;
    if (p >= stack && p < stack + STACK_BYTES) return;
    bool shared = shared_space.contains(p);
    if (!shared && !device_space.contains(p)) {
        bool constant = kind == READ && p >= program_begin() && p < &_end; /* tables, __constant__ */
        bool ours = launch_arguments.contains(p) || worker_itself.contains(p) || p == (const char *)&current_thread ||
                    p == (const char *)&current_block;
        if (!constant && !ours)
            report(kind == READ ? "a kernel reads host memory" : "a kernel writes host memory", p, pc, NULL);
        return;
    }
    Space &space = shared ? shared_space : device_space;
    if ((bytes & (bytes - 1)) == 0 && bytes <= 16 && (uintptr_t)p % bytes) report("misaligned access", p, pc, NULL);
    if (!check_bytes(space, p, bytes, kind, pc)) return;
    size_t offset = (size_t)(p - space.begin);
    for (size_t i = offset / GRANULE_BYTES; i <= (offset + bytes - 1) / GRANULE_BYTES; i++)
        check_order(space.granules[i], space.begin + i * GRANULE_BYTES, shared, kind, pc);
}

void read(const void *p, size_t bytes, const void *pc) { access(READ, p, bytes, pc); }
void write(void *p, size_t bytes, const void *pc) { access(WRITE, p, bytes, pc); }

/* ---- events of the emulator ---- */

void launch_begins(const void *arguments, size_t bytes) {
    first_block_of_launch = block + 1;
    launch_arguments = {static_cast<const char *>(arguments), static_cast<const char *>(arguments) + bytes};
}

void block_begins(const void *worker, size_t worker_bytes, int n_warps) {
    worker_itself = {static_cast<const char *>(worker), static_cast<const char *>(worker) + worker_bytes};
    block++;
    epoch = 1;
    memset(shared_space.states, 0, SHARED_ARENA);
    for (int warp = 0; warp < n_warps; warp++) {
        for (uint32_t &clock : clocks[warp]) clock = 1;
        memset(known[warp], 0, sizeof known[warp]);
    }
}

void block_ends() {}
void barrier() { epoch++; }

/* Orders everything that any of the lanes did so far before everything that they do next. */
void warp_synchronized(uint32_t warp, uint32_t lanes) {
    uint32_t joint[32] = {0};
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        known[warp][lane][lane] = clocks[warp][lane];
        for (int of = 0; of < 32; of++)
            if (known[warp][lane][of] > joint[of]) joint[of] = known[warp][lane][of];
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        memcpy(known[warp][lane], joint, sizeof joint);
        clocks[warp][lane]++;
    }
}

void shared_arena(char *arena, size_t bytes) { open_space(shared_space, arena, bytes); }
void shared_variable(void *memory, size_t bytes) { set_states(shared_space, memory, bytes, ALLOCATED); }

void copy_pending(void *shared, size_t bytes, bool pending) {
    uint8_t *states = shared_space.states + (static_cast<char *>(shared) - shared_space.begin);
    for (size_t i = 0; i < bytes; i++) states[i] = (uint8_t)(pending ? states[i] | PENDING : states[i] & ~PENDING);
}

void *allocate(size_t bytes) {
    if (!device_space.begin) open_space(device_space, reserve<char>(DEVICE_ARENA), DEVICE_ARENA);
    if (bytes > DEVICE_ARENA - device_used - 512) return NULL;
    char *memory = device_space.begin + device_used;
    device_used = (device_used + bytes + 512) / 256 * 256; /* at least 256 bytes between two */
    set_states(device_space, memory, bytes, ALLOCATED);
    allocations[memory] = bytes;
    return memory;
}

/* Gives back the whole pages inside: those at its ends may hold the numbers of its neighbours. */
void release(void *memory, size_t bytes) {
    set_states(device_space, memory, bytes, FREED);
    uintptr_t page = 4096, begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
    uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
    if (begin < end) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

void host_copies(void *to, const void *from, size_t bytes) {
    if (device_space.contains(to)) set_states(device_space, to, bytes, ALLOCATED | INITIALISED);
    (void)from;
}

} // namespace check
} // namespace emulate

bool emulate_has_checker(void) { return true; }
int64_t emulate_reports(void) {
    emulate::synchronize_device();
    return emulate::check::reports;
}

/* ---- what the compiler calls ---- */

using namespace emulate::check;
#define HERE __builtin_return_address(0)

extern "C" {

void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

#define ACCESSES(bytes)                                                                                                \
    void __tsan_read##bytes(void *p) { access(READ, p, bytes, HERE); }                                                 \
    void __tsan_write##bytes(void *p) { access(WRITE, p, bytes, HERE); }                                               \
    void __tsan_volatile_read##bytes(void *p) { access(READ, p, bytes, HERE); }                                        \
    void __tsan_volatile_write##bytes(void *p) { access(WRITE, p, bytes, HERE); }
#define UNALIGNED_ACCESSES(bytes)                                                                                      \
    void __tsan_unaligned_read##bytes(void *p) { access(READ, p, bytes, HERE); }                                       \
    void __tsan_unaligned_write##bytes(void *p) { access(WRITE, p, bytes, HERE); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
UNALIGNED_ACCESSES(2)
UNALIGNED_ACCESSES(4)
UNALIGNED_ACCESSES(8)
UNALIGNED_ACCESSES(16)

void __tsan_read_range(void *p, size_t bytes) { access(READ, p, bytes, HERE); }
void __tsan_write_range(void *p, size_t bytes) { access(WRITE, p, bytes, HERE); }
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    access(READ, from, bytes, HERE);
    access(WRITE, to, bytes, HERE);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    access(READ, from, bytes, HERE);
    access(WRITE, to, bytes, HERE);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
    access(WRITE, to, bytes, HERE);
    return memset(to, value, bytes);
}

/* Atomic accesses. The memory order that they request is ignored: none of them orders other accesses. */
#define ATOMIC_UPDATE(bits, T, name)                                                                                   \
    T __tsan_atomic##bits##_##name(volatile T *p, T x, int) {                                                          \
        access(ATOMIC, (void *)p, sizeof(T), HERE);                                                                    \
        return __atomic_##name(p, x, __ATOMIC_SEQ_CST);                                                                \
    }
#define ATOMIC_EXCHANGE_IF(bits, T, name)                                                                              \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile T *p, T *expected, T x, int, int) {                     \
        access(ATOMIC, (void *)p, sizeof(T), HERE);                                                                    \
        return __atomic_compare_exchange_n(p, expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                 \
    }
#define ATOMICS(bits, T)                                                                                               \
    T __tsan_atomic##bits##_load(const volatile T *p, int) {                                                           \
        access(ATOMIC, (void *)p, sizeof(T), HERE);                                                                    \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                   \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile T *p, T x, int) {                                                        \
        access(ATOMIC, (void *)p, sizeof(T), HERE);                                                                    \
        __atomic_store_n(p, x, __ATOMIC_SEQ_CST);                                                                      \
    }                                                                                                                  \
    T __tsan_atomic##bits##_exchange(volatile T *p, T x, int) {                                                        \
        access(ATOMIC, (void *)p, sizeof(T), HERE);                                                                    \
        return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    ATOMIC_UPDATE(bits, T, fetch_add)                                                                                  \
    ATOMIC_UPDATE(bits, T, fetch_sub)                                                                                  \
    ATOMIC_UPDATE(bits, T, fetch_and)                                                                                  \
    ATOMIC_UPDATE(bits, T, fetch_or)                                                                                   \
    ATOMIC_UPDATE(bits, T, fetch_xor)                                                                                  \
    ATOMIC_EXCHANGE_IF(bits, T, strong)                                                                                \
    ATOMIC_EXCHANGE_IF(bits, T, weak)
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
}

#endif
