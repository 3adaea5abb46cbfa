/* Reads any bytes as two configuration files, the later of which wins, divided at the first zero byte: for options of
 * every type, with and without a section, with a second name for a list, and with keys of other programs. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

typedef struct {
    OptionList list;
    bool flag;
    int64_t integer, layers;
    double number;
    const char *text, *choice;
} Values;

#define FIELD(name) offsetof(Values, name)

// clang-format off
static const OptionRow rows[] = {
    {.name = "m", .type = OPTION_LIST, .offset = FIELD(list)},
    {.name = "train-m", .type = OPTION_LIST, .offset = FIELD(list)},
    {.name = "amp", .type = OPTION_FLAG, .offset = FIELD(flag)},
    {.name = "epochs", .type = OPTION_INT, .offset = FIELD(integer), .min = 1, .max = 100},
    {.name = "lr", .type = OPTION_FLOAT, .offset = FIELD(number), .max = 10},
    {.name = "base", .type = OPTION_TEXT, .offset = FIELD(text)},
    {.name = "norm", .type = OPTION_CHOICE, .offset = FIELD(choice), .metavar = "micro|batch"},
    {.name = "config", .type = OPTION_TEXT, .offset = FIELD(text)},
    {.name = "layers", .section = "gpt", .type = OPTION_INT, .offset = FIELD(layers)},
};
// clang-format on

static const OptionAlias aliases[] = {{"training", "lr", "lr", {NULL}},
                                      {NULL, "precision", "amp", {"16-mixed", "true", "32", "false"}},
                                      {"training", "kind", "norm", {"a", "micro", "b", "batch"}},
                                      {"model", "weights", "base", {NULL}},
                                      {"model", "pin", NULL, {NULL}},
                                      {NULL, "tf32", "amp", {"true", "true", "false", ""}},
                                      {NULL, "shards", NULL, {"", "", NULL, "none"}},
                                      {"encoder", NULL, NULL, {NULL}}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Values v = {0};
    OptionSet set = {0};
    char *problems[2] = {NULL, NULL};
    const uint8_t *middle = memchr(data, 0, size);
    size_t first = middle ? (size_t)(middle - data) : size, rest = middle ? size - first - 1 : 0;
    options_add(&set, rows, sizeof rows / sizeof *rows, &v);
    options_add_aliases(&set, aliases, sizeof aliases / sizeof *aliases);
    problems[0] = options_apply_yaml(&set, (const char *)data, first);
    if (!problems[0] && middle) problems[1] = options_apply_yaml(&set, (const char *)middle + 1, rest);
    char *wrong = problems[0] ? problems[0] : problems[1];
    /* The result is an error with its line, or values within their ranges. */
    bool epochs = options_given(&set, "epochs") && v.integer;
    if (!wrong ? (epochs && (v.integer < 1 || v.integer > 100)) || !(v.number >= 0 && v.number <= 10) ||
                     v.list.count < 0 || v.list.count > 64
               : strncmp(wrong, "line ", 5) != 0 || wrong[strlen(wrong) - 1] != '\n')
        abort();
    free(wrong);
    free(set.mapped);
    while (v.list.count) free((char *)v.list.text[--v.list.count]);
    free((char *)v.text);
    free((char *)v.choice);
    return 0;
}
