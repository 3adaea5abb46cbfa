/* Runs train_gpt as a user does, on a small data set: the same bits with any number of workers and after signals and
 * kills; memory as planned; and a clear message for each kind of bad input. */
#include "data/formats/tensor_file_open.h"
#include "tests/documented.h"
#include "tests/gpt/train_rig.h"
#include "tests/page_rig.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"

static Error error;

TEST(two_runs_give_the_same_bits) { fixture_check_same(""); }

TEST(one_and_eight_workers_give_the_same_bits) {
    fixture_check_same("--num-workers 1");
    fixture_check_same("--num-workers 8");
}

TEST(recomputing_gives_the_same_bits) { fixture_check_same("--grad-checkpointing"); }

TEST(a_disk_without_links_and_locks_changes_no_bit) { fixture_check_poor_disk(NULL); }

/* A handler would overwrite the heap (base/stop.c). */
TEST(no_signal_has_a_handler) {
    char *run = kept_folder(), *options = kept_format("%s --max-steps 100000", gpt_short_run);
    pid_t child = fixture_start(run, options);
    wait_for_step(run, child, 1);
    unsigned long long caught;
    int status = run_command(fixture.output, sizeof fixture.output, "grep SigCgt /proc/%d/status", (int)child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(status, 0);
    assert_int_equal(sscanf(fixture.output, "SigCgt: %llx", &caught), 1);
    assert_true(!(caught & (1 << (SIGINT - 1) | 1 << (SIGTERM - 1))));
}

TEST(signals_and_resuming_change_no_bit) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < 3; i++) {
        char *run = kept_folder(), *output = kept_path(run, "output");
        int status = fixture_train_and_signal(run, gpt_short_run, 1 + 4 * i, numbers[i]);
        char *text = kept_text(output);
        char *options = kept_format("%s --resume auto", gpt_short_run);
        if (!strstr(text, "[Done] step 12 of 12")) {
            if (status != 128 + numbers[i]) fail_msg("exit status %d:\n%s", status, text);
            assert_contains(text, "--resume auto");
        }
        fixture_must_train(run, options);
        assert_same_result(run, fixture_reference_run());
        assert_same_losses(run, fixture_reference_run());
    }
}

TEST(kills_and_resuming_change_no_bit) {
    char *run = kept_folder(), *options = kept_format("%s --save-interval 1 --resume auto", gpt_short_run);
    for (int step = 1; step < 12; step += 2) {
        int status = fixture_train_and_signal(run, options, step, SIGKILL);
        assert_true(status == 128 + SIGKILL || status == 0);
    }
    fixture_must_train(run, options);
    assert_same_result(run, fixture_reference_run());
    assert_same_losses(run, fixture_reference_run());
}

/* The samples are the same in another order, in which the saved position in the data stands for other samples. */
TEST(reordered_data_is_refused_on_resume) {
    char *run = kept_folder(), *copy = kept_path(fixture.data, "reordered.jsonl"), *text = kept_text(fixture.manifest);
    char *second = strchr(text, '\n') + 1, *reordered = kept_format("%s%.*s", second, (int)(second - text), text);
    write_text(copy, "%s", reordered);
    fixture_must_train(run, "--max-steps 2");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "%s -m %s %s --output-dir %s -b 3 -g 2 --max-steps 4 --resume auto", fixture.program,
                                 copy, gpt_model_options, run),
                     1);
    assert_contains(fixture.output, "other samples, lengths or another order");
}

static int train_on(const char *data, const char *run, const char *options) {
    return run_command(fixture.output, sizeof fixture.output, "%s -m %s/manifest.jsonl %s --output-dir %s -b 3 -g 2 %s",
                       fixture.program, data, gpt_model_options, run, options);
}

/* Changes one number in a text, codes or conditioning array; ids and lengths stay. The same numbers in another type are
 * accepted. */
TEST(replaced_arrays_are_refused_on_resume) {
    char *data = keep(gpt_make_data(0)), *run = kept_folder();
    assert_int_equal(train_on(data, run, "--max-steps 2"), 0);
    for (int i = 0; i < 4; i++) {
        char name[] = {"tcke"[i], '5', '.', 'n', 'p', 'y', 0}, *path = kept_path(data, name), *bytes;
        size_t size;
        Npy npy;
        assert_true(read_file(path, &bytes, &size, &error) && npy_parse(bytes, size, &npy, &error));
        size_t each = (size_t)npy.item_size;
        char *numbers = xmalloc((size_t)npy.count * each);
        double *wide = xmalloc((size_t)npy.count * sizeof *wide);
        memcpy(numbers, npy.data, (size_t)npy.count * each);
        memcpy(numbers + each, npy.data, each); /* the first number twice */
        assert_memory_not_equal(numbers, npy.data, 2 * each);
        npy_to_f64(&npy, 0, npy.count, wide);
        write_npy(data, name, i < 2 ? "<i4" : "<f4", numbers, npy.rank, npy.dims[0], npy.dims[1]);
        assert_int_equal(train_on(data, run, "--max-steps 4 --resume auto"), 1);
        assert_contains(fixture.output, "the training data has the same samples and lengths as before, but other "
                                        "contents");
        assert_contains(fixture.output, "from the weights with --base-checkpoint ");
        write_npy(data, name, "<f8", wide, npy.rank, npy.dims[0], npy.dims[1]);
        free(bytes);
        free(numbers);
        free(wide);
    }
    assert_int_equal(train_on(data, run, "--max-steps 4 --resume auto"), 0);
}

TEST(the_environment_names_the_tensorboard_run) {
    char *run = kept_folder(), *events = kept_path(run, "logs/named");
    setenv("INDEXTTS_RUN_NAME", "named", 1);
    fixture_must_train(run, "-b 3 -g 1 --max-steps 1");
    unsetenv("INDEXTTS_RUN_NAME");
    assert_int_equal(access(events, F_OK), 0);
}

TEST(a_run_of_another_program_is_refused) {
    char *run = kept_folder();
    fixture_must_train(run, gpt_short_run);
    must_run("sed -i 's/\"model\": *\"tts_gpt\"/\"model\":\"slm\"/;s/\"xxh3_64\": *\"[0-9a-f]*\"/\"note\":0/' "
             "%s/step_*/config.json",
             run);
    for (int resumes = 0; resumes < 2; resumes++) {
        assert_int_equal(fixture_train(run, "%s -b 4 %s", gpt_short_run, resumes ? "--resume auto" : ""), 1);
        assert_contains(fixture.output, " cannot be continued by this training: ");
        assert_contains(fixture.output, "found \"slm\"; give another --output-dir");
    }
}

TEST(a_changed_batch_is_refused_on_resume) {
    char *run = kept_folder();
    fixture_must_train(run, gpt_short_run);
    assert_int_equal(fixture_train(run, "%s --resume auto -b 4", gpt_short_run), 2);
    assert_contains(fixture.output, "--batch-size was 3 and is now 4");
    assert_int_equal(fixture_train(run, "%s", gpt_short_run), 1);
    assert_contains(fixture.output, "already holds a run");
}

/* -b auto comes from a YAML file, then from the command line, where -g 0 overrides the -g 2 of fixture.options. */
TEST(an_automatic_batch_trains_like_the_same_batch_given) {
    char *given = kept_folder(), *chosen = kept_folder(), *config = kept_path(chosen, "auto.yaml");
    fixture_must_train(given, "-b 6 -g 1 --max-steps 3 --save-interval 3 --log-interval 1");
    write_text(config, "batch-size: auto\neffective_batch: 6\n");
    char *line = kept_format("%s -m %s %s --config %s --output-dir %s --max-steps 3 --save-interval 3 --log-interval 1",
                             fixture.program, fixture.manifest, gpt_model_options, config, chosen);
    for (int again = 0; again < 2; again++) {
        int status = run_command(fixture.output, sizeof fixture.output, "%s --resume auto", line);
        if (status) fail_msg("%s", fixture.output);
        assert_contains(fixture.output, again
                                            ? "[Batch] -b 6 -g 1, as in the run that is resumed\n"
                                            : "[Batch] -b 6 -g 1 is an effective batch of 6: all of it fits at once, ");
    }
    assert_same_result(chosen, given);
    assert_same_losses(chosen, given);
    char *path = kept_path(chosen, "last/state.json"), *record = kept_text(path);
    assert_contains(record, "\"batch-size\": 6,");
    assert_contains(record, "\"grad-accumulation\": 1,");
    fixture_must_train(given, "-b auto -g 0 --effective-batch 6 --max-steps 4 --resume auto");
    assert_contains(fixture.output, "[Batch] -b 6 -g 1, as in the run that is resumed\n");
    assert_int_equal(fixture_train(given, "-b auto --max-steps 5 --resume auto"), 2);
    assert_contains(fixture.output, "instead of -g 2 give --effective-batch");
}

TEST(the_loss_falls_and_best_is_kept) {
    char *run = kept_folder(),
         *options = kept_format("%s --max-steps 80 --log-interval 20 --dropout 0 --keep-checkpoints 1", gpt_short_run);
    double losses[16];
    fixture_must_train(run, options);
    int n = logged(run, "train", "train/mel_loss", losses, 16);
    assert_true(n == 4 && losses[3] < 0.7 * losses[0]);
    char *best = keep(path_through(run, "best/model.safetensors")), *picture = kept_path(run, "loss.svg");
    assert_int_equal(access(best, R_OK), 0);
    assert_int_equal(access(picture, R_OK), 0);
}

TEST(a_run_leaves_a_page) {
    char *page = read_page(fixture_reference_run());
    assert_page_has(page, (const char *[]){"Finished after all 12 steps. Best val/objective ", "unigram entropy",
                                           "/train_gpt -m ", "<title>mel_loss</title>", "<title>learning rate</title>",
                                           "<th scope=\"row\">max-steps</th><td>12</td><td>0</td><td>given</td>",
                                           "<dt>Restarts</dt><dd>0</dd>", "revision ", "no price was given", NULL});
}

/* After a kill the page of the last validation is there, whole; the command tells how it ended. */
TEST(a_killed_run_has_its_page) {
    char *run = kept_folder();
    int status = fixture_train_and_signal(run, gpt_short_run, 6, SIGKILL);
    char *page = read_page(run);
    assert_true(status == 128 + SIGKILL || status == 0);
    if (status) assert_contains(page, " of 12 when this page was written.");
    must_run("%s report %s", program_at("train_gpt"), run);
    assert_contains(fixture.output, "/report.html: ");
    page = read_page(run);
    if (status) assert_contains(page, "No end is recorded after step ");
    must_run("%s report %s %s -o %s/report.html", program_at("train_gpt"), run, fixture_reference_run(), run);
    assert_contains(fixture.output, ", 2 trainings, 0 results");
    page = read_page(run);
    assert_contains(page, "2 trainings: ");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s report", program_at("train_gpt")), 2);
    assert_contains(fixture.output, "train_gpt report: which runs? give their folders");
}

TEST(steps_allocate_nothing) { fixture_check_allocations("--val-ratio 0"); }

/* The model is so large that the memory of the program and its libraries is a few percent. */
TEST(peak_memory_is_as_planned) {
    skip_under_sanitizer("peak memory"); /* its shadow and its red zones are memory too */
    char *run = kept_folder();
    double planned;
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    fixture_must_train(run, "--model-dim 64 --layers 200 --max-steps 2 --save-interval 0 --num-workers 1 --val-ratio 0 "
                            "--grad-checkpointing");
    getrusage(RUSAGE_CHILDREN, &after);
    const char *total = strrchr(strtok(strstr(fixture.output, "[Memory]"), "\n"), '=');
    char unit[8];
    assert_int_equal(sscanf(total, "= %lf %7s", &planned, unit), 2);
    planned *= !strcmp(unit, "GB") ? 1e9 : 1e6;
    double peak = (double)after.ru_maxrss * 1024;
    assert_true(after.ru_maxrss > before.ru_maxrss);
    print_message("planned %.0f MB, peak %.0f MB\n", planned * 1e-6, peak * 1e-6);
    assert_true(fabs(peak / planned - 1) < 0.1);
}

/* At most 100 KB per file: the log fits, a checkpoint does not. */
static void train_on_a_full_disk(const char *run, const char *more) {
    int status = run_command(fixture.output, sizeof fixture.output,
                             "trap '' XFSZ; ulimit -f 100; exec %s -m %s %s --output-dir %s -b 3 -g 2 --val-ratio 0 %s",
                             fixture.program, fixture.manifest, gpt_model_options, run, more);
    assert_int_equal(status, 1);
    assert_contains(fixture.output, "the checkpoint could not be written");
}

TEST(a_full_disk_leaves_the_earlier_checkpoint) {
    char *run = kept_folder(), *lost = kept_format("what was trained after %s/step_00000003 is lost. Make room", run);
    fixture_must_train(run, "--max-steps 3 --save-interval 3 --val-ratio 0");
    train_on_a_full_disk(run, "--max-steps 6 --resume auto");
    assert_contains(fixture.output, "the earlier ones are whole");
    assert_contains(fixture.output, lost);
    fixture_must_train(run, "--max-steps 6 --val-ratio 0 --resume auto");
    assert_contains(fixture.output, "step 3");
}

TEST(a_run_that_could_write_no_checkpoint_says_that_all_is_lost) {
    train_on_a_full_disk(kept_folder(), "--max-steps 2");
    assert_contains(fixture.output,
                    "no checkpoint was written: what was trained is lost, and there are no weights in ");
}

TEST(a_disk_without_room_is_warned_of) {
    char *run = kept_folder();
    run_command(fixture.output, sizeof fixture.output,
                "unshare -rm sh -c 'mount -t tmpfs -o size=40k none %s || exit; exec %s -m %s %s --output-dir %s -b 3 "
                "--max-steps 1 --val-ratio 0'",
                run, fixture.program, fixture.manifest, gpt_model_options, run);
    if (strstr(fixture.output, "unshare: ") || strstr(fixture.output, "mount: "))
        print_message("SKIPPED: a full tmpfs: it cannot be mounted here\n");
    else
        assert_contains(fixture.output, "(the newest, the best, the one being written), so that nothing can be kept: "
                                        "make room, or give an --output-dir on another disk");
}

TEST(a_run_costs_what_its_own_machine_does) {
    char *run = kept_folder(), *prices = kept_path(run, "prices.csv"), *options[4];
    write_text(prices, "card,price,currency\nh200,7200,CHF\ncpu,3600,CHF\n");
    options[0] = xstrdup("--max-steps 2 --val-ratio 0 --price 'h200=7200 EUR,cpu=3600 EUR'");
    options[1] = xformat("--max-steps 3 --val-ratio 0 --resume auto --prices %s", prices);
    options[2] = xformat("--max-steps 4 --val-ratio 0 --resume auto --prices %s", prices);
    options[3] = xstrdup("--max-steps 5 --val-ratio 0 --resume auto --price h200=7200");
    for (int i = 0; i < 4; i++) {
        fixture_must_train(run, options[i]);
        const char *cost = strstr(fixture.output, "[Done] cost: ");
        assert_true((cost != NULL) == (i < 3));
        if (cost) assert_contains(cost, i ? " CHF in this part\n" : " EUR\n"); /* another currency before */
        free(options[i]);
    }
    assert_contains(fixture.output, "warning: --price: there is no price of cpu, so no cost is shown\n");
    options[0] = xformat("--max-steps 6 --price 1 --prices %s", prices);
    assert_int_equal(fixture_train(run, "%s", options[0]), 2);
    assert_contains(fixture.output, "--price and --prices exclude each other: give one of them");
    free(options[0]);
}

TEST(the_plan_respects_a_memory_limit) {
    skip_under_sanitizer("a limit of addresses"); /* its shadow alone is larger */
    int status = 1, planned = 0;
    for (int megabytes = 80; status; megabytes += 20) {
        char *run = kept_folder();
        assert_true(megabytes < 600);
        status = run_command(fixture.output, sizeof fixture.output,
                             "ulimit -v %d; exec %s -m %s %s --output-dir %s -b 3 --threads 2 --num-workers 1 "
                             "--max-steps 1 --val-ratio 0 --device cpu",
                             megabytes << 10, fixture.program, fixture.manifest, gpt_model_options, run);
        if (status > 1 && status != 127) /* 127: the dynamic linker had no memory for the libraries */
            fail_msg("%d MiB: status %d: %s", megabytes, status, fixture.output);
        planned += strstr(fixture.output, " are available under ulimit -v (134 MB more are kept free); ") != NULL;
    }
    assert_true(planned > 3);
}

/* The base checkpoint has a smaller vocabulary, whose rows are frozen, and a tensor that the model lacks. */
TEST(a_base_checkpoint_is_resized_frozen_and_carried_over) {
    char *small = kept_folder(), *run = kept_folder(), *base = kept_path(small, "base.safetensors");
    TensorFile file, result;
    fixture_must_train(small, "--max-steps 2 --val-ratio 0");
    char *path = keep(path_through(small, "last/model.safetensors"));
    assert_true(tensor_file_open(path, &file, &error));
    TensorToWrite tensors[64];
    float extra[6] = {1, 2, 3, 4, 5, 6};
    int n = 0;
    for (; n < file.n_tensors; n++) {
        const StoredTensor *t = &file.tensors[n];
        tensors[n] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[n].dims, t->dims, sizeof t->dims);
        if (!strncmp(t->name, "text_embedding", 14) || !strncmp(t->name, "text_head", 9))
            tensors[n].dims[0] = 31; /* V = 30 */
    }
    tensors[n++] =
        (TensorToWrite){.name = "conditioning_encoder.extra", .dtype = "F32", .rank = 2, .dims = {2, 3}, .data = extra};
    assert_true(safetensors_write(base, tensors, n, NULL, NULL, 0, &error));
    fixture_must_train(run, kept_format("--max-steps 4 --val-ratio 0 --base-checkpoint %s", base));
    assert_contains(fixture.output, "3 resized, 1 carried");
    assert_contains(fixture.output, "rows 0..29");
    path = keep(path_through(run, "last/model.safetensors"));
    assert_true(tensor_file_open(path, &result, &error));
    const StoredTensor *carried = tensor_file_find(&result, "conditioning_encoder.extra");
    assert_non_null(carried);
    assert_memory_equal(carried->data, extra, sizeof extra);
    const char *const frozen[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
    for (int i = 0; i < 3; i++) {
        const StoredTensor *was = tensor_file_find(&file, frozen[i]), *is = tensor_file_find(&result, frozen[i]);
        size_t row = was->bytes / (size_t)was->dims[0];
        assert_memory_equal(is->data, was->data, 30 * row);
        assert_true(memcmp((const char *)is->data + 31 * row, (const char *)was->data + 31 * row, row) != 0);
    }
    tensor_file_close(&file);
    tensor_file_close(&result);
}

/* From config.json, or without it from shapes, which do not tell the number of heads. */
TEST(the_size_is_that_of_the_base_checkpoint) {
    char *run = kept_folder(), *other = kept_folder(), *alone = kept_path(other, "alone.safetensors");
    const char *base = fixture_reference_run(), *same = "--number-text-tokens 50 --epochs 1000 --threads 2 -b 4 -g 2 "
                                                        "--max-steps 1 --val-ratio 0 --val-interval 0 --device cpu";
    must_run("cp %s/last/model.safetensors %s", base, alone);
    const char *program = program_at("train_gpt");
    must_run("%s -m %s/manifest.jsonl %s --base-checkpoint %s/last -o %s/run", program, fixture.data, same, base, run);
    assert_contains(fixture.output, "from its checkpoint: model-dim 64, layers 2, heads 4, max-text-tokens 40, "
                                    "max-mel-tokens 80, number-mel-codes 42\n");
    must_run("%s -m %s/manifest.jsonl %s --base-checkpoint %s --heads 4 -o %s/run", program, fixture.data, same, alone,
             other);
    assert_contains(fixture.output, "from the shapes of its tensors: model-dim 64, layers 2, max-text-tokens 40, "
                                    "max-mel-tokens 80, number-mel-codes 42\n");
    char *a = kept_path(run, "run"), *b = kept_path(other, "run");
    assert_same_result(a, b);
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "%s -m %s/manifest.jsonl %s --base-checkpoint %s -o %s/third", program, fixture.data,
                                 same, alone, other),
                     2);
    assert_contains(fixture.output, "does not follow from the shapes of its tensors: give --heads");
    assert_int_equal(fixture_train(run, "--max-steps 2 --base-checkpoint %s --max-mel-tokens 70", alone), 2);
    assert_contains(fixture.output, "--max-mel-tokens 70 contradicts ");
    assert_contains(fixture.output, "which has max-mel-tokens 80: leave it out");
}

TEST(a_nan_stops_the_run_and_names_the_samples) {
    char *run = kept_folder(), *base = gpt_write_overflowing_base(fixture_reference_run(), run);
    char *stopping = kept_path(run, "a"), *skipping = kept_path(run, "b");
    assert_int_equal(fixture_train(stopping, "--max-steps 3 --val-ratio 0 --base-checkpoint %s", base), 1);
    assert_contains(fixture.output, "step 1: the loss or its gradient is not finite");
    assert_contains(fixture.output, "utterance_");
    assert_int_equal(fixture_train(skipping, "--max-steps 3 --val-ratio 0 --skip-nonfinite --base-checkpoint %s", base),
                     1);
    assert_contains(fixture.output, "3 skipped so far");
    assert_contains(fixture.output, "all 3 steps were skipped");
}

TEST(a_warmup_longer_than_the_run_is_warned_of) {
    char *run = kept_folder();
    fixture_must_train(run, "--max-steps 4 --warmup-steps 4 --learning-rate 1e-3 --val-ratio 0");
    assert_contains(fixture.output,
                    "--warmup-steps 4 with 4 steps: the learning rate of 0.001 is never reached; the last "
                    "step has 0.00075. A tenth of the steps is usual: --warmup-steps 1");
    run = kept_folder();
    fixture_must_train(run, "--max-steps 4 --warmup-steps 3 --val-ratio 0");
    assert_null(strstr(fixture.output, "is never reached"));
}

TEST(an_empty_batch_is_refused) {
    assert_int_equal(fixture_train("nowhere", "-b 0"), 2);
    assert_contains(fixture.output, "-b 0: expected at least 1 sequence per micro-batch");
    assert_int_equal(fixture_train("nowhere", "-b 2 -g 0"), 2);
    assert_contains(fixture.output, "-g 0: expected at least 1 micro-batch");
}

/* Before the lines of the manifest are checked, and without a folder for the run. */
TEST(weights_that_are_not_there_are_said_first) {
    char *folder = kept_folder(), *list = kept_path(folder, "bad.jsonl"), *run = kept_path(folder, "run");
    write_text(list, "{}\n");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s -m %s --base-checkpoint nofile.pth -o %s",
                                 fixture.program, list, run),
                     1);
    assert_string_equal(fixture.output, "train_gpt: --base-checkpoint nofile.pth: No such file or directory\n");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "%s -m %s --val-manifest %s/gone.jsonl::am -o %s", fixture.program, list, folder, run),
                     1);
    assert_contains(fixture.output, "/gone.jsonl::am: No such file or directory\n");
    assert_int_equal(access(run, F_OK), -1);
}

TEST(the_debug_dump_has_every_gradient) {
    char *run = kept_folder(), *path = kept_path(run, "dump.safetensors"), *options;
    TensorFile file;
    char *leftover = kept_format("%s.0123456789abcdef.partial", path); /* left by a killed run */
    write_text(leftover, "half");
    options = kept_format("--max-steps 1 --val-ratio 0 --debug-dump %s", path);
    fixture_must_train(run, options);
    assert_int_not_equal(access(leftover, F_OK), 0);
    assert_true(tensor_file_open(path, &file, &error));
    assert_dumps_documented(&file, 1, "### Dump of train_gpt");
    char *checkpoint = kept_path(run, "last"), *log = kept_path(run, "log.jsonl");
    assert_checkpoint_documented(checkpoint);
    assert_log_documented(log, (const char *const[]){"text_loss", "mel_loss", "text_top1", "mel_top1", NULL});
    int gradients = 0;
    for (int i = 0; i < file.n_tensors; i++) gradients += !strncmp(file.tensors[i].name, "grad.", 5);
    assert_int_equal(gradients, 2 * 12 + 13);
    const char *const names[] = {"sum.text_loss",
                                 "sum.mel_loss",
                                 "loss",
                                 "grad_norm",
                                 "micro0.batch.text_ids",
                                 "micro1.batch.mel_targets",
                                 "micro1.block.1.output"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!tensor_file_find(&file, names[i])) fail_msg("the dump has no %s", names[i]);
    tensor_file_close(&file);
}

TEST(other_ways_to_form_batches_work) {
    const char *const ways[] = {"--token-budget 300 -b 0", "--bucketing off", "--loss-norm batch", "--grad-clip 0"};
    for (int i = 0; i < 4; i++) {
        char *run = kept_folder(), *options = kept_format("--max-steps 6 --val-ratio 0 %s", ways[i]);
        fixture_must_train(run, options);
    }
}

/* ---- bad input ---- */

static void expect_refusal(const char *options, const char *message) {
    char *run = kept_folder();
    int status = run_command(fixture.output, sizeof fixture.output, "%s %s --output-dir %s %s", fixture.program,
                             gpt_model_options, run, options);
    if (status != 1 && status != 2) fail_msg("exit status %d:\n%s", status, fixture.output);
    assert_contains(fixture.output, message);
}

/* Writes a copy of the manifest with one line edited by sed. Returns the path of the copy. */
static char *spoiled_manifest(int line, const char *sed) {
    static int count;
    char *path = kept_format("%s/spoiled%d.jsonl", fixture.data, count++);
    int status =
        run_command(fixture.output, sizeof fixture.output, "sed '%d%s' %s > %s", line, sed, fixture.manifest, path);
    assert_int_equal(status, 0);
    return path;
}

static void expect_bad_line(int line, const char *sed, const char *message) {
    char *manifest = spoiled_manifest(line, sed), *options = kept_format("-m %s", manifest),
         *expected = kept_format("%s:%d", manifest, line);
    expect_refusal(options, message);
    assert_contains(fixture.output, expected);
}

TEST(bad_manifests_are_reported_with_their_line) {
    expect_bad_line(7, "s/c6.npy/gone.npy/", "codes_path gone.npy: cannot open: No such file or directory");
    expect_bad_line(3, "s/\"id\"/id/", ":3:");
    expect_bad_line(4, "s/\"text_len\": [0-9]*/\"text_len\": 0/", "the text is empty");
    expect_bad_line(5, "s/\"text_len\": [0-9]*/\"text_len\": 41/", "takes at most 40");
    expect_bad_line(6, "s/\"code_len\": [0-9]*/\"code_len\": 5/", "the manifest says 5");
    expect_bad_line(2, "s/, \"codes_path\": \"[a-z0-9.]*\"//", "codes_path is missing");
}

/* Line 3 has more codes than its duration accounts for, and line 5 has no duration. */
TEST(padded_codes_are_reported_with_the_option_that_cuts_them) {
    char *good = fixture.manifest, *path = kept_path(fixture.data, "padded.jsonl");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && sed -e '3s/duration\": [0-9.]*/duration\": 0.1/' "
                                 "-e '5s/duration\": [0-9.]*/duration\": null/' manifest.jsonl >padded.jsonl",
                                 fixture.data),
                     0);
    fixture.manifest = path;
    assert_int_equal(fixture_train("/nowhere", "--dry-run"), 0);
    assert_contains(fixture.output, "1 lines have more or fewer codes than their duration says");
    assert_contains(fixture.output, "; 0 repaired (--repair-codes cuts them)\n");
    assert_contains(fixture.output, "train: 1 lines have no duration: their padding cannot be checked\n");
    assert_int_equal(fixture_train("/nowhere", "--dry-run --repair-codes"), 0);
    assert_contains(fixture.output, "; 1 repaired\n");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && sed -i '3s/duration\": [0-9.]*/duration\": 9/' padded.jsonl", fixture.data),
                     0);
    assert_int_equal(fixture_train("/nowhere", "--dry-run --repair-codes"), 0); /* missing codes cannot be repaired */
    assert_contains(fixture.output, "; 0 repaired\n");
    fixture.manifest = good;
    assert_int_equal(fixture_train("/nowhere", "--dry-run"), 0);
    assert_null(strstr(fixture.output, "no duration"));
}

TEST(bad_arrays_are_reported) {
    int32_t large[20];
    float nan[32 * GPT_D_MODEL] = {0};
    for (int i = 0; i < 20; i++) large[i] = i == 11 ? GPT_CODES : 1;
    nan[77] = (float)NAN;
    write_npy(fixture.data, "large.npy", "<i4", large, 1, 20, 0);
    write_npy(fixture.data, "nan.npy", "<f4", nan, 2, 32, GPT_D_MODEL);
    char *object = kept_path(fixture.data, "object.npy"), *cut = kept_path(fixture.data, "cut.npy");
    char header[128] = "\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (20,), }";
    memset(header + strlen(header + 10) + 10, ' ', 30);
    header[79] = '\n';
    write_bytes(object, header, 80 + 20);
    int status = run_command(fixture.output, sizeof fixture.output, "head -c 150 %s/large.npy > %s", fixture.data, cut);
    assert_int_equal(status, 0);
    expect_bad_line(8, "s/c7.npy\", \"code_len\": [0-9]*/large.npy\", \"code_len\": 20/",
                    "element 11 is 40, expected 0 to 39");
    expect_bad_line(9, "s/k8.npy/nan.npy/", "element 77 is not finite");
    expect_bad_line(10, "s/c9.npy\", \"code_len\": [0-9]*/object.npy\", \"code_len\": 20/", "Python objects");
    expect_bad_line(11, "s/c10.npy\", \"code_len\": [0-9]*/cut.npy\", \"code_len\": 20/", "is truncated");
}

TEST(bad_options_are_reported) {
    char *yaml = kept_path(fixture.data, "bad.yaml"),
         *options = kept_format("-m %s --config %s", fixture.manifest, yaml);
    write_text(yaml, "epochs: 3\ngrad-acumulation: 2\n");
    expect_refusal(options, "bad.yaml:2: unknown key 'grad-acumulation'; did you mean 'grad-accumulation'?");
    write_text(yaml, "gpt:\n  layers: many\n");
    expect_refusal(options, "bad.yaml:2: layers: expected an integer, found 'many'");
    expect_refusal("", "no data: give --manifest PATH");
    expect_refusal("-m nowhere.jsonl", "nowhere.jsonl");
    options = kept_format("-m %s --heads 7", fixture.manifest);
    expect_refusal(options, "heads");
    options = kept_format("-m %s --debug-dump %s/nowhere/dump", fixture.manifest, fixture.data);
    expect_refusal(options, "nowhere: No such file or directory");
    options = kept_format("-m %s::am --debug-dump %s", fixture.manifest, fixture.manifest);
    expect_refusal(options, "is read by this run (--manifest) and is not replaced");
    write_text(yaml, "seed: 1\n");
    options = kept_format("-m %s --config %s --debug-dump %s", fixture.manifest, yaml, yaml);
    expect_refusal(options, "is read by this run (--config) and is not replaced");
}

int main(void) { return tests_run(gpt_fixture_open, NULL); }
