/* Finds the form of an instruction by its name. */
#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

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
