/* Reads any bytes as the value of an option in the state.json of a checkpoint, for every type. The result is an error
 * or a value within its range. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

typedef struct {
    bool flag;
    int64_t integer, batch;
    double number;
    const char *text, *choice;
    OptionList list;
} Values;

#define FIELD(name) offsetof(Values, name)

// clang-format off
static const OptionRow rows[] = {
    {.name = "amp", .type = OPTION_FLAG, .offset = FIELD(flag)},
    {.name = "epochs", .type = OPTION_INT, .offset = FIELD(integer), .min = 1, .max = 100},
    {.name = "batch", .type = OPTION_INT, .offset = FIELD(batch), .min = 1, .max = 8, .metavar = "N|auto"},
    {.name = "lr", .type = OPTION_FLOAT, .offset = FIELD(number), .max = 10},
    {.name = "base", .type = OPTION_TEXT, .offset = FIELD(text), .metavar = "PATH"},
    {.name = "norm", .type = OPTION_CHOICE, .offset = FIELD(choice), .metavar = "micro|batch"},
    {.name = "m", .type = OPTION_LIST, .offset = FIELD(list)},
};
// clang-format on

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Values v = {.integer = 1, .batch = 1};
    OptionSet set = {0};
    options_add(&set, rows, sizeof rows / sizeof *rows, &v);
    json_t *value = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    for (int i = 0; value && i < set.count; i++) {
        Error error = {.text = ""};
        if (!option_from_json(&set.options[i], value, &error) && !error.text[0]) abort();
    }
    if (v.integer < 1 || v.integer > 100 || v.batch > 8 || v.list.count) abort();
    if (v.batch < 1 && v.batch != OPTION_AUTO) abort();
    if (!(v.number >= 0 && v.number <= 10) || (v.text && !*v.text)) abort();
    if (v.choice && strcmp(v.choice, "micro") && strcmp(v.choice, "batch")) abort();
    free((char *)v.text);
    free((char *)v.choice);
    json_decref(value);
    return 0;
}
