/* The words of PTX, and where the functions and variables of a module are. */
#include <ctype.h>
#include <stdlib.h>

#include <algorithm>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.'; }

void Reader::next() {
    while (at < end && (isspace((unsigned char)*at) || (at[0] == '/' && at[1] == '/'))) {
        if (*at == '/')
            while (at < end && *at != '\n') at++;
        else if (*at++ == '\n')
            line++;
    }
    word.clear();
    if (at == end) return;
    if (*at == '"') {
        const char *begin = ++at;
        while (at < end && *at != '"') at++;
        word.assign(begin, at);
        at += at < end;
        return;
    }
    word = *at++;
    if (!is_word(word[0])) return;
    while (at < end && (is_word(*at) || (at[0] == ':' && at[1] == ':'))) { /* .L1::no_allocate */
        if (*at == ':') word += *at++;
        word += *at++;
    }
}

void Reader::fail_here(const char *what) const { fail("PTX line %d: %s, found \"%s\"", line, what, word.c_str()); }

bool Reader::accept(const char *expected) {
    if (word != expected) return false;
    next();
    return true;
}

void Reader::expect(const char *expected) {
    if (!accept(expected)) fail_here((std::string("expected \"") + expected + "\"").c_str());
}

int64_t Reader::integer() {
    bool negative = accept("-");
    char *rest;
    uint64_t value = strtoull(word.c_str(), &rest, 0);
    if (word.empty() || (*rest && strcmp(rest, "U") != 0)) fail_here("expected an integer");
    next();
    return negative ? -(int64_t)value : (int64_t)value;
}

/* Reads ".align 16 .b8 name[2048]", after the space. */
Variable read_variable(Reader &r, std::string *name) {
    Variable v = Variable();
    size_t element = 0;
    v.alignment = 1;
    while (r.word[0] == '.') {
        if (r.accept(".align")) {
            v.alignment = (size_t)r.integer();
        } else if (r.accept(".ptr") || r.accept(".global") || r.accept(".shared")) { /* notes on a parameter */
        } else {
            const char *digits = r.word.c_str() + 1;
            while (*digits && !isdigit((unsigned char)*digits)) digits++;
            element = (size_t)atoi(digits) / 8;
            if (!element) r.fail_here("unknown type");
            r.next();
        }
    }
    *name = r.word;
    r.next();
    v.bytes = v.element_bytes = element;
    if (v.alignment < element) v.alignment = element;
    while (r.accept("[")) {
        if (r.word == "]")
            v.is_dynamic = true;
        else
            v.bytes *= (size_t)r.integer();
        r.expect("]");
    }
    return v;
}

/* Gives a module's variable memory of the host, and its initial numbers. */
static void read_global(Module &module, Reader &r, bool is_constant) {
    std::string name;
    Variable v = read_variable(r, &name);
    void *whole;
    size_t behind = v.alignment < 256 ? v.alignment : 0; /* a multiple of 256, of which the card promises nothing */
    v.space = GLOBAL;
    if (posix_memalign(&whole, 256, behind + v.bytes + 1)) fail("no memory for the variable %s", name.c_str());
    char *memory = static_cast<char *>(whole) + behind;
    memset(memory, 0, v.bytes);
    if (r.accept("=")) { /* one number, or several in braces */
        bool several = r.accept("{");
        size_t at = 0, step = v.element_bytes;
        do {
            int64_t value = r.integer();
            if (at + step > v.bytes || step > sizeof value) r.fail_here("too many initial values");
            memcpy(memory + at, &value, step);
            at += step;
        } while (r.accept(","));
        if (several) r.expect("}");
    }
    r.expect(";");
    v.address = (uint64_t)memory;
    add_device_memory(memory, v.bytes);
    if (is_constant) add_constant_memory(v.address);
    module.variables[name] = v;
}

/* Remembers where a function begins, and skips it: its end is the only brace at the beginning of a line. */
static void read_function_name(Module &module, Reader &r) {
    std::string name;
    const char *begin = r.at;
    int line = r.line;
    bool is_function = r.word == ".func";
    r.next();
    if (is_function && r.accept("(")) /* what it returns */
        while (!r.accept(")")) r.next();
    name = r.word;
    while (r.word != "{" && r.word != ";" && !r.word.empty()) r.next();
    if (r.word != "{") return; /* declared only */
    module.functions[name] = {(size_t)(begin - module.text.data()), line};
    const char *last = strstr(r.at, "\n}");
    if (!last) r.fail_here("a function without an end");
    r.line += (int)std::count(r.at, last + 1, '\n');
    r.at = last + 2;
    r.next();
}

void scan(Module &module) {
    if (module.is_scanned) return;
    module.is_scanned = true;
    const char *begin = module.text.data();
    Reader r = {begin, begin + strlen(module.text.c_str()), 1, ""};
    for (r.next(); !r.word.empty();) {
        if (r.accept(".file")) {
            size_t number = (size_t)r.integer();
            if (module.files.size() <= number) module.files.resize(number + 1);
            module.files[number] = r.word;
            r.next();
        } else if (r.word == ".entry" || r.word == ".func") {
            read_function_name(module, r);
        } else if (r.word == ".global" || r.word == ".const") {
            bool is_constant = r.word == ".const";
            r.next();
            read_global(module, r, is_constant);
        } else if (r.accept(".shared")) {
            std::string name;
            Variable v = read_variable(r, &name);
            v.space = SHARED;
            module.variables[name] = v;
            r.expect(";");
        } else {
            r.next(); /* .version, .target, .visible ... */
        }
    }
}

} // namespace ptx
} // namespace emulate
