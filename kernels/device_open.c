#include "kernels/device_open.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/startup.h"

static int chosen_card;

void device_choose_card(int index) { chosen_card = index; }

Device *device_open(const char *which, int n_threads, bool no_tf32, const char **why) {
    bool cpu = !strcmp(which, "cpu");
    *why = cpu ? NULL : cuda_missing();
    if (!strcmp(which, "cuda") && *why) die("--device cuda: %s", *why);
    if (*why && cuda_card_is_here())
        die("an NVIDIA card is here, and cannot be used: %s; --device cpu computes without it", *why);
    if (cpu || *why) return cpu_device_open(n_threads);
    Device *device = cuda_device_open(chosen_card);
    if (no_tf32 && device->tf32) snprintf(device->notes, sizeof device->notes, "TF32 disabled: f32 products are exact");
    device->tf32 &= !no_tf32;
    return device;
}
