#include "checkpoint/dump.h"
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/formats/safetensors.h"

struct Dump {
    Device *device;
    TensorToWrite *tensors;
    int count;
};

Dump *dump_open(Device *device) {
    Dump *dump = xcalloc(1, sizeof *dump);
    dump->device = device;
    return dump;
}

static void *dump_push(Dump *dump, const char *name, Tensor tensor) {
    static const char *const names[DTYPE_COUNT] = {
        [DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16", [DTYPE_F16] = "F16",
        [DTYPE_I32] = "I32", [DTYPE_I64] = "I64",   [DTYPE_U8] = "U8",
    };
    dump->tensors = xgrow(dump->tensors, (size_t)dump->count, sizeof *dump->tensors);
    TensorToWrite *entry = &dump->tensors[dump->count++];
    void *copy = xmalloc(tensor_bytes(tensor));
    *entry = (TensorToWrite){.name = xstrdup(name), .dtype = names[tensor.dtype], .rank = tensor.rank, .data = copy};
    for (int i = 0; i < tensor.rank; i++) entry->dims[i] = tensor.dims[i];
    return copy;
}

void *dump_add(Dump *dump, const char *name, Tensor tensor) {
    void *copy = dump_push(dump, name, tensor);
    dump->device->download(dump->device, copy, tensor.data, tensor_bytes(tensor));
    return copy;
}

void dump_add_host(Dump *dump, const char *name, Tensor tensor) {
    memcpy(dump_push(dump, name, tensor), tensor.data, tensor_bytes(tensor));
}

void dump_write_close(Dump *dump, const char *path, int64_t micro_batches) {
    OWNED char *count = xformat("%lld", (long long)micro_batches);
    const char *keys[] = {"micro_batches"}, *values[] = {count};
    file_remove_stale(path);
    MUST_OR(safetensors_write(path, dump->tensors, dump->count, keys, values, 1, &error), "--debug-dump: %s",
            error.text);
    for (int i = 0; i < dump->count; i++) FREE((char *)dump->tensors[i].name, (void *)dump->tensors[i].data);
    FREE(dump->tensors, dump);
}
