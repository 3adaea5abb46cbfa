/* Any bytes as a configuration file: every type of option, with and without a section, and a second name for a list. */
#include <stdlib.h>
#include <string.h>

#include "train/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    OptionList list = {.count = 0};
    bool flag = false;
    int64_t integer = 0, layers = 0;
    double number = 0;
    const char *text = NULL, *choice = NULL;
    Option rows[] = {
        {.name = "m", .type = OPTION_LIST, .value = &list},
        {.name = "train-m", .type = OPTION_LIST, .value = &list},
        {.name = "amp", .type = OPTION_FLAG, .value = &flag},
        {.name = "epochs", .type = OPTION_INT, .value = &integer, .least = 1, .most = 100},
        {.name = "lr", .type = OPTION_FLOAT, .value = &number, .least = 0, .most = 10},
        {.name = "base", .type = OPTION_TEXT, .value = &text},
        {.name = "norm", .type = OPTION_CHOICE, .value = &choice, .argument = "micro|batch"},
        {.name = "config", .type = OPTION_TEXT, .value = &text},
        {.name = "layers", .section = "gpt", .type = OPTION_INT, .value = &layers},
    };
    Error error = {.text = ""};
    bool fine = options_apply_yaml(rows, sizeof rows / sizeof *rows, (const char *)data, size, &error);
    /* Whatever comes in: either an error with its line, or values within their ranges. */
    if (fine ? (rows[3].given && integer && (integer < 1 || integer > 100)) || !(number >= 0 && number <= 10) ||
                   list.count < 0 || list.count > 64
             : strncmp(error.text, "line ", 5) != 0)
        abort();
    while (list.count) free((char *)list.text[--list.count]);
    free((char *)text);
    free((char *)choice);
    return 0;
}
