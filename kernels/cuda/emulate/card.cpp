/* The emulated card: its properties, and the memory taken by allocations, code and graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/cuda/emulate/internal.h"

namespace emulate {

struct Card {
    const char *word, *name;
    int capability, multiprocessors;
    double gigabytes; /* of 2^30 bytes, as the runtime reports them: less than the data sheet says */
};

/* Bytes of a card named by its word that are taken besides allocations. No document of NVIDIA's says how many.
 *
 * CONTEXT: users report 256 MiB (RTX 3090: invoke-ai/InvokeAI issue 9413) to 0.5 GiB (A100: JBjoernskov/Twin4Build
 * issue 134; pytorch/serve issue 2128) before any kernel is loaded. The most is charged.
 *
 * CODE, per kernel: from CUDA 12.2 on a kernel is loaded when it is first used (CUDA programming guide, "Lazy
 * Loading"); before, the first use of a module loads all its kernels. For 8.0 those of gemm_bf16.cu have up to 53 KB of
 * code, those of elementwise.cu 22. 256 KB are assumed, for what the driver rounds.
 *
 * NODE, per kernel of a graph that can be launched: 64 KB until CUDA 12.4 and driver 550 (PyTorch, "CUDAGraph Trees").
 */
static const size_t CONTEXT = (size_t)512 << 20, CODE = 256 << 10, NODE = 64 << 10;

static const Card cards[] = {{"t4", "Tesla T4", 75, 40, 14.75},
                             {"l4", "NVIDIA L4", 89, 58, 22.03},
                             {"a100", "NVIDIA A100-SXM4-40GB", 80, 108, 39.59},
                             {"h100", "NVIDIA H100 80GB HBM3", 90, 132, 79.11}};

/* Returns the card that EMULATE_CARD names by its word. Otherwise a card with few multiprocessors, so that grids as
 * large as the device still loop, and with the variable's text as its name. The environment is read at every call, so
 * that a test may change it before opening the device. */
static Card card() {
    const char *text = getenv("EMULATE_CARD");
    bool given = text && *text;
    for (const Card &known : cards)
        if (given && !strcmp(text, known.word)) return known;
    if (given && *text >= 'a' && *text <= 'z')
        fail("EMULATE_CARD: %s is none of t4, l4, a100 and h100, nor a whole name such as \"Tesla T4\"", text);
    return {"", given ? text : "emulated", 89, 4, 16};
}
static uint64_t of_card(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}
/* Returns a charge: the variable's bytes, otherwise those of a card that is named by its word. */
static size_t charge(const char *variable, size_t of_named_card) {
    return of_card(variable, *card().word ? of_named_card : 0);
}
int card_devices() { return std::max(1, (int)of_card("EMULATE_DEVICES", 1)); }
const char *card_name() { return card().name; }
size_t card_memory() { return of_card("EMULATE_MEMORY", (uint64_t)(card().gigabytes * 0x1p30)); }
int card_multiprocessors() { return (int)of_card("EMULATE_MULTIPROCESSORS", (uint64_t)card().multiprocessors); }
int card_capability() { return (int)of_card("EMULATE_CAPABILITY", (uint64_t)card().capability); }
int opened_capability = 89;

/* Bytes of shared memory of a block that has asked for it: the CUDA programming guide's table of capabilities. */
size_t card_shared_limit() {
    static const struct { int capability, kilobytes; } limits[] = {{90, 227}, {86, 99}, {80, 163}, {75, 64}, {70, 96}};
    for (auto limit : limits)
        if (card_capability() >= limit.capability) return (size_t)limit.kilobytes << 10;
    return SHARED_WITHOUT_ASKING;
}

/* Returns whether the program has code for the card. EMULATE_BUILT_FOR lists capabilities ("75 80"): code of one runs
 * on cards of the same generation that are no older, and the PTX of the last, which is that of 8.0 for cards from 8.0
 * on, on all later cards. Without the variable the program has code for every card. */
static bool has_code() {
    const char *text = getenv("EMULATE_BUILT_FOR");
    int card = card_capability(), built = 0;
    if (!text) return true;
    for (char *end; (built = (int)strtol(text, &end, 10)), end != text; text = end) {
        bool last = !end[strspn(end, " ")];
        int ptx = built < 80 ? built : 80;
        if ((last && ptx <= card) || (built <= card && built / 10 == card / 10)) return true;
    }
    return false;
}

static std::mutex lock;
static size_t allocated;
static std::map<const void *, size_t> code; /* of kernels that have been used: what it takes of the device's memory */
static size_t code_and_graphs;
static bool has_context;
static int failing_graphs, failing_graph_launches;
static int64_t memory_calls, failing_call = (int64_t)of_card("EMULATE_FAIL_MEMORY", 0);

static bool next_call_fails() { return ++memory_calls == failing_call; }

/* Says that the environment names a call that a program did not come to, so that who tries all calls knows the end. */
__attribute__((destructor)) static void report_call_not_reached() {
    uint64_t wanted = of_card("EMULATE_FAIL_MEMORY", 0);
    if (wanted > (uint64_t)memory_calls)
        fprintf(stderr, "emulate: EMULATE_FAIL_MEMORY=%llu, but there were %lld calls\n", (unsigned long long)wanted,
                (long long)memory_calls);
}

static size_t available() {
    size_t all = card_memory(), context = has_context ? charge("EMULATE_CONTEXT", CONTEXT) : 0;
    size_t taken = context + allocated + code_and_graphs;
    return taken < all ? all - taken : 0;
}

size_t card_available() {
    std::lock_guard<std::mutex> hold(lock);
    return available();
}

void card_take_memory(size_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    allocated += bytes;
}

void card_release_memory(size_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    allocated -= bytes;
}

bool memory_call_fails() {
    std::lock_guard<std::mutex> hold(lock);
    return next_call_fails();
}

/* Makes the context, unless it is there: EMULATE_CONTEXT bytes. */
cudaError_t make_context() {
    std::lock_guard<std::mutex> hold(lock);
    if (has_context) return cudaSuccess;
    if (next_call_fails() || charge("EMULATE_CONTEXT", CONTEXT) > available()) return cudaErrorMemoryAllocation;
    has_context = true;
    return cudaSuccess;
}

/* Loads a kernel's code, EMULATE_CODE bytes, when the kernel is first used, as CUDA does by default. Captured launches
 * may load it or not: here they can fail, but load nothing. */
cudaError_t load_code(const void *kernel, bool captured) {
    std::lock_guard<std::mutex> hold(lock);
    if (!has_code()) return cudaErrorNoKernelImageForDevice;
    if (code.count(kernel)) return cudaSuccess;
    size_t bytes = captured ? 0 : charge("EMULATE_CODE", CODE);
    if (next_call_fails() || bytes > available()) return cudaErrorMemoryAllocation;
    if (!captured) code_and_graphs += code[kernel] = bytes;
    return cudaSuccess;
}

/* Takes memory for a graph: EMULATE_GRAPH bytes, on a card that is named by its word so many for each kernel. */
cudaError_t take_graph(size_t kernels, size_t *bytes) {
    std::lock_guard<std::mutex> hold(lock);
    *bytes = charge("EMULATE_GRAPH", kernels * NODE);
    if (next_call_fails() || (failing_graphs > 0 ? failing_graphs-- : *bytes > available()))
        return set_error(cudaErrorMemoryAllocation);
    code_and_graphs += *bytes;
    return cudaSuccess;
}
void release_graph(size_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    code_and_graphs -= bytes;
}
bool graph_launch_fails() { return memory_call_fails() || (failing_graph_launches > 0 && failing_graph_launches--); }

} // namespace emulate

void emulate_fail_memory(int64_t call) {
    std::lock_guard<std::mutex> hold(emulate::lock);
    emulate::failing_call = call;
    emulate::memory_calls = 0;
}
int64_t emulate_memory_calls(void) {
    std::lock_guard<std::mutex> hold(emulate::lock);
    return emulate::memory_calls;
}
void emulate_fail_graphs(int graphs, int launches) {
    emulate::failing_graphs = graphs;
    emulate::failing_graph_launches = launches;
}
