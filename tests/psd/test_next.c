/* The commands that train_psd prints as the next step run as printed, whatever the name of the folder. */
#include "tests/next_rig.h"

static void the_next_command_of_synthesize_reads_any_folder(void **state) {
    (void)state;
    for (int i = 0; i < NEXT_NAMES; i++) {
        char *make = next_synthesize("train_psd", "--sensors 1 --rows 3", next_names[i]);
        next_must_run(next_names[i], make);
        char *command = next_command("./train_psd");
        next_must_run(next_names[i], command);
        assert_contains(fixture.output, "data/manifest.csv");
        next_must_run(next_names[i], "rm -r data");
        free(command);
        free(make);
    }
}

/* Runs the printed command with options that make it quick. */
static void follow(const char *program, const char *options) {
    char *next = next_command(program), *command = xformat("%s%s", next, options);
    next_must_run(next, command);
    free(command);
    free(next);
}

/* From the recordings to predictions by nothing but the printed commands. */
static void each_command_names_the_next(void **state) {
    (void)state;
    char *make = next_synthesize("train_psd", "--sensors 2 --rows 30", "it's \"new\"");
    next_must_run("synthesize", make);
    follow("./train_psd prepare", "");
    follow("./train_psd run", " --size tiny --batch-size 64 --pretrain-epochs 1 --finetune-epochs 1");
    char *next = next_command("./train_psd predict"), *predict = next_with(next, "new_recordings", "it's \"new\"");
    next_must_run("predict", predict);
    assert_contains(fixture.output, "360 rows written to predictions.csv");
    next_must_run("again", "rm -r results");
    next_must_run("pretrain",
                  "./train_psd pretrain -m data/manifest.csv --split data/splits/by_file_seed42_frac1.0.json "
                  "-o \"it's pretrained\" --size tiny -b 64 --epochs 1");
    follow("./train_psd finetune", " -b 64 --epochs 1");
    follow("./train_psd evaluate", "");
    assert_contains(fixture.output, "[Report] written: results/evaluation/");
    free(predict);
    free(next);
    free(make);
}

int main(void) {
    next_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_command_of_synthesize_reads_any_folder),
                                       cmocka_unit_test(each_command_names_the_next)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
