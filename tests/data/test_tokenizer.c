/* Opening a tokenizer by file and by folder, whatever its kind. */
#include <stdlib.h>

#include "data/text/sentencepiece.h"
#include "data/text/tokenizer.h"
#include "tests/helpers.h"

static Tokenizer *open_checked(const char *path) {
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    return tokenizer;
}

static void a_sentencepiece_model_is_found_in_its_folder(void **state) {
    (void)state;
    static const char text[] = "the cat sat\non the mat\n";
    char *folder = scratch_directory(), *model = path_join(folder, "tokenizer.model");
    Error error;
    assert_null(tokenizer_open(folder, &error));
    assert_contains(error.text, "neither tokenizer.json nor tokenizer.model nor vocab.txt and bpe.codes");
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
    char *back = tokenizer_decode(b, ids.ids, ids.n - 1, &size);
    assert_string_equal(back, "the mat");
    assert_int_equal(size, 7);
    free(back);
    token_ids_free(&ids);
    tokenizer_close(a);
    assert_int_equal(sentencepiece_train_bpe(text, strlen(text), model, 23, &error), 23);
    a = open_checked(folder);
    assert_true(tokenizer_hash(a) != tokenizer_hash(b));
    tokenizer_close(a);
    tokenizer_close(b);
    free(model);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentencepiece_model_is_found_in_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
