/* train_cv: options reach what they are for. */
#include "tests/next_rig.h"
#include "tests/options_rig.h"

#define SYNTHESIZE                                                                                                     \
    "rm -rf made && ./train_cv synthesize --output made --cells 24 --donors 3 --bins 32 --side 7 $OPTION >log && "     \
    "find made -type f | sort | xargs cat | cksum"
#define TRAIN                                                                                                          \
    "rm -rf run && ./train_cv --data cells --channels 8,8,8 -b 4 --max-steps 3 --folds D1 --threads 1 "                \
    "--output-dir run $OPTION >log && find run -name model.safetensors | sort | xargs cat | cksum"

static void open_data(void) {
    next_open();
    next_must_run("data", "./train_cv synthesize --output cells --cells 48 --donors 3 --bins 32 --side 7");
}

static void options_reach_what_they_are_for(void **state) {
    (void)state;
    static const OptionUse uses[] = {
        {"--separation 0", SYNTHESIZE},
        {"--confound-size 2", SYNTHESIZE},
        {"--filter-sigmas 1", "./train_cv doctor --data cells $OPTION | grep -F '[Filter]'"},
        {"--filter-sigmas 1", TRAIN},
        {"--dilated-footprint", TRAIN},
    };
    options_check_uses(uses, sizeof uses / sizeof *uses);
}

int main(void) {
    open_data();
    const struct CMUnitTest tests[] = {cmocka_unit_test(options_reach_what_they_are_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
