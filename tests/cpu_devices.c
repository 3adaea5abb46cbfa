#include "tests/cpu_devices.h"

#include "kernels/device_open.h"

Device *devices[6];
int n_devices;

static void open_and_close(void *unused) {
    (void)unused;
    device_close(cpu_device_open(1));
}

int open_devices(void **state) {
    (void)state;
    devices[n_devices++] = cpu_device_open(2);
    devices[n_devices++] = cpu_device_open(1);
    static const char *const sets[] = {"avx512", "avx2", "sse4", "baseline"};
    const char *limit = getenv("TRAINC_CPU_SET");
    char *only = limit ? xstrdup(limit) : NULL; /* by make check-instruction-sets */
    for (int i = 0; i < 4; i++) {
        char output[256];
        if (only && strcmp(only, sets[i])) continue;
        setenv("TRAINC_CPU_SET", sets[i], 1);
        if (!run_function(output, sizeof output, open_and_close, NULL)) devices[n_devices++] = cpu_device_open(3);
        unsetenv("TRAINC_CPU_SET");
    }
    if (only) setenv("TRAINC_CPU_SET", only, 1);
    free(only);
    for (int d = 0; d < n_devices; d++) print_message("%s\n", devices[d]->description);
    return n_devices > 2 ? 0 : -1;
}

int close_devices(void **state) {
    (void)state;
    for (int d = 0; d < n_devices; d++) device_close(devices[d]);
    return 0;
}
