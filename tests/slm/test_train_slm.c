/* Runs train_slm as a user does, on a small data set: the reference's sizes, rates and log lines; the same bits with
 * any number of workers and after signals and kills; what a resumed run refuses; and a clear message for bad options.
 */
#include "data/slm/prepared.h"
#include "data/slm/stream.h"
#include "data/text/sentencepiece.h"
#include "tests/documented.h"
#include "tests/page_rig.h"
#include "tests/slm/train_rig.h"

#include <regex.h>

#include "base/file.h"

/* ---- the model ---- */

TEST(the_sizes_have_the_reference_s_parameters) {
    must_run("%s --dry-run --device cpu -b 1", fixture.program);
    assert_contains(fixture.output,
                    "108780288 parameters in 75 tensors; one step = 1 micro-batch of 1 sequence, 1024 ");
    must_run("%s --dry-run --device cpu -b 1 --context 512", fixture.program);
    assert_contains(fixture.output, "108387072 parameters in 75 tensors");
    must_run("%s --dry-run --device cpu -b 1 --size regular", fixture.program);
    assert_contains(fixture.output, "333808640 parameters in 147 tensors");
}

/* The logits of a norm's output, with N(0, 0.02), have a variance of 0.0004 C, so the loss begins at ln V + 0.0002 C.
 * Tokens of one kind share a logit, so that the mean over 24 sequences of 32 tokens is off by a part of a logit's
 * deviation, 0.45 at width 512: by 0.034 here, and by 0.032 with 96 sequences. */
TEST(the_first_loss_is_that_of_the_initial_weights) {
    static const int widths[] = {64, 512};
    for (int i = 0; i < 2; i++) {
        char *run = kept_folder();
        double loss = 0;
        assert_int_equal(fixture_train(run, "-b 24 --d-model %d --max-steps 1 --dropout 0", widths[i]), 0);
        assert_int_equal(logged(run, "train", "train/loss", &loss, 1), 1);
        assert_near(loss, log(SLM_TEST_VOCABULARY) + 0.0002 * widths[i], 0.05);
    }
}

TEST(a_small_text_is_learned_by_heart) {
    char *run = kept_folder(), *data = keep(slm_make_data(4, ""));
    int status = fixture_train_on(data, run, "-b 8 --max-steps 150 --dropout 0 --learning-rate 5e-3 --log-interval 10");
    if (status) fail_msg("%s", fixture.output);
    double loss = logged_last(run, "train", "train/loss");
    if (!(loss < 0.1)) fail_msg("loss %g", loss);
}

/* The steps of a preset for a card are those of a large corpus: prepare, --estimate and the start say so. */
TEST(a_preset_for_a_larger_corpus_is_warned_of) {
    char *data = keep(slm_make_data(20, ""));
    assert_contains(fixture.output,
                    "warning: the settings of --config are for a larger corpus: the steps of slm_a100 go ");
    must_run("%s --data %s --config slm_rtx3090 --estimate --gpu rtx3090", fixture.program, data);
    assert_contains(fixture.output, "warning: 60000 steps go ");
    assert_contains(fixture.output,
                    " times through the data, which are then known by heart: 10 epochs are --max-steps ");
}

/* ---- token files of other programs ---- */

/* Writes ids below 100 as numbers of so many bytes each, `train` with 3000 of them and `val` with 500. */
static char *write_tokens(size_t bytes) {
    char *folder = kept_folder();
    for (int val = 0; val < 2; val++) {
        size_t n = val ? 500 : 3000;
        char *out = xcalloc(n, bytes), *path = kept_path(folder, val ? "val.bin" : "train.bin");
        for (uint32_t i = 0; i < n; i++) memcpy(out + i * bytes, &(uint32_t){i * i % 97 + i % 3}, bytes);
        write_bytes(path, out, n * bytes);
        free(out);
    }
    return folder;
}

/* From the memory-mapped files to the last bit of the weights; the run may go on with either. */
TEST(ids_of_32_bits_train_as_those_of_16) {
    char *narrow = write_tokens(2), *wide = write_tokens(4), *a = kept_folder(), *b = kept_folder();
#define STEPS "--vocabulary 100 --max-steps 4 --log-interval 1 --val-interval 2 --sampling random "
    if (fixture_train_on(wide, b, STEPS) != 1) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "train.bin: its ids have 32 bits, not 16");
    fixture_must_train_on(narrow, a, STEPS);
    fixture_must_train_on(wide, b, STEPS "--token-bytes 4");
    assert_contains(fixture.output, "[Data] train: 3000 tokens of 1 document");
    assert_same_losses(a, b);
    assert_same_result(a, b);
    fixture_must_train_on(wide, a, STEPS "--token-bytes 4 --resume auto"); /* the same data */
    if (fixture_train_on(fixture.data, b, "--max-steps 1 --token-bytes 4") != 1) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "says that its ids have 2 bytes, and --token-bytes says 4");
}

/* A vocabulary of more than 65536: prepare writes ids of 32 bits, and the training reads them. */
TEST(a_large_vocabulary_is_prepared_and_trained_on) {
    char *folder = kept_folder(), *run = kept_folder(), *data = kept_path(folder, "prepared");
    must_run("cd %s && sed 's/\"added_tokens\": \\[/&{\"id\": 70000, \"content\": \"<|last|>\", \"special\": true},/' "
             "%s/tokenizer.json >large.json && seq 1 400 >text.txt",
             folder, fixture.data);
    must_run("%s prepare --input %s/text.txt --split-at line --val-ratio 0.2 --tokenizer %s/large.json "
             "--end-of-text '<|last|>' --output %s",
             fixture.program, folder, folder, data);
    assert_contains(fixture.output, "tokenizer.json: 70001 tokens");
    must_run("head -c 4096 %s/train_00000.safetensors | grep -aq '\"dtype\":\"U32\"'", data);
    fixture_must_train_on(data, run, "--max-steps 1 --dropout 0 --d-model 16 --layers 1 --log-interval 1");
    /* A logit's deviation is 0.02 sqrt(16) = 0.08, of which the mean loss has a part; half its square is always there.
     */
    assert_near(logged_last(run, "train", "train/loss"), log(70001) + 0.0002 * 16, 0.1);
}

/* nanoGPT's meta.pkl of the characters "\n ab": {"vocab_size": 4, "itos": {...}}, protocol 4. */
TEST(a_model_of_characters_generates) {
    static const char meta[] =
        "\200\004\225\067\000\000\000\000\000\000\000}\224(\214\012vocab_size\224K\004\214\004itos"
        "\224}\224(K\000\214\001\012\224K\001\214\001 \224K\002\214\001a\224K\003\214\001b\224uu.";
    char *data = kept_folder(), *run = kept_folder(), *path = kept_path(data, "train.bin"),
         *table = kept_path(data, "meta.pkl");
    uint16_t ids[1200];
    for (int i = 0; i < 1200; i++) ids[i] = (uint16_t)(i % 7 == 6 ? 0 : i % 3 + 1);
    write_bytes(path, ids, sizeof ids);
    write_bytes(table, meta, sizeof meta - 1);
    fixture_must_train_on(data, run, "--max-steps 2");
    must_run("cmp %s %s/meta.pkl", table, run);
    must_run("%s generate --checkpoint %s --prompt 'ab x' --max-tokens 9 --json", fixture.program, run);
    assert_contains(fixture.output,
                    "prompt 1: the tokenizer does not know 1 of 4 pieces (25 %), because of the characters x 1");
    assert_contains(fixture.output, "\"tokens\":9");
    must_run("%s export --checkpoint %s --output %s/hf", fixture.program, run, run);
    assert_contains(fixture.output, "AutoTokenizer.from_pretrained does not read meta.pkl");
}

/* The folder keeps how much of the texts its tokenizer does not know. */
TEST(data_that_the_tokenizer_does_not_know_are_refused) {
    char *folder = kept_folder(), *run = kept_folder(), *data = kept_path(folder, "prepared");
    must_run("cd %s && mkdir chars && seq 1 400 | sed 's/.*/a b & c/' >text.txt", folder);
    Error error;
    char *model = kept_path(folder, "chars/tokenizer.model");
    if (!sentencepiece_train_bpe("a b c a b 1 2 3\n", 16, model, 12, &error)) fail_msg("%s", error.text);
#define PREPARE "%s prepare --input %s/text.txt --split-at line --val-ratio 0.2 --tokenizer %s --output %s "
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, PREPARE, fixture.program, folder, model, data),
                     1);
    assert_contains(fixture.output, "pieces (");
    assert_contains(fixture.output,
                    "it was made of other texts; give one that knows these, or raise --max-unknown 0.05");
    assert_int_equal(access(data, F_OK), -1); /* nothing is left */
    must_run(PREPARE "--max-unknown 1", fixture.program, folder, model, data);
    assert_contains(fixture.output, "warning: the texts: the tokenizer does not know ");
    assert_contains(fixture.output, "train_slm --data ");
    assert_contains(fixture.output, " --max-unknown 1");
    must_run(PREPARE "--max-unknown 1", fixture.program, folder, model, data); /* again: it is told again */
    assert_contains(fixture.output, "because of the characters 4 ");
    if (fixture_train_on(data, run, "--max-steps 1") != 1) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "prepared: the texts: the tokenizer does not know ");
    fixture_must_train_on(data, run, "--max-steps 1 --max-unknown 0.9");
    must_run("%s generate --checkpoint %s --prompt 'a 9' --max-tokens 2", fixture.program, run);
    assert_contains(fixture.output, "prompt 1: the tokenizer does not know 1 of ");
    must_run("%s evaluate --checkpoint %s %s/text.txt --split-at line", fixture.program, run, folder);
    assert_contains(fixture.output, "warning: the texts: the tokenizer does not know ");
}

/* ---- what is logged ---- */

static void expect_lines(const char *output, const char *pattern, int lines) {
    regex_t regex;
    regmatch_t match;
    int n = 0;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE), 0);
    for (const char *at = output; !regexec(&regex, at, 1, &match, 0); at += match.rm_eo) n++;
    regfree(&regex);
    if (n != lines) fail_msg("%d lines match %s:\n%s", n, pattern, output);
}

TEST(log_lines_are_the_reference_s) {
    char *run = kept_folder(), line[256];
    fixture_must_train(run, "-g 2 --max-steps 4 --log-interval 1 --val-interval 2 --mfu printed");
    expect_lines(fixture.output,
                 "^iter [0-9]+: loss [0-9]+\\.[0-9]{4}, time [0-9]+\\.[0-9]{2}ms, mfu [0-9]+\\.[0-9]{2}%", 4);
    expect_lines(fixture.output, "^step [0-9]+: train loss [0-9]+\\.[0-9]{4}, val loss [0-9]+\\.[0-9]{4}, ", 2);
    snprintf(line, sizeof line, "iter 4: loss %.4f, time %.2fms, mfu %.2f%% ", logged_last(run, "train", "train/loss"),
             1e3 / logged_last(run, "train", "train/steps_per_second"),
             100 * 8 * 117824 * logged_last(run, "train", "train/tokens_per_second") / 312e12);
    assert_contains(fixture.output, line);
    snprintf(line, sizeof line, "step 4: train loss %.4f, val loss %.4f, perplexity %.2f, bits per byte %.4f, ",
             logged_last(run, "train", "train/loss"), logged_last(run, "val", "val/loss"),
             exp(logged_last(run, "val", "val/loss")), logged_last(run, "val", "val/bits_per_byte"));
    assert_contains(fixture.output, line);
}

TEST(the_cpu_says_that_no_peak_is_known) {
    fixture_must_train(kept_folder(), "--max-steps 1 --log-interval 1 --calibration none --device cpu");
    expect_lines(fixture.output,
                 "^iter 1: loss [0-9.]+, time [0-9.]+ms, mfu n/a, [0-9.]+ [kMG]FLOP/s, [0-9]+ tokens/s, lr ", 1);
}

/* Bits per byte are the summed loss of the held-out tokens over the bytes of their documents, in every division. */
TEST(validation_is_on_every_held_out_token) {
    Error error;
    SlmStream *stream = slm_stream_open(fixture.data, "val", NULL, &error);
    if (!stream) fail_msg("%s", error.text);
    double bytes = 0, tokens = (double)(stream->n_tokens - 1);
    for (int64_t d = 0; d < stream->n_documents; d++) bytes += (double)stream->bytes[d];
    slm_stream_close(stream);
    for (int separate = 0; separate < 2; separate++) {
        char *run = kept_folder();
        fixture_must_train(run, separate ? "--max-steps 1 --documents separate" : "--max-steps 1");
        double loss = logged_last(run, "val", "val/loss"), bits = logged_last(run, "val", "val/bits_per_byte");
        assert_near(bits, loss * tokens / (log(2) * bytes), 1e-6 * bits);
        assert_near(logged_last(run, "val", "val/perplexity"), exp(loss), 1e-6 * exp(loss));
    }
}

/* The values of the reference have 11 digits, of which the log keeps 9. */
TEST(learning_rates_are_the_reference_s) {
    char *run = kept_folder();
    double rates[8];
    int status = fixture_train_and_signal(
        run, "--learning-rate 3e-4 --warmup-steps 500 --max-steps 60000 --log-interval 1 --val-interval 0", 2, SIGTERM);
    assert_int_equal(status, 128 + SIGTERM);
    assert_true(logged(run, "train", "train/lr", rates, 8) >= 2);
    assert_near(rates[0], 5.9880239521e-07, 1e-15);
    assert_near(rates[1], 2 * 5.9880239521e-07, 2e-15);
}

TEST(a_schedule_ends_at_its_minimum) {
    static const struct {
        const char *options;
        double share[6]; /* of the peak, in each of 6 steps with a warm-up of 2 */
    } schedules[] = {
        {"--schedule linear --min-lr 0.2", {1.0 / 3, 2.0 / 3, 1, 0.8, 0.6, 0.4}},
        {"--schedule wsd --decay-share 0.5 --min-lr 0", {1.0 / 3, 2.0 / 3, 1, 1, 2.0 / 3, 1.0 / 3}},
        {"--schedule cosine --min-lr 0", {1.0 / 3, 2.0 / 3, 1, 0.85355339, 0.5, 0.14644661}},
    };
    for (int i = 0; i < 3; i++) {
        char *run = kept_folder();
        double rates[8];
        assert_int_equal(fixture_train(run, "%s --max-steps 6 --log-interval 1", schedules[i].options), 0);
        assert_int_equal(logged(run, "train", "train/lr", rates, 8), 6);
        for (int k = 0; k < 6; k++) assert_near(rates[k], 1e-3 * schedules[i].share[k], 1e-11);
    }
}

TEST(a_run_leaves_a_page_and_its_tokenizer) {
    char *page = read_page(fixture_reference_run());
    assert_page_has(page, (const char *[]){"Finished after all 12 steps. Best val/loss ", "/train_slm --data ",
                                           "<title>bits_per_byte</title>", "<title>learning rate</title>", NULL});
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "cmp %s/tokenizer.json %s/tokenizer.json",
                                 fixture_reference_run(), fixture.data),
                     0);
}

TEST(what_is_written_is_documented) {
    char *run = kept_folder(), *dump = kept_path(run, "dump.safetensors"), *last = kept_path(run, "last"),
         *log = kept_path(run, "log.jsonl");
    static const char *const metrics[] = {"loss", "top1", "perplexity", "bits_per_byte", NULL};
    assert_int_equal(fixture_train(run, "--max-steps 2 --log-interval 1 --val-interval 1 --debug-dump %s", dump), 0);
    TensorFile file = open_file(dump);
    assert_dumps_documented(&file, 1, "### Dump of train_slm");
    assert_checkpoint_documented(last);
    assert_log_documented(log, metrics);
    tensor_file_close(&file);
}

/* ---- the same bits ---- */

TEST(one_and_eight_workers_give_the_same_bits) {
    fixture_check_same("--num-workers 1");
    fixture_check_same("--num-workers 8");
}

TEST(recomputing_gives_the_same_bits) { fixture_check_same("--grad-checkpointing"); }

TEST(kills_and_resuming_change_no_bit) {
    static const char *const ways[] = {"", "--documents separate", "--sampling random"};
    for (int i = 0; i < 3; i++) fixture_check_restarts(ways[i]);
}

TEST(a_disk_without_links_and_locks_changes_no_bit) {
    fixture_check_poor_disk("generate --prompt 'Text 7: badelu' --max-tokens 8 --checkpoint");
}

TEST(steps_allocate_nothing) { fixture_check_allocations(""); }

/* ---- what is refused ---- */

TEST(other_data_or_another_tokenizer_are_refused_on_resume) {
    char *run = kept_folder(), *more = keep(slm_make_data(SLM_TEST_DOCUMENTS + 1, "")),
         *other = keep(slm_make_data(SLM_TEST_DOCUMENTS, "--specials '<|x|>'"));
    fixture_must_train(run, "--max-steps 2 --save-interval 2");
    assert_int_equal(fixture_train_on(more, run, "--max-steps 4 --resume auto"), 1);
    assert_contains(fixture.output, "so it would be another run");
    assert_int_equal(fixture_train_on(other, run, "--max-steps 4 --resume auto"), 1);
    assert_contains(fixture.output, "tokenizer_hash was ");
    assert_int_equal(fixture_train(run, "--max-steps 4 --resume auto"), 0);
}

TEST(an_option_that_makes_another_run_is_refused_on_resume) {
    static const char *const changed[] = {"--documents separate", "--sampling random", "--heads 2",
                                          "--context 16",         "--gelu tanh",       "--seed 9"};
    char *run = kept_folder();
    fixture_must_train(run, "--max-steps 2 --save-interval 2");
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        assert_int_equal(fixture_train(run, "--max-steps 4 --resume auto %s", changed[i]), 2);
        assert_contains(fixture.output, "so it would be another run");
    }
}

TEST(options_that_contradict_each_other_are_refused) {
    static const struct {
        const char *options, *message;
    } bad[] = {
        {"--tokens-per-step 1000 -g 2", "--tokens-per-step 1000 and -g 2: both say how many micro-batches a step has"},
        {"--tokens-per-step 1000 -b auto --effective-batch 4", "and --effective-batch 4: both say how large a step is"},
        {"--decay-share 0.5", "--decay-share is for --schedule wsd; --schedule cosine"},
        {"--documents separate -b auto", "-b auto with --documents separate"},
        {"--vocabulary 200", "--vocabulary 200: the data have ids below 300"},
        {"--data /tmp", ": one folder is expected"},
        {"--size huge", "--size"},
    };
    char *run = kept_folder();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(fixture_train(run, "%s", bad[i].options), 2);
        assert_contains(fixture.output, bad[i].message);
    }
}

TEST(missing_and_foreign_data_are_named) {
    char *run = kept_folder(), *data = kept_folder(), *path = kept_path(data, "train.bin");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s -o %s", fixture.program, run), 2);
    assert_contains(fixture.output, "no data: give --data DIR");
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output, "%s --data %s -o %s", fixture.program, data, run), 1);
    assert_contains(fixture.output, "has no split 'train'");
    assert_int_equal(fixture_train_on(data, run, "--base-checkpoint nofile"), 1);
    assert_contains(fixture.output, "train_slm: --base-checkpoint nofile: No such file or directory\n");
    uint16_t ids[2000];
    for (int i = 0; i < 2000; i++) ids[i] = (uint16_t)(i * i % 101);
    write_bytes(path, ids, sizeof ids);
    assert_int_equal(fixture_train_on(data, run, "--max-steps 2 --documents separate --vocabulary 101"), 2);
    assert_contains(fixture.output, "does not say where documents end; give --tokenizer");
    assert_int_equal(fixture_train_on(data, run, "--max-steps 2 --log-interval 1 --vocabulary 101"), 0);
    assert_contains(fixture.output, "[Data] nothing is held out, so there is no validation");
    double bits = 0;
    assert_int_equal(logged(run, "train", "train/bits_per_byte", &bits, 1), 0);
}

/* A tokenizer that did not make the data. */
TEST(a_foreign_tokenizer_is_refused) {
    char *run = kept_folder(), *other = keep(slm_make_data(20, "--specials '<|x|>'"));
    assert_int_equal(fixture_train(run, "--tokenizer_dir %s --max-steps 1", other), 1);
    assert_contains(fixture.output, "was made with another tokenizer than ");
}

/* The size comes from the base checkpoint; its tokens are those of its own tokenizer. */
TEST(a_base_checkpoint_tells_its_size_and_its_tokenizer) {
    char *run = kept_folder(), *again = kept_folder(), *other = keep(slm_make_data(20, "--specials '<|x|>'"));
    const char *line = "%s --data %s --base-checkpoint %s/best --max-steps 1 --threads 2 -b 3 -o %s";
    must_run(line, fixture.program, fixture.data, fixture_reference_run(), run);
    assert_contains(fixture.output, "d-model 64");
    assert_contains(fixture.output, "15 tensors loaded, 0 resized");
    assert_null(strstr(fixture.output, "another tokenizer"));
    must_run(line, fixture.program, other, fixture_reference_run(), again);
    assert_contains(fixture.output, "was trained with another tokenizer than ");
}

/* ---- names and numbers of options ---- */

TEST(tokens_per_step_set_the_micro_batches) {
    static const struct {
        const char *options, *lines[2];
    } cases[] = {
        {"--tokens-per-step 960", {"960: 10 micro-batches of 96 tokens are 960\n", "effective batch 3 x 10 = 30;"}},
        {"--tokens-per-step 1000", {"1000: 10 micro-batches of 96 tokens are 960\n", "effective batch 3 x 10 = 30;"}},
        {"--tokens-per-step 1", {"1: 1 micro-batch of 96 tokens are 96\n", "effective batch 3 x 1 = 3;"}},
        {"--tokens-per-step 200 --documents separate",
         {"200: 2 micro-batches of 96 tokens are 192\n", "up to 96 tokens x 2 micro-batches a step;"}},
        {"--tokens-per-step 200 --token-budget 50",
         {"200: 4 micro-batches of 50 tokens are 200\n", "up to 50 tokens x 4 micro-batches a step;"}},
        {"--tokens-per-step 250 -b auto", {"250: 8 sequences of 32 tokens are 256\n", "effective batch 8 x 1 = 8;"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(fixture_train(kept_folder(), "%s --max-steps 1", cases[i].options), 0);
        for (int k = 0; k < 2; k++) assert_contains(fixture.output, cases[i].lines[k]);
    }
}

/* --max-steps decides the length, unless epochs were given. */
TEST(steps_take_as_many_epochs_as_they_need) {
    char *run = kept_folder(), *few = kept_folder();
    const char *line =
        "%s --data %s --layers 1 --d-model 16 --heads 1 --context 32 --threads 1 -b 64 --max-steps 40 %s -o %s";
    must_run(line, fixture.program, fixture.data, "", run);
    assert_contains(fixture.output, "[Done] step 40 of 40 ");
    must_run(line, fixture.program, fixture.data, "--epochs 2", few);
    assert_null(strstr(fixture.output, " of 40 "));
}

TEST(the_reference_s_names_are_understood) {
    char *run = kept_folder(), *config = kept_path(run, "reference.yaml"), *last = kept_path(run, "last");
    write_text(config, "%s",
               "model_name: london-historical-slm\narchitecture: gpt2\nbatch_size: 3\nmax_length: 32\nn_layer: 2\n"
               "n_head: 4\nn_embd: 64\nlearning_rate: 1e-3\nmax_steps: 2\neval_steps: 2\nlogging_steps: 1\n"
               "eval_iters: 1\nwarmup_steps: 2\nadam_beta1: 0.9\nadam_beta2: 0.95\nmax_grad_norm: 1.0\n"
               "gradient_accumulation_steps: 1\nlr_scheduler_type: cosine\nenable_amp: True\namp_dtype: bf16\n"
               "enable_tf32: False\nenable_compile: True\nuse_wandb: True\ndataloader_num_workers: 4\n"
               "dataloader_pin_memory: True\nsave_steps: 500\nsave_total_limit: 5\nseed: 42\n");
    must_run("%s --config %s --data_dir %s --tokenizer_dir %s --output_dir %s --threads 2", fixture.program, config,
             fixture.data, fixture.data, run);
    assert_contains(fixture.output, "max_length sets --context");
    assert_contains(fixture.output, "enable_compile is not needed");
    char *path = keep(path_through(run, "last/state.json")), *text = kept_text(path);
    assert_contains(text, "\"no-tf32\": true");
    assert_contains(text, "\"amp\": true");
    assert_contains(text, "\"val-interval\": 2");
    assert_contains(text, "\"max-val-batches\": 1");
    must_run("%s --config %s --data_dir %s --output_dir %s --threads 2 --max-steps 3 --resume_from_checkpoint %s",
             fixture.program, config, fixture.data, run, last);
    assert_contains(fixture.output, "iter 3: ");
    assert_null(strstr(fixture.output, "resume-from-checkpoint has changed"));
}

/* The reference ignores these; here they would change the run. */
TEST(keys_that_the_reference_ignores_are_refused) {
    static const char *const keys[][2] = {
        {"num_epochs: 3", "unknown key 'num_epochs'"},
        {"warmup_ratio: 0.1", "warmup_ratio: expected 0, found '0.1'; give warmup_steps"},
        {"adam_epsilon: 1e-6", "adam_epsilon: expected 1e-8, found '1e-6'; AdamW is what there is with this value"},
        {"eval_split_ratio: 0.05", "unknown key 'eval_split_ratio'"},
        {"max_eval_samples: 3000", "unknown key 'max_eval_samples'"},
        {"n_positions: 512", "unknown key 'n_positions'"},
        {"gradient_checkpointing_ratio: 1", "unknown key 'gradient_checkpointing_ratio'"},
    };
    char *run = kept_folder(), *config = kept_path(run, "bad.yaml");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        write_text(config, "%s\n", keys[i][0]);
        assert_int_equal(fixture_train(run, "--config %s", config), 2);
        assert_contains(fixture.output, kept_format("bad.yaml:1: %s", keys[i][1]));
    }
}

TEST(presets_fit_their_cards) {
    static const struct {
        const char *preset, *card, *step;
    } presets[] = {{"a30x2", "a30", "sequences: 48.0, tokens: 49152"},
                   {"rtx3090", "rtx3090", "sequences: 16.0, tokens: 16384"},
                   {"rtx4090", "rtx4090", "sequences: 24.0, tokens: 24576"},
                   {"a100", "a100-40", "sequences: 32.0, tokens: 65536"},
                   {"t4", "t4", "sequences: 12.0, tokens: 9216"}};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        must_run("%s --estimate --calibration none --config slm_%s --gpu %s", fixture.program, presets[i].preset,
                 presets[i].card);
        assert_contains(fixture.output, presets[i].step);
        assert_contains(fixture.output, ": it fits, ");
        assert_contains(fixture.output, "[Time] 60000 steps");
    }
}

int main(void) { return tests_run(slm_fixture_open, NULL); }
