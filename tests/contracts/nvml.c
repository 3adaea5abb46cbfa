/* The assumptions of nvml_functions.h about NVML, against its real header. There is no real library without a driver:
 * this file is only compiled. */
#include <nvml.h>

#include "tests/contracts/contract.h"

#include "kernels/cuda/libraries/nvml_functions.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* version 13 deprecates nvmlDeviceGetTemperature */

SAME_VALUE(ML_SUCCESS, NVML_SUCCESS);
SAME_VALUE(ML_GPU, NVML_TEMPERATURE_GPU);

_Static_assert(sizeof(NvmlMemory) == sizeof(nvmlMemory_t), "the library fills it");
SAME_PLACE(NvmlMemory, total, nvmlMemory_t, total);
SAME_PLACE(NvmlMemory, free, nvmlMemory_t, free);
SAME_PLACE(NvmlMemory, used, nvmlMemory_t, used);
_Static_assert(sizeof(NvmlUtilization) == sizeof(nvmlUtilization_t), "the library fills it");
SAME_PLACE(NvmlUtilization, gpu, nvmlUtilization_t, gpu);
SAME_PLACE(NvmlUtilization, memory, nvmlUtilization_t, memory);

#define NvmlMemory      nvmlMemory_t
#define NvmlUtilization nvmlUtilization_t
FOR_EACH_NVML_FUNCTION(SAME_PROTOTYPE)
