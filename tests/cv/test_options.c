/* train_cv: options reach what they are for. */
#include "tests/next_rig.h"
#include "tests/options_rig.h"

#define SYNTHESIZE                                                                                                     \
    "rm -rf made && ./train_cv synthesize --output made --cells 24 --donors 3 --bins 32 --side 7 $OPTION >log && "     \
    "find made -type f | sort | xargs cat | cksum"
#define TRAIN                                                                                                          \
    "rm -rf run && ./train_cv --data cells --channels 8,8,8 -b 4 --max-steps 3 --folds D1 --threads 1 "                \
    "--output-dir run $OPTION >log && find run -name model.safetensors | sort | xargs cat | cksum"

static int open_data(void **state) {
    next_open(state);
    next_must_run("data", "./train_cv synthesize --output cells --cells 48 --donors 3 --bins 32 --side 7");
    return 0;
}

TEST(options_reach_what_they_are_for) {
    static const OptionUse uses[] = {
        {"--separation 0", SYNTHESIZE},
        {"--confound-size 2", SYNTHESIZE},
        {"--filter-sigmas 1", "./train_cv doctor --data cells $OPTION | grep -F '[Filter]'"},
        {"--filter-sigmas 1", TRAIN},
        {"--dilated-footprint", TRAIN},
    };
    options_check_uses(uses, sizeof uses / sizeof *uses);
}

int main(void) { return tests_run(open_data, NULL); }
