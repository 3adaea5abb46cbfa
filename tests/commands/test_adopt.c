/* Options that a checkpoint decides. */
#include "commands/adopt.h"
#include "tests/test.h"

typedef struct {
    int64_t layers, width;
} Sizes;

static const OptionRow rows[] = {
    {.name = "layers", .type = OPTION_INT, .offset = offsetof(Sizes, layers), .default_value = "1", .min = 1, .max = 9},
    {.name = "width", .type = OPTION_INT, .offset = offsetof(Sizes, width), .default_value = "8", .min = 1, .max = 99},
};
static const char *const names[] = {"layers", "width", NULL};

/* Adopts the options of a config.json, and prints what they are then. */
static void adopt(void *options) {
    Sizes sizes = {0};
    OptionSet set = {0};
    json_t *description = json_pack("{s:o}", "options", json_loads(options, 0, NULL));
    CheckpointOptions from = checkpoint_options_of(description, "run", names);
    options_add(&set, rows, 2, &sizes);
    checkpoint_options_adopt(&from, &set, NULL);
    printf("%lld %lld\n", (long long)sizes.layers, (long long)sizes.width);
    json_decref(from.options);
    json_decref(description);
}

/* Adopts after --layers 3, and prints the record of who gave what. */
static void adopt_and_record(void *options) {
    static const OptionsHeader header = {"toy", "", "", "Tests."};
    char *argv[] = {"toy", "--layers", "3"};
    Sizes sizes = {0};
    OptionSet set = {0};
    json_t *description = json_pack("{s:o}", "options", json_loads(options, 0, NULL));
    CheckpointOptions from = checkpoint_options_of(description, "run", names);
    options_add(&set, rows, 2, &sizes);
    options_parse(&header, &set, 3, argv);
    checkpoint_options_adopt(&from, &set, NULL);
    json_t *record = options_record(&set);
    puts(keep(json_dumps(record, JSON_COMPACT | JSON_SORT_KEYS)));
    json_decref(record);
    json_decref(from.options);
    json_decref(description);
}

static char output[1024];

TEST(what_is_adopted_is_printed_on_a_line) {
    assert_int_equal(run_function(output, sizeof output, adopt, "{\"layers\": 3, \"width\": 64}"), 0);
    assert_string_equal(output, "[Model] from its checkpoint: layers 3, width 64\n3 64\n");
    assert_int_equal(run_function(output, sizeof output, adopt, "{\"width\": 16}"), 0);
    assert_contains(output, "[Model] from its checkpoint: width 16\n");
}

TEST(what_is_adopted_does_not_count_as_given) {
    assert_int_equal(run_function(output, sizeof output, adopt_and_record, "{\"layers\": 3, \"width\": 64}"), 0);
    assert_contains(output, "{\"adopted\":[\"width\"],\"defaults\":{\"layers\":1,\"width\":8},\"given\":[\"layers\"],");
}

/* A value that cannot be adopted ends the program with its message alone. */
TEST(a_damaged_value_leaves_no_line_behind) {
    assert_int_equal(run_function(output, sizeof output, adopt, "{\"layers\": 3, \"width\": 100}"), 1);
    assert_contains(output, "the options in the config.json of run: ");
    assert_contains(output, "width");
    assert_null(strstr(output, "[Model]"));
}
