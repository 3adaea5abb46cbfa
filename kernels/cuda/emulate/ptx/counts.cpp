/* Counts what a card would do for each kernel: instructions by class, sectors of global memory, wavefronts of shared
 * memory. Exact in what they count, which is PTX: ptxas leaves instructions out and adds others. */
#include <algorithm>
#include <mutex>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

static std::mutex lock;
static bool counting;
static std::map<std::string, std::unique_ptr<EmulateKernelCounts>> all; /* by names in C++ */

EmulateKernelCounts *counts_of(const Function &f) {
    if (!counting) return NULL;
    std::lock_guard<std::mutex> hold(lock);
    std::string name = readable(f.name);
    std::unique_ptr<EmulateKernelCounts> &counts = all[name];
    if (!counts) {
        counts.reset(new EmulateKernelCounts());
        counts->kernel = strdup(name.c_str());
    }
    return counts.get();
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
}

void count_branch(State &s) { s.scene->counts->divergent_branches++; }

/* Sectors of 32 bytes that the lanes touch together. */
static int64_t sectors_of(const uint64_t *addresses, uint32_t lanes, size_t bytes) {
    uint64_t sectors[64];
    size_t n = 0;
    for (uint32_t left = lanes; left; left &= left - 1) {
        uint64_t address = addresses[__builtin_ctz(left)];
        sectors[n++] = address / 32;
        if (address % 32 + bytes > 32) sectors[n++] = address / 32 + 1;
    }
    std::sort(sectors, sectors + n);
    return std::unique(sectors, sectors + n) - sectors;
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
        int64_t sectors = sectors_of(addresses, lanes, bytes);
        c.global_requests++;
        c.global_bytes += wanted;
        (stores ? c.stored_sectors : c.loaded_sectors) += sectors;
    } else if (space == SHARED) {
        c.shared_requests++;
        c.shared_bytes += wanted;
        c.shared_wavefronts += wavefronts_of(addresses, lanes, bytes);
        c.shared_least += (wanted + 127) / 128;
    }
}

void count_launch(const Function &f) {
    EmulateKernelCounts *c = counts_of(f);
    if (c) c->launches++;
}

} // namespace ptx
} // namespace emulate

using namespace emulate::ptx;

void emulate_count_kernels(bool on) {
    emulate::synchronize_device();
    counting = on;
    if (on) all.clear();
}

int emulate_kernel_counts(const EmulateKernelCounts **counts, int limit) {
    int n = 0;
    emulate::synchronize_device();
    for (const auto &entry : all)
        if (n < limit) counts[n++] = entry.second.get();
    return n;
}
