/* Chooses the checkpoint to resume from, and refuses damaged ones. */
#include "base/file.h"
#include "checkpoint/folder.h"
#include "tests/checkpoint/rig.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static Error error;

/* ---- which checkpoint ---- */

static char *resolve_directory;
static void resolve_or_die(void *resume) { puts(rig_resolve(resolve_directory, resume)); }

static void assert_refused(const char *resume, const char *message) {
    char output[2048], before[4096], after[4096];
    run_command(before, sizeof before, "ls -lAR --full-time '%s'", resolve_directory);
    assert_int_equal(run_function(output, sizeof output, resolve_or_die, (void *)(uintptr_t)resume), 1);
    assert_contains(output, message);
    run_command(after, sizeof after, "ls -lAR --full-time '%s'", resolve_directory);
    assert_string_equal(after, before); /* nothing was touched */
}

TEST(resume_finds_the_checkpoint_that_is_meant) {
    char *directory = resolve_directory = kept_folder();
    Checkpointer *c = rig_checkpointer(directory, 3);
    for (int64_t step = 1; step <= 3; step++) rig_save_good(c, step, 1, step == 2);
    checkpointer_close(c);
    char *one = kept_path(directory, "step_00000001"), *three = kept_path(directory, "step_00000003");
    assert_string_equal(rig_resolve("/nowhere", one), one);
    assert_string_equal(rig_resolve("/nowhere", kept_path(one, "state.json")), one);
    assert_null(rig_resolve("/nowhere", "auto"));
    assert_null(rig_resolve(kept_folder(), "auto"));
    assert_string_equal(rig_resolve(directory, "auto"), three);
    unlink(kept_path(directory, "last"));
    assert_string_equal(rig_resolve(directory, "auto"), three);
    make_link("step_00000001", kept_path(directory, "last")); /* a newer one is whole */
    assert_string_equal(rig_resolve(directory, "auto"), three);
    assert_refused("/nowhere", "--resume /nowhere: no checkpoint: cannot read its state.json");
    assert_refused(directory, "/last?");
}

TEST(resume_stops_at_damaged_checkpoints) {
    char output[256];
    char *directory = resolve_directory = kept_folder(), *message;
    Checkpointer *c = rig_checkpointer(directory, 3);
    for (int64_t step = 1; step <= 3; step++) rig_save_good(c, step, 1, step == 2);
    checkpointer_close(c);
    char *one = kept_path(directory, "step_00000001"), *three = kept_path(directory, "step_00000003");
    char *state = kept_path(three, "state.json"), *good = kept_text(state);
    unlink(kept_path(three, "optimizer.safetensors"));
    assert_refused(three, "cannot read its optimizer.safetensors: No such file");
    assert_refused("auto", "step_00000003 cannot be used: cannot read its optimizer.safetensors: No such file or "
                           "directory. Nothing was changed; move it away to go on from step_00000002");
    write_text(kept_path(three, "optimizer.safetensors"), " ");
    write_text(state, "{\"format\": \"another\"}");
    assert_refused(three, "does not belong to a checkpoint of this program");
    assert_refused("auto", "step_00000003 cannot be used: state.json does not belong to a checkpoint of this program");
    write_text(state, "{\n\"format\": \"another\"");
    assert_refused("auto", "step_00000003 cannot be used: state.json, line 2, column");
    write_text(state, "%s", good);
    char *digit = strstr(good, "\"epoch\": ") + strlen("\"epoch\": ");
    *digit = '7';
    write_text(state, "%s", good);
    assert_refused("auto", "step_00000003 cannot be used: state.json is damaged");
    unlink(state);
    assert_int_equal(mkfifo(state, 0666), 0);
    assert_refused("auto", "cannot read its state.json: is a FIFO, not a regular file");
    assert_int_equal(run_command(output, sizeof output, "rm -r '%s'", three), 0);
    assert_string_equal(rig_resolve(directory, "auto"), kept_path(directory, "step_00000002"));
    assert_int_equal(run_command(output, sizeof output, "mv '%s' '%s'", one, three), 0); /* of another step */
    assert_refused("auto", "step_00000003 cannot be used: its state.json is of step 1");
    assert_int_equal(run_command(output, sizeof output, "rm -r '%s' '%s/step_00000002'", three, directory), 0);
    message = kept_format("%s/last names step_00000003, and no checkpoint is there. Nothing was changed", directory);
    assert_refused("auto", message);
}

/* Whoever may not read the directory does not know that nothing is there. */
static void resolve_without_rights(void *directory) {
    if (setgid(65534) || setuid(65534)) die("cannot give up rights");
    printf("%s\n", checkpoint_resolve(directory, "auto") ? "a run" : "no run");
}

TEST(a_directory_that_cannot_be_read_is_no_empty_one) {
    char *directory = kept_folder(), output[1024];
    if (getuid()) skip();
    assert_int_equal(chmod(directory, 0), 0);
    assert_int_equal(run_function(output, sizeof output, resolve_without_rights, directory), 1);
    assert_contains(output, "cannot read the directory");
    chmod(directory, 0777);
}

/* A run that went back to an earlier step is newer than the steps that it left. */
TEST(the_newest_is_the_one_written_last) {
    char *directory = kept_folder();
    Checkpointer *c = rig_checkpointer(directory, 3);
    for (int64_t step = 2; step <= 8; step += 2) rig_save_good(c, step, 1, step == 4 || step == 8);
    checkpointer_close(c);
    rig_assert_listing(directory, "best last step_00000004 step_00000006 step_00000008 ");
    c = rig_checkpointer(directory, 3);
    TrainState state = rig_read_state(kept_path(directory, "step_00000004"));
    checkpointer_resume(c, &state);
    assert_int_equal(rig_linked(directory, "best"), 8); /* of the newest, as long as it is that */
    rig_best_step = state.best_step;
    rig_save_good(c, 5, 2, false);
    assert_string_equal(rig_resolve(directory, "auto"), kept_path(directory, "step_00000005"));
    assert_int_equal(rig_linked(directory, "best"), 4);
    assert_int_equal(rig_linked(directory, "last"), 5);
    rig_save_good(c, 6, 2, false);
    assert_string_equal(rig_resolve(directory, "auto"), kept_path(directory, "step_00000006"));
    rig_assert_listing(directory, "best last step_00000004 step_00000005 step_00000006 step_00000008 ");
    rig_save_good(c, 7, 2, false);
    rig_assert_listing(directory, "best last step_00000004 step_00000005 step_00000006 step_00000007 ");
    checkpointer_close(c);
}

static void resume_from(const char *directory, const char *name) {
    TrainState state = rig_read_state(kept_path(directory, name));
    Checkpointer *c = checkpointer_open(directory, 3);
    checkpointer_resume(c, &state);
    printf("best: %lld\n", (long long)state.best_step);
    checkpointer_close(c);
}

static void resume_again(void *directory) { resume_from(directory, "step_00000003"); }
static void resume_last(void *directory) { resume_from(directory, "last"); }

TEST(the_links_are_mended_from_the_newest_state) {
    char *directory = kept_folder(), output[1024];
    Checkpointer *c = rig_checkpointer(directory, 9);
    for (int64_t step = 1; step <= 3; step++) rig_save_good(c, step, 1, step < 3);
    checkpointer_close(c);
    for (int i = 0; i < 2; i++) {
        unlink(kept_path(directory, "best"));
        unlink(kept_path(directory, "last"));
        make_link(i ? "step_00000001" : "step_00000009", kept_path(directory, "best"));
        if (i) make_link("step_00000002", kept_path(directory, "last"));
        Error reason;
        char *found;
        assert_true(checkpoint_best(directory, &found, &reason)); /* whatever the links say */
        assert_string_equal(keep(found), kept_path(directory, "step_00000002"));
        assert_int_equal(run_function(output, sizeof output, resume_again, directory), 0);
        assert_contains(output, i ? "the link best was step_00000001 and is now step_00000002"
                                  : "the link best was step_00000009 and is now step_00000002");
        assert_contains(output, i ? "the link last was step_00000002 and is now step_00000003, the newest"
                                  : "the link last was missing and is now step_00000003, the newest");
        assert_contains(output, "best: 2");
        assert_int_equal(rig_linked(directory, "best"), 2);
        assert_int_equal(rig_linked(directory, "last"), 3);
    }
    assert_int_equal(run_command(output, sizeof output, "rm -r '%s/step_00000002'", directory), 0);
    char *best;
    assert_false(checkpoint_best(directory, &best, &error));
    assert_contains(error.text, "step_00000003 says that the best weights are of step 2: ");
    assert_int_equal(run_function(output, sizeof output, resume_again, directory), 0);
    assert_contains(output, "the best weights so far, of step 2, are not in");
    assert_contains(output, "best: 0");
    assert_int_equal(rig_linked(directory, "best"), 0);
}

/* ---- copies ---- */

static void open_and_close(void *directory) { checkpointer_close(checkpointer_open(directory, 3)); }
static void begin_again(void *directory) { checkpointer_begin(checkpointer_open(directory, 3)); }

/* Returns a copy of a run of steps 1 to 3, of which 2 is the best, made by a tool that follows links. */
static char *copied_run(const char *command) {
    char *directory = kept_folder(), *copy = kept_path(kept_folder(), "run"), output[1024];
    Checkpointer *c = rig_checkpointer(directory, 3);
    rig_best_step = 0;
    for (int64_t step = 1; step <= 3; step++) rig_save_good(c, step, 1, step == 2);
    checkpointer_close(c);
    int status = run_command(output, sizeof output,
                             "mkdir %s && cp -r %s/step_* %s && cp -r %s/step_00000003 %s/last && cp -r "
                             "%s/step_00000002 %s/best && cd %s && %s",
                             copy, directory, copy, copy, copy, copy, copy, copy, command);
    if (status) fail_msg("%s", output);
    return copy;
}

static char *best_of(const char *directory) {
    char *found;
    if (!checkpoint_best(directory, &found, &error)) fail_msg("%s", error.text);
    assert_non_null(found);
    return keep(found);
}

/* Links take the place of the folders, which stay under other names, and are never deleted. */
TEST(copies_make_way_for_links_and_stay) {
    char *directory = copied_run("mkdir last.copy.1"), output[2048];
    uint64_t seed;
    assert_string_equal(rig_resolve(directory, "auto"), kept_path(directory, "step_00000003"));
    assert_string_equal(best_of(directory), kept_path(directory, "step_00000002"));
    assert_string_equal(rig_resolve(directory, kept_path(directory, "last")), kept_path(directory, "last"));
    assert_int_equal(rig_check_whole(kept_path(directory, "last"), &seed), 3);
    rig_assert_listing(directory,
                       "best last last.copy.1 step_00000001 step_00000002 step_00000003 "); /* reading moves nothing */
    assert_int_equal(run_function(output, sizeof output, resume_again, directory), 0);
    assert_contains(output, "/last was a folder, a copy of a checkpoint, where the link belongs: it is kept as ");
    assert_contains(output, "/last.copy.2\n");
    assert_contains(output, "[Resume] the link last was a folder and is now step_00000003, the newest");
    assert_contains(output, "[Resume] the link best was a folder and is now step_00000002, as the newest checkpoint");
    assert_int_equal(rig_linked(directory, "best"), 2);
    assert_int_equal(rig_linked(directory, "last"), 3);
    Checkpointer *c = rig_checkpointer(directory, 1);
    TrainState state = rig_read_state(kept_path(directory, "last"));
    assert_true(checkpointer_resume(c, &state));
    rig_save_good(c, 4, 1, true);
    checkpointer_close(c);
    rig_assert_listing(directory, "best best.copy.1 last last.copy.1 last.copy.2 step_00000004 ");
    assert_int_equal(rig_check_whole(kept_path(directory, "best.copy.1"), &seed), 2);
    assert_int_equal(rig_check_whole(kept_path(directory, "last.copy.2"), &seed), 3);
}

/* They are all that is left of their checkpoints, and become those. */
TEST(copies_alone_are_a_run) {
    char *directory = copied_run("rm -r step_*"), output[2048];
    uint64_t seed;
    assert_string_equal(rig_resolve(directory, "auto"), kept_path(directory, "last"));
    assert_string_equal(best_of(directory), kept_path(directory, "best"));
    rig_assert_listing(directory, "best last "); /* reading moves nothing: the disk may be read-only */
    assert_int_equal(run_function(output, sizeof output, begin_again, directory), 1);
    assert_contains(output, "already holds a run: give --resume auto");
    assert_int_equal(run_function(output, sizeof output, resume_last, directory), 0);
    assert_contains(output, "/last, a copy of a checkpoint, is now ");
    assert_contains(output, "best: 2");
    rig_assert_listing(directory, "best last step_00000002 step_00000003 ");
    assert_int_equal(rig_linked(directory, "best"), 2);
    assert_int_equal(rig_linked(directory, "last"), 3);
    assert_int_equal(rig_check_whole(kept_path(directory, "step_00000002"), &seed), 2);
    assert_int_equal(rig_step_to_resume(directory, &seed), 3);
}

/* The best weights may be there without the rest, and the newest checkpoint without the others. */
TEST(a_part_of_a_copied_run_is_read) {
    char *weights = copied_run("rm -r step_* last best/*.json best/optimizer*"), output[2048];
    assert_string_equal(best_of(weights), kept_path(weights, "best"));
    char *newest = copied_run("rm -r step_00000002 step_00000003");
    assert_string_equal(rig_resolve(newest, "auto"), kept_path(newest, "last"));
    assert_string_equal(best_of(newest), kept_path(newest, "best"));
    char *damaged = resolve_directory = copied_run("rm -r step_* best last/optimizer*");
    assert_refused("auto", "/last cannot be used: cannot read its optimizer.safetensors: No such file or directory. "
                           "Nothing was changed; move it away to begin anew");
    resolve_directory = copied_run("rm last/optimizer*"); /* the checkpoint itself is whole */
    assert_string_equal(rig_resolve(resolve_directory, "auto"), kept_path(resolve_directory, "step_00000003"));
    assert_int_equal(run_command(output, sizeof output, "mkdir %s/best && echo mine >%s/best/notes", damaged, damaged),
                     0);
    assert_int_equal(run_function(output, sizeof output, open_and_close, damaged), 1);
    assert_contains(output, "/best is in the way of the link best to a checkpoint; move it away");
}

/* ---- paths through small files ---- */

TEST(paths_lead_through_small_files) {
    static const char *const paths[][2] = {{"run/last", "run/step_00000012"},
                                           {"run/last/", "run/step_00000012/"},
                                           {"./run/last/state.json", "./run/step_00000012/state.json"},
                                           {"last/runs/best/a/b", "last/runs/step_123456789/a/b"},
                                           {"run/best", "run/best"},
                                           {"run/lasting/last", "run/lasting/last"},
                                           {"run/other", "run/other"},
                                           {"empty/last", "empty/last"},
                                           {"text/last", "text/last"},
                                           {"long/last", "long/last"},
                                           {"two/last", "two/last"},
                                           {"folder/last", "folder/last"},
                                           {"nowhere/last", "nowhere/last"},
                                           {"", ""},
                                           {"/", "/"}};
    char *directory = kept_folder(), *here = keep(getcwd(NULL, 0)), output[1024];
    int status = run_command(
        output, sizeof output,
        "cd %s && mkdir run run/lasting last last/runs empty text long two folder folder/last && echo step_00000012 "
        ">run/last && printf step_123456789 >last/runs/best && echo step_00000012 >run/other && : >empty/last && "
        "echo my last words >text/last && printf 'step_%%060d\n' 1 >long/last && printf 'step_00000001\nx' >two/last",
        directory);
    if (status) fail_msg("%s", output);
    assert_int_equal(chdir(directory), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_string_equal(keep(checkpoint_follow(paths[i][0])), paths[i][1]);
    StepName target;
    folder_link("run", "last", target);
    assert_string_equal(target, "step_00000012");
    assert_false(checkpoint_exists("run/last")); /* as a link to nothing */
    make_directories("run/step_00000012");
    write_text("run/step_00000012/model.safetensors", "weights");
    assert_string_equal(keep(checkpoint_weights("run/last")), "run/step_00000012/model.safetensors");
    assert_string_equal(keep(checkpoint_folder("run/last")), "run/step_00000012");
    assert_string_equal(keep(checkpoint_folder("run/last//")), "run/step_00000012");
    assert_string_equal(keep(checkpoint_folder("run/last/model.safetensors")), "run/step_00000012");
    assert_true(checkpoint_exists("run/last") && checkpoint_exists("run/last/model.safetensors"));
    assert_false(checkpoint_exists("run/last/state.json"));
    assert_int_equal(chdir(here), 0);
}

/* Expects a refusal: the damaged step would be in the way of the run later. */
TEST(no_run_goes_on_before_a_damaged_step) {
    char *directory = kept_folder(), output[1024];
    Checkpointer *c = rig_checkpointer(directory, 9);
    for (int64_t step = 3; step <= 5; step++) rig_save_good(c, step, 1, false);
    checkpointer_close(c);
    write_text(kept_path(directory, "step_00000005/state.json"), "{}");
    assert_int_equal(run_function(output, sizeof output, resume_again, directory), 1);
    assert_contains(output, "step_00000005 cannot be used: state.json");
    assert_contains(output, "Nothing was changed; move it away first");
    assert_int_equal(rig_linked(directory, "last"), 5);
}

TEST(leftovers_of_earlier_versions_go) {
    char *directory = kept_folder();
    make_directories(kept_path(directory, "step_00000003.partial"));
    write_text(kept_path(directory, "step_00000003.partial/model.safetensors.partial"), "half");
    Checkpointer *c = rig_checkpointer(directory, 9);
    rig_assert_listing(directory, "");
    rig_save_good(c, 3, 1, false);
    checkpointer_close(c);
}

/* Resume reports it before there is anything to save, and removes the links of a killed run. */
TEST(files_in_the_way_of_the_links_stay) {
    static const char *const names[] = {"last.partial", "best.partial", "last", "best"};
    char *directory = kept_folder(), output[1024];
    for (int i = 0; i < 4; i++)
        for (int link = 0; link < (i < 2 ? 2 : 1); link++) {
            char *path = kept_path(directory, names[i]);
            if (link)
                make_link("notes", path);
            else
                write_text(path, "mine");
            assert_int_equal(run_function(output, sizeof output, open_and_close, directory), 1);
            assert_contains(output, names[i]);
            assert_contains(output, "is in the way of the link");
            rig_assert_listing(directory, kept_format("%s ", names[i]));
            assert_int_equal(unlink(path), 0);
        }
    Checkpointer *c = rig_checkpointer(directory, 3);
    write_text(kept_path(directory, "last.partial"), "mine");
    rig_save(c, 3, 1, false);
    assert_false(checkpointer_wait(c, &error));
    assert_contains(error.text, "last.partial is in the way");
    checkpointer_close(c);
    char *text = kept_text(kept_path(directory, "last.partial"));
    assert_string_equal(text, "mine");
    assert_int_equal(unlink(kept_path(directory, "last.partial")), 0);
    make_link("step_00000003", kept_path(directory, "last.partial"));
    open_and_close(directory);
    rig_assert_listing(directory, "step_00000003 ");
}

static void resume_elsewhere(void *directory) {
    TrainState state = rig_read_state(kept_path(directory, "step_00000003"));
    state.seconds += 1;
    checkpointer_resume(checkpointer_open(directory, 3), &state);
}

TEST(a_directory_holds_one_run) {
    char *directory = kept_folder(), output[1024];
    Checkpointer *c = rig_checkpointer(directory, 3);
    checkpointer_begin(c);
    rig_save_good(c, 3, 1, false);
    checkpointer_close(c);
    assert_int_equal(run_function(output, sizeof output, begin_again, directory), 1);
    assert_contains(output, "already holds a run: give --resume auto");
    assert_int_equal(run_function(output, sizeof output, resume_elsewhere, directory), 1);
    assert_contains(output, "holds another run, without this checkpoint of step 3; give another --output-dir");
    write_text(kept_path(directory, "step_00000003/state.json"), "{}");
    assert_int_equal(run_function(output, sizeof output, begin_again, directory), 1);
    assert_contains(output, "already holds a run");
}

/* ---- damage ---- */

static bool loads(const char *path, Error *error) {
    TrainState state = {0};
    CarriedTensors other;
    if (!checkpoint_load(path, &(CheckpointBuffers){&rig_table, rig_weights, rig_m, rig_v}, &state, &other, error))
        return false;
    free(state.options_json);
    carried_close(&other);
    return true;
}

TEST(every_flipped_bit_is_refused) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "state.json"};
    char *directory = kept_folder(), *path = kept_path(directory, "step_00000001");
    Checkpointer *c = rig_checkpointer(directory, 3);
    rig_save_good(c, 1, 1, false);
    checkpointer_close(c);
    for (int i = 0; i < 3; i++) {
        char *name = kept_path(path, names[i]), *bytes;
        size_t size;
        assert_true(read_file(name, &bytes, &size, &error));
        int file = open(name, O_WRONLY);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            char flipped = (char)(bytes[bit / 8] ^ 1 << bit % 8);
            assert_int_equal(pwrite(file, &flipped, 1, (off_t)(bit / 8)), 1);
            if (loads(path, &error)) fail_msg("%s: bit %zu is flipped, and it loads", names[i], bit);
            if (!strstr(error.text, names[i]) && !strstr(error.text, "state.json"))
                fail_msg("%s: bit %zu: not named: %s", names[i], bit, error.text);
            assert_int_equal(pwrite(file, bytes + bit / 8, 1, (off_t)(bit / 8)), 1);
        }
        assert_true(loads(path, &error));
        close(file);
        free(bytes);
    }
}

/* state.json with a part of it replaced, and the checksum of what it is now. */
static char *change_state(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from), *end = strstr(text, ",\n  \"xxh3_64\"");
    assert_true(at && at < end);
    char *body =
        xformat("%.*s%s%.*s", (int)(at - text), text, to, (int)(end - at - (ptrdiff_t)strlen(from)), at + strlen(from));
    char *changed =
        xformat("%s,\n  \"xxh3_64\": \"%016llx\"\n}", body, (unsigned long long)checksum(0, body, strlen(body)));
    free(body);
    return keep(changed);
}

TEST(fields_out_of_range_are_refused_by_name) {
    static const char *const changes[][3] = {
        {"\"batch_index\": 14", "\"batch_index\": 4611686018427387904",
         "\"batch_index\" is 4611686018427387904, and it must be from 0 to 1000000000000"},
        {"\"step\": 3", "\"step\": -3", "\"step\" is -3"},
        {"\"step\": 3", "\"step\": 3.0", "\"step\" is missing, or not a whole number"},
        {"\"step\": 3,", "", "\"step\" is missing, or not a whole number"},
        {"\"step\": 3", "\"step\": 13", "\"step\" is 13, more than \"micro_step\", which is 12"},
        {"\"best_step\": 2", "\"best_step\": 4", "\"best_step\" is 4, more than \"step\", which is 3"},
        {"\"skipped_steps\": 1", "\"skipped_steps\": 4", "\"skipped_steps\" is 4, more than \"step\""},
        {"\"epoch\": 0", "\"epoch\": -1", "\"epoch\" is -1"},
        {"\"extensions\": 0", "\"extensions\": 1000001", "\"extensions\" is 1000001"},
        {"\"validating\": 0", "\"validating\": 2", "\"validating\" is 2"},
        {"\"seconds\": 0.3", "\"seconds\": \"nan\", \"x\": 0.3", "\"seconds\" is nan"},
        {"\"seconds\": 0.3", "\"seconds\": \"inf\", \"x\": 0.3", "\"seconds\" is inf"},
        {"\"best\": 0.3", "\"best\": \"nan\", \"x\": 0.3", "\"best\" is nan"},
        {"\"best\": 0.3", "\"best\": [], \"x\": 0.3", "\"best\" is missing, or not a number"},
        {"    65536.0,\n", "", "\"loss_scale\" is not a list of 4 numbers"},
        {"    65536.0,\n", "    \"nan\",\n", "\"loss_scale\" is nan"},
        {"    65536.0,\n", "    {},\n", "\"loss_scale\" is missing, or not a list of a number"},
        {"\"window_counts\"", "\"x\"", "\"window_counts\" is not a list of 4 numbers"},
        {"\"metrics\"", "\"x\"", "\"metrics\" is missing, or no object"},
        {"\"loss\": ", "\"a name that is much longer than a metric's may be\": ", "is too long"},
        {"\"val\": \"nan\"", "\"val\": true", "\"metrics\": 'val' is not a number"},
        {"\"options\"", "\"x\"", "\"options\" is missing, or no object"},
        {"0123456789ab", "0123456789012345678901234567890123456789012345678", "\"revision\" is missing, or not a text"},
    };
    char *directory = kept_folder(), *file = kept_path(directory, "step_00000003/state.json");
    Checkpointer *c = rig_checkpointer(directory, 3);
    rig_save_good(c, 2, 1, true);
    rig_save_good(c, 3, 1, false);
    checkpointer_close(c);
    char *text = kept_text(file), many[4096] = "\"metrics\": {";
    TrainState state = {0};
    assert_true(state_parse(text, strlen(text), &state, &error));
    free(state.options_json);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed = change_state(text, changes[i][0], changes[i][1]);
        if (state_parse(changed, strlen(changed), &state, &error)) fail_msg("taken: %s", changes[i][1]);
        if (!strstr(error.text, changes[i][2])) fail_msg("%s: %s, not %s", changes[i][1], error.text, changes[i][2]);
    }
    for (int i = 0; i < 25; i++) snprintf(many + strlen(many), 32, "\"m%d\": 0, ", i);
    char *changed = change_state(text, "\"metrics\": {", many);
    assert_false(state_parse(changed, strlen(changed), &state, &error));
    assert_contains(error.text, "\"metrics\" has more than 24 entries");
}

static void assert_load_fails(const char *path, const ParamTable *other, const char *message) {
    float *buffer = xaligned((size_t)other->flat_count * 4);
    TrainState state;
    CarriedTensors others;
    if (checkpoint_load(path, &(CheckpointBuffers){other, buffer, buffer, buffer}, &state, &others, &error))
        fail_msg("loaded, and not refused with: %s", message);
    assert_contains(error.text, message);
    free(buffer);
}

TEST(a_checkpoint_of_another_model_is_refused) {
    char *directory = kept_folder(), *path = kept_path(directory, "step_00000001"), output[256];
    Checkpointer *c = rig_checkpointer(directory, 3);
    rig_save_good(c, 1, 1, false);
    rig_save_good(c, 2, 1, false);
    checkpointer_close(c);
    ParamTable other = {0};
    rig_make_table(&other, 6);
    param_add(&other, INIT_ZERO, 0, false, 4, 0, "gpt.h.1.ln_1.bias");
    assert_load_fails(path, &other,
                      "model.safetensors: 2 tensors do not fit: text_embedding.weight is F32 [3, 5] there, F32 [6, 5] "
                      "in the model; gpt.h.1.ln_1.bias is not there");
    ParamTable fewer = {0};
    param_add(&fewer, INIT_ONE, 0, false, 7, 0, "gpt.ln_f.weight");
    assert_load_fails(path, &fewer, "optimizer.safetensors has 6 tensors; the model has 1 parameters with two each");
    run_command(output, sizeof output, "cp '%s/step_00000002/model.safetensors' '%s'", directory, path);
    assert_load_fails(path, &rig_table, "model.safetensors is not of step 1");
    write_text(kept_path(path, "model.safetensors"), "nonsense that is long enough");
    assert_load_fails(path, &rig_table, "model.safetensors: neither a safetensors nor a torch file");
    params_free(&other);
    params_free(&fewer);
}

TEST(a_checkpoint_of_an_older_program_is_refused) {
    char *directory = kept_folder(), *path = kept_path(directory, "step_00000001"),
         *file = kept_path(path, "state.json");
    Checkpointer *c = rig_checkpointer(directory, 3);
    rig_save_good(c, 1, 1, false);
    checkpointer_close(c);
    char *text = kept_text(file), *version = strstr(text, "\"version\": 8");
    assert_non_null(version);
    version[strlen("\"version\": ")] = '7';
    write_text(file, "%s", text);
    assert_load_fails(
        path, &rig_table,
        "state.json is of version 7, and this program reads 8: go on with the program that wrote it, or start a "
        "new run in another directory from its weights");
}

int main(void) { return tests_run(rig_set_up, NULL); }
