/* A stand-in for the driver, libcuda.so.1, for programs that are linked with the real CUDA runtime: it tells its
 * version and does not start. DRIVER_VERSION is the version of CUDA that it supports (13000: 13.0), DRIVER_INIT the
 * status with which it does not start (100: there is no GPU). It cannot stand in for a GPU, because the runtime then
 * calls functions that are not public; failures of a GPU are tested on the emulated card.
 *
 * Names, signatures and numbers are those of NVIDIA's public "CUDA Driver API" reference. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_SUPPORTED = 801 };
enum { VERSION = 13000, NO_DEVICE = 100, LAZY_LOADING = 2, TABLE = 256 };

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuModuleGetLoadingMode(int *mode);
int cuGetExportTable(const void **table, const void *id);
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

static int number_of(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

/* Takes the place of the public functions that no test needs. */
static int fail(void) {
    fprintf(stderr, "the stand-in for the driver has no such function\n");
    return NOT_SUPPORTED;
}

/* Takes the place of the functions that are not public: CUDA 13 calls one to find out that a driver is too old. */
static int refuse(void) { return NOT_SUPPORTED; }

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : number_of("DRIVER_INIT", NO_DEVICE); }

int cuDriverGetVersion(int *version) {
    *version = number_of("DRIVER_VERSION", VERSION);
    return SUCCESS;
}

int cuModuleGetLoadingMode(int *mode) {
    *mode = LAZY_LOADING;
    return SUCCESS;
}

int cuGetExportTable(const void **table, const void *id) {
    static int (*functions[TABLE])(void);
    for (int i = 0; i < TABLE; i++) functions[i] = refuse;
    (void)id;
    *table = functions;
    return SUCCESS;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    typedef void (*Function)(void);
    static const struct {
        const char *name;
        Function function;
    } known[] = {{"cuInit", (Function)cuInit},
                 {"cuDriverGetVersion", (Function)cuDriverGetVersion},
                 {"cuModuleGetLoadingMode", (Function)cuModuleGetLoadingMode},
                 {"cuGetExportTable", (Function)cuGetExportTable},
                 {"cuGetProcAddress", (Function)cuGetProcAddress_v2}};
    Function found = (Function)fail;
    (void)flags;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) found = known[i].function;
    /* CUDA 11 calls it without `status`. */
    if (version < 12000 && !strcmp(name, "cuGetProcAddress")) found = (Function)cuGetProcAddress;
    memcpy(function, &found, sizeof found);
    if (status) *status = 0;
    return SUCCESS;
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
