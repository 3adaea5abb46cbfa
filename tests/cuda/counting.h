/* For tests of the emulator in CUDA: device memory with known numbers. */
#pragma once

#include <stdio.h>

#include <vector>

#include "kernels/cuda/memory.h"

extern "C" {
#include "tests/test.h"
}

/* Returns device memory of n floats: 1, 2, 3 ... */
static inline float *counting(int n) {
    std::vector<float> values((size_t)n);
    float *memory;
    for (int i = 0; i < n; i++) values[i] = (float)(i + 1);
    cudaMalloc((void **)&memory, (size_t)n * sizeof(float));
    cudaMemcpy(memory, values.data(), (size_t)n * sizeof(float), cudaMemcpyHostToDevice);
    return memory;
}

/* Prints "wrong result" unless memory[i] is want(i) for all i < n. */
template <class Want> static inline void expect(const float *memory, int n, Want want) {
    std::vector<float> got((size_t)n);
    cudaMemcpy(got.data(), memory, (size_t)n * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++)
        if (!(got[i] == want(i))) {
            printf("wrong result: [%d] is %g, not %g\n", i, (double)got[i], (double)want(i));
            return;
        }
}

static inline float at(int i) { return (float)(i + 1); }

__global__ void copy(float *out, const float *x) { out[threadIdx.x] = x[threadIdx.x]; }
__global__ void add_one(float *x) { x[threadIdx.x] += 1; }
