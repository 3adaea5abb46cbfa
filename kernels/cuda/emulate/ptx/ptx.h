/* Executes the PTX that nvcc makes of the kernels: the code that a GPU gets, behind the same launch as the kernels that
 * a C++ compiler has made. Written from NVIDIA's description of the PTX instruction set, not from the other emulation
 * (warps.cpp), so that each checks the other.
 *
 * A warp runs in lock step. A register is an array of its 32 lanes, a predicate a mask of them, and an instruction is a
 * loop over the lanes. Where lanes take different branches, one side runs after the other, up to the place that all
 * paths meet: the immediate post-dominator.
 *
 *   text.cpp        words of the text, and where its functions are
 *   parse.cpp       a function: its variables, registers and instructions
 *   flow.cpp        basic blocks, where lanes meet again, which registers can be read before they are written
 *   forms.cpp       all forms of instructions: what has no row there is an error
 *   arithmetic.cpp, conversions.cpp, memory.cpp, copies.cpp, lanes.cpp
 *                   what they do
 *   races.cpp       accesses of shared memory that no barrier puts in order
 *   run.cpp         warps and blocks
 *   messages.cpp    names of what has gone wrong
 *   modules.cpp     what nvcc's host code calls: registration of modules, launches */
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/emulate/internal.h"

namespace emulate {
namespace ptx {

constexpr uint32_t ALL = 0xFFFFFFFFu;

/* Generic addresses: shared and local memory are windows that no host address lies in; global memory is the host's. The
 * lower half of a generic address is no address in the window. */
constexpr uint64_t SHARED_WINDOW = (1ull << 60) + (1 << 30), LOCAL_WINDOW = (2ull << 60) + (1 << 29),
                   WINDOW = 1ull << 32;
constexpr uint64_t PARAMETER_WINDOW = 3ull << 60; /* of kernels; parameters of other functions are local memory */
/* Addresses in shared memory: variables, and the memory that a launch asks for. 0 is none of them. */
constexpr size_t STATIC_BEGIN = 1024, DYNAMIC_BEGIN = 96 << 10, SHARED_BYTES = DYNAMIC_BEGIN + (228 << 10);
constexpr uint64_t NOWHERE = ~0ull; /* what a conversion between spaces makes of an address of another */

struct State; /* of a warp: run.cpp */
struct Instruction;
typedef void (*Handler)(State &s, const Instruction &i, uint32_t lanes);

enum Space : uint8_t { GENERIC, GLOBAL, SHARED, LOCAL, PARAM };
/* READ_ONLY: a load (.nc) of global memory that no thread of the launch may write, before it or after. */
enum Access : uint8_t { READ, READ_ONLY, WRITE, ATOMIC };

enum Class : uint8_t {
    INTEGER,
    FLOAT,
    SPECIAL,
    CONVERSION,
    MOVE,
    GLOBAL_ACCESS,
    SHARED_ACCESS,
    LOCAL_ACCESS,
    PARAMETER,
    ASYNC,
    ATOMIC_ACCESS,
    SHUFFLE,
    MATRIX_LOAD,
    MATRIX_PRODUCT,
    BARRIER,
    CONTROL,
    CLASSES
};

/* The work that the loop over instructions has to do itself. */
enum Kind : uint8_t { PLAIN, BRANCH, UNIFORM_BRANCH, RETURN, EXIT, TRAP, SLEEP, CALL, BLOCK_BARRIER };

/* A form of an instruction: its name with all modifiers. `operands` has a letter for each register, in the order of the
 * text: p a predicate, h 16 bits, w 32, d 64; those before the space are written. */
struct Form {
    const char *name;
    const char *operands;
    Handler run;
    Class of;
    Kind kind = PLAIN;
};
/* Returns the form of a name, NULL: none. */
const Form *find_form(const std::string &name);

/* One table for each file of handlers; it ends with a row without a name. */
extern const Form arithmetic_forms[], conversion_forms[], memory_forms[], copy_forms[], lane_forms[];

constexpr int MAX_OPERANDS = 16;

/* The result of an instruction on registers that have not been written: flow.cpp. */
enum Undefined : uint8_t { FAILS, PASSES_ON, CHOOSES, ENDS_IN_FALSE, ENDS_IN_TRUE };

struct Instruction {
    Handler run;
    int64_t offset;                 /* added to the address */
    int32_t operands[MAX_OPERANDS]; /* bytes from the beginning of the warp's registers */
    int32_t address, guard;         /* the same; -1: none */
    int32_t target;    /* of a branch: an index of an instruction; of a call: an index into Function.calls */
    uint32_t inverted; /* a bit for each operand: a predicate with a "!" */
    Kind kind;
    Class of;
    uint8_t n_written, n_operands; /* those that are written come first */
    uint8_t address_bytes;         /* of the address register */
    bool guard_is_inverted;
    bool is_unsure; /* reads or writes registers that perhaps have not been written */
    Undefined undefined;
};

/* The facts about an instruction that are not needed to run it. */
struct Origin {
    const char *name;                          /* of its form */
    int32_t line;                              /* of the module's text */
    int32_t source_file, source_line;          /* 0: not known */
    int32_t ids[MAX_OPERANDS], address, guard; /* of registers; -1: none */
};

struct Variable {
    Space space;
    size_t bytes, alignment, element_bytes;
    uint64_t address; /* in its space */
    bool is_dynamic;  /* shared memory that the launch asks for */
};

struct Register {
    char letter;    /* as in Form.operands */
    int32_t offset; /* in the warp's registers */
};

struct Function;
struct Call {
    std::string name;
    std::vector<uint64_t> results, arguments; /* local addresses */
};

struct BasicBlock {
    int begin, end; /* instructions */
    std::vector<int> next;
    int meeting; /* the block where all paths from here meet, -1: the end */
};

/* A special register (%tid.x): where its lanes are kept. */
struct Special {
    std::string name;
    int32_t offset;
};

struct Module;
struct Function {
    Module *module;
    std::string name;
    std::vector<Instruction> code;
    std::vector<Origin> origins;
    std::vector<uint32_t> defined; /* lanes of each register that are written when it begins: all, where that is sure */
    bool has_unsure;
    bool reads_only; /* perhaps has READ_ONLY accesses */
    std::vector<BasicBlock> blocks;
    std::vector<int> block_of; /* each instruction's */
    std::vector<Register> registers;
    std::vector<Special> specials;
    std::vector<char> constants; /* the beginning of a warp's registers */
    std::vector<Call> calls;
    std::vector<Variable> parameters, results;
    std::vector<Variable> shared; /* with addresses */
    uint64_t dynamic_shared;      /* its address, 0: has none */
    size_t register_bytes, parameter_bytes, local_bytes;
    int max_threads; /* 0: not stated */
};

struct Module {
    std::string text;
    bool is_scanned = false;
    std::unordered_map<std::string, std::pair<size_t, int>> functions; /* where in the text, and in which line */
    std::map<std::string, Variable> variables;
    std::vector<std::string> files; /* of the source */
    std::map<std::string, std::unique_ptr<Function>> parsed;
};

/* ---- text.cpp ---- */

struct Reader {
    const char *at, *end;
    int line;
    std::string word; /* the current one; "": the end of the text */
    void next();
    bool accept(const char *expected); /* goes on to the next word if the current one is `expected` */
    void expect(const char *expected);
    int64_t integer(); /* reads a number, with a sign */
    [[noreturn]] void fail_here(const char *what) const;
};
/* Finds the functions and variables of a module. */
void scan(Module &module);
Variable read_variable(Reader &reader, std::string *name);

/* ---- parse.cpp ---- */

/* Returns a function of a module, parsed when it is asked for the first time. */
const Function *function_of(Module &module, const std::string &name);

/* ---- flow.cpp ---- */

void find_flow(Function &function);

/* ---- memory.cpp: loads and stores, whose forms are too many for a table ---- */

/* Returns the form of a load or store from its name and the letter of its registers, 0 if a constant is stored; NULL:
 * there is none. */
const Form *memory_form(const std::string &name, char letter);

/* ---- messages.cpp ---- */

/* Returns a name of C++ as it is written there. */
std::string readable(const std::string &name);
/* Ends the program with a message that names the instruction, its line of the source and the lane (-1: the warp). */
[[noreturn]] void fail_in(const State &s, int lane, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- run.cpp ---- */

/* Where a warp of a function's call keeps its numbers. */
struct Frame {
    const Function *function;
    std::vector<char> memory; /* registers, aligned */
    char *registers;
    std::vector<uint32_t> defined; /* lanes of each register that have been written */
    std::vector<char> local;       /* of each lane */
};

/* Lanes that run together, and where they stop because others join them. */
struct Path {
    int pc, meeting; /* the instruction at which it ends, -1: the function's end */
    uint32_t lanes;
};

/* An asynchronous copy that lanes of a warp have issued. */
struct AsyncCopy {
    uint32_t lanes;
    uint32_t to[32], group[32];
    const char *from[32];
    int bytes, source_bytes[32];
    bool landed;
};

enum ByteState : uint8_t { ALLOCATED = 1, INITIALISED = 2, PENDING = 4 };

constexpr int WHOLE_WARP = 32; /* instead of a lane */

/* Who accessed something last: the time, 8 bits for the warp, 8 for the lane. */
typedef uint64_t Note;

/* A block in execution: its shared memory. */
struct Scene {
    Worker *worker;
    const char *parameters;
    char *shared;
    uint8_t *states;       /* of the bytes of shared memory */
    Note *writes, *reads;  /* of each two bytes */
    uint32_t time;         /* how many barriers there have been, of blocks and of warps */
    uint32_t barrier_time; /* of the block's last barrier */
    size_t shared_end;
    EmulateKernelCounts *counts; /* NULL: nobody wants them */
    uint64_t launch;             /* its number if global accesses are noted, else 0 */
};

/* A warp in execution. */
struct State {
    Scene *scene;
    Frame *frame;            /* of the function that runs */
    std::vector<Path> paths; /* the last one runs */
    std::vector<std::unique_ptr<Frame>> frames;
    uint32_t number, members, exited;
    uint32_t tid[3][32];
    const Instruction *instruction; /* that runs, for messages */
    int depth;                      /* of calls */
    enum { READY, ASLEEP, AT_BARRIER, DONE } status;
    const Instruction *barrier;
    uint32_t barrier_number;
    uint32_t vote;         /* lanes that vote with true at the barrier */
    uint32_t barrier_time; /* of the last bar.warp.sync */
    int naps;              /* how many times it has slept while no warp could run, or woken its other side */
    uint32_t groups[32];   /* the group of copies that each lane has open */
    std::vector<AsyncCopy> copies;
    uint64_t allocation_begin, allocation_end; /* of the last global access */
    bool allocation_is_constant;               /* .const memory */
    uint16_t *written, *read_only;             /* by byte of the allocation: marks of launches that did so */
    uint64_t steps;                            /* branches, calls and barriers so far */

    template <class T> T *lanes(const Instruction &i, int operand) {
        return reinterpret_cast<T *>(frame->registers + i.operands[operand]);
    }
    uint32_t &mask(const Instruction &i, int operand) { return *lanes<uint32_t>(i, operand); }
    /* The lanes in which a predicate that is read is true. */
    uint32_t truth(const Instruction &i, int operand) {
        return mask(i, operand) ^ (i.inverted >> operand & 1 ? ALL : 0);
    }
    void set_mask(const Instruction &i, int operand, uint32_t lanes, uint32_t values) {
        uint32_t &to = mask(i, operand);
        to = (to & ~lanes) | (values & lanes);
    }
};

/* Runs one block of a launch: Launch.run_block. */
void run_block(Worker &worker, const Launch &launch);

/* The lanes of an operation of the warp must be exactly those of its mask that exist. */
void require_together(State &s, uint32_t lanes, uint32_t mask);
/* The whole warp must take part. */
void require_whole(State &s, uint32_t lanes);

/* ---- copies.cpp ---- */

void require_no_copies(State &s, uint32_t lanes); /* when lanes return */

/* ---- memory.cpp ---- */

/* Returns the address of an instruction in one lane. */
uint64_t address_in(State &s, const Instruction &i, int lane);
/* Returns the host's address of bytes that one lane reads for the whole warp, or writes, after checking them. */
char *shared_to_read(State &s, int lane, uint64_t address, size_t bytes);
char *shared_to_write(State &s, int lane, uint64_t address, size_t bytes);
char *global_at(State &s, int lane, uint64_t address, size_t bytes, Access access);
/* Notes a variable in .const memory, which no kernel may write. */
void add_constant_memory(uint64_t begin);

/* ---- races.cpp ---- */

/* Notes an access by a lane, and fails if no barrier orders it behind others; by_lane may be WHOLE_WARP. */
void check_order(State &s, int lane, int by_lane, uint64_t address, size_t bytes, bool write);

/* ---- counts.cpp ---- */

/* Returns where a kernel's instructions are counted when one of its blocks begins; NULL if they are not. */
EmulateKernelCounts *counts_of(const Function &f);
void count_instruction(State &s, const Instruction &i, uint32_t lanes);
void count_branch(State &s);
void count_access(State &s, const Instruction &i, uint32_t lanes, Space space, const uint64_t *addresses, size_t bytes);

/* Stores f(lane) for each of the lanes. */
template <class T, class F> inline void each(T *to, uint32_t lanes, F f) {
    if (lanes == ALL) {
#pragma GCC ivdep
        for (int l = 0; l < 32; l++) to[l] = f(l);
    } else {
        for (uint32_t left = lanes; left; left &= left - 1) {
            int l = __builtin_ctz(left);
            to[l] = f(l);
        }
    }
}

} // namespace ptx
} // namespace emulate
