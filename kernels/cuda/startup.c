/* Why CUDA does not start, and what to do. The runtime is linked in and loads the driver's library, libcuda.so.1; what
 * that library is, only the library itself can tell, so this file loads it as the runtime does. */
#include "kernels/cuda/startup.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/libraries/library.h"

static const char FILE_NAME[] = "libcuda.so.1";

/* The oldest driver of each version of CUDA: one of its first minor version serves the others, too. NVIDIA's "CUDA
 * Compatibility" lists them. */
static const char *oldest_driver(int major) {
    return major <= 11 ? "450.80" : major == 12 ? "525.60" : major == 13 ? "580" : "of that version";
}

typedef struct {
    bool loaded;
    char problem[LIBRARY_FILE]; /* why it cannot be loaded; "": there is no such file */
    char file[LIBRARY_FILE];
    int cuda;      /* the version of CUDA that it supports, 13020 is 13.2; 0: unknown */
    char name[64]; /* "580.65.06, CUDA 13.0" */
} Driver;

/* Names the driver by its file, libcuda.so.580.65.06, of which libcuda.so.1 is a link. */
static void name_driver(Driver *driver) {
    const char *base = strrchr(driver->file, '/'), *release = base ? strstr(base, ".so.") : NULL;
    char version[32] = "of unknown version";
    if (driver->cuda) snprintf(version, sizeof version, "CUDA %d.%d", driver->cuda / 1000, driver->cuda % 1000 / 10);
    bool named = release && strspn(release + 4, "0123456789") >= 3;
    snprintf(driver->name, sizeof driver->name, "%.24s%s%s", named ? release + 4 : "", named ? ", " : "", version);
}

static Driver look_for_driver(void) {
    Driver driver = {0};
    int (*version)(int *);
    void *library = library_open_driver(FILE_NAME, driver.problem); /* stays loaded, as the runtime leaves it */
    driver.loaded = library != NULL;
    if (!library) return driver;
    void *function = dlsym(library, "cuDriverGetVersion");
    memcpy(&version, &function, sizeof version);
    library_path(library, driver.file);
    if (!function || version(&driver.cuda) != 0) driver.cuda = 0;
    name_driver(&driver);
    return driver;
}

void startup_find_driver(char text[LIBRARY_DESCRIPTION]) {
    Driver driver = look_for_driver();
    if (driver.loaded)
        snprintf(text, LIBRARY_DESCRIPTION, "%s (this program needs CUDA %d): %s", driver.name, CUDART_VERSION / 1000,
                 driver.file);
    else
        snprintf(text, LIBRARY_DESCRIPTION, "the CPU: %s%s", driver.problem[0] ? driver.problem : FILE_NAME,
                 driver.problem[0] ? "" : " is not installed");
}

static bool in_container(void) {
    return !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) || getenv("KUBERNETES_SERVICE_HOST");
}

static void explain_missing_driver(const Driver *driver, char *text, size_t size) {
    if (driver->problem[0])
        snprintf(text, size,
                 "the NVIDIA driver cannot be loaded (%s): install it anew, or remove the file's folder from "
                 "LD_LIBRARY_PATH",
                 driver->problem);
    else if (in_container())
        snprintf(text, size,
                 "there is no NVIDIA driver in this container (%s is not found): start it with --gpus all, on a host "
                 "with a driver (%s or newer) and NVIDIA's container toolkit",
                 FILE_NAME, oldest_driver(CUDART_VERSION / 1000));
    else
        snprintf(text, size,
                 "there is no NVIDIA driver (%s is not found): install one (%s or newer), or name its folder in "
                 "LD_LIBRARY_PATH",
                 FILE_NAME, oldest_driver(CUDART_VERSION / 1000));
}

static void explain_old_driver(const Driver *driver, char *text, size_t size) {
    int needed = CUDART_VERSION / 1000, there = driver->cuda / 1000;
    char otherwise[64] = "";
    if (there && there < needed)
        snprintf(otherwise, sizeof otherwise, ", or use a program that was built with CUDA %d", there);
    snprintf(text, size,
             "the NVIDIA driver (%s) is older than this program needs (CUDA %d, driver %s): install a newer one%s",
             driver->name, needed, oldest_driver(needed), otherwise);
}

static void explain_no_gpu(const Driver *driver, char *text, size_t size) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        snprintf(text, size,
                 "there is no NVIDIA GPU that CUDA_VISIBLE_DEVICES=%.64s does not hide: unset it, or name one that "
                 "nvidia-smi -L lists",
                 visible);
    else
        snprintf(text, size,
                 "there is no NVIDIA GPU: the driver (%s) finds none. nvidia-smi -L must list one; a container needs "
                 "--gpus all",
                 driver->name);
}

/* The errors that the runtime reports of a driver that is there, and what to do. */
static const struct {
    cudaError_t status;
    const char *found, *advice;
} explanations[] = {
    {cudaErrorStubLibrary, "libcuda.so.1 is not a driver but the toolkit's stub for linking",
     "remove its folder from LD_LIBRARY_PATH"},
    {cudaErrorSystemDriverMismatch, "the NVIDIA driver's library and its kernel module are of different versions",
     "restart the machine; if this is a container, the container"},
    {cudaErrorCompatNotSupportedOnDevice,
     "libcuda.so.1 is from CUDA's compatibility package, which this card does not support",
     "remove its folder (.../compat) from LD_LIBRARY_PATH, and install a newer driver if one is then asked for"},
    {cudaErrorSystemNotReady, "the connections between the GPUs are not ready",
     "start NVIDIA's fabric manager on the host: systemctl start nvidia-fabricmanager"},
    {cudaErrorDevicesUnavailable, "the GPU is busy, or closed to this process",
     "nvidia-smi shows its processes and its compute mode, which nvidia-smi -c DEFAULT opens"},
    {cudaErrorMemoryAllocation, "the GPU has no memory left to start with",
     "nvidia-smi shows the processes that hold it"},
    {cudaErrorUnsupportedPtxVersion, "the NVIDIA driver is too old to compile this program for this new card",
     "install a newer driver"},
    {cudaErrorJitCompilerNotFound,
     "the NVIDIA driver lacks its compiler (libnvidia-ptxjitcompiler.so.1), which this program needs for this new card",
     "install the whole driver; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
    {cudaErrorOperatingSystem, "the NVIDIA driver cannot use its devices",
     "allow access to /dev/nvidia*; in a container, start it with --gpus all"},
    {cudaErrorECCUncorrectable, "the GPU has memory errors that cannot be corrected",
     "reset it (nvidia-smi -r), or take another machine"},
    {cudaErrorMpsConnectionFailed, "CUDA's multi-process service does not answer",
     "start it (nvidia-cuda-mps-control -d), or unset CUDA_MPS_PIPE_DIRECTORY"},
    {cudaErrorUnknown, "the NVIDIA driver does not start",
     "load its module for memory (nvidia-modprobe -u -c 0 makes /dev/nvidia-uvm), or restart the machine, as may be "
     "necessary after it slept"},
};

static const char *explain(cudaError_t status) {
    static char text[768];
    Driver driver = look_for_driver();
    if (status == cudaErrorInsufficientDriver && !driver.loaded)
        explain_missing_driver(&driver, text, sizeof text);
    else if (status == cudaErrorInsufficientDriver)
        explain_old_driver(&driver, text, sizeof text);
    else if (status == cudaErrorNoDevice)
        explain_no_gpu(&driver, text, sizeof text);
    else
        snprintf(text, sizeof text, "CUDA does not start: %s (error %d, driver %s): see whether nvidia-smi works",
                 cudaGetErrorString(status), (int)status, driver.name);
    for (size_t i = 0; i < sizeof explanations / sizeof *explanations; i++)
        if (explanations[i].status == status)
            snprintf(text, sizeof text, "%s (error %d, driver %s): %s", explanations[i].found, (int)status, driver.name,
                     explanations[i].advice);
    return text;
}

/* Returns the advice for a card that this program has no code for. */
static const char *what_to_build(void) {
    static char text[512];
    char built[128] = "";
    struct cudaDeviceProp card;
    int n, device;
    const int *architectures = cuda_architectures(&n);
    for (int i = 0; i < n; i++)
        snprintf(built + strlen(built), sizeof built - strlen(built), " sm_%d", architectures[i] / 10);
    cuda_check(cudaGetDevice(&device), "asking for the GPU");
    cuda_check(cudaGetDeviceProperties(&card, device), "asking for the GPU's properties");
    int capability = 10 * card.major + card.minor;
    const char *advice = capability < 70 ? "such a card is not supported; sm_70 is the oldest"
                         : capability < 75 && CUDART_VERSION >= 13000
                             ? "use a program of make release, or another one that was built with CUDA 12, the last "
                               "that knows such cards"
                             : "build it with make GPU=all, or on this machine with make GPU=native";
    snprintf(text, sizeof text, "this program has no code for the card that is here (%.64s, sm_%d), only for%s: %s",
             card.name, capability, built, advice);
    return text;
}

/* Reads the number in a file of a PCI device: 0x10de\n. Returns -1 if it cannot be read. */
static long read_number(const char *device, const char *name) {
    char path[512], text[32] = "";
    snprintf(path, sizeof path, "%s/%s", device, name);
    FILE *file = fopen(path, "r");
    bool read = file && fgets(text, sizeof text, file);
    if (file) fclose(file);
    return read ? strtol(text, NULL, 16) : -1;
}

bool cuda_card_is_here(void) {
    /* Display controllers of NVIDIA with numbers from this one on are Volta or newer: the PCI ID Repository. */
    enum { NVIDIA = 0x10de, DISPLAY = 0x03, FIRST_VOLTA = 0x1d81 };
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    bool here = false;
    glob_t devices = {0};
    if (visible && (!*visible || !strcmp(visible, "-1"))) return false;
    if (!glob("/sys/bus/pci/devices/*", 0, NULL, &devices))
        for (size_t i = 0; i < devices.gl_pathc; i++)
            here |= read_number(devices.gl_pathv[i], "vendor") == NVIDIA &&
                    read_number(devices.gl_pathv[i], "class") >> 16 == DISPLAY &&
                    read_number(devices.gl_pathv[i], "device") >= FIRST_VOLTA;
    globfree(&devices);
    return here;
}

int cuda_count_cards(void) {
    int count = 0;
    (void)look_for_driver(); /* also where the runtime does not look */
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    (void)cudaGetLastError();
    return 0;
}

void cuda_describe_card(int index, char product[64], char uuid[48]) {
    struct cudaDeviceProp card;
    product[0] = uuid[0] = 0;
    if (cudaGetDeviceProperties(&card, index) != cudaSuccess) return;
    snprintf(product, 64, "%.63s", card.name);
    nvml_uuid_text("GPU", card.uuid.bytes, uuid);
}

char *cuda_list_cards(void) {
    int count = cuda_count_cards();
    char *list = xformat("%d GPU%s", count, count == 1 ? "" : "s");
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp card;
        bool told = cudaGetDeviceProperties(&card, i) == cudaSuccess;
        xappend(&list, "%s%s", i ? ", " : ": ", told ? card.name : "without a name");
    }
    return list;
}

const char *cuda_missing(void) {
    int count = 0;
    (void)look_for_driver(); /* also where the runtime does not look */
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && !count) status = cudaErrorNoDevice;
    if (status == cudaSuccess) status = cuda_find_code();
    if (status == cudaSuccess) return NULL;
    (void)cudaGetLastError();
    bool no_code = status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction;
    return no_code ? what_to_build() : explain(status);
}
