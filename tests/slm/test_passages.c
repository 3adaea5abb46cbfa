/* Texts that a trained model writes: the command generate, the samples of a training, and the baselines beside them. */
#include "tests/edited_json.h"
#include "tests/slm/train_rig.h"

#include "base/json.h"

enum { TEXT = 4096 };

/* Runs `generate` on the reference run; stdout alone goes to `text`. */
static void must_generate(char *text, const char *options) {
    char *to = kept_path(fixture.data, "../generated.txt");
    must_run("%s generate --checkpoint %s %s >%s 2>%s.log", fixture.program, fixture_reference_run(), options, to, to);
    char *all = kept_text(to);
    assert_true(strlen(all) < TEXT);
    strcpy(text, all);
}

static void refuse(const char *expected, const char *options) {
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "%s generate --checkpoint %s %s 2>&1",
                                     fixture.program, fixture_reference_run(), options),
                         0);
    assert_contains(fixture.output, expected);
}

TEST(a_text_continues_its_prompt) {
    char a[TEXT], b[TEXT], c[TEXT];
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

TEST(standard_input_gives_the_same_texts) {
    char a[TEXT], b[TEXT], options[512], *path = kept_path(fixture.data, "../typed.txt");
    write_text(path, "Text 7: badelu\n");
    snprintf(options, sizeof options, "--interactive --max-tokens 12 <%s", path);
    must_generate(a, "--prompt 'Text 7: badelu' --max-tokens 12");
    must_generate(b, options);
    assert_string_equal(a, b);
}

/* Reads line i of JSON Lines. */
static json_t *line_of(const char *text, int i) {
    for (; i; i--) text = strchr(text, '\n') + 1;
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(line);
    return line;
}

TEST(every_text_is_one_line_of_json) {
    char together[TEXT], alone[TEXT], text[64];
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

TEST(the_context_ends_a_text) {
    char text[TEXT];
    must_generate(text, "--prompt 'Text 1: ba de fi go lu ma ne ri so tu' --max-tokens 1000 --top-k 3 --json -n 3");
    for (int i = 0; i < 3; i++) {
        json_t *line = line_of(text, i);
        assert_true(json_integer_value(json_object_get(line, "tokens")) <= 32); /* --context 32 */
        assert_string_not_equal(json_string_value(json_object_get(line, "end")), "max tokens");
        json_decref(line);
    }
}

TEST(prompts_come_from_a_file) {
    char *path = kept_path(fixture.data, "../prompts.txt"), options[512], a[TEXT];
    write_text(path, "Text 1:\n\nText 2:\r\n");
    snprintf(options, sizeof options, "--prompts %s --max-tokens 4 --json", path);
    must_generate(a, options);
    json_t *second = line_of(a, 1);
    assert_string_equal(json_string_value(json_object_get(second, "prompt")), "Text 2:");
    json_decref(second);
    write_text(path, "\n");
    refuse("the file has no line", options);
}

TEST(what_cannot_be_continued_is_named) {
    char prompt[1024] = "--prompt 'x";
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

TEST(text_that_is_not_all_written_is_an_error) {
    static const char *const prompts[] = {"-i", "-p 'Text 1:' --json", "-p 'Text 1:'", "-p a -p b"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            run_command(fixture.output, sizeof fixture.output,
                        "printf 'Text 1:\nText 2:\n' | %s generate --checkpoint %s --max-tokens 3 %s >/dev/full",
                        fixture.program, fixture_reference_run(), prompts[i]),
            1);
        assert_contains(fixture.output,
                        "standard output: No space left on device; a part of the generated text is missing");
    }
}

TEST(a_zero_byte_does_not_cut_a_prompt) {
    must_run("printf 'Text\\0 1:\nText 2:\n' | %s generate -i --checkpoint %s --max-tokens 3", fixture.program,
             fixture_reference_run());
    assert_contains(fixture.output, "prompt 1 has a zero byte behind its 4 bytes; take it out");
    assert_contains(fixture.output, "Text 2:");
}

/* ---- during a training ---- */

/* Returns the text of the last record of this name in log.jsonl, and the number of such records. */
static char *last_sample(const char *run, const char *name, int *n) {
    char *path = kept_path(run, "log.jsonl"), *log = kept_text(path), *found = NULL;
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
    return keep(found);
}

TEST(a_training_writes_what_its_weights_would_generate) {
    char *run = kept_folder(), *last = kept_path(run, "last"), *to = kept_path(run, "generated.txt");
    int n[2];
    fixture_must_train(run, "--max-steps 8 --val-interval 4 --sample-prompt 'Text 7: badelu' --sample-prompt 'Text' "
                            "--sample-tokens 10");
    char *first = last_sample(run, "sample/1", &n[0]), *second = last_sample(run, "sample/2", &n[1]);
    assert_int_equal(n[0], 2);
    assert_int_equal(n[1], 2);
    assert_contains(fixture.output, "[Sample] step=4 Text 7: badelu");
    assert_contains(fixture.output, "[Sample] step=8 Text");
    must_run("%s generate --checkpoint %s --prompt 'Text 7: badelu' --max-tokens 10 --json >%s 2>%s.log",
             fixture.program, last, to, to);
    char *generated = kept_text(to);
    json_t *line = line_of(generated, 0);
    assert_int_equal(strncmp(first, "Text 7: badelu", 14), 0);
    assert_string_equal(first + 14, json_string_value(json_object_get(line, "text")));
    json_decref(line);
    assert_int_equal(strncmp(second, "Text", 4), 0);
}

/* A model that has seen no end-of-text token gets none before its prompts. */
TEST(a_prompt_begins_as_the_documents_of_the_training_did) {
    char *run = kept_folder(), *data = kept_folder(), *path = kept_path(data, "train.bin"),
         *config = kept_path(run, "last/config.json");
    uint16_t ids[2000];
    for (int i = 0; i < 2000; i++) ids[i] = (uint16_t)(10 + i * i % 101);
    write_bytes(path, ids, sizeof ids);
    must_run("%s --data %s --tokenizer %s %s -b 3 -o %s --max-steps 2", fixture.program, data, fixture.data,
             slm_model_options, run);
    assert_contains(fixture.output, "train_slm generate --checkpoint ");
    char *text = kept_text(config);
    assert_contains(text, "\"first_token\": -1");
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "%s generate --checkpoint %s --prompt ''",
                                     fixture.program, run),
                         0);
    assert_contains(fixture.output, "this model knows no token that begins a text");
}

static void use_edited(const char *edited, const JsonEdit *edit) {
    int status = run_command(fixture.output, sizeof fixture.output,
                             "%s generate --checkpoint %s --tokenizer %s --prompt 'Text' 2>&1", fixture.program, edited,
                             fixture.data);
    assert_edit_refused(status, edit);
    status = run_command(fixture.output, sizeof fixture.output,
                         "%s export --checkpoint %s --format nanogpt --output %s/exported 2>&1", fixture.program,
                         edited, edited);
    assert_edit_refused(status, edit);
}

TEST(fields_of_other_types_and_ranges_are_refused) {
    static const JsonEdit configs[] = {
        {"options", "d-model", "-1", "d-model: expected 0 to 65536, found -1"},
        {"options", "context", "1099511627776", "context: expected 0 to 1000000, found 1099511627776"},
        {"options", "context", "64", "context is 64, and in the tensors beside it 32"},
        {"options", "layers", "0", "layers is 0, and in the tensors beside it 2"},
        {"options", "heads", "\"4\"", "heads: expected a whole number, found \"4\""},
        {"options", "gelu", "\"relu\"", "gelu: expected erf|tanh, found 'relu'"},
        {"options", "gelu", "false", "gelu: expected a text, found false"},
        {"options", "biases", "\"false\"", "biases: expected true or false, found \"false\""},
        {"", "first_token", "1000000", "\"first_token\": expected a whole number from -1 to "},
        {"", "first_token", "\"0\"", "\"first_token\": expected a whole number from -1 to "},
        {"", "tokenizer_hash", "{}", "\"tokenizer_hash\": expected a text, found {}"},
    };
    char *last = kept_path(fixture_reference_run(), "last");
    refuse_config_edits(last, "slm", configs, sizeof configs / sizeof *configs, use_edited);
}

TEST(samples_change_no_weight) {
    char *with = kept_folder(), *without = kept_folder();
    fixture_must_train(with, "--max-steps 8 --val-interval 2 --log-interval 1");
    fixture_must_train(without, "--max-steps 8 --val-interval 2 --log-interval 1 --sample-tokens 0");
    assert_null(strstr(fixture.output, "[Sample]"));
    assert_same_losses(with, without);
}

TEST(prompts_of_samples_are_checked) {
    char *run = kept_folder();
    assert_int_not_equal(
        fixture_train(run, "--max-steps 1 --sample-prompt '%s'",
                      "Text 1: Text 2: Text 3: Text 4: Text 5: Text 6: Text 7: Text 8: Text 9: Text 10:"),
        0);
    assert_contains(fixture.output, "expected 1 to 32, the context");
}

/* ---- baselines ---- */

TEST(baselines_are_measured_on_the_held_out_documents) {
    double loss[4], perplexity, bits[4];
    static const char *const names[] = {"equal", "1-grams", "2-grams", "3-grams"};
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

int main(void) { return tests_run(slm_fixture_open, NULL); }
