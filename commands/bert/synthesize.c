/* train_bert synthesize: comments to try the other commands on. */
#include "commands/bert/commands.h"

#include <stdio.h>

#include "base/options.h"
#include "commands/next.h"
#include "data/bert/synthetic.h"

typedef struct {
    const char *output;
    int64_t train, valid, test, unlabelled, seed;
    double noise;
} Options;

#define FIELD(name) offsetof(Options, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "DIR", .required = true,
     .help = "folder for train.csv, valid.csv, test.csv and unlabelled.txt"},
    {.name = "train", .type = OPTION_INT, .offset = FIELD(train), .default_value = "4000", .min = 1, .max = 1e6,
     .metavar = "N", .help = "labelled comments to train on"},
    {.name = "valid", .type = OPTION_INT, .offset = FIELD(valid), .default_value = "600", .min = 1, .max = 1e6,
     .metavar = "N", .help = "labelled comments to validate on: other patterns, and more words"},
    {.name = "test", .type = OPTION_INT, .offset = FIELD(test), .default_value = "1200", .min = 1, .max = 1e6,
     .metavar = "N", .help = "labelled comments to test on, with patterns of their own"},
    {.name = "unlabelled", .type = OPTION_INT, .offset = FIELD(unlabelled), .default_value = "12000", .min = 1,
     .max = 1e6, .metavar = "N", .help = "comments without label, to learn a tokenizer and to pretrain on"},
    {.name = "noise", .type = OPTION_FLOAT, .offset = FIELD(noise), .default_value = "1", .max = 2, .metavar = "X",
     .help = "carelessness of the writing: lost tone marks, short forms, repeated letters, emoji; 0: none"},
    {.name = "seed", .letter = 's', .type = OPTION_INT, .offset = FIELD(seed), .default_value = "42",
     .max = 4294967295, .metavar = "N", .help = "seed of everything random"},
};
// clang-format on

int bert_synthesize(int argc, char **argv) {
    static const OptionsHeader header = {"train_bert synthesize", "--output DIR [options]", "--output comments",
                                         "Writes Vietnamese comments, polite and rude, made up by a grammar."};
    Options o = {0};
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    const BertSynthetic wanted = {
        .rows = {o.train, o.valid, o.test, o.unlabelled}, .noise = o.noise, .seed = (uint64_t)o.seed};
    MUST(bert_synthetic_write(o.output, &wanted, &error));
    printf("[Synthetic] %s: %lld comments to train on, %lld to validate, %lld to test, %lld without label\n", o.output,
           (long long)o.train, (long long)o.valid, (long long)o.test, (long long)o.unlabelled);
    next_print("baselines %s", o.output);
    options_free(&set, argc, argv);
    return 0;
}
