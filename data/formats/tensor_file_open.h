/* Opens tensor files of all formats. */
#pragma once

#include "data/formats/tensor_file.h"

/* Opens a file of safetensors or of torch.save (.pth), or the index of several of them, told apart by the content. On
 * failure false and a reason (without the path). Nothing is ever executed: of pickle only the subset that torch.save of
 * (nested) state dicts needs is understood, all else is refused by name. For a .pth the tensors of a nested dict get
 * dotted names ("model.gpt.ln_f.weight").
 *
 * An index (model.safetensors.index.json, pytorch_model.bin.index.json) is the JSON {"weight_map": {TENSOR: FILE}}. All
 * its files, the shards, must lie beside it, and each must have the tensors that the index names there; no two may have
 * the same. */
bool tensor_file_open(const char *path, TensorFile *file, Error *error);
