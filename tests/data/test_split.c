/* Tests the rule that splits samples by the hash of their ids. */
#include "data/split.h"
#include "tests/test.h"

/* Expected numbers are int(hashlib.sha1(id.encode()).hexdigest(), 16) % 1000000 in Python. */
TEST(the_split_is_the_hash_rule) {
    static const struct {
        const char *id;
        int remainder;
    } known[] = {{"spk003_000917", 858008}, {"spk003_000144", 45126}, {"ሰላም", 451242}, {"a", 636152}};
    for (int i = 0; i < 4; i++) {
        assert_false(split_is_validation(known[i].id, known[i].remainder / 1e6));
        assert_true(split_is_validation(known[i].id, (known[i].remainder + 1) / 1e6));
        assert_false(split_is_validation(known[i].id, 0));
        assert_true(split_is_validation(known[i].id, 1));
    }
    int chosen = 0;
    for (int i = 0; i < 1000; i++) {
        char id[32];
        snprintf(id, sizeof id, "clip_%d", i);
        chosen += split_is_validation(id, 0.03);
    }
    assert_int_equal(chosen, 37); /* computed with Python */
}

TEST(a_sample_is_in_one_split_and_in_all) {
    const char *const ids[] = {"spk003_000917", "spk003_000144"}; /* 0.858 and 0.045 */
    for (int i = 0; i < 2; i++) {
        assert_true(split_includes(SPLIT_ALL, ids[i], 0.1));
        assert_true(split_includes(SPLIT_TRAIN, ids[i], 0.1) == (i == 0));
        assert_true(split_includes(SPLIT_VALIDATION, ids[i], 0.1) == (i == 1));
    }
}
