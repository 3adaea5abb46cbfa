/* Names, signatures and numbers are those of NVIDIA's public "NVML API Reference Guide"
 * (docs.nvidia.com/deploy/nvml-api): functions return 0 for success; memory is in bytes, power in milliwatts. */
#include "kernels/cuda/libraries/nvml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Handle; /* nvmlDevice_t */

typedef struct {
    unsigned long long total, free, used;
} Memory; /* nvmlMemory_t */

typedef struct {
    unsigned gpu, memory;
} Utilisation; /* nvmlUtilization_t: per cent of the last sample period, 1/6 s to 1 s */

enum { SUCCESS = 0, TEMPERATURE_OF_GPU = 0 /* NVML_TEMPERATURE_GPU */ };

/* In the order of the names in SPEC. */
typedef struct {
    int (*init)(void);
    int (*shutdown)(void);
    int (*card_of_uuid)(const char *uuid, Handle *card);
    int (*memory)(Handle card, Memory *memory);
    int (*temperature)(Handle card, int sensor, unsigned *celsius);
    int (*power)(Handle card, unsigned *milliwatts);
    int (*utilisation)(Handle card, Utilisation *utilisation);
} Calls;

static const LibrarySpec SPEC = {
    "TRAINC_NVML",
    (const char *[]){"libnvidia-ml.so.1", NULL},
    "NVML (libnvidia-ml.so.1)",
    "no sensors",
    (const char *[]){"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMemoryInfo",
                     "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetUtilizationRates", NULL},
};

struct Nvml {
    Calls call;
    Handle card;
};

/* Writes "GPU-01234567-89ab-cdef-0123-456789abcdef"; of a part of a card (MIG) the kind is "MIG". */
static void uuid_text(const char *kind, const char uuid[NVML_UUID], char text[48]) {
    int n = sprintf(text, "%s", kind);
    for (int i = 0; i < NVML_UUID; i++)
        n += sprintf(text + n, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                     (unsigned char)uuid[i]);
}

static bool find_card(Nvml *nvml, const char uuid[NVML_UUID]) {
    char text[48];
    uuid_text("GPU", uuid, text);
    if (nvml->call.card_of_uuid(text, &nvml->card) == SUCCESS) return true;
    uuid_text("MIG", uuid, text);
    return nvml->call.card_of_uuid(text, &nvml->card) == SUCCESS;
}

void nvml_find(char text[LIBRARY_DESCRIPTION]) {
    Calls call;
    library_load(&SPEC, &call, text);
}

Nvml *nvml_open(const char uuid[NVML_UUID]) {
    const char *named = getenv(SPEC.variable);
    char reason[LIBRARY_DESCRIPTION];
    Nvml *nvml = xcalloc(1, sizeof *nvml);
    bool loaded = library_load(&SPEC, &nvml->call, reason), started = loaded && nvml->call.init() == SUCCESS;
    if (started && find_card(nvml, uuid)) return nvml;
    if (loaded)
        snprintf(reason, sizeof reason, "no sensors: %s", started ? "it has no such card" : "it does not start");
    if (started) nvml->call.shutdown();
    if (named && strcmp(named, "none") != 0) warn("%s=%s: %s", SPEC.variable, named, reason);
    free(nvml);
    return NULL;
}

void nvml_read(const Nvml *nvml, DeviceSensors *sensors) {
    Memory memory;
    Utilisation utilisation;
    unsigned celsius, milliwatts;
    *sensors = (DeviceSensors){NAN, NAN, NAN, NAN};
    if (!nvml) return;
    if (nvml->call.memory(nvml->card, &memory) == SUCCESS) sensors->memory = (double)memory.used;
    if (nvml->call.temperature(nvml->card, TEMPERATURE_OF_GPU, &celsius) == SUCCESS) sensors->temperature = celsius;
    if (nvml->call.power(nvml->card, &milliwatts) == SUCCESS) sensors->power = milliwatts / 1e3;
    if (nvml->call.utilisation(nvml->card, &utilisation) == SUCCESS) sensors->utilisation = utilisation.gpu;
}

void nvml_close(Nvml *nvml) {
    if (nvml) nvml->call.shutdown();
    free(nvml);
}
