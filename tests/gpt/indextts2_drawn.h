/* Weights for the networks of IndexTTS2's features in any size, by a formula: each number follows from a tensor's
 * number and its place in it, as in tests/reference/make_golden_indextts2.py. */
#pragma once

#include "model/indextts2/features.h"

/* Fills elements first .. first + count - 1 of a tensor: uniform numbers of a mean and a standard deviation. */
void drawn_fill(float *out, uint32_t tensor, int64_t first, int64_t count, double around, double scale);
/* Fills elements of a network's parameter, whose mean and standard deviation follow from its shape and its name. */
void drawn_parameter(float *out, uint32_t tensor, const Param *p, int64_t first, int64_t count);
/* Opens a network, whose table is complete, on a device with weights whose numbers follow from their names. */
void drawn_network(Network *network, Device *device, DType type);
/* Opens networks on a device with these weights, and memory for passes over clips of these lengths. */
void drawn_features(Features *features, const FeaturesConfig *config, Device *device, DType type, DType voice_type,
                    const ClipLength *lengths, int n);
