/* Opens tensor files of both formats. */
#ifndef DATA_FORMATS_TENSOR_FILE_OPEN_H
#define DATA_FORMATS_TENSOR_FILE_OPEN_H

#include "data/formats/tensor_file.h"

/* Opens a file of safetensors or of torch.save (.pth), told apart by the content. On failure false and a reason
 * (without the path). Nothing is ever executed: of pickle only the subset that torch.save of (nested) state dicts needs
 * is understood, all else is refused by name. For a .pth the tensors of a nested dict get dotted names
 * ("model.gpt.ln_f.weight"). */
bool tensor_file_open(const char *path, TensorFile *file, Error *error);

#endif
