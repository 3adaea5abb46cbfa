/* Opens any bytes as a tokenizer.json or a meta.pkl, and good ones with changes; the first byte chooses.
 * One that opens encodes the same bytes as a text, and decodes them. The unchanged byte-level one gives them back. */
#include "base/file.h"
#include "data/text/bpe_train.h"
#include "data/text/tokenizer.h"
#include "tests/fuzz/fuzz_file.h"

static const char character_level[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true,\"lstrip\":true,\"rstrip\":true},{\"id\":8,"
    "\"content\":"
    "\"ba\",\"single_word\":true,\"lstrip\":true}],\"normalizer\":{\"type\":\"Sequence\","
    "\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"}]},\"pre_tokenizer\":{\"type\":"
    "\"BertPreTokenizer\"},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":null,\"fuse_unk\":true,\"ignore_merges\":false,"
    "\"continuing_subword_prefix\":\"#\",\"vocab\":{\"<s>\":0,\"a\":1,\"#a\":2,\"b\":3,\"#b\":4,\"ab\":5,\"#bb\":6,"
    "\"abbb\":7},\"merges\":[\"a #b\",[\"#b\",\"#b\"],\"ab #bb\"]}}";
/* {"vocab_size": 4, "itos": {0: "\n", 1: " ", 2: "a", 3: "b"}} */
static const char characters[] =
    "\200\004\225\067\000\000\000\000\000\000\000}\224(\214\012vocab_size\224K\004\214\004itos\224}"
    "\224(K\000\214\001\012\224K\001\214\001 \224K\002\214\001a\224K\003\214\001b\224uu.";
static char *byte_level;
static size_t byte_level_size;
static Tokenizer *whole;

static void make_byte_level(void) {
    static const char text[] = "the cat sat on the mat; that's 12 mats \xf0\x9f\x98\x80 \xf0\x9f\x98\x81";
    static const char *const specials[] = {"<|endoftext|>"};
    const BpeTraining options = {270, 0, specials, 1, 1};
    char *path = path_join(fuzz_directory(), "tokenizer.json");
    BpeTrainer *trainer = bpe_trainer_open(&options);
    bpe_trainer_add(trainer, 0, text, strlen(text));
    if (!bpe_trainer_write(trainer, path, &(int){0}, NULL) || !read_file(path, &byte_level, &byte_level_size, NULL) ||
        !(whole = tokenizer_open(path, NULL)))
        abort();
    bpe_trainer_close(trainer);
    free(path);
}

/* Counts the unknown pieces that are told, and reads their texts. */
static void note(void *context, const char *text, size_t size) {
    int64_t *told = context;
    if (!size) abort();
    free(memcpy(xmalloc(size), text, size));
    ++*told;
}

/* Encodes and decodes the bytes. Returns whether they have come back. */
static bool turn_round(const Tokenizer *tokenizer, const char *bytes, size_t size, bool specials) {
    static TokenIds ids; /* its cache is cleared when the tokenizer changes */
    size_t back_size;
    int64_t told = 0;
    for (int again = 0; again < 2; again++) { /* then with known words */
        ids.n = ids.unknown = ids.dropped = 0;
        ids.missing = again ? note : NULL;
        ids.context = &told;
        tokenizer_encode(tokenizer, bytes, size, specials, &ids);
    }
    if (told > ids.unknown + ids.dropped || !told != !(ids.unknown + ids.dropped)) abort();
    for (int64_t i = 0; i < ids.n; i++)
        if (ids.ids[i] < 0 || ids.ids[i] >= tokenizer_vocabulary(tokenizer)) abort();
    char *back = tokenizer_decode(tokenizer, ids.ids, ids.n, &back_size);
    const bool same = back_size == size && !memcmp(back, bytes, size);
    free(back);
    return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *paths[2];
    Error error = {.text = ""};
    if (!whole) make_byte_level();
    if (!paths[0]) paths[0] = fuzz_file_named("changed.json");
    if (!paths[1]) {
        paths[1] = path_join(fuzz_directory(), "meta.pkl");
        if (symlink(fuzz_file("", 0), paths[1])) abort();
    }
    if (!size) return 0;
    const char *text = (const char *)data;
    if (!turn_round(whole, text, size, data[0] & 64)) abort();
    const bool bytes = data[0] & 128, table = data[0] & 32;
    size_t n;
    char *chosen = table   ? fuzz_chosen(characters, sizeof characters - 1, data, size, &n)
                   : bytes ? fuzz_chosen(byte_level, byte_level_size, data, size, &n)
                           : fuzz_chosen(character_level, sizeof character_level - 1, data, size, &n);
    fuzz_file(chosen, n);
    Tokenizer *tokenizer = tokenizer_open(paths[table], &error);
    if (!tokenizer && !error.text[0]) abort();
    if (tokenizer) {
        turn_round(tokenizer, text, size, data[0] & 64);
        for (int id = 0; id < tokenizer_vocabulary(tokenizer); id++) tokenizer_piece(tokenizer, id);
    }
    tokenizer_close(tokenizer);
    free(chosen);
    return 0;
}
