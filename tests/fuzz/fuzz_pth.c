/* Reads any bytes as a file of torch.save, a zip or older, or as the index of several files, and such files with
 * changes. The first byte chooses. */
#include "base/file.h"
#include "data/formats/safetensors.h"
#include "data/formats/tensor_file_open.h"
#include "tests/fuzz/fuzz_file.h"

static const char *const names[] = {"torch_lightning.ckpt", "torch_classifier.ckpt", "torch_legacy.pth"};
static const char shards[] = "{\"metadata\": {\"total_size\": 8}, \"weight_map\": {\"a\": \"0\", \"b\": \"none\"}}";
enum { FILES = sizeof names / sizeof *names, SHARDS = FILES };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *good[FILES];
    static size_t sizes[FILES];
    int which = size ? data[0] % (FILES + 2) : FILES + 1;
    const uint8_t *rest = size ? data + 1 : data;
    size_t n = size ? size - 1 : 0;
    char *changed = NULL;
    if (which < FILES) {
        char *path = path_join("tests/reference/golden", names[which]);
        Error error;
        if (!good[which] && !read_file(path, &good[which], &sizes[which], &error)) abort();
        free(path);
        changed = fuzz_changed(good[which], sizes[which], rest, n, &n);
    }
    if (which == SHARDS) changed = fuzz_changed(shards, sizeof shards - 1, rest, n, &n);
    TensorFile file;
    Error error = {.text = ""};
    if (tensor_file_open(fuzz_file(changed ? (const void *)changed : rest, n), &file, &error)) {
        double sum = 0;
        for (int i = 0; i < file.n_tensors; i++) {
            const StoredTensor *t = &file.tensors[i];
            if (t->bytes > n + n / 2 + 64 || !t->name) abort();
            for (size_t b = 0; b < t->bytes; b++) sum += ((const unsigned char *)t->data)[b];
        }
        if (sum < 0) abort();
        tensor_file_close(&file);
    } else if (!error.text[0]) {
        abort();
    }
    free(changed);
    return 0;
}
