/* The parts of texts that a tokenizer does not know: the pieces, the characters, and what is said of them. */
#include "data/text/unknown.h"

#include "data/text/sentencepiece.h"
#include "tests/test.h"

/* A tokenizer that knows the letters of a sentence. */
static SentencePiece *open_model(void) {
    static const char text[] = "the cat sat on the mat\n";
    const char *path = kept_path(run_directory(), "tokenizer.model");
    Error error;
    if (!sentencepiece_train_bpe(text, strlen(text), path, 24, &error)) fail_msg("%s", error.text);
    SentencePiece *model = sentencepiece_open(path, &error);
    if (!model) fail_msg("%s", error.text);
    return model;
}

static void add(Unknown *u, const char *text) {
    TokenIds ids = {0};
    const TokenIds before = ids;
    u->encode(u->tokenizer, text, strlen(text), &ids);
    unknown_add(u, text, strlen(text), &before, &ids);
    token_ids_free(&ids);
}

static void assert_characters(const Unknown *u, const char *want) {
    assert_string_equal(keep(unknown_characters(u)), want);
}

TEST(the_characters_without_a_piece_are_counted) {
    SentencePiece *model = open_model();
    Unknown all = {.encode = sentencepiece_encode_plain, .tokenizer = model}, part = all;
    add(&all, "the cat");
    assert_true(all.unknown == 0 && all.pieces > 0);
    assert_characters(&all, "");
    add(&all, "mưa ơ ưt"); /* the unknown ones in a row become one piece */
    assert_int_equal(all.unknown, 3);
    assert_characters(&all, "ư 2, ơ 1");
    add(&part, "ơ ơ ơ a\u0301 a\u200bt");
    assert_characters(&part, "ơ 3, U+0301 1, U+200B 1");
    int64_t pieces = all.pieces + part.pieces, unknown = all.unknown + part.unknown;
    unknown_move(&all, &part);
    assert_true(all.pieces == pieces && all.unknown == unknown && part.pieces == 0);
    assert_characters(&all, "ơ 4, ư 2, U+0301 1, U+200B 1");
    add(&all, "the cat\n\non\tthe mat\nư\n"); /* white space is no letter, unless it is one piece with another */
    assert_true(all.white == 2 && all.unknown == unknown + 1);
    assert_characters(&all, "ơ 4, ư 3, U+0301 1, U+200B 1");
    add(&all, "BCDFGIJKL");
    assert_characters(&all, "ơ 4, ư 3, B 1, C 1, D 1, F 1, G 1, I 1, J 1, K 1 and 3 others");
    unknown_free(&all);
    assert_true(all.pieces == 0 && all.encode == sentencepiece_encode_plain);
    sentencepiece_close(model);
}

typedef struct {
    int64_t unknown, pieces;
    double most;
} Share;

static void check(void *context) {
    const Share *s = context;
    Error error;
    if (!unknown_check("the texts", s->unknown, s->pieces, "ư 7", s->most, &error)) die("%s", error.text);
}

TEST(much_that_is_unknown_is_warned_of_and_more_is_refused) {
    static const struct {
        Share share;
        int status;
        const char *says;
    } cases[] = {
        {{0, 0, 0.05}, 0, ""},
        {{0, 1000, 0}, 0, ""},
        {{9, 10000, 0.05}, 0, ""},
        {{10, 10000, 0.05},
         0,
         "warning: the texts: the tokenizer does not know 10 of 10000 pieces (0.1 %), because of the "
         "characters ư 7\n"},
        {{499, 10000, 0.05}, 0, "warning: the texts: the tokenizer does not know 499 of 10000 pieces (4.99 %)"},
        {{500, 10000, 0.05},
         1,
         "the texts: the tokenizer does not know 500 of 10000 pieces (5 %), because of the characters "
         "ư 7: it was made of other texts; give one that knows these, or raise --max-unknown 0.05\n"},
        {{1, 10000, 0}, 1, "raise --max-unknown 0\n"},
        {{10000, 10000, 1}, 0, "warning: the texts: the tokenizer does not know 10000 of 10000 pieces (100 %)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char output[1024];
        Share share = cases[i].share;
        assert_int_equal(run_function(output, sizeof output, check, &share), cases[i].status);
        if (*cases[i].says)
            assert_contains(output, cases[i].says);
        else
            assert_string_equal(output, "");
    }
}
