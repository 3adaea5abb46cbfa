/* Short runs of train_gpt leave the same weights whatever the number of threads. */
#include "tests/threads_rig.h"

static const char *root;

/* Four clips for a model of width 256, whose products have few rows and sums of 1,024. */
static void make_clips(void) {
    enum { CLIPS = 4, WIDTH = 256, LATENTS = 32, TEXT = 9, CODES = 30 };
    char *path = kept_path(root, "clips.jsonl"), name[32];
    FILE *manifest = fopen(path, "w");
    assert_non_null(manifest);
    for (int i = 0; i < CLIPS; i++) {
        static float latents[LATENTS * WIDTH];
        int32_t text[TEXT], codes[CODES];
        for (int j = 0; j < TEXT; j++) text[j] = 3 + (7 * i + j) % 40;
        for (int j = 0; j < CODES; j++) codes[j] = (5 * i + 3 * j) % 40;
        for (int j = 0; j < LATENTS * WIDTH; j++) latents[j] = 0.01f * (float)((j * 37 + i) % 101 - 50);
        const char *const kinds[] = {"t", "c", "k", "e"};
        for (int k = 0; k < 4; k++) {
            snprintf(name, sizeof name, "%s%d.npy", kinds[k], i);
            if (k < 2) write_npy(root, name, "<i4", k ? codes : text, 1, k ? CODES : TEXT, 0);
            if (k == 2) write_npy(root, name, "<f4", latents, 2, LATENTS, WIDTH);
            if (k == 3) write_npy(root, name, "<f4", latents, 1, WIDTH, 0);
        }
        fprintf(manifest,
                "{\"id\": \"%d\", \"audio_path\": \"a.wav\", \"text\": \"x\", \"speaker\": \"s\", \"language\": "
                "\"am\", \"duration\": null, \"text_ids_path\": \"t%d.npy\", \"text_len\": %d, \"codes_path\": "
                "\"c%d.npy\", \"code_len\": %d, \"condition_path\": \"k%d.npy\", \"condition_len\": 32, "
                "\"emo_vec_path\": \"e%d.npy\"}\n",
                i, i, TEXT, i, CODES, i, i);
    }
    assert_int_equal(fclose(manifest), 0);
}

TEST(threads_change_no_bit_of_train_gpt) {
    make_clips();
    char *what =
        kept_format("%s -m %s/clips.jsonl --model-dim 256 --layers 2 --heads 4 --number-text-tokens 50 "
                    "--number-mel-codes 42 --max-text-tokens 20 --max-mel-tokens 40 -b 1 --max-steps 4 "
                    "--save-interval 2 --keep-checkpoints 9 --learning-rate 1e-3 --warmup-steps 0 --val-ratio 0",
                    program_at("train_gpt"), root);
    threads_expect_same_weights(root, what, "last/model.safetensors");
    threads_expect_same_resumed(root, what, ".");
}

int main(void) {
    root = run_directory();
    return tests_run(NULL, NULL);
}
