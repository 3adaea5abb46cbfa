/* Functions of the emulator for libraries that put work of their own into streams, as a stand-in for NCCL does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts work into a stream, or into the graph for which it is captured. When all before it is done, poll is called again
 * and again; the work is done when it returns true, and until then nothing behind it runs. At the next launch of a
 * graph the same begins anew. poll must be quick and must not call the runtime. Errors are those of a launch. */
cudaError_t emulate_enqueue_poll(cudaStream_t stream, bool (*poll)(void *argument), void *argument);

/* Lets all streams get on as far as they can: for calls that wait for a device in another way than the runtime's. */
void emulate_advance_streams(void);

/* Returns the number, from 1, of the capture that the stream is part of; 0: it is not being captured. */
uint64_t emulate_capture_number(cudaStream_t stream);

/* Returns whether there is something of a capture yet: it is under way, or a graph of it or what was made of that has not
 * been destroyed. */
bool emulate_capture_is_alive(uint64_t number);

/* Returns whether `bytes` from `memory` on lie in one allocation of device memory. */
bool emulate_is_device_memory(const void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif
