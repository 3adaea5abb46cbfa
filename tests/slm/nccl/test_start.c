/* How trainings on several cards start: by which launchers, what is refused, what is recorded, and with which order of
 * sums they go on. */
#include "tests/side_by_side_rig.h"
#include "tests/slm/train_rig.h"

static SideCase slm = {.program = "train_slm", .cards = true};
static char *options_without_g;

static int open_case(void **state) {
    int status = slm_fixture_open(state);
    options_without_g = kept_format("--data %s %s -b 2 --threads 1 --device cuda --no-tf32 --log-interval 1 "
                                    "--bucket-mb 0.05 --sample-tokens 0 --max-steps 5 --zero 1",
                                    fixture.data, slm_model_options);
    slm.options = kept_format("%s -g 2", options_without_g);
    return status;
}

/* Starts ranks as a launcher does, on a machine with so many cards. Returns the largest status. */
static int start(const char *launcher, int ranks, int cards, const char *front, const char *folder) {
    return run_command(fixture.output, sizeof fixture.output,
                       "timeout -k 9 60 tests/nccl/start.sh %s %d %s %s %s %s -o %s", launcher, ranks, kept_folder(),
                       front, side_on_cards(cards, slm.program), slm.options, folder);
}

TEST(every_launcher_gives_the_bits_of_gpus) {
    static const char *const launchers[][2] = {{"torchrun", "torchrun"}, {"slurm", "Slurm"}, {"openmpi", "Open MPI"}};
    char *spawned = side_train(&slm, 2, "");
    for (int i = 0; i < 3; i++) {
        char *folder = kept_folder();
        if (start(launchers[i][0], 2, 2, "", folder)) fail_msg("%s", fixture.output);
        assert_contains(fixture.output, kept_format("[Ranks] 2, started by %s, over NCCL ", launchers[i][1]));
        assert_same_result(spawned, folder);
    }
}

TEST(cards_that_are_too_few_or_taken_twice_are_refused) {
    assert_int_not_equal(start("torchrun", 2, 1, "", kept_folder()), 0);
    assert_contains(fixture.output, "rank 0 and rank 1 both compute on the GPU ");
    assert_int_not_equal(start("torchrun", 3, 2, "", kept_folder()), 0);
    assert_contains(fixture.output, "rank 2 is number 2 of 3 processes that torchrun has started on this machine, and "
                                    "sees 2 GPUs: start a process for each GPU");
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "timeout -k 9 60 %s %s -o %s --gpus 3",
                                     side_on_cards(2, slm.program), slm.options, kept_folder()),
                         0);
    assert_contains(fixture.output, "--gpus 3: this machine has 2 GPUs that the driver shows");
}

TEST(without_nccl_one_line_says_what_to_install) {
    char *command = kept_format("timeout -k 9 60 env EMULATE_DEVICES=2 TRAINC_NCCL=none %s %s --gpus 2",
                                program_at("emulated/train_slm"), slm.options);
    assert_int_not_equal(run_command(fixture.output, sizeof fixture.output, "%s -o %s", command, kept_folder()), 0);
    assert_contains(fixture.output, "GPUs cannot exchange anything");
    assert_contains(fixture.output, "install NVIDIA's package for Python, nvidia-nccl-cu12");
    setenv("STAND_IN_NCCL_VERSION", "21400", 1);
    int status = side_try(&slm, 2, kept_folder(), "");
    unsetenv("STAND_IN_NCCL_VERSION");
    assert_int_not_equal(status, 0);
    assert_contains(fixture.output, "is NCCL 2.14.0, older than 2.16");
    assert_contains(fixture.output, "install NVIDIA's package for Python");
}

/* Trains, and returns what the stand-in has logged. */
static char *logged_operations(const char *folder, const char *more) {
    char *log = kept_path(kept_folder(), "log");
    setenv("STAND_IN_NCCL_LOG", log, 1);
    int status = side_try(&slm, 2, folder, more);
    unsetenv("STAND_IN_NCCL_LOG");
    if (status) fail_msg("%s", fixture.output);
    return kept_text(log);
}

/* Counts the operations of a rank in the n-th replay of a capture. */
static int count_replayed(const char *log, int rank, int replay) {
    char *who = kept_format("operation rank=%d ", rank), *which = kept_format(" replay=%d\n", replay);
    int n = 0;
    for (const char *line = log; (line = strstr(line, who)); line++) {
        const char *at = strstr(line, which), *end = strchr(line, '\n');
        n += at && at < end;
    }
    return n;
}

/* The first step runs directly, the second is recorded, and all others repeat the recording. Only the facts of a step
 * are exchanged behind it. */
TEST(steps_are_repeated_from_recordings_on_all_ranks) {
    static const char *const shapes[] = {"-g 1", "-g 2", "-g 3", "-g 2 --zero 0", "-g 2 --amp"};
    for (int i = 0; i < 5; i++) {
        char *log = logged_operations(kept_folder(), kept_format("--val-interval 0 --max-steps 5 %s", shapes[i]));
        int each = count_replayed(log, 0, 1);
        assert_true(each > 5);
        for (int rank = 0; rank < 2; rank++)
            for (int replay = 1; replay <= 4; replay++) assert_int_equal(count_replayed(log, rank, replay), each);
        assert_int_equal(count_replayed(log, 0, 5), 0);
    }
}

TEST(a_run_goes_on_with_its_order_of_sums) {
    char *folder = kept_folder();
    setenv("NCCL_ALGO", "Tree", 1);
    char *log = logged_operations(folder, "--max-steps 2");
    unsetenv("NCCL_ALGO");
    assert_contains(log, "NCCL_ALGO=Tree NCCL_PROTO=Simple\n");
    assert_contains(logged_operations(folder, "--max-steps 4 --resume auto"), "NCCL_ALGO=Tree NCCL_PROTO=Simple\n");
    assert_contains(logged_operations(kept_folder(), "--max-steps 2"), "NCCL_ALGO=Ring NCCL_PROTO=Simple\n");
}

TEST(orders_of_sums_that_no_checkpoint_could_keep_or_that_differ_are_refused) {
    setenv("NCCL_ALGO", "ring,tree;x", 1);
    int status = side_try(&slm, 2, kept_folder(), "");
    unsetenv("NCCL_ALGO");
    assert_int_not_equal(status, 0);
    assert_contains(fixture.output, "NCCL_ALGO=ring,tree;x: expected 1 to 31 characters without a semicolon");
    const char *tree = "sh -c '[ $RANK = 0 ] || export NCCL_ALGO=Tree; exec \"$@\"' sh";
    assert_int_not_equal(start("torchrun", 2, 2, tree, kept_folder()), 0);
    assert_contains(fixture.output, "the library");
    assert_contains(fixture.output, "; Ring; ");
    assert_contains(fixture.output, "; Tree; ");
}

/* Each of 12 gradients is rounded to 8 bits once before it is sent. */
TEST(gradients_are_sent_in_bf16_if_asked_for) {
    char *one = side_train(&slm, 2, "--amp"), *two = side_train(&slm, 2, "--amp --reduce-type bf16"),
         *whole = side_train(&slm, 2, "--amp --reduce-type bf16 --zero 0");
    double a = logged_last(one, "train", "train/loss"), b = logged_last(two, "train", "train/loss");
    assert_true(a != b);
    assert_near(a, b, 1e-3 * a);
    assert_same_result(two, whole);
    assert_contains(logged_operations(kept_folder(), "--amp --reduce-type bf16"), " type=bf16 ");
}

/* ---- what connects the cards ---- */

/* Trains on so many cards as it finds best, with -g 4 or --effective-batch 8 and more. Fails the test if the training
 * fails. */
static void train_automatically(int cards, const char *folder, const char *more) {
    int status = run_command(fixture.output, sizeof fixture.output, "timeout -k 9 60 %s %s --gpus auto -o %s %s",
                             side_on_cards(cards, slm.program), options_without_g, folder, more);
    if (status) fail_msg("%d cards, %s: exit status %d:\n%s", cards, more, status, fixture.output);
}

static char *state_of(const char *folder) { return kept_text(kept_path(folder, "last/state.json")); }

TEST(the_link_is_measured_and_one_card_proposed_where_it_is_slow) {
    double rate = 0;
    setenv("EMULATE_CARD", "l4", 1);
    setenv("STAND_IN_NCCL_GBPS", "0.02", 1);
    char *folder = side_train(&slm, 2, "");
    unsetenv("STAND_IN_NCCL_GBPS");
    const char *link = strstr(fixture.output, "[Link] ");
    assert_non_null(link);
    assert_int_equal(sscanf(link, "[Link] %lf GB/s between 2 cards, ", &rate), 1);
    assert_true(rate > 0 && rate < 0.025);
    assert_contains(fixture.output, "chosen: one card, -g 4, with ");
    assert_contains(fixture.output, "[Cards] the options stay as given; one card, -g 4 would be faster");
    unsetenv("EMULATE_CARD");
    assert_contains(state_of(folder), "\"gpus\": \"2\"");
}

TEST(auto_starts_again_with_fewer_cards_and_a_resumed_run_has_as_many) {
    setenv("EMULATE_CARD", "l4", 1);
    char *folder = kept_folder(), *one = side_train(&slm, 1, "-g 4");
    train_automatically(2, folder, "-g 4");
    assert_contains(fixture.output, "[Ranks] 2, started by --gpus, over NCCL ");
    assert_contains(fixture.output, "[Ranks] starting again: --gpus 1 -g 4 --zero 0\n");
    assert_same_result(one, folder);
    assert_contains(state_of(folder), "\"gpus\": \"1\"");
    train_automatically(2, folder, "-g 4 --resume auto --max-steps 7");
    assert_contains(fixture.output, "[Ranks] --gpus 1, as in the run that goes on\n");
    assert_null(strstr(fixture.output, "started by"));
    assert_null(strstr(fixture.output, "[Link]"));
    folder = kept_folder();
    train_automatically(2, folder, "--effective-batch 8"); /* of which -g follows */
    unsetenv("EMULATE_CARD");
    assert_contains(fixture.output, "[Ranks] starting again: --gpus 1 --zero 0\n");
    assert_same_result(one, folder);
}

/* The rates of the emulated card are not known without a name. */
TEST(auto_takes_all_cards_of_which_nothing_is_known) {
    char *folder = kept_folder(), *two = side_train(&slm, 2, "");
    train_automatically(3, folder, "-g 4"); /* 4 micro-batches cannot be shared by 3 */
    assert_contains(fixture.output, "[Cards] what a step takes is not known of this card");
    assert_same_result(two, folder);
    assert_contains(state_of(folder), "\"gpus\": \"2\"");
    train_automatically(3, folder, "-g 4 --resume auto --max-steps 7");
    assert_contains(fixture.output, "[Ranks] 2, started by --gpus");
    int status =
        run_command(fixture.output, sizeof fixture.output, "%s --data %s -b auto --effective-batch 4 --gpus auto -o %s",
                    side_on_cards(2, slm.program), fixture.data, kept_folder());
    assert_int_equal(status, 2);
    assert_contains(fixture.output, "--gpus auto and -b auto: each depends on the other");
}

int main(void) { return tests_run(open_case, NULL); }
