/* Finds the form of an instruction by its name. Those that run.cpp carries out itself are here. */
#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

static const Form control_forms[] = {
    {"bra", "", NULL, CONTROL, BRANCH},
    {"bra.uni", "", NULL, CONTROL, UNIFORM_BRANCH},
    {"ret", "", NULL, CONTROL, RETURN},
    {"exit", "", NULL, CONTROL, EXIT},
    {"trap", "", NULL, CONTROL, TRAP},
    {"call", "", NULL, CONTROL, CALL},
    {"call.uni", "", NULL, CONTROL, CALL},
    {"nanosleep.u32", " w", NULL, CONTROL, SLEEP},
    {"bar.sync", " w", NULL, BARRIER, BLOCK_BARRIER},
    {"barrier.sync", " w", NULL, BARRIER, BLOCK_BARRIER},
    {"bar.red.or.pred", "p wp", NULL, BARRIER, BLOCK_BARRIER},
    {"bar.red.and.pred", "p wp", NULL, BARRIER, BLOCK_BARRIER},
    {"bar.red.popc.u32", "w wp", NULL, BARRIER, BLOCK_BARRIER},
    {},
};

static std::unordered_map<std::string, const Form *> all_forms() {
    std::unordered_map<std::string, const Form *> forms;
    for (const Form *table : {arithmetic_forms, conversion_forms, memory_forms, copy_forms, lane_forms, control_forms})
        for (const Form *form = table; form->name; form++) forms[form->name] = form;
    return forms;
}

const Form *find_form(const std::string &name) {
    static const std::unordered_map<std::string, const Form *> forms = all_forms();
    auto at = forms.find(name);
    return at == forms.end() ? NULL : at->second;
}

} // namespace ptx
} // namespace emulate
