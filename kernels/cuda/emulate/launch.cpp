/* A launch: its blocks in an order of the seed, each with poisoned shared memory. */
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "kernels/cuda/emulate/internal.h"

namespace emulate {

static EmulateCounts totals;
static std::mutex totals_lock;
static uint64_t launch_number; /* so that equal launches get different random orders */

static Worker &this_worker() {
    if (worker) return *worker;
    worker = new Worker(); /* for as long as the thread lives, and then the process */
    worker->shared = (char *)mmap(NULL, SHARED_ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (worker->shared == MAP_FAILED) fail("no memory for a block's shared memory");
    check::shared_arena(worker->shared, SHARED_ARENA);
    return *worker;
}

/* ---- shared memory: one arena a worker. What lies between its variables is out of bounds for AddressSanitizer and for
 * the checker; all of it is NaN when a block begins, whatever the last one left. ---- */

static void open_shared(Worker &w, void *memory, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    memset(memory, 0xFF, bytes);
    check::shared_variable(memory, bytes);
    w.shared_used = (size_t)((char *)memory - w.shared) + bytes;
}

void *shared_variable(const void *key, size_t bytes) {
    Worker &w = *worker;
    for (int i = 0; i < w.n_variables; i++)
        if (w.variables[i].key == key) return w.variables[i].memory;
    w.static_bytes += (bytes + 15) / 16 * 16;
    if (w.static_bytes + w.dynamic_bytes > w.shared_limit)
        fail(
            "at least %zu bytes of static and %zu of dynamic shared memory: a block of this kernel may have %zu in all",
            w.static_bytes, w.dynamic_bytes, w.shared_limit);
    size_t offset = (w.shared_used + RED_ZONE + 127) / 128 * 128;
    if (offset + bytes + RED_ZONE > SHARED_ARENA || w.n_variables == MAX_SHARED_VARIABLES)
        fail("too many or too large variables in shared memory");
    char *memory = w.shared + offset;
    open_shared(w, memory, bytes);
    w.variables[w.n_variables++] = {key, memory};
    return memory;
}

/* ---- blocks ---- */

static void prepare_worker(Worker &w, const Launch &launch) {
    uint64_t seed = settings().seed;
    dim3 block = launch.block;
    w.block.size = block;
    w.block.grid = launch.grid;
    w.dynamic_bytes = std::max(launch.shared_bytes, launch.shared_asked);
    w.shared_limit = launch.shared_asked ? card_shared_limit() : SHARED_WITHOUT_ASKING;
    w.call = launch.call;
    w.arguments = launch.arguments.get();
    w.n_threads = (int)(block.x * block.y * block.z);
    w.n_warps = (w.n_threads + 31) / 32;
    w.random = seed > 1;
    w.descending = seed == 1;
    w.copies_land = seed == 0 ? Worker::AT_ISSUE : seed == 1 ? Worker::AT_WAIT : Worker::EITHER;
    for (int i = 0; i < w.n_threads; i++) {
        unsigned number = (unsigned)i;
        Fiber &fiber = w.fibers[i];
        fiber.number = number;
        fiber.lane = number % 32;
        fiber.index = make_uint3(number % block.x, number / block.x % block.y, number / (block.x * block.y));
        fiber.warp = &w.warps[i / 32];
    }
    for (int i = 0; i < w.n_warps; i++) {
        int threads = w.n_threads - 32 * i;
        w.warps[i].number = (uint32_t)i;
        w.warps[i].lanes = &w.fibers[32 * i];
        w.warps[i].members = threads >= 32 ? 0xFFFFFFFFu : (1u << threads) - 1;
    }
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Returns the number in the grid of the i-th block to be run, of `count`. */
static uint64_t nth_block(uint64_t i, uint64_t count) {
    uint64_t seed = settings().seed;
    if (seed == 0 || count >> 32) return i;
    if (seed == 1) return count - 1 - i;
    uint64_t stride = 1 + (seed * 0x9E3779B9u + launch_number) % count;
    while (greatest_common_divisor(stride, count) != 1) stride++; /* then i * stride meets every block once */
    return i * stride % count;
}

static void run_blocks(const Launch &launch, std::atomic<uint64_t> &next) {
    Worker &w = this_worker();
    uint64_t columns = launch.grid.x, rows = launch.grid.y, count = columns * rows * launch.grid.z;
    prepare_worker(w, launch);
    current_block = &w.block;
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
        uint64_t b = nth_block(i, count);
        w.random_state =
            (settings().seed * 0x9E3779B97F4A7C15u ^ ((launch_number << 32) + b + 1) * 0xD1B54A32D192ED03u) | 1;
        w.block.index =
            make_uint3((unsigned)(b % columns), (unsigned)(b / columns % rows), (unsigned)(b / columns / rows));
        static const uint64_t masks[4] = {~0ull, 127, 7, 1}; /* changes warps never, at 1 step in 128, 8, 2 */
        w.switch_mask = masks[w.random_state >> 33 & 3];
        if (launch.run_block) {
            launch.run_block(w, launch);
            if (is_lost()) break;
            continue;
        }
        ASAN_POISON_MEMORY_REGION(w.shared, SHARED_ARENA);
        check::block_begins(&w, sizeof w, w.n_warps);
        w.n_variables = 0;
        w.static_bytes = 0;
        w.block.dynamic_shared = launch.shared_bytes ? w.shared + 1024 : NULL;
        open_shared(w, w.shared + 1024, launch.shared_bytes);
        run_block(w);
        if (is_lost()) break;
    }
    check::block_ends();
    ASAN_UNPOISON_MEMORY_REGION(w.shared, SHARED_ARENA);
    current_block = NULL;
    std::lock_guard<std::mutex> hold(totals_lock);
    totals.blocks += w.counts.blocks;
    totals.barriers += w.counts.barriers;
    totals.warp_operations += w.counts.warp_operations;
    totals.matrix_products += w.counts.matrix_products;
    totals.matrix_loads += w.counts.matrix_loads;
    totals.bank_conflicts += w.counts.bank_conflicts;
    w.counts = EmulateCounts();
}

void run_launch(const Launch &launch) {
    int workers = emulate_has_checker() ? 1 : settings().workers;
    std::atomic<uint64_t> next{0};
    if (current_thread) fail("a launch from inside a kernel");
    if (is_lost()) return;
    launch_number++;
    totals.launches++;
    check::launch_begins(launch.arguments.get(), launch.arguments_bytes);
    if (workers <= 1) return run_blocks(launch, next);
#pragma omp parallel num_threads(workers)
    run_blocks(launch, next);
}

uint64_t launches_so_far() { return launch_number; }

EmulateCounts launch_totals() { return totals; }

} // namespace emulate
