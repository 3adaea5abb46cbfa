/* Streams of ids: shards of prepare, files of other programs, and what is wrong with them. */
#include "data/slm/stream.h"

#include <sys/stat.h>
#include <unistd.h>

#include "data/ledger.h"
#include "data/slm/prepared.h"
#include "data/slm/shard_writer.h"
#include "tests/test.h"

static Error error;

static SlmStream *open_stream(const char *path, const char *split) {
    SlmStream *s = slm_stream_open(path, split, NULL, &error);
    if (!s) fail_msg("%s", error.text);
    return s;
}

static void assert_refused(const char *path, const char *split, const SlmForeign *foreign, const char *reason) {
    Error error = {.text = ""};
    assert_null(slm_stream_open(path, split, foreign, &error));
    assert_contains(error.text, reason);
    assert_contains(error.text, path);
}

static void assert_ids(const SlmStream *s, const int32_t *want, int64_t n) {
    int32_t *got = xmalloc((size_t)n * sizeof *got);
    assert_int_equal(s->n_tokens, n);
    for (int64_t length = 1; length <= n; length++) /* every piece of every length: all borders between files */
        for (int64_t at = 0; at + length <= n; at++) {
            slm_stream_read(s, at, length, got);
            assert_memory_equal(got, want + at, (size_t)length * sizeof *got);
        }
    free(got);
}

static void assert_documents(const SlmStream *s, const int64_t *first, int64_t n) {
    assert_int_equal(s->n_documents, n);
    assert_memory_equal(s->first, first, (size_t)(n + 1) * sizeof *first);
}

/* ---- shards ---- */

/* Three documents with the end-of-text id 8. */
static const int32_t IDS[] = {8, 1, 2, 3, 8, 4, 8, 5, 6, 8};
static const int64_t FIRST[] = {0, 4, 6, 9}, BYTES[] = {30, 0, 20};

/* Writes them, in shards of at most so many ids, and the record. Returns the folder. */
static const char *write_folder(int64_t shard_ids, int vocabulary, int shift) {
    const char *folder = run_directory();
    ShardWriter w = {.directory = folder,
                     .split = "train",
                     .shard_ids = shard_ids,
                     .shard = {.vocabulary = vocabulary, .end_of_text = 8 + shift, .tokenizer_hash = 0xabc}};
    for (int d = 0; d < 3; d++) {
        uint16_t narrow[3];
        uint32_t wide[3];
        int64_t n = FIRST[d + 1] - FIRST[d] - 1;
        for (int64_t i = 0; i < n; i++) narrow[i] = (uint16_t)(wide[i] = (uint32_t)(IDS[FIRST[d] + 1 + i] + shift));
        if (!shard_writer_add(&w, vocabulary > 65536 ? (void *)wide : narrow, n, BYTES[d], &error))
            fail_msg("%s", error.text);
    }
    if (!shard_writer_end(&w, &error)) fail_msg("%s", error.text);
    write_text(kept_path(folder, "tokenizer.json"), "{}");
    json_t *record = json_build("a test", "{s:{s:s, s:s}, s:{s:{s:I}}}", "tokenizer", "file", "tokenizer.json", "sha1",
                                fingerprint_file(kept_path(folder, "tokenizer.json")).text, "splits", "train", "shards",
                                (json_int_t)w.n_shards);
    if (!prepared_write(folder, record, &error)) fail_msg("%s", error.text);
    json_decref(record);
    shard_writer_close(&w);
    return folder;
}

TEST(a_shard_has_these_bytes) {
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"train.c tokens 1\",\"vocabulary\":\"9\",\"end_of_text\":\"8\","
        "\"tokenizer_hash\":\"0000000000000abc\",\"shard\":\"0\",\"xxh3_64\":\"";
    static const char rest[] = "\"},\"first\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]},"
                               "\"bytes\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[24,48]},"
                               "\"ids\":{\"dtype\":\"U16\",\"shape\":[10],\"data_offsets\":[48,68]}}";
    char *bytes = kept_text(kept_path(write_folder(100, 9, 0), "train_00000.safetensors"));
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    assert_memory_equal(bytes + 8 + sizeof header - 1 + 16, rest, sizeof rest - 1);
    uint16_t ids[10];
    for (int i = 0; i < 10; i++) ids[i] = (uint16_t)IDS[i];
    uint64_t n;
    memcpy(&n, bytes, sizeof n);
    assert_memory_equal(bytes + 8 + n, FIRST, 24);
    assert_memory_equal(bytes + 8 + n + 24, BYTES, 24);
    assert_memory_equal(bytes + 8 + n + 48, ids, 20);
}

TEST(shards_of_any_size_are_one_stream) {
    for (int64_t size = 1; size <= 9; size++) {
        const char *folder = write_folder(size, 9, 0);
        SlmStream *s = open_stream(folder, "train");
        assert_ids(s, IDS, 10);
        assert_documents(s, FIRST, 3);
        assert_memory_equal(s->bytes, BYTES, sizeof BYTES);
        assert_true(s->vocabulary == 9 && s->end_of_text == 8 && s->tokenizer_hash == 0xabc);
        slm_stream_close(s);
        int n = size < 5 ? 3 : size < 9 ? 2 : 1; /* the documents have 4, 2 and 3 ids */
        char *last = keep(prepared_shard_path(folder, "train", n - 1)),
             *beyond = keep(prepared_shard_path(folder, "train", n));
        assert_int_equal(access(last, F_OK), 0);
        assert_int_equal(access(beyond, F_OK), -1);
    }
}

TEST(a_large_vocabulary_has_ids_of_32_bits) {
    enum { SHIFT = 100000 };
    int32_t want[10];
    for (int i = 0; i < 10; i++) want[i] = IDS[i] + SHIFT;
    SlmStream *s = open_stream(write_folder(5, 1 << 17, SHIFT), "train");
    assert_ids(s, want, 10);
    slm_stream_close(s);
}

TEST(a_stream_in_memory_is_like_a_file) {
    SlmStream *s = slm_stream_of(IDS, 10, FIRST, BYTES, 3, 9, 8);
    assert_ids(s, IDS, 10);
    assert_documents(s, FIRST, 3);
    assert_memory_equal(s->bytes, BYTES, sizeof BYTES);
    slm_stream_close(s);
    s = slm_stream_of(IDS, 10, FIRST, NULL, 3, 9, 8);
    assert_null(s->bytes);
    slm_stream_close(s);
}

static void change_byte(const char *path, long at) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_END), 0);
    int byte = fgetc(file);
    fseek(file, at, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
}

TEST(a_damaged_folder_is_refused_with_its_reason) {
    const char *folder = write_folder(4, 9, 0), *one = kept_path(folder, "train_00001.safetensors"), *two;
    slm_stream_close(open_stream(folder, "train"));
    assert_true(slm_stream_exists(folder, "train"));
    assert_false(slm_stream_exists(folder, "val"));
    assert_refused(folder, "val", NULL, "has no split 'val'");
    assert_refused("/nowhere", "val", NULL, "is no folder");
    change_byte(one, -1);
    assert_refused(folder, "train", NULL, "its checksum is");
    change_byte(one, -1);
    struct stat status;
    assert_int_equal(stat(one, &status), 0);
    assert_int_equal(truncate(one, status.st_size - 3), 0);
    assert_refused(folder, "train", NULL, "train_00001.safetensors: ");
    folder = write_folder(4, 9, 0);
    one = kept_path(folder, "train_00001.safetensors");
    two = kept_path(folder, "train_00002.safetensors");
    assert_int_equal(rename(one, kept_path(folder, "away")), 0);
    assert_refused(folder, "train", NULL, "has 2 shards of 'train', and its prepared.json says 3");
    assert_int_equal(rename(two, one), 0);
    assert_int_equal(rename(kept_path(folder, "away"), two), 0);
    assert_refused(folder, "train", NULL, "is shard 2 by its metadata, and 1 by its name");
    folder = write_folder(4, 9, 0);
    assert_int_equal(rename(kept_path(write_folder(4, 10, 0), "train_00001.safetensors"),
                            kept_path(folder, "train_00001.safetensors")),
                     0);
    assert_refused(folder, "train", NULL, "was made with another tokenizer");
    write_text(kept_path(folder, "tokenizer.json"), "{ }");
    assert_refused(folder, "train", NULL, "not the tokenizer that prepare put there");
    write_text(kept_path(folder, ".unfinished"), "inputs");
    assert_refused(folder, "train", NULL, "is unfinished");
    assert_int_equal(unlink(kept_path(folder, ".unfinished")), 0);
    assert_int_equal(unlink(kept_path(folder, "prepared.json")), 0);
    assert_refused(folder, "train", NULL, "prepared.json: ");
}

TEST(counts_of_a_prepared_folder_that_overflow_are_refused) {
    static const char *const keys[] = {"documents", "tokens", "unknown", "dropped_characters"};
    static const json_int_t wrong[] = {INT64_MAX, INT64_MIN, -1};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            json_t *record = json_pack("{s: {s: {s: I}}}", "splits", "val", keys[i], wrong[k]);
            char *named = kept_format("\"%s\" is %lld: expected a count", keys[i], (long long)wrong[k]);
            assert_false(prepared_check_unknown(record, 1, &error));
            assert_contains(error.text, named);
            json_decref(record);
        }
}

TEST(a_shard_that_contradicts_itself_is_refused) {
    static const struct {
        int64_t first[2];
        uint16_t ids[4];
        int64_t n, vocabulary;
        const char *reason;
        int64_t number, bytes;
    } cases[] = {{{0, 2}, {3, 1, 3, 2}, 4, 4, NULL, 0, 0},
                 {{0, 2}, {3, 1, 3, 2}, 4, 4, "is shard 2147483647 by its metadata, and 0 by its name", INT32_MAX, 0},
                 {{0, 2}, {3, 1, 3, 2}, 4, 4, "bytes[0] is 9223372036854775807", 0, INT64_MAX},
                 {{0, 2}, {3, 1, 3, 2}, 4, 4, "bytes[1] is 17592186044415: ", 0, (1LL << 44) - 1},
                 {{0, 2}, {3, 1, 3, 2}, 4, 4, NULL, 0, 1LL << 43},
                 {{0, 2}, {3, 1, 3, 2}, 4, 4, "bytes[0] is -1", 0, -1},
                 {{0, 2}, {3, 1, 3, 4}, 4, 4, "id 4 at position 3 is not below the vocabulary, 4", 0, 0},
                 {{0, 1}, {3, 1, 3, 2}, 4, 4, "document 1 begins at position 1 with id 1", 0, 0},
                 {{2, 2}, {3, 1, 3, 2}, 4, 4, "its first document is not at position 0", 0, 0},
                 {{0, 0}, {3, 1, 3, 2}, 4, 4, "positions must ascend", 0, 0},
                 {{0, 4}, {3, 1, 3, 2}, 4, 4, "first[1] is 4", 0, 0},
                 {{0, 2}, {3, 1, 3, 2}, 3, 4, "ends with the end-of-text id before a document", 0, 0}};
    const char *path = kept_path(run_directory(), "x_00000.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t bytes[] = {cases[i].bytes, cases[i].bytes};
        const SlmShard shard = {.ids = cases[i].ids,
                                .number = cases[i].number,
                                .width = 2,
                                .n_ids = cases[i].n,
                                .n_documents = 2,
                                .first = cases[i].first,
                                .bytes = bytes,
                                .vocabulary = cases[i].vocabulary,
                                .end_of_text = 3};
        if (!slm_shard_write(path, &shard, &error)) fail_msg("%s", error.text);
        if (cases[i].reason)
            assert_refused(path, NULL, NULL, cases[i].reason);
        else
            slm_stream_close(open_stream(path, NULL));
    }
}

/* ---- files of other programs ---- */

/* pickle.dump({"vocab_size": 300, "block_size": 1024, "train_tokens": 9, "val_tokens": 1}, file), protocol 4 */
static const char META[] =
    "\x80\x04\x95\x45\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\nvocab_size\x94M,\x01\x8c\nblock_size"
    "\x94M\x00\x04\x8c\x0ctrain_tokens\x94K\x09\x8c\nval_tokens\x94K\x01u.";

TEST(headerless_ids_have_the_vocabulary_of_meta_pkl) {
    static const uint16_t ids[] = {5, 299, 0, 7, 0, 9};
    static const int32_t want[] = {5, 299, 0, 7, 0, 9};
    const char *folder = run_directory(), *below = kept_path(folder, "tokenized_data");
    make_directories(below);
    write_bytes(kept_path(below, "train.bin"), ids, sizeof ids);
    assert_refused(folder, "train", NULL, "its vocabulary is unknown");
    write_bytes(kept_path(below, "meta.pkl"), META, sizeof META - 1);
    SlmStream *s = open_stream(folder, "train");
    assert_ids(s, want, 6);
    assert_int_equal(s->vocabulary, 300);
    assert_int_equal(s->end_of_text, -1);
    assert_documents(s, (const int64_t[]){0, 5}, 1);
    assert_null(s->bytes);
    slm_stream_close(s);
    s = slm_stream_open(folder, "train", &(SlmForeign){400, 0, 0}, &error);
    assert_int_equal(s->vocabulary, 400);
    assert_documents(s, (const int64_t[]){0, 2, 4, 5}, 3);
    slm_stream_close(s);
    const char *file = kept_path(below, "train.bin");
    assert_refused(file, NULL, &(SlmForeign){299, -1, 0}, "id 299 at position 1 is not below the vocabulary, 299");
    assert_refused(file, NULL, &(SlmForeign){300, 300, 0}, "the end-of-text id 300 is not below the vocabulary");
    write_bytes(file, ids, 5);
    assert_refused(file, NULL, NULL, "has 5 bytes, an odd number");
    write_bytes(file, ids, 2);
    assert_refused(file, NULL, NULL, "has 1 ids; a stream needs 2");
    write_bytes(file, ids, 0);
    assert_refused(file, NULL, NULL, "the file is empty");
    write_bytes(kept_path(below, "meta.pkl"), "\x80\x04}.", 4);
    write_bytes(file, ids, 4);
    assert_refused(folder, "train", NULL, "has no number \"vocab_size\"");
}

/* ---- ids of other widths ---- */

enum { MANY = 3000 }; /* ids */

/* Writes ids of so many bytes each, below `limit`, but one at the end that is `last`. */
static void write_wide(const char *path, size_t bytes, uint64_t limit, uint64_t last) {
    char *out = xcalloc(MANY, bytes);
    for (size_t i = 0; i < MANY; i++) {
        uint64_t id = i == MANY - 1 ? last : i * 7919 % limit;
        memcpy(out + i * bytes, &id, bytes);
    }
    write_bytes(path, out, MANY * bytes);
    free(out);
}

static void assert_wide(const char *path, int vocabulary, int width, uint64_t limit, int32_t last) {
    int32_t ids[MANY];
    SlmStream *s = slm_stream_open(path, NULL, &(SlmForeign){vocabulary, -1, width}, &error);
    if (!s) fail_msg("%s", error.text);
    assert_int_equal(s->n_tokens, MANY);
    slm_stream_read(s, 0, MANY, ids);
    for (int i = 0; i < MANY; i++) assert_int_equal(ids[i], i == MANY - 1 ? last : (int32_t)(i * 7919u % limit));
    slm_stream_close(s);
}

TEST(ids_of_32_and_64_bits_are_not_taken_for_16) {
    const char *file = kept_path(run_directory(), "train.bin");
    const SlmForeign small = {100, -1, 0}, large = {100000, -1, 0}, narrow = {100, -1, 2}, wide = {100, -1, 4};
    write_wide(file, 4, 100, 99);
    assert_refused(file, NULL, &small,
                   "its ids have 32 bits, not 16: of each, the upper 16 are zeros; --token-bytes 4");
    assert_wide(file, 100, 4, 100, 99);
    assert_refused(file, NULL, &large, "its ids have 32 bits, not 16");
    write_wide(file, 8, 100, 99);
    assert_refused(file, NULL, &small, "its ids have 64 bits, not 16: of each, the upper 48 are zeros: save them");
    assert_refused(file, NULL, &wide, "its ids have 64 bits, not 32: of each, the upper 32 are zeros: save them");
    write_wide(file, 4, 100, 99 + (1 << 16)); /* an id at the end that needs more than 16 bits */
    assert_refused(file, NULL, &large, "is read as ids of 16 bits, and those of a vocabulary of 100000 need more");
    assert_wide(file, 100000, 4, 100, 99 + (1 << 16));
    write_wide(file, 4, 90000, 89999);
    assert_refused(file, NULL, &small, "is not below the vocabulary, 100");
    assert_refused(file, NULL, &small, "; --token-bytes 4 reads ids of 32 bits");
    assert_wide(file, 90000, 4, 90000, 89999);
    assert_refused(file, NULL, &wide, "; --token-bytes 2 reads ids of 16 bits");
    write_wide(file, 2, 100, 99); /* good ones */
    assert_wide(file, 100, 0, 100, 99);
    assert_wide(file, 100, 2, 100, 99);
    assert_wide(file, 1 << 16, 0, 100, 99);
    assert_wide(file, 100000, 2, 100, 99);
    write_bytes(file, "abcdef", 6);
    assert_refused(file, NULL, &wide, "has 6 bytes, no multiple of 4, and no header: no file of uint32 ids");
    uint16_t lines[MANY] = {0}; /* every other id is 0, as a character and a line end each */
    for (int i = 0; i < MANY; i += 2) lines[i] = (uint16_t)(1 + i % 90);
    write_bytes(file, lines, sizeof lines);
    assert_refused(file, NULL, &small, "and --token-bytes 2, if every other id really is 0");
    SlmStream *s = slm_stream_open(file, NULL, &narrow, &error);
    if (!s) fail_msg("%s", error.text);
    slm_stream_close(s);
    write_bytes(file, lines, 62 * sizeof *lines); /* too few to say */
    s = slm_stream_open(file, NULL, &small, &error);
    if (!s) fail_msg("%s", error.text);
    slm_stream_close(s);
}

static void write_npy(const char *path, const char *descr, const char *shape, const void *data, size_t size) {
    char bytes[4096], header[118];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    size_t n = (size_t)snprintf(bytes, sizeof bytes, "\x93NUMPY\x01");
    memcpy(bytes + n, "\0\x76\0", 3);
    snprintf(bytes + n + 3, sizeof bytes - n - 3, "%-117s\n", header);
    memcpy(bytes + 128, data, size);
    write_bytes(path, bytes, 128 + size);
}

TEST(the_dtype_of_a_npy_file_is_the_width) {
    static const uint16_t narrow[] = {5, 299, 0, 7};
    static const uint32_t wide[] = {5, 70000, 0, 7};
    static const int64_t widest[] = {5, 299, 0, 7};
    const char *folder = run_directory(), *file = kept_path(folder, "web_train_000000.npy");
    const SlmForeign small = {300, -1, 0}, large = {70001, -1, 0}, told = {300, -1, 4};
    write_npy(file, "<u2", "(4,)", narrow, sizeof narrow);
    SlmStream *s = slm_stream_open(folder, "train", &small, &error);
    if (!s) fail_msg("%s", error.text);
    assert_ids(s, (const int32_t[]){5, 299, 0, 7}, 4);
    slm_stream_close(s);
    assert_refused(file, NULL, &large, "is read as ids of 16 bits, and those of a vocabulary of 70001 need more");
    assert_refused(file, NULL, &told, "says that its ids have 2 bytes, and --token-bytes says 4");
    assert_refused(file, NULL, NULL, "its vocabulary is unknown");
    for (int i = 0; i < 2; i++) {
        write_npy(file, i ? "<i4" : "<u4", "(4,)", wide, sizeof wide);
        s = slm_stream_open(folder, "train", &large, &error);
        if (!s) fail_msg("%s", error.text);
        assert_ids(s, (const int32_t[]){5, 70000, 0, 7}, 4);
        slm_stream_close(s);
    }
    assert_refused(file, NULL, &small, "id 70000 at position 1 is not below the vocabulary, 300");
    write_npy(file, "<i8", "(4,)", widest, sizeof widest);
    assert_refused(file, NULL, &small, "its numbers are 64-bit integers; expected ids of uint16 or uint32");
    write_npy(file, ">u2", "(4,)", narrow, sizeof narrow);
    assert_refused(file, NULL, &small, "its numbers are big-endian 16-bit unsigned integers");
    write_npy(file, "<u2", "(2, 2)", narrow, sizeof narrow);
    assert_refused(file, NULL, &small, "has 2 dimensions; expected ids in a single row");
    write_bytes(kept_path(folder, "web_train_000000.bin"), narrow, sizeof narrow); /* comes first */
    s = slm_stream_open(folder, "train", &small, &error);
    if (!s) fail_msg("%s", error.text);
    slm_stream_close(s);
}

static void write_llm_c(const char *path, int32_t magic, int32_t version, int32_t n, const void *ids, size_t size) {
    char bytes[1024 + 64] = {0};
    const int32_t header[3] = {magic, version, n};
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + 1024, ids, size);
    write_bytes(path, bytes, 1024 + size);
}

TEST(both_headers_of_llm_c_are_read) {
    static const uint16_t gpt2[] = {50256, 1, 2, 50256, 3};
    static const uint32_t llama[] = {128000, 70000, 128000, 5}, more[] = {6, 128000, 7};
    const char *folder = run_directory(), *file = kept_path(folder, "tiny_shakespeare_train.bin");
    write_llm_c(file, 20240520, 1, 5, gpt2, sizeof gpt2);
    SlmStream *s = open_stream(folder, "train");
    assert_ids(s, (const int32_t[]){50256, 1, 2, 50256, 3}, 5);
    assert_documents(s, (const int64_t[]){0, 3, 4}, 2);
    assert_true(s->vocabulary == 50257 && s->end_of_text == 50256);
    slm_stream_close(s);
    write_llm_c(kept_path(folder, "fineweb_val_000001.bin"), 20240801, 7, 4, llama, sizeof llama);
    write_llm_c(kept_path(folder, "fineweb_val_000002.bin"), 20240801, 7, 3, more, sizeof more);
    s = open_stream(folder, "val");
    assert_ids(s, (const int32_t[]){128000, 70000, 128000, 5, 6, 128000, 7}, 7);
    assert_documents(s, (const int64_t[]){0, 2, 5, 6}, 3);
    assert_int_equal(s->vocabulary, 128256);
    slm_stream_close(s);
    write_llm_c(kept_path(folder, "train_000001.bin"), 20240520, 1, 5, gpt2, sizeof gpt2);
    assert_refused(folder, "train", NULL, "are of two data sets");
    write_llm_c(file, 20240520, 2, 5, gpt2, sizeof gpt2);
    assert_refused(file, NULL, NULL, "version 2; expected version 1");
    write_llm_c(file, 20240520, 1, 6, gpt2, sizeof gpt2);
    assert_refused(file, NULL, NULL, "announces 6 ids of 2 bytes behind 1024 bytes, and the file has 1034 bytes");
    write_llm_c(file, 20240520, 1, -6, gpt2, sizeof gpt2);
    assert_refused(file, NULL, NULL, "announces -6 ids");
    write_llm_c(file, 20240520, 1, 5, (const uint16_t[]){50256, 50257, 0, 0, 0}, sizeof gpt2);
    assert_refused(file, NULL, NULL, "id 50257 at position 1");
    write_llm_c(kept_path(folder, "fineweb_val_000002.bin"), 20240520, 1, 5, gpt2, sizeof gpt2);
    assert_null(slm_stream_open(folder, "val", NULL, &error));
    assert_contains(error.text, "was made with another tokenizer");
}
