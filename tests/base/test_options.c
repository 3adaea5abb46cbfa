/* The option table: every source of values, their order, and every message. */
#include "tests/test.h"

#include <unistd.h>

#include "base/file.h"
#include "base/options.h"
#include "base/options/built_in.h"

typedef struct {
    OptionSet set;
    bool amp;
    int64_t epochs, layers, frozen, seed, batch;
    double rate, clip;
    const char *output, *norm, *base;
    OptionList manifest, config;
} Table;

#define FIELD(name) offsetof(Table, name)

// clang-format off
static const OptionRow rows[] = {
    {.name = "manifest", .letter = 'm', .type = OPTION_LIST, .offset = FIELD(manifest), .metavar = "PATH", .later = true,
     .help = "training manifest"},
    {.name = "train-manifest", .type = OPTION_LIST, .offset = FIELD(manifest), .metavar = "PATH", .later = true,
     .help = "the same"},
    {.name = "config", .type = OPTION_LIST, .offset = FIELD(config), .metavar = "PATH",
     .help = "YAML file"},
    {.name = "output-dir", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .default_value = "out",
     .metavar = "DIR",
     .help = "where"},
    {.name = "base", .type = OPTION_TEXT, .offset = FIELD(base), .metavar = "PATH", .later = true,
     .help = "weights to start from"},
    {.name = "epochs", .letter = 'e', .type = OPTION_INT, .offset = FIELD(epochs), .default_value = "10", .min = 1,
     .max = 1e6, .metavar = "N",
     .help = "passes over the data, a sentence long enough that it has to be broken into two lines of the help"},
    {.name = "frozen-rows", .type = OPTION_INT, .offset = FIELD(frozen), .default_value = "-1", .min = -1, .max = 1e9,
     .metavar = "N",
     .help = "rows kept"},
    {.name = "seed", .letter = 's', .type = OPTION_INT, .offset = FIELD(seed), .metavar = "N", .required = true,
     .help = "of everything random"},
    {.name = "learning-rate", .type = OPTION_FLOAT, .offset = FIELD(rate), .default_value = "2e-5", .max = 10,
     .metavar = "X",
     .help = "peak"},
    {.name = "grad-clip", .type = OPTION_FLOAT, .offset = FIELD(clip), .default_value = "1.0", .min = -1, .max = 1e9,
     .metavar = "X",
     .help = "largest norm"},
    {.name = "loss-norm", .type = OPTION_CHOICE, .offset = FIELD(norm), .default_value = "micro",
     .metavar = "micro|batch",
     .help = "divisor"},
    {.name = "amp", .letter = 'a', .type = OPTION_FLAG, .offset = FIELD(amp), .default_value = "false",
     .help = "16 bit"},
    {.name = "batch-size", .letter = 'b', .type = OPTION_INT, .offset = FIELD(batch), .default_value = "8", .min = 1,
     .max = 64, .metavar = "N|auto",
     .help = "sequences"},
    {.name = "layers", .letter = 'L', .section = "gpt", .type = OPTION_INT, .offset = FIELD(layers),
     .default_value = "24", .min = 1, .max = 1000, .metavar = "N",
     .help = "blocks"},
};
// clang-format on
enum { N = sizeof rows / sizeof *rows };

static Table table_new(void) { return (Table){.output = "untouched"}; }

static void table_rows(Table *t) {
    t->set.count = 0;
    options_add(&t->set, rows, N, t);
}

static const OptionsHeader header = {"prog", "-m FILE", "-m a.jsonl -s 1", "Does something."};

/* Parses arguments that are given as one text, split at spaces. */
static void parse(Table *t, const char *arguments) {
    static char words[4096]; /* options point into this text */
    char *argv[160] = {"prog"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", arguments);
    for (char *word = strtok(words, " "); word && argc < 160; word = strtok(NULL, " ")) argv[argc++] = word;
    table_rows(t);
    options_parse(&header, &t->set, argc, argv);
}

static void parse_in_child(void *arguments) {
    Table t = table_new();
    parse(&t, arguments);
    printf("accepted\n");
}

/* Fails unless the command line is refused with exactly this line and exit status 2. */
static void refused(const char *arguments, const char *message) {
    char output[4096], want[1024];
    assert_int_equal(run_function(output, sizeof output, parse_in_child, (void *)arguments), 2);
    snprintf(want, sizeof want, "test_options: %s\ntest_options: see --help\n", message);
    assert_string_equal(output, want);
}

/* Fails unless the YAML text is refused with exactly this message. */
static void yaml_refused_bytes(const char *text, size_t size, const char *message) {
    static Table t;
    t = (Table){0};
    table_rows(&t);
    char *problems = options_apply_yaml(&t.set, text, size), *line = kept_format("%s\n", message);
    assert_non_null(problems);
    assert_string_equal(problems, line);
    free(problems);
    while (t.manifest.count) free((char *)t.manifest.text[--t.manifest.count]);
    if (t.output) free((char *)t.output);
    if (t.norm) free((char *)t.norm);
    if (t.base) free((char *)t.base);
}
static void yaml_refused(const char *text, const char *message) { yaml_refused_bytes(text, strlen(text), message); }

static char *yaml_file(const char *text) {
    char *directory = kept_folder(), *path = kept_path(directory, "config.yaml");
    write_text(path, "%s", text);
    return path;
}

/* Parses a configuration file with this text, and more arguments, into t. t must be static, as it keeps texts of the
 * file. */
static void parse_with_yaml(Table *t, const char *text, const char *arguments) {
    char *path = yaml_file(text), *line = kept_format("--config %s %s", path, arguments);
    parse(t, line);
}

/* Helps where a command divides an option into several, as --epochs into --pretrain-epochs and --finetune-epochs. */
TEST(an_unknown_option_names_those_that_end_alike) {
    refused("--rate 1", "unknown option --rate; did you mean --learning-rate?");
    refused("--size 1", "unknown option --size; did you mean --batch-size?");
    refused("--rows 1", "unknown option --rows; did you mean --frozen-rows?");
    refused("--atch-size 1", "unknown option --atch-size; did you mean --batch-size?"); /* none does: the nearest */
    refused("--manifest-of-all 1", "unknown option --manifest-of-all");
}

TEST(a_later_file_wins) {
    static Table t;
    char *first = yaml_file("epochs: 3\noutput-dir: first\nmanifest: [x, y]\nbase: b\n"),
         *second = yaml_file("output_dir: second\ntrain-manifest: z\n"),
         *line = kept_format("--config %s -s 1 --config %s --base mine", first, second);
    t = table_new();
    parse(&t, line);
    assert_int_equal(t.epochs, 3);
    assert_string_equal(t.output, "second");
    assert_int_equal(t.manifest.count, 1);
    assert_string_equal(t.manifest.text[0], "z");
    assert_string_equal(t.base, "mine");
}

/* ---- keys of other programs ---- */

static const OptionAlias aliases[] = {
    {"training", NULL, NULL, {NULL}},
    {"training", "lr", "learning-rate", {NULL}},
    {"encoder", "depth", "layers", {NULL}},
    {"data", "files", "manifest", {NULL}},
    {"data", "ghost", "no-such-option", {NULL}},
    {NULL, "precision", "amp", {"bf16-mixed", "true", "32", "false"}},
    {NULL, "norm", "loss-norm", {"mean", "batch", "sum", "micro"}},
    {NULL, "compile", NULL, {NULL}},
    {NULL, "half", "amp", {"true", "true", "false", ""}},
    {NULL, "smoothing", "no-such-option", {NULL}},
    {NULL, "smoothing", NULL, {"0", "", NULL, "nothing is smoothed here"}},
    {NULL, "shards", NULL, {"", "", NULL, "one card computes"}},
};

static void parse_with_aliases(void *yaml) {
    static Table t;
    char *path = yaml_file(yaml);
    char *argv[] = {"prog", "-s", "1", "--config", path};
    table_rows(&t);
    options_add_aliases(&t.set, aliases, sizeof aliases / sizeof *aliases);
    options_parse(&header, &t.set, 5, argv);
    printf("amp %d, rate %g, epochs %d, layers %d, norm %s, manifests %d\n", t.amp, t.rate, (int)t.epochs,
           (int)t.layers, t.norm, t.manifest.count);
}

TEST(keys_of_other_programs_are_mapped_and_named) {
    static const char *const refusals[][2] = {
        {"precision: 8", ":1: precision: expected bf16-mixed, 32, found '8'; it sets amp\n"},
        {"learning-rate: 1\ntraining: {lr: 2}", ":2: learning-rate is given twice, by this key and one before it\n"},
        {"training: {layers: 2}", ":1: layers: belongs into the section 'gpt:'\n"},
        {"training: {epoch: 2}", ":1: unknown key 'epoch' in section training"},
        {"training: 5", ":1: training is a section: expected keys and values in it\n"},
        {"data: {ghost: 5}", ":1: unknown key 'ghost' in section data"},
        {"lr: 5", ":1: unknown key 'lr'"},
        {"smoothing: 0.1", ":1: smoothing: expected 0, found '0.1'; nothing is smoothed here\n"},
        {"shards: zero", ":1: shards: is not supported: one card computes\n"},
    };
    char output[4096];
    assert_int_equal(run_function(output, sizeof output, parse_with_aliases,
                                  "precision: bf16-mixed\ncompile: true\nnorm: mean\n"
                                  "training: {lr: 0.5, epochs: 4}\nencoder: {depth: 3}\ndata: {files: [a, b]}\n"),
                     0);
    assert_contains(output,
                    "config.yaml: precision sets --amp to true, compile is not needed, norm sets --loss-norm to "
                    "batch, training.lr sets --learning-rate to 0.5, training.epochs sets --epochs to 4, "
                    "encoder.depth sets --layers to 3, data.files sets --manifest\n");
    assert_contains(output, "amp 1, rate 0.5, epochs 4, layers 3, norm batch, manifests 2\n");
    assert_int_equal(run_function(output, sizeof output, parse_with_aliases,
                                  "half: false\nprecision: bf16-mixed\nsmoothing: 0.0\nshards: []\nepochs: 3.0\n"),
                     0);
    assert_contains(output,
                    "config.yaml: half is not needed, precision sets --amp to true, smoothing is not needed, shards is "
                    "not needed\n");
    assert_contains(output, "amp 1, rate");
    assert_contains(output, "epochs 3,");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_int_equal(run_function(output, sizeof output, parse_with_aliases, (void *)refusals[i][0]), 2);
        assert_contains(output, refusals[i][1]);
    }
}

TEST(defaults_are_set) {
    Table t = table_new();
    t.layers = t.seed = 77;
    t.manifest.count = 5;
    t.base = "x";
    t.config.count = 3;
    parse(&t, "-s 1");
    assert_int_equal(t.epochs, 10);
    assert_int_equal(t.frozen, -1);
    assert_int_equal(t.layers, 24);
    assert_true(t.rate == 2e-5 && t.clip == 1.0);
    assert_string_equal(t.output, "out");
    assert_string_equal(t.norm, "micro");
    assert_int_equal(t.manifest.count, 0);
    assert_null(t.base);
    assert_int_equal(t.config.count, 0);
    assert_false(t.amp);
}

TEST(every_spelling_of_an_option_is_accepted) {
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

/* Words without a name are values of the option that takes them, wherever they stand; without one they are refused. */
TEST(words_may_be_values_of_one_option) {
    static const OptionRow words[] = {{.name = "data",
                                       .letter = 'd',
                                       .type = OPTION_LIST,
                                       .offset = FIELD(manifest),
                                       .metavar = "DIR",
                                       .positional = true,
                                       .help = "folders"},
                                      {.name = "amp", .type = OPTION_FLAG, .offset = FIELD(amp), .help = "16 bit"}};
    char *argv[] = {"prog", "a", "--amp", "-", "-d", "c", NULL};
    Table t = {0};
    t.set = options_parse_table(&header, words, 2, &t, 6, argv);
    assert_int_equal(t.manifest.count, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(t.manifest.text[i], ((const char *[]){"a", "-", "c"})[i]);
    assert_true(t.amp && options_given(&t.set, "data"));
    refused("-s 1 a", "unexpected argument 'a': an option is --name value, a flag --name or --name=false");
}

static void read_two_files(void *path) {
    static const OptionRow config[] = {
        {.name = "config", .type = OPTION_TEXT, .offset = FIELD(base), .metavar = "PATH", .help = "YAML file"}};
    char *argv[] = {"prog", "--config", path, "--config", path, NULL};
    Table t = {0};
    options_parse_table(&header, config, 1, &t, 5, argv);
}

TEST(a_command_of_one_file_refuses_a_second) {
    char *path = yaml_file(""), output[256];
    assert_int_equal(run_function(output, sizeof output, read_two_files, path), 2);
    assert_contains(output, "--config: this command reads one file");
}

TEST(options_know_whether_they_were_given) {
    static Table t;
    parse_with_yaml(&t, "gpt: {layers: 8}\n", "-s 1 -e 10");
    for (int i = 0; i < N; i++) {
        const char *name = t.set.options[i].row.name;
        bool want =
            !strcmp(name, "layers") || !strcmp(name, "seed") || !strcmp(name, "epochs") || !strcmp(name, "config");
        assert_int_equal(t.set.options[i].given, want);
    }
}

TEST(wrong_command_lines_are_refused) {
    refused("-s 1 --epoch 5", "unknown option --epoch; did you mean --epochs?");
    refused("-s 1 --x 5", "unknown option --x"); /* no name of one letter is near */
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
    refused("--config /nowhere/c.yaml -s 1", "--config /nowhere/c.yaml: cannot open: No such file or directory");
    refused("--config / -s 1", "--config /: is a folder, not a regular file");
}

/* Instead of those of configs/. The test's header names the program "prog". */
const BuiltInConfig built_in_configs[] = {
    {"small",
     "# A small run, with \"quotes\" and 1.5 \\\n# of everything: ./prog --config small\nepochs: 3\nbase: mine\n"},
    {"wrong", "# What no program accepts. ./prog -s 1\n\nepoch: 3\n"},
    {"other", "# Another's: ./prog other --config other\nepochs: 4\n"},
    {0}};

TEST(settings_in_the_program_have_names) {
    static Table t;
    t = table_new();
    parse(&t, "--config small -s 1");
    assert_int_equal(t.epochs, 3);
    assert_string_equal(t.base, "mine");
    free((char *)(uintptr_t)t.base);
    t = table_new();
    parse(&t, "--config small -s 1 -e 5");
    assert_int_equal(t.epochs, 5);
    free((char *)(uintptr_t)t.base);
    refused("--config wrong -s 1", "wrong:3: unknown key 'epoch'; did you mean 'epochs'?");
    refused("--config other -s 1",
            "--config other: these settings are not for prog; --config list prints those that are");
    refused("--config smal -s 1",
            "--config smal: cannot open: No such file or directory; did you mean the program's own "
            "settings 'small'?");
    refused("--config smal.yaml -s 1", "--config smal.yaml: cannot open: No such file or directory");
}

TEST(settings_in_the_program_are_listed) {
    char output[1000];
    assert_int_equal(run_function(output, sizeof output, parse_in_child, "--config list"), 0);
    assert_string_equal(output, "small                  A small run, with \"quotes\" and 1.5 \\ of everything\n"
                                "wrong                  What no program accepts\n");
}

TEST(a_file_comes_before_settings_of_its_name) {
    static Table t;
    char *directory = kept_folder(), here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(directory), 0);
    write_text("small", "epochs: 7\n");
    t = table_new();
    parse(&t, "--config small -s 1");
    assert_int_equal(t.epochs, 7);
    assert_int_equal(chdir(here), 0);
}

TEST(a_number_may_be_auto) {
    static Table t;
    parse(&t, "-s 1 -b auto");
    assert_int_equal(t.batch, OPTION_AUTO);
    assert_contains(keep(options_to_json(&t.set)), "\"batch-size\": \"auto\"");
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
    assert_contains(output, "\n| `-b`, `--batch-size N\\|auto` | 8 | 1 to 64 | sequences |\n");
}

TEST(a_list_has_at_most_64_entries) {
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

TEST(the_command_line_wins_over_the_file_over_the_default) {
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

TEST(a_list_on_the_command_line_replaces_that_of_the_file) {
    static Table t;
    parse_with_yaml(&t, "manifest: [one, two]\nseed: 1", "-m a --train-manifest b");
    assert_int_equal(t.manifest.count, 2);
    assert_string_equal(t.manifest.text[0], "a");
    assert_string_equal(t.manifest.text[1], "b");
    parse_with_yaml(&t, "manifest: one\nseed: 1", "--train-manifest b"); /* under its second name */
    assert_int_equal(t.manifest.count, 1);
    assert_string_equal(t.manifest.text[0], "b");
}

TEST(an_empty_file_and_null_keep_the_defaults) {
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

TEST(a_yaml_alias_stands_for_its_node) {
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

static void read_inputs(void *words) {
    static const OptionRow inputs[] = {
        {.name = "data",
         .type = OPTION_LIST,
         .offset = FIELD(manifest),
         .metavar = "DIR|PATH",
         .positional = true,
         .help = "data"},
        {.name = "weights",
         .type = OPTION_TEXT,
         .offset = FIELD(base),
         .metavar = "PATH",
         .later = true,
         .help = "weights"},
        {.name = "resume",
         .type = OPTION_TEXT,
         .offset = FIELD(output),
         .metavar = "auto|PATH",
         .later = true,
         .help = "a run"},
        {.name = "norm", .type = OPTION_TEXT, .offset = FIELD(norm), .metavar = "FILE", .help = "a file to write"}};
    char *argv[16] = {"prog"}, *text = words;
    int argc = 1;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    Table t = {0};
    options_parse_table(&header, inputs, 4, &t, argc, argv);
    printf("accepted");
}

/* All of them, so that a missing file is the first thing that is said. */
TEST(files_that_are_read_must_be_there) {
    char *here = kept_path(run_directory(), "here.jsonl"), output[1024];
    write_text(here, "x");
    char *good = kept_format("%s %s::am %s - --weights none --resume auto --norm none", here, here, run_directory());
    assert_int_equal(run_function(output, sizeof output, read_inputs, good), 0);
    assert_string_equal(output, "accepted");
    char *bad = kept_format("%s --data %s.gone::am %s", here, here, here);
    assert_int_equal(run_function(output, sizeof output, read_inputs, bad), 1);
    bad = kept_format("test_options: --data %s.gone::am: No such file or directory\n", here);
    assert_string_equal(output, bad);
}

/* Inputs are the options of type PATH, on the command line and in the file, with or without a label; not those of type
 * DIR. */
TEST(files_given_as_inputs_are_not_replaced) {
    const char *root = run_directory(), *const names[] = {"list.jsonl", "weights", "table.yaml", "out"};
    char *paths[4], *arguments, *yaml;
    Error error;
    for (int i = 0; i < 4; i++) {
        paths[i] = path_join(root, names[i]);
        write_text(paths[i], "seed: 1\n");
        assert_true(file_is_replaceable(paths[i], &error));
    }
    yaml = kept_format("base: %s\n", paths[1]);
    write_text(paths[2], "%s", yaml);
    arguments = kept_format("-s 1 -o %s -m %s::am --config %s", paths[3], paths[0], paths[2]);
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
}

TEST(wrong_yaml_files_are_refused) {
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

/* The wording is that of the YAML library; only the line number is ours. */
TEST(invalid_yaml_is_refused_with_its_line) {
    static const char *const texts[] = {"epochs: 1\n\tamp: true", "seed: 1\nepochs: *x", "seed: 1\nbase: \xff"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Table t = table_new();
        table_rows(&t);
        char *problems = options_apply_yaml(&t.set, texts[i], strlen(texts[i]));
        assert_non_null(problems);
        assert_memory_equal(problems, "line 2: not YAML: ", strlen("line 2: not YAML: "));
        free(problems);
    }
    char *problems = options_apply_yaml(&(OptionSet){0}, "[", 1);
    assert_non_null(problems);
    free(problems);
}

TEST(all_bad_keys_of_a_file_are_named) {
    yaml_refused("zzzzzzzz: 1\nepochs: 3\ngpt: {layers: x, qqqqqqqq: 2}\namp: maybe\n\"xxxxxxxx\\nyyyy\": 1",
                 "line 1: unknown key 'zzzzzzzz'\n"
                 "line 3: layers: expected an integer, found 'x'\n"
                 "line 3: unknown key 'qqqqqqqq' in section gpt\n"
                 "line 4: amp: expected true or false, found 'maybe'\n"
                 "line 5: unknown key 'xxxxxxxx yyyy'");
    char *path = yaml_file("zzzzzzzz: 1\n\nepochs: ten\n"), *arguments = kept_format("--config %s", path);
    char *message = kept_format(
        "%s:1: unknown key 'zzzzzzzz'\ntest_options: %s:3: epochs: expected an integer, found 'ten'", path, path);
    refused(arguments, message);
}

TEST(a_file_error_names_file_and_line) {
    char *path = yaml_file("amp: true\n\nepochs: ten\n"), *arguments = kept_format("--config %s", path);
    refused(arguments, kept_format("%s:3: epochs: expected an integer, found 'ten'", path));
}

/* Parses in a child under these COLUMNS. */
static void help_at(const char *columns, const char *arguments, char output[8192]) {
    setenv("COLUMNS", columns, 1);
    assert_int_equal(run_function(output, 8192, parse_in_child, (void *)arguments), 0);
    unsetenv("COLUMNS");
}

TEST(help_is_aligned_and_complete) {
    char output[8192], *line, *rest = output;
    help_at("100", "--epochs --bogus --help", output);
    assert_contains(output, "prog: Does something.\n\nusage:   ");
    assert_contains(output, "test_options -m FILE\nexample: ");
    assert_contains(output, "test_options -m a.jsonl -s 1\n\nOptions\n");
    assert_contains(output,
                    "\n  -e, --epochs N                  passes over the data, a sentence long enough that it has to "
                    "be\n                                  broken into two lines of the help [10; 1 to 1,000,000]\n");
    assert_contains(output, "\n      --loss-norm micro|batch     divisor [micro]\n");
    assert_contains(output, "\n  -a, --amp                       16 bit\n"); /* a flag that is off needs no default */
    assert_contains(output, "\n  -s, --seed N                    of everything random [required]\n");
    assert_contains(output, "\n  -L, --layers N                  blocks (in YAML under gpt:) [24; 1 to 1,000]\n");
    assert_contains(output, "\n      --frozen-rows N             rows kept [-1; -1 or more]\n");
    while ((line = strsep(&rest, "\n"))) assert_true(strlen(line) <= 100);
}

/* A range is a whole word, so that no line ends within it; lines end where the terminal does, 80 columns if unknown. */
TEST(help_fits_the_terminal) {
    static const char *const columns[] = {"60", "80", "120", "not a number", "400"};
    static const size_t widest[] = {60, 80, 120, 80, 120};
    for (int i = 0; i < 5; i++) {
        char output[8192], *line, *rest = output;
        size_t longest = 0;
        help_at(columns[i], "--help", output);
        assert_contains(output, " [10; 1 to 1,000,000]\n");
        while ((line = strsep(&rest, "\n"))) longest = strlen(line) > longest ? strlen(line) : longest;
        assert_true(longest <= widest[i] && longest > widest[i] * 3 / 4);
    }
}

static const OptionRow under_headings[] = {
    {.name = "first", .heading = "Data", .type = OPTION_INT, .usual = true, .metavar = "N", .help = "one"},
    {.name = "second", .type = OPTION_INT, .metavar = "N", .help = "two"},
    {.name = "third", .heading = "Files", .type = OPTION_INT, .metavar = "N", .help = "three", .required = true},
    {.name = "fourth", .heading = "Data", .type = OPTION_INT, .metavar = "N", .help = "four"},
};

/* Parses with the four options above, and ten more. */
static void parse_headings(void *arguments) {
    static OptionRow more[10];
    static int64_t values[14];
    static OptionSet set;
    char *argv[] = {"prog", arguments};
    for (int i = 0; i < 10; i++)
        more[i] = (OptionRow){
            .name = xformat("more-%d", i), .heading = "More", .type = OPTION_INT, .metavar = "N", .help = "more"};
    options_add(&set, under_headings, 4, values);
    options_add(&set, more, 10, values + 4);
    options_parse(&header, &set, 2, argv);
}

TEST(options_stand_under_their_headings) {
    char output[8192];
    assert_int_equal(run_function(output, sizeof output, parse_headings, "--help"), 0);
    assert_contains(output, "\nData\n      --first N             one\n      --second N            two\n"
                            "      --fourth N            four\n\nFiles\n      --third N             three [required]\n"
                            "\nMore\n      --more-0 N");
    assert_int_equal(run_function(output, sizeof output, parse_headings, "-h"),
                     0); /* the usual ones, and the required */
    assert_contains(output,
                    "\nData\n      --first N             one\n\nFiles\n      --third N             three [required]\n"
                    "\nAll 14 options: ");
    assert_contains(output, "test_options --help\n");
}

TEST(help_markdown_is_a_table) {
    char output[8192];
    assert_int_equal(run_function(output, sizeof output, parse_in_child, "--help-markdown"), 0);
    assert_contains(output, "| option | default | range | meaning |\n|---|---|---|---|\n"
                            "| `-m`, `--manifest PATH` |  |  | training manifest |\n");
    assert_contains(output, "\n| `--loss-norm micro\\|batch` | micro |  | divisor |\n");
    assert_contains(output, "\n| `-s`, `--seed N` | required |  | of everything random |\n");
    assert_contains(output, "\n| `-L`, `--layers N` | 24 | 1 to 1,000 | blocks (in YAML under `gpt:`) |\n");
}

TEST(the_record_is_json) {
    Table t = table_new();
    parse(&t, "-m a -m b\"\\ --epochs 5 --learning-rate 0.1 -s 9000000000000001");
    char *text = keep(options_to_json(&t.set));
    assert_string_equal(text, "{\n \"manifest\": [\n  \"a\",\n  \"b\\\"\\\\\"\n ],\n \"train-manifest\": [\n  \"a\",\n"
                              "  \"b\\\"\\\\\"\n ],\n \"config\": [],\n \"output-dir\": \"out\",\n \"base\": null,\n"
                              " \"epochs\": 5,\n \"frozen-rows\": -1,\n \"seed\": 9000000000000001,\n"
                              " \"learning-rate\": 0.10000000000000001,\n \"grad-clip\": 1.0,\n"
                              " \"loss-norm\": \"micro\",\n \"amp\": false,\n \"batch-size\": 8,\n \"layers\": 24\n}");
}

static void record_in_child(void *arguments) {
    Table t = table_new();
    parse(&t, arguments);
    free(options_to_json(&t.set));
}

/* Memory does not grow when a program parses many command lines. */
TEST(texts_of_a_file_are_freed) {
    Table t = table_new();
    char *path = yaml_file("output-dir: there\nloss-norm: batch\nmanifest: [a, b]\nseed: 1\n");
    char *argv[] = {"prog", "--config", path, "--base", "mine", "--loss-norm=micro", "-oh"};
    table_rows(&t);
    options_parse(&header, &t.set, 6, argv);
    assert_string_equal(t.output, "there");
    assert_int_equal(t.manifest.count, 2);
    options_free(&t.set, 6, argv);
    assert_true(!t.output && !t.manifest.count);
    assert_string_equal(t.base, "mine");
    assert_string_equal(t.norm, "micro");
    table_rows(&t);
    options_parse(&header, &t.set, 7, argv); /* frees no default */
    options_free(&t.set, 7, argv);
    assert_string_equal(t.output, "h");
}

/* A program changes rows in its own set only. */
TEST(a_program_overrides_and_removes_rows) {
    static const OptionOverride overrides[] = {
        {.name = "epochs", .default_value = "80", .min = 5},
        {.name = "output-dir", .help = "where it all goes"},
        {.name = "loss-norm", .default_value = "batch"},
    };
    static const char *const removed[] = {"amp", "config", "loss-norm", "layers", NULL};
    char output[8192];
    Table t = table_new();
    char *argv[] = {"prog", "-s", "1"};
    table_rows(&t);
    options_override(&t.set, overrides, 3);
    options_remove(&t.set, removed);
    options_parse(&header, &t.set, 3, argv);
    assert_int_equal(t.epochs, 80);
    assert_string_equal(t.output, "out");
    assert_int_equal(t.set.count, N - 4);
    assert_string_equal(t.norm, "batch"); /* a removed option has its default */
    assert_int_equal(t.layers, 24);
    assert_null(options_find(&t.set, "amp"));
    assert_string_equal(options_find(&t.set, "output-dir")->row.help, "where it all goes");
    assert_true(options_find(&t.set, "epochs")->row.min == 5);
    assert_true(options_given(&t.set, "seed") && !options_given(&t.set, "epochs") && !options_given(&t.set, "amp"));
    assert_int_equal(run_function(output, sizeof output, parse_in_child, "-s 1 -a"), 0); /* unchanged in the table */
}

TEST(an_option_is_found_by_its_value) {
    Table t = table_new();
    table_rows(&t);
    assert_string_equal(options_holding(&t.set, &t.manifest)->row.name, "manifest"); /* the first of its names */
    assert_string_equal(options_holding(&t.set, &t.layers)->row.name, "layers");
    assert_null(options_holding(&t.set, &t.set));
}

TEST(a_text_that_is_not_utf8_is_refused) {
    char output[1024];
    assert_int_equal(run_function(output, sizeof output, record_in_child, "-s 1 -o \xe9t\xe9"), 2);
    assert_contains(output, "--output-dir: the value is not valid UTF-8");
    assert_int_equal(run_function(output, sizeof output, record_in_child, "-s 1 -m \xe9t\xe9"), 2);
    assert_contains(output, "--manifest: the value is not valid UTF-8");
}
