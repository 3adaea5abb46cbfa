/* --debug-dump: tensors by which a training step can be compared with another framework. Copies of named tensors are
 * collected while the step runs, and written to one safetensors file after the step. */
#pragma once

#include "kernels/device.h"

typedef struct Dump Dump;

Dump *dump_open(Device *device);
/* Copies a tensor from the device. Returns the host copy that will be written. */
void *dump_add(Dump *dump, const char *name, Tensor tensor);
/* Copies a tensor on the host. */
void dump_add_host(Dump *dump, const char *name, Tensor tensor);
/* Writes the file and frees the dump; dies if it cannot be written. */
void dump_write_close(Dump *dump, const char *path, int64_t micro_batches);
