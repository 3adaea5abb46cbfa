/* The moments at which the buckets of a text GPT are final and read, on the dry device. */
#include "kernels/ops_table.h"
#include "tests/slm/rig.h"
#include "train/parallel/reduce.h"
#include "train/plan/buckets.h"

enum { RANKS = 2, LAYERS = 4 };

typedef struct {
    Device *dry;
    Model *model;
    Batch batch;
    TrainOptions options;
    TrainSpec spec;
    BucketWorks works;
} Rig;

/* Records buckets of 8,192 elements, the least for two ranks, of blocks that have 12,352 each. */
static void open_rig(Rig *r, bool recompute) {
    const int32_t lengths[] = {12, 9, 12};
    SlmConfig config = slm_config_small(0.1f);
    config.n_layers = LAYERS;
    *r = (Rig){.dry = dry_device_open(), .model = slm_open(&config), .batch = slm_batch_random(53, 0, lengths, 3)};
    r->options = (TrainOptions){
        .grad_accumulation = 2, .reduce_type = "f32", .bucket_mb = 0.01, .grad_checkpointing = recompute};
    r->spec = (TrainSpec){.options = &r->options, .model = r->model, .device = r->dry};
    r->works = buckets_record(&r->spec, &r->batch, RANKS, PASS_FIRST);
}

static void close_rig(Rig *r) {
    buckets_free(&r->works);
    batch_close(&r->batch);
    r->model->close(r->model);
    device_close(r->dry);
}

static double flops_of(const Work *work) {
    double flops = 0;
    for (int op = 0; op < OP_COUNT; op++) flops += work->ops[op].all.flops;
    return flops;
}

TEST(buckets_are_all_of_the_gradients) {
    Rig r;
    open_rig(&r, false);
    int64_t elements = 0;
    for (int i = 0; i < r.works.n; i++) elements += r.works.of[i].elements;
    assert_int_equal(elements, reducer_room(r.model->params.flat_count, RANKS));
    assert_true(r.works.n > LAYERS);
    close_rig(&r);
}

/* The tied table is at the beginning of the buffer and final at the very end, so its bucket is sent last. */
TEST(blocks_are_final_before_the_backward_ends_and_the_table_is_not) {
    for (int recompute = 0; recompute < 2; recompute++) {
        Rig r;
        open_rig(&r, recompute);
        double all = flops_of(&r.works.pass);
        for (int i = 1; i < r.works.n; i++)
            assert_true(flops_of(&r.works.of[i].final) >= flops_of(&r.works.of[i - 1].final));
        assert_true(flops_of(&r.works.of[0].final) > all / 3); /* not in the forward */
        assert_true(flops_of(&r.works.of[1].final) < 0.8 * all);
        assert_true(flops_of(&r.works.of[r.works.n - 1].final) == all);
        close_rig(&r);
    }
}

/* Whoever holds a table or the last norm is read at any time; a bucket of blocks when the first of them begins. */
TEST(a_forward_needs_a_block_when_it_begins) {
    for (int recompute = 0; recompute < 2; recompute++) {
        Rig r;
        open_rig(&r, recompute);
        int later = 0;
        double before = 0;
        for (int i = r.works.n; i-- > 0;) {
            double at = flops_of(&r.works.of[i].needed);
            assert_true(at < flops_of(&r.works.pass) / 3);
            later += at > 0;
            if (at > 0) assert_true(at >= before), before = at;
        }
        assert_true(flops_of(&r.works.of[r.works.n - 1].needed) == 0);
        assert_true(later >= LAYERS);
        close_rig(&r);
    }
}

TEST(the_time_of_a_bucket_is_that_of_its_work) {
    Rig r;
    open_rig(&r, false);
    const Machine machine = {.card = card_of_key("a30"), .half = DTYPE_F32, .tf32 = true, .workers = 1};
    StepParts parts = {0};
    buckets_time(&r.works, &machine, &r.works.pass, &parts);
    assert_int_equal(parts.n_buckets, r.works.n);
    assert_true(parts.pass > 0);
    for (int i = 0; i < parts.n_buckets; i++) {
        assert_true(parts.buckets[i].final > 0 && parts.buckets[i].final <= parts.pass);
        assert_true(parts.buckets[i].needed < parts.buckets[i].final);
        assert_true(parts.buckets[i].elements == (double)r.works.of[i].elements);
    }
    free(parts.buckets);
    close_rig(&r);
}

/* An advice on a run has the parts that its passes and its update count. */
TEST(the_parts_of_a_step_are_its_passes_and_its_update) {
    Rig r;
    open_rig(&r, false);
    const Machine machine = {.card = card_of_key("a30"), .half = DTYPE_F32, .tf32 = true, .workers = 1};
    StepParts parts = buckets_step(&r.spec, &r.batch, &machine, RANKS);
    assert_int_equal(parts.n_buckets, r.works.n);
    assert_true(parts.later > 0.9 * parts.pass && parts.first > 0.9 * parts.pass && parts.first < 1.1 * parts.pass);
    assert_true(parts.update > 0 && parts.update < parts.first);
    assert_int_equal(parts.multiprocessors, machine.card->multiprocessors);
    free(parts.buckets);
    close_rig(&r);
}
