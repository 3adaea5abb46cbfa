#include "tests/slm/train_rig.h"

#include "base/file.h"
#include "kernels/philox.h"

const char *const slm_model_options =
    "--layers 2 --d-model 64 --heads 4 --context 32 --epochs 1000 --warmup-steps 2 --learning-rate 1e-3 --threads 2";
const char *const slm_short_run = "--max-steps 12 --log-interval 1 --save-interval 3 --val-interval 4";

/* A word of syllables; words with a small number are frequent. */
static void write_word(FILE *to, uint64_t document, uint64_t at) {
    static const char *const syllables[] = {"ba", "de", "fi", "go", "lu", "ma", "ne", "ri", "so", "tu"};
    uint32_t bits = philox_bits(document, PURPOSE_TEST, 1, at), word = (bits % 40) * (bits / 40 % 40) % 400;
    fprintf(to, " %s%s%s", syllables[word % 10], syllables[word / 10 % 10], word % 3 ? "" : syllables[word / 100]);
}

char *slm_make_data(int documents, const char *options) {
    char *directory = kept_folder(), *texts = kept_path(directory, "texts.jsonl"),
         *prepared = path_join(directory, "prepared");
    FILE *file = fopen(texts, "w");
    assert_non_null(file);
    for (int d = 0; d < documents; d++) {
        int words = 10 + (int)(philox_bits((uint64_t)d, PURPOSE_TEST, 0, 0) % 60);
        fprintf(file, "{\"text\": \"Text %d:", d);
        for (int w = 0; w < words; w++) write_word(file, (uint64_t)d, (uint64_t)w);
        fprintf(file, ".\"}\n");
    }
    assert_int_equal(fclose(file), 0);
    must_run("%s prepare --input %s --output %s --vocabulary %d --val-ratio 0.2 %s", fixture.program, texts, prepared,
             SLM_TEST_VOCABULARY, options);
    return prepared;
}

int slm_fixture_open(void **state) {
    (void)state;
    heed_signals();
    fixture.program = program_at("train_slm");
    fixture.options = xformat("%s -b 3", slm_model_options);
    fixture.short_run = slm_short_run;
    fixture.loss = "train/loss";
    fixture.data = slm_make_data(SLM_TEST_DOCUMENTS, "");
    return 0;
}
