/* Properties of all operations of the cpu device, by the table of calls: all are there, each writes all of its outputs
 * and passes a NaN on, and a wrong call dies. */
#include "kernels/device_open.h"
#include "tests/kernels/op_cases.h"
#include "tests/kernels/ops_rig.h"

#include <unistd.h>

static void make_in_rig(OpCall *call, OpArgument *a, const void *numbers) {
    a->on[0] = tensor(call->owner, a->type, a->rows, a->columns > 0 ? a->columns : 0);
    if (a->columns < 0) a->on[0] = tensor_2d(a->on[0].data, a->type, a->rows, 0);
    memcpy(a->on[0].data, numbers, tensor_bytes(a->on[0]));
}

static OpCall call_in_rig(Rig *rig, int op, const char *changes) {
    OpCall call = {.device = rig->device, .changes = changes, .make = make_in_rig, .owner = rig};
    op_call(op, &call);
    return call;
}

enum { TEXT = 160 };

/* A NaN in an input must appear in the outputs, above all in the loss. */

typedef struct {
    const char *rule;
    int64_t rows, row, columns, column, at; /* of the input, and of the NaN in it */
} Planted;

/* Fails unless what is NaN in an output is what the rule says. */
static void check_output(const OpCase *c, const OpArgument *a, const Planted *p) {
    int64_t n = tensor_numel(a->on[0]), width = a->columns ? a->columns : 1, found = 0;
    char key[TEXT];
    snprintf(key, sizeof key, " %s=", a->name);
    const char *own = strstr(c->nan, key), *rule = own ? own + strlen(key) : p->rule;
    bool by_element = !strncmp(rule, "element", 7) && n == p->rows * p->columns, by_column = !strcmp(rule, "column");
    bool by_row = (!strncmp(rule, "row", 3) || *rule == 'e') && !by_element && a->rows == p->rows;
    bool some = !by_row && !by_element && !by_column;
    if (!strncmp(rule, "free", 4)) return;
    for (int64_t i = 0; i < n; i++) {
        bool is = isnan(floats(a->on[0])[i]);
        bool expected = by_row ? i / width == p->row : by_element ? i == p->at : i % p->columns == p->column;
        found += is;
        if (!some && is != expected)
            fail_msg("%s: a NaN at %lld, and %s[%lld] is %g", c->name, (long long)p->at, a->name, (long long)i,
                     (double)floats(a->on[0])[i]);
    }
    if (some && (!strncmp(rule, "all", 3) ? found < n : !strncmp(rule, "none", 4) ? found > 0 : found == 0))
        fail_msg("%s: a NaN at %lld makes %lld of %lld numbers of %s NaN", c->name, (long long)p->at, (long long)found,
                 (long long)n, a->name);
}

static void expect_no_nan(Rig *rig, const OpCase *c, const OpCall *call) {
    for (int i = 0; i < call->n_arguments; i++) {
        const OpArgument *a = &call->arguments[i];
        bool doubles = !strcmp(a->name, "moments") || !strcmp(a->name, "squares");
        bool is_float = (a->type == DTYPE_F32 && !doubles) || (a->type == DTYPE_I32 && a->role == OP_OUTPUT);
        for (int64_t k = 0; is_float && k < tensor_numel(a->on[0]); k++)
            if (isnan(floats(a->on[0])[k])) fail_msg("%s: %s[%lld] is NaN", c->name, a->name, (long long)k);
        if (a->role != OP_INPUT) hash_output(rig, a->on[0]);
    }
}

/* Plants a NaN at the first, middle and last column of a row that no later one reads, or at the first alone. */
static void check_nan_of(Rig *all, int op, const char *changes, int positions) {
    const OpCase *c = op_cases[op];
    char name[24] = "", rule[24] = "", which[24] = "", planted[2 * TEXT];
    Rig rig = {.device = all->device, .hash = all->hash};
    OpCall clean = call_in_rig(&rig, op, changes);
    expect_no_nan(&rig, c, &clean);
    all->hash = rig.hash;
    if (c->nan) sscanf(c->nan, "%23s %23s %23s", name, rule, which);
    for (int k = *which == 'l' ? 2 : 0; c->nan && k < (*which == 'f' ? 1 : positions); k++) {
        const OpArgument *in = op_argument_of(&clean, name);
        Planted p = {.rule = rule, .rows = in->rows, .columns = in->columns};
        if (!p.columns) p.columns = p.rows, p.rows = 1;
        p.row = (p.rows + 1) / 2 - 1;
        p.column = k * (p.columns - 1) / 2;
        p.at = p.row * p.columns + p.column;
        snprintf(planted, sizeof planted, "%s %s[%lld]=nan", changes, name, (long long)p.at);
        OpCall call = call_in_rig(&rig, op, planted);
        for (int i = 0; i < call.n_arguments; i++) {
            const OpArgument *a = &call.arguments[i];
            if (a->role == OP_OUTPUT || a->role == OP_CHANGED) check_output(c, a, &p);
            if (!strcmp(a->name, "correct") && in->columns > 1) assert_true(floats(a->on[0])[p.row] == 0);
        }
    }
    rig_free(&rig);
}

static void check_nan_inputs_give_nan_outputs(Rig *rig) {
    char changes[TEXT];
    for (int op = 0; op < OP_COUNT; op++) {
        snprintf(changes, sizeof changes, "%s c=83 v=83 heads=1", op_cases[op]->nan_changes);
        check_nan_of(rig, op, changes, 3);
    }
    check_nan_of(rig, OP_gelu_forward, "c=83 kind=1", 3);
    check_nan_of(rig, OP_gelu_backward, "c=83 kind=1", 3);
    check_nan_of(rig, OP_attention_forward, "n=70 each=70 c=4 heads=1", 1); /* a middle query: affects no other row */
}

/* A wrong call dies with a message that names the operation and the wrong argument. */

static const struct {
    int op;
    const char *changes, *message;
} refusals[] = {
    {OP_linear_forward, "w:5x12", "linear_forward: w is f32 [5, 12], expected f32 [10, 12]"},
    {OP_linear_backward, "dbias:4", "linear_backward: bias is f32 [4], expected f32 [10]"},
    {OP_linear_gelu_forward, "hidden:6x4", "linear_gelu_forward: hidden is f32 [6, 4], expected f32 [6, 10]"},
    {OP_gelu_linear_backward, "hidden:6x6", "gelu_linear_backward: hidden is f32 [6, 6], expected f32 [6, 12]"},
    {OP_gelu_forward, "x:i32", "gelu_forward: x is i32 [6, 12]; the cpu device computes in f32"},
    {OP_layernorm_forward, "gain:none", "layernorm_forward: gain is none, expected f32 [12]"},
    {OP_attention_forward, "heads=5", "attention_forward: 36 columns are not q, k and v of 5 heads"},
    {OP_attention_forward, "qkv:7x36 out:7x12 lse:3x7", "attention_forward: the sequences are rows 0 .. 6, qkv has 7"},
    {OP_attention_terms_forward, "heads=5", "attention_terms_forward: 36 columns are not q, k and v of 5 heads"},
    {OP_attention_terms_forward, "causal=2",
     "attention_terms_forward: the attention is causal, which has no kernels with terms: clear Attention.causal"},
    {OP_attention_terms_forward, "left=-1",
     "attention_terms_forward: distances from -1 to the left to 1 to the right, expected 0 or more and 128 at most"},
    {OP_attention_terms_forward, "left=120 right=8",
     "attention_terms_forward: distances from 120 to the left to 8 to the right, expected 0 or more and 128 at most"},
    {OP_attention_terms_forward, "distances:5x4",
     "attention_terms_forward: distances is f32 [5, 4], expected f32 [4, 4]"},
    {OP_attention_terms_forward, "key_terms:6x2",
     "attention_terms_forward: key_terms is f32 [6, 2], expected f32 [6, 3]"},
    {OP_attention_terms_forward, "hidden:2", "attention_terms_forward: hidden is i32 [2], expected i32 [3]"},
    {OP_attention_terms_forward, "hidden[1]=-1",
     "attention_terms_forward: hidden[1] is -1, expected less than 2147483647 and not negative"},
    {OP_attention_cached_forward, "qkv:6x13", "attention_cached_forward: 13 columns are not q, k and v of 3 heads"},
    {OP_attention_cached_forward, "capacity=3 kv:7x24",
     "attention_cached_forward: the 7 rows of kv are not whole slots of 3 rows"},
    {OP_attention_cached_forward, "capacity=3 longest=4",
     "attention_cached_forward: the longest sequence has 4 rows, expected 1 .. 3, the rows of a slot"},
    {OP_attention_cached_forward, "slots[1]=6",
     "attention_cached_forward: slots[1] is 6, expected less than 6 and not negative"},
    {OP_attention_cached_forward, "capacity=3 longest=2 lengths[1]=3",
     "attention_cached_forward: lengths[1] is 3, expected less than 3"},
    {OP_attention_cached_forward, "capacity=3 longest=2 lengths[1]=0",
     "attention_cached_forward: lengths[1] is 0, expected less than 3 and not 0 or negative"},
    {OP_cache_rows, "kv:4x6", "cache_rows: kv is f32 [4, 6], expected f32 [any, 24]"},
    {OP_cache_rows, "rows[1]=6", "cache_rows: rows[1] is 6, expected less than 6 and not negative"},
    {OP_dropout, "p=1", "dropout: the dropout is 1, expected at least 0 and less than 1"},
    {OP_cross_entropy_forward, "targets[1]=10", "cross_entropy_forward: targets[1] is 10, expected less than 10"},
    {OP_cross_entropy_forward, "weights:3", "cross_entropy_forward: weights is f32 [3], expected f32 [6]"},
    {OP_cross_entropy_forward, "logits:6x9", "cross_entropy_forward: 10 classes of logits with 9 columns"},
    {OP_soft_cross_entropy_forward, "targets:6x9",
     "soft_cross_entropy_forward: targets is f32 [6, 9], expected f32 [6, 10]"},
    {OP_soft_cross_entropy_forward_backward, "labels[1]=10",
     "soft_cross_entropy: labels[1] is 10, expected less than 10"},
    {OP_layernorm_forward, "epsilon=0", "layernorm_forward: the epsilon is 0, expected more than 0"},
    {OP_silu_forward, "y:6x13", "silu_forward: y is f32 [6, 13], expected f32 [6, 12]"},
    {OP_gate_forward, "x:6x12", "gate_forward: x is f32 [6, 12], expected f32 [6, 24]"},
    {OP_depthwise_forward, "before=2",
     "depthwise_forward: 2 taps of dilation 1 with 2 rows before, expected at least one tap, a dilation of at least 1, "
     "and 0 .. (taps - 1) dilation rows before"},
    {OP_depthwise_forward, "dilation=0", "depthwise_forward: 2 taps of dilation 0 with 1 rows before"},
    {OP_depthwise_forward, "k=0", "depthwise_forward: 0 taps of dilation 1 with 1 rows before"},
    {OP_depthwise_forward, "before=-1", "depthwise_forward: 2 taps of dilation 1 with -1 rows before"},
    {OP_depthwise_forward, "w:12x3", "depthwise_forward: w is f32 [12, 3], expected f32 [12, 2]"},
    {OP_depthwise_forward, "bias:13", "depthwise_forward: bias is f32 [13], expected f32 [12]"},
    {OP_depthwise_forward, "x:7x12 y:7x12", "depthwise_forward: the sequences are rows 0 .. 6, x has 7"},
    {OP_depthwise_forward, "y:@x", "depthwise_forward: y is x, whose rows are read for several rows of y"},
    {OP_nearest_direction, "c=17", "nearest_direction: rows of 17 numbers, expected 1 .. 16"},
    {OP_nearest_direction, "v=1", "nearest_direction: a table of 1 rows, expected 2 .. 2^31 - 1"},
    {OP_nearest_direction, "table:10x11", "nearest_direction: table is f32 [10, 11], expected f32 [any, 12]"},
    {OP_nearest_direction, "margins:5", "nearest_direction: margins is f32 [5], expected f32 [6]"},
    {OP_tanh_backward, "dy:12x6", "tanh_backward: dy is f32 [12, 6], expected f32 [6, 12]"},
    {OP_place_rows, "rows[1]=6", "place_rows: rows[1] is 6, expected less than 6, and not below -1"},
    {OP_squared_error_forward, "targets:12x6", "squared_error_forward: targets is f32 [12, 6], expected f32 [6, 12]"},
    {OP_binary_cross_entropy_forward, "logits:6x2",
     "binary_cross_entropy_forward: logits is f32 [6, 2], expected f32 [any, 1]"},
    {OP_binary_cross_entropy_forward_backward, "labels:6x1",
     "binary_cross_entropy_forward_backward: labels is f32 [6, 1], expected f32 [6]"},
    {OP_normalize_rows_backward, "norm:4", "normalize_rows_backward: norm is f32 [4], expected f32 [6]"},
    {OP_nt_xent_forward, "n=3", "nt_xent_forward: z has 3 rows, expected two of each sample"},
    {OP_nt_xent_backward, "temperature=0", "nt_xent_backward: the temperature is 0, expected more than 0"},
    {OP_embedding_forward, "ids[1]=-1", "embedding_forward: ids[1] is -1, expected less than 10 and not negative"},
    {OP_embedding_forward, "position_table:none", "embedding_forward: position_table is none, expected f32 [any, 12]"},
    {OP_gather_rows, "rows[0]=6", "gather_rows: rows[0] is 6, expected less than 6, and not below -1"},
    {OP_sum_squares, "grads:95", "sum_squares: elements 0 .. 100 of 95"},
    {OP_clear_segments, "x:95", "clear_segments: segment 1 is 50 .. 100, the buffer has 95 elements"},
    {OP_clear_segments, "masked=8", "clear_segments: 8 elements in rows of 2 take part in segment 0 of 6 elements"},
    {OP_unfold_forward, "length=2 k=7 pad=2",
     "unfold_forward: 7 taps, stride 1, padding 2 have no position in sequences of 2 rows"},
    {OP_unfold_backward, "dy:8x6", "unfold_backward: dy is f32 [8, 6], expected f32 [4, 24]"},
    {OP_conv3d_forward, "n=18 t=3 h=3 w=2 taps=3 y:1x12",
     "conv3d_forward: 3 taps, stride 1, padding 0 have no position in 2 along w"},
    {OP_conv3d_forward, "x:7x12", "conv3d_forward: the 7 rows of x are not whole samples of 1 x 2 x 3"},
    {OP_conv3d_backward, "overwrite=1", "conv3d_backward: dw is only added to, not overwritten"},
    {OP_conv3d_backward, "w:12x13", "conv3d_backward: w is f32 [12, 13], expected f32 [12, 12]"},
    {OP_conv3d_forward, "x:6x0", "conv3d_forward: from 0 channels to 12, expected at least one each"},
    {OP_max_pool_forward, "x:7x12", "max_pool_forward: the 7 rows of x are not whole samples of 3 frames of 1 rows"},
    {OP_max_pool_backward, "dy:3x12", "max_pool_backward: dy is f32 [3, 12], expected f32 [2, 12]"},
    {OP_mean_rows_forward, "x:7x12", "mean_rows_forward: the 7 rows of x are not whole sequences of 3 rows"},
    {OP_batchnorm_forward, "n=1", "batchnorm_forward: the batch has 1 rows, expected at least 2"},
    {OP_batchnorm_forward, "running_var:none", "batchnorm_forward: running_var is none, expected f32 [12]"},
    {OP_norm_activate_forward, "a.x:7x12",
     "norm_activate_forward: the 7 rows of a.x are not whole samples of 3 frames of 1 rows"},
    {OP_norm_activate_forward, "a.mean:none", "norm_activate_forward: a.mean is none, expected f32 [12]"},
    {OP_norm_activate_forward, "b.mean:none", "norm_activate_forward: there is b.rstd, but no b.mean"},
    {OP_norm_activate_forward, "b.mean:none b.rstd:none", "norm_activate_forward: there is b.gain, but no b.mean"},
    {OP_norm_activate_forward, "b.x:none", "norm_activate_forward: b.mean is f32 [12], but there is no b.x"},
    {OP_norm_activate_backward, "dy:3x12", "norm_activate_backward: dy is f32 [3, 12], expected f32 [2, 12]"},
    {OP_norm_activate_backward, "db.dgain:none", "norm_activate_backward: db.dgain is none, expected f32 [12]"},
    {OP_augment_volumes, "wide=3",
     "augment_volumes: volumes of 2 bins of 1 x 3 pixels, expected 1 to 1024 of 1 x 1 to 64 x 64, square"},
    {OP_augment_volumes, "counts:f32", "augment_volumes: counts is f32 [6, 2], expected u8 or u16"},
    {OP_augment_volumes, "draws[1]=0", "augment_volumes: draws[0] has a number out of range"},
    {OP_augment_volumes, "volumes[0]=6", "augment_volumes: volumes[0] is 6, expected less than 6 and not negative"},
    {OP_mixup, "partners=4", "mixup: the 6 rows of x are not 4 whole samples"},
    {OP_mixup, "partners[1]=6", "mixup: partners[1] is 6, expected less than 6 and not negative"},
    {OP_mixup, "y:@x", "mixup: y is x, which partners are read from"},
};

static void call_wrongly(void *argument) {
    Rig *rig = xcalloc(1, sizeof *rig);
    size_t i = *(size_t *)argument;
    rig->device = devices[0];
    call_in_rig(rig, refusals[i].op, refusals[i].changes);
}

TEST(wrong_calls_die_with_the_reason) {
    char output[1024];
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_int_equal(run_function(output, sizeof output, call_wrongly, &i), 1);
        assert_contains(output, refusals[i].message);
    }
}

static void open_wrongly(void *argument) {
    setenv("TRAINC_CPU_SET", argument, 1);
    cpu_device_open(1);
}

TEST(an_unknown_instruction_set_is_refused) {
    char output[1024], set[] = "mmx";
    assert_int_equal(run_function(output, sizeof output, open_wrongly, set), 1);
    assert_contains(output, "TRAINC_CPU_SET=mmx");
}

#define OP_IS_THERE(op) assert_non_null(devices[d]->ops->op);
TEST(every_table_is_complete) {
    for (int d = 0; d < n_devices; d++) {
        FOR_EACH_OP(OP_IS_THERE)
    }
    for (int op = 0; op < OP_COUNT; op++) {
        char path[TEXT];
        snprintf(path, sizeof path, "tests/kernels/test_%s.c", op_cases[op]->test);
        if (access(path, R_OK)) fail_msg("%s is tested by %s, which is not there", op_names[op], path);
    }
}

int main(void) {
    const struct CMUnitTest shared[] = {ops_test(nan_inputs_give_nan_outputs)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_devices, close_devices);
}
