/* From the features of train_gpt prepare --indextts2 to sound: nothing here makes sound of these codes, and each
 * command says what does. */
#include <unistd.h>

#include "tests/gpt/published_rig.h"

#define SIZES "--model-dim 20 --heads 1 --layers 1 --number-mel-codes 66 "

static const char *command_of(const char *command, const char *options) {
    return kept_format("p=$(realpath %s) && cd %s && $p %s %s", program_at(published_program), corpus_root, command,
                       options);
}

static void expect(int status, const char *command, const char *options, const char *want) {
    int got = run_command(fixture.output, sizeof fixture.output, "%s", command_of(command, options));
    if (got != status || !strstr(fixture.output, want))
        fail_msg("exit status %d, expected %d and '%s', found:\n%s", got, status, want, fixture.output);
}

TEST(speak_says_how_to_speak_in_indextts2) {
    expect(
        1, "speak", "--checkpoint run --text a -o x.wav",
        "speak: --checkpoint run: the model speaks in IndexTTS2's semantic codes, and IndexTTS2's networks s2mel and "
        "vocoder, which make sound of them, are not part of train_gpt");
    assert_contains(fixture.output, " export --checkpoint run --output exported, copy the folder exported into "
                                    "IndexTTS2's folder checkpoints, ");
    assert_contains(fixture.output, "infer(spk_audio_prompt=\"voice.wav\", text=\"...\", output_path=\"said.wav\")");
    assert_contains(fixture.output, "[Checkpoint] run/step_00000002: ");
    corpus_prepare("own", "");
    expect(1, "speak", "--checkpoint run --text a -o x.wav --codebook own/codebook.npy",
           "the model speaks in IndexTTS2's semantic codes");
    assert_int_not_equal(access(corpus_folder("x.wav"), F_OK), 0);
}

/* Also with a codebook, which is of other codes. */
TEST(decode_refuses_codes_of_another_program) {
    static const char want[] = "decode: --codes reference/codes/spk001_000001.npy: IndexTTS2's semantic codes: its "
                               "vocoder makes sound of them, and train_gpt decode cannot";
    corpus_prepare("own", "");
    expect(1, "decode", "--codes reference/codes/spk001_000001.npy -o x.wav", want);
    expect(1, "decode", "--codes reference/codes/spk001_000001.npy --codebook own/codebook.npy -o x.wav", want);
    assert_int_not_equal(access(corpus_folder("x.wav"), F_OK), 0);
}

TEST(the_training_and_the_export_name_the_codes) {
    char *config = kept_text(keep(path_through(corpus_root, "run/last/config.json")));
    assert_contains(config, "\"codes\": \"indextts2\"");
    assert_null(strstr(config, "codebook_xxh3_64"));
    expect(0, "export", "--checkpoint run --output exported", "\n[Codes] IndexTTS2's semantic codes: its vocoder");
    assert_contains(fixture.output, "warning: run/step_00000002 has no encoders for prompts and emotions");
}

TEST(codes_of_both_kinds_are_not_trained_on_together) {
    corpus_prepare("own", "");
    expect(1, "", "-m own/manifest.jsonl -m reference/manifest.jsonl --dry-run " SIZES,
           "reference/manifest.jsonl holds the semantic codes of IndexTTS2");
    assert_contains(fixture.output, "or prepare all with --indextts2");
}

static int train(void **state) {
    published_open(state);
    published_reference(NULL);
    must_run("%s", command_of("", "-m reference/manifest.jsonl " SIZES "--max-steps 2 --threads 1 -b 2 -g 1 "
                                  "--warmup-steps 1 --output-dir run"));
    assert_contains(fixture.output, "\nNext: ");
    assert_contains(fixture.output, " export --checkpoint run --output exported\n");
    return 0;
}

int main(void) { return tests_run(train, NULL); }
