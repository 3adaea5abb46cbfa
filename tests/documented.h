/* Compares the files of tensors that programs write with the tables of docs/formats.md. */
#ifndef TESTS_DOCUMENTED_H
#define TESTS_DOCUMENTED_H

#include "data/formats/tensor_file.h"

/* Fail unless the tables under this heading ("## The store of cells") have a row for each ... tensor of a store, with
 * its name and type, and name each key of its metadata; ... field and activation of a debug dump, whose other tensors
 * are described under "## The debug dump". */
void assert_store_documented(const TensorFile *store, const char *heading);
void assert_dump_documented(const TensorFile *dump, const char *heading);

#endif
