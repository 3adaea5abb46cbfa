/* Loads, stores and atomics (PTX ISA 9.7.9 and 9.7.13.5), and conversions of addresses between spaces. Every address is
 * checked: it must be a multiple of the access's size, lie in memory that exists, and in the space that the instruction
 * names; shared memory must have been written before it is read, and no asynchronous copy may be on its way there. */
#include <string.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "kernels/cuda/emulate/ptx/handlers.h"

namespace emulate {
namespace ptx {

/* ---- where a lane's address is ---- */

[[noreturn]] static void fail_in_shared(State &s, int lane, uint64_t address, size_t bytes) {
    const uint8_t *states = s.scene->states + address;
    uint8_t any = 0, all = 0xFF;
    for (size_t b = 0; b < bytes; b++) any |= states[b], all &= states[b];
    fail_in(s, lane,
            !(all & ALLOCATED) ? "%zu bytes at 0x%llx of shared memory are outside its variables"
            : any & PENDING    ? "%zu bytes at 0x%llx of shared memory: an asynchronous copy has not been waited for"
                               : "reads %zu bytes at 0x%llx of shared memory that have not been written",
            bytes, (unsigned long long)address);
}

/* Whether n bytes of shared memory are in the state for an access; notes that they are written. Fast where n is known.
 */
static inline __attribute__((always_inline)) bool take_states(uint8_t *states, size_t n, bool write) {
    uint8_t expected = (uint8_t)(ALLOCATED | INITIALISED), or_so = write ? INITIALISED : 0, wrong = 0;
    for (size_t b = 0; b < n; b++) wrong |= (uint8_t)((states[b] | or_so) ^ expected);
    for (size_t b = 0; write && !wrong && b < n; b++) states[b] = expected;
    return !wrong;
}

static char *shared_at(State &s, int lane, uint64_t address, size_t bytes, bool write, int by_lane) {
    uint8_t *states = s.scene->states + address;
    if (address + bytes > SHARED_BYTES || address + bytes < address)
        fail_in(s, lane, "0x%llx is no address in shared memory", (unsigned long long)address);
    if (!(bytes == 4    ? take_states(states, 4, write)
          : bytes == 16 ? take_states(states, 16, write)
                        : take_states(states, bytes, write)))
        fail_in_shared(s, lane, address, bytes);
    check_order(s, lane, by_lane, address, bytes, write);
    return s.scene->shared + address;
}

static char *local_at(State &s, int lane, uint64_t address, size_t bytes) {
    size_t all = s.frame->function->local_bytes;
    if (address + bytes > all || address + bytes < address)
        fail_in(s, lane, "0x%llx is no address in the thread's memory of %zu bytes", (unsigned long long)address, all);
    return s.frame->local.data() + all * (size_t)lane + address;
}

static char *parameter_at(State &s, int lane, uint64_t address, size_t bytes) {
    if (address < PARAMETER_WINDOW) return local_at(s, lane, address, bytes); /* of a call */
    address -= PARAMETER_WINDOW;
    if (address + bytes > s.frame->function->parameter_bytes)
        fail_in(s, lane, "byte %llu of the kernel's parameters", (unsigned long long)address);
    return const_cast<char *>(s.scene->parameters) + address;
}

/* The marks of launches on the bytes of an allocation: 1 + the number % 65535 of the last one that wrote a byte, and of
 * the last one that read it with .nc. Pages of the marks that are never touched cost nothing. */
struct Marks {
    size_t bytes;
    uint64_t round; /* launch / 65535: all are cleared when it changes */
    uint16_t *written, *read_only;
};
constexpr uint64_t ROUND = 65535;

static std::mutex marks_lock;
static std::unordered_set<uint64_t> constants; /* where they begin */

void add_constant_memory(uint64_t begin) {
    std::lock_guard<std::mutex> hold(marks_lock);
    constants.insert(begin);
}

/* Finds what is known of the allocation of the last global access. */
static void open_allocation(State &s) {
    static std::unordered_map<uint64_t, Marks> all;
    std::lock_guard<std::mutex> hold(marks_lock);
    size_t bytes = s.allocation_end - s.allocation_begin;
    s.allocation_is_constant = constants.count(s.allocation_begin) != 0;
    if (!s.scene->launch) return;
    Marks &marks = all[s.allocation_begin];
    if (marks.bytes != bytes || marks.round != s.scene->launch / ROUND) {
        free(marks.written);
        free(marks.read_only);
        marks = {bytes, s.scene->launch / ROUND, static_cast<uint16_t *>(calloc(bytes, 2)),
                 static_cast<uint16_t *>(calloc(bytes, 2))};
        if (!marks.written || !marks.read_only) fail("no memory for the marks of %zu bytes", bytes);
    }
    s.written = marks.written;
    s.read_only = marks.read_only;
}

/* Notes an access that writes or is READ_ONLY, and fails if the launch has done the other to one of the bytes. */
static void mark(State &s, int lane, uint64_t address, size_t bytes, bool write) {
    size_t at = address - s.allocation_begin;
    uint16_t *mine = (write ? s.written : s.read_only) + at, *others = (write ? s.read_only : s.written) + at;
    uint16_t now = (uint16_t)(1 + s.scene->launch % ROUND);
    bool any = false;
    for (size_t b = 0; b < bytes; b++) any |= others[b] == now;
    for (size_t b = 0; b < bytes; b++) mine[b] = now;
    if (any)
        fail_in(s, lane,
                write ? "writes to 0x%llx what the launch has read with .nc: undefined"
                      : "reads from 0x%llx with .nc what the launch has written: undefined",
                (unsigned long long)address);
}

char *global_at(State &s, int lane, uint64_t address, size_t bytes, Access access) {
    if (address < s.allocation_begin || address + bytes > s.allocation_end) {
        if (!find_memory(address, &s.allocation_begin, &s.allocation_end) || address + bytes > s.allocation_end) {
            s.allocation_end = s.allocation_begin = 0;
            fail_in(s, lane, "%zu bytes at 0x%llx are outside all global memory", bytes, (unsigned long long)address);
        }
        open_allocation(s);
    }
    if (access >= WRITE && s.allocation_is_constant)
        fail_in(s, lane, "writes to 0x%llx, which is constant memory", (unsigned long long)address);
    if (access != READ && s.scene->launch) mark(s, lane, address, bytes, access != READ_ONLY);
    return reinterpret_cast<char *>(address);
}

char *shared_to_write(State &s, int lane, uint64_t address, size_t bytes) {
    return shared_at(s, lane, address, bytes, true, lane);
}
char *shared_to_read(State &s, int lane, uint64_t address, size_t bytes) {
    return shared_at(s, lane, address, bytes, false, WHOLE_WARP);
}

uint64_t address_in(State &s, const Instruction &i, int lane) {
    if (i.address < 0) return (uint64_t)i.offset;
    const char *reg = s.frame->registers + i.address;
    if (i.address_bytes == 4) return (U32)(reinterpret_cast<const U32 *>(reg)[lane] + (U32)i.offset);
    return reinterpret_cast<const U64 *>(reg)[lane] + (U64)i.offset;
}

/* Finds `bytes` bytes for each of the lanes. */
template <Space SPACE, Access ACCESS>
static void locate(State &s, const Instruction &i, uint32_t lanes, size_t bytes, char **at) {
    uint64_t addresses[32], all = 0;
    for (int l = 0; l < 32; l++) addresses[l] = address_in(s, i, l);
    for (uint32_t left = lanes; left; left &= left - 1) all |= addresses[__builtin_ctz(left)];
    if (all % bytes)
        for (uint32_t left = lanes; left; left &= left - 1)
            if (addresses[__builtin_ctz(left)] % bytes)
                fail_in(s, __builtin_ctz(left), "address 0x%llx is not a multiple of %zu",
                        (unsigned long long)addresses[__builtin_ctz(left)], bytes);
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        uint64_t address = addresses[l];
        Space space = SPACE;
        if (SPACE == GENERIC) {
            space = address - SHARED_WINDOW < WINDOW ? SHARED : address - LOCAL_WINDOW < WINDOW ? LOCAL : GLOBAL;
            address -= space == SHARED ? SHARED_WINDOW : space == LOCAL ? LOCAL_WINDOW : 0;
        }
        at[l] = space == SHARED  ? shared_at(s, l, address, bytes, ACCESS == WRITE, l)
                : space == LOCAL ? local_at(s, l, address, bytes)
                : space == PARAM ? parameter_at(s, l, address, bytes)
                                 : global_at(s, l, address, bytes, ACCESS);
    }
    if (s.scene->counts) count_access(s, i, lanes, SPACE, addresses, bytes);
}

/* ---- loads and stores of one element of type E for each register, which are of type R ---- */

template <Space SPACE, class E, class R, Access ACCESS = READ>
static void run_load(State &s, const Instruction &i, uint32_t lanes) {
    char *at[32];
    locate<SPACE, ACCESS>(s, i, lanes, sizeof(E) * i.n_operands, at);
    for (int n = 0; n < i.n_operands; n++)
        each(s.lanes<R>(i, n), lanes, [&](int l) {
            E element;
            memcpy(&element, at[l] + sizeof(E) * (size_t)n, sizeof element);
            return (R)element;
        });
}

template <Space SPACE, class E, class R> static void run_store(State &s, const Instruction &i, uint32_t lanes) {
    char *at[32];
    locate<SPACE, WRITE>(s, i, lanes, sizeof(E) * i.n_operands, at);
    for (uint32_t left = lanes; left; left &= left - 1)
        for (int n = 0; n < i.n_operands; n++) {
            int l = __builtin_ctz(left);
            E element = (E)s.lanes<R>(i, n)[l];
            memcpy(at[l] + sizeof(E) * (size_t)n, &element, sizeof element);
        }
}

/* The kinds of access by the sizes of elements and registers. */
template <Space SPACE, class E, class R> static Handler with_access(Access access) {
    if (access == WRITE) return run_store<SPACE, E, R>;
    constexpr Access NC = SPACE == GLOBAL ? READ_ONLY : READ;
    if (access == READ_ONLY) return run_load<SPACE, E, R, NC>;
    return run_load<SPACE, E, R>;
}
template <Space SPACE, class E> static Handler for_register(Access access, char letter) {
    if (letter == 'h') return with_access<SPACE, E, U16>(access);
    if (letter == 'w') return with_access<SPACE, E, U32>(access);
    return with_access<SPACE, E, U64>(access);
}
template <Space SPACE> static Handler for_element(Access access, const std::string &type, char letter) {
    bool is_signed = type[0] == 's';
    switch (atoi(type.c_str() + 1)) {
    case 8:
        return is_signed ? for_register<SPACE, int8_t>(access, letter) : for_register<SPACE, uint8_t>(access, letter);
    case 16:
        return is_signed ? for_register<SPACE, S16>(access, letter) : for_register<SPACE, U16>(access, letter);
    case 32:
        return is_signed ? for_register<SPACE, S32>(access, letter) : for_register<SPACE, U32>(access, letter);
    case 64:
        return for_register<SPACE, U64>(access, letter);
    }
    return NULL;
}

static Handler for_space(Space space, Access access, const std::string &type, char letter) {
    switch (space) {
    case GENERIC:
        return for_element<GENERIC>(access, type, letter);
    case GLOBAL:
        return for_element<GLOBAL>(access, type, letter);
    case SHARED:
        return for_element<SHARED>(access, type, letter);
    case LOCAL:
        return for_element<LOCAL>(access, type, letter);
    case PARAM:
        return for_element<PARAM>(access, type, letter);
    }
    return NULL;
}

/* "ld.global.nc.v4.f32" ... with any hints for caches; the type comes last. */
static bool read_name(const std::string &name, Access *access, Space *space, int *registers, std::string *type) {
    static const char *const hints[] = {"volatile", "weak", "ca", "cg", "cs", "lu", "cv", "wb", "wt"};
    size_t at = 2;
    bool is_constant = false;
    *access = name.compare(0, 3, "st.") == 0 ? WRITE : READ;
    *space = GENERIC;
    *registers = 1;
    if (*access == READ && name.compare(0, 3, "ld.") != 0) return false;
    while (at < name.size()) {
        size_t dot = std::min(name.find('.', at + 1), name.size());
        std::string part = name.substr(at + 1, dot - at - 1);
        at = dot;
        if (part == "global" || part == "const")
            *space = GLOBAL, is_constant = part == "const";
        else if (part == "nc" && *access == READ)
            *access = READ_ONLY;
        else if (part == "shared")
            *space = SHARED;
        else if (part == "local")
            *space = LOCAL;
        else if (part == "param")
            *space = PARAM;
        else if (part == "v2" || part == "v4")
            *registers = part[1] - '0';
        else if (at == name.size() && strchr("busf", part[0]))
            *type = part;
        else if (std::find(std::begin(hints), std::end(hints), part) == std::end(hints) && part[0] != 'L')
            return false;
    }
    return !type->empty() && !(is_constant && *access == WRITE);
}

const Form *memory_form(const std::string &name, char letter) {
    static std::map<std::pair<std::string, char>, Form> forms;
    static std::mutex lock;
    static const Class classes[] = {GLOBAL_ACCESS, GLOBAL_ACCESS, SHARED_ACCESS, LOCAL_ACCESS, PARAMETER};
    Access access;
    Space space;
    int registers;
    std::string type;
    if (!read_name(name, &access, &space, &registers, &type)) return NULL;
    if (!letter) letter = atoi(type.c_str() + 1) == 64 ? 'd' : atoi(type.c_str() + 1) == 32 ? 'w' : 'h';
    std::lock_guard<std::mutex> hold(lock);
    auto place = forms.insert({{name, letter}, Form()});
    Form &form = place.first->second;
    if (place.second) {
        std::string letters = (access == WRITE ? " " : "") + std::string((size_t)registers, letter);
        form = {strdup(name.c_str()), strdup(letters.c_str()), for_space(space, access, type, letter), classes[space]};
    }
    return form.run ? &form : NULL;
}

/* ---- atomics: one lane after another, in an order that the instruction leaves open. Sums of f32 in global memory
 * flush subnormal numbers, those in shared memory do not (PTX ISA, atom). ---- */

template <Space SPACE, class T, class F>
static void run_atomic(State &s, const Instruction &i, uint32_t lanes, F update) {
    char *at[32];
    locate<SPACE, ATOMIC>(s, i, lanes, sizeof(T), at);
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        T before, after, *p = reinterpret_cast<T *>(at[l]);
        __atomic_load(p, &before, __ATOMIC_RELAXED);
        do after = update(before, l);
        while (!__atomic_compare_exchange(p, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        if (i.n_written) s.lanes<T>(i, 0)[l] = before;
    }
}

/* An expression of what is there, x, and the operand, y, of type Number; of the second operand z. */
#define ATOMIC(SPACE, T, Number, expression)                                                                           \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        const T *a = s.lanes<T>(i, i.n_written), *b = s.lanes<T>(i, i.n_operands - 1);                                 \
        run_atomic<SPACE, T>(s, i, lanes, [=](T before, int l) {                                                       \
            Number x = __builtin_bit_cast(Number, before), y = __builtin_bit_cast(Number, a[l]);                       \
            Number z = __builtin_bit_cast(Number, b[l]);                                                               \
            (void)x, (void)y, (void)z;                                                                                 \
            return __builtin_bit_cast(T, (Number)(expression));                                                        \
        });                                                                                                            \
    }
#define ATOMIC_IN(SPACE, space, name, letter, T, Number, expression)                                                   \
    {"atom" space name, letter " " letter, ATOMIC(SPACE, T, Number, expression), ATOMIC_ACCESS}, {                     \
        "red" space name, " " letter, ATOMIC(SPACE, T, Number, expression), ATOMIC_ACCESS                              \
    }
#define ATOMIC_FORMS(SPACE, space)                                                                                     \
    ATOMIC_IN(SPACE, space, ".add.u32", "w", U32, U32, x + y),                                                         \
        ATOMIC_IN(SPACE, space, ".add.s32", "w", U32, U32, x + y),                                                     \
        ATOMIC_IN(SPACE, space, ".add.u64", "d", U64, U64, x + y),                                                     \
        ATOMIC_IN(SPACE, space, ".add.f32", "w", U32, F32, SPACE == SHARED ? x + y : flush(flush(x) + flush(y))),      \
        ATOMIC_IN(SPACE, space, ".add.f64", "d", U64, F64, x + y),                                                     \
        ATOMIC_IN(SPACE, space, ".and.b32", "w", U32, U32, x &y),                                                      \
        ATOMIC_IN(SPACE, space, ".or.b32", "w", U32, U32, x | y),                                                      \
        ATOMIC_IN(SPACE, space, ".xor.b32", "w", U32, U32, x ^ y),                                                     \
        ATOMIC_IN(SPACE, space, ".min.u32", "w", U32, U32, x < y ? x : y),                                             \
        ATOMIC_IN(SPACE, space, ".max.u32", "w", U32, U32, x > y ? x : y),                                             \
        ATOMIC_IN(SPACE, space, ".min.s32", "w", U32, S32, x < y ? x : y),                                             \
        ATOMIC_IN(SPACE, space, ".max.s32", "w", U32, S32, x > y ? x : y),                                             \
        {"atom" space ".exch.b32", "w w", ATOMIC(SPACE, U32, U32, y), ATOMIC_ACCESS},                                  \
        {"atom" space ".exch.b64", "d d", ATOMIC(SPACE, U64, U64, y), ATOMIC_ACCESS},                                  \
        {"atom" space ".cas.b32", "w ww", ATOMIC(SPACE, U32, U32, x == y ? z : x), ATOMIC_ACCESS}, {                   \
        "atom" space ".cas.b64", "d dd", ATOMIC(SPACE, U64, U64, x == y ? z : x), ATOMIC_ACCESS                        \
    }

/* ---- conversions of addresses ---- */

template <uint64_t AT> static void run_to_generic(State &s, const Instruction &i, uint32_t lanes) {
    const U64 *a = s.lanes<U64>(i, 1);
    each(s.lanes<U64>(i, 0), lanes, [=](int l) { return a[l] + AT; });
}
template <uint64_t AT> static void run_from_generic(State &s, const Instruction &i, uint32_t lanes) {
    const U64 *a = s.lanes<U64>(i, 1);
    each(s.lanes<U64>(i, 0), lanes, [=](int l) { return a[l] - AT < WINDOW ? a[l] - AT : NOWHERE; });
}

const Form memory_forms[] = {
    ATOMIC_FORMS(GLOBAL, ".global"),
    ATOMIC_FORMS(SHARED, ".shared"),
    ATOMIC_FORMS(GENERIC, ""),
    {"cvta.shared.u64", "d d", run_to_generic<SHARED_WINDOW>, INTEGER},
    {"cvta.local.u64", "d d", run_to_generic<LOCAL_WINDOW>, INTEGER},
    {"cvta.global.u64", "d d", run_to_generic<0>, INTEGER},
    {"cvta.to.shared.u64", "d d", run_from_generic<SHARED_WINDOW>, INTEGER},
    {"cvta.to.local.u64", "d d", run_from_generic<LOCAL_WINDOW>, INTEGER},
    {"cvta.to.global.u64", "d d", run_to_generic<0>, INTEGER},
    {"cvta.to.const.u64", "d d", run_to_generic<0>, INTEGER},
    {"membar.sys", "", [](State &, const Instruction &, uint32_t) { __atomic_thread_fence(__ATOMIC_SEQ_CST); },
     CONTROL},
    {"membar.gl", "", [](State &, const Instruction &, uint32_t) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }, CONTROL},
    {},
};

} // namespace ptx
} // namespace emulate
