/* Tensor files: safetensors (read, write) and torch's .pth (read; to write one: torch_pth.h). Both give the same view:
 * names, dtypes, shapes, bytes. */
#ifndef DATA_SAFETENSORS_H
#define DATA_SAFETENSORS_H

#include "base/base.h"
#include "kernels/tensor.h"

enum { STORED_MAX_RANK = 8 };

typedef struct {
    char *name;
    char dtype[8]; /* safetensors' names: "F32", "F16", "BF16", "F64", "I64", "I32", "I16", "I8", "U8", "BOOL", ... */
    int rank;
    int64_t dims[STORED_MAX_RANK];
    int64_t count;
    const void *data; /* little-endian, C order, in memory or mapped; not always aligned to its element */
    size_t bytes;
} StoredTensor;

typedef struct {
    int n_tensors;
    StoredTensor *tensors; /* in file order */
    int *by_name;          /* indices of tensors in the order of their names */
    int n_metadata;        /* safetensors' __metadata__ */
    char **metadata_keys, **metadata_values;
    int n_ignored; /* of a .pth: values that are not tensors */
    void *owner;   /* the mapping that holds the data; released by tensor_file_close */
    size_t owner_bytes;
    char *path;
} TensorFile;

/* Opens either format by its content. On failure false and a reason (without the path). Nothing is ever executed: of
 * pickle only the subset that torch.save of (nested) state dicts needs is understood, all else is refused by name. For
 * a .pth the tensors of a nested dict get dotted names ("model.gpt.ln_f.weight"). */
bool tensor_file_open(const char *path, TensorFile *file, Error *error);
bool safetensors_parse(const void *bytes, size_t size, TensorFile *file, Error *error); /* views into bytes */
/* data.pkl alone, for fuzzing: the numbers that lie beside it in a .pth are taken as zeros. */
bool torch_pickle_parse(const void *bytes, size_t size, TensorFile *file, Error *error);
void tensor_file_close(TensorFile *file); /* a zeroed or closed one stays as it is */
const StoredTensor *tensor_file_find(const TensorFile *file, const char *name); /* NULL: absent. Binary search. */
/* Returns the value under a key of the metadata; NULL: absent. */
const char *tensor_file_metadata(const TensorFile *file, const char *key);
/* Sorts by_name, after names were set or changed. False: a name is empty, not plain UTF-8, or there twice. */
bool tensor_file_index(TensorFile *file, Error *error);

/* Converts to f32 (from F64, F32, F16, BF16). False with a reason for another dtype. */
bool stored_to_f32(const StoredTensor *tensor, float *out, Error *error);

size_t stored_element_size(const char *dtype); /* bytes; 0: not a dtype of the format */
/* "F32 [12, 768]"; returns text. */
const char *shape_text(const char *dtype, int rank, const int64_t *dims, char text[128]);

/* A tensor to write. */
typedef struct {
    const char *name;
    const char *dtype;
    int rank;
    int64_t dims[STORED_MAX_RANK];
    const void *data;
} TensorToWrite;

/* Among the metadata of a file that safetensors_write made: the checksum, in hexadecimal digits, of its header (which
 * has zeros in place of these digits then) and of its data. Who reads such a file finds damage by it. */
#define SAFETENSORS_SUM_KEY "xxh3_64"
#define SAFETENSORS_NO_SUM  "0000000000000000"
enum { SAFETENSORS_SUM = sizeof SAFETENSORS_NO_SUM };

/* Writes the file whole or not at all (base/file.h). The data begin at a multiple of 64 bytes; larger elements come
 * first, so that every tensor is aligned to its element, otherwise the order is the one given. The same input gives the
 * same bytes. Allocates nothing.
 */
bool safetensors_write(const char *path, const TensorToWrite *tensors, int n_tensors, const char *const *metadata_keys,
                       const char *const *metadata_values, int n_metadata, Error *error);

#endif
