/* Preparations and trainings of train_slm that are killed, or whose file operations fail. */
#include "tests/crash/crash.h"
#include "tests/train_rig.h"

/* Writes a few documents; returns their path. */
static char *write_texts(const char *root) {
    char *path = kept_path(root, "texts.jsonl");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int d = 0; d < 12; d++) {
        fprintf(file, "{\"text\": \"");
        for (int w = 0; w < 12; w++) fprintf(file, "%s %d ", (d + w) % 3 ? "ebb" : "flow", d * w % 17);
        fprintf(file, "\"}\n");
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

TEST(prepare) {
    char *root = crash_root();
    write_texts(root);
    crash_at_every(root,
                   &(CrashRun){.command = "exec $PROGRAMS/train_slm prepare -i ../texts.jsonl -o out --vocabulary "
                                          "270 --val-ratio 0.3 --shard-tokens 200 --threads 1"});
}

TEST(train_slm) {
    char *root = crash_root();
    write_texts(root);
    crash_make(root, "$PROGRAMS/train_slm prepare -i texts.jsonl -o data --vocabulary 270 --val-ratio 0.3");
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/train_slm --data ../data --layers 1 --d-model 32 "
                                                "--heads 2 --context 16 --warmup-steps 1 --learning-rate 3e-2 "
                                                "--threads 1 --num-workers 1 -b 4 --max-steps 8 --log-interval 1 "
                                                "--val-interval 2 --save-interval 3 --keep-checkpoints 1 "
                                                "--sample-tokens 4 -o run --resume auto",
                                     .log = "run/log.jsonl",
                                     .lowest = "val/loss"});
}

int main(void) { return crash_tests(); }
