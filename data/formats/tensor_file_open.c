#include "data/formats/tensor_file_open.h"

#include <string.h>

#include "base/mapping.h"
#include "data/formats/safetensors.h"
#include "data/formats/torch_pth.h"

bool tensor_file_open(const char *path, TensorFile *file, Error *error) {
    void *bytes;
    size_t size;
    *file = (TensorFile){0};
    if (!file_map(path, &bytes, &size, error)) return false; /* the mapping becomes the owner of `file` */
    if (size >= 4 && !memcmp(bytes, "PK\3\4", 4)) {
        file_unmap(bytes, size);
        if (!torch_pth_open(path, file, error)) return false;
    } else if (size >= 4 && !memcmp(bytes, "\x80\2\x8a\n", 4)) {
        file_unmap(bytes, size);
        return error_set(error, "written by a torch older than 1.6; load and save it once with a newer one");
    } else {
        if (!safetensors_parse(bytes, size, file, error)) {
            file_unmap(bytes, size);
            return false;
        }
        file->owner = bytes;
        file->owner_bytes = size;
    }
    file->path = xstrdup(path);
    return true;
}
