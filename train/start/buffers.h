/* Allocates the memory of a training: weights, gradients, moments and activations on the device, and copies on the
 * host. */
#pragma once

#include "train/training.h"

enum { BUFFER_WEIGHTS, BUFFER_M, BUFFER_V, BUFFERS }; /* the buffers that checkpoints hold */

/* Plans the memory, prints the plan, and allocates. Dies if the memory does not fit. */
void buffers_allocate(Training *training);
void buffers_release(Training *training);
/* Returns the buffers on the host: in place if the device uses host memory, otherwise in copy `slot`. */
CheckpointBuffers buffers_copy(const Training *training, int slot);
/* Copies the first `count` buffers from the host to the device, unless they are in place. */
void buffers_upload(Training *training, int count);
/* Derives from weights and state what else the device needs, such as 16-bit weights and the loss scale. */
void buffers_derive(Training *training);
