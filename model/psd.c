/* The sizes of the PSD models. */
#include "model/psd.h"

#include <string.h>

const PsdSize *psd_size(const char *name) {
    static const PsdSize sizes[] = {
        {"tiny", 32, 1, 2, 64, 16, 1, 16, 32},           {"small", 128, 4, 4, 256, 64, 2, 64, 128},
        {"l4", 256, 6, 8, 1024, 64, 2, 64, 128},         {"medium", 512, 8, 8, 2048, 128, 4, 128, 256},
        {"large", 1024, 16, 16, 4096, 128, 4, 128, 256},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(sizes[i].name, name)) return &sizes[i];
    return NULL;
}
