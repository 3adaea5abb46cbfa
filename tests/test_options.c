/* The option table: each source, their order, and every message. */
#include "tests/helpers.h"

#include <unistd.h>

#include "base/file.h"
#include "train/options.h"

enum { N = 14 };

typedef struct {
    Option rows[N];
    bool amp;
    int64_t epochs, layers, frozen, seed, batch;
    double rate, clip;
    const char *output, *norm, *config, *base;
    OptionList manifest;
} Table;

static Table table_new(void) { return (Table){.output = "untouched"}; }

static void table_rows(Table *t) {
    const Option rows[N] = {
        {"manifest", 'm', NULL, OPTION_LIST, &t->manifest, NULL, 0, 0, "PATH", "training manifest", false, false},
        {"train-manifest", 0, NULL, OPTION_LIST, &t->manifest, NULL, 0, 0, "PATH", "the same", false, false},
        {"config", 0, NULL, OPTION_TEXT, &t->config, NULL, 0, 0, "PATH", "YAML file", false, false},
        {"output-dir", 'o', NULL, OPTION_TEXT, &t->output, "out", 0, 0, "DIR", "where", false, false},
        {"base", 0, NULL, OPTION_TEXT, &t->base, NULL, 0, 0, "PATH", "weights to start from", false, false},
        {"epochs", 'e', NULL, OPTION_INT, &t->epochs, "10", 1, 1e6, "N",
         "passes over the data, a sentence long enough that it has to be broken into two lines of the help", false,
         false},
        {"frozen-rows", 0, NULL, OPTION_INT, &t->frozen, "-1", -1, 1e9, "N", "rows kept", false, false},
        {"seed", 's', NULL, OPTION_INT, &t->seed, NULL, 0, 0, "N", "of everything random", true, false},
        {"learning-rate", 0, NULL, OPTION_FLOAT, &t->rate, "2e-5", 0, 10, "X", "peak", false, false},
        {"grad-clip", 0, NULL, OPTION_FLOAT, &t->clip, "1.0", -1, 1e9, "X", "largest norm", false, false},
        {"loss-norm", 0, NULL, OPTION_CHOICE, &t->norm, "micro", 0, 0, "micro|batch", "divisor", false, false},
        {"amp", 'a', NULL, OPTION_FLAG, &t->amp, "false", 0, 0, NULL, "16 bit", false, false},
        {"batch-size", 'b', NULL, OPTION_INT, &t->batch, "8", 1, 64, "N|auto", "sequences", false, false},
        {"layers", 'L', "gpt", OPTION_INT, &t->layers, "24", 1, 1000, "N", "blocks", false, false},
    };
    memcpy(t->rows, rows, sizeof rows);
}

static const OptionsHeader header = {"prog", "./prog -m FILE", "Does something."};

/* argv as one text, split at spaces. */
static void parse(Table *t, const char *arguments) {
    static char words[4096]; /* options point into it */
    char *argv[160] = {"prog"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", arguments);
    for (char *word = strtok(words, " "); word && argc < 160; word = strtok(NULL, " ")) argv[argc++] = word;
    table_rows(t);
    options_parse(&header, t->rows, N, argc, argv);
}

static void parse_in_child(void *arguments) {
    Table t = table_new();
    parse(&t, arguments);
    printf("accepted\n");
}

/* The command line is refused with exactly this line; exit 2. */
static void refused(const char *arguments, const char *message) {
    char output[4096], want[1024];
    assert_int_equal(run_function(output, sizeof output, parse_in_child, (void *)arguments), 2);
    snprintf(want, sizeof want, "test_options: %s\ntest_options: see --help\n", message);
    assert_string_equal(output, want);
}

/* The YAML text is refused with exactly this message. */
static void yaml_refused_bytes(const char *text, size_t size, const char *message) {
    static Table t;
    Error error;
    t = (Table){0};
    table_rows(&t);
    assert_false(options_apply_yaml(t.rows, N, text, size, &error));
    assert_string_equal(error.text, message);
    while (t.manifest.count) free((char *)t.manifest.text[--t.manifest.count]);
    if (t.output) free((char *)t.output);
    if (t.norm) free((char *)t.norm);
    if (t.base) free((char *)t.base);
}
static void yaml_refused(const char *text, const char *message) { yaml_refused_bytes(text, strlen(text), message); }

static char *yaml_file(const char *text) {
    char *directory = scratch_directory(), *path = path_join(directory, "config.yaml");
    write_text(path, "%s", text);
    free(directory);
    return path;
}

/* Parses "--config FILE with text" and more arguments into t. The file's texts live on: t must be static. */
static void parse_with_yaml(Table *t, const char *text, const char *arguments) {
    char *path = yaml_file(text), *line = xformat("--config %s %s", path, arguments);
    parse(t, line);
    free(line);
    free(path);
}

static void defaults_are_set(void **state) {
    (void)state;
    Table t = table_new();
    t.layers = t.seed = 77;
    t.manifest.count = 5;
    t.base = t.config = "x";
    parse(&t, "-s 1");
    assert_int_equal(t.epochs, 10);
    assert_int_equal(t.frozen, -1);
    assert_int_equal(t.layers, 24);
    assert_true(t.rate == 2e-5 && t.clip == 1.0);
    assert_string_equal(t.output, "out");
    assert_string_equal(t.norm, "micro");
    assert_int_equal(t.manifest.count, 0);
    assert_null(t.base);
    assert_null(t.config);
    assert_false(t.amp);
}

static void every_spelling_of_the_command_line(void **state) {
    (void)state;
    Table t = table_new();
    parse(&t, "-m a -mb --manifest c --train-manifest=d -e8 --layers=6 -L 7 -s -3 --learning_rate 1e-5 --grad-clip -.5 "
              "--loss-norm batch --amp --output-dir=-odd=name --base -");
    assert_int_equal(t.manifest.count, 4);
    assert_string_equal(t.manifest.text[0], "a");
    assert_string_equal(t.manifest.text[1], "b");
    assert_string_equal(t.manifest.text[2], "c");
    assert_string_equal(t.manifest.text[3], "d");
    assert_int_equal(t.epochs, 8);
    assert_int_equal(t.layers, 7); /* the last one wins */
    assert_int_equal(t.seed, -3);
    assert_true(t.rate == 1e-5 && t.clip == -0.5);
    assert_string_equal(t.norm, "batch");
    assert_true(t.amp);
    assert_string_equal(t.output, "-odd=name");
    assert_string_equal(t.base, "-");
    parse(&t, "-s 1 --amp --amp=false");
    assert_false(t.amp);
    parse(&t, "-s 1 -a");
    assert_true(t.amp);
}

static void given_says_what_was_given(void **state) {
    (void)state;
    static Table t;
    parse_with_yaml(&t, "gpt: {layers: 8}\n", "-s 1 -e 10");
    for (int i = 0; i < N; i++) {
        const char *name = t.rows[i].name;
        bool want =
            !strcmp(name, "layers") || !strcmp(name, "seed") || !strcmp(name, "epochs") || !strcmp(name, "config");
        assert_int_equal(t.rows[i].given, want);
    }
}

static void wrong_command_lines_are_refused(void **state) {
    (void)state;
    refused("-s 1 --epoch 5", "unknown option --epoch; did you mean --epochs?");
    refused("-s 1 --zzzzzzzzzzzz 5", "unknown option --zzzzzzzzzzzz");
    refused("-s 1 -x 5", "unknown option -x");
    refused("-s 1 five", "unexpected argument 'five': an option is --name value, a flag --name or --name=false");
    refused("-s 1 --amp false",
            "unexpected argument 'false': an option is --name value, a flag --name or --name=false");
    refused("-s 1 --", "unexpected argument '--': an option is --name value, a flag --name or --name=false");
    refused("-s 1 --amp=yes", "--amp: expected true or false, found 'yes'");
    refused("-s 1 --epochs", "--epochs needs a value: --epochs N");
    refused("--output-dir --amp -s 1", "--output-dir needs a value: --output-dir DIR");
    refused("-s 1 -o -e 5", "--output-dir needs a value: --output-dir DIR");
    refused("-s 1 --epochs ten", "--epochs: expected an integer, found 'ten'");
    refused("-s 1 --epochs=", "--epochs: expected an integer, found ''");
    refused("-s 1 --epochs 1e3", "--epochs: expected an integer, found '1e3'");
    refused("-s 1 --epochs 1_000", "--epochs: expected an integer, found '1_000'");
    refused("-s 1 --epochs 0x10", "--epochs: expected an integer, found '0x10'");
    refused("-s 99999999999999999999", "--seed: expected an integer, found '99999999999999999999'");
    refused("-s 1 --learning-rate fast", "--learning-rate: expected a number, found 'fast'");
    refused("-s 1 --learning-rate nan", "--learning-rate: expected a number, found 'nan'");
    refused("-s 1 --learning-rate inf", "--learning-rate: expected a number, found 'inf'");
    refused("-s 1 --learning-rate 1e999", "--learning-rate: expected a number, found '1e999'");
    refused("-s 1 --learning-rate 0x1p3", "--learning-rate: expected a number, found '0x1p3'");
    refused("-s 1 --epochs 0", "--epochs: expected 1 to 1000000, found 0");
    refused("-s 1 --epochs 1000001", "--epochs: expected 1 to 1000000, found 1000001");
    refused("-s 1 --learning-rate -1e-5", "--learning-rate: expected 0 to 10, found -1e-5");
    refused("-s 1 --loss-norm mic", "--loss-norm: expected micro|batch, found 'mic'");
    refused("-s 1 --output-dir=", "--output-dir: expected a name, found none");
    refused("-s 1 -m a --manifest=", "--manifest: expected a name, found none");
    refused("-s 1 --loss-norm micro|batch", "--loss-norm: expected micro|batch, found 'micro|batch'");
    refused("-s 1 --loss-norm=", "--loss-norm: expected micro|batch, found ''");
    refused("-e 5", "--seed is missing: of everything random");
    refused("--config a --config b -s 1", "--config is given twice");
    refused("--config /nowhere/c.yaml -s 1", "--config /nowhere/c.yaml: cannot open: No such file or directory");
    refused("--config / -s 1", "--config /: is a folder, not a regular file");
}

static void a_number_may_be_left_to_the_program(void **state) {
    (void)state;
    static Table t;
    parse(&t, "-s 1 -b auto");
    assert_int_equal(t.batch, OPTION_AUTO);
    char *text = options_to_json(t.rows, N);
    assert_contains(text, "\"batch-size\": \"auto\"");
    free(text);
    parse(&t, "-s 1 -b auto --batch-size=4");
    assert_int_equal(t.batch, 4);
    parse_with_yaml(&t, "batch-size: auto", "-s 1");
    assert_int_equal(t.batch, OPTION_AUTO);
    refused("-s 1 -b Auto", "--batch-size: expected a whole number or auto, found 'Auto'");
    refused("-s 1 -b=-1", "--batch-size: expected a whole number or auto, found '=-1'");
    refused("-s 1 --batch-size=-1", "--batch-size: expected 1 to 64, found -1");
    refused("-s 1 --epochs auto", "--epochs: expected an integer, found 'auto'");
    yaml_refused("batch-size: automatic", "line 1: batch-size: expected a whole number or auto, found 'automatic'");
    char output[8192];
    assert_int_equal(run_function(output, sizeof output, parse_in_child, "--help-markdown"), 0);
    assert_contains(output, "\n| `-b`, `--batch-size N\\|auto` | 8 | sequences |\n");
}

static void a_list_is_limited(void **state) {
    (void)state;
    char arguments[1024] = "-s 1";
    for (int i = 0; i < 65; i++) strcat(arguments, " -m x");
    refused(arguments, "--manifest: more than 64 entries");
    arguments[strlen(arguments) - strlen(" -m x")] = 0;
    Table t = table_new();
    parse(&t, arguments);
    assert_int_equal(t.manifest.count, 64);
    char yaml[1024] = "manifest: [x";
    for (int i = 0; i < 64; i++) strcat(yaml, ", x");
    strcat(yaml, "]");
    yaml_refused(yaml, "line 1: manifest: more than 64 entries");
}

static void the_command_line_wins_over_the_file_over_the_default(void **state) {
    (void)state;
    static Table t;
    parse_with_yaml(&t,
                    "# a comment\nepochs: 3\nlearning_rate: 5e-5\namp: true\nloss-norm: batch\noutput_dir: from file\n"
                    "manifest:\n  - one\n  - two\ngpt:\n  layers: 8\nseed: -12\nbase: b\n",
                    "--epochs 4 -o here");
    assert_int_equal(t.epochs, 4);
    assert_true(t.rate == 5e-5 && t.clip == 1.0);
    assert_true(t.amp);
    assert_string_equal(t.norm, "batch");
    assert_string_equal(t.output, "here");
    assert_string_equal(t.base, "b");
    assert_int_equal(t.manifest.count, 2);
    assert_string_equal(t.manifest.text[1], "two");
    assert_int_equal(t.layers, 8);
    assert_int_equal(t.seed, -12);
}

static void a_list_of_the_command_line_replaces_the_files(void **state) {
    (void)state;
    static Table t;
    parse_with_yaml(&t, "manifest: [one, two]\nseed: 1", "-m a --train-manifest b");
    assert_int_equal(t.manifest.count, 2);
    assert_string_equal(t.manifest.text[0], "a");
    assert_string_equal(t.manifest.text[1], "b");
    parse_with_yaml(&t, "manifest: one\nseed: 1", "--train-manifest b"); /* under its other name */
    assert_int_equal(t.manifest.count, 1);
    assert_string_equal(t.manifest.text[0], "b");
}

static void an_empty_file_and_null_keep_the_defaults(void **state) {
    (void)state;
    static Table t;
    static const char *const files[] = {"", "\n# nothing\n", "---\n", "~",
                                        "epochs:\ngpt:\noutput-dir: null\nbase: ~\n"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        parse_with_yaml(&t, files[i], "-s 1");
        assert_int_equal(t.epochs, 10);
        assert_string_equal(t.output, "out");
        assert_null(t.base);
    }
    parse_with_yaml(&t, "base: 'null'\nseed: 1", ""); /* quoted, it is a text */
    assert_string_equal(t.base, "null");
}

static void an_alias_is_its_node(void **state) {
    (void)state;
    static Table t;
    parse_with_yaml(&t, "seed: &n 7\nepochs: *n\nmanifest: [&p x, *p]\n", "");
    assert_int_equal(t.epochs, 7);
    assert_int_equal(t.manifest.count, 2);
    assert_string_equal(t.manifest.text[1], "x");
    char *deep = xmalloc(100001), *anchors = xmalloc(1 << 20);
    memset(deep, '[', 100000);
    deep[100000] = 0;
    yaml_refused(deep, "line 1: nested deeper than 16: no configuration is");
    size_t n = 0;
    for (int i = 0; i < 300; i++) n += (size_t)sprintf(anchors + n, "- &a%d x\n", i);
    yaml_refused(anchors, "line 257: more than 256 anchors and aliases: no configuration has so many");
    free(deep);
    free(anchors);
    yaml_refused("gpt: &a {layers: *a}", "line 1: layers: expected a single value");
    yaml_refused("manifest: &a [*a]", "line 1: manifest: expected a single value");
}

/* PATH is what is read: of the command line and of the file, with or without a language; DIR is not. */
static void what_is_given_to_be_read_is_not_replaced(void **state) {
    (void)state;
    const char *root = run_directory(), *const names[] = {"list.jsonl", "weights", "table.yaml", "out"};
    char *paths[4], *arguments, *yaml;
    Error error;
    for (int i = 0; i < 4; i++) {
        paths[i] = path_join(root, names[i]);
        write_text(paths[i], "seed: 1\n");
        assert_true(file_is_replaceable(paths[i], &error));
    }
    yaml = xformat("base: %s\n", paths[1]);
    write_text(paths[2], "%s", yaml);
    arguments = xformat("-s 1 -o %s -m %s::am --config %s", paths[3], paths[0], paths[2]);
    Table t = table_new();
    parse(&t, arguments);
    const char *const options[] = {"--manifest", "--base", "--config"};
    for (int i = 0; i < 3; i++) {
        assert_false(file_is_replaceable(paths[i], &error));
        assert_contains(error.text, options[i]);
    }
    assert_true(file_is_replaceable(paths[3], &error));
    free((char *)t.base);
    for (int i = 0; i < 4; i++) free(paths[i]);
    free(arguments);
    free(yaml);
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    yaml_refused("amp: true\nepochs: ten\n", "line 2: epochs: expected an integer, found 'ten'");
    yaml_refused("\n\nlearning_rate: 11", "line 3: learning-rate: expected 0 to 10, found 11");
    yaml_refused("amp: yes", "line 1: amp: expected true or false, found 'yes'");
    yaml_refused("loss-norm: token", "line 1: loss-norm: expected micro|batch, found 'token'");
    yaml_refused("epochs: [1]", "line 1: epochs: expected a single value");
    yaml_refused("epochs: {a: 1}", "line 1: epochs: expected a single value");
    yaml_refused("epochs: \"1\\0\"", "line 1: epochs: expected a single value");
    yaml_refused("base: \"a\\0b\"", "line 1: base: expected a single value");
    yaml_refused("manifest: [a,\n [b]]", "line 2: manifest: expected a single value");
    yaml_refused("manifest: [a, ~]", "line 1: manifest: expected a single value");
    yaml_refused("seed: 1\ngrad_clp: 1", "line 2: unknown key 'grad_clp'; did you mean 'grad-clip'?");
    yaml_refused("zzzzzzzzzzzz: 1", "line 1: unknown key 'zzzzzzzzzzzz'");
    yaml_refused("gtpt: {layers: 8}", "line 1: unknown key 'gtpt'; did you mean 'gpt'?");
    yaml_refused("gpt:\n  layer: 8", "line 2: unknown key 'layer' in section gpt; did you mean 'layers'?");
    yaml_refused("layers: 8", "line 1: layers: belongs into the section 'gpt:'");
    yaml_refused("gpt: {epochs: 8}", "line 1: epochs: belongs to the top level, into no section");
    yaml_refused("gpt: 8", "line 1: gpt is a section: expected keys and values in it");
    yaml_refused("<<: {epochs: 8}", "line 1: unknown key '<<'");
    yaml_refused("epochs: 1\nepochs: 2", "line 2: epochs is given twice");
    yaml_refused("grad-clip: 1\ngrad_clip: 2", "line 2: grad_clip is given twice");
    yaml_refused("gpt: {layers: 1}\ngpt: {}", "line 2: gpt is given twice");
    yaml_refused("config: other.yaml", "line 1: config: a file cannot name another one");
    yaml_refused("[1]: 2", "line 1: a key must be a text");
    yaml_refused("- epochs", "line 1: expected keys and values");
    yaml_refused("epochs", "line 1: expected keys and values");
    yaml_refused("epochs: 1\n---\nepochs: 2", "line 3: a second document; one is expected");
}

/* The words are the YAML library's; the line is ours to get right. */
static void what_is_not_yaml_is_refused_with_its_line(void **state) {
    (void)state;
    static const char *const texts[] = {"epochs: 1\n\tamp: true", "seed: 1\nepochs: *x", "seed: 1\nbase: \xff"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Table t = table_new();
        Error error;
        table_rows(&t);
        assert_false(options_apply_yaml(t.rows, N, texts[i], strlen(texts[i]), &error));
        assert_memory_equal(error.text, "line 2: not YAML: ", strlen("line 2: not YAML: "));
    }
    assert_false(options_apply_yaml(NULL, 0, "[", 1, NULL));
}

static void a_file_error_names_file_and_line(void **state) {
    (void)state;
    char *path = yaml_file("amp: true\n\nepochs: ten\n"), *arguments = xformat("--config %s", path);
    char *message = xformat("%s:3: epochs: expected an integer, found 'ten'", path);
    refused(arguments, message);
    free(path);
    free(arguments);
    free(message);
}

static void help_is_aligned_and_complete(void **state) {
    (void)state;
    char output[8192], *line, *rest = output;
    assert_int_equal(run_function(output, sizeof output, parse_in_child, "--epochs --bogus --help"), 0);
    assert_contains(output, "prog: Does something.\n\nusage: ./prog -m FILE\n");
    assert_contains(output,
                    "\n  -e, --epochs N                  passes over the data, a sentence long enough that it has to "
                    "be\n                                  broken into two lines of the help [10]\n");
    assert_contains(output, "\n      --loss-norm micro|batch     divisor [micro]\n");
    assert_contains(output, "\n  -a, --amp                       16 bit [false]\n");
    assert_contains(output, "\n  -s, --seed N                    of everything random [required]\n");
    assert_contains(output, "\n\nin YAML under gpt:\n  -L, --layers N                  blocks [24]\n");
    while ((line = strsep(&rest, "\n"))) assert_true(strlen(line) <= 100);
}

static void help_markdown_is_a_table(void **state) {
    (void)state;
    char output[8192];
    assert_int_equal(run_function(output, sizeof output, parse_in_child, "--help-markdown"), 0);
    assert_contains(output, "| option | default | meaning |\n|---|---|---|\n"
                            "| `-m`, `--manifest PATH` |  | training manifest |\n");
    assert_contains(output, "\n| `--loss-norm micro\\|batch` | micro | divisor |\n");
    assert_contains(output, "\n| `-s`, `--seed N` | required | of everything random |\n");
    assert_contains(output, "\n| `-L`, `--layers N` | 24 | blocks (in YAML under `gpt:`) |\n");
}

static void the_record_is_json(void **state) {
    (void)state;
    Table t = table_new();
    parse(&t, "-m a -m b\"\\ --epochs 5 --learning-rate 0.1 -s 9000000000000001");
    char *text = options_to_json(t.rows, N);
    assert_string_equal(text, "{\n \"manifest\": [\n  \"a\",\n  \"b\\\"\\\\\"\n ],\n \"train-manifest\": [\n  \"a\",\n"
                              "  \"b\\\"\\\\\"\n ],\n \"config\": null,\n \"output-dir\": \"out\",\n \"base\": null,\n"
                              " \"epochs\": 5,\n \"frozen-rows\": -1,\n \"seed\": 9000000000000001,\n"
                              " \"learning-rate\": 0.10000000000000001,\n \"grad-clip\": 1.0,\n"
                              " \"loss-norm\": \"micro\",\n \"amp\": false,\n \"batch-size\": 8,\n \"layers\": 24\n}");
    free(text);
}

static void record_in_child(void *arguments) {
    Table t = table_new();
    parse(&t, arguments);
    free(options_to_json(t.rows, N));
}

/* A program that parses many command lines, one after the other, does not grow. */
static void texts_of_a_file_are_given_back(void **state) {
    (void)state;
    Table t = table_new();
    char *path = yaml_file("output-dir: there\nloss-norm: batch\nmanifest: [a, b]\nseed: 1\n");
    char *argv[] = {"prog", "--config", path, "--base", "mine", "--loss-norm=micro", "-oh"};
    table_rows(&t);
    options_parse(&header, t.rows, N, 6, argv);
    assert_string_equal(t.output, "there");
    assert_int_equal(t.manifest.count, 2);
    options_free(t.rows, N, 6, argv);
    assert_true(!t.output && !t.manifest.count);
    assert_string_equal(t.base, "mine");
    assert_string_equal(t.norm, "micro");
    table_rows(&t);
    options_parse(&header, t.rows, N, 7, argv); /* the default is nobody's */
    options_free(t.rows, N, 7, argv);
    assert_string_equal(t.output, "h");
    free(path);
}

static void a_text_that_is_not_utf8_is_refused(void **state) {
    (void)state;
    char output[1024];
    assert_int_equal(run_function(output, sizeof output, record_in_child, "-s 1 -o \xe9t\xe9"), 2);
    assert_contains(output, "--output-dir: the value is not valid UTF-8");
    assert_int_equal(run_function(output, sizeof output, record_in_child, "-s 1 -m \xe9t\xe9"), 2);
    assert_contains(output, "--manifest: the value is not valid UTF-8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_set),
        cmocka_unit_test(every_spelling_of_the_command_line),
        cmocka_unit_test(given_says_what_was_given),
        cmocka_unit_test(wrong_command_lines_are_refused),
        cmocka_unit_test(a_number_may_be_left_to_the_program),
        cmocka_unit_test(a_list_is_limited),
        cmocka_unit_test(the_command_line_wins_over_the_file_over_the_default),
        cmocka_unit_test(a_list_of_the_command_line_replaces_the_files),
        cmocka_unit_test(an_empty_file_and_null_keep_the_defaults),
        cmocka_unit_test(an_alias_is_its_node),
        cmocka_unit_test(what_is_given_to_be_read_is_not_replaced),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(what_is_not_yaml_is_refused_with_its_line),
        cmocka_unit_test(a_file_error_names_file_and_line),
        cmocka_unit_test(help_is_aligned_and_complete),
        cmocka_unit_test(help_markdown_is_a_table),
        cmocka_unit_test(the_record_is_json),
        cmocka_unit_test(texts_of_a_file_are_given_back),
        cmocka_unit_test(a_text_that_is_not_utf8_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
