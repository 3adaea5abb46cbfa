/* The parameter table: layout, names, initialisation and segments of the optimizer. */
#include "tests/test.h"

#include "kernels/device_open.h"
#include "kernels/philox.h"
#include "model/context.h"

#include <math.h>

/* Makes a table: 3 x 5 with two frozen rows, a bias of 7, 16 x 2 without padding behind, 4 ones without weight decay, 8
 * zeros. */
static ParamTable small_table(void) {
    ParamTable table = {0};
    int first = param_add(&table, INIT_NORMAL, 0.5f, true, 3, 5, "layer.%d.weight", 7);
    table.items[first].frozen_rows = 2;
    param_add(&table, INIT_UNIFORM, 0.25f, true, 7, 0, "bias");
    param_add(&table, INIT_NORMAL, 0.1f, true, 16, 2, "even");
    param_add(&table, INIT_ONE, 0, true, 16, 0, "gain");
    param_add(&table, INIT_ZERO, 0, false, 8, 0, "plain");
    return table;
}

TEST(rows_have_names_shapes_and_aligned_offsets) {
    ParamTable table = small_table();
    assert_int_equal(table.count, 5);
    assert_string_equal(table.items[0].name, "layer.7.weight");
    assert_int_equal(table.items[0].rank, 2);
    assert_int_equal(table.items[1].rank, 1);
    const int64_t offsets[] = {0, 16, 32, 64, 80};
    for (int i = 0; i < 5; i++) assert_int_equal(table.items[i].offset, offsets[i]);
    assert_int_equal(table.flat_count, 96);
    assert_int_equal(params_count(&table), 15 + 7 + 32 + 16 + 8);
    assert_int_equal(params_find(&table, "even"), 2);
    assert_int_equal(params_find(&table, "odd"), -1);
    params_free(&table);
    assert_int_equal(table.count, 0);
}

/* Rows of zeros behind a parameter have room in the flat buffer, and belong to nobody. */
TEST(padded_rows_are_zeros_of_no_parameter) {
    ParamTable table = {0};
    int head = param_add_head(&table, 4, 13, "head"), next = param_add(&table, INIT_ONE, 0, false, 16, 0, "next");
    Segment *segments;
    float flat[112];
    assert_int_equal(table.items[head].padding, 3);
    assert_int_equal(table.items[head + 1].padding, 3);
    assert_int_equal(table.items[head + 1].offset, 64);
    assert_int_equal(table.items[next].offset, 80);
    assert_int_equal(table.flat_count, 96);
    assert_int_equal(params_count(&table), 13 * 5 + 16);
    memset(flat, 0xff, sizeof flat);
    params_initialize(&table, flat, 42, 1);
    for (int e = 52; e < 64; e++) assert_true(flat[e] == 0);
    for (int e = 77; e < 80; e++) assert_true(flat[e] == 0);
    assert_int_equal(params_segments(&table, 0.1f, &segments), 3);
    assert_true(segments[0].end == 52 && segments[1].begin == 64 && segments[1].end == 77);
    free(segments);
    Model model = {
        .params = table, .weights = tensor_1d(flat, DTYPE_F32, 96), .gradients = tensor_1d(flat, DTYPE_F32, 96)};
    Context context = context_of(&model, NULL, NULL, &(Pass){0});
    assert_int_equal(context_weight(&context, head).dims[0], 13);
    assert_int_equal(context_padded_weight(&context, head).dims[0], 16);
    assert_int_equal(context_padded_gradients(&context, head, head + 1, tensor_none()).dbias.dims[0], 16);
    assert_false(tensor_given(context_padded_weight(&context, -1)));
    params_free(&table);
}

/* All gradients are NaN: a pass may overwrite each product's once; what else it asks for, or leaves, is cleared.
 */
TEST(gradients_that_a_pass_does_not_overwrite_are_cleared) {
    enum { ADDED = 0, WRITTEN = 2, LEFT = 4, JOINED = 6, FROZEN = 8, ROWS = 10 };
    Device *device = cpu_device_open(1);
    Model model = {.name = "products"};
    ParamTable *table = &model.params;
    bool unwritten[ROWS];
    param_add_head(table, 4, 13, "added");
    param_add_linear(table, 4, 3, "written");
    param_add_linear(table, 4, 3, "left");
    for (int i = 0; i < 2; i++) {
        param_add(table, INIT_ZERO, 0, true, 4, 4, "joined.%d", i);
        table->items[JOINED + i].product = true;
    }
    table->items[JOINED].joined = 1;
    param_add_linear(table, 4, 3, "frozen");
    table->items[FROZEN].frozen_rows = 3;
    float *flat = xaligned((size_t)table->flat_count * sizeof *flat);
    memset(flat, 0xff, (size_t)table->flat_count * sizeof *flat);
    model.weights = model.gradients = tensor_1d(flat, DTYPE_F32, table->flat_count);
    Context context = context_of(&model, device, NULL, &(Pass){.train = true, .unwritten = unwritten});
    context_begin(&context);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(unwritten[i], i == ADDED || i == WRITTEN || i == LEFT || i == JOINED || i == JOINED + 1);
    for (int time = 0; time < 2; time++) {
        assert_int_equal(context_layer_gradients(&context, WRITTEN, -1, tensor_none()).overwrite, !time);
        assert_int_equal(context_layer_gradients(&context, JOINED, -1, tensor_none()).overwrite, !time);
        context_gradient(&context, ADDED);
        assert_false(context_padded_gradients(&context, ADDED, -1, tensor_none()).overwrite);
    }
    context_end(&context);
    for (int i = 0; i < ROWS; i++) {
        const Param *param = &table->items[i];
        bool cleared = i == ADDED || i == LEFT;
        int64_t n = param->count + (cleared ? param->padding * param->columns : 0);
        for (int64_t e = 0; e < n; e++)
            assert_true(cleared ? flat[param->offset + e] == 0 : isnan(flat[param->offset + e]));
        assert_false(unwritten[i]);
    }
    free(flat);
    params_free(table);
    device_close(device);
}

TEST(views_lie_in_the_flat_buffer) {
    ParamTable table = small_table();
    float flat[96];
    Tensor view = param_view(&table, tensor_1d(flat, DTYPE_F32, 96), 2);
    assert_ptr_equal(view.data, flat + 32);
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.dims[0], 16);
    assert_int_equal(view.dims[1], 2);
    assert_false(tensor_given(param_view(&table, tensor_none(), 2)));
    params_free(&table);
}

TEST(initial_numbers_depend_only_on_seed_parameter_and_element) {
    ParamTable table = small_table();
    float flat[96];
    memset(flat, 0xff, sizeof flat);
    params_initialize(&table, flat, 42, 1);
    for (int e = 0; e < 15; e++) assert_true(flat[e] == 0.5f * philox_normal(42, PURPOSE_INIT, 0, (uint64_t)e));
    for (int e = 0; e < 7; e++) {
        assert_true(flat[16 + e] == 0.25f * (2 * philox_uniform(42, PURPOSE_INIT, 1, (uint64_t)e) - 1));
    }
    for (int e = 0; e < 16; e++) assert_true(flat[64 + e] == 1);
    for (int e = 0; e < 16; e++) assert_true(flat[80 + e] == 0); /* the last parameter and the padding behind it */
    assert_true(flat[15] == 0);
    params_free(&table);
}

/* With 100 000 draws the mean is 0 and the variance is scale^2 (uniform: scale^2 / 3), each within 5 standard errors.
 */
TEST(initial_numbers_have_the_stated_moments) {
    enum { N = 100000 };
    ParamTable table = {0};
    param_add(&table, INIT_NORMAL, 0.02f, true, N, 0, "normal");
    param_add(&table, INIT_UNIFORM, 0.03f, true, N, 0, "uniform");
    float *flat = xmalloc((size_t)table.flat_count * sizeof *flat);
    params_initialize(&table, flat, 1, 1);
    const double variance[2] = {0.02 * 0.02, 0.03 * 0.03 / 3}, kurtosis[2] = {3, 1.8};
    for (int i = 0; i < 2; i++) {
        double sum = 0, squares = 0;
        for (int e = 0; e < N; e++) {
            double x = (double)flat[table.items[i].offset + e];
            sum += x;
            squares += x * x;
        }
        assert_true(fabs(sum / N) < 5 * sqrt(variance[i] / N));
        assert_true(fabs(squares / N / variance[i] - 1) < 5 * sqrt((kurtosis[i] - 1) / N));
    }
    for (int e = 0; e < N; e++) assert_true(fabsf(flat[table.items[1].offset + e]) <= 0.03f);
    free(flat);
    params_free(&table);
}

TEST(threads_do_not_change_the_numbers) {
    ParamTable table = {0};
    param_add(&table, INIT_NORMAL, 1, true, 1001, 3, "a");
    param_add(&table, INIT_UNIFORM, 1, true, 517, 0, "b");
    size_t bytes = (size_t)table.flat_count * sizeof(float);
    float *one = xmalloc(bytes), *many = xmalloc(bytes);
    params_initialize(&table, one, 5, 1);
    params_initialize(&table, many, 5, 7);
    assert_memory_equal(one, many, bytes);
    params_initialize(&table, many, 6, 1);
    assert_true(memcmp(one, many, bytes) != 0);
    free(one);
    free(many);
    params_free(&table);
}

TEST(segments_leave_out_frozen_rows_and_padding) {
    ParamTable table = small_table();
    Segment *segments;
    int n = params_segments(&table, 0.01f, &segments);
    const Segment want[] = {{10, 15, 0.01f, 1, .group = 0},
                            {16, 23, 0.01f, 1, .group = 0},
                            {32, 80, 0.01f, 1, .group = 0},
                            {80, 88, 0, 1, .group = 0}};
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++) {
        assert_int_equal(segments[i].begin, want[i].begin);
        assert_int_equal(segments[i].end, want[i].end);
        assert_true(segments[i].weight_decay == want[i].weight_decay);
        assert_true(segments[i].learning_rate == 1 && segments[i].group == 0);
    }
    free(segments);
    table.items[0].frozen_rows = 3; /* all rows */
    assert_int_equal(params_segments(&table, 0, &segments), 2);
    assert_int_equal(segments[0].begin, 16);
    assert_int_equal(segments[1].end, 88); /* without decay, "plain" joins the segment before it */
    free(segments);
    table.items[table.count - 1].group = 3;
    assert_int_equal(params_segments(&table, 0, &segments), 3); /* groups are not joined */
    assert_true(segments[1].end == 80 && segments[1].group == 0);
    assert_true(segments[2].begin == 80 && segments[2].group == 3 && segments[2].learning_rate == 1);
    free(segments);
    params_free(&table);
}

TEST(muon_has_matrices_and_adamw_the_rest) {
    ParamTable table = small_table();
    table.items[2].matrices = 1; /* "even", 16 x 2 */
    int rows = param_add(&table, INIT_NORMAL, 0.1f, false, 12, 5, "qkv rows"),
        columns = param_add(&table, INIT_NORMAL, 0.1f, true, 5, 12, "qkv columns");
    table.items[rows].matrices = table.items[columns].matrices = 3;
    table.items[columns].matrices_in_columns = true;
    table.items[columns].group = 2;
    ParamUpdates u = params_updates(&table, NULL, 0.01f, true);
    const int64_t segments[][2] = {{10, 15}, {16, 23}, {64, 80}, {80, 88}, {32, 64}, {96, 156}, {160, 220}};
    assert_int_equal(u.n_adamw, 4);
    assert_int_equal(u.n_segments, 7);
    for (int i = 0; i < 7; i++)
        assert_true(u.segments[i].begin == segments[i][0] && u.segments[i].end == segments[i][1]);
    const MuonMatrix matrices[] = {{32, 2, 16, 2, 0.01f, 1, 0},  {96, 5, 4, 5, 0, 1, 0},
                                   {116, 5, 4, 5, 0, 1, 0},      {136, 5, 4, 5, 0, 1, 0},
                                   {160, 12, 5, 4, 0.01f, 1, 2}, {164, 12, 5, 4, 0.01f, 1, 2},
                                   {168, 12, 5, 4, 0.01f, 1, 2}};
    assert_int_equal(u.n_matrices, 7);
    for (int i = 0; i < 7; i++) {
        const MuonMatrix *a = &u.matrices[i], *b = &matrices[i];
        assert_true(a->offset == b->offset && a->stride == b->stride && a->rows == b->rows && a->columns == b->columns);
        assert_true(a->weight_decay == b->weight_decay && a->learning_rate == b->learning_rate && a->group == b->group);
    }
    params_updates_free(&u);
    Segment *all;
    int n = params_segments(&table, 0.01f, &all);
    u = params_updates(&table, NULL, 0.01f, false);
    assert_int_equal(u.n_adamw, n);
    assert_int_equal(u.n_segments, n);
    assert_int_equal(u.n_matrices, 0);
    for (int i = 0; i < n; i++) assert_true(u.segments[i].begin == all[i].begin && u.segments[i].end == all[i].end);
    free(all);
    params_updates_free(&u);
    params_free(&table);
}

static void update_frozen_rows(void *argument) { params_updates(argument, NULL, 0, true); }

TEST(muon_knows_no_frozen_rows) {
    ParamTable table = small_table();
    char output[512];
    table.items[0].matrices = 1;
    assert_int_equal(run_function(output, sizeof output, update_frozen_rows, &table), 1);
    assert_contains(output, "Muon: parameter layer.7.weight has frozen rows");
    params_free(&table);
}

/* The four parameters are one segment: rows of 3 and 2 elements that begin at 0, 48 and 80 of it; the common divisor is
 * 1. Without the last, it is 3. */
TEST(masks_cover_joined_parameters) {
    static const uint8_t tall[16] = {1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
                         wide[8] = {0, 1, 1, 1, 1, 1, 1, 0};
    ParamTable table = {0};
    Device *device = cpu_device_open(1);
    int first = param_add(&table, INIT_NORMAL, 1, true, 16, 3, "tall");
    param_add(&table, INIT_NORMAL, 1, true, 16, 2, "between");
    int last = param_add(&table, INIT_NORMAL, 1, true, 8, 2, "wide");
    param_add(&table, INIT_NORMAL, 1, true, 5, 1, "end");
    table.items[first].used = tall;
    ParamUpdates u = params_updates(&table, device, 0.1f, false);
    assert_int_equal(u.n_segments, 1);
    assert_int_equal(u.segments[0].width, 3);
    assert_int_equal(u.segments[0].count, 48 - 13 * 3 + 32 + 16 + 5);
    for (int64_t e = 0; e < 101; e++) assert_int_equal(u.segments[0].used[e / 3], e >= 48 ? 1 : tall[e / 3]);
    assert_int_equal(u.n_cleared, 2);
    assert_true(u.cleared[1].begin == 48 && u.cleared[1].end == table.flat_count && !u.cleared[1].used);
    assert_int_equal(params_trainable_count(&table), 101 - 13 * 3);
    params_updates_free(&u);
    table.items[first].frozen_rows = 2; /* the segment begins with the third row */
    table.items[last].used = wide;
    u = params_updates(&table, device, 0.1f, false);
    assert_int_equal(u.segments[0].begin, 6);
    assert_int_equal(u.segments[0].width, 1);
    for (int64_t e = 6; e < 101; e++)
        assert_int_equal(u.segments[0].used[e - 6], e < 48 ? tall[e / 3] : e < 80 || e >= 96 ? 1 : wide[(e - 80) / 2]);
    assert_int_equal(u.segments[0].count, 2 * 3 + 32 + 6 * 2 + 5);
    assert_int_equal(params_trainable_count(&table), u.segments[0].count);
    assert_int_equal(u.n_cleared, 4);
    const Segment *c = u.cleared; /* frozen rows get gradients, which are cleared */
    assert_true(c[0].begin == 0 && c[0].end == 48 && c[0].width == 3 && c[0].count == 3 * 3 && c[0].used[0]);
    assert_true(c[1].begin == 48 && c[1].end == 80 && !c[1].used);
    assert_true(c[2].begin == 80 && c[2].end == 96 && c[2].width == 2 && c[2].count == 6 * 2 && !c[2].used[0]);
    assert_true(c[3].begin == 96 && c[3].end == table.flat_count && !c[3].used);
    size_t before = device->allocated;
    params_updates_free(&u);
    assert_int_equal(before - device->allocated, 95 + 16 + 8);
    device_close(device);
    params_free(&table);
}

static void segments_alone_know_no_masks(void *argument) {
    Segment *segments;
    params_segments(argument, 0, &segments);
}

TEST(muon_and_bare_segments_know_no_unused_rows) {
    static const uint8_t used[5] = {1, 0, 1, 1, 1};
    ParamTable table = small_table();
    char output[512];
    table.items[0].frozen_rows = 0;
    table.items[0].matrices = 1;
    table.items[0].used = used;
    assert_int_equal(run_function(output, sizeof output, update_frozen_rows, &table), 1);
    assert_contains(output, "Muon: parameter layer.7.weight has unused rows");
    assert_int_equal(run_function(output, sizeof output, segments_alone_know_no_masks, &table), 1);
    assert_contains(output, "segments: parameter layer.7.weight has unused rows");
    params_free(&table);
}

static void add_overlong_name(void *argument) { param_add(argument, INIT_ZERO, 0, true, 1, 0, "%0100d", 1); }

TEST(overlong_names_are_refused) {
    ParamTable table = {0};
    char output[512];
    assert_int_equal(run_function(output, sizeof output, add_overlong_name, &table), 1);
    assert_contains(output, "name too long");
    params_free(&table);
}

/* Buffers are numbers that training does not change; files may have them in another shape. */
TEST(buffers_are_not_parameters) {
    static const float values[] = {1, 2, 3, 4, 5, 6};
    static const int64_t shape[] = {1, 2, 3};
    ParamTable table = {0};
    Segment *segments;
    param_add(&table, INIT_ONE, 0, true, 16, 0, "gain");
    int index = param_add_buffer(&table, values, 2, 3, "table");
    param_file_shape(&table, 3, shape);
    int zeros = param_add_buffer(&table, NULL, 4, 0, "mean"),
        again = param_add(&table, INIT_UNIFORM, 1, true, 4, 4, "w");
    int like = param_add(&table, INIT_UNIFORM, 1, true, 4, 4, "copy");
    table.items[like].init_like = again;
    assert_int_equal(params_count(&table), 16 + 16 + 16);
    assert_int_equal(params_n_trained(&table), 3);
    assert_int_equal(params_segments(&table, 0.1f, &segments), 2);
    assert_int_equal(segments[0].end, 16);
    assert_int_equal(segments[1].begin, 48);
    float flat[96];
    memset(flat, 0xff, sizeof flat);
    params_initialize(&table, flat, 1, 1);
    Tensor view = param_view(&table, tensor_1d(flat, DTYPE_F32, 96), index);
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.dims[1], 3);
    assert_memory_equal(view.data, values, sizeof values);
    assert_int_equal(table.items[index].rank, 3);
    assert_int_equal(table.items[index].dims[2], 3);
    assert_true(flat[table.items[zeros].offset] == 0);
    assert_memory_equal(flat + table.items[again].offset, flat + table.items[like].offset, 16 * sizeof(float));
    free(segments);
    assert_int_equal(params_moving(&table, &segments), 0); /* constants */
    free(segments);
    params_free(&table);
}

TEST(moving_buffers_have_their_own_segments) {
    ParamTable table = {0};
    Segment *segments;
    param_add(&table, INIT_ONE, 0, true, 16, 0, "gain");
    for (int i = 0; i < 4; i++) { /* the first two are neighbours without padding */
        int index = param_add_buffer(&table, NULL, i < 2 ? 16 : 5, 0, "statistic");
        table.items[index].moves = i != 2;
    }
    assert_int_equal(params_moving(&table, &segments), 2);
    assert_int_equal(segments[0].begin, 16);
    assert_int_equal(segments[0].end, 48);
    assert_int_equal(segments[1].begin, 64);
    assert_int_equal(segments[1].end, 69);
    free(segments);
    params_free(&table);
}
