/* The named tensors of a file, whichever format it has: names, dtypes, shapes, bytes. */
#pragma once

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

typedef struct TensorFile TensorFile;
struct TensorFile {
    int n_tensors;
    StoredTensor *tensors; /* in file order */
    int *by_name;          /* indices of tensors in the order of their names */
    int n_metadata;        /* safetensors' __metadata__; whole numbers in the dictionaries of a .pth, dotted names */
    char **metadata_keys, **metadata_values;
    int n_ignored; /* of a .pth: values that are not tensors */
    void *owner;   /* the mapping that holds the data; released by tensor_file_close */
    size_t owner_bytes;
    TensorFile *shards; /* [n_shards] of an index: the files that hold the data; closed with it */
    int n_shards;
    char *path;
};

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
