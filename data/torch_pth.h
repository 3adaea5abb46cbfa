/* What torch.save writes: a zip of data.pkl (names, shapes, strides) and of the numbers, one file a storage. */
#ifndef DATA_TORCH_PTH_H
#define DATA_TORCH_PTH_H

#include "data/safetensors.h"

bool torch_pth_open(const char *path, TensorFile *file, Error *error);

/* Writes one, from values in their order; a dictionary's are key, value, key, value, ...:
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
void pth_open(PthWriter *writer, PthContainer container); /* what follows is in it, until pth_close */
void pth_close(PthWriter *writer);
void pth_text(PthWriter *writer, const char *text); /* UTF-8 */
void pth_integer(PthWriter *writer, int64_t value);
void pth_real(PthWriter *writer, double value);
void pth_bool(PthWriter *writer, bool value);
void pth_none(PthWriter *writer);
void pth_tensor(PthWriter *writer, TensorToWrite tensor); /* copies its numbers; it needs no name */
/* Writes the file, whole or not at all as safetensors_write does, and frees the writer. */
bool pth_write(PthWriter *writer, const char *path, Error *error);

#endif
