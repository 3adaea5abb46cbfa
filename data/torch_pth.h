/* Reads what torch.save writes: a zip of data.pkl (names, shapes, strides) and of the numbers, one file a storage. */
#ifndef DATA_TORCH_PTH_H
#define DATA_TORCH_PTH_H

#include "data/safetensors.h"

bool torch_pth_open(const char *path, TensorFile *file, Error *error);

#endif
