/* Fuzzes the pickle reader. Input: a mode byte, then either a whole pickle, or a change to a valid one: a position, a
 * number of bytes to remove there, and bytes to insert. So the fuzzer begins deep inside the format. */
#include <stdlib.h>
#include <string.h>

#include "data/formats/safetensors.h"
#include "data/formats/torch_pth.h"

/* {"a": {"w": parameter(f32 [3, 2], transposed), 7: [1.0, (None, True)]}} with attributes, memo and globals. */
static const char good[] =
    "\x80\2ccollections\nOrderedDict\nq\0)Rq\1(X\1\0\0\0a}q\2(X\1\0\0\0wq\3"
    "ctorch._utils\n_rebuild_parameter\n(ctorch._utils\n_rebuild_tensor_v2\nq\4((X\7\0\0\0storagectorch\nFloatStorage\n"
    "X\1\0\0\0"
    "0X\3\0\0\0cpuK\x09tq\5QK\3K\3K\2\x86q\6K\1K\3\x86q\7\x89h\0)RtR\x88h\0)RtRK\7](G\0\0\0\0\0\0\0\0N\x88\x86"
    "eu"
    "X\1\0\0\0xh\4(h\5QJ\1\0\0\0M\6\0\x85\x8a\1\1\x85\x89NtRu}X\1\0\0\0m}sb.";

static void touch(const TensorFile *file) {
    const char *begin = file->owner, *end = begin + file->owner_bytes;
    for (int i = 0; i < file->n_tensors; i++) {
        const StoredTensor *tensor = &file->tensors[i];
        const char *data = tensor->data;
        if (data < begin || data + tensor->bytes > end || tensor_file_find(file, tensor->name) != tensor) abort();
        for (size_t byte = 0; byte < tensor->bytes; byte += 1 + tensor->bytes / 64)
            if (data[byte]) abort(); /* all storages are zeros */
    }
}

static void parse(const char *bytes, size_t size) {
    TensorFile file;
    Error error;
    if (!torch_pickle_parse(bytes, size, &file, &error)) return;
    touch(&file);
    tensor_file_close(&file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    TensorFile file;
    Error error;
    if (!torch_pickle_parse(good, sizeof good - 1, &file, &error)) die("the good pickle: %s", error.text);
    if (file.n_tensors != 2) die("the good pickle has %d tensors", file.n_tensors);
    tensor_file_close(&file);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    const size_t n = sizeof good - 1;
    if (size < 4) return 0;
    size_t at = (input[1] | (size_t)input[2] << 8) % n, drop = input[3] % (n - at), put = size - 4;
    bool whole = input[0] & 1;
    char *bytes = xmalloc(n + size);
    if (!whole) memcpy(bytes, good, at);
    memcpy(bytes + (whole ? 0 : at), input + 4, put);
    if (!whole) memcpy(bytes + at + put, good + at + drop, n - at - drop);
    size_t total = whole ? put : n - drop + put;
    char *exact = xmalloc(total);
    memcpy(exact, bytes, total);
    parse(exact, total);
    free(exact);
    free(bytes);
    return 0;
}
