/* Runs warps in lock step, and the warps of a block in an order of the seed: as far as each gets (ascending or
 * descending), or with changes at random behind branches and accesses to memory. */
#include <sys/mman.h>

#include <algorithm>

#include "kernels/cuda/emulate/ptx/handlers.h"

namespace emulate {
namespace ptx {

/* ---- frames ---- */

static void open_frame(State &s, const Function &f) {
    size_t depth = (size_t)s.depth;
    if (s.frames.size() <= depth) s.frames.emplace_back(new Frame());
    Frame &frame = *s.frames[depth];
    if (frame.function != &f) {
        frame.function = &f;
        frame.memory.assign(f.register_bytes + 64, 0);
        frame.registers = frame.memory.data() + (64 - (uintptr_t)frame.memory.data() % 64) % 64;
        frame.local.resize(32 * f.local_bytes);
        frame.defined = f.defined;
        memcpy(frame.registers, f.constants.data(), f.constants.size());
    }
    std::fill(frame.local.begin(), frame.local.end(), (char)0xFF); /* whatever the last warp or call left */
    if (f.has_unsure) frame.defined = f.defined;
    s.frame = &frame;
    for (const Special &special : f.specials) {
        const Block &block = s.scene->worker->block;
        U32 *lanes = reinterpret_cast<U32 *>(frame.registers + special.offset);
        const std::string &name = special.name;
        size_t dot = name.find('.');
        int axis = dot == std::string::npos ? 0 : name[dot + 1] - 'x';
        std::string stem = name.substr(0, dot);
        auto of = [=](unsigned x, unsigned y, unsigned z) { return axis == 0 ? x : axis == 1 ? y : z; };
        for (U32 l = 0; l < 32; l++)
            lanes[l] = stem == "%tid"      ? s.tid[axis][l]
                       : stem == "%ntid"   ? of(block.size.x, block.size.y, block.size.z)
                       : stem == "%ctaid"  ? of(block.index.x, block.index.y, block.index.z)
                       : stem == "%nctaid" ? of(block.grid.x, block.grid.y, block.grid.z)
                                           : l; /* %laneid */
    }
}

/* ---- a warp ---- */

/* Divides the lanes of the path that runs: `taken` go to the target, the others on. */
static void branch(State &s, const Instruction &i, uint32_t taken) {
    Path path = s.paths.back();
    uint32_t others = path.lanes & ~taken;
    if (!taken || !others) {
        s.paths.back().pc = taken ? i.target : path.pc + 1;
        return;
    }
    const Function &f = *s.frame->function;
    if (s.scene->counts) count_branch(s);
    int block = f.blocks[(size_t)f.block_of[(size_t)path.pc]].meeting;
    int meeting = block < 0 ? -1 : f.blocks[(size_t)block].begin;
    Path there = {i.target, meeting, taken}, on = {path.pc + 1, meeting, others};
    Worker &w = *s.scene->worker;
    bool there_first = w.random ? random_next(w.random_state) & 1 : w.descending;
    if (meeting < 0)
        s.paths.pop_back(); /* they meet nowhere */
    else
        s.paths.back().pc = meeting;
    s.paths.push_back(there_first ? on : there);
    s.paths.push_back(there_first ? there : on);
}

static void leave(State &s, size_t base, uint32_t lanes) {
    for (size_t p = base; p < s.paths.size(); p++) s.paths[p].lanes &= ~lanes;
    if (base) return; /* from a function that was called */
    require_no_copies(s, lanes);
    s.exited |= lanes;
}

static void nap(State &s) {
    if (++s.naps > 1000) fail_in(s, -1, "waits for something that no thread of the block does");
}

/* Lets the other side of a branch run, for which these lanes wait; false: there is none. */
static bool let_others_run(State &s, size_t base) {
    size_t n = s.paths.size();
    s.paths.back().pc++;
    if (n < base + 2 || s.paths[n - 2].meeting != s.paths[n - 1].meeting || s.paths[n - 2].lanes & s.paths[n - 1].lanes)
        return false;
    nap(s);
    std::swap(s.paths[n - 2], s.paths[n - 1]);
    return true;
}

static void arrive(State &s, const Instruction &i, uint32_t lanes) {
    if (lanes != (s.members & ~s.exited))
        fail_in(s, -1, "reached by lanes %08x, the warp's others (%08x) are elsewhere", lanes,
                s.members & ~s.exited & ~lanes);
    if (s.depth) fail_in(s, -1, "in a function that was called: not supported");
    const U32 *numbers = s.lanes<U32>(i, i.n_written);
    s.barrier_number = numbers[__builtin_ctz(lanes)];
    for (uint32_t left = lanes; left; left &= left - 1)
        if (numbers[__builtin_ctz(left)] != s.barrier_number || s.barrier_number > 15)
            fail_in(s, __builtin_ctz(left), "barrier %u: expected the same one, of 0 to 15, in all lanes",
                    numbers[__builtin_ctz(left)]);
    s.status = State::AT_BARRIER;
    s.barrier = &i;
    s.vote = i.n_operands > 2 ? s.truth(i, 2) & lanes : 0;
}

static void call(State &s, const Instruction &i, uint32_t lanes);

/* Notes in which lanes the registers that it writes are written, and fails if it needs one that is not. */
static void track_registers(State &s, const Instruction &i, uint32_t lanes, uint32_t reaching) {
    const Origin &origin = s.frame->function->origins[(size_t)(&i - s.frame->function->code.data())];
    std::vector<uint32_t> &defined = s.frame->defined;
    auto state = [&](int id) { return id < 0 ? ALL : defined[(size_t)id]; };
    uint32_t known = ALL;
    if (reaching & ~state(origin.guard))
        fail_in(s, __builtin_ctz(reaching & ~state(origin.guard)), "depends on a register that has not been written");
    for (int n = i.n_written; n < i.n_operands; n++) known &= state(origin.ids[n]);
    known &= state(origin.address);
    if (i.undefined == FAILS && lanes & ~known)
        fail_in(s, __builtin_ctz(lanes & ~known), "reads a register that has not been written");
    if (i.undefined == CHOOSES) {
        uint32_t truth = s.truth(i, 3);
        known = state(origin.ids[3]) & ((truth & state(origin.ids[1])) | (~truth & state(origin.ids[2])));
    } else if (i.undefined == ENDS_IN_FALSE || i.undefined == ENDS_IN_TRUE) {
        uint32_t ends = i.undefined == ENDS_IN_TRUE ? ALL : 0;
        for (int n = 1; n < 3; n++) known |= state(origin.ids[n]) & ~(s.truth(i, n) ^ ends);
    }
    for (int n = 0; n < i.n_written; n++) {
        uint32_t &to = defined[(size_t)origin.ids[n]];
        to = (to & ~lanes) | (known & lanes);
    }
}

/* Whether others may run behind an instruction: one that branches or accesses memory, where races show. */
static bool gives_way(Worker &w, const Instruction &i) {
    bool may = i.kind == BRANCH || i.kind == UNIFORM_BRANCH || i.of == GLOBAL_ACCESS || i.of == SHARED_ACCESS ||
               i.of == ATOMIC_ACCESS;
    return w.random && may && (random_next(w.random_state) & w.switch_mask) == w.switch_mask;
}

/* Branches, calls and barriers of a warp after which others get their turn: it may wait for them without nanosleep. */
constexpr uint64_t STEPS_OF_A_TURN = 1 << 13;

/* Lets others run if the warp's turn is over. */
static bool turn_is_over(State &s, const Instruction &i, size_t base) {
    if (i.kind == PLAIN || base || ++s.steps % STEPS_OF_A_TURN) return false;
    s.status = State::ASLEEP;
    return true;
}

/* Fails at what PTX excludes of a branch or an exit; `of`: the lanes that come to it. */
static void check_control(const State &s, const Instruction &i, uint32_t lanes, uint32_t of, size_t base) {
    if (i.kind == UNIFORM_BRANCH && lanes && lanes != of)
        fail_in(s, -1, "lanes %08x of %08x branch, which .uni excludes", lanes, of);
    if (i.kind == EXIT && lanes && base) fail_in(s, -1, "in a function that was called: not supported");
}

/* Runs the paths above `base`, until they have ended, or the warp waits or gives way to others. */
static void run(State &s, size_t base) {
    Worker &w = *s.scene->worker;
    const Function &f = *s.frame->function;
    while (s.paths.size() > base) {
        Path &path = s.paths.back();
        if (path.pc == path.meeting || !path.lanes) {
            s.paths.pop_back();
            continue;
        }
        const Instruction &i = f.code[(size_t)path.pc];
        uint32_t lanes = path.lanes;
        s.instruction = &i;
        if (turn_is_over(s, i, base)) return;
        if (i.guard >= 0)
            lanes &= *reinterpret_cast<uint32_t *>(s.frame->registers + i.guard) ^ (i.guard_is_inverted ? ALL : 0);
        if (i.is_unsure) track_registers(s, i, lanes, path.lanes);
        if (s.scene->counts) count_instruction(s, i, lanes);
        if (i.kind == PLAIN) {
            if (lanes) i.run(s, i, lanes);
            path.pc++;
            if (!base && gives_way(w, i)) return;
            continue;
        }
        check_control(s, i, lanes, path.lanes, base);
        switch (lanes || i.kind == BRANCH || i.kind == UNIFORM_BRANCH ? i.kind : PLAIN) {
        case PLAIN:
            path.pc++;
            break;
        case UNIFORM_BRANCH:
        case BRANCH:
            branch(s, i, lanes);
            if (!base && gives_way(w, i)) return;
            break;
        case EXIT:
        case RETURN:
            path.pc++;
            leave(s, base, lanes);
            break;
        case CALL:
            call(s, i, lanes);
            s.paths.back().pc++;
            break;
        case TRAP:
            lose_device();
            return;
        case SLEEP:
            if (!let_others_run(s, base)) {
                s.status = State::ASLEEP;
                return;
            }
            break;
        case BLOCK_BARRIER:
            arrive(s, i, lanes);
            path.pc++;
            return;
        }
        if (is_lost()) return;
    }
    if (!base) s.status = State::DONE;
}

static void call(State &s, const Instruction &i, uint32_t lanes) {
    Frame &caller = *s.frame;
    const Call &call = caller.function->calls[(size_t)i.target];
    const Function &f = *function_of(*caller.function->module, call.name);
    if (call.arguments.size() != f.parameters.size() || call.results.size() != f.results.size())
        fail_in(s, -1, "%s is called with another number of parameters than it has", call.name.c_str());
    if (++s.depth > 8) fail_in(s, -1, "calls are nested too deeply");
    open_frame(s, f);
    auto copy = [lanes](Frame &to, uint64_t to_at, const Frame &from, uint64_t from_at, size_t bytes) {
        for (uint32_t left = lanes; left; left &= left - 1) {
            size_t l = (size_t)__builtin_ctz(left);
            memcpy(&to.local[l * to.function->local_bytes + to_at],
                   &from.local[l * from.function->local_bytes + from_at], bytes);
        }
    };
    for (size_t n = 0; n < f.parameters.size(); n++)
        copy(*s.frame, f.parameters[n].address, caller, call.arguments[n], f.parameters[n].bytes);
    size_t base = s.paths.size();
    s.paths.push_back({0, -1, lanes});
    run(s, base);
    for (size_t n = 0; n < f.results.size(); n++)
        copy(caller, call.results[n], *s.frame, f.results[n].address, f.results[n].bytes);
    s.depth--;
    s.frame = &caller;
}

/* ---- a block ---- */

static State *pick(std::vector<State> &warps, Worker &w) {
    std::vector<State *> ready, asleep;
    for (State &s : warps) {
        if (s.status == State::READY) ready.push_back(&s);
        if (s.status == State::ASLEEP) asleep.push_back(&s);
    }
    if (ready.empty() && !asleep.empty()) { /* they wait for other warps, which are not there, or for other blocks */
        for (State *s : asleep) s->status = State::READY;
        nap(*asleep[0]);
        ready = asleep;
    }
    if (ready.empty()) return NULL;
    return ready[w.random ? random_next(w.random_state) % ready.size() : w.descending ? ready.size() - 1 : 0];
}

/* Lets the warps go on behind a barrier at which all of them are: one and the same, as CUDA requires. */
static void release(std::vector<State> &warps, Worker &w) {
    const State &first = warps[0];
    int votes = 0;
    for (State &s : warps) {
        if (s.status == State::DONE) {
            State &waiting =
                *std::find_if(warps.begin(), warps.end(), [](State &o) { return o.status == State::AT_BARRIER; });
            fail_in(waiting, -1, "warp %u has returned while others wait at a barrier", s.number);
        }
        if (s.exited) fail_in(s, -1, "lanes %08x of warp %u have returned before the barrier", s.exited, s.number);
        if (s.barrier != first.barrier) {
            const Function &f = *s.frame->function;
            fail_in(s, -1, "warp %u is at another barrier, at line %d of the PTX", first.number,
                    f.origins[(size_t)(first.barrier - f.code.data())].line);
        }
        if (s.barrier_number != first.barrier_number)
            fail_in(s, -1, "barrier %u, but warp %u waits at barrier %u", s.barrier_number, first.number,
                    first.barrier_number);
        votes += __builtin_popcount(s.vote);
    }
    for (State &s : warps) {
        const Instruction &i = *s.barrier;
        const char *name =
            i.n_written ? s.frame->function->origins[(size_t)(&i - s.frame->function->code.data())].name : "";
        int threads = (int)(w.block.size.x * w.block.size.y * w.block.size.z);
        if (i.n_written && strstr(name, ".popc"))
            each(s.lanes<U32>(i, 0), s.members, [=](int) { return (U32)votes; });
        else if (i.n_written)
            s.set_mask(i, 0, s.members, (strstr(name, ".and") ? votes == threads : votes > 0) ? ALL : 0);
        s.status = State::READY;
    }
    warps[0].scene->barrier_time = ++warps[0].scene->time;
    w.counts.barriers++;
}

static void open_scene(Scene &scene, Worker &w, const Launch &launch) {
    const Function &f = *static_cast<const Function *>(launch.code);
    if (!scene.shared) {
        size_t bytes = 2 * SHARED_BYTES + SHARED_BYTES * sizeof(Note);
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) fail("no memory for a block's shared memory");
        scene.shared = static_cast<char *>(memory);
        scene.states = static_cast<uint8_t *>(memory) + SHARED_BYTES;
        scene.writes = reinterpret_cast<Note *>(scene.states + SHARED_BYTES);
        scene.reads = scene.writes + SHARED_BYTES / 2;
    }
    scene.worker = &w;
    scene.barrier_time = ++scene.time;
    scene.counts = counts_of(f);
    scene.launch = f.reads_only ? launches_so_far() : 0;
    scene.parameters = static_cast<const char *>(launch.arguments.get());
    scene.shared_end = f.dynamic_shared   ? f.dynamic_shared + launch.shared_bytes
                       : f.shared.empty() ? 0
                                          : f.shared.back().address + f.shared.back().bytes;
    memset(scene.shared, 0xFF, scene.shared_end);
    memset(scene.states, 0, SHARED_BYTES);
    for (const Variable &v : f.shared) memset(scene.states + v.address, ALLOCATED, v.bytes);
    if (f.dynamic_shared) memset(scene.states + f.dynamic_shared, ALLOCATED, launch.shared_bytes);
}

static void open_warp(State &s, Scene &scene, const Function &f, int number) {
    Worker &w = *scene.worker;
    int threads = w.n_threads - 32 * number;
    s.scene = &scene;
    s.number = (uint32_t)number;
    s.members = threads >= 32 ? ALL : (1u << threads) - 1;
    s.exited = 0;
    s.depth = s.naps = 0;
    s.barrier_time = 0;
    s.status = State::READY;
    s.copies.clear();
    s.allocation_begin = s.allocation_end = s.steps = 0;
    for (int l = 0; l < 32; l++) {
        const uint3 &index = w.fibers[std::min(32 * number + l, w.n_threads - 1)].index;
        s.tid[0][l] = index.x, s.tid[1][l] = index.y, s.tid[2][l] = index.z;
        s.groups[l] = 0;
    }
    open_frame(s, f);
    s.instruction = &f.code[0];
    s.paths.assign(1, {0, -1, s.members});
}

void run_block(Worker &w, const Launch &launch) {
    static thread_local Scene scene;
    static thread_local std::vector<State> warps;
    const Function &f = *static_cast<const Function *>(launch.code);
    open_scene(scene, w, launch);
    if ((int)warps.size() < w.n_warps) warps.resize((size_t)w.n_warps);
    std::vector<State> &all = warps;
    while ((int)all.size() > w.n_warps) all.pop_back();
    for (int n = 0; n < w.n_warps; n++) open_warp(all[(size_t)n], scene, f, n);
    while (!is_lost()) {
        State *s = pick(all, w);
        if (s) {
            run(*s, 0);
            continue;
        }
        bool done = true;
        for (State &other : all) done = done && other.status == State::DONE;
        if (done) break;
        release(all, w);
    }
    w.counts.blocks++;
}

} // namespace ptx
} // namespace emulate
