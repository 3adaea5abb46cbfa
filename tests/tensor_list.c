#include "tests/tensor_list.h"

#include "data/formats/safetensors.h"

TensorList tensor_list_read(const char *path) {
    TensorList list = {.file = open_file(path)};
    assert_in_range(list.file.n_tensors, 1, TENSOR_LIST_MOST);
    for (; list.n < list.file.n_tensors; list.n++) {
        const StoredTensor *t = &list.file.tensors[list.n];
        list.tensors[list.n] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(list.tensors[list.n].dims, t->dims, sizeof t->dims);
    }
    return list;
}

TensorToWrite *tensor_list_at(TensorList *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->tensors[i].name, name)) return &list->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

void tensor_list_copy(TensorList *list, const char *from, const char *name) {
    assert_true(list->n < TENSOR_LIST_MOST);
    list->tensors[list->n] = *tensor_list_at(list, from);
    list->tensors[list->n++].name = name;
}

void tensor_list_remove(TensorList *list, const char *name) {
    *tensor_list_at(list, name) = list->tensors[list->n - 1];
    list->n--;
}

const char *tensor_list_write(TensorList *list) {
    Error error;
    const char *path = kept_path(run_directory(), "edited.safetensors");
    if (!safetensors_write(path, list->tensors, list->n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    tensor_file_close(&list->file);
    return path;
}
