/* Trainings, preparations and exports of train_gpt that are killed, or whose file operations fail. */
#include "data/audio/audio.h"
#include "kernels/philox.h"
#include "tests/crash/crash.h"
#include "tests/gpt/published_rig.h"
#include "tests/gpt/train_rig.h"

TEST(train_gpt) {
    char *root = crash_root(), *manifest = kept_path(root, "manifest.jsonl");
    FILE *file = fopen(manifest, "w");
    assert_non_null(file);
    for (int i = 0; i < GPT_SAMPLES; i++) gpt_write_sample(file, root, i, 0);
    assert_int_equal(fclose(file), 0);
    crash_at_every(
        root,
        &(CrashRun){.command = "exec $PROGRAMS/train_gpt -m ../manifest.jsonl --model-dim 64 --layers 1 --heads 2 "
                               "--number-text-tokens 50 --number-mel-codes 42 --max-text-tokens 40 --max-mel-tokens 80 "
                               "--warmup-steps 1 --learning-rate 3e-2 --threads 1 --num-workers 1 -b 4 --max-steps 8 "
                               "--epochs 100 --val-ratio 0.3 --log-interval 1 --val-interval 2 --save-interval 3 "
                               "--keep-checkpoints 1 -o run --resume auto",
                    .log = "run/log.jsonl",
                    .lowest = "val/objective"});
}

/* Writes four recordings and their list; returns the list's path. */
static char *write_recordings(const char *root) {
    static const char *const words[] = {"ሰላም", "ለዓለም", "ዛሬ", "ጥሩ", "ቀን", "ነው"};
    char *list = kept_path(root, "list.tsv");
    FILE *file = fopen(list, "w");
    assert_non_null(file);
    for (int i = 0; i < 4; i++) {
        char *name = kept_format("%s/c%d.wav", root, i);
        float samples[24000];
        for (int k = 0; k < 24000; k++)
            samples[k] = 0.2f * sinf((float)k * 0.02f * (float)(i + 1 + k / 4000)) +
                         0.01f * philox_normal((uint64_t)i, PURPOSE_TEST, 0, (uint64_t)k);
        Error error;
        if (!audio_write(name, samples, 24000, 24000, &error)) fail_msg("%s", error.text);
        fprintf(file, "c%d\ts%d\tc%d.wav\t%s %s %s %s።\n", i, i % 2, i, words[i % 6], words[(i + 1) % 6],
                words[(i + 3) % 6], words[(5 * i + 2) % 6]);
    }
    assert_int_equal(fclose(file), 0);
    return list;
}

TEST(prepare) {
    char *root = crash_root();
    write_recordings(root);
    crash_at_every(
        root, &(CrashRun){
                  .command = "exec $PROGRAMS/train_gpt prepare -i ../list.tsv -o out --vocabulary 40 --codebook-size 8 "
                             "--d-model 16 --val-ratio 0.3 --num-workers 1"});
}

TEST(prepare_indextts2) {
    char *root = crash_root(), *weights = kept_path(root, "weights");
    write_recordings(root);
    for (int i = 0; i < INDEX_FILES; i++) published_write(weights, (IndexFile)i, NULL);
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/tiny/train_gpt prepare -i ../list.tsv -o out "
                                                "--indextts2 ../weights --vocabulary 40 --val-ratio 0.3 "
                                                "--num-workers 1"});
}

TEST(export) {
    char *root = crash_root();
    write_recordings(root);
    crash_make(root, "$PROGRAMS/train_gpt prepare -i list.tsv -o data --vocabulary 40 --codebook-size 8 --d-model 16");
    crash_make(root, "$PROGRAMS/train_gpt -m data/manifest.jsonl --model-dim 16 --layers 1 --heads 2 --threads 1 -b 2 "
                     "-g 1 --number-mel-codes 10 --warmup-steps 1 --max-steps 2 -o run");
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/train_gpt export --checkpoint ../run "
                                                "--tokenizer ../data/bpe.model -o out",
                                     .done = "already; choose a new folder"});
}

int main(void) { return crash_tests(); }
