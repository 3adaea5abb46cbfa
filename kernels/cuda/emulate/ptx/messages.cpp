/* Messages that name an instruction, its lines and its lane. */
#include <cxxabi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

std::string readable(const std::string &name) {
    int status;
    char *text = abi::__cxa_demangle(name.c_str(), NULL, NULL, &status);
    std::string result = text ? text : name;
    free(text);
    return result;
}

void fail_in(const State &s, int lane, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const Function &f = *s.frame->function;
    const Origin &origin = f.origins[(size_t)(s.instruction - f.code.data())];
    const uint3 &block = s.scene->worker->block.index;
    std::string source;
    if (origin.source_line)
        source = ", " + f.module->files[(size_t)origin.source_file] + ":" + std::to_string(origin.source_line);
    std::string who = "warp " + std::to_string(s.number) + (lane < 0 ? "" : ", lane " + std::to_string(lane));
    fail("%s: %s\n  at line %d of the PTX%s, in %s\n  block (%u,%u,%u), %s", origin.name, text, origin.line,
         source.c_str(), readable(f.name).c_str(), block.x, block.y, block.z, who.c_str());
}

} // namespace ptx
} // namespace emulate
