/* train_gpt decode: codes sound like their clip, a recording comes back closer, and bad input is named. */
#include <unistd.h>

#include "data/audio/audio.h"
#include "data/audio/mel.h"
#include "data/formats/npy.h"
#include "tests/gpt/corpus.h"

static double rms_distance(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t t = 0; t < n; t++) sum += frames_square_distance(a + t * MEL_BANDS, b + t * MEL_BANDS);
    return sqrt(sum / (double)(n * MEL_BANDS));
}

/* frames[*n, MEL_BANDS] of a WAV file. free() */
static float *frames_of_file(const char *path, int64_t *n) {
    Mel *mel = mel_open();
    Audio audio;
    Error error;
    if (!audio_read(path, MEL_RATE, 60, &audio, &error)) fail_msg("%s: %s", path, error.text);
    *n = mel_frame_count(audio.count);
    float *frames = xmalloc((size_t)(*n * MEL_BANDS) * sizeof *frames);
    mel_analyse(mel, audio.samples, audio.count, frames);
    audio_close(&audio);
    mel_close(mel);
    return frames;
}

/* The decoded clip's frames differ from the clip's own by what the codes lost, which is measured here, and what the way
 * back from frames to sound adds, by the triangle inequality at most their sum. The latter is 0.15 nepers for frames
 * that some sound has; the sequence of entries is none that a sound has, its frames overlap and yet jump from entry to
 * entry, so twice that (2.6 dB) is allowed. */
TEST(decoded_codes_sound_like_their_clip) {
    const char *output = corpus_reference(NULL);
    int64_t dims[2], n, n_other;
    float *entries = corpus_read_array(output, ".", "codebook", 'f', dims);
    for (int i = 3; i < CORPUS_KEPT; i += 6) {
        char *wav = kept_format("%s/heard.wav", corpus_root);
        int status = run_command(fixture.output, sizeof fixture.output, "%s --codes %s/%s/codes/%s.npy --output %s",
                                 program_at("train_gpt decode"), corpus_root, output, corpus_ids[i], wav);
        if (status) fail_msg("%s", fixture.output);
        float *heard = frames_of_file(wav, &n);
        float *own = corpus_read_array(output, "mel", corpus_ids[i], 'f', dims);
        int32_t *codes = corpus_read_array(output, "codes", corpus_ids[i], 'i', dims);
        assert_int_equal(dims[0], n);
        float *coded = xmalloc((size_t)(n * MEL_BANDS) * sizeof *coded);
        for (int64_t t = 0; t < n; t++)
            memcpy(coded + t * MEL_BANDS, entries + codes[t] * MEL_BANDS, MEL_BANDS * sizeof *coded);
        double lost = rms_distance(coded, own, n), near = rms_distance(heard, own, n), far = INFINITY;
        for (int k = 0; k < CORPUS_KEPT; k++) {
            if (k == i) continue;
            float *other = corpus_read_array(output, "mel", corpus_ids[k], 'f', dims);
            n_other = dims[0] < n ? dims[0] : n;
            far = fmin(far, rms_distance(heard, other, n_other));
            free(other);
        }
        printf("%s: %.3f from its own frames, of which the codes lost %.3f, the way back %.3f; the nearest other clip "
               "is at %.3f\n",
               corpus_ids[i], near, lost, rms_distance(heard, coded, n), far);
        assert_true(near <= lost + 0.3);
        assert_true(near < 0.75 * far);
        free(heard);
        free(own);
        free(codes);
        free(coded);
    }
    free(entries);
}

/* Without codes in between only the way back is left, and the sound is as long as its frames. */
TEST(a_recording_itself_comes_back_closer) {
    char *from = corpus_path("audio", "spk001_000013.wav"), *wav = kept_path(corpus_root, "itself.wav");
    char *leftover = kept_format("%s.0123456789abcdef.partial", wav); /* of a program that was killed */
    int64_t n, n_own;
    write_text(leftover, "half");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s --mel-from %s -o %s",
                                 program_at("train_gpt decode"), from, wav),
                     0);
    assert_int_not_equal(access(leftover, F_OK), 0);
    assert_contains(fixture.output, "s of sound from 122 frames");
    float *heard = frames_of_file(wav, &n), *own = frames_of_file(from, &n_own);
    assert_int_equal(n, 122);
    assert_int_equal(n, n_own);
    assert_true(rms_distance(heard, own, n) < 0.25);
    free(heard);
    free(own);
}

static void expect_decode_refusal(const char *arguments, int status, const char *message) {
    char *decode = keep(realpath(program_at("train_gpt"), NULL));
    assert_non_null(decode);
    int got = run_command(fixture.output, sizeof fixture.output, "cd %s && %s decode -o x.wav %s", corpus_root, decode,
                          arguments);
    assert_contains(fixture.output, message);
    assert_int_equal(got, status);
}

TEST(no_sound_replaces_its_input) {
    static const char *const commands[][2] = {
        {"sound.wav", "--mel-from sound.wav -o sound.wav"},
        {"sound.wav", "--mel-from sound.wav -o ./alias.wav"},
        {"codes/x.npy", "--codes codes/x.npy -o codes/x.npy"},
        {"codebook.npy", "--codes codes/x.npy --codebook codebook.npy -o codebook.npy"},
        {"codebook.npy", "--codes codes/x.npy -o codebook.npy"},
        {"codebook.json", "--codes codes/x.npy -o codebook.json"},
        {"some.yaml", "--config some.yaml --mel-from sound.wav -o some.yaml"},
    };
    char before[1 << 12], after[1 << 12];
    corpus_reference(NULL);
    run_command(
        fixture.output, sizeof fixture.output,
        "cd %s && mkdir -p codes && cp reference/codebook.* . && cp reference/codes/spk001_000001.npy codes/x.npy && "
        "cp audio/spk001_000001.wav sound.wav && ln sound.wav alias.wav && echo seed: 1 >some.yaml",
        corpus_root);
    const char *const look = "cd %s && sha1sum codes/x.npy codebook.* *.wav some.yaml";
    run_command(before, sizeof before, look, corpus_root);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        expect_decode_refusal(commands[i][1], 2, "is read by this run (");
        run_command(after, sizeof after, look, corpus_root);
        assert_string_equal(after, before);
    }
}

TEST(bad_codes_are_refused) {
    corpus_reference(NULL);
    int32_t large[5] = {0, 1, 2, CORPUS_ENTRIES, 0};
    char *path = kept_path(corpus_root, "large.npy"), *square = kept_path(corpus_root, "square.npy");
    Error error;
    assert_true(npy_write(path, "<i4", large, 1, (int64_t[]){5}, &error));
    assert_true(npy_write(square, "<i4", large, 2, (int64_t[]){2, 2}, &error));
    expect_decode_refusal("--codes large.npy --codebook reference/codebook.npy", 1,
                          "large.npy: code 3 is 32, but reference/codebook.npy has 32 entries");
    expect_decode_refusal("--codes square.npy --codebook reference/codebook.npy", 1,
                          "square.npy: expected codes, a row of at least one integer");
    expect_decode_refusal("--codes nowhere.npy --codebook reference/codebook.npy", 1, "nowhere.npy: ");
    expect_decode_refusal("--codes large.npy --codebook large.npy", 1, "large.npy: a codebook is a matrix of floats");
    expect_decode_refusal("--codes large.npy --mel-from large.npy", 2, "give either --codes or --mel-from");
    expect_decode_refusal("--mel-from list.tsv", 1, "list.tsv: is not a sound file");
    /* Two files that do not belong together. */
    corpus_prepare("other", "--num-workers 2 --seed 6");
    int status =
        run_command(fixture.output, sizeof fixture.output,
                    "cd %s && mkdir mixed && cp other/codebook.json reference/codebook.npy mixed", corpus_root);
    assert_int_equal(status, 0);
    expect_decode_refusal("--codes reference/codes/spk001_000001.npy --codebook mixed/codebook.npy", 1,
                          "codebook.json, which belongs to the codebook: is not as it was written");
    expect_decode_refusal("-o x.mp3 --mel-from list.tsv", 2, "x.mp3: expected a name that ends in .wav");
    expect_decode_refusal("-o /dev/null --codes reference/codes/spk001_000001.npy", 2, "/dev/null is a device");
}

int main(void) { return tests_run(corpus_open, NULL); }
