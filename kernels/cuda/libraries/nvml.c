/* Finds a card by its UUID and reads its sensors. */
#include "kernels/cuda/libraries/nvml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/libraries/nvml_functions.h"

#define NAME(result, function, arguments) #function,
static const LibrarySpec SPEC = {
    "TRAINC_NVML", (const char *[]){"libnvidia-ml.so.1", NULL},        "NVML (libnvidia-ml.so.1)", "no sensors", NULL,
    NULL,          (const char *[]){FOR_EACH_NVML_FUNCTION(NAME) NULL}};
#undef NAME

struct Nvml {
    NvmlFunctions call;
    NvmlCard *card;
};

void nvml_uuid_text(const char *kind, const char uuid[NVML_UUID], char text[48]) {
    int n = sprintf(text, "%s", kind);
    for (int i = 0; i < NVML_UUID; i++)
        n += sprintf(text + n, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                     (unsigned char)uuid[i]);
}

static bool find_card(Nvml *nvml, const char uuid[NVML_UUID]) {
    char text[48];
    nvml_uuid_text("GPU", uuid, text);
    if (nvml->call.nvmlDeviceGetHandleByUUID(text, &nvml->card) == ML_SUCCESS) return true;
    nvml_uuid_text("MIG", uuid, text);
    return nvml->call.nvmlDeviceGetHandleByUUID(text, &nvml->card) == ML_SUCCESS;
}

void nvml_find(char text[LIBRARY_DESCRIPTION]) {
    NvmlFunctions call;
    library_load(&SPEC, &call, text);
}

Nvml *nvml_open(const char uuid[NVML_UUID]) {
    const char *named = getenv(SPEC.variable);
    char reason[LIBRARY_DESCRIPTION];
    Nvml *nvml = xcalloc(1, sizeof *nvml);
    bool loaded = library_load(&SPEC, &nvml->call, reason), started = loaded && nvml->call.nvmlInit_v2() == ML_SUCCESS;
    if (started && find_card(nvml, uuid)) return nvml;
    if (loaded)
        snprintf(reason, sizeof reason, "no sensors: %s", started ? "it has no such card" : "it does not start");
    if (started) nvml->call.nvmlShutdown();
    if (named && strcmp(named, "none") != 0) warn("%s=%s: %s", SPEC.variable, named, reason);
    free(nvml);
    return NULL;
}

void nvml_read(const Nvml *nvml, DeviceSensors *sensors) {
    NvmlMemory memory;
    NvmlUtilization utilization;
    unsigned celsius, milliwatts;
    *sensors = (DeviceSensors){NAN, NAN, NAN, NAN};
    if (!nvml) return;
    if (nvml->call.nvmlDeviceGetMemoryInfo(nvml->card, &memory) == ML_SUCCESS) sensors->memory = (double)memory.used;
    if (nvml->call.nvmlDeviceGetTemperature(nvml->card, ML_GPU, &celsius) == ML_SUCCESS) sensors->temperature = celsius;
    if (nvml->call.nvmlDeviceGetPowerUsage(nvml->card, &milliwatts) == ML_SUCCESS) sensors->power = milliwatts / 1e3;
    if (nvml->call.nvmlDeviceGetUtilizationRates(nvml->card, &utilization) == ML_SUCCESS)
        sensors->utilisation = utilization.gpu;
}

void nvml_close(Nvml *nvml) {
    if (nvml) nvml->call.nvmlShutdown();
    free(nvml);
}
