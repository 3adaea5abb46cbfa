/* Trains the classifier of cells on several ranks with emulated cards that share its steps. */
#include "tests/cv/train_rig.h"
#include "tests/ranks_rig.h"

static RanksCase cv_fold = {.cards = true,
                            .most = 2,
                            .program = "train_cv",
                            .loss = "train/loss",
                            .whole_step = true,
                            .run = "fold_D1",
                            .validates = "--min-learning-rate 1e-13",
                            .noise = ".bias"};

static int open_case(void **state) {
    (void)state;
    int64_t written;
    heed_signals();
    char *cells = cv_make_cells(24, &written);
    cv_fold.options = kept_format("--data %s --channels 8,8,8 -b 2 --threads 1 --device cuda --no-tf32 --epochs 1000 "
                                  "--learning-rate 1e-4 --shift 2 --folds D1 --early-stopping-patience 0",
                                  cells);
    return 0;
}

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&cv_fold), CARDS_TESTS(&cv_fold)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
