/* Words of texts as columns: what a word is, pairs, and words that were not learned. */
#include "data/bert/bag_of_words.h"
#include "tests/test.h"

/* Fails unless a row has these words, in this order, separated by '|'. */
static void assert_row(const SparseRows *rows, int64_t row, const Strings *words, const char *want) {
    char got[512] = "";
    for (int64_t at = rows->first[row]; at < rows->first[row + 1]; at++) {
        size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%s%s", used ? "|" : "",
                 strings_text(words, (uint32_t)rows->columns[at]));
    }
    assert_string_equal(got, want);
}

TEST(words_are_lower_case_and_signs_stand_alone) {
    static const char *const texts[] = {"BẠN ơi!! bạn", "", "k0 biết...\n=))", "ba\u0323n 👍"};
    Strings words = {0};
    SparseRows rows = bag_of_words(&words, texts, 4, 1, true);
    assert_int_equal(rows.n, 4);
    assert_row(&rows, 0, &words, "bạn|ơi|!|!|bạn");
    assert_row(&rows, 1, &words, "");
    assert_row(&rows, 2, &words, "k0|biết|.|.|.|=|)|)");
    assert_row(&rows, 3, &words, "bạn|👍"); /* a letter and its mark are one character */
    assert_int_equal(words.n, 9);
    sparse_rows_free(&rows);
    strings_free(&words);
}

TEST(pairs_are_neighbours) {
    static const char *const texts[] = {"không ngu đâu", "ngu"};
    Strings words = {0};
    SparseRows rows = bag_of_words(&words, texts, 2, 2, true);
    assert_row(&rows, 0, &words, "không|ngu|không ngu|đâu|ngu đâu");
    assert_row(&rows, 1, &words, "ngu");
    sparse_rows_free(&rows);
    strings_free(&words);
}

TEST(words_that_were_not_learned_are_left_out) {
    static const char *const texts[] = {"bạn giỏi", "bạn ngu giỏi", "xa lạ"};
    Strings words = {0};
    SparseRows learned = bag_of_words(&words, texts, 1, 2, true), rows = bag_of_words(&words, texts + 1, 2, 2, false);
    assert_row(&rows, 0, &words, "bạn|giỏi");
    assert_row(&rows, 1, &words, "");
    assert_int_equal(words.n, 3);
    sparse_rows_free(&learned);
    sparse_rows_free(&rows);
    strings_free(&words);
}
