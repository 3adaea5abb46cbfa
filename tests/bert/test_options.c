/* train_bert: options reach what they are for. */
#include "tests/next_rig.h"
#include "tests/options_rig.h"

TEST(options_reach_what_they_are_for) {
    static const OptionUse uses[] = {
        {"--noise 0", "rm -rf made && ./train_bert synthesize -o made --train 20 --valid 5 --test 5 --unlabelled 20 "
                      "$OPTION >log && cat made/* | cksum"},
    };
    options_check_uses(uses, sizeof uses / sizeof *uses);
}

int main(void) { return tests_run(next_open, NULL); }
