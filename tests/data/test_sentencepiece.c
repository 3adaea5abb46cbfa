/* SentencePiece models: training (characters, sizes, bytes) and refusal of bad models. */
#include "base/file.h"
#include "tests/test.h"

#include <unistr.h>

#include "data/text/sentencepiece.h"

static Error error;

static const char corpus[] = "ዛሬ ጠዋት ወደ ገበያ ሄድን.\n"
                             "እናቴ ለእራት ዶሮ ወጥ ሠራች.\n"
                             "ዛሬ ከሰዓት በኋላ ዝናብ ይዘንባል?\n"
                             "ወንድሜ ነገ ወደ አዲስ አበባ ይሄዳል.\n"
                             "\n"
                             "ልጆቹ በጓሮው ውስጥ ኳስ ይጫወታሉ.\n"
                             "  ABC, ABC  ABCD!\n";

typedef struct {
    char *corpus, *model;
} Files;

static Files files_with(const char *text, size_t size) {
    char *directory = kept_folder();
    Files files = {path_join(directory, "corpus,1.txt"), path_join(directory, "tokenizer.model")};
    write_bytes(files.corpus, text, size);
    return files;
}

static void files_free(Files *files) {
    free(files->corpus);
    free(files->model);
}

/* Trains and opens a model of at most `vocabulary` pieces on `text`. *pieces is what training returned. */
static SentencePiece *train(const char *text, int vocabulary, int *pieces) {
    Files files = files_with(text, strlen(text));
    *pieces = sentencepiece_train_bpe(text, strlen(text), files.model, vocabulary, &error);
    if (!*pieces) fail_msg("%s", error.text);
    SentencePiece *tokenizer = sentencepiece_open(files.model, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    files_free(&files);
    return tokenizer;
}

static void check_refused(const char *text, size_t size, int vocabulary, const char *message) {
    Files files = files_with(text, size);
    Error error = {""};
    assert_int_equal(sentencepiece_train_bpe(text, size, files.model, vocabulary, &error), 0);
    assert_contains(error.text, message);
    assert_false(read_file(files.model, &(char *){NULL}, &(size_t){0}, &error)); /* nothing was written */
    files_free(&files);
}

static int count_characters(const char *text) {
    int n = 0;
    for (const char *at = text; *at; at += u8_mblen((const uint8_t *)at, 4)) {
        bool seen = *at == ' ' || *at == '\n';
        for (const char *before = text; before < at && !seen; before += u8_mblen((const uint8_t *)before, 4))
            seen = u8_cmp((const uint8_t *)before, (const uint8_t *)at, (size_t)u8_mblen((const uint8_t *)at, 4)) == 0;
        n += !seen;
    }
    return n;
}

static bool is_one_character(const char *piece) { return (size_t)u8_mblen((const uint8_t *)piece, 4) == strlen(piece); }

TEST(control_pieces_then_characters_then_merges) {
    int pieces, characters = count_characters(corpus) + 1; /* plus the one that stands for a space */
    SentencePiece *tokenizer = train(corpus, 120, &pieces);
    assert_int_equal(pieces, 120);
    assert_int_equal(sentencepiece_vocabulary(tokenizer), 120);
    assert_string_equal(sentencepiece_piece(tokenizer, 0), "<s>");
    assert_string_equal(sentencepiece_piece(tokenizer, 1), "</s>");
    assert_string_equal(sentencepiece_piece(tokenizer, 2), "<unk>");
    assert_int_equal(sentencepiece_unknown_id(tokenizer), 2);
    assert_true(3 + characters < 120);
    for (int id = 3; id < 120; id++)
        assert_int_equal(is_one_character(sentencepiece_piece(tokenizer, id)), id < 3 + characters);
    assert_string_equal(sentencepiece_piece(tokenizer, 3), "▁"); /* the most frequent of all */
    sentencepiece_close(tokenizer);
}

TEST(no_text_of_the_corpus_has_an_unknown_token) {
    int least = count_characters(corpus) + 1 + 3, sizes[] = {least, least + 1, 120, 12000};
    for (int s = 0; s < 4; s++) {
        int pieces;
        TokenIds ids = {0};
        size_t size;
        SentencePiece *tokenizer = train(corpus, sizes[s], &pieces);
        for (const char *line = corpus; *line; line += strcspn(line, "\n") + 1) {
            char *text = kept_format("%.*s", (int)strcspn(line, "\n"), line);
            ids.n = 0;
            sentencepiece_encode(tokenizer, text, strlen(text), false, &ids);
            for (int i = 0; i < ids.n; i++) assert_true(ids.ids[i] > 2 && ids.ids[i] < pieces);
            char *back = keep(sentencepiece_decode(tokenizer, ids.ids, ids.n, &size));
            assert_int_equal(size, strlen(back));
            assert_string_equal(back, *text == ' ' ? "ABC, ABC ABCD!" : text); /* runs of spaces count as one */
        }
        assert_int_equal(ids.unknown, 0);
        sentencepiece_close(tokenizer);
        token_ids_free(&ids);
    }
}

/* Returns the number of ids that a text appends. */
static int64_t count_ids(const SentencePiece *tokenizer, const char *text, bool specials, TokenIds *ids) {
    int64_t before = ids->n;
    sentencepiece_encode(tokenizer, text, strlen(text), specials, ids);
    assert_true(ids->capacity >= ids->n);
    return ids->n - before;
}

TEST(merges_shorten_and_ids_grow_as_needed) {
    int pieces;
    int64_t lengths[2];
    TokenIds ids = {0};
    for (int large = 0; large < 2; large++) {
        SentencePiece *tokenizer = train(corpus, large ? 12000 : 60, &pieces);
        lengths[large] = count_ids(tokenizer, "ዛሬ ጠዋት ወደ ገበያ ሄድን.", false, &ids);
        assert_int_equal(count_ids(tokenizer, "", false, &ids), 0);
        sentencepiece_close(tokenizer);
    }
    assert_int_equal(lengths[1],
                     6); /* every word has become a piece; the full stop belongs to no script and stays alone */
    assert_true(lengths[0] > lengths[1]);
    token_ids_free(&ids);
}

TEST(unknown_characters_become_the_unknown_token) {
    int pieces;
    TokenIds ids = {0};
    SentencePiece *tokenizer = train(corpus, 120, &pieces);
    assert_int_equal(count_ids(tokenizer, "Ж", false, &ids), 2); /* space, character */
    assert_int_equal(ids.ids[1], sentencepiece_unknown_id(tokenizer));
    assert_int_equal(ids.unknown, 1);
    token_ids_free(&ids);
    sentencepiece_close(tokenizer);
}

TEST(control_pieces_in_a_text_are_text_unless_asked_for) {
    int pieces;
    TokenIds ids = {0};
    SentencePiece *tokenizer = train(corpus, 120, &pieces);
    int64_t one = count_ids(tokenizer, "ABC", false, &ids);
    assert_int_equal(count_ids(tokenizer, "</s>ABC<s></s>", true, &ids), one + 3);
    const int32_t *second = ids.ids + one;
    assert_int_equal(second[0], 1);
    assert_memory_equal(second + 1, ids.ids, (size_t)one * sizeof *ids.ids);
    assert_int_equal(second[one + 1], 0);
    assert_int_equal(second[one + 2], 1);
    assert_int_equal(sentencepiece_end_of_text(tokenizer), 1);
    ids.n = 0;
    for (int64_t i = 0, n = count_ids(tokenizer, "</s>", false, &ids); i < n; i++) assert_true(ids.ids[i] > 1);
    token_ids_free(&ids);
    sentencepiece_close(tokenizer);
}

/* A search of the rest of the text behind each of them would need minutes. */
TEST(many_control_pieces_are_found) {
    enum { N = 300000 };
    int pieces;
    TokenIds ids = {0};
    SentencePiece *tokenizer = train(corpus, 120, &pieces);
    char *text = xmalloc(4 * N + 1), *at = text;
    for (int i = 0; i < N; i++) at = stpcpy(at, "</s>");
    assert_int_equal(count_ids(tokenizer, text, true, &ids), N);
    for (int i = 0; i < N; i++) assert_int_equal(ids.ids[i], 1);
    free(text);
    token_ids_free(&ids);
    sentencepiece_close(tokenizer);
}

TEST(a_piece_is_found_by_its_text) {
    int pieces;
    SentencePiece *tokenizer = train(corpus, 120, &pieces);
    for (int id = 0; id < pieces; id++)
        assert_int_equal(sentencepiece_id(tokenizer, sentencepiece_piece(tokenizer, id)), id);
    assert_int_equal(sentencepiece_id(tokenizer, "no piece"), -1);
    sentencepiece_close(tokenizer);
}

TEST(a_vocabulary_too_large_for_the_corpus_is_lowered) {
    int pieces, again;
    SentencePiece *tokenizer = train("ሀ ለ\nሀ ለ\n", 12000, &pieces);
    assert_int_equal(pieces, 3 + 3 + 2); /* <s> </s> <unk>, ▁ ሀ ለ, ▁ሀ ▁ለ */
    sentencepiece_close(tokenizer);
    sentencepiece_close(train("ሀ ለ\nሀ ለ\n", 8, &again));
    assert_int_equal(again, 8);
}

TEST(training_twice_gives_the_same_bytes) {
    char *demo = kept_text("demo/sentences.txt"), *models[2];
    size_t sizes[2];
    for (int i = 0; i < 2; i++) {
        Files files = files_with(demo, strlen(demo));
        if (!sentencepiece_train_bpe(demo, strlen(demo), files.model, 500, &error)) fail_msg("%s", error.text);
        assert_true(read_file(files.model, &models[i], &sizes[i], &error));
        files_free(&files);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(models[0], models[1], sizes[0]);
    free(models[0]);
    free(models[1]);
}

TEST(long_lines_and_rare_characters_count) {
    size_t n = 30000; /* SentencePiece's own limit is 4192 bytes */
    char *text = xmalloc(n + 8);
    for (size_t i = 0; i < n; i++) text[i] = i % 5 == 4 ? ' ' : 'A' + (char)(i % 5);
    memcpy(text + n, "ሀ\n", sizeof "ሀ\n");
    int pieces;
    SentencePiece *tokenizer = train(text, 100, &pieces);
    bool found = false;
    for (int id = 3; id < pieces; id++) found |= strcmp(sentencepiece_piece(tokenizer, id), "ሀ") == 0;
    assert_true(found);
    sentencepiece_close(tokenizer);
    free(text);
}

TEST(training_refuses_bad_texts) {
    char message[128];
    snprintf(message, sizeof message, "vocabulary of 40 is too small: its %d distinct characters need %d",
             count_characters(corpus) + 1, count_characters(corpus) + 4);
    check_refused(corpus, strlen(corpus), 40, message);
    check_refused(corpus, strlen(corpus), -1, "vocabulary of -1 is too small");
    check_refused("", 0, 100, "no text");
    check_refused(" \n\n", 3, 100, "no text");
    check_refused("ሀለ\nab\xffz\n", 11, 100, "line 2 is not UTF-8: byte 0xff at offset 2");
    check_refused("ab\n\ncd\tef\n", 10, 100, "line 3 holds U+0009");
    check_refused("ab\0c\n", 5, 100, "line 1 holds U+0000");
    check_refused("ሀ\u2585\n", 7, 100, "line 1 holds U+2585");
}

TEST(training_reports_that_it_cannot_write) {
    Files files = files_with(corpus, strlen(corpus));
    assert_int_equal(sentencepiece_train_bpe(corpus, strlen(corpus), "/nowhere/tokenizer.model", 100, &error), 0);
    assert_contains(error.text, "/nowhere/tokenizer.model");
    files_free(&files);
}

TEST(opening_refuses_bad_models) {
    static const struct {
        const char *bytes, *message;
        size_t size;
    } cases[] = {{"", "not a SentencePiece model", 0},
                 {"ሰላም", "not a SentencePiece model", 9},
                 {"\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x05\x0a\x03\x00zz", "not a SentencePiece model",
                  18}, /* a piece without text */
                 {"\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x03\x0a\x01"
                  "a\x12\x04\xea\x02\x01"
                  "a",
                  "names no unknown piece", 22}}; /* "a" is a piece and, in the settings, the unknown one */
    for (int i = 0; i < 4; i++) {
        Files files = files_with(cases[i].bytes, cases[i].size);
        Error error = {""};
        assert_null(sentencepiece_open(files.corpus, &error));
        assert_contains(error.text, cases[i].message);
        assert_null(sentencepiece_open(files.model, &error));
        assert_contains(error.text, "cannot open: No such file");
        files_free(&files);
    }
}

static void decode_outside(void *argument) { free(sentencepiece_decode(argument, &(int32_t){120}, 1, &(size_t){0})); }

TEST(an_id_outside_the_vocabulary_is_named) {
    int pieces;
    char output[512];
    SentencePiece *tokenizer = train(corpus, 120, &pieces);
    assert_int_equal(run_function(output, sizeof output, decode_outside, tokenizer), 1);
    assert_contains(output, "text id 120 is not in 0 .. 119");
    sentencepiece_close(tokenizer);
}
