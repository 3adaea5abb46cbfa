#include "kernels/cpu/cpu.h"

float *cpu_scratch(Device *device, size_t floats) {
    CpuState *state = device->state;
    if (floats > state->scratch_floats) {
        if (state->scratch) device->release(device, state->scratch, state->scratch_floats * sizeof(float));
        state->scratch_floats = floats;
        state->scratch = device->allocate(device, floats * sizeof(float));
    }
    return state->scratch;
}
