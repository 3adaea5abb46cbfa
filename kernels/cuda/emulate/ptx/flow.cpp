/* The flow of control of a function: basic blocks, the blocks where lanes that went different ways meet again, and the
 * registers that an instruction can read before they were written. */
#include <algorithm>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

static bool branches(const Instruction &i) { return i.kind == BRANCH || i.kind == UNIFORM_BRANCH; }
static bool returns(const Instruction &i) { return i.kind == RETURN || i.kind == EXIT; }
static bool ends_block(const Instruction &i) { return branches(i) || returns(i) || i.kind == TRAP; }

static void find_blocks(Function &f) {
    int n = (int)f.code.size();
    std::vector<char> begins((size_t)n + 1);
    begins[0] = 1;
    for (int i = 0; i < n; i++) {
        if (ends_block(f.code[(size_t)i])) begins[(size_t)i + 1] = 1;
        if (branches(f.code[(size_t)i])) begins[(size_t)f.code[(size_t)i].target] = 1;
    }
    f.block_of.resize((size_t)n + 1);
    for (int i = 0; i < n; i++) {
        if (begins[(size_t)i]) f.blocks.push_back({i, i, {}, -1});
        f.blocks.back().end = i + 1;
        f.block_of[(size_t)i] = (int)f.blocks.size() - 1;
    }
    for (BasicBlock &block : f.blocks) {
        const Instruction &last = f.code[(size_t)block.end - 1];
        bool goes_on = !ends_block(last) || last.guard >= 0;
        if (goes_on && block.end == n) fail("%s has no end", f.name.c_str());
        if (goes_on) block.next.push_back(f.block_of[(size_t)block.end]);
        if (branches(last)) block.next.push_back(f.block_of[(size_t)last.target]);
    }
}

/* ---- where lanes meet: immediate post-dominators, by the algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast
 * Dominance Algorithm", 2001) on the reversed graph, whose root is the end of the function ---- */

struct Reversed {
    int end;                           /* the number of the end, after all blocks */
    std::vector<std::vector<int>> out; /* of each block where it goes; the end is one of them */
    std::vector<std::vector<int>> in;
    std::vector<int> order; /* blocks from the end on, each after one that it goes to */
    std::vector<int> rank;  /* position in it; -1: there is no way to the end */
};

static void visit(Reversed &r, int from) {
    std::vector<std::pair<int, size_t>> stack = {{from, 0}};
    std::vector<int> finished;
    std::vector<char> seen(r.in.size());
    seen[(size_t)from] = 1;
    while (!stack.empty()) {
        int block = stack.back().first;
        if (stack.back().second < r.in[(size_t)block].size()) {
            int before = r.in[(size_t)block][stack.back().second++];
            if (!seen[(size_t)before]) {
                seen[(size_t)before] = 1;
                stack.push_back({before, 0});
            }
        } else {
            finished.push_back(block);
            stack.pop_back();
        }
    }
    r.order.assign(finished.rbegin(), finished.rend());
    r.rank.assign(r.in.size(), -1);
    for (size_t i = 0; i < r.order.size(); i++) r.rank[(size_t)r.order[i]] = (int)i;
}

static Reversed reverse(const Function &f) {
    Reversed r;
    r.end = (int)f.blocks.size();
    r.out.resize(f.blocks.size() + 1);
    r.in.resize(f.blocks.size() + 1);
    for (size_t b = 0; b < f.blocks.size(); b++) {
        const Instruction &last = f.code[(size_t)f.blocks[b].end - 1];
        r.out[b] = f.blocks[b].next;
        if (returns(last)) r.out[b].push_back(r.end);
    }
    for (size_t b = 0; b < f.blocks.size(); b++)
        for (int next : r.out[b]) r.in[(size_t)next].push_back((int)b);
    visit(r, r.end);
    return r;
}

/* Ways that only lead to a trap or round and round have no part in it: the lanes on the others do not wait for those.
 */
static void find_meetings(Function &f) {
    Reversed r = reverse(f);
    std::vector<int> meeting(f.blocks.size() + 1, -1);
    meeting[(size_t)r.end] = r.end;
    auto common = [&](int a, int b) {
        while (a != b) {
            while (r.rank[(size_t)a] > r.rank[(size_t)b]) a = meeting[(size_t)a];
            while (r.rank[(size_t)b] > r.rank[(size_t)a]) b = meeting[(size_t)b];
        }
        return a;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (int block : r.order) {
            if (block == r.end) continue;
            int found = -1;
            for (int next : r.out[(size_t)block])
                if (r.rank[(size_t)next] >= 0 && meeting[(size_t)next] >= 0)
                    found = found < 0 ? next : common(found, next);
            if (found == meeting[(size_t)block]) continue;
            meeting[(size_t)block] = found;
            changed = true;
        }
    }
    for (size_t b = 0; b < f.blocks.size(); b++) f.blocks[b].meeting = meeting[b] == r.end ? -1 : meeting[b];
}

/* ---- registers that may be read before they are written ---- */

typedef std::vector<uint64_t> Bits; /* a bit for each register */
static bool has(const Bits &bits, int id) { return bits[(size_t)id / 64] >> id % 64 & 1; }
static void add(Bits &bits, int id) { bits[(size_t)id / 64] |= 1ull << id % 64; }

template <class F> static void for_each_read(const Function &f, int at, F found) {
    const Instruction &i = f.code[(size_t)at];
    const Origin &origin = f.origins[(size_t)at];
    for (int n = i.n_written; n < i.n_operands; n++)
        if (origin.ids[n] >= 0) found(origin.ids[n]);
    if (origin.address >= 0) found(origin.address);
    if (origin.guard >= 0) found(origin.guard);
}

/* Adds the registers that the instruction writes whenever it is reached. */
static void add_written(const Function &f, int at, Bits &bits) {
    const Instruction &i = f.code[(size_t)at];
    for (int n = 0; n < i.n_written && i.guard < 0; n++) add(bits, f.origins[(size_t)at].ids[n]);
}

/* Returns for each block the registers that have been written on every way to it. */
static std::vector<Bits> written_before(const Function &f) {
    size_t words = f.registers.size() / 64 + 1;
    std::vector<Bits> before(f.blocks.size(), Bits(words, ~0ull)), writes(f.blocks.size(), Bits(words, 0));
    before[0] = Bits(words, 0);
    for (size_t b = 0; b < f.blocks.size(); b++)
        for (int at = f.blocks[b].begin; at < f.blocks[b].end; at++) add_written(f, at, writes[b]);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t b = 0; b < f.blocks.size(); b++)
            for (int next : f.blocks[b].next)
                for (size_t w = 0; w < words; w++) {
                    uint64_t both = before[(size_t)next][w] & (before[b][w] | writes[b][w]);
                    changed |= both != before[(size_t)next][w];
                    before[(size_t)next][w] = both;
                }
    }
    return before;
}

/* Returns what an instruction makes of a number that nobody has written. The compiler computes ahead with such numbers
 * and leaves out the result, as memory checkers allow too: arithmetic passes them on, and a choice between two numbers
 * takes the state of the one it takes. */
static Undefined rule_of(const Instruction &i, const char *name) {
    if (strncmp(name, "selp.", 5) == 0) return CHOOSES;
    if (strcmp(name, "and.pred") == 0) return ENDS_IN_FALSE;
    if (strcmp(name, "or.pred") == 0) return ENDS_IN_TRUE;
    return i.kind == PLAIN && i.guard < 0 && i.address < 0 && i.of <= MOVE ? PASSES_ON : FAILS;
}

/* Returns the registers that at some place are read before they are written on all ways, and those that are computed
 * from them. */
static std::vector<char> find_unsure(const Function &f) {
    std::vector<Bits> before = written_before(f);
    std::vector<char> unsure(f.registers.size());
    bool changed = true;
    for (size_t b = 0; b < f.blocks.size(); b++) {
        Bits written = before[b];
        for (int at = f.blocks[b].begin; at < f.blocks[b].end; at++) {
            for_each_read(f, at, [&](int id) { unsure[(size_t)id] |= !has(written, id); });
            add_written(f, at, written);
        }
    }
    while (changed) {
        changed = false;
        for (size_t at = 0; at < f.code.size(); at++) {
            const Instruction &i = f.code[at];
            bool reads = false;
            if (i.undefined == FAILS) continue;
            for_each_read(f, (int)at, [&](int id) { reads |= unsure[(size_t)id]; });
            for (int n = 0; n < i.n_written && reads; n++) {
                char &written = unsure[(size_t)f.origins[at].ids[n]];
                changed |= !written;
                written = 1;
            }
        }
    }
    return unsure;
}

static void find_unwritten(Function &f) {
    for (size_t at = 0; at < f.code.size(); at++) f.code[at].undefined = rule_of(f.code[at], f.origins[at].name);
    std::vector<char> unsure = find_unsure(f);
    for (size_t at = 0; at < f.code.size(); at++) {
        Instruction &i = f.code[at];
        const Origin &origin = f.origins[at];
        bool any = false;
        for_each_read(f, (int)at, [&](int id) { any |= unsure[(size_t)id]; });
        for (int n = 0; n < i.n_written; n++) any |= unsure[(size_t)origin.ids[n]];
        i.is_unsure = any;
        f.has_unsure |= any;
    }
    for (char is_unsure : unsure) f.defined.push_back(is_unsure ? 0 : ALL);
}

void find_flow(Function &f) {
    if (f.code.empty()) fail("%s has no instructions", f.name.c_str());
    find_blocks(f);
    find_meetings(f);
    find_unwritten(f);
}

} // namespace ptx
} // namespace emulate
