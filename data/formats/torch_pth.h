/* Reads and writes the files of torch.save: a zip of data.pkl (names, shapes, strides) and one file per storage. Also
 * reads those of a torch before 1.6, which are no zip. */
#pragma once

#include "data/formats/tensor_file.h"

bool torch_pth_open(const char *path, TensorFile *file, Error *error);
/* Returns whether the bytes of a file begin as torch.save wrote them before 1.6. */
bool torch_is_legacy(const void *bytes, size_t size);
/* Reads such bytes; the tensors are copies. */
bool torch_legacy_parse(const void *bytes, size_t size, TensorFile *file, Error *error);
/* data.pkl alone, for fuzzing: the numbers that lie beside it in a .pth are taken as zeros. */
bool torch_pickle_parse(const void *bytes, size_t size, TensorFile *file, Error *error);

/* Writes a file from values in their order; a dictionary has key, value, key, value, ...:
 *
 *     PthWriter *w = pth_begin();
 *     pth_open(w, PTH_DICT);
 *     pth_text(w, "epoch"), pth_integer(w, 12);
 *     pth_text(w, "weight"), pth_tensor(w, (TensorToWrite){.dtype = "F32", .rank = 1, .dims = {n}, .data = numbers});
 *     pth_close(w);
 *     if (!pth_write(w, path, &error)) die("%s", error.text);
 *
 * torch.load(path, weights_only=True) gives the same tree back. */
typedef struct PthWriter PthWriter;
typedef enum { PTH_DICT, PTH_ORDERED_DICT, PTH_LIST, PTH_TUPLE } PthContainer;

PthWriter *pth_begin(void);
void pth_open(PthWriter *writer, PthContainer container); /* begins a container, until pth_close */
void pth_close(PthWriter *writer);
void pth_text(PthWriter *writer, const char *text); /* UTF-8 */
void pth_integer(PthWriter *writer, int64_t value);
void pth_real(PthWriter *writer, double value);
void pth_bool(PthWriter *writer, bool value);
void pth_none(PthWriter *writer);
void pth_tensor(PthWriter *writer, TensorToWrite tensor); /* copies the data; the name is not used */
/* The same without a copy: the data must not change before pth_write returns. Tensors of the same data share a storage,
 * as tied weights do in PyTorch. */
void pth_tensor_in_place(PthWriter *writer, TensorToWrite tensor);
/* Writes the file atomically and frees the writer. */
bool pth_write(PthWriter *writer, const char *path, Error *error);
