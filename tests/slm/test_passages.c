/* Texts that a trained model writes: the command generate, the samples of a training, and the baselines beside them. */
#include "tests/edited_json.h"
#include "tests/slm/train_rig.h"

#include "base/json.h"

enum { TEXT = 4096 };

/* Runs `generate` on the reference run; stdout alone goes to `text`. */
static void must_generate(char *text, const char *options) {
    char *to = path_join(fixture.data, "../generated.txt");
    must_run("%s generate --checkpoint %s %s >%s 2>%s.log", fixture.program, fixture_reference_run(), options, to, to);
    char *all = read_text(to);
    assert_true(strlen(all) < TEXT);
    strcpy(text, all);
    free(all);
    free(to);
}

static void refuse(const char *expected, const char *options) {
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "%s generate --checkpoint %s %s 2>&1",
                                     fixture.program, fixture_reference_run(), options),
                         0);
    assert_contains(fixture.output, expected);
}

static void a_text_continues_its_prompt(void **state) {
    char a[TEXT], b[TEXT], c[TEXT];
    (void)state;
    must_generate(a, "--prompt 'Text 7: badelu' --max-tokens 12");
    assert_int_equal(strncmp(a, "Text 7: badelu", 14), 0);
    assert_true(strlen(a) > 15 && a[strlen(a) - 1] == '\n');
    must_generate(b, "--prompt 'Text 7: badelu' --max-tokens 12 --seed 1234");
    assert_string_equal(a, b);
    must_generate(c, "--prompt 'Text 7: badelu' --max-tokens 12 --seed 5");
    assert_string_not_equal(a, c);
    must_generate(b, "--prompt 'Text 7: badelu' --max-tokens 12 --greedy --seed 1");
    must_generate(c, "--prompt 'Text 7: badelu' --max-tokens 12 --temperature 0 --seed 2");
    assert_string_equal(b, c);
}

static void standard_input_gives_the_same_texts(void **state) {
    char a[TEXT], b[TEXT], options[512], *path = path_join(fixture.data, "../typed.txt");
    (void)state;
    write_text(path, "Text 7: badelu\n");
    snprintf(options, sizeof options, "--interactive --max-tokens 12 <%s", path);
    must_generate(a, "--prompt 'Text 7: badelu' --max-tokens 12");
    must_generate(b, options);
    assert_string_equal(a, b);
    free(path);
}

/* Reads line i of JSON Lines. */
static json_t *line_of(const char *text, int i) {
    for (; i; i--) text = strchr(text, '\n') + 1;
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(line);
    return line;
}

static void every_text_is_one_line_of_json(void **state) {
    char together[TEXT], alone[TEXT], text[64];
    (void)state;
    const char *prompts = "--prompt 'Text 1:' --prompt '' --number 2 --max-tokens 9 --json";
    snprintf(text, sizeof text, "%s", "Text 1:");
    must_generate(together, prompts);
    must_generate(alone, "--prompt 'Text 1:' --prompt '' --number 2 --max-tokens 9 --json -b 1");
    assert_string_equal(together, alone); /* what else is generated at the same time does not matter */
    for (int i = 0; i < 4; i++) {
        json_t *line = line_of(together, i);
        const char *prompt, *continuation, *end;
        int number, tokens;
        assert_int_equal(json_unpack(line, "{s:s, s:i, s:s, s:i, s:s !}", "prompt", &prompt, "number", &number, "text",
                                     &continuation, "tokens", &tokens, "end", &end),
                         0);
        assert_string_equal(prompt, i < 2 ? text : "");
        assert_int_equal(number, i % 2 + 1);
        assert_true(tokens == 9 ? !strcmp(end, "max tokens") : tokens < 9 && !strcmp(end, "end of text"));
        json_decref(line);
    }
    json_t *one = line_of(together, 0), *two = line_of(together, 1);
    assert_string_not_equal(json_string_value(json_object_get(one, "text")),
                            json_string_value(json_object_get(two, "text")));
    json_decref(one);
    json_decref(two);
}

static void the_context_ends_a_text(void **state) {
    char text[TEXT];
    (void)state;
    must_generate(text, "--prompt 'Text 1: ba de fi go lu ma ne ri so tu' --max-tokens 1000 --top-k 3 --json -n 3");
    for (int i = 0; i < 3; i++) {
        json_t *line = line_of(text, i);
        assert_true(json_integer_value(json_object_get(line, "tokens")) <= 32); /* --context 32 */
        assert_string_not_equal(json_string_value(json_object_get(line, "end")), "max tokens");
        json_decref(line);
    }
}

static void prompts_come_from_a_file(void **state) {
    char *path = path_join(fixture.data, "../prompts.txt"), options[512], a[TEXT];
    (void)state;
    write_text(path, "Text 1:\n\nText 2:\r\n");
    snprintf(options, sizeof options, "--prompts %s --max-tokens 4 --json", path);
    must_generate(a, options);
    json_t *second = line_of(a, 1);
    assert_string_equal(json_string_value(json_object_get(second, "prompt")), "Text 2:");
    json_decref(second);
    write_text(path, "\n");
    refuse("the file has no line", options);
    free(path);
}

static void what_cannot_be_continued_is_named(void **state) {
    char prompt[1024] = "--prompt 'x";
    (void)state;
    refuse("nothing to continue: give --prompt TEXT, --prompts FILE or --interactive", "");
    refuse("--interactive reads its prompts from standard input", "-i --prompt x");
    refuse("--greedy gives the same text every time", "--greedy -n 2 --prompt x");
    refuse("--prompts /nowhere: ", "--prompts /nowhere");
    for (int i = 0; i < 40; i++) strcat(prompt, " Text 10:");
    refuse("train_slm generate: prompt 1 has ", strcat(prompt, "'")); /* nothing else on its line: no text has begun */
    assert_contains(fixture.output, "context is 32");
    refuse("prompt 2: byte 4, 0xff, begins no UTF-8 character", "--prompt x --prompt \"$(printf 'abc\\377')\"");
    refuse("--top-p: expected 1e-06 to 1, found 0", "--prompt x --top-p 0");
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "%s generate --checkpoint %s --prompt x",
                                     fixture.program, fixture.data),
                         0);
    assert_contains(fixture.output, "holds neither a run nor a checkpoint");
}

static void text_that_is_not_all_written_is_an_error(void **state) {
    (void)state;
    static const char *const prompts[] = {"-i", "-p 'Text 1:' --json", "-p 'Text 1:'", "-p a -p b"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            run_command(fixture.output, sizeof fixture.output,
                        "printf 'Text 1:\nText 2:\n' | %s generate --checkpoint %s --max-tokens 3 %s >/dev/full",
                        fixture.program, fixture_reference_run(), prompts[i]),
            1);
        assert_contains(fixture.output,
                        "standard output: No space left on device; not all of the generated text was written");
    }
}

static void a_zero_byte_does_not_cut_a_prompt(void **state) {
    (void)state;
    must_run("printf 'Text\\0 1:\nText 2:\n' | %s generate -i --checkpoint %s --max-tokens 3", fixture.program,
             fixture_reference_run());
    assert_contains(fixture.output, "prompt 1 has a zero byte behind its 4 bytes; take it out");
    assert_contains(fixture.output, "Text 2:");
}

/* ---- during a training ---- */

/* Returns the text of the last record of this name in log.jsonl, and the number of such records. */
static char *last_sample(const char *run, const char *name, int *n) {
    char *path = path_join(run, "log.jsonl"), *log = read_text(path), *found = NULL;
    *n = 0;
    for (char *rest = log, *line; (line = strsep(&rest, "\n"));) {
        json_t *record = *line ? json_loads(line, 0, NULL) : NULL;
        const char *kind = json_string_value(json_object_get(record, "kind"));
        if (kind && !strcmp(kind, "text") && !strcmp(json_string_value(json_object_get(record, "name")), name)) {
            free(found);
            found = xstrdup(json_string_value(json_object_get(record, "text")));
            ++*n;
        }
        json_decref(record);
    }
    free(log);
    free(path);
    return found;
}

static void a_training_writes_what_its_weights_would_generate(void **state) {
    char *run = scratch_directory(), *last = path_join(run, "last"), *to = path_join(run, "generated.txt");
    int n[2];
    (void)state;
    fixture_must_train(run, "--max-steps 8 --val-interval 4 --sample-prompt 'Text 7: badelu' --sample-prompt 'Text' "
                            "--sample-tokens 10");
    char *first = last_sample(run, "sample/1", &n[0]), *second = last_sample(run, "sample/2", &n[1]);
    assert_int_equal(n[0], 2);
    assert_int_equal(n[1], 2);
    assert_contains(fixture.output, "[Sample] step=4 Text 7: badelu");
    assert_contains(fixture.output, "[Sample] step=8 Text");
    must_run("%s generate --checkpoint %s --prompt 'Text 7: badelu' --max-tokens 10 --json >%s 2>%s.log",
             fixture.program, last, to, to);
    char *generated = read_text(to);
    json_t *line = line_of(generated, 0);
    assert_int_equal(strncmp(first, "Text 7: badelu", 14), 0);
    assert_string_equal(first + 14, json_string_value(json_object_get(line, "text")));
    json_decref(line);
    assert_int_equal(strncmp(second, "Text", 4), 0);
    free(generated);
    free(first);
    free(second);
    free(last);
    free(to);
    free(run);
}

/* A model that has seen no end-of-text token gets none before its prompts. */
static void a_prompt_begins_as_the_documents_of_the_training_did(void **state) {
    char *run = scratch_directory(), *data = scratch_directory(), *path = path_join(data, "train.bin"),
         *config = path_join(run, "last/config.json");
    uint16_t ids[2000];
    (void)state;
    for (int i = 0; i < 2000; i++) ids[i] = (uint16_t)(10 + i * i % 101);
    write_bytes(path, ids, sizeof ids);
    must_run("%s --data %s --tokenizer %s %s -b 3 -o %s --max-steps 2", fixture.program, data, fixture.data,
             slm_model_options, run);
    assert_contains(fixture.output, "train_slm generate --checkpoint ");
    char *text = read_text(config);
    assert_contains(text, "\"first_token\": -1");
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "%s generate --checkpoint %s --prompt ''",
                                     fixture.program, run),
                         0);
    assert_contains(fixture.output, "this model knows no token that begins a text");
    free(text);
    free(config);
    free(path);
    free(data);
    free(run);
}

static void fields_of_other_types_and_ranges_are_refused(void **state) {
    (void)state;
    static const JsonEdit edits[] = {
        {"config.json", "options", "d-model", "-1", "d-model: expected 0 to 65536, found -1"},
        {"config.json", "options", "context", "1099511627776", "context: expected 0 to 1000000, found 1099511627776"},
        {"config.json", "options", "context", "64", "context is 64, and in the tensors beside it 32"},
        {"config.json", "options", "layers", "0", "layers is 0, and in the tensors beside it 2"},
        {"config.json", "options", "heads", "\"4\"", "heads: expected a whole number, found \"4\""},
        {"config.json", "options", "gelu", "\"relu\"", "gelu: expected erf|tanh, found 'relu'"},
        {"config.json", "options", "gelu", "false", "gelu: expected a text, found false"},
        {"config.json", "options", "biases", "\"false\"", "biases: expected true or false, found \"false\""},
        {"config.json", "", "tokenizer_hash", "{}", "\"tokenizer_hash\": expected a text, found {}"},
    };
    char *last = path_join(fixture_reference_run(), "last");
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *edited = edited_checkpoint(last, &edits[i]);
        int status = run_command(fixture.output, sizeof fixture.output,
                                 "%s generate --checkpoint %s --tokenizer %s --prompt 'Text' 2>&1", fixture.program,
                                 edited, fixture.data);
        if (status != 1) fail_msg("%s %s: exit status %d:\n%s", edits[i].field, edits[i].value, status, fixture.output);
        assert_contains(fixture.output, edits[i].message);
        free(edited);
    }
    free(last);
}

static void samples_change_no_weight(void **state) {
    char *with = scratch_directory(), *without = scratch_directory();
    (void)state;
    fixture_must_train(with, "--max-steps 8 --val-interval 2 --log-interval 1");
    fixture_must_train(without, "--max-steps 8 --val-interval 2 --log-interval 1 --sample-tokens 0");
    assert_null(strstr(fixture.output, "[Sample]"));
    assert_same_losses(with, without);
    free(with);
    free(without);
}

static void prompts_of_samples_are_checked(void **state) {
    char *run = scratch_directory();
    (void)state;
    assert_int_not_equal(
        fixture_train(run, "--max-steps 1 --sample-prompt '%s'",
                      "Text 1: Text 2: Text 3: Text 4: Text 5: Text 6: Text 7: Text 8: Text 9: Text 10:"),
        0);
    assert_contains(fixture.output, "expected 1 to 32, the context");
    free(run);
}

/* ---- baselines ---- */

static void baselines_are_measured_on_the_held_out_documents(void **state) {
    double loss[4], perplexity, bits[4];
    static const char *const names[] = {"equal", "1-grams", "2-grams", "3-grams"};
    (void)state;
    must_run("%s baselines %s", fixture.program, fixture.data);
    for (int i = 0; i < 4; i++) {
        char line[32];
        snprintf(line, sizeof line, "\n%s ", names[i]);
        const char *at = strstr(fixture.output, line);
        assert_non_null(at);
        assert_int_equal(sscanf(at + strlen(line), "%lf %lf %lf", &loss[i], &perplexity, &bits[i]), 3);
        assert_true(fabs(perplexity / exp(loss[i]) - 1) < 1e-3);
        assert_true(i < 3 ? !i || loss[i] < loss[i - 1] : loss[i] < loss[1]);
    }
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "%s baselines /nowhere", fixture.program),
                         0);
    assert_contains(fixture.output, "/nowhere");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_continues_its_prompt),
        cmocka_unit_test(standard_input_gives_the_same_texts),
        cmocka_unit_test(every_text_is_one_line_of_json),
        cmocka_unit_test(the_context_ends_a_text),
        cmocka_unit_test(prompts_come_from_a_file),
        cmocka_unit_test(what_cannot_be_continued_is_named),
        cmocka_unit_test(text_that_is_not_all_written_is_an_error),
        cmocka_unit_test(a_zero_byte_does_not_cut_a_prompt),
        cmocka_unit_test(a_training_writes_what_its_weights_would_generate),
        cmocka_unit_test(a_prompt_begins_as_the_documents_of_the_training_did),
        cmocka_unit_test(fields_of_other_types_and_ranges_are_refused),
        cmocka_unit_test(samples_change_no_weight),
        cmocka_unit_test(prompts_of_samples_are_checked),
        cmocka_unit_test(baselines_are_measured_on_the_held_out_documents),
    };
    return cmocka_run_group_tests(tests, slm_fixture_open, NULL);
}
