/* Trainings of train_bert that are killed, or whose file operations fail: a classifier with what follows its training,
 * and masked words; and what is made before a training: synthetic comments and a tokenizer. */
#include "tests/bert/train_rig.h"
#include "tests/crash/crash.h"

#define MODEL                                                                                                          \
    "--layers 1 --d-model 16 --heads 2 --max-len 16 --learning-rate 3e-2 --threads 1 --num-workers 1 -b 4 "            \
    "--log-interval 1 --val-interval 2 --save-interval 3 --keep-checkpoints 1 --tokenizer ../tokenizer --resume auto"

/* Writes texts and their tokenizer beside the run. */
static void write_data(const char *root) {
    char *tokenizer = bert_make_tokenizer(), *data = kept_path(root, "data");
    crash_make(root, "mkdir data");
    bert_write_comments(data, "train.csv", 0, 24);
    bert_write_comments(data, "valid.csv", 24, 12);
    bert_write_comments(data, "test.csv", 36, 12);
    must_run("cp -r %s %s/tokenizer", tokenizer, root);
}

TEST(train_bert) {
    char *root = crash_root();
    write_data(root);
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/train_bert --data ../data " MODEL
                                                " --epochs 100 --max-steps 6 --patience 0 -o run",
                                     .log = "run/log.jsonl",
                                     .lowest = "-val/f1",
                                     .alike = "@(run|*.@(csv|svg|md).*)"});
}

TEST(pretrain) {
    char *root = crash_root();
    write_data(root);
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/train_bert pretrain --data ../data " MODEL
                                                " --epochs 100 --max-steps 6 --learning-rate 0.1 --seed 2 -o run",
                                     .log = "run/log.jsonl",
                                     .lowest = "val/loss"});
}

TEST(synthesize) {
    char *root = crash_root();
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/train_bert synthesize -o made --train 3 --valid 3 "
                                                "--test 3 --unlabelled 3",
                                     .done = "is there already"});
}

TEST(learn_a_tokenizer) {
    char *root = crash_root();
    write_data(root);
    crash_at_every(root,
                   &(CrashRun){.command = "exec $PROGRAMS/train_bert tokenizer --learn 5 --data ../data/train.csv "
                                          "--threads 1 --overwrite -o made"});
}

int main(void) { return crash_tests(); }
