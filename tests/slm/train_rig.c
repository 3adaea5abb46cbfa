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
    char *directory = scratch_directory(), *texts = path_join(directory, "texts.jsonl"),
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
    free(texts);
    free(directory);
    return prepared;
}

int slm_train(const char *run, const char *extra, ...) {
    char more[2048];
    va_list arguments;
    va_start(arguments, extra);
    vsnprintf(more, sizeof more, extra, arguments);
    va_end(arguments);
    return run_command(fixture.output, sizeof fixture.output, "%s --data %s %s --output-dir %s -b 3 %s",
                       fixture.program, fixture.data, slm_model_options, run, more);
}

void slm_must_train(const char *run, const char *extra) {
    int status = slm_train(run, "%s", extra);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

void slm_assert_same_losses(const char *a, const char *b) {
    double x[64], y[64];
    int n = logged(a, "train", "train/loss", x, 64);
    assert_true(n > 0);
    assert_int_equal(n, logged(b, "train", "train/loss", y, 64));
    for (int i = 0; i < n; i++) assert_true(x[i] == y[i]);
}

const char *slm_reference_run(void) {
    static char *run;
    if (!run) {
        run = scratch_directory();
        slm_must_train(run, slm_short_run);
    }
    return run;
}

int slm_train_and_signal(const char *run, const char *options, int step, int number) {
    char *command = xformat("%s --data %s %s --output-dir %s -b 3 %s", fixture.program, fixture.data, slm_model_options,
                            run, options);
    pid_t child = start_command(run, command);
    free(command);
    return signal_at_step(run, child, step, number);
}

int slm_fixture_open(void **state) {
    (void)state;
    heed_signals();
    fixture.program = program_at("train_slm");
    fixture.data = slm_make_data(SLM_TEST_DOCUMENTS, "");
    return 0;
}
