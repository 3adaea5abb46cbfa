#include "tests/options_rig.h"

#include "tests/next_rig.h"

void options_check_uses(const OptionUse *uses, int n) {
    for (int i = 0; i < n; i++) {
        char *printed[3];
        for (int k = 0; k < 3; k++) {
            setenv("OPTION", k == 2 ? uses[i].option : "", 1);
            next_must_run(uses[i].option, uses[i].command);
            printed[k] = keep(xstrdup(fixture.output));
        }
        if (strcmp(printed[0], printed[1]) != 0)
            fail_msg("%s: %s differs from run to run:\n%s\n%s", uses[i].option, uses[i].command, printed[0],
                     printed[1]);
        if (!strcmp(printed[0], printed[2])) fail_msg("%s changes nothing:\n%s", uses[i].option, printed[0]);
    }
    unsetenv("OPTION");
}
