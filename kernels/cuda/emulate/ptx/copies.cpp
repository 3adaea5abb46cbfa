/* Asynchronous copies from global to shared memory (PTX ISA 9.7.9.25). When one lands is open until the wait: the seed
 * decides. Until then its destination is NaN, and touching it is an error. */
#include "kernels/cuda/emulate/ptx/handlers.h"

namespace emulate {
namespace ptx {

static void land(State &s, AsyncCopy &copy) {
    if (copy.landed) return;
    copy.landed = true;
    for (uint32_t left = copy.lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        char *to = s.scene->shared + copy.to[l];
        memcpy(to, copy.from[l], (size_t)copy.source_bytes[l]);
        memset(to + copy.source_bytes[l], 0, (size_t)(copy.bytes - copy.source_bytes[l]));
    }
}

/* cp.async [to], [from], bytes, bytes of the source: the rest becomes zeros. Only copies that go by the L1 cache (.ca)
 * may have less than 16 bytes. */
template <bool BY_L1> static void run_copy(State &s, const Instruction &i, uint32_t lanes) {
    AsyncCopy copy = AsyncCopy();
    const U64 *from = s.lanes<U64>(i, 0);
    const U32 *bytes = s.lanes<U32>(i, 1), *source_bytes = i.n_operands > 2 ? s.lanes<U32>(i, 2) : bytes;
    Worker &w = *s.scene->worker;
    uint64_t addresses[32];
    if (bytes[0] != 16 && !(BY_L1 && (bytes[0] == 4 || bytes[0] == 8)))
        fail_in(s, -1, "an asynchronous copy of %u bytes: must be %s", bytes[0], BY_L1 ? "4, 8 or 16" : "16");
    copy.lanes = lanes;
    copy.bytes = (int)bytes[0];
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        uint64_t to = address_in(s, i, l);
        addresses[l] = from[l];
        if (to % bytes[l] || (source_bytes[l] && from[l] % bytes[l]))
            fail_in(s, l, "an asynchronous copy of %u bytes from 0x%llx to 0x%llx, which are no multiples of them",
                    bytes[l], (unsigned long long)from[l], (unsigned long long)to);
        if (source_bytes[l] > bytes[l])
            fail_in(s, l, "an asynchronous copy of %u bytes out of %u", source_bytes[l], bytes[l]);
        shared_to_write(s, l, to, bytes[l]);
        if (source_bytes[l]) global_at(s, l, from[l], source_bytes[l], READ);
        copy.to[l] = (uint32_t)to;
        copy.from[l] = reinterpret_cast<const char *>(from[l]);
        copy.source_bytes[l] = (int)source_bytes[l];
        copy.group[l] = s.groups[l];
    }
    if (s.scene->counts) {
        uint32_t reading = 0;
        uint64_t to[32];
        for (int l = 0; l < 32; l++) reading |= (uint32_t)((lanes >> l & 1) && source_bytes[l]) << l;
        for (int l = 0; l < 32; l++) to[l] = copy.to[l];
        count_access(s, i, reading, GLOBAL, addresses, bytes[0]);
        count_access(s, i, lanes, SHARED, to, bytes[0]);
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        memset(s.scene->shared + copy.to[l], 0xFF, bytes[l]);
        for (U32 b = 0; b < bytes[l]; b++) s.scene->states[copy.to[l] + b] |= PENDING;
    }
    if (w.copies_land == Worker::AT_ISSUE || (w.copies_land == Worker::EITHER && random_next(w.random_state) & 1))
        land(s, copy);
    s.copies.push_back(copy);
}

static void run_commit(State &s, const Instruction &, uint32_t lanes) {
    for (uint32_t left = lanes; left; left &= left - 1) s.groups[__builtin_ctz(left)]++;
}

/* Waits until all but the newest n groups of a lane have landed; n < 0: also what is in no group yet. */
static void wait(State &s, uint32_t lanes, int n) {
    for (AsyncCopy &copy : s.copies) {
        uint32_t done = 0;
        for (uint32_t left = copy.lanes & lanes; left; left &= left - 1) {
            int l = __builtin_ctz(left);
            if ((int)(s.groups[l] - copy.group[l]) > n) done |= 1u << l;
        }
        if (!done) continue;
        land(s, copy); /* landing early is allowed for the other lanes */
        for (uint32_t left = done; left; left &= left - 1) {
            int l = __builtin_ctz(left);
            for (int b = 0; b < copy.bytes; b++) s.scene->states[copy.to[l] + (uint32_t)b] &= (uint8_t)~PENDING;
            check_order(s, l, l, copy.to[l], (size_t)copy.bytes, true); /* others see it behind a barrier */
        }
        copy.lanes &= ~done;
    }
    size_t kept = 0;
    for (AsyncCopy &copy : s.copies)
        if (copy.lanes) s.copies[kept++] = copy;
    s.copies.resize(kept);
}

static void run_wait(State &s, const Instruction &i, uint32_t lanes) { wait(s, lanes, (int)s.lanes<U32>(i, 0)[0]); }

void require_no_copies(State &s, uint32_t lanes) {
    for (const AsyncCopy &copy : s.copies)
        if (copy.lanes & lanes)
            fail_in(s, __builtin_ctz(copy.lanes & lanes),
                    "the thread returns while its asynchronous copies are under way");
}

const Form copy_forms[] = {
    {"cp.async.cg.shared.global", " dww", run_copy<false>, ASYNC},
    {"cp.async.ca.shared.global", " dww", run_copy<true>, ASYNC},
    {"cp.async.commit_group", "", run_commit, ASYNC},
    {"cp.async.wait_group", " w", run_wait, ASYNC},
    {"cp.async.wait_all", "", [](State &s, const Instruction &, uint32_t lanes) { wait(s, lanes, -1); }, ASYNC},
    {},
};

} // namespace ptx
} // namespace emulate
