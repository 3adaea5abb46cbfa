/* The commands that train_slm prints as the next step run as printed. */
#include "tests/next_rig.h"

TEST(each_command_names_the_next) {
    next_must_run("texts", "mkdir texts && for i in 1 2 3 4 5 6 7 8; do for j in $(seq 40); do "
                           "echo \"The king $i went to the house number $j.\"; done >texts/$i.txt; done");
    next_must_run("prepare",
                  "./train_slm prepare --input texts --output \"it's prepared\" --vocabulary 300 --val-ratio 0.3");
    char *train = next_command("./train_slm --data");
    char *quick =
        xformat("%s --layers 1 --d-model 32 --heads 2 --context 32 -b 2 --max-steps 2 -o \"it's run\"", train);
    next_must_run("train", quick);
    char *generate = next_command("./train_slm generate");
    next_must_run("generate", generate);
    assert_contains(fixture.output, "TEXT");
    free(quick);
}

int main(void) { return tests_run(next_open, NULL); }
