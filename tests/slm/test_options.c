/* train_slm: options reach what they are for. */
#include "tests/next_rig.h"
#include "tests/options_rig.h"

#define PREPARE "rm -rf data && ./train_slm prepare --input text.txt --split-at line --vocabulary 300 --output data "
#define TRAIN                                                                                                          \
    "rm -rf run && ./train_slm --data prepared --layers 1 --d-model 32 --heads 2 --context 32 -b 4 --max-steps 3 "     \
    "--threads 1 --output-dir run $OPTION >log && cksum run/last/model.safetensors"
#define GENERATE "./train_slm generate --checkpoint trained --prompt 'Text <|endoftext|>has' --threads 1 $OPTION 2>log"

static int open_data(void **state) {
    next_open(state);
    next_must_run(
        "data", "for i in $(seq 60); do echo \"Text $i has some words and a number $((i * 37 % 61)).\"; done >text.txt "
                "&& echo short >>text.txt && ./train_slm prepare --input text.txt --split-at line --vocabulary 300 "
                "--output prepared && ./train_slm --data prepared --layers 1 --d-model 32 --heads 2 --context 32 "
                "-b 4 --max-steps 3 --threads 1 --output-dir trained");
    return 0;
}

TEST(options_reach_what_they_are_for) {
    static const OptionUse uses[] = {
        {"--min-characters 10", PREPARE "$OPTION >log && cat data/train*.safetensors | cksum"},
        {"--beta1 0.5", TRAIN},
        {"--beta2 0.5", TRAIN},
        {"--scaled-init", TRAIN},
        {"--repetition-penalty 9", GENERATE},
        {"--special-tokens", GENERATE},
    };
    options_check_uses(uses, sizeof uses / sizeof *uses);
}

int main(void) { return tests_run(open_data, NULL); }
