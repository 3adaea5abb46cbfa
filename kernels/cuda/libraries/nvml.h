/* The sensors of an NVIDIA card, through NVML (libnvidia-ml.so.1), which comes with the driver and is loaded at run
 * time. Needs no CUDA headers. */
#pragma once

#include "kernels/cuda/libraries/library.h"
#include "kernels/device.h"

enum { NVML_UUID = 16 };

typedef struct Nvml Nvml;

/* Writes "GPU-01234567-89ab-cdef-0123-456789abcdef"; of a part of a card (MIG) the kind is "MIG". */
void nvml_uuid_text(const char *kind, const char uuid[NVML_UUID], char text[48]);
/* Finds the card with this UUID, whatever its index: CUDA_VISIBLE_DEVICES renumbers cards for CUDA, not for NVML.
 * TRAINC_NVML may name the library ("none": do without). Returns NULL if the library or the card is not there, and
 * warns if TRAINC_NVML names the library. */
Nvml *nvml_open(const char uuid[NVML_UUID]);
/* Writes the library's path, which has its version, or why it is not there. Does not start it. */
void nvml_find(char text[LIBRARY_DESCRIPTION]);
/* Reads the sensors without waiting for the card's work. NaN: the card has no such sensor. nvml may be NULL. */
void nvml_read(const Nvml *nvml, DeviceSensors *sensors);
void nvml_close(Nvml *nvml); /* NULL: does nothing */
