/* Any bytes as a SentencePiece model, and a good one with changes: the first byte chooses. One that opens encodes a
 * text and decodes it without harm. */
#include "base/file.h"
#include "data/tokenizer.h"
#include "tests/fuzz_file.h"

static char *good;
static size_t good_size;

static void make(void) {
    static const char corpus[] = "the cat sat\non the mat\nthat is that\n";
    char model[] = "/tmp/fuzz_tokenizer_XXXXXX";
    Error error;
    int fd = mkstemp(model);
    if (fd < 0) abort();
    close(fd);
    if (!tokenizer_train_bpe(corpus, strlen(corpus), model, 40, &error) || !read_file(model, &good, &good_size, &error))
        abort();
    unlink(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *rest = size ? data + 1 : data;
    size_t n = size ? size - 1 : 0;
    char *changed = NULL;
    if (!good) make();
    if (size && data[0] % 4) changed = fuzz_changed(good, good_size, rest, n, &n);
    Error error = {.text = ""};
    Tokenizer *t = tokenizer_open(fuzz_file(changed ? (const void *)changed : rest, n), &error);
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
    free(changed);
    return 0;
}
