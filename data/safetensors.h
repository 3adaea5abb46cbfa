/* Tensor files: safetensors (read, write) and torch's .pth (read). Both give the same view: names, dtypes, shapes,
 * bytes. */
#ifndef DATA_SAFETENSORS_H
#define DATA_SAFETENSORS_H

#include "base/base.h"
#include "kernels/tensor.h"

enum { STORED_MAX_RANK = 8 };

typedef struct {
    char *name;
    char dtype[8]; /* safetensors' names: "F32", "F16", "BF16", "F64", "I64", "I32", "I16", "I8", "U8", "BOOL" */
    int rank;
    int64_t dims[STORED_MAX_RANK];
    int64_t count;
    const void *data; /* little-endian, C order, in memory or mapped */
    size_t bytes;
} StoredTensor;

typedef struct {
    int n_tensors;
    StoredTensor *tensors; /* in file order */
    int n_metadata;        /* safetensors' __metadata__ */
    char **metadata_keys, **metadata_values;
    void *owner; /* mapping or buffers; released by tensor_file_close */
    size_t owner_bytes;
    char *path;
} TensorFile;

/* Opens either format by its content. On failure false and a reason (without the path). Nothing is ever executed: of
 * pickle only the subset that torch.save of (nested) state dicts needs is understood, all else is refused by name. For
 * a .pth the tensors of a nested dict get dotted names ("model.gpt.ln_f.weight"). */
bool tensor_file_open(const char *path, TensorFile *file, Error *error);
bool safetensors_parse(const void *bytes, size_t size, TensorFile *file, Error *error); /* views into bytes */
bool torch_pickle_parse(const void *bytes, size_t size, TensorFile *file,
                        Error *error); /* data.pkl alone, for fuzzing */
void tensor_file_close(TensorFile *file);
const StoredTensor *tensor_file_find(const TensorFile *file, const char *name); /* NULL: absent. Binary search. */

/* Converts to f32 (from F64, F32, F16, BF16). False with a reason for another dtype. */
bool stored_to_f32(const StoredTensor *tensor, float *out, Error *error);

/* Where the bytes of a tensor to write come from: memory, or a device, in pieces. */
typedef struct {
    const char *name;
    const char *dtype;
    int rank;
    int64_t dims[STORED_MAX_RANK];
    const void *data;
} TensorToWrite;

/* Writes the file to `path` under a temporary name, flushes (fsync), renames, flushes the directory. On any failure
 * (full disk) the temporary file is removed, what was at `path` before is whole, and the reason says how much was
 * written. 64-byte aligned data; tensors in the order given; deterministic bytes. */
bool safetensors_write(const char *path, const TensorToWrite *tensors, int n_tensors, const char *const *metadata_keys,
                       const char *const *metadata_values, int n_metadata, Error *error);
/* The same safety for any small file (JSON). */
bool file_write_atomic(const char *path, const void *bytes, size_t size, Error *error);

#endif
