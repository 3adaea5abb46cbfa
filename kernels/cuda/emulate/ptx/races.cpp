/* Races in shared memory. A warp runs in lock step here and the warps one after another, so that a missing barrier may
 * do no harm; on a card it does. Two accesses of the same two bytes (no kernel shares memory by single bytes), one of
 * them a write, are in order if they are of one thread, or on two sides of a barrier of the block, or of one warp and
 * on two sides of a bar.warp.sync: shuffles, votes and matrices order no memory. Else reading what another has written,
 * or writing what another has read, is an error, in every schedule. Two writes are none: threads may write the same. A
 * bar.warp.sync of a part counts for all the warp.
 *
 * Each two bytes have a note of who wrote and who read them last, and when. Time is counted in barriers. */
#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

constexpr uint8_t SEVERAL = 255; /* warps */

static Note note(uint32_t time, int warp, int lane) { return (Note)time << 16 | (Note)warp << 8 | (Note)lane; }
static uint32_t time_of(Note n) { return (uint32_t)(n >> 16); }
static int warp_of(Note n) { return (int)(n >> 8 & 255); }
static int lane_of(Note n) { return (int)(n & 255); }

static bool is_race(const State &s, Note earlier, int lane) {
    if (time_of(earlier) < s.scene->barrier_time) return false;
    return warp_of(earlier) != (int)s.number ||
           (time_of(earlier) >= s.barrier_time && (lane_of(earlier) != lane || lane == WHOLE_WARP));
}

[[noreturn]] static void fail_in_race(const State &s, int lane, uint64_t address, size_t bytes, bool write,
                                      Note earlier) {
    std::string who = "several warps have";
    if (warp_of(earlier) != SEVERAL) who = "warp " + std::to_string(warp_of(earlier));
    if (warp_of(earlier) != SEVERAL && lane_of(earlier) != WHOLE_WARP)
        who += ", lane " + std::to_string(lane_of(earlier));
    if (warp_of(earlier) != SEVERAL) who += " has";
    fail_in(s, lane, "%s %zu bytes at 0x%llx of shared memory that %s %s, with no barrier between",
            write ? "writes" : "reads", bytes, (unsigned long long)address, who.c_str(), write ? "read" : "written");
}

/* Returns the note that a read leaves of an earlier one and itself. */
static Note joined(const State &s, Note earlier, Note now) {
    if (time_of(earlier) < s.scene->barrier_time) return now;
    if (warp_of(earlier) != warp_of(now)) return note(time_of(now), SEVERAL, WHOLE_WARP);
    if (time_of(earlier) < s.barrier_time || lane_of(earlier) == lane_of(now)) return now;
    return note(time_of(now), warp_of(now), WHOLE_WARP);
}

/* For n notes; inlined where n is known. */
static inline __attribute__((always_inline)) void check_notes(State &s, int lane, int by_lane, uint64_t address,
                                                              size_t bytes, bool write, size_t n) {
    Scene &scene = *s.scene;
    Note *writes = scene.writes + address / 2, *reads = scene.reads + address / 2, *others = write ? reads : writes;
    Note now = note(scene.time, (int)s.number, by_lane), barrier = note(scene.barrier_time, 0, 0);
    bool unordered = false, read_before = false;
    for (size_t k = 0; k < n; k++) unordered |= others[k] >= barrier;
    for (size_t k = 0; k < n; k++) read_before |= reads[k] >= barrier;
    for (size_t k = 0; unordered && k < n; k++)
        if (is_race(s, others[k], by_lane)) fail_in_race(s, lane, address, bytes, write, others[k]);
    if (write)
        for (size_t k = 0; k < n; k++) writes[k] = now;
    else if (!read_before)
        for (size_t k = 0; k < n; k++) reads[k] = now;
    else
        for (size_t k = 0; k < n; k++) reads[k] = joined(s, reads[k], now);
}

void check_order(State &s, int lane, int by_lane, uint64_t address, size_t bytes, bool write) {
    if (bytes == 4)
        check_notes(s, lane, by_lane, address, bytes, write, 2);
    else if (bytes == 16)
        check_notes(s, lane, by_lane, address, bytes, write, 8);
    else
        check_notes(s, lane, by_lane, address, bytes, write, (bytes + 1) / 2);
}

} // namespace ptx
} // namespace emulate
