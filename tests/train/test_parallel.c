/* Buckets of gradients and parts of the optimizer's state, on the dry device: what is reduced when, and the bytes that
 * a rank sends. */
#include "kernels/ops_table.h"
#include "tests/test.h"
#include "train/parallel/shards.h"

enum { RANKS = 3, PARAMETERS = 5, WIDTH = 40000, UNIT = NORM_PIECE * RANKS };

static ParamTable table_of(int matrices) {
    ParamTable table = {0};
    for (int i = 0; i < PARAMETERS; i++) {
        int row = param_add(&table, INIT_ZERO, 0, true, WIDTH, matrices ? 4 : 0, "p%d", i);
        table.items[row].matrices = matrices && i < 2 ? 1 : 0;
    }
    table.flat_count = reducer_room(table.flat_count, RANKS);
    return table;
}

static Tensor flat(Device *dry, int64_t n) { return tensor_1d(dry->allocate(dry, (size_t)n * 4), DTYPE_F32, n); }

typedef struct {
    ParamTable table;
    Device *dry;
    Group *group;
    Reducer reducer;
    int64_t room;
} Rig;

static Rig open_rig(int matrices, double bucket_mb) {
    Rig r = {.table = table_of(matrices), .dry = dry_device_open(), .group = group_dry(1, RANKS)};
    r.room = r.table.flat_count;
    r.reducer = reducer_open(r.group, r.dry, flat(r.dry, r.room), bucket_mb, DTYPE_F32);
    return r;
}

static void close_rig(Rig *r) {
    reducer_close(&r->reducer);
    group_close(r->group);
    device_close(r->dry);
    params_free(&r->table);
}

TEST(rooms_are_whole_pieces_of_all_ranks) {
    assert_int_equal(reducer_room(1, RANKS), UNIT);
    assert_int_equal(reducer_room(UNIT, RANKS), UNIT);
    assert_int_equal(reducer_room(UNIT + 1, RANKS), 2 * UNIT);
    assert_int_equal(reducer_room(100, 1), NORM_PIECE);
}

TEST(pieces_of_all_buckets_cover_the_buffer_once) {
    for (double mb = 0.01; mb < 100; mb *= 3) {
        Rig r = open_rig(0, mb);
        int64_t at = 0;
        for (int k = 0; k < r.reducer.n_buckets; k++) {
            assert_int_equal(reducer_bucket(&r.reducer, k).begin, at);
            for (int rank = 0; rank < RANKS; rank++) {
                FlatRange piece = reducer_piece(&r.reducer, k, rank);
                assert_int_equal(piece.begin, at);
                assert_int_equal(piece.begin % NORM_PIECE, 0);
                assert_true(piece.end > piece.begin);
                at = piece.end;
            }
            assert_int_equal(reducer_bucket(&r.reducer, k).end, at);
        }
        assert_int_equal(at, r.room);
        close_rig(&r);
    }
}

TEST(each_bucket_is_reduced_once_as_soon_as_it_is_final) {
    Rig r = open_rig(0, 0.2);
    int n = r.reducer.n_buckets;
    assert_true(n > 3);
    for (int step = 0; step < 2; step++) {
        int64_t calls = r.group->calls, middle = reducer_bucket(&r.reducer, 1).begin + 100;
        reducer_begin(&r.reducer);
        reducer_finished(&r.reducer, middle, r.room); /* all buckets but the first two */
        assert_int_equal(r.group->calls - calls, 2 * (n - 2));
        reducer_finished(&r.reducer, middle - 50, middle);
        assert_int_equal(r.group->calls - calls, 2 * (n - 2));
        reducer_finished(&r.reducer, 20, middle - 50);
        assert_int_equal(r.group->calls - calls, 2 * (n - 1));
        reducer_finish(&r.reducer);
        assert_int_equal(r.group->calls - calls, 2 * n);
        assert_true(r.reducer.reduced[0]);
    }
    close_rig(&r);
}

/* A rank sends of a buffer of N floats (R - 1) / R N for a sum of which it keeps its piece, and as much to gather. */
TEST(a_rank_sends_what_the_formula_says) {
    Rig r = open_rig(0, 0.2);
    double once = 4.0 * (RANKS - 1) / RANKS * (double)r.room;
    reducer_begin(&r.reducer);
    reducer_finish(&r.reducer);
    assert_near(r.group->sent, 2 * once, 0.5);
    ParamUpdates updates = params_updates(&r.table, r.dry, 0, false);
    Shards shards = shards_open(&r.reducer, &updates);
    reducer_begin(&r.reducer);
    reducer_finish(&r.reducer);
    assert_near(r.group->sent, 3 * once, 0.5);
    shards_gather(&shards, flat(r.dry, r.room));
    assert_near(r.group->sent, 4 * once, 0.5);
    shards_close(&shards);
    params_updates_free(&updates);
    close_rig(&r);
}

TEST(a_divided_optimizer_updates_each_parameter_on_one_rank) {
    for (int muon = 0; muon < 2; muon++) {
        double elements = 0, all = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            ParamTable table = table_of(muon);
            Device *dry = dry_device_open();
            Group *group = group_dry(rank, RANKS);
            int64_t room = table.flat_count;
            Reducer reducer = reducer_open(group, dry, flat(dry, room), 0.2, DTYPE_F32);
            ParamUpdates updates = params_updates(&table, dry, 0, muon);
            Shards shards = shards_open(&reducer, &updates);
            shards_use(&shards, &updates);
            int64_t m = shards_m_count(&shards), v = shards_v_count(&shards);
            assert_int_equal(v, room / RANKS);
            AdamWBuffers buffers = {.params = flat(dry, room), .m = flat(dry, m), .v = flat(dry, v)};
            buffers.grads = reducer.gradients;
            shards_update(&shards, buffers, flat(dry, 1), tensor_none(), (AdamW){.step = 1}, (Muon){.momentum = 0.9f});
            elements += dry->counters[OP_adamw_update].flops / 14;
            for (int i = 0; i < table.count; i++) all += table.items[i].matrices ? 0 : (double)table.items[i].count;
            shards_close(&shards);
            params_updates_free(&updates);
            reducer_close(&reducer);
            group_close(group);
            device_close(dry);
            params_free(&table);
        }
        assert_near(elements, all / RANKS, 0.5);
    }
}
