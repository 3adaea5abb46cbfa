/* The commands that train_bert prints as the next step run as printed, and know the columns of the training. */
#include "tests/next_rig.h"

#define TINY " --layers 1 --d-model 32 --heads 2 --d-ff 64 --max-len 32"

/* Runs the printed command with other options. */
static void follow(const char *program, const char *options) {
    char *next = next_command(program), *command = kept_format("%s%s", next, options);
    next_must_run(next, command);
}

/* From texts to an encoder, and from the encoder to a classifier, in folders whose names a shell would take apart. */
TEST(each_training_names_the_next_command) {
    next_must_run("tokenizer", "./train_bert tokenizer --learn 100 comments/unlabelled.txt -o \"it's a tokenizer\"");
    follow("./train_bert pretrain", TINY " --max-steps 2 --warmup-steps 1");
    char *next = next_command("./train_bert --data"), *train = next_with(next, "LABELLED.csv", "comments"),
         *quick = kept_format("%s --max-len 32 --epochs 1", train);
    assert_contains(next, " --base-checkpoint pretrained/");
    next_must_run("fine-tune", quick);
    char *predict = next_command("./train_bert predict"),
         *command = next_with(predict, "TEXTS.csv", "comments/test.csv");
    next_must_run("predict", command);
    assert_contains(fixture.output, "40 rows written to predictions.csv");
}

/* Other names of columns need not be typed again: the state of the checkpoint has them. */
TEST(predict_and_evaluate_know_the_columns_of_the_training) {
    next_must_run("rename", "mkdir named && for f in train valid test; do "
                            "sed '1s/text/said/;1s/label/verdict/' comments/$f.csv >named/$f.csv; done");
    next_must_run("train",
                  "./train_bert --data named --text-column said --label-column verdict --epochs 1 -o columns" TINY
                  " --tokenizer \"it's a tokenizer\"");
    next_must_run("predict", "./train_bert predict --checkpoint columns named/test.csv -o columns.csv");
    assert_contains(fixture.output, "[Model] from its training: text-column \"said\"\n");
    next_must_run("evaluate", "./train_bert evaluate --checkpoint columns --data named/test.csv -o evaluation");
    assert_contains(fixture.output, "[Model] from its training: text-column \"said\", label-column \"verdict\"\n");
    /* So do an export and an export of it. */
    next_must_run("export",
                  "./train_bert export --checkpoint columns -o hf && ./train_bert export --checkpoint hf -o hf2");
    next_must_run("evaluate", "./train_bert evaluate --checkpoint hf2 --data named/test.csv -o evaluation");
    assert_contains(fixture.output, "[Model] from its training: text-column \"said\", label-column \"verdict\"\n");
    next_must_run("given",
                  "./train_bert predict --checkpoint columns comments/test.csv --text-column text -o columns.csv");
    assert_null(strstr(fixture.output, "from its training"));
    next_must_run("other", "./train_bert predict --checkpoint columns comments/test.csv -o columns.csv 2>&1 || true");
    assert_contains(fixture.output,
                    "there is no column \"said\"; the columns are: text, label, kind (--text-column names another)");
}

static int synthesize(void **state) {
    next_open(state);
    next_must_run("synthesize",
                  "./train_bert synthesize --output comments --train 80 --valid 40 --test 40 --unlabelled 200");
    return 0;
}

int main(void) { return tests_run(synthesize, NULL); }
