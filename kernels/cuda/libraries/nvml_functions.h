/* The part of NVML's binary interface that we use, from NVIDIA's public "NVML API Reference Guide"
 * (docs.nvidia.com/deploy/nvml-api); its enums are passed as unsigned integers. tests/contracts/nvml.c compares all of
 * it with NVML's header. */
#pragma once

enum {
    ML_SUCCESS = 0,
    ML_GPU = 0 /* a sensor of temperature */
};

typedef struct nvmlDevice_st NvmlCard;

typedef struct {
    unsigned long long total, free, used; /* bytes */
} NvmlMemory;

typedef struct {
    unsigned gpu, memory; /* per cent of the last sample period, 1/6 s to 1 s */
} NvmlUtilization;

/* X(result, name, arguments) */
#define FOR_EACH_NVML_FUNCTION(X)                                                                                      \
    X(unsigned, nvmlInit_v2, (void))                                                                                   \
    X(unsigned, nvmlShutdown, (void))                                                                                  \
    X(unsigned, nvmlDeviceGetHandleByUUID, (const char *uuid, NvmlCard **card))                                        \
    X(unsigned, nvmlDeviceGetMemoryInfo, (NvmlCard * card, NvmlMemory * memory))                                       \
    X(unsigned, nvmlDeviceGetTemperature, (NvmlCard * card, unsigned sensor, unsigned *celsius))                       \
    X(unsigned, nvmlDeviceGetPowerUsage, (NvmlCard * card, unsigned *milliwatts))                                      \
    X(unsigned, nvmlDeviceGetUtilizationRates, (NvmlCard * card, NvmlUtilization * utilization))

#define NVML_FIELD(result, name, arguments) result(*name) arguments;
typedef struct {
    FOR_EACH_NVML_FUNCTION(NVML_FIELD)
} NvmlFunctions;
#undef NVML_FIELD
