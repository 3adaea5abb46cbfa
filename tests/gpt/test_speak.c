/* train_gpt speak: a text becomes sound, the same for the same seed and voice, and bad input is named. */
#include "base/file.h"
#include "tests/gpt/corpus.h"
#include "tests/sounds.h"

static int speak(const char *options) {
    return run_command(fixture.output, sizeof fixture.output, "here=$PWD && cd %s && $here/%s --threads 1 %s",
                       corpus_root, program_at("train_gpt speak"), options);
}

static void must_speak(const char *options) {
    int status = speak(options);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

static uint64_t sum_of(const char *name) {
    char *path = kept_path(corpus_root, name), *bytes;
    size_t size;
    Error error;
    if (!read_file(path, &bytes, &size, &error)) fail_msg("%s: %s", path, error.text);
    uint64_t sum = checksum(0, bytes, size);
    free(bytes);
    return sum;
}

#define FROM "-m reference/manifest.jsonl --sample "
#define SAY  "--checkpoint run --text 'ሰላም ለዓለም' --max-codes 20 "

/* Returns how many codes the model has spoken. */
static int codes_spoken(void) {
    const char *codes = strstr(fixture.output, "text tokens, ");
    assert_non_null(codes);
    return atoi(codes + strlen("text tokens, "));
}

/* A code is 480 samples of two bytes, behind 44 bytes of header. */
TEST(a_text_becomes_sound) {
    must_speak(SAY FROM "spk001_000001 -o said/first.wav");
    int n = codes_spoken();
    char *told = kept_format("said/first.wav: %.2f s of sound from %d codes", n * 0.02, n), *wav;
    assert_contains(fixture.output, "[Voice] spk001_000001 of ");
    assert_contains(fixture.output, told);
    assert_in_range(n, 1, 20);
    char *path = kept_path(corpus_root, "said/first.wav");
    size_t size;
    Error error;
    assert_true(read_file(path, &wav, &size, &error));
    assert_int_equal(size, 44 + n * 480 * 2);
    free(wav);
    must_speak(SAY FROM "spk001_000001 -o said/again.wav");
    must_speak(SAY FROM "spk001_000001 --threads 3 -o said/threads.wav");
    must_speak(SAY FROM "spk001_000001 --seed 2 -o said/seed.wav");
    must_speak(SAY FROM "spk001_000001 --repetition-penalty 9 -o said/penalty.wav");
    must_speak(SAY FROM "spk002_000002 -o said/voice.wav");
    assert_true(sum_of("said/again.wav") == sum_of("said/first.wav"));
    assert_true(sum_of("said/threads.wav") == sum_of("said/first.wav"));
    assert_true(sum_of("said/seed.wav") != sum_of("said/first.wav"));
    assert_true(sum_of("said/penalty.wav") != sum_of("said/first.wav"));
    assert_true(sum_of("said/voice.wav") != sum_of("said/first.wav"));
}

/* A recording is mapped to the vectors that prepare has stored of it. */
TEST(a_recording_and_its_sample_are_one_voice) {
    must_speak(SAY FROM "spk001_000001 -o said/sample.wav");
    must_speak(SAY "--prompt-audio audio/spk001_000001.wav -o said/audio.wav");
    assert_true(sum_of("said/sample.wav") == sum_of("said/audio.wav"));
    must_speak(SAY "-o said/default.wav"); /* the first sample of the training's manifest */
    assert_contains(fixture.output, "[Voice] ");
}

/* Large frames come first, so that an estimate by the first is too low. Each encoder adds two frames of its own. */
TEST(a_voice_is_all_of_an_mp3_that_does_not_describe_itself) {
    char *path = kept_path(corpus_root, "bare.mp3");
    float *babble = make_babble(1, 24000, 24000);
    if (append_bare_mp3(path, 24000, babble, 24000, 0) && append_bare_mp3(path, 24000, babble, 24000, 0.9)) {
        must_speak(SAY "--prompt-audio bare.mp3 -o said/bare.wav");
        assert_contains(fixture.output, "[Voice] bare.mp3, 2.");
    }
    free(babble);
}

/* Greedy codes need no seed; without --max-codes the model ends the speech, or its positions do: 180 + 2 of them. */
TEST(speech_ends_with_the_positions) {
    must_speak("--checkpoint run --text 'ሰላም' --temperature 0 --iterations 1 -o said/long.wav");
    int n = codes_spoken();
    if (!strstr(fixture.output, "the model ended the speech")) {
        assert_contains(fixture.output, "the model's positions were used up before it ended");
        assert_int_equal(n, 182);
    }
    assert_in_range(n, 1, 182);
}

static void expect_refusal(const char *options, int status, const char *want) {
    int got = speak(options);
    if (got != status || !strstr(fixture.output, want))
        fail_msg("exit status %d, expected %d and '%s', found:\n%s", got, status, want, fixture.output);
}

TEST(bad_input_is_refused) {
    const char *const ten = "ሰላም ለ ሰላም ለ ሰላም ለ ሰላም ለ ሰላም ለ ";
    char *long_text = kept_format("--checkpoint run -o x.wav --text '%s%s%s%s%s%s%s%s%s%s'", ten, ten, ten, ten, ten,
                                  ten, ten, ten, ten, ten);
    expect_refusal(long_text, 1, "tokens, and the model reads at most 90: say it in parts");
    expect_refusal("--checkpoint run -o x.wav --text ' '", 2, "has no words");
    expect_refusal("--checkpoint run -o x.wav --text \"$(printf '\\377')\"", 1, "--text: ");
    expect_refusal("--checkpoint run -o x.mp3 --text a", 2, "x.mp3: expected a name that ends in .wav");
    expect_refusal("--checkpoint run --text a", 2, "--output");
    expect_refusal("--checkpoint audio -o x.wav --text a", 1, "it holds neither a run nor a checkpoint");
    expect_refusal(SAY "-o x.wav --sample nobody", 1, "--sample nobody: ");
    expect_refusal(SAY "-o x.wav --sample a --prompt-audio audio/spk001_000001.wav", 2, "give one voice");
    expect_refusal(SAY "-o x.wav --prompt-audio list.tsv", 1, "list.tsv: is not a sound file");
    expect_refusal(SAY "-o audio/spk001_000001.wav --prompt-audio audio/spk001_000001.wav", 2, "is read by this run (");
    expect_refusal(SAY "-o x.wav --temperature -1", 2, "temperature");
    expect_refusal(SAY "-o x.wav --top-p 2", 2, "top-p");
}

/* The files of the training are found by its checkpoint, and must be those. */
TEST(other_files_than_the_trainings_are_refused) {
    corpus_prepare("other", "--num-workers 2 --seed 6");
    expect_refusal(SAY "-o x.wav --codebook other/codebook.npy", 1,
                   "other/codebook.npy is not the codebook that run/step_00000003 was trained with: its xxh3_64 is ");
    expect_refusal(SAY "-o x.wav --codebook nowhere.npy", 1, "nowhere.npy: ");
    expect_refusal(SAY "-o x.wav --tokenizer nowhere.model", 1, "nowhere.model");
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && mv reference/codebook.npy kept.npy && cp %s/run/best/model.safetensors alone",
                             corpus_root, corpus_root);
    assert_int_equal(status, 0);
    expect_refusal(SAY "-o x.wav", 2, "is not there: give --codebook");
    run_command(fixture.output, sizeof fixture.output, "mv %s/kept.npy %s/reference/codebook.npy", corpus_root,
                corpus_root);
    expect_refusal("--checkpoint alone --heads 2 --text a -o x.wav", 2,
                   "alone does not say which codebook it was trained with: give --codebook");
    expect_refusal("--checkpoint alone --heads 2 --text a -o x.wav --codebook reference/codebook.npy", 2,
                   "alone does not say which tokenizer it was trained with: give --tokenizer");
    must_speak("--checkpoint alone --heads 2 --text a -o said/alone.wav --codebook reference/codebook.npy --tokenizer "
               "reference/bpe.model --prompt-audio audio/spk001_000001.wav --max-codes 5");
}

/* Data without a codebook hold IndexTTS2's codes, which only its vocoder makes sound of. */
TEST(codes_of_another_program_are_refused) {
    char *data = corpus_folder("semantic"), *run = corpus_folder("foreign");
    int status = run_command(fixture.output, sizeof fixture.output, "cp -r %s/reference %s && rm %s/codebook.*",
                             corpus_root, data, data);
    assert_int_equal(status, 0);
    corpus_must_train(data, run, "");
    assert_contains(fixture.output, " export --checkpoint "); /* Next: */
    expect_refusal("--checkpoint foreign --text a -o x.wav", 1, "Speak in IndexTTS2: ");
}

/* While the model speaks, the last line of a terminal says how far it is. */
TEST(a_terminal_shows_the_progress) {
    if (run_command(fixture.output, sizeof fixture.output, "command -v script") != 0) skip();
    int status = run_command(fixture.output, sizeof fixture.output,
                             "here=$PWD && cd %s && script -qec \"$here/%s --threads 1 %s\" /dev/null </dev/null",
                             corpus_root, program_at("train_gpt speak"), SAY FROM "spk001_000001 -o said/shown.wav");
    assert_int_equal(status, 0);
    assert_contains(fixture.output, "[Speak] 1 codes, 0.0 s of speech  ");
    assert_contains(fixture.output, " codes/s\r\033[K"); /* and is removed */
}

/* corpus_open trained on codes of its own codebook, which speak. */
TEST(the_training_names_the_command_that_speaks) {
    char *data = corpus_folder("reference"), *run = corpus_folder("it's new");
    char *quoted = keep(shell_word(run)),
         *want = kept_format(" speak --checkpoint %s --text TEXT --output said.wav\n", quoted);
    corpus_must_train(data, keep(shell_word(run)), "");
    assert_contains(fixture.output, "\nNext: ");
    assert_contains(fixture.output, want);
}

static int train(void **state) {
    corpus_open(state);
    corpus_must_train(corpus_folder(corpus_reference(NULL)), corpus_folder("run"), "");
    return 0;
}

int main(void) { return tests_run(train, NULL); }
