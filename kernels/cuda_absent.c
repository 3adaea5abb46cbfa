/* Stands in for the cuda device in a program that is linked without it: an archive that has the device comes first, and
 * then this is not taken. */
#include "base/base.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/startup.h"
#include "kernels/nccl.h"

const char *cuda_missing(void) { return "this program was built without CUDA"; }

int cuda_count_cards(void) { return 0; }

char *cuda_list_cards(void) { return xstrdup("0 GPUs"); }

bool cuda_card_is_here(void) { return false; }

const char *cuda_built_for(void) { return NULL; }

Device *cuda_device_open(int index) { die("GPU %d: %s", index, cuda_missing()); }

void cuda_describe_card(int index, char product[64], char uuid[48]) {
    (void)index;
    product[0] = uuid[0] = 0;
}

int cuda_find_libraries(CudaLibrary found[CUDA_LIBRARIES]) {
    (void)found;
    return 0;
}

bool nccl_make_id(char id[NCCL_ID_BYTES], Error *error) {
    (void)id;
    return error_set(error, "%s", cuda_missing());
}

bool nccl_describe(char text[GROUP_DESCRIPTION], Error *error) {
    (void)text;
    return error_set(error, "%s", cuda_missing());
}

void nccl_choose_as(const char *description) { (void)description; }

Group *nccl_group_open(int rank, int size, const char id[NCCL_ID_BYTES], Device *device, void (*waiting)(void *context),
                       void *context, Error *error) {
    (void)rank, (void)size, (void)id, (void)device, (void)waiting, (void)context;
    error_set(error, "%s", cuda_missing());
    return NULL;
}
