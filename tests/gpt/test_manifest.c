/* Lines of manifests. */
#include <math.h>

#include "data/gpt/manifest.h"
#include "tests/test.h"

#define SINGLE_LINE                                                                                                    \
    "{\"id\":\"spk003_000917\",\"audio_path\":\"audio/spk003_000917.wav\",\"text\":\"ዛሬ ጥሩ ቀን "            \
    "ነው.\",\"speaker\":\"spk003\","                                                                                \
    "\"language\":\"am\",\"duration\":2.62,\"text_ids_path\":\"text_ids/17.npy\",\"text_len\":6,"                      \
    "\"codes_path\":\"codes/17.npy\",\"code_len\":130,\"condition_path\":\"condition/17.npy\",\"condition_len\":32,"   \
    "\"emo_vec_path\":\"emo_vec/17.npy\"}"
#define PAIRED_LINE                                                                                                        \
    "{\"id\":\"spk003_17__spk003_44\",\"speaker\":\"spk003\",\"prompt_id\":\"spk003_44\","                                 \
    "\"prompt_condition_path\":\"condition/44.npy\",\"prompt_condition_len\":32,"                                          \
    "\"prompt_emo_vec_path\":\"emo_vec/44.npy\",\"prompt_duration\":4.1,\"target_id\":\"spk003_17\","                      \
    "\"target_text\":\"ዛሬ ጥሩ ቀን ነው.\",\"target_text_ids_path\":\"text_ids/17.npy\",\"target_text_len\":6," \
    "\"target_codes_path\":\"codes/17.npy\",\"target_code_len\":130,\"target_emo_vec_path\":\"emo_vec/17.npy\"}"

/* `line` with its first `from` replaced. */
static char *changed(const char *line, const char *from, const char *to) {
    const char *at = strstr(line, from);
    assert_non_null(at);
    return kept_format("%.*s%s%s", (int)(at - line), line, to, at + strlen(from));
}

static ManifestRecord parse(const char *line) {
    ManifestRecord record;
    Error error;
    int column = 0;
    if (!manifest_parse_line(line, strlen(line), &record, &(int64_t){1}, &column, &error)) fail_msg("%s", error.text);
    return record;
}

static void expect_refused(const char *line, int column, const char *message) {
    ManifestRecord record;
    Error error = {.text = ""};
    int found = 0;
    assert_false(manifest_parse_line(line, strlen(line), &record, &(int64_t){1}, &found, &error));
    assert_null(record.json);
    assert_contains(error.text, message);
    assert_int_equal(found, column);
}

static void expect_changed_refused(const char *line, const char *from, const char *to, const char *message) {
    char *text = changed(line, from, to);
    expect_refused(text, 0, message);
}

/* Expects the lengths of both example lines, their text and codes, and these files of the prompt. */
static void expect_files(const ManifestRecord *r, const char *condition, const char *emotion) {
    assert_string_equal(r->text_ids_path, "text_ids/17.npy");
    assert_string_equal(r->codes_path, "codes/17.npy");
    assert_string_equal(r->condition_path, condition);
    assert_string_equal(r->emo_vec_path, emotion);
    assert_true(r->text_len == 6 && r->code_len == 130 && r->condition_len == 32);
}

TEST(fields_that_nobody_asked_for_are_not_judged) {
    char *more =
        changed(SINGLE_LINE, "{",
                "{\"mos\": NaN, \"hash\": 18446744073709551616, \"prompt_duration\": 1e999, \"note\": \"\\ud83d\", ");
    ManifestRecord r = parse(more);
    assert_string_equal(r.codes_path, "codes/17.npy");
    manifest_record_close(&r);
    free(more);
}

TEST(a_single_utterance_is_its_own_prompt) {
    ManifestRecord r = parse(SINGLE_LINE);
    assert_false(r.paired);
    assert_string_equal(r.id, "spk003_000917");
    assert_string_equal(r.target_id, "spk003_000917");
    expect_files(&r, "condition/17.npy", "emo_vec/17.npy");
    assert_string_equal(r.codes_key, "codes_path");
    assert_true(r.duration == 2.62);
    manifest_record_close(&r);
}

TEST(a_pair_takes_the_voice_of_the_prompt) {
    ManifestRecord r = parse(PAIRED_LINE);
    assert_true(r.paired);
    assert_string_equal(r.id, "spk003_17__spk003_44");
    assert_string_equal(r.target_id, "spk003_17");
    expect_files(&r, "condition/44.npy", "emo_vec/44.npy");
    assert_string_equal(r.emo_vec_key, "prompt_emo_vec_path");
    assert_true(isnan(r.duration)); /* prompt_duration is not the target's */
    assert_string_equal(r.prompt_id, "spk003_44");
    assert_true(r.prompt_duration == 4.1);
    manifest_record_close(&r);
}

/* Each row: a change to the pair, and whose emotion it then takes. */
TEST(an_empty_prompt_emotion_falls_back_to_the_target) {
    static const char *const to[] = {"\"prompt_emo_vec_path\":\"\"", "\"prompt_emo_vec_path\":null", "\"other\":\"\""};
    for (int i = 0; i < 3; i++) {
        char *line = changed(PAIRED_LINE, "\"prompt_emo_vec_path\":\"emo_vec/44.npy\"", to[i]);
        ManifestRecord r = parse(line);
        assert_string_equal(r.emo_vec_path, "emo_vec/17.npy");
        assert_string_equal(r.emo_vec_key, "target_emo_vec_path");
        manifest_record_close(&r);
        expect_changed_refused(line, "\"target_emo_vec_path\":\"emo_vec/17.npy\"", "\"x\":0",
                               "neither prompt_emo_vec_path nor target_emo_vec_path is given");
    }
}

TEST(optional_fields_have_their_defaults) {
    char *line = changed(SINGLE_LINE, "\"condition_len\":32,", ""), *less = changed(line, "\"duration\":2.62,", "");
    ManifestRecord r = parse(less);
    assert_true(r.condition_len == 32 && isnan(r.duration));
    manifest_record_close(&r);
    line = changed(SINGLE_LINE, "\"duration\":2.62", "\"duration\":null");
    r = parse(line);
    assert_true(isnan(r.duration));
    manifest_record_close(&r);
    line = changed(PAIRED_LINE, "\"prompt_duration\":4.1,", "\"target_duration\":2,");
    less = changed(line, "\"target_id\":\"spk003_17\",", "");
    r = parse(less);
    assert_true(r.duration == 2 && isnan(r.prompt_duration));
    assert_string_equal(r.target_id, "spk003_17__spk003_44");
    manifest_record_close(&r);
}

TEST(required_fields_are_named) {
    static const char *const single[] = {"id",       "text_ids_path",  "text_len",    "codes_path",
                                         "code_len", "condition_path", "emo_vec_path"};
    static const char *const paired[] = {"id", "target_text_ids_path", "target_text_len", "target_code_len"};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        char *key = kept_format("\"%s\":", single[i]), *message = kept_format("%s is missing", single[i]);
        expect_changed_refused(SINGLE_LINE, key, "\"x\":", message);
    }
    for (size_t i = 0; i < sizeof paired / sizeof *paired; i++) {
        char *key = kept_format("\"%s\":", paired[i]), *message = kept_format("%s is missing", paired[i]);
        expect_changed_refused(PAIRED_LINE, key, "\"x\":", message);
    }
    expect_changed_refused(PAIRED_LINE,
                           "\"prompt_condition_path\":", "\"x\":", "prompt_condition_path is missing: a pair has both");
    expect_changed_refused(PAIRED_LINE,
                           "\"target_codes_path\":", "\"x\":", "target_codes_path is missing: a pair has both");
}

TEST(wrong_values_are_named) {
    expect_changed_refused(SINGLE_LINE, "\"spk003_000917\"", "917", "id is an integer, expected a string");
    expect_changed_refused(SINGLE_LINE, "\"spk003_000917\"", "\"\"", "id is empty");
    expect_changed_refused(SINGLE_LINE, "\"codes/17.npy\"", "[]", "codes_path is a list, expected a string");
    expect_changed_refused(SINGLE_LINE, "\"text_len\":6", "\"text_len\":6.5", "text_len is a number, expected a count");
    expect_changed_refused(SINGLE_LINE, "\"text_len\":6", "\"text_len\":\"6\"",
                           "text_len is a string, expected a count");
    expect_changed_refused(SINGLE_LINE, "\"text_len\":6", "\"text_len\":-6", "text_len is -6, expected a count");
    expect_changed_refused(SINGLE_LINE, ":32", ":null", "condition_len is null, expected a count");
    expect_changed_refused(SINGLE_LINE, "2.62", "true", "duration is true, expected seconds");
    expect_changed_refused(SINGLE_LINE, "2.62", "-1", "duration is -1, expected seconds");
    expect_changed_refused(SINGLE_LINE, "2.62", "1e300", "duration is 1e+300, expected seconds");
    expect_changed_refused(PAIRED_LINE, "4.1", "true", "prompt_duration is true, expected seconds");
    expect_refused("[1, 2]", 0, "the line is a list, expected an object");
}

/* The column, in characters, is where the line goes wrong. */
TEST(invalid_json_is_reported_with_its_column) {
    expect_refused("{\"id\": }", 8, "invalid JSON: ");
    expect_refused("{'id': 1}", 2, "invalid JSON: ");
    expect_refused("{\"id\": 1", 9, "invalid JSON: ");
    expect_refused("{\"id\": 1} {}", 11, "invalid JSON: expected nothing behind the object");
    expect_refused("{\"ሰላም\": 1, \"id\": }", 18, "invalid JSON: "); /* characters, not bytes */
    expect_refused("{\"id\": Infinity}", 8, "invalid JSON: ");
    expect_refused("{\"ሰላም\": 1, \"id\": \"\xff\"}", 0, "byte 25 is not UTF-8; ");
    expect_refused("{\"id\": \"1\", \"id\": \"2\"}", 19, "invalid JSON: \"id\" is there twice");
    expect_refused("{\"id\": NaN}", 0, "id is missing");
    ManifestRecord record; /* in an array, of which column 7 has the record */
    Error error;
    int64_t line = 3;
    int column = 7;
    assert_false(manifest_parse_line("{\"id\": }", 8, &record, &line, &column, &error));
    assert_int_equal(column, 7 + 7);
    column = 7;
    assert_false(manifest_parse_line("{\"id\":\n }", 9, &record, &line, &column, &error));
    assert_int_equal(line, 4);
    assert_int_equal(column, 2);
    column = 7;
    assert_false(manifest_parse_line("{\"id\": NaN}", 11, &record, &line, &column, &error));
    assert_int_equal(column, 7); /* where the record begins */
}
