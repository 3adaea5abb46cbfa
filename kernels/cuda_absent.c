/* Stands in for the cuda device in a program that is linked without it: an archive that has the device comes first, and
 * then this is not taken. */
#include "base/base.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/startup.h"

const char *cuda_missing(void) { return "this program was built without CUDA"; }

bool cuda_card_is_here(void) { return false; }

const char *cuda_built_for(void) { return NULL; }

Device *cuda_device_open(int index) { die("GPU %d: %s", index, cuda_missing()); }

int cuda_find_libraries(CudaLibrary found[CUDA_LIBRARIES]) {
    (void)found;
    return 0;
}
