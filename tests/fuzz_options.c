/* Any bytes as the value that a checkpoint's state.json gives an option, of every type: an error, or one within range.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool flag = false;
    int64_t integer = 1, batch = 1;
    double number = 0;
    const char *text = NULL, *choice = NULL;
    OptionList list = {.count = 0};
    const Option rows[] = {
        {.name = "amp", .type = OPTION_FLAG, .value = &flag},
        {.name = "epochs", .type = OPTION_INT, .value = &integer, .least = 1, .most = 100},
        {.name = "batch", .type = OPTION_INT, .value = &batch, .least = 1, .most = 8, .argument = "N|auto"},
        {.name = "lr", .type = OPTION_FLOAT, .value = &number, .least = 0, .most = 10},
        {.name = "base", .type = OPTION_TEXT, .value = &text, .argument = "PATH"},
        {.name = "norm", .type = OPTION_CHOICE, .value = &choice, .argument = "micro|batch"},
        {.name = "m", .type = OPTION_LIST, .value = &list},
    };
    json_t *value = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    for (size_t i = 0; value && i < sizeof rows / sizeof *rows; i++) {
        Error error = {.text = ""};
        if (!option_from_json(&rows[i], value, &error) && !error.text[0]) abort();
    }
    if (integer < 1 || integer > 100 || (batch < 1 && batch != OPTION_AUTO) || batch > 8 || list.count) abort();
    if (!(number >= 0 && number <= 10) || (text && !*text)) abort();
    if (choice && strcmp(choice, "micro") && strcmp(choice, "batch")) abort();
    free((char *)text);
    free((char *)choice);
    json_decref(value);
    return 0;
}
