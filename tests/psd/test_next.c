/* The commands that train_psd prints as the next step run as printed, whatever the name of the folder. */
#include "tests/next_rig.h"

TEST(the_next_command_of_synthesize_reads_any_folder) {
    for (int i = 0; i < NEXT_NAMES; i++) {
        char *make = next_synthesize("train_psd", "--sensors 1 --rows 3", next_names[i]);
        next_must_run(next_names[i], make);
        char *command = next_command("./train_psd");
        next_must_run(next_names[i], command);
        assert_contains(fixture.output, "prepared/manifest.csv");
        next_must_run(next_names[i], "rm -r prepared");
    }
}

/* Runs the printed command with options that make it quick. */
static void follow(const char *program, const char *options) {
    char *next = next_command(program), *command = kept_format("%s%s", next, options);
    next_must_run(next, command);
}

/* From the recordings to predictions by nothing but the printed commands, of too few rows for the usual batch. */
TEST(each_command_names_the_next) {
    char *make = next_synthesize("train_psd", "--sensors 2 --rows 30", "it's \"new\"");
    next_must_run("synthesize", make);
    follow("./train_psd prepare", "");
    follow("./train_psd run", " --size tiny --pretrain-epochs 1 --finetune-epochs 1");
    char *next = next_command("./train_psd predict"), *predict = next_with(next, "NEW_RECORDINGS", "it's \"new\"");
    next_must_run("predict", predict);
    assert_contains(fixture.output, "360 rows written to predictions.csv");
    next_must_run("again", "rm -r results");
    next_must_run("pretrain",
                  "./train_psd pretrain -m prepared/manifest.csv --split prepared/splits/by_file_seed42_frac1.0.json "
                  "-o \"it's pretrained\" --size tiny -b 64 --epochs 1");
    follow("./train_psd finetune", " -b 64 --epochs 1");
    follow("./train_psd evaluate", "");
    assert_contains(fixture.output, "[Report] written: results/evaluation/");
}

int main(void) { return tests_run(next_open, NULL); }
