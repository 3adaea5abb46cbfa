/* The named sizes of the PSD models. */
#include "model/psd/psd.h"

#include <string.h>

static const PsdSize sizes[] = {
    {"tiny", 32, 1, 2, 64, 16, 1, 16, 32},           {"small", 128, 4, 4, 256, 64, 2, 64, 128},
    {"l4", 256, 6, 8, 1024, 64, 2, 64, 128},         {"medium", 512, 8, 8, 2048, 128, 4, 128, 256},
    {"large", 1024, 16, 16, 4096, 128, 4, 128, 256},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

const PsdSize *psd_size(const char *name) {
    for (int i = 0; i < SIZES; i++)
        if (!strcmp(sizes[i].name, name)) return &sizes[i];
    return NULL;
}

const PsdSize *psd_size_of_encoder(int64_t d_model, int64_t n_layers, int64_t d_ff) {
    for (int i = 0; i < SIZES; i++)
        if (sizes[i].d_model == d_model && sizes[i].n_layers == n_layers && sizes[i].d_ff == d_ff) return &sizes[i];
    return NULL;
}
