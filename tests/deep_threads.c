/* Whole short runs of each trainer leave the same weights whatever the number of threads, whatever OpenMP is asked for
 * by the environment, and when they are resumed on another number of cores. */
#include "tests/files.h"

static char output[1 << 14], *root;

static const char *program_at(const char *which) {
    static char path[256];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/%s", build ? build : "build/release", which);
    return path;
}

static void must(const char *format, ...) PRINTF_LIKE(1, 2);
static void must(const char *format, ...) {
    char command[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    int status = run_command(output, sizeof output, "%s", command);
    if (status) fail_msg("%s\nexit status %d:\n%s", command, status, output);
}

/* "taskset -c 3", of a core that is allowed. */
static const char *on_one_core(void) {
    static char text[32];
    snprintf(text, sizeof text, "taskset -c %d", first_cpu());
    return text;
}

/* Goes on with one thread from step 2 of the run of two threads; `folder`, below the run's, has its checkpoints. */
static void expect_same_resumed(const char *what, const char *folder) {
    must("cd %s/run1/%s && rm -rf $(readlink last) best && ln -sfn step_00000002 last", root, folder);
    must("%s %s --threads 1 --device cpu -o %s/run1 --resume auto", on_one_core(), what, root);
    assert_contains(output, "step 2,");
    must("cmp %s/run0/%s/last/model.safetensors %s/run1/%s/last/model.safetensors", root, folder, root, folder);
}

/* Trains `what` in each way; the weights in `weights`, below the run's folder, are those of one thread. */
static void expect_same_weights(const char *what, const char *weights) {
    const char *const ways[][2] = {{"env", "--threads 1"},
                                   {"env", "--threads 2"},
                                   {"env", "--threads 3"},
                                   {"env", "--threads 8"},
                                   {on_one_core(), ""},
                                   {"OMP_DYNAMIC=true", "--threads 2"},
                                   {"OMP_MAX_ACTIVE_LEVELS=0", "--threads 2"},
                                   {"OMP_NUM_THREADS=3,2", "--threads 2"}};
    must("rm -rf %s/run*", root);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        must("%s %s %s --device cpu -o %s/run%zu", ways[i][0], what, ways[i][1], root, i);
        if (run_command(output, sizeof output, "cmp %s/run0/%s %s/run%zu/%s", root, weights, root, i, weights))
            fail_msg("%s with %s %s: %s", what, ways[i][0], ways[i][1], output);
    }
    assert_int_equal(
        run_command(output, sizeof output, "OMP_THREAD_LIMIT=1 %s --threads 2 --device cpu -o %s/refused", what, root),
        2);
    assert_contains(output, "OMP_THREAD_LIMIT=1 allows 1");
}

/* Four clips for a model of width 256, whose products have few rows and sums of 1,024. */
static void make_clips(void) {
    enum { CLIPS = 4, WIDTH = 256, LATENTS = 32, TEXT = 9, CODES = 30 };
    char *path = path_join(root, "clips.jsonl"), name[32];
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
    free(path);
}

static void threads_change_no_bit_of_train_gpt(void **state) {
    (void)state;
    make_clips();
    char *what = xformat("%s -m %s/clips.jsonl --model-dim 256 --layers 2 --heads 4 --number-text-tokens 50 "
                         "--number-mel-codes 42 --max-text-tokens 20 --max-mel-tokens 40 -b 1 --max-steps 4 "
                         "--save-interval 2 --keep-checkpoints 9 --learning-rate 1e-3 --warmup-steps 0 --val-ratio 0",
                         program_at("train_gpt"), root);
    expect_same_weights(what, "last/model.safetensors");
    expect_same_resumed(what, ".");
    free(what);
}

static void threads_change_no_bit_of_train_psd(void **state) {
    (void)state;
    char *prepare = xstrdup(program_at("prepare_psd"));
    must("%s --synthetic %s/raw --sensors 4 --rows 4 && %s --input %s/raw --output %s/psd", prepare, root, prepare,
         root, root);
    const char *const commands[] = {"pretrain", "finetune"};
    for (int i = 0; i < 2; i++) {
        char *what = xformat("%s %s -m %s/psd/manifest.csv --split %s/psd/splits/by_file_seed42_frac1.0.json --size l4 "
                             "--n-layers 2 -b 4 --epochs 1 --max-steps 3 --save-interval 2 --keep-checkpoints 9",
                             program_at("train_psd"), commands[i], root, root);
        expect_same_weights(what, "last/model.safetensors");
        expect_same_resumed(what, ".");
        free(what);
    }
    free(prepare);
}

static void threads_change_no_bit_of_train_cv(void **state) {
    (void)state;
    must("%s --synthetic %s/cells --cells 96 --donors 3 --bins 64 --side 9", program_at("prepare_flim"), root);
    char *what = xformat("%s --data %s/cells --folds D1 --channels 16,32,64 -b 8 --max-steps 3 --epochs 1 "
                         "--extensions 0 --save-interval 2 --keep-checkpoints 9",
                         program_at("train_cv"), root);
    expect_same_weights(what, "fold_D1/last/model.safetensors");
    expect_same_resumed(what, "fold_D1");
    free(what);
}

int main(void) {
    root = scratch_directory();
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_change_no_bit_of_train_gpt),
                                       cmocka_unit_test(threads_change_no_bit_of_train_psd),
                                       cmocka_unit_test(threads_change_no_bit_of_train_cv)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
