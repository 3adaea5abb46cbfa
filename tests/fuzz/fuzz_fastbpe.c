/* Opens any bytes as vocab.txt, as bpe.codes or as added_tokens.json, and good ones with changes; the first byte
 * chooses. What opens encodes the same bytes as a text, twice with the same ids, and decodes them. */
#include "data/text/tokenizer.h"
#include "tests/fuzz/fuzz_file.h"

static const char vocab[] = "a 9\nab 8\nab@@ 7\nb@@ 6\n\u0111@@ 5\n\u0111\u1ed1i 4\n\u00b0C 3\n@@ 2\n";
static const char codes[] =
    "a b</w> 9\na b 8\n\u1ed1 i</w> 7\n\u00a0 b 6\n\u0111 \u1ed1i</w> 5\n\u00a0\u00b0 C</w> 4\n";
static const char added[] = "{\"<mask>\": 12, \"ab\": 5, \"<e>\": 13, \"<e>b\": 14, \":)\": 15}";

/* Counts the unknown pieces that are told, and reads their texts. */
static void note(void *context, const char *text, size_t size) {
    int64_t *told = context;
    if (!size) abort();
    free(memcpy(xmalloc(size), text, size));
    ++*told;
}

static void encode_and_decode(const Tokenizer *tokenizer, const char *text, size_t size, bool specials) {
    static TokenIds ids[2]; /* the caches are cleared when the tokenizer changes */
    size_t decoded;
    int64_t told = 0, unknown;
    for (int i = 0; i < 2; i++) {
        ids[i].n = 0;
        tokenizer_encode(tokenizer, text, size, specials, &ids[i]);
    }
    if (ids[0].n != ids[1].n) abort();
    for (int64_t i = 0; i < ids[0].n; i++)
        if (ids[0].ids[i] < 0 || ids[0].ids[i] >= tokenizer_vocabulary(tokenizer) || ids[0].ids[i] != ids[1].ids[i])
            abort();
    free(tokenizer_decode(tokenizer, ids[0].ids, ids[0].n, &decoded));
    unknown = ids[0].unknown;
    ids[0].missing = note;
    ids[0].context = &told;
    tokenizer_encode(tokenizer, text, size, specials, &ids[0]); /* behind others, with known words */
    ids[0].missing = NULL;
    if (ids[0].n != 2 * ids[1].n || told != ids[0].unknown - unknown) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"vocab.txt", "bpe.codes", "added_tokens.json"}, *const good[] = {vocab, codes,
                                                                                                         added};
    static char *paths[3];
    Error error = {.text = ""};
    for (int i = 0; i < 3; i++) {
        if (!paths[i]) paths[i] = path_join(fuzz_directory(), names[i]);
        fuzz_write(paths[i], good[i], strlen(good[i]));
    }
    if (!size) return 0;
    const int chosen = data[0] & 128 ? 1 : data[0] & 32 ? 2 : 0;
    fuzz_write_chosen(paths[chosen], good[chosen], strlen(good[chosen]), data, size);
    Tokenizer *tokenizer = tokenizer_open(fuzz_directory(), &error);
    if (!tokenizer && !error.text[0]) abort();
    if (tokenizer) {
        encode_and_decode(tokenizer, (const char *)data, size, data[0] & 64);
        for (int id = 0; id < tokenizer_vocabulary(tokenizer); id++)
            if (tokenizer_id(tokenizer, tokenizer_piece(tokenizer, id)) != id) abort();
    }
    tokenizer_close(tokenizer);
    return 0;
}
