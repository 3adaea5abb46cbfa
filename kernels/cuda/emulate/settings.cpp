/* Settings made by tests and the environment: the seed of the order, and the number of workers. */
#include <stdlib.h>

#include "kernels/cuda/emulate/internal.h"

namespace emulate {

static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

Settings &settings() {
    static Settings instance = {from_environment("EMULATE_SEED", 0), (int)from_environment("EMULATE_WORKERS", 1)};
    return instance;
}

uint64_t inexact_seed = from_environment("EMULATE_INEXACT", 0);

} // namespace emulate

uint64_t emulate_seed(void) { return emulate::settings().seed; }
void emulate_set_workers(int workers) { emulate::settings().workers = workers; }
#ifndef EMULATE_CHECK
bool emulate_has_checker(void) { return false; }
int64_t emulate_reports(void) { return 0; }
#endif
