/* Opens any bytes as a SentencePiece model, and a valid model with changes; the first byte chooses. A model that opens
 * encodes and decodes a text. */
#include "base/file.h"
#include "data/text/tokenizer.h"
#include "tests/fuzz/fuzz_file.h"

static char *valid;
static size_t valid_size;

static void make_valid_model(void) {
    static const char corpus[] = "the cat sat\non the mat\nthat is that\n";
    char model[] = "/tmp/fuzz_tokenizer_XXXXXX";
    Error error;
    int fd = mkstemp(model);
    if (fd < 0) abort();
    close(fd);
    if (!tokenizer_train_bpe(corpus, strlen(corpus), model, 40, &error) ||
        !read_file(model, &valid, &valid_size, &error))
        abort();
    unlink(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!valid) make_valid_model();
    size_t n;
    char *chosen = fuzz_chosen(valid, valid_size, data, size, &n);
    Error error = {.text = ""};
    Tokenizer *t = tokenizer_open(fuzz_file(chosen, n), &error);
    if (!t && !error.text[0]) abort();
    if (t) {
        int32_t *ids = NULL;
        int capacity = 0, pieces = tokenizer_vocabulary(t), unknown = tokenizer_unknown_id(t);
        int count = tokenizer_encode(t, "the cat sat on that hat", &ids, &capacity);
        if (pieces < 1 || unknown < 0 || unknown >= pieces) abort();
        for (int i = 0; i < count; i++)
            if (ids[i] < 0 || ids[i] >= pieces) abort();
        free(tokenizer_decode(t, ids, count));
        for (int i = 0; i < pieces; i++) tokenizer_piece(t, i);
        free(ids);
        tokenizer_close(t);
    }
    free(chosen);
    return 0;
}
