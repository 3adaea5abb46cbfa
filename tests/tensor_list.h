/* The tensors of a file, for tests that change some of them and write the others as they are. */
#pragma once

#include "tests/files.h"

enum { TENSOR_LIST_MOST = 64 };

typedef struct {
    TensorFile file; /* holds names and data */
    TensorToWrite tensors[TENSOR_LIST_MOST];
    int n;
} TensorList;

TensorList tensor_list_read(const char *path);
/* Returns the tensor with this name; fails the test if there is none. */
TensorToWrite *tensor_list_at(TensorList *list, const char *name);
/* Adds a tensor like another one, under a name. */
void tensor_list_copy(TensorList *list, const char *from, const char *name);
void tensor_list_remove(TensorList *list, const char *name);
/* Writes the list as a safetensors file, and closes it. Returns the path; valid until the program ends. */
const char *tensor_list_write(TensorList *list);
