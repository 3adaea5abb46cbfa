#include "tests/estimate/rates_rig.h"

#include <math.h>
#include <stdio.h>

Rates rates_synthetic(const char *device) {
    Rates r = {.date = "2026-01-02", .memory = 0x1p33, .launch = 1e-6, .seconds = 5, .half = DTYPE_BF16, .copy = 1e10};
    snprintf(r.device, sizeof r.device, "%s", device);
    r.bytes = (RateCurve){.n = 2, .size = {1e4, 1e8}, .rate = {1e12, 1e10}};
    r.flops[WORK_PRODUCT][NUMBERS_F32][0] =
        (RateCurve){.n = 2, .density = 10, .size = {1e6, 1e10}, .rate = {1e9, 1e11}};
    r.flops[WORK_PRODUCT][NUMBERS_16_BITS][0] = (RateCurve){.n = 1, .density = 10, .size = {1e6}, .rate = {1e13}};
    r.flops[WORK_NORM][NUMBERS_F32][0] = (RateCurve){.n = 1, .density = 0.5, .size = {1e6}, .rate = {1e10}};
    return r;
}
