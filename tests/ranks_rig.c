#include "tests/ranks_rig.h"

#include "kernels/philox.h"
#include "tests/golden.h"

static const double ranks_tolerance = 1e-5, first_tolerance = 1e-6;

int ranks_micro_batches(const RanksCase *c) { return c->cards ? 6 : 12; }
int ranks_most(const RanksCase *c) { return c->most ? c->most : c->cards ? 3 : 4; }
int ranks_steps(const RanksCase *c) { return c->cards ? 6 : 20; }

/* Returns three, if there may be so many. */
static int several(const RanksCase *c) { return ranks_most(c) < 3 ? ranks_most(c) : 3; }

/* Returns the options of each of so many ranks. */
static char *options_of(const RanksCase *c, int ranks) {
    return kept_format("%s -g %d --log-interval 1 --bucket-mb %s", c->options,
                       ranks_micro_batches(c) / (c->whole_step ? 1 : ranks), c->cards ? "0.05" : "0.1");
}

int ranks_try(const RanksCase *c, int ranks, const char *folder, const char *more) {
    return side_try(&(SideCase){c->program, options_of(c, ranks), c->cards}, ranks, folder, more);
}

char *ranks_train(const RanksCase *c, int ranks, const char *more) {
    char *folder = kept_folder();
    int status = ranks_try(c, ranks, folder, kept_format("--max-steps %d %s", ranks_steps(c), more));
    if (status) fail_msg("%d ranks, %s: exit status %d:\n%s", ranks, more, status, fixture.output);
    return folder;
}

const char *ranks_trained(const RanksCase *c, int ranks, const char *more) {
    enum { MOST = 64 };
    static struct { char *key, *folder; } made[MOST];
    char *key = kept_format("%d %s %s %s", ranks, c->program, c->options, more);
    int i = 0;
    while (made[i].key && strcmp(made[i].key, key) != 0) i++;
    assert_true(i < MOST - 1);
    if (!made[i].key) {
        made[i].folder = ranks_train(c, ranks, more);
        made[i].key = key;
    }
    return made[i].folder;
}

static char *run_of(const RanksCase *c, const char *folder) { return kept_format("%s/%s", folder, c->run); }

/* Copies from `want` what has gradients of rounding noise, of which AdamW makes steps of full size: the bias of the
 * keys, which softmax cancels. */
static void leave_out_noise(const char *name, float *got, const float *want, int64_t count) {
    bool keys = strstr(name, "key.bias"), third = strstr(name, "c_attn.bias") || strstr(name, "in_proj_bias");
    int64_t begin = third ? count / 3 : 0, n = third ? count / 3 : keys ? count : 0;
    memcpy(got + begin, want + begin, (size_t)n * sizeof *got);
}

/* Compares the tensors of two files whose names begin with a prefix. */
static void compare_files(const char *noise, const TensorFile *file, const TensorFile *reference, const char *prefix,
                          double tolerance) {
    double worst = 0;
    int n = 0;
    for (int t = 0; t < reference->n_tensors; t++) {
        const char *name = reference->tensors[t].name;
        size_t length = strlen(name), ending = noise ? strlen(noise) : 0;
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        if (ending && length > ending && !strcmp(name + length - ending, noise)) {
            print_message("%s is left out: noise\n", name);
            continue;
        }
        int64_t count = reference->tensors[t].count;
        float *got = floats(file, "", name), *want = floats(reference, "", name);
        leave_out_noise(name, got, want, count);
        double error = relative_error(got, want, count);
        if (!(error <= tolerance)) fail_msg("%s: %s differs by %.2g of its norm", file->path, name, error);
        if (error > worst) worst = error;
        n++;
        free(got);
        free(want);
    }
    assert_true(n > 0);
    print_message("%d tensors, without the bias of keys, differ by at most %.1g\n", n, worst);
}

void ranks_compare(const RanksCase *c, const char *folder, const char *reference) {
    static double x[512], y[512];
    /* AdamW hides a common factor of gradients, but their norm does not. Where weights are noise, it jumps when the
     * larger of two nearly equal numbers that are pooled becomes the smaller: then only its first half is compared. */
    const char *const values[] = {c->loss, "train/grad_norm"};
    for (int v = 0; v < 2; v++) {
        int n = logged(run_of(c, folder), "train", values[v], x, 512);
        assert_int_equal(logged(run_of(c, reference), "train", values[v], y, 512), n);
        assert_true(n > 0);
        for (int i = 0; i < (v && c->noise ? n / 2 : n); i++) assert_near(x[i], y[i], ranks_tolerance * fabs(y[i]));
    }
    TensorFile got = open_in(run_of(c, folder), "last/model.safetensors"),
               want = open_in(run_of(c, reference), "last/model.safetensors");
    compare_files(c->noise, &got, &want, "", ranks_tolerance);
    tensor_file_close(&got);
    tensor_file_close(&want);
}

void ranks_check(const RanksCase *c, const char *more) {
    const char *one = ranks_trained(c, 1, more);
    for (int ranks = 2; ranks <= ranks_most(c); ranks++) ranks_compare(c, ranks_trained(c, ranks, more), one);
}

void several_ranks_train_as_one(void **state) { ranks_check(*state, ""); }

void the_first_gradients_are_those_of_one_rank(void **state) {
    const RanksCase *c = *state;
    char *dumps[2];
    for (int i = 0; i < 2; i++) {
        dumps[i] = kept_path(kept_folder(), "dump.safetensors");
        char *folder = kept_folder();
        int status = ranks_try(c, i ? several(c) : 1, folder,
                               kept_format("--max-steps 1 --debug-dump %s%s", dumps[i], i ? " --zero 1" : ""));
        if (status) fail_msg("%s", fixture.output);
    }
    TensorFile one = open_file(dumps[0]), three = open_file(dumps[1]);
    compare_files(NULL, &three, &one, "grad.", first_tolerance);
    compare_files(NULL, &three, &one, "loss", first_tolerance);
    compare_files(NULL, &three, &one, "sum.", first_tolerance);
    tensor_file_close(&one);
    tensor_file_close(&three);
}

static void check_same_bits(const RanksCase *c, const char *a, const char *b) {
    assert_same_result(run_of(c, a), run_of(c, b));
}

void a_divided_optimizer_has_the_same_bits(void **state) {
    const RanksCase *c = *state;
    for (int ranks = 2; ranks <= ranks_most(c); ranks++)
        check_same_bits(c, ranks_trained(c, ranks, ""), ranks_trained(c, ranks, "--zero 1"));
}

void the_same_ranks_give_the_same_bits(void **state) {
    const RanksCase *c = *state;
    check_same_bits(c, ranks_trained(c, several(c), ""), ranks_train(c, several(c), ""));
}

/* Four ranks begin, two go on from their checkpoint and three from the checkpoint of these, with the optimizer's state
 * divided or not. On cards: two, one and three. */
void a_run_goes_on_with_other_ranks(void **state) {
    const RanksCase *c = *state;
    const int ranks[] = {c->cards ? 2 : 4, c->cards ? 1 : 2, several(c)}, third = ranks_steps(c) / 3;
    const char *one = ranks_trained(c, 1, ""), *before = NULL;
    for (int i = 0; i < 3; i++) {
        char *resume = i ? kept_format("--resume %s/step_%08d", run_of(c, before), i * third) : kept_format(" ");
        before = ranks_train(
            c, ranks[i], kept_format("--save-interval %d --keep-checkpoints 9 --zero %d %s", third, i != 1, resume));
    }
    TensorFile got = open_in(run_of(c, before), "last/model.safetensors"),
               want = open_in(run_of(c, one), "last/model.safetensors");
    compare_files(c->noise, &got, &want, "", ranks_tolerance);
    tensor_file_close(&got);
    tensor_file_close(&want);
}

/* With a learning rate of next to nothing all validations are of the initial weights. */
void validations_have_the_values_of_one_rank(void **state) {
    const RanksCase *c = *state;
    static double x[64], y[64];
    const char *options = kept_format("--learning-rate 1e-12 %s", c->validates);
    char *one = ranks_train(c, 1, options);
    int n = logged(run_of(c, one), "val", "val/objective", y, 64);
    assert_true(n > 1);
    for (int ranks = 2; ranks <= ranks_most(c); ranks++) {
        assert_int_equal(logged(run_of(c, ranks_train(c, ranks, options)), "val", "val/objective", x, 64), n);
        for (int i = 0; i < n; i++) assert_near(x[i], y[i], 1e-7 * fabs(y[i]));
    }
}

/* RANKS_KILLS: how many times, 1 if unset. */
void killed_ranks_lose_nothing(void **state) {
    const RanksCase *c = *state;
    const int ranks = several(c);
    const char *kills = getenv("RANKS_KILLS");
    const char *whole = ranks_trained(c, ranks, "");
    for (uint64_t i = 0; i < (kills ? strtoull(kills, NULL, 10) : 1); i++) {
        int statuses[SIDE_MOST_RANKS], step = 1 + (int)philox_below(i, PURPOSE_TEST, 7, 0, ranks_steps(c) - 2);
        int rank = (int)philox_below(i, PURPOSE_TEST, 7, 1, ranks);
        char *folder = kept_folder();
        char *options = kept_format("%s --max-steps %d --save-interval 3 --zero %d", options_of(c, ranks),
                                    ranks_steps(c), (int)(i % 2));
        side_signal(&(SideCase){c->program, options, c->cards}, ranks, folder, rank, *c->run ? c->run : ".", step,
                    SIGKILL, statuses);
        bool ended = !statuses[0] && rank; /* the run was faster */
        for (int r = 0; r < ranks && !ended; r++)
            if (statuses[r] != (r == rank ? 128 + SIGKILL : 75))
                fail_msg("kill %d, of rank %d at step %d: rank %d has status %d:\n%s", (int)i, rank, step, r,
                         statuses[r], fixture.output);
        char *more =
            kept_format("--max-steps %d --save-interval 3 --zero %d --resume auto", ranks_steps(c), (int)(i % 2));
        if (ranks_try(c, ranks, folder, more)) fail_msg("%s", fixture.output);
        assert_same_result(run_of(c, whole), run_of(c, folder));
    }
}

/* ---- with cards ---- */

/* Streams get on as the host waits for them (0), as late as they may (1), or as chance has it; NCCL puts operations
 * into them at once or later. Norms tell of gradients that were read too early, where no norm is clipped. */
void the_order_of_streams_changes_no_bit(void **state) {
    const RanksCase *c = *state;
    static const char *const orders[][3] = {{"1", "3", "--zero 1"}, {"1", "0", "--zero 0"}, {"5", "4", "--zero 1"}};
    static double want[512], got[512];
    const char *usual = ranks_trained(c, 2, "--zero 1");
    int n = logged(run_of(c, usual), "train", "train/grad_norm", want, 512);
    for (int i = 0; i < 3; i++) {
        setenv("EMULATE_SEED", orders[i][0], 1);
        setenv("STAND_IN_NCCL_SEED", orders[i][1], 1);
        char *other = ranks_train(c, 2, orders[i][2]);
        unsetenv("EMULATE_SEED");
        unsetenv("STAND_IN_NCCL_SEED");
        assert_int_equal(logged(run_of(c, other), "train", "train/grad_norm", got, 512), n);
        for (int k = 0; k < n; k++) assert_true(got[k] == want[k]);
        check_same_bits(c, usual, other);
    }
}

void sixteen_bit_copies_are_those_of_gathered_weights(void **state) {
    const RanksCase *c = *state;
    char *divided = ranks_train(c, 2, "--amp --zero 1"), *whole = ranks_train(c, 2, "--amp --zero 0");
    check_same_bits(c, whole, divided);
    setenv("EMULATE_SEED", "1", 1);
    char *other = ranks_train(c, 2, "--amp --zero 1");
    unsetenv("EMULATE_SEED");
    check_same_bits(c, whole, other);
}

/* The first pass of a step is its last, which is recorded with all that ranks exchange. */
void a_step_of_one_pass_is_shared(void **state) {
    const RanksCase *c = *state;
    char *one = ranks_train(c, 1, "-g 2"), *two = ranks_train(c, 2, c->whole_step ? "-g 2" : "-g 1"),
         *divided = ranks_train(c, 2, c->whole_step ? "-g 2 --zero 1" : "-g 1 --zero 1");
    ranks_compare(c, two, one);
    check_same_bits(c, two, divided);
}
