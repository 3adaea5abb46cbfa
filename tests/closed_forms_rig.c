#include "tests/closed_forms_rig.h"

static char output[1 << 17];

/* ---- the estimate of the program ---- */

/* Returns the estimate of a program on an L4 as JSON; json_decref. */
json_t *forms_estimate(const char *arguments) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    int status = run_command(output, sizeof output,
                             "%s/%s --amp --estimate --json --gpu l4 --calibration none 2>/dev/null", build, arguments);
    json_t *root = json_loads(output, 0, NULL);
    if (status || !root) fail_msg("%s: exit %d: %s", arguments, status, output);
    return root;
}

double forms_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("the estimate has no number '%s'", key);
    return json_number_value(value);
}

double forms_memory(const json_t *root, const char *group) {
    return forms_number(json_object_get(root, "memory_bytes"), group);
}

void forms_expect(const char *what, double got, double want) {
    if (got != want) fail_msg("%s: got %.17g, want %.17g", what, got, want);
}

/* ---- expected calls, FLOPs and bytes of every operation ---- */

CallWork forms_want[OP_COUNT];
static double biases; /* 1: products and norms have them; 0: they do not */

void forms_expect_aligned(const char *arguments) {
    json_t *root = forms_estimate(arguments), *step = json_object_get(root, "step");
    double share = forms_number(step, "unaligned_flops") / forms_number(step, "flops");
    if (!(share < 0.01))
        fail_msg("%s: %.1f %% of the FLOPs are of products that are not aligned", arguments, 100 * share);
    json_decref(root);
}

void forms_start(void) {
    memset(forms_want, 0, sizeof forms_want);
    biases = 1;
}

void forms_without_biases(void) { biases = 0; }

void forms_call(int op, double flops, double bytes) {
    forms_want[op].calls++;
    forms_want[op].flops += flops;
    forms_want[op].bytes += bytes;
}

/* Multiplies all calls so far by their number per step. */
void forms_times(double n) {
    for (int op = 0; op < OP_COUNT; op++)
        forms_want[op] = (CallWork){n * forms_want[op].calls, n * forms_want[op].flops, n * forms_want[op].bytes};
}

CallWork forms_total(void) {
    CallWork sum = {0};
    for (int op = 0; op < OP_COUNT; op++) {
        sum.calls += forms_want[op].calls;
        sum.flops += forms_want[op].flops;
        sum.bytes += forms_want[op].bytes;
    }
    return sum;
}

/* Fails unless the estimate has exactly the operations that were called here, with their calls, FLOPs and bytes. */
static void expect_row(const json_t *row, int op) {
    const double got[] = {forms_number(row, "calls"), forms_number(row, "flops"), forms_number(row, "bytes")};
    if (got[0] != forms_want[op].calls || got[1] != forms_want[op].flops || got[2] != forms_want[op].bytes)
        fail_msg("%s: calls %.0f, FLOPs %.0f, bytes %.0f; want %.0f, %.0f, %.0f", op_names[op], got[0], got[1], got[2],
                 forms_want[op].calls, forms_want[op].flops, forms_want[op].bytes);
}

static const json_t *operations_of(const json_t *root) {
    return json_object_get(json_array_get(json_object_get(root, "gpus"), 0), "operations");
}

static int op_named(const char *name) {
    int op = 0;
    while (op < OP_COUNT - 1 && strcmp(op_names[op], name) != 0) op++;
    return op;
}

/* Compares the operations that the estimate has. others: it may have some that were not called here. */
static void expect_rows(const json_t *root, bool others) {
    bool seen[OP_COUNT] = {false};
    json_t *row;
    size_t i;
    json_array_foreach(operations_of(root), i, row) {
        int op = op_named(json_string_value(json_object_get(row, "operation")));
        if (seen[op] || !(others || forms_want[op].calls > 0))
            fail_msg("%s is in the estimate, but was not called here, or twice in the estimate", op_names[op]);
        seen[op] = true;
        if (forms_want[op].calls > 0) expect_row(row, op);
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (forms_want[op].calls > 0 && !seen[op]) fail_msg("%s is not in the estimate", op_names[op]);
}

void forms_expect_operations(const json_t *root) { expect_rows(root, false); }
void forms_expect_called(const json_t *root) { expect_rows(root, true); }

/* A product of n rows, from `in` numbers to `out`. dx: the gradient of the input is computed, too. */
void forms_linear(double n, double in, double out) {
    forms_call(OP_linear_forward, 2 * n * in * out + biases * n * out,
               HALF * (n * in + in * out + n * out + biases * out));
}
void forms_linear_back(double n, double in, double out, bool dx) {
    forms_call(OP_linear_backward, (dx ? 4 : 2) * n * in * out + biases * n * out,
               HALF * (n * in + n * out) + 8 * (in * out + biases * out) + (dx ? HALF * (n * in + in * out) : 0));
}
/* A product followed by GELU, and one after GELU. GELU takes 9 FLOPs, its slope 18, dropout one more. */
void forms_linear_gelu(double n, double in, double out, bool drop) {
    forms_call(OP_linear_gelu_forward, 2 * n * in * out + (9 + biases + drop) * n * out,
               HALF * (n * in + in * out + 2 * n * out + biases * out));
}
void forms_gelu_linear_back(double n, double in, double out, bool drop) {
    forms_call(OP_gelu_linear_backward, 4 * n * in * out + (18 + drop) * n * in + biases * n * out,
               HALF * (3 * n * in + n * out + in * out) + 8 * (in * out + biases * out));
}

/* Layer norms with f32 mean and rstd per row; sum_norm: after the sum of a residual and a branch. */
void forms_norm(double n, double c) {
    forms_call(OP_layernorm_forward, 8 * n * c, 2 * HALF * n * c + 8 * n + 4 * (1 + biases) * c);
}
static void sum_norm(double n, double c, bool drop) {
    forms_call(OP_residual_layernorm_forward, (drop ? 11 : 9) * n * c, 4 * HALF * n * c + 8 * n + 4 * (1 + biases) * c);
}
void forms_norm_back(double n, double c, bool residual) {
    forms_call(OP_layernorm_backward, 15 * n * c, (3 + residual) * HALF * n * c + 8 * n + (12 + 8 * biases) * c);
}
void forms_drop(double n, double c) { forms_call(OP_dropout, 2 * n * c, 2 * HALF * n * c); }

/* Rows by indices (ids, positions) of 4 bytes; `bytes` and `from` are the size of a number. */
void forms_gather(double n, double c, double bytes) { forms_call(OP_gather_rows, 0, 2 * bytes * n * c + 4 * n); }
void forms_scatter(double n, double c, double from) { forms_call(OP_scatter_rows, 0, (from + HALF) * n * c + 4 * n); }
void forms_place(double n, double c) { forms_call(OP_place_rows, n * c, (2 * HALF + 4) * n * c + 8 * n); }
void forms_embed(double n, double c, bool positions) {
    forms_call(OP_embedding_forward, positions * n * c, (HALF + 4 * (1 + positions)) * n * c + 4 * (2 + positions) * n);
}
void forms_embed_back(double n, double c, bool positions, bool rows) {
    forms_call(OP_embedding_backward, (1 + positions) * n * c,
               (HALF + 8 * (1 + positions)) * n * c + 4 * (1 + rows + positions) * n);
}
void forms_sum(double n) { forms_call(OP_sum_forward, n, 4 * n + 4); }

/* ---- memory: the bytes of one tensor in the arena, in whole cache lines of 64 bytes ---- */

double forms_line(double bytes) { return 64 * ceil(bytes / 64); }
double forms_halves(double n, double c) { return forms_line(HALF * n * c); }
double forms_f32(double n) { return forms_line(4 * n); }
double forms_larger(double a, double b) { return a > b ? a : b; }

/* ---- pre-norm transformer blocks ---- */

void forms_attention(const Blocks *b) {
    double io = HALF * b->n * b->c, more = 4 * b->heads * b->n + 4 * (b->sequences + 1);
    forms_call(OP_attention_forward, b->pairs * (4 * b->c + (b->drop_attention ? 7 : 5) * b->heads), 4 * io + more);
    forms_call(OP_attention_backward, b->pairs * (10 * b->c + (b->drop_attention ? 9 : 6) * b->heads) + 2 * b->n * b->c,
               8 * io + more);
}

/* Forward and backward. */
void forms_blocks(const Blocks *b) {
    for (int l = 0; l < b->layers; l++) {
        bool last = l == b->layers - 1, picked = b->picked && last;
        double n = picked ? b->read : b->n;
        if (l)
            sum_norm(b->n, b->c, b->drop_mlp);
        else
            forms_norm(b->n, b->c);
        forms_linear(b->n, b->c, 3 * b->c);
        forms_attention(b);
        if (picked)
            forms_gather(n, b->c, HALF), forms_gather(n, b->c, HALF); /* the output of attention; the residual */
        forms_linear(n, b->c, b->c);
        sum_norm(n, b->c, b->drop_projection);
        forms_linear_gelu(n, b->c, b->ff, b->drop_hidden);
        forms_linear(n, b->ff, b->c);
        if (last) forms_call(OP_residual_forward, (b->drop_mlp ? 3 : 1) * n * b->c, 3 * HALF * n * b->c);

        if (b->drop_mlp) forms_drop(n, b->c);
        forms_gelu_linear_back(n, b->ff, b->c, b->drop_hidden);
        forms_linear_back(n, b->c, b->ff, true);
        forms_norm_back(n, b->c, true);
        if (b->drop_projection) forms_drop(n, b->c);
        forms_linear_back(n, b->c, b->c, true);
        if (picked) forms_scatter(n, b->c, HALF), forms_scatter(n, b->c, HALF);
        forms_linear_back(b->n, b->c, 3 * b->c, true);
        forms_norm_back(b->n, b->c, true);
    }
}

/* Returns the bytes that the forward keeps for the backward. A block with ff = 4 c keeps 16 c numbers per row: 9 c are
 * outputs of products (qkv, hidden, and the residual sums), the others are outputs of norms, attention and GELU. */
double forms_blocks_kept(const Blocks *b) {
    double bytes = forms_halves(b->n, b->c); /* one buffer for all branches */
    for (int l = 0; l < b->layers; l++) {
        bool picked = b->picked && l == b->layers - 1;
        double n = picked ? b->read : b->n;
        bytes += (l ? 2 : 1) * forms_halves(b->n, b->c) + 2 * forms_f32(b->n);                         /* norm, sum */
        bytes += forms_halves(b->n, 3 * b->c) + forms_halves(b->n, b->c) + forms_f32(b->heads * b->n); /* attention */
        bytes += picked ? 2 * forms_halves(n, b->c) : 0;                                               /* rows of two */
        bytes += 2 * forms_halves(n, b->c) + 2 * forms_f32(n) + 2 * forms_halves(n, b->ff); /* norm, sum, MLP */
    }
    return bytes + forms_halves(b->picked ? b->read : b->n, b->c);
}

/* Returns the most bytes that the backward holds in addition: the gradient of a norm, and that of the hidden rows or of
 * attention, whichever is larger. */
double forms_blocks_back(const Blocks *b) {
    double most = 0, all = b->picked ? forms_halves(b->n, b->c) : 0;
    for (int l = 0; l < b->layers; l++) {
        bool picked = b->picked && l == b->layers - 1;
        double n = picked ? b->read : b->n;
        double attend = forms_halves(n, b->c) + forms_halves(b->n, 3 * b->c) + (picked ? forms_halves(b->n, b->c) : 0);
        most = forms_larger(most, forms_halves(b->n, b->c) + forms_larger(forms_halves(n, b->ff), attend));
    }
    return all + most;
}

/* ---- the update ---- */

void forms_update(double parameters, double flat, double overwritten, double overwritten_gelu) {
    forms_want[OP_linear_backward].bytes -= 4 * overwritten;
    forms_want[OP_gelu_linear_backward].bytes -= 4 * overwritten_gelu;
    forms_call(OP_sum_squares, 2 * parameters, 4 * parameters);
    forms_call(OP_finish_norm, 0, 4);
    forms_call(OP_adamw_update, 14 * parameters, 30 * parameters + 4);
    forms_call(OP_clear_segments, 0, 4 * (flat - overwritten - overwritten_gelu));
}

void forms_expect_states(const json_t *root, double flat) {
    forms_expect("weights, with a copy in 16 bits", forms_memory(root, "weights"), 6 * flat);
    forms_expect("gradients", forms_memory(root, "gradients"), 4 * flat);
    forms_expect("moments", forms_memory(root, "optimizer"), 8 * flat);
    forms_expect("a checkpoint", forms_number(root, "checkpoint_bytes"), 12 * flat);
}
