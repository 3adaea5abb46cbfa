/* Counts what a card would do for each kernel: instructions by class, sectors of global memory, wavefronts of shared
 * memory. Exact in what they count, which is PTX: ptxas leaves instructions out and adds others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

/* Sectors of 32 bytes that the running launch has touched: a bit for each one of a page. */
struct Page {
    uint64_t loaded[2], stored[2];
};
static bool counting;
static std::map<const Function *, EmulateKernelCounts> all;
static std::unordered_map<uint64_t, Page> touched;
static uint64_t running; /* the launch: its number */

EmulateKernelCounts *counts_of(const Function &f) {
    if (!counting) return NULL;
    if (settings().workers > 1) fail("kernels are counted with one worker only");
    EmulateKernelCounts &counts = all[&f];
    if (launches_so_far() != running) {
        counts.launches++;
        touched.clear();
    }
    running = launches_so_far();
    counts.blocks++;
    return &counts;
}

static const EmulateClass classes[] = {
    /* in the order of Class */
    EMULATE_INTEGER, EMULATE_FLOAT,   EMULATE_SPECIAL,   EMULATE_CONVERSION, EMULATE_MOVE,   EMULATE_GLOBAL,
    EMULATE_SHARED,  EMULATE_LOCAL,   EMULATE_PARAMETER, EMULATE_SHARED,     EMULATE_GLOBAL, EMULATE_SHUFFLE,
    EMULATE_SHARED,  EMULATE_PRODUCT, EMULATE_BARRIER,   EMULATE_CONTROL,
};

void count_instruction(State &s, const Instruction &i, uint32_t lanes) {
    EmulateKernelCounts &c = *s.scene->counts;
    c.instructions[classes[i.of]]++;
    c.lanes += __builtin_popcount(lanes);
    if (i.of == MATRIX_PRODUCT) {
        const Function &f = *s.frame->function;
        const char *shape =
            strstr(f.origins[(size_t)(&i - f.code.data())].name, "m16n8k"); /* mma.sync.aligned.m16n8k16 */
        if (shape) c.matrix_flops += 2 * 16 * 8 * atoll(shape + strlen("m16n8k"));
    }
}

void count_branch(State &s) { s.scene->counts->divergent_branches++; }

/* Counts the sectors that the lanes touch together, and those of them that no earlier request of the launch touched. */
static void count_sectors(const uint64_t *addresses, uint32_t lanes, size_t bytes, bool stores, int64_t *requested,
                          int64_t *distinct) {
    uint64_t sectors[64];
    size_t n = 0;
    for (uint32_t left = lanes; left; left &= left - 1) {
        uint64_t address = addresses[__builtin_ctz(left)];
        sectors[n++] = address / 32;
        if (address % 32 + bytes > 32) sectors[n++] = address / 32 + 1;
    }
    std::sort(sectors, sectors + n);
    n = (size_t)(std::unique(sectors, sectors + n) - sectors);
    *requested += (int64_t)n;
    Page *page = NULL;
    for (size_t k = 0; k < n; k++) {
        uint64_t bit = sectors[k] % 128;
        if (!page || bit == 0 || sectors[k] / 128 != sectors[k - 1] / 128) page = &touched[sectors[k] / 128];
        uint64_t &bits = (stores ? page->stored : page->loaded)[bit / 64];
        *distinct += !(bits >> bit % 64 & 1);
        bits |= 1ull << bit % 64;
    }
}

/* Wavefronts: of the lanes that are served together (32, 16 of 8 bytes, 8 of 16 bytes), as many as the bank with the
 * most different words has of them. */
static int64_t wavefronts_of(const uint64_t *addresses, uint32_t lanes, size_t bytes) {
    int together = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    int64_t wavefronts = 0;
    for (int first = 0; first < 32; first += together) {
        std::vector<uint64_t> words[32];
        size_t most = 0;
        for (int l = first; l < first + together; l++) {
            if (!(lanes >> l & 1)) continue;
            for (uint64_t word = addresses[l] / 4; word <= (addresses[l] + bytes - 1) / 4; word++) {
                std::vector<uint64_t> &bank = words[word % 32];
                if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
                most = std::max(most, bank.size());
            }
        }
        wavefronts += (int64_t)most;
    }
    return wavefronts;
}

void count_access(State &s, const Instruction &i, uint32_t lanes, Space space, const uint64_t *addresses,
                  size_t bytes) {
    EmulateKernelCounts &c = *s.scene->counts;
    if (!lanes) return;
    if (space == GENERIC) {
        uint64_t address = addresses[__builtin_ctz(lanes)];
        space = address - SHARED_WINDOW < WINDOW ? SHARED : address - LOCAL_WINDOW < WINDOW ? LOCAL : GLOBAL;
    }
    int64_t wanted = __builtin_popcount(lanes) * (int64_t)bytes;
    bool stores = i.of != ASYNC && i.n_operands && !i.n_written;
    if (space == GLOBAL) {
        c.global_requests++;
        c.global_bytes += wanted;
        if (stores)
            count_sectors(addresses, lanes, bytes, true, &c.stored_sectors, &c.distinct_stored);
        else
            count_sectors(addresses, lanes, bytes, false, &c.loaded_sectors, &c.distinct_loaded);
    } else if (space == SHARED) {
        c.shared_requests++;
        c.shared_bytes += wanted;
        c.shared_wavefronts += wavefronts_of(addresses, lanes, bytes);
        c.shared_least += (wanted + 127) / 128;
    }
}

} // namespace ptx
} // namespace emulate

using namespace emulate::ptx;

void emulate_count_kernels(bool on) {
    emulate::synchronize_device();
    counting = on;
    if (!on) return;
    all.clear();
    running = 0;
}

int emulate_kernel_counts(EmulateKernelCounts *counts, int limit) {
    int n = 0;
    emulate::synchronize_device();
    for (const auto &entry : all) {
        if (n == limit) break;
        counts[n] = entry.second;
        snprintf(counts[n++].kernel, sizeof counts->kernel, "%s", readable(entry.first->name).c_str());
    }
    return n;
}
