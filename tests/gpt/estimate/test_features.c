/* train_gpt prepare --indextts2 DIR --estimate: the counted work, memory, time and price of computing features, of
 * recordings and of hours without any. */
#include "tests/estimate_rig.h"
#include "tests/sounds.h"

#define PREPARE "train_gpt prepare --indextts2 nowhere "

static const double hour = 3600;

/* The networks of the first card, in the order in which they compute. */
static const json_t *network(const json_t *root, size_t i) {
    return json_array_get(json_object_get(estimate_card(root), "networks"), i);
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

/* The products of recordings of 501 rows, by hand, in FLOP a second: 17 layers of 48.23 MFLOP a row, attention, and the
 * scores of distances; the codec's 44.2 MFLOP a row; two subsamplings of 272.6 MFLOP a row at 25 Hz, ten conformer
 * layers, two perceivers. Norms and functions of single numbers are 0.9 % of the codec's, less of the others'. */
TEST(a_second_of_speech_costs_what_its_products_do) {
    const double rows = 501 / 10.0;
    const double want[] = {rows * 17 * (48.23e6 + 4096 * 501.0 + 0.15e6), rows * 44.2e6,
                           2 * 25 * 272.6e6 + 1.37e9 + 0.70e9 + 0.36e9};
    json_t *root = estimate_parsed(PREPARE "--hours 20 --gpu l4");
    double passes = estimate_number(estimate_card(root), "passes"), sum = 0;
    estimate_expect("speech", estimate_number(root, "speech_seconds"), 20 * hour);
    estimate_expect("recordings", estimate_number(root, "recordings"), 7200);
    assert_true(json_is_true(json_object_get(root, "typical_data")));
    for (size_t i = 0; i < 3; i++) {
        double flops = passes * estimate_number(network(root, i), "flops");
        estimate_expect_near(text_of(network(root, i), "network"), flops / (20 * hour), want[i], 0.01);
        sum += flops;
    }
    estimate_expect_near("all", estimate_number(estimate_card(root), "flops"), sum, 1e-12);
    json_decref(root);
}

TEST(the_parts_add_up_to_the_whole) {
    json_t *root = estimate_parsed(PREPARE "--hours 20 --gpu l4 --num-workers 8 --price 2EUR"), *row;
    const json_t *card = estimate_card(root);
    double pass = 0, operations = 0, copy = 0;
    size_t i;
    for (i = 0; i < 3; i++) pass += estimate_number(network(root, i), "seconds");
    json_array_foreach(json_object_get(card, "operations"), i, row) operations += estimate_number(row, "seconds");
    estimate_expect_near("a pass", estimate_number(card, "pass_seconds"), pass, 1e-12);
    /* The input, 160 numbers a row, over PCIe. */
    copy = 7200 * 501.0 / estimate_number(card, "passes") * 160 * 4 / (0.8 * 31.5e9);
    estimate_expect_near("operations", operations, pass - copy, 1e-9);
    double computing = estimate_number(card, "passes") * pass;
    estimate_expect_near("networks", estimate_number(card, "computing_seconds"), computing, 1e-12);
    estimate_expect_near("measuring", estimate_number(card, "measuring_seconds"), 20 * hour / 1500 / 8, 1e-12);
    estimate_expect_near("all", estimate_number(card, "seconds"), 20 * hour / 1500 / 8 + computing, 1e-12);
    assert_true(estimate_number(card, "reading_seconds") < computing);
    assert_true(estimate_number(card, "floor_seconds") < computing);
    estimate_expect_near("cost", estimate_number(card, "cost"), 2 * estimate_number(card, "seconds") / hour, 1e-12);
    assert_string_equal(text_of(card, "currency"), "EUR");
    json_decref(root);
}

/* Without threads to read with, or a card that computes in no time, the recordings decide. */
TEST(what_bounds_the_run_is_told) {
    json_t *root = estimate_parsed(PREPARE "--hours 20 --gpu h200 --num-workers 1");
    assert_string_equal(text_of(estimate_card(root), "bound"), "reading");
    json_decref(root);
    root = estimate_parsed(PREPARE "--hours 20 --gpu l4 --num-workers 16");
    assert_string_equal(text_of(estimate_card(root), "bound"), "compute");
    json_decref(root);
}

static void expect_types(const char *options, const char *w2v, const char *conditioning) {
    json_t *root = estimate_parsed(kept_format(PREPARE "--hours 1 %s", options));
    assert_string_equal(text_of(network(root, 0), "type"), w2v);
    assert_string_equal(text_of(network(root, 1), "type"), w2v);
    assert_string_equal(text_of(network(root, 2), "type"), conditioning);
    json_decref(root);
}

TEST(products_have_the_types_that_a_run_has) {
    expect_types("--gpu l4", "TF32", "bf16");
    expect_types("--gpu l4 --no-half", "TF32", "TF32");
    expect_types("--gpu l4 --no-half --no-tf32", "f32", "f32");
    expect_types("--gpu t4", "f16", "f32");
}

/* 772,304,140 weights in f32 and, of the conditioning, 338,897,404 in bf16; besides, its tables of positions. */
TEST(memory_is_weights_and_a_pass) {
    json_t *root = estimate_parsed(PREPARE "--hours 1 --gpu l4");
    const json_t *card = estimate_card(root);
    const double weights = 772304140 * 4.0 + 338897404 * 2.0, tables = 10 * 1024 * 4.0 * (3 * 512 + 8);
    double got = estimate_number(card, "weight_bytes");
    assert_true(got > weights && got < weights + 1.05 * tables);
    assert_true(json_is_true(json_object_get(card, "fits")));
    double strip = 512 * 261632.0 * 2; /* the largest part of a pass */
    assert_true(estimate_number(card, "pass_bytes") > strip);
    json_decref(root);
}

/* A file of 2 s, one of 5 s whose list says 7, a part of 3 s, and one too short; no file is decoded. */
TEST(recordings_are_as_long_as_list_or_file_say) {
    char *folder = kept_folder(), *list = kept_path(folder, "list.csv");
    static const double seconds[] = {2, 5, 9, 0.5};
    for (int i = 0; i < 4; i++) {
        OWNED float *sine = make_sine(300, 0.5, 16000, 1, (int64_t)(16000 * seconds[i]));
        char *path = kept_path(folder, kept_format("%d.wav", i));
        write_sound(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, sine, (int64_t)(16000 * seconds[i]));
    }
    write_text(list, "audio,text,start,end,duration\n0.wav,a,,,\n1.wav,b,,,7\n2.wav,c,4,7,\n3.wav,d,,,\n");
    json_t *root = estimate_parsed(kept_format(PREPARE "--input %s --gpu l4", list));
    estimate_expect("recordings", estimate_number(root, "recordings"), 3);
    estimate_expect("left out", estimate_number(root, "left_out"), 1);
    estimate_expect_near("seconds", estimate_number(root, "speech_seconds"), 2 + 7 + 3, 1e-12);
    assert_true(json_is_false(json_object_get(root, "typical_data")));
    json_decref(root);
    write_text(list, "audio,text\n0.wav,a\nnowhere.wav,b\n");
    estimate_command(1, false, kept_format(PREPARE "--estimate --input %s --gpu l4", list));
    assert_contains(estimate_output, "nowhere.wav");
    assert_contains(estimate_output, "--duration-field");
    write_text(list, "audio,text\n3.wav,a\n");
    estimate_command(1, false, kept_format(PREPARE "--estimate --input %s --gpu l4", list));
    assert_contains(estimate_output, "no recording is left");
}

TEST(the_report_names_what_is_assumed) {
    estimate_command(0, false, PREPARE "--estimate --hours 200 --gpu l4 --price 0.80");
    static const char *const parts[] = {
        "[Estimate] l4 (L4), 22.5 GiB: products of w2v-BERT and the codec in TF32, of the conditioning in bf16\n",
        "[Estimate] 200 hours of speech in 72000 recordings of 10 s (--hours); passes: ",
        "; l4 has ",
        ": it fits, ",
        "\nconditioning     bf16 ",
        "\nlinear_forward ",
        " x real time, bound by compute: ",
        " USD at 0.80 USD an hour",
        "[Assumed] sustained: 47 % of the tensor cores' rate",
        "[Assumed] a core measures 1500 seconds of compressed recordings in a second",
        "[Estimate] not counted: ",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_contains(estimate_output, parts[i]);
    estimate_command(0, false, PREPARE "--estimate --hours 200 --price l4=0.80");
    assert_contains(estimate_output, "\nt4 ");
    assert_contains(estimate_output, "\nh200 ");
    assert_contains(estimate_output, " USD  fits: ");
}

TEST(options_of_estimates_are_refused_elsewhere) {
    static const struct {
        const char *arguments, *message;
    } wrong[] = {
        {"train_gpt prepare --estimate --hours 1", "--estimate is of the networks of --indextts2"},
        {PREPARE "--hours 1", "--hours belongs to --estimate"},
        {PREPARE "--input Makefile --output x --gpu l4", "--gpu belongs to --estimate"},
        {PREPARE "--estimate", "without them give --hours"},
        {PREPARE "--estimate --hours 1 --input Makefile", "--input and --hours exclude each other"},
        {PREPARE "--estimate --hours 1 --gpu l5", "did you mean 'l4'?"},
        {PREPARE "--estimate --hours 1 --price x", "--price: expected the price of an hour"},
        {"train_gpt prepare --output x", "--input is missing: the recordings"},
        {"train_gpt prepare --input Makefile", "--output is missing: directory for all output"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        estimate_command(2, false, wrong[i].arguments);
        assert_contains(estimate_output, wrong[i].message);
    }
}

int main(void) {
    setenv("XDG_CACHE_HOME", "/nonexistent", 1); /* hides the rates that were measured on this machine */
    return tests_run(NULL, NULL);
}
