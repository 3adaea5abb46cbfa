/* Reads a function: its parameters, variables, registers and instructions. */
#include <ctype.h>
#include <stdlib.h>

#include <algorithm>
#include <mutex>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

struct Parser {
    Module &module;
    Function &f;
    Reader r;
    struct Scope {
        std::map<std::string, int> registers; /* by name, their ids */
        std::map<std::string, char> families; /* "%r" of "%r<23>", their letters */
        std::map<std::string, Variable> variables;
    };
    std::vector<Scope> scopes;
    std::map<std::string, int> labels; /* indices of instructions */
    std::vector<std::string> wanted_labels;
    std::map<std::pair<uint64_t, char>, int32_t> constants; /* where they lie */
    size_t local_bytes;
    int source_file, source_line;
};

static size_t width_of(char letter) { return letter == 'd' ? 8 : letter == 'h' ? 2 : 4; }
/* A predicate is one mask, the others are 32 lanes. */
static size_t bytes_of(char letter) { return letter == 'p' ? 4 : 32 * width_of(letter); }

static char letter_of_type(const Reader &r) {
    const std::string &type = r.word;
    if (type == ".pred") return 'p';
    size_t bits = (size_t)atoi(type.c_str() + 2);
    if (bits != 16 && bits != 32 && bits != 64) r.fail_here("unknown type of registers");
    return bits == 16 ? 'h' : bits == 32 ? 'w' : 'd';
}

static int add_register(Parser &p, const std::string &name, char letter, Parser::Scope &scope) {
    p.f.registers.push_back({letter, 0});
    return scope.registers[name] = (int)p.f.registers.size() - 1;
}

/* Returns the id of a register; -1: no register has this name. */
static int find_register(Parser &p, const std::string &name) {
    for (size_t i = p.scopes.size(); i--;) {
        auto at = p.scopes[i].registers.find(name);
        if (at != p.scopes[i].registers.end()) return at->second;
    }
    size_t digits = name.find_first_of("0123456789");
    if (name[0] != '%' || digits == std::string::npos) return -1;
    for (size_t i = p.scopes.size(); i--;) {
        auto family = p.scopes[i].families.find(name.substr(0, digits));
        if (family != p.scopes[i].families.end()) return add_register(p, name, family->second, p.scopes[i]);
    }
    return -1;
}

/* ".reg .b32 %r<23>;" or ".reg .b16 low, high;", after .reg. */
static void read_registers(Parser &p) {
    char letter = letter_of_type(p.r);
    p.r.next();
    do {
        std::string name = p.r.word;
        p.r.next();
        if (p.r.accept("<")) {
            p.scopes.back().families[name] = letter;
            p.r.integer();
            p.r.expect(">");
        } else {
            add_register(p, name, letter, p.scopes.back());
        }
    } while (p.r.accept(","));
    p.r.expect(";");
}

static uint64_t align_up(uint64_t x, uint64_t alignment) { return (x + alignment - 1) / alignment * alignment; }

/* Places a variable of shared memory, RED_ZONE behind the last one; dynamic memory has a place of its own. Addresses
 * are multiples of the variable's alignment, up to 128, but not of twice that: ptxas and the card promise no more. */
static void place_shared(Parser &p, Variable *v) {
    size_t end = p.f.shared.empty() ? STATIC_BEGIN : p.f.shared.back().address + p.f.shared.back().bytes + RED_ZONE;
    size_t behind = v->alignment < 128 ? v->alignment : 0; /* a multiple of 128 */
    if (v->is_dynamic) {
        v->address = DYNAMIC_BEGIN + behind;
        if (p.f.dynamic_shared && p.f.dynamic_shared != v->address)
            p.r.fail_here("dynamic shared memory under two names of different alignment");
        p.f.dynamic_shared = v->address;
        return;
    }
    v->address = align_up(end, 128) + behind;
    if (v->address + v->bytes + RED_ZONE > DYNAMIC_BEGIN) p.r.fail_here("too many variables in shared memory");
    p.f.shared.push_back(*v);
}

/* Variables of a function: of shared memory, of the thread, and the parameters of calls, which are the thread's too.
 * Their addresses, as those of shared memory, are multiples of the variable's alignment only, up to 32. */
static void read_local_variable(Parser &p, Space space) {
    std::string name;
    Variable v = read_variable(p.r, &name);
    v.space = space;
    if (space == SHARED) {
        place_shared(p, &v);
    } else {
        v.address = align_up(p.local_bytes, 32) + (v.alignment < 32 ? v.alignment : 0);
        p.local_bytes = v.address + v.bytes;
    }
    p.scopes.back().variables[name] = v;
    p.r.expect(";");
}

static const Variable *find_variable(Parser &p, const std::string &name) {
    for (size_t i = p.scopes.size(); i--;) {
        auto at = p.scopes[i].variables.find(name);
        if (at != p.scopes[i].variables.end()) return &at->second;
    }
    auto at = p.module.variables.find(name);
    if (at == p.module.variables.end()) return NULL;
    if (at->second.space != SHARED) return &at->second;
    Variable mine = at->second; /* shared memory of the module: each function that uses it has a place for it */
    place_shared(p, &mine);
    return &(p.scopes[0].variables[name] = mine);
}

/* ---- operands ---- */

/* Returns where the lanes of a constant lie. */
static int32_t constant(Parser &p, uint64_t value, char letter) {
    if (letter != 'd') value &= letter == 'h' ? 0xFFFFu : 0xFFFFFFFFu;
    auto at = p.constants.find({value, letter});
    if (at != p.constants.end()) return at->second;
    size_t offset = p.f.constants.size();
    p.f.constants.resize(offset + (letter == 'p' ? 128 : bytes_of(letter))); /* lanes stay aligned */
    for (size_t lane = 0; lane < (letter == 'p' ? 1 : 32); lane++)
        memcpy(&p.f.constants[offset + lane * width_of(letter)], &value, width_of(letter));
    return p.constants[{value, letter}] = (int32_t)offset;
}

/* Reads a number: an integer, or the bits of a float after 0f or of a double after 0d. */
static uint64_t read_number(Parser &p) {
    if (p.r.word[0] == '0' && (p.r.word[1] == 'f' || p.r.word[1] == 'd' || p.r.word[1] == 'F' || p.r.word[1] == 'D')) {
        uint64_t bits = strtoull(p.r.word.c_str() + 2, NULL, 16);
        p.r.next();
        return bits;
    }
    return (uint64_t)p.r.integer();
}

static bool is_number(const Reader &r) { return isdigit((unsigned char)r.word[0]) || r.word == "-"; }

static int32_t special_register(Parser &p, const std::string &name) {
    for (const Special &special : p.f.specials)
        if (special.name == name) return special.offset;
    static const char *const known[] = {"%tid.", "%ntid.", "%ctaid.", "%nctaid."};
    bool is_known = name == "%laneid";
    for (const char *stem : known) is_known |= name.compare(0, strlen(stem), stem) == 0;
    if (!is_known) p.r.fail_here(("the special register " + name + " is not known").c_str());
    /* A place among the constants, which the block or the warp fills in. */
    int32_t offset = (int32_t)p.f.constants.size();
    p.f.constants.resize(p.f.constants.size() + bytes_of('w'));
    p.f.specials.push_back({name, offset});
    return offset;
}

/* An operand as it stands in the text, before it is known how wide the instruction wants it. */
struct Operand {
    enum { REGISTER, NUMBER, SPECIAL } kind;
    int id;          /* of a register */
    uint64_t number; /* or the address of a variable */
    int32_t offset;  /* of a special register */
    bool inverted;
};

static Operand read_operand(Parser &p) {
    Operand o = Operand();
    o.inverted = p.r.accept("!");
    if (is_number(p.r)) {
        o.kind = Operand::NUMBER;
        o.number = read_number(p);
        return o;
    }
    std::string name = p.r.word;
    p.r.next();
    o.id = find_register(p, name);
    if (o.id >= 0) {
        o.kind = Operand::REGISTER;
    } else if (const Variable *v = find_variable(p, name)) {
        o.kind = Operand::NUMBER;
        o.number = v->address;
    } else if (name[0] == '%') {
        o.kind = Operand::SPECIAL;
        o.offset = special_register(p, name);
    } else {
        p.r.fail_here(("neither a register nor a variable: " + name).c_str());
    }
    return o;
}

/* Reads "[%rd1+16]", "[name+4]" or "[16]". A second address of an instruction is an operand. */
static void read_address(Parser &p, Instruction *i, Origin *origin, std::vector<Operand> &operands) {
    p.r.expect("[");
    Operand o = read_operand(p);
    int64_t offset = p.r.accept("+") ? p.r.integer() : 0;
    p.r.expect("]");
    if (i->address_bytes) {
        if (offset) p.r.fail_here("a second address with an offset");
        operands.push_back(o);
    } else if (o.kind == Operand::REGISTER) {
        origin->address = o.id;
        i->address_bytes = (uint8_t)width_of(p.f.registers[(size_t)o.id].letter);
        i->offset = offset;
    } else {
        i->address_bytes = 8;
        i->offset = (int64_t)o.number + offset;
    }
}

/* Puts an operand where the form wants a register of this letter. */
static void place_operand(Parser &p, Instruction *i, Origin *origin, int n, const Operand &o, char letter) {
    origin->ids[n] = o.kind == Operand::REGISTER ? o.id : -1;
    if (o.inverted) i->inverted |= 1u << n;
    if (o.kind == Operand::REGISTER) {
        if (p.f.registers[(size_t)o.id].letter != letter)
            p.r.fail_here(("operand " + std::to_string(n) + ": a register of another width than the form has").c_str());
    } else if (o.kind == Operand::SPECIAL) {
        if (letter != 'w') p.r.fail_here("a special register in a form that is not of 32 bits");
        i->operands[n] = o.offset;
    } else {
        i->operands[n] = constant(p, letter == 'p' && o.number ? ALL : o.number, letter);
    }
}

/* ---- instructions ---- */

/* "call.uni (result), name, (a, b);", after the name of the form. */
static void read_call(Parser &p, Instruction *i) {
    Call call = Call();
    auto list = [&](std::vector<uint64_t> &addresses) {
        while (!p.r.accept(")")) {
            const Variable *v = find_variable(p, p.r.word);
            if (!v) p.r.fail_here("expected a parameter of the call");
            addresses.push_back(v->address);
            p.r.next();
            p.r.accept(",");
        }
        p.r.accept(",");
    };
    if (p.r.accept("(")) list(call.results);
    call.name = p.r.word;
    p.r.next();
    p.r.accept(",");
    if (p.r.accept("(")) list(call.arguments);
    i->target = (int32_t)p.f.calls.size();
    p.f.calls.push_back(call);
}

/* Returns how many operands stand before the first comma: several in braces are the parts of one. */
static size_t read_operands(Parser &p, Instruction *i, Origin *origin, std::vector<Operand> &operands) {
    size_t first = 0;
    while (p.r.word != ";") {
        if (p.r.word == "[") {
            read_address(p, i, origin, operands);
        } else if (p.r.accept("{")) {
            do operands.push_back(read_operand(p));
            while (p.r.accept(","));
            p.r.expect("}");
        } else {
            operands.push_back(read_operand(p));
            if (p.r.accept("|")) operands.push_back(read_operand(p));
        }
        if (!first) first = operands.size();
        if (p.r.word != ";") p.r.expect(",");
    }
    return first;
}

/* Gives the operands their places, as the form wants them: "ww w" for two registers that are written and one read. */
static void place_operands(Parser &p, Instruction *i, Origin *origin, const std::vector<Operand> &operands,
                           const std::string &letters) {
    int n = 0;
    i->n_written = (uint8_t)std::min(letters.find(' '), letters.size());
    for (char letter : letters) {
        if (letter == ' ') continue;
        if (n == (int)operands.size()) p.r.fail_here("too few operands");
        place_operand(p, i, origin, n, operands[(size_t)n], letter);
        n++;
    }
    if (n != (int)operands.size()) p.r.fail_here("too many operands");
    i->n_operands = (uint8_t)n;
}

/* The source of a conversion may be a wider register, whose lower part counts: puts that into a register of its own. */
static void narrow_source(Parser &p, const Form &form, const Instruction &i, const Origin &origin, Operand *source) {
    char wanted = form.operands[2],
         has = source->kind == Operand::REGISTER ? p.f.registers[(size_t)source->id].letter : wanted;
    if (strncmp(form.name, "cvt.", 4) != 0 || width_of(has) <= width_of(wanted)) return;
    const Form &cut = *find_form(std::string(wanted == 'h' ? "cvt.u16" : "cvt.u32") + (has == 'd' ? ".u64" : ".u32"));
    Instruction first = i;
    Origin first_origin = origin;
    Operand part = Operand();
    part.id = add_register(p, "", wanted, p.scopes.back());
    first.run = cut.run;
    first.of = cut.of;
    first_origin.name = cut.name;
    place_operands(p, &first, &first_origin, {part, *source}, cut.operands);
    p.f.code.push_back(first);
    p.f.origins.push_back(first_origin);
    *source = part;
}

static void read_guard(Parser &p, Instruction *i, Origin *origin) {
    if (!p.r.accept("@")) return;
    i->guard_is_inverted = p.r.accept("!");
    origin->guard = find_register(p, p.r.word);
    if (origin->guard < 0) p.r.fail_here("expected a predicate");
    p.r.next();
}

static void read_instruction(Parser &p) {
    Instruction i = Instruction();
    Origin origin = Origin();
    std::vector<Operand> operands;
    i.address = i.guard = i.target = origin.address = origin.guard = -1;
    read_guard(p, &i, &origin);
    std::string name = p.r.word;
    origin.line = p.r.line;
    origin.source_file = p.source_file;
    origin.source_line = p.source_line;
    p.r.next();
    const Form *form = find_form(name);
    if (form && form->kind == CALL) {
        read_call(p, &i);
    } else if (form && (form->kind == BRANCH || form->kind == UNIFORM_BRANCH)) {
        i.target = (int32_t)p.wanted_labels.size();
        p.wanted_labels.push_back(p.r.word);
        p.r.next();
    } else {
        size_t first = read_operands(p, &i, &origin, operands);
        if (operands.size() > 2 && name.compare(0, 4, "mov.") == 0)
            form = find_form(name + (first > 1 ? " split" : " join"));
        if (!form) {
            bool has_register = !operands.empty() && operands[0].kind == Operand::REGISTER;
            form = memory_form(name, has_register ? p.f.registers[(size_t)operands[0].id].letter : 0);
        }
        if (!form) fail("PTX line %d, in %s: the form %s is not known", origin.line, p.f.name.c_str(), name.c_str());
        if (operands.size() > 1) narrow_source(p, *form, i, origin, &operands[1]);
        place_operands(p, &i, &origin, operands, form->operands);
    }
    origin.name = form->name;
    i.run = form->run;
    i.kind = form->kind;
    i.of = form->of;
    p.f.reads_only |= i.kind == CALL || name.find(".nc.") != std::string::npos; /* of a call: perhaps */
    p.r.expect(";");
    p.f.code.push_back(i);
    p.f.origins.push_back(origin);
}

static void read_statement(Parser &p) {
    if (p.r.accept("{")) {
        p.scopes.emplace_back();
    } else if (p.r.accept("}")) {
        p.scopes.pop_back();
    } else if (p.r.accept(".reg")) {
        read_registers(p);
    } else if (p.r.accept(".shared")) {
        read_local_variable(p, SHARED);
    } else if (p.r.accept(".local") || p.r.accept(".param")) {
        read_local_variable(p, LOCAL);
    } else if (p.r.accept(".loc")) {
        p.source_file = (int)p.r.integer();
        p.source_line = (int)p.r.integer();
        while (*p.r.at != '\n') p.r.at++; /* inlined_at ... */
        p.r.next();
    } else if (p.r.accept(".pragma")) {
        while (!p.r.accept(";")) p.r.next();
    } else if (p.r.word[0] == '.') {
        p.r.fail_here("unknown directive");
    } else {
        const char *at = p.r.at;
        if (p.r.word[0] != '@' && *at == ':') {
            if (!p.labels.insert({p.r.word, (int)p.f.code.size()}).second) p.r.fail_here("a second label of this name");
            p.r.next();
            p.r.expect(":");
        } else {
            read_instruction(p);
        }
    }
}

/* ".param .u64 name, .param .align 8 .b8 name[32]" in parentheses, each at the next multiple of its alignment. */
static void read_parameters(Parser &p, std::vector<Variable> &parameters, Space space, size_t *bytes) {
    while (!p.r.accept(")")) {
        std::string name;
        p.r.expect(".param");
        Variable v = read_variable(p.r, &name);
        v.space = space;
        v.address = align_up(*bytes, v.alignment);
        *bytes = v.address + v.bytes;
        if (space == PARAM) v.address += PARAMETER_WINDOW;
        parameters.push_back(v);
        p.scopes[0].variables[name] = v;
        p.r.accept(",");
    }
}

static void read_head(Parser &p, bool is_entry) {
    size_t *bytes = is_entry ? &p.f.parameter_bytes : &p.local_bytes;
    Space space = is_entry ? PARAM : LOCAL;
    if (p.r.accept("(")) read_parameters(p, p.f.results, space, bytes);
    p.r.next(); /* the name */
    if (p.r.accept("(")) read_parameters(p, p.f.parameters, space, bytes);
    while (p.r.word != "{") {
        if (p.r.accept(".maxntid")) {
            p.f.max_threads = 1;
            do p.f.max_threads *= (int)p.r.integer();
            while (p.r.accept(","));
        } else {
            p.r.next(); /* .minnctapersm, .noreturn ... */
        }
    }
}

/* Places the registers after the constants. */
static void lay_out(Function &f) {
    size_t offset = align_up(f.constants.size(), 64);
    f.constants.resize(offset);
    for (Register &reg : f.registers) {
        if (reg.letter != 'p') offset = align_up(offset, 64);
        reg.offset = (int32_t)offset;
        offset += bytes_of(reg.letter);
    }
    f.register_bytes = align_up(offset, 64);
    for (size_t at = 0; at < f.code.size(); at++) {
        Instruction &i = f.code[at];
        const Origin &origin = f.origins[at];
        for (int n = 0; n < i.n_operands; n++)
            if (origin.ids[n] >= 0) i.operands[n] = f.registers[(size_t)origin.ids[n]].offset;
        if (origin.address >= 0) i.address = f.registers[(size_t)origin.address].offset;
        if (origin.guard >= 0) i.guard = f.registers[(size_t)origin.guard].offset;
    }
}

/* CUDA 12.1 has raised it to 32,764 for cards from 7.0 on. Our kernels are for older toolkits as well. */
constexpr size_t MAX_PARAMETER_BYTES = 4096;

const Function *function_of(Module &module, const std::string &name) {
    static std::mutex lock; /* workers ask for functions that they call */
    std::lock_guard<std::mutex> hold(lock);
    scan(module);
    std::unique_ptr<Function> &f = module.parsed[name];
    if (f) return f.get();
    auto place = module.functions.find(name);
    if (place == module.functions.end()) fail("the PTX has no function %s", name.c_str());
    f.reset(new Function());
    f->module = &module;
    f->name = name;
    const char *begin = module.text.data() + place->second.first;
    Parser p = {
        module, *f, {begin, module.text.data() + module.text.size(), place->second.second, ""}, {}, {}, {}, {}, 0,
        0,      0};
    p.scopes.emplace_back();
    p.r.next();
    bool is_entry = strncmp(begin - 6, ".entry", 6) == 0;
    read_head(p, is_entry);
    if (f->parameter_bytes > MAX_PARAMETER_BYTES)
        fail("%s has %zu bytes of parameters, more than %zu", name.c_str(), f->parameter_bytes, MAX_PARAMETER_BYTES);
    p.r.expect("{");
    p.scopes.emplace_back();
    while (p.scopes.size() > 1) read_statement(p);
    for (Instruction &i : f->code) {
        if (i.kind != BRANCH && i.kind != UNIFORM_BRANCH) continue;
        auto label = p.labels.find(p.wanted_labels[(size_t)i.target]);
        if (label == p.labels.end())
            fail("%s has no label %s", f->name.c_str(), p.wanted_labels[(size_t)i.target].c_str());
        i.target = label->second;
    }
    f->local_bytes = align_up(p.local_bytes, 16);
    lay_out(*f);
    find_flow(*f);
    return f.get();
}

} // namespace ptx
} // namespace emulate
