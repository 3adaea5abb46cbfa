/* Opens any bytes as a SentencePiece model, and a valid model with changes; the first byte chooses. A model that opens
 * encodes and decodes a text. */
#include "base/file.h"
#include "data/text/sentencepiece.h"
#include "tests/fuzz/fuzz_file.h"

static char *valid;
static size_t valid_size;

static void make_valid_model(void) {
    static const char corpus[] = "the cat sat\non the mat\nthat is that\n";
    char model[] = "/tmp/fuzz_sentencepiece_XXXXXX";
    Error error;
    int fd = mkstemp(model);
    if (fd < 0) abort();
    close(fd);
    if (!sentencepiece_train_bpe(corpus, strlen(corpus), model, 40, &error) ||
        !read_file(model, &valid, &valid_size, &error))
        abort();
    unlink(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!valid) make_valid_model();
    size_t n;
    char *chosen = fuzz_chosen(valid, valid_size, data, size, &n);
    Error error = {.text = ""};
    SentencePiece *t = sentencepiece_open(fuzz_file(chosen, n), &error);
    if (!t && !error.text[0]) abort();
    if (t) {
        TokenIds ids = {0};
        size_t bytes;
        int pieces = sentencepiece_vocabulary(t), unknown = sentencepiece_unknown_id(t);
        sentencepiece_encode(t, "the cat</s>sat on that hat", 26, true, &ids);
        if (pieces < 1 || unknown < 0 || unknown >= pieces) abort();
        for (int i = 0; i < ids.n; i++)
            if (ids.ids[i] < 0 || ids.ids[i] >= pieces) abort();
        free(sentencepiece_decode(t, ids.ids, ids.n, &bytes));
        for (int i = 0; i < pieces; i++) sentencepiece_piece(t, i);
        token_ids_free(&ids);
        sentencepiece_close(t);
    }
    free(chosen);
    return 0;
}
