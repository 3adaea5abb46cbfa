/* The training and the commands of train_cv, killed or with file operations that fail. */
#include "tests/crash/crash.h"

TEST(train_cv) {
    char *root = crash_root();
    crash_make(root,
               "$PROGRAMS/train_cv synthesize --output cells --cells 24 --donors 3 --bins 32 --side 7 --num-workers 1");
    crash_make(root, "$PROGRAMS/train_cv doctor --data cells --num-workers 1");
    crash_at_every(
        root, &(CrashRun){.command =
                              "exec $PROGRAMS/train_cv -d ../cells.flim.safetensors -o run --threads 1 --num-workers 1 "
                              "--channels 8,8,8 -b 8 --epochs 4 --learning-rate 3e-2 --shift 2 --keep-checkpoints 1 "
                              "--folds D1,D2 --save-interval 2 --log-interval 1 --seed 3 --resume auto",
                          .log = "run/fold_D1/log.jsonl",
                          .lowest = "-val/auroc",
                          .alike = "@(run|*.@(csv|svg|md).*)"});
}

TEST(doctor) {
    char *root = crash_root();
    /* Every run gets a link to the same files: the times of copies are in the store, and differ. */
    crash_make(root,
               "$PROGRAMS/train_cv synthesize --output cells --cells 24 --donors 3 --bins 32 --side 7 --num-workers 1 "
               "&& mkdir -p start && ln -s ../cells start/cells");
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/train_cv doctor --data cells --num-workers 1"});
}

TEST(synthesize) {
    char *root = crash_root();
    crash_at_every(
        root,
        &(CrashRun){.command =
                        "exec $PROGRAMS/train_cv synthesize --output cells --cells 4 --donors 2 --bins 32 --side 7 "
                        "--num-workers 1",
                    .done = "is there already"});
}

int main(void) { return crash_tests(); }
