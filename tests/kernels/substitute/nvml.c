/* A substitute of libnvidia-ml.so.1 with two cards, a part of a card (MIG), which has no sensor but its memory, and the
 * emulated card.
 * NVML_UNSUPPORTED names functions that fail as they do on cards without the sensor; NVML_INIT_FAILS=1 stands for a
 * driver that does not answer. Structures and values are those of NVIDIA's NVML API Reference Guide. */
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9 };
enum { CARDS = 4, MIG = 2 };

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned gpu, memory;
} Utilisation;

static int users;
static int cards[CARDS];

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **card);
int nvmlDeviceGetMemoryInfo(void *card, Memory *memory);
int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *card, unsigned *milliwatts);
int nvmlDeviceGetUtilizationRates(void *card, Utilisation *utilisation);
int substitute_users(void);

static int status_of(const void *card, const char *function) {
    const char *unsupported = getenv("NVML_UNSUPPORTED");
    if (!users) return UNINITIALIZED;
    return card == &cards[MIG] || (unsupported && strstr(unsupported, function)) ? NOT_SUPPORTED : SUCCESS;
}

static unsigned index_of(const void *card) { return (unsigned)((const int *)card - cards); }

int substitute_users(void) { return users; }

int nvmlInit_v2(void) {
    if (getenv("NVML_INIT_FAILS")) return DRIVER_NOT_LOADED;
    users++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    users--;
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **card) {
    static const char *const uuids[CARDS] = {"GPU-00112233-4455-6677-8899-aabbccddeeff",
                                             "GPU-ffeeddcc-bbaa-9988-7766-554433221100",
                                             "MIG-01010101-0101-0101-0101-010101010101",
                                             "GPU-656d756c-6174-6564-2063-617264203030"}; /* "emulated card 00" */
    for (int i = 0; users && i < CARDS; i++)
        if (!strcmp(uuid, uuids[i])) {
            *card = &cards[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(void *card, Memory *memory) {
    if (!users) return UNINITIALIZED;
    *memory = (Memory){24000000000, 1000000000, 23000000000 + index_of(card)};
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *celsius) {
    *celsius = (sensor == 0 ? 71 : 0) + index_of(card);
    return status_of(card, "Temperature");
}

int nvmlDeviceGetPowerUsage(void *card, unsigned *milliwatts) {
    *milliwatts = 312500 + 1000 * index_of(card);
    return status_of(card, "PowerUsage");
}

int nvmlDeviceGetUtilizationRates(void *card, Utilisation *utilisation) {
    *utilisation = (Utilisation){98 - index_of(card), 55};
    return status_of(card, "UtilizationRates");
}
