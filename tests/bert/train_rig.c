#include "tests/bert/train_rig.h"

#include "base/file.h"
#include "kernels/philox.h"

const char *const bert_model_options =
    "--layers 2 --d-model 32 --heads 4 --max-len 24 --learning-rate 3e-3 --threads 2 -b 8";
const char *const bert_short_run =
    "--epochs 1000 --max-steps 12 --log-interval 1 --save-interval 3 --val-interval 4 --patience 0";

static const char *const syllables[BERT_TEST_SYLLABLES] = {"ba", "de", "fi", "go", "lu", "ma",
                                                           "ne", "ri", "so", "tu", "xo", "zu"};
enum { NEUTRAL = 8, PER_CLASS = 2 };

char *bert_make_tokenizer(void) {
    char *folder = kept_folder(), *vocabulary = kept_path(folder, "vocab.txt"), *codes = kept_path(folder, "bpe.codes");
    FILE *to[] = {fopen(vocabulary, "w"), fopen(codes, "w")};
    assert_true(to[0] && to[1]);
    for (int s = 0; s < BERT_TEST_SYLLABLES; s++) {
        fprintf(to[0], "%s %d\n%s@@ %d\n", syllables[s], 100 - 2 * s, syllables[s], 99 - 2 * s);
        fprintf(to[1], "%c %c</w> %d\n%c %c %d\n", syllables[s][0], syllables[s][1], 100 - 2 * s, syllables[s][0],
                syllables[s][1], 99 - 2 * s);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(fclose(to[i]), 0);
    return folder;
}

int bert_make_comment(int row, char text[96]) {
    uint64_t r = (uint64_t)row;
    int words = 1 + (int)philox_below(r, PURPOSE_TEST, 0, 0, 6), class = row % 3 == 1, used = 0;
    int told = (int)philox_below(r, PURPOSE_TEST, 0, 1, words); /* the word that tells the class */
    for (int w = 0; w < words; w++) {
        uint64_t at = 2 + 4 * (uint64_t)w;
        const char *first = syllables[philox_below(r, PURPOSE_TEST, 0, at, NEUTRAL)], *second = "";
        if (!philox_below(r, PURPOSE_TEST, 0, at + 1, 3))
            second = syllables[philox_below(r, PURPOSE_TEST, 0, at + 2, NEUTRAL)];
        if (w == told)
            second = syllables[NEUTRAL + PER_CLASS * class + (int)philox_below(r, PURPOSE_TEST, 0, at + 3, PER_CLASS)];
        used += snprintf(text + used, 96 - (size_t)used, "%s%s%s", w ? " " : "", first, second);
    }
    return class;
}

void bert_write_comments(const char *folder, const char *name, int first, int n) {
    char *path = kept_path(folder, name), text[96];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "text,label\n");
    for (int row = first; row < first + n; row++) {
        int class = bert_make_comment(row, text);
        fprintf(file, "%s,%d\n", text, class);
    }
    assert_int_equal(fclose(file), 0);
}

int bert_fixture_open(void **state) {
    (void)state;
    heed_signals();
    char *tokenizer = bert_make_tokenizer();
    fixture.program = program_at("train_bert");
    fixture.data = scratch_directory();
    fixture.options = xformat("%s --tokenizer %s", bert_model_options, tokenizer);
    fixture.short_run = bert_short_run;
    fixture.loss = "train/loss";
    bert_write_comments(fixture.data, "train.csv", 0, BERT_TEST_TRAIN);
    bert_write_comments(fixture.data, "valid.csv", BERT_TEST_TRAIN, BERT_TEST_VALID);
    bert_write_comments(fixture.data, "test.csv", BERT_TEST_TRAIN + BERT_TEST_VALID, BERT_TEST_TEST);
    return 0;
}
