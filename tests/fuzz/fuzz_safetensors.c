/* Fuzzes the safetensors reader. Input: a mode byte, then either a whole file, or a change to a valid header: a
 * position, a number of bytes to remove there, and bytes to insert. The right length is put before the header and zero
 * bytes behind. So the fuzzer, which cannot see into the JSON library, begins deep inside the format. */
#include <stdlib.h>
#include <string.h>

#include "data/formats/safetensors.h"

static const char good[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                           "\"b\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[24,26]},"
                           "\"c\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[26,28]},"
                           "\"d\":{\"dtype\":\"F64\",\"shape\":[0,7],\"data_offsets\":[28,28]},"
                           "\"e\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[28,36]}}  ";
enum { DATA = 36 };

static void touch(const TensorFile *file, const char *begin, const char *end) {
    for (int i = 0; i < file->n_tensors; i++) {
        const StoredTensor *tensor = &file->tensors[i];
        const char *data = tensor->data;
        if (data < begin || data + tensor->bytes > end || tensor_file_find(file, tensor->name) != tensor) abort();
        float *values = xmalloc((size_t)tensor->count * sizeof(float));
        stored_to_f32(tensor, values, NULL);
        free(values);
    }
}

/* Makes a file of the valid header with changes. */
static size_t change_header(const uint8_t *input, size_t size, char *bytes) {
    const size_t n = sizeof good - 1;
    size_t at = (input[1] | (size_t)input[2] << 8) % n, drop = input[3] % (n - at), put = size - 4;
    size_t header = n - drop + put;
    for (int i = 0; i < 8; i++) bytes[i] = (char)(header >> 8 * i & 255);
    memcpy(bytes + 8, good, at);
    memcpy(bytes + 8 + at, input + 4, put);
    memcpy(bytes + 8 + at + put, good + at + drop, n - at - drop);
    memset(bytes + 8 + header, 0, DATA);
    return 8 + header + DATA;
}

static bool parse(const char *bytes, size_t size) {
    char *exact = xmalloc(size);
    TensorFile file;
    Error error;
    memcpy(exact, bytes, size);
    bool accepted = safetensors_parse(exact, size, &file, &error);
    if (accepted) {
        touch(&file, exact, exact + size);
        tensor_file_close(&file);
    }
    free(exact);
    return accepted;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    char bytes[8 + sizeof good + DATA];
    if (!parse(bytes, change_header((const uint8_t[]){0, 0, 0, 0}, 4, bytes))) die("the good header is refused");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size < 4) return 0;
    char *bytes = xmalloc(8 + sizeof good + size + DATA);
    size_t total = size - 1;
    if (input[0] & 1)
        memcpy(bytes, input + 1, total);
    else
        total = change_header(input, size, bytes);
    parse(bytes, total);
    free(bytes);
    return 0;
}
