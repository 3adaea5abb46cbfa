/* Opening a tokenizer by file and by folder, whatever its kind. */
#include <stdlib.h>

#include "data/text/sentencepiece.h"
#include "data/text/tokenizer.h"
#include "tests/test.h"

static Tokenizer *open_checked(const char *path) {
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    return tokenizer;
}

TEST(a_sentencepiece_model_is_found_in_its_folder) {
    static const char text[] = "the cat sat\non the mat\n";
    char *folder = kept_folder(), *model = kept_path(folder, "tokenizer.model");
    Error error;
    assert_null(tokenizer_open(folder, &error));
    assert_contains(error.text, "the folder holds none of tokenizer.json, tokenizer.model, vocab.txt with bpe.codes");
    assert_int_equal(sentencepiece_train_bpe(text, strlen(text), model, 24, &error), 24);
    Tokenizer *a = open_checked(folder), *b = open_checked(model);
    const char *files[3];
    assert_string_equal(tokenizer_file(a), model);
    assert_int_equal(tokenizer_files(a, files), 1);
    assert_string_equal(files[0], model);
    assert_false(tokenizer_continues(a, 5));
    assert_true(tokenizer_hash(a) == tokenizer_hash(b));
    assert_int_equal(tokenizer_vocabulary(a), 24);
    assert_int_equal(tokenizer_unknown_id(a), 2);
    assert_int_equal(tokenizer_end_of_text(a), 1);
    assert_string_equal(tokenizer_piece(a, tokenizer_id(a, "</s>")), "</s>");
    TokenIds ids = {0};
    size_t size;
    tokenizer_encode(a, "the mat</s>", 11, true, &ids);
    assert_int_equal(ids.ids[ids.n - 1], 1);
    assert_string_equal(keep(tokenizer_decode(b, ids.ids, ids.n - 1, &size)), "the mat");
    assert_int_equal(size, 7);
    token_ids_free(&ids);
    tokenizer_close(a);
    assert_int_equal(sentencepiece_train_bpe(text, strlen(text), model, 23, &error), 23);
    a = open_checked(folder);
    assert_true(tokenizer_hash(a) != tokenizer_hash(b));
    tokenizer_close(a);
    tokenizer_close(b);
}

/* ---- the characters of nanoGPT ---- */

#define BYTES(text) (text), sizeof(text) - 1

/* pickle.dump({"vocab_size": 7, "itos": {0: "\n", 1: " ", 2: "N", 3: "g", 4: "y", 5: "\u00e0", 6: "\u0103"}, "stoi":
 * ...}, file) in protocols 2 and 4 */
static const char META_2[] =
    "\200\002}q\000(X\012\000\000\000vocab_sizeq\001K\007X\004\000\000\000itosq\002}q\003(K\000X\001\000\000\000\012"
    "q\004K\001X\001\000\000\000 q\005K\002X\001\000\000\000Nq\006K\003X\001\000\000\000gq\007K\004X\001\000\000\000y"
    "q\010K\005X\002\000\000\000\303\240q\011K\006X\002\000\000\000\304\203q\012uX\004\000\000\000stoiq\013}q\014("
    "h\004K\000h\005K\001h\006K\002h\007K\003h\010K\004h\011K\005h\012K\006uu.";
static const char META_4[] =
    "\200\004\225r\000\000\000\000\000\000\000}\224(\214\012vocab_size\224K\007\214\004itos\224}\224(K\000\214\001"
    "\012\224K\001\214\001 \224K\002\214\001N\224K\003\214\001g\224K\004\214\001y\224K\005\214\002\303\240\224K\006"
    "\214\002\304\203\224u\214\004stoi\224}\224(h\004K\000h\005K\001h\006K\002h\007K\003h\010K\004h\011K\005h\012K"
    "\006uu.";

TEST(the_characters_of_nanogpt_are_a_tokenizer) {
    static const char text[] = "Ng\303\240y y\n\304\203";
    static const int32_t want[] = {2, 3, 5, 4, 1, 4, 0, 6};
    uint64_t hash = 0;
    for (int protocol = 2; protocol <= 4; protocol += 2) {
        char *folder = kept_folder(), *meta = kept_path(folder, "meta.pkl");
        write_bytes(meta, protocol == 2 ? META_2 : META_4, protocol == 2 ? sizeof META_2 - 1 : sizeof META_4 - 1);
        assert_string_equal(keep(tokenizer_in(folder)), meta);
        Tokenizer *t = open_checked(folder);
        assert_true(tokenizer_is_of_characters(t));
        assert_string_equal(tokenizer_name(t), "meta.pkl");
        assert_int_equal(tokenizer_vocabulary(t), 7);
        assert_int_equal(tokenizer_unknown_id(t), -1);
        assert_int_equal(tokenizer_end_of_text(t), -1);
        assert_int_equal(tokenizer_id(t, "\303\240"), 5);
        assert_string_equal(tokenizer_piece(t, 6), "\304\203");
        TokenIds ids = {0};
        size_t size;
        for (int again = 0; again < 2; again++) {
            ids.n = 0;
            tokenizer_encode(t, text, sizeof text - 1, again, &ids);
            assert_int_equal(ids.n, 8);
            assert_memory_equal(ids.ids, want, sizeof want);
        }
        assert_int_equal(ids.dropped, 0);
        char *back = keep(tokenizer_decode(t, ids.ids, ids.n, &size));
        assert_int_equal(size, sizeof text - 1);
        assert_string_equal(back, text);
        ids.n = 0;
        tokenizer_encode(t, BYTES("xNg!"), false, &ids); /* two characters have no id */
        assert_true(ids.n == 2 && ids.dropped == 2);
        if (hash) assert_true(tokenizer_hash(t) == hash);
        hash = tokenizer_hash(t);
        token_ids_free(&ids);
        tokenizer_close(t);
    }
}

TEST(other_pickles_are_no_tables_of_characters) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *reason; /* NULL: it is one */
    } cases[] = {
        {BYTES("\200\004\225\036\000\000\000\000\000\000\000}\224\214\004itos\224]\224(\214\001a\224\214\001b\224\214"
               "\004\360\237\230\200\224es."),
         NULL}, /* a list */
        {BYTES("\200\004\225+\000\000\000\000\000\000\000}\224(\214\004itos\224}\224(K\000\214\001a\224K\005\214\001b"
               "\224u\214\012vocab_size\224K\004u."),
         NULL}, /* ids 0 and 5 */
        {BYTES("\200\004\225/\000\000\000\000\000\000\000}\224(\214\004itos\224}\224(K\000\214\003the\224K\001\214\003"
               "cat\224u\214\012vocab_size\224K\002u."),
         "\"itos\": id 0 is not a single character; tables of words are not read"},
        {BYTES(
             "\200\004\225\031\000\000\000\000\000\000\000}\224\214\004itos\224}\224(K\000\214\001a\224K\001h\003us."),
         "\"itos\": id 1 or its character is there twice"},
        {BYTES(
             "\200\004\225\027\000\000\000\000\000\000\000}\224\214\004itos\224}\224J\377\377\377\377\214\001a\224ss."),
         "\"itos\" has a key that is no id"},
        {BYTES("\200\004\225\024\000\000\000\000\000\000\000}\224\214\004itos\224}\224\214\001a\224K\000ss."),
         "\"itos\" has a key that is no id"},
        {BYTES(
             "\200\004\225\026\000\000\000\000\000\000\000}\224\214\004itos\224}\224K\000\214\003\355\240\275\224ss."),
         "id 0 is not a single character"}, /* half of a surrogate pair */
        {BYTES("\200\004\225\023\000\000\000\000\000\000\000}\224\214\012vocab_size\224K\004s."), "has no \"itos\""},
        {BYTES("\200\004K\001."), "has no \"itos\""},
        {BYTES("\200\004"), "the pickle ends in the middle of a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = kept_folder(), *meta = kept_path(folder, "meta.pkl");
        Error error = {""};
        write_bytes(meta, cases[i].bytes, cases[i].size);
        Tokenizer *t = tokenizer_open(meta, &error);
        char *found = keep(tokenizer_in(folder));
        if (!t != !!cases[i].reason || !t != !found) fail_msg("case %zu: %s", i, error.text);
        if (cases[i].reason) assert_contains(error.text, cases[i].reason);
        if (i == 1) assert_int_equal(tokenizer_vocabulary(t), 6);
        if (i == 1) assert_string_equal(tokenizer_piece(t, 3), "");
        tokenizer_close(t);
    }
}
