/* What the dry device counts of the models at their full sizes, operation by operation and exactly, against closed
 * forms that are worked out here from the layers; and these beside the specifications' own numbers, with the reason
 * where ours are others by design.
 *
 * Everything is of one optimizer step with --amp, as --estimate prints it: activations and the weights of products are
 * HALF bytes a number, all else is 4. */
#include <jansson.h>

#include "kernels/ops_table.h"
#include "tests/helpers.h"
#include "train/estimate.h"

enum { HALF = 2 };

static char output[1 << 17];

/* ---- what the program says ---- */

/* The estimate as JSON; json_decref. */
static json_t *estimate(const char *arguments) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    int status = run_command(output, sizeof output,
                             "%s/%s --amp --estimate --json --gpu l4 --calibration none 2>/dev/null", build, arguments);
    json_t *root = json_loads(output, 0, NULL);
    if (status || !root) fail_msg("%s: exit %d: %s", arguments, status, output);
    return root;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("there is no number '%s'", key);
    return json_number_value(value);
}

static double memory(const json_t *root, const char *group) {
    return number(json_object_get(root, "memory_bytes"), group);
}

static void expect(const char *what, double got, double want) {
    if (got != want) fail_msg("%s: got %.17g, want %.17g", what, got, want);
}

/* ---- what it must say: calls, FLOPs and bytes of every operation ---- */

static CallWork want[ESTIMATE_OPS];

static void start(void) { memset(want, 0, sizeof want); }

static void call(int op, double flops, double bytes) {
    want[op].calls++;
    want[op].flops += flops;
    want[op].bytes += bytes;
}

/* All that was called so far comes so often a step. */
static void times(double n) {
    for (int op = 0; op < ESTIMATE_OPS; op++)
        want[op] = (CallWork){n * want[op].calls, n * want[op].flops, n * want[op].bytes};
}

static CallWork total(void) {
    CallWork sum = {0};
    for (int op = 0; op < ESTIMATE_OPS; op++) {
        sum.calls += want[op].calls;
        sum.flops += want[op].flops;
        sum.bytes += want[op].bytes;
    }
    return sum;
}

/* Every operation that is called is wanted, and the other way round. */
static void expect_operations(const json_t *root) {
    const json_t *rows = json_object_get(json_array_get(json_object_get(root, "gpus"), 0), "operations");
    json_t *row;
    size_t i, n = 0;
    json_array_foreach(rows, i, row) {
        const char *name = json_string_value(json_object_get(row, "operation"));
        int op = 0;
        while (op < ESTIMATE_OPS - 1 && strcmp(estimate_op_name(op), name)) op++;
        const double got[] = {number(row, "calls"), number(row, "flops"), number(row, "bytes")};
        if (got[0] != want[op].calls || got[1] != want[op].flops || got[2] != want[op].bytes)
            fail_msg("%s: calls %.0f, FLOPs %.0f, bytes %.0f; want %.0f, %.0f, %.0f", name, got[0], got[1], got[2],
                     want[op].calls, want[op].flops, want[op].bytes);
    }
    for (int op = 0; op < ESTIMATE_OPS; op++) n += want[op].calls > 0;
    assert_int_equal(json_array_size(rows), n);
}

/* A product of n rows and its bias: from `in` numbers to `out`. dx: its input's gradient is wanted, too. */
static void linear(double n, double in, double out) {
    call(OP_linear_forward, 2 * n * in * out + n * out, HALF * (n * in + in * out + n * out + out));
}
static void linear_back(double n, double in, double out, bool dx) {
    call(OP_linear_backward, (dx ? 4 : 2) * n * in * out + n * out,
         HALF * (n * in + n * out) + 8 * (in * out + out) + (dx ? HALF * (n * in + in * out) : 0));
}
/* With GELU behind it; before it. A GELU is 9 FLOPs, its slope 18, dropout one more. */
static void linear_gelu(double n, double in, double out, bool drop) {
    call(OP_linear_gelu_forward, 2 * n * in * out + (10 + drop) * n * out,
         HALF * (n * in + in * out + 2 * n * out + out));
}
static void gelu_linear_back(double n, double in, double out, bool drop) {
    call(OP_gelu_linear_backward, 4 * n * in * out + (18 + drop) * n * in + n * out,
         HALF * (3 * n * in + n * out + in * out) + 8 * (in * out + out));
}

/* Mean and reciprocal deviation of each row are f32. sum: of a residual and a branch, before the norm. */
static void norm(double n, double c) { call(OP_layernorm_forward, 8 * n * c, 2 * HALF * n * c + 8 * n + 8 * c); }
static void sum_norm(double n, double c, bool drop) {
    call(OP_residual_layernorm_forward, (drop ? 11 : 9) * n * c, 4 * HALF * n * c + 8 * n + 8 * c);
}
static void norm_back(double n, double c, bool residual) {
    call(OP_layernorm_backward, 15 * n * c, (3 + residual) * HALF * n * c + 8 * n + 20 * c);
}
static void drop(double n, double c) { call(OP_dropout, 2 * n * c, 2 * HALF * n * c); }

/* Rows by their numbers, which are of 4 bytes, as ids and positions are; `from` and `to`: bytes of a number. */
static void gather(double n, double c, double bytes) { call(OP_gather_rows, 0, 2 * bytes * n * c + 4 * n); }
static void scatter(double n, double c, double from) { call(OP_scatter_rows, 0, (from + HALF) * n * c + 4 * n); }
static void place(double n, double c) { call(OP_place_rows, n * c, (2 * HALF + 4) * n * c + 8 * n); }
static void embed(double n, double c, bool positions) {
    call(OP_embedding_forward, positions * n * c, (HALF + 4 * (1 + positions)) * n * c + 4 * (2 + positions) * n);
}
static void embed_back(double n, double c, bool positions, bool rows) {
    call(OP_embedding_backward, (1 + positions) * n * c,
         (HALF + 8 * (1 + positions)) * n * c + 4 * (1 + rows + positions) * n);
}
static void sum(double n) { call(OP_sum_forward, n, 4 * n + 4); }

/* ---- memory: what is pushed at a time, on cache lines of 64 bytes ---- */

static double line(double bytes) { return 64 * ceil(bytes / 64); }
static double halves(double n, double c) { return line(HALF * n * c); }
static double f32(double n) { return line(4 * n); }
static double larger(double a, double b) { return a > b ? a : b; }

/* ---- transformer blocks with their norms before them ---- */

typedef struct {
    double n,
        read; /* rows, and those of the last block's output that are read: behind its attention it has no others */
    double c, ff, heads, layers, pairs, sequences;
    bool picked; /* not all are read */
    bool drop_attention, drop_projection, drop_hidden, drop_mlp;
} Blocks;

static void attention(const Blocks *b) {
    double io = HALF * b->n * b->c, more = 4 * b->heads * b->n + 4 * (b->sequences + 1);
    call(OP_attention_forward, b->pairs * (4 * b->c + (b->drop_attention ? 7 : 5) * b->heads), 4 * io + more);
    call(OP_attention_backward, b->pairs * (10 * b->c + (b->drop_attention ? 9 : 6) * b->heads) + 2 * b->n * b->c,
         8 * io + more);
}

/* Forward and backward. */
static void blocks(const Blocks *b) {
    for (int l = 0; l < b->layers; l++) {
        bool last = l == b->layers - 1, picked = b->picked && last;
        double n = picked ? b->read : b->n;
        if (l)
            sum_norm(b->n, b->c, b->drop_mlp);
        else
            norm(b->n, b->c);
        linear(b->n, b->c, 3 * b->c);
        attention(b);
        if (picked) gather(n, b->c, HALF), gather(n, b->c, HALF); /* what attention says; the residual */
        linear(n, b->c, b->c);
        sum_norm(n, b->c, b->drop_projection);
        linear_gelu(n, b->c, b->ff, b->drop_hidden);
        linear(n, b->ff, b->c);
        if (last) call(OP_residual_forward, (b->drop_mlp ? 3 : 1) * n * b->c, 3 * HALF * n * b->c);

        if (b->drop_mlp) drop(n, b->c);
        gelu_linear_back(n, b->ff, b->c, b->drop_hidden);
        linear_back(n, b->c, b->ff, true);
        norm_back(n, b->c, true);
        if (b->drop_projection) drop(n, b->c);
        linear_back(n, b->c, b->c, true);
        if (picked) scatter(n, b->c, HALF), scatter(n, b->c, HALF);
        linear_back(b->n, b->c, 3 * b->c, true);
        norm_back(b->n, b->c, true);
    }
}

/* What the backward finds in memory: of a block's 16 rows of c (ff 4 c), 9 are products' outputs (qkv, hidden, and with
 * their sums the residuals); norms' and GELU's outputs are kept, too, instead of being made again. */
static double blocks_kept(const Blocks *b) {
    double bytes = halves(b->n, b->c); /* of the branches, one for all */
    for (int l = 0; l < b->layers; l++) {
        bool picked = b->picked && l == b->layers - 1;
        double n = picked ? b->read : b->n;
        bytes += (l ? 2 : 1) * halves(b->n, b->c) + 2 * f32(b->n);                   /* norm, sum */
        bytes += halves(b->n, 3 * b->c) + halves(b->n, b->c) + f32(b->heads * b->n); /* attention */
        bytes += picked ? 2 * halves(n, b->c) : 0;                                   /* rows of two */
        bytes += 2 * halves(n, b->c) + 2 * f32(n) + 2 * halves(n, b->ff);            /* norm, sum, MLP */
    }
    return bytes + halves(b->picked ? b->read : b->n, b->c);
}

/* And at most a time during the backward: the norm's gradient beside the hidden rows' or beside attention's. */
static double blocks_back(const Blocks *b) {
    double most = 0, all = b->picked ? halves(b->n, b->c) : 0;
    for (int l = 0; l < b->layers; l++) {
        bool picked = b->picked && l == b->layers - 1;
        double n = picked ? b->read : b->n;
        double attend = halves(n, b->c) + halves(b->n, 3 * b->c) + (picked ? halves(b->n, b->c) : 0);
        most = larger(most, halves(b->n, b->c) + larger(halves(n, b->ff), attend));
    }
    return all + most;
}

/* ---- the update ---- */

/* Of so many parameters in a flat buffer of so many numbers. AdamW: weights, moments and gradients are read, the first
 * three and a 16-bit copy written: 30 bytes a parameter. */
static void update(double parameters, double flat) {
    call(OP_global_norm, 2 * parameters, 4 * parameters + 4);
    call(OP_adamw_update, 14 * parameters, 30 * parameters + 4);
    call(ESTIMATE_CLEAR, 0, 4 * flat);
}

static void expect_states(const json_t *root, double flat) {
    expect("weights, with a copy in 16 bits", memory(root, "weights"), 6 * flat);
    expect("gradients", memory(root, "gradients"), 4 * flat);
    expect("moments", memory(root, "optimizer"), 8 * flat);
    expect("a checkpoint", number(root, "checkpoint_bytes"), 12 * flat);
}

/* ---- the Amharic GPT ---- */

enum { CONDITIONING = 32, SPEED = 2, TEXT = 102, TEXT_TARGETS = 101, MEL = 251, MEL_CODES = 8194 };
enum { GPT_ROWS = CONDITIONING + SPEED + TEXT + MEL, GPT_LAYERS = 24, GPT_WIDTH = 1280 };

/* The rows of one head: norms, logits, loss, and back. */
static void gpt_head(double n, double c, double classes) {
    gather(n, c, HALF);
    norm(n, c), norm(n, c);
    linear(n, c, classes);
    call(OP_cross_entropy_forward_backward, 5 * n * classes, 2 * HALF * n * classes + 12 * n);
    sum(n), sum(n);
    linear_back(n, c, classes, true);
    norm_back(n, c, false), norm_back(n, c, false);
    scatter(n, c, HALF);
}

static double gpt_head_bytes(double n, double c, double classes) {
    return 5 * halves(n, c) + 6 * f32(n) + halves(n, classes);
}

static Blocks gpt_blocks(double batch) {
    double rows = batch * GPT_ROWS, pairs = batch * (GPT_ROWS * (GPT_ROWS + 1) / 2.0);
    return (Blocks){.n = rows,
                    .c = GPT_WIDTH,
                    .ff = 4 * GPT_WIDTH,
                    .heads = 20,
                    .layers = GPT_LAYERS,
                    .pairs = pairs,
                    .sequences = batch,
                    .drop_attention = true,
                    .drop_projection = true,
                    .drop_mlp = true};
}

static void gpt_step(double batch, double accumulated, double text_classes, double parameters, double flat) {
    Blocks b = gpt_blocks(batch);
    start();
    scatter(batch * CONDITIONING, b.c, 4); /* rows of files, f32 */
    embed(batch * SPEED, b.c, false), embed(batch * TEXT, b.c, true), embed(batch * MEL, b.c, true);
    drop(b.n, b.c);
    blocks(&b);
    gpt_head(batch * TEXT_TARGETS, b.c, text_classes);
    gpt_head(batch * MEL, b.c, MEL_CODES);
    drop(b.n, b.c);
    embed_back(batch * MEL, b.c, true, true), embed_back(batch * TEXT, b.c, true, true);
    embed_back(batch * SPEED, b.c, false, true);
    times(accumulated);
    update(parameters, flat);
}

/* Of the specification's table: matrices, biases and norms of a block; embeddings, positions, norms, heads. */
static double gpt_parameters(double pieces) {
    double c = GPT_WIDTH, block = 12 * c * c + 13 * c;
    return GPT_LAYERS * block + 4 * c + (pieces + 1) * (2 * c + 1) + MEL_CODES * (2 * c + 1) + (1818 + 602 + 2) * c;
}

static void the_gpt_at_its_full_size(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        double pieces = i ? 24000 : 12000, parameters = gpt_parameters(pieces), batch = i ? 8 : 4;
        /* In the flat buffer each tensor begins on a line of 16 numbers: only heads' biases leave some of one. */
        double flat = parameters + (16 - (int)(pieces + 1) % 16) + (16 - MEL_CODES % 16);
        char *line = xformat("train_gpt -b %.0f -g 4 --number-text-tokens %.0f", batch, pieces);
        json_t *root = estimate(line);
        Blocks b = gpt_blocks(batch);
        expect("parameters, by the specification", parameters, i ? 557815235 : 527083235);
        expect("parameters", number(root, "parameters"), parameters);
        gpt_step(batch, 4, pieces + 1, parameters, flat);
        expect_operations(root);
        expect_states(root, flat);
        double heads =
            larger(gpt_head_bytes(batch * TEXT_TARGETS, b.c, pieces + 1), gpt_head_bytes(batch * MEL, b.c, MEL_CODES));
        expect("activations", memory(root, "activations"),
               2 * halves(b.n, b.c) + blocks_kept(&b) + larger(heads, blocks_back(&b)));
        json_decref(root);
        free(line);
    }
}

/* Its table, at S = 388: causal attention as half a square, heads over all text and mel rows; 24,001 and 8,194 classes,
 * an effective batch of 32. Ours leaves the row out that has no target, and the pairs of a square's half are S + 1, not
 * S, to a row; biases, norms, GELU, dropout, softmax and the update come on top, and attention's backward is 2.5 times
 * its forward, as scores are made again: together 0.5 % of a step. */
static void the_gpts_step_is_the_specifications(void **state) {
    (void)state;
    double S = 388, c = GPT_WIDTH, weights = 471859200, parameters = gpt_parameters(24000);
    double forward = 32 * (S * 2 * weights + 24 * 2 * S * S * c + 2 * c * (24001.0 * 102 + 8194.0 * 252));
    expect("weights of the blocks' products", GPT_LAYERS * 12 * c * c, weights);
    assert_near(forward / 1e12, 12.38, 0.005);
    assert_near(3 * forward / 1e12, 37.15, 0.005);
    gpt_step(8, 4, 24001, parameters, parameters);
    assert_near(total().flops, 3 * forward, 0.005 * 3 * forward);
    assert_near(want[OP_adamw_update].bytes / 1e9, 16.7, 0.05); /* "at least 15.6": 28 bytes; and the copy's 2 */
    assert_near(want[OP_global_norm].bytes / 300e9, 7e-3, 0.5e-3);
    /* "About 36 c bytes a row and layer, 3.4 GB": 32 c, and attention's and the norms' f32. */
    Blocks b = gpt_blocks(8);
    double of_row = blocks_kept(&b) / (b.n * GPT_LAYERS);
    assert_near(of_row, 32 * c + 4 * 20 + 16, 2 * 2 * c / GPT_LAYERS);
    assert_true(of_row < 36 * c);
}

/* ---- power spectra ---- */

typedef struct {
    const char *size;
    double d, layers, heads, ff, e, decoder_layers, q, head; /* of the model */
    double batch, pretraining, classifier;                   /* parameters, by the specification */
} Psd;

static const Psd psds[] = {
    {"tiny", 32, 1, 2, 64, 16, 1, 16, 32, 256, 14064, 10502},
    {"small", 128, 4, 4, 256, 64, 2, 64, 128, 256, 634576, 550022},
    {"l4", 256, 6, 8, 1024, 64, 2, 64, 128, 256, 4911696, 4777862},
    {"medium", 512, 8, 8, 2048, 128, 4, 128, 256, 512, 26157968, 25363206},
    {"large", 1024, 16, 16, 4096, 128, 4, 128, 256, 512, 203407760, 201826054},
};
enum { N_PSDS = sizeof psds / sizeof *psds, MEDIUM = 3 };
enum { VISIBLE = 5, MASKED = 7, PATCHES = 12, SEQUENCE = 13, PATCH = 16, BINS = 200, CLASSES = 6 };

/* So many spectra of 13 tokens each, and so many of their visible patches alone; of the first CLS is read. */
static Blocks psd_encoder(const Psd *s, double whole, double bare) {
    return (Blocks){.n = whole * SEQUENCE + bare * VISIBLE,
                    .read = whole + bare * VISIBLE,
                    .c = s->d,
                    .ff = s->ff,
                    .heads = s->heads,
                    .layers = s->layers,
                    .pairs = whole * SEQUENCE * SEQUENCE + bare * VISIBLE * VISIBLE,
                    .sequences = whole + bare,
                    .picked = true,
                    .drop_attention = true,
                    .drop_hidden = true,
                    .drop_mlp = true};
}

static Blocks psd_decoder(const Psd *s) {
    double B = s->batch;
    return (Blocks){.n = B * PATCHES,
                    .read = B * MASKED,
                    .c = s->e,
                    .ff = 2 * s->e,
                    .heads = 4,
                    .layers = s->decoder_layers,
                    .pairs = B * PATCHES * PATCHES,
                    .sequences = B,
                    .picked = true,
                    .drop_attention = true,
                    .drop_projection = true,
                    .drop_hidden = true,
                    .drop_mlp = true};
}

/* All but the patches' way into the encoder is here: embedded, through the blocks, normed; and back. A patch is two
 * pieces of 8 bins of a spectrum, f32. */
static void encode(const Psd *s, double whole, double bare) {
    Blocks b = psd_encoder(s, whole, bare);
    double patches = whole * PATCHES + bare * VISIBLE;
    gather(2 * patches, 8, 4);
    call(OP_cast, 0, (4 + HALF) * patches * PATCH);
    linear(patches, PATCH, s->d);
    if (bare) place(bare * VISIBLE, s->d);
    place(whole * PATCHES, s->d);
    embed(whole, s->d, true); /* CLS */
    norm(whole * SEQUENCE, s->d);
    drop(whole * SEQUENCE, s->d);
    blocks(&b);
    norm(b.read, s->d);

    norm_back(b.read, s->d, false);
    if (bare) linear_back(bare * VISIBLE, PATCH, s->d, false);
    drop(whole * SEQUENCE, s->d);
    norm_back(whole * SEQUENCE, s->d, false);
    embed_back(whole, s->d, false, true);
    gather(whole * PATCHES, s->d, HALF);
    linear_back(whole * PATCHES, PATCH, s->d, false);
}

static double encode_kept(const Psd *s, double whole, double bare) {
    Blocks b = psd_encoder(s, whole, bare);
    double patches = whole * PATCHES + bare * VISIBLE, tokens = whole * SEQUENCE;
    return f32(patches * PATCH) + halves(patches, PATCH) + halves(patches, s->d) + halves(b.n, s->d) +
           halves(tokens, s->d) + 2 * f32(tokens) + blocks_kept(&b) + halves(b.read, s->d) + 2 * f32(b.read);
}

/* Behind the output's gradient: the last norm's, the blocks', and, when they are done, the embedding's. */
static double encode_back(const Psd *s, double whole, double bare) {
    Blocks b = psd_encoder(s, whole, bare);
    double embedding = halves(b.n, s->d) + halves(whole * SEQUENCE, s->d) + halves(whole * PATCHES, s->d);
    return halves(b.read, s->d) + larger(blocks_back(&b), embedding);
}

/* The masked autoencoder: the decoder's rows, of which 7 of 12 are read. */
static void mae(const Psd *s) {
    Blocks b = psd_decoder(s);
    double visible = s->batch * VISIBLE, masked = s->batch * MASKED, numbers = masked * PATCH;
    gather(2 * masked, 8, 4);
    linear(visible, s->d, s->e);
    place(visible, s->e);
    embed(masked, s->e, true);
    blocks(&b);
    linear(masked, s->e, PATCH);
    call(OP_squared_error_forward_backward, 4 * numbers, (2 * HALF + 4) * numbers + 4 * masked);
    sum(masked);
    linear_back(masked, s->e, PATCH, true);
    gather(visible, s->e, HALF);
    embed_back(masked, s->e, false, true);
    embed_back(b.n, s->e, false, false); /* the positions, of all rows */
    linear_back(visible, s->d, s->e, true);
}

static double mae_bytes(const Psd *s) {
    Blocks b = psd_decoder(s);
    double visible = s->batch * VISIBLE, masked = s->batch * MASKED;
    return f32(masked * PATCH) + 2 * halves(visible, s->e) + halves(b.n, s->e) + blocks_kept(&b) +
           halves(masked, PATCH) + f32(masked) + halves(masked, s->e) + blocks_back(&b);
}

/* The contrast of n = 2 B projected rows, in f32. */
static void sicr(const Psd *s) {
    double n = 2 * s->batch, pairs = n * (n - 1), q = s->q, nq = n * q;
    linear_gelu(n, s->d, s->d, false);
    linear(n, s->d, q);
    call(OP_normalize_rows_forward, 3 * nq + 2 * n, (HALF + 4) * nq + 4 * n);
    call(OP_nt_xent_forward, pairs * (2 * q + 4) + 3 * n, 4 * nq + 8 * n);
    sum(n);
    call(OP_nt_xent_backward, pairs * (4 * q + 6) + nq, 8 * nq + 4 * n);
    call(OP_normalize_rows_backward, 5 * nq + n, (HALF + 8) * nq + 4 * n);
    gelu_linear_back(n, s->d, q, false);
    linear_back(n, s->d, s->d, true);
}

static double sicr_bytes(const Psd *s) {
    double n = 2 * s->batch;
    return 3 * halves(n, s->d) + 2 * halves(n, s->q) + 2 * f32(n * s->q) + 3 * f32(n);
}

static double psd_encoder_parameters(const Psd *s) {
    double d = s->d, F = s->ff;
    return d * (PATCH + 4) + s->layers * (4 * d * d + 2 * d * F + 9 * d + F) + 2 * d;
}

static void pretraining_step(const Psd *s) {
    start();
    encode(s, 2 * s->batch, s->batch);
    mae(s);
    sicr(s);
    update(s->pretraining, s->pretraining + SEQUENCE * s->d);
}

/* The specification's closed forms; the flat buffer has the table of 13 positions besides. */
static void pretraining_at_every_size(void **state) {
    (void)state;
    for (int i = 0; i < N_PSDS; i++) {
        const Psd *s = &psds[i];
        double d = s->d, e = s->e, B = s->batch;
        double decoder = e * (d + 14) + s->decoder_layers * (8 * e * e + 11 * e) + 16 * e + 16;
        double parameters = psd_encoder_parameters(s) + decoder + d * d + d + d * s->q + s->q;
        char *line = xformat("train_psd pretrain --size %s -b %.0f -g 1", s->size, B);
        json_t *root = estimate(line);
        expect("parameters, by the specification", parameters, s->pretraining);
        expect("parameters", number(root, "parameters"), parameters);
        pretraining_step(s);
        expect_operations(root);
        expect_states(root, parameters + SEQUENCE * d);
        double behind = larger(larger(mae_bytes(s), sicr_bytes(s)), encode_back(s, 2 * B, B));
        expect("activations", memory(root, "activations"),
               encode_kept(s, 2 * B, B) + halves((2 + VISIBLE) * B, d) + behind);
        expect("data", memory(root, "data"), B * BINS * 4); /* the typical data are one batch */
        json_decref(root);
        free(line);
    }
}

/* The classes' weights have a line of their own. */
static double classifier_flat(const Psd *s) { return s->classifier + (16 - CLASSES) + SEQUENCE * s->d + 16; }

static void finetuning_step(const Psd *s) {
    double B = s->batch;
    start();
    encode(s, B, 0);
    linear_gelu(B, s->d, s->head, true);
    linear(B, s->head, CLASSES);
    call(OP_cross_entropy_forward_backward, (5 * CLASSES + 2) * B, (2 * HALF * CLASSES + 12 + 4) * B);
    sum(B), sum(B);
    gelu_linear_back(B, s->head, CLASSES, true);
    linear_back(B, s->d, s->head, true);
    update(s->classifier, classifier_flat(s));
}

static void finetuning_at_every_size(void **state) {
    (void)state;
    for (int i = 0; i < N_PSDS; i++) {
        const Psd *s = &psds[i];
        double d = s->d, B = s->batch, head = s->head;
        double parameters = psd_encoder_parameters(s) + d * head + head + CLASSES * head + CLASSES;
        double flat = classifier_flat(s);
        char *line = xformat("train_psd finetune --size %s -b %.0f -g 1", s->size, B);
        json_t *root = estimate(line);
        expect("parameters, by the specification", parameters, s->classifier);
        finetuning_step(s);
        expect_operations(root);
        expect_states(root, flat);
        double of_head = 3 * halves(B, head) + halves(B, CLASSES) + 2 * f32(B) + halves(B, d); /* to its gradient */
        expect("activations", memory(root, "activations"), encode_kept(s, B, 0) + of_head + encode_back(s, B, 0));
        json_decref(root);
        free(line);
    }
}

/* Products, forward and backward, that the rows do not need which nobody reads behind the last block's attention. */
static double left_out(const Blocks *b) { return 3 * (b->n - b->read) * (2 * b->c * b->c + 4 * b->c * b->ff); }

/* Its 2.430 and 1.010 TFLOP a step, of which ours leaves those products out; biases, norms, GELU, dropout, attention's
 * scores once more and AdamW are less than 1 % of the rest. */
static void mediums_flops_are_the_specifications(void **state) {
    (void)state;
    const Psd *s = &psds[MEDIUM];
    Blocks pretraining = psd_encoder(s, 2 * s->batch, s->batch), decoder = psd_decoder(s),
           finetuning = psd_encoder(s, s->batch, 0);
    double want_pretraining = 2.430e12 - left_out(&pretraining) - left_out(&decoder);
    double want_finetuning = 1.010e12 - left_out(&finetuning);
    pretraining_step(s);
    assert_near(total().flops, want_pretraining, 0.01 * want_pretraining);
    finetuning_step(s);
    assert_near(total().flops, want_finetuning, 0.01 * want_finetuning);
}

/* Its table of bytes is of Medium at B = 512, to tenths of a megabyte. Ours has the positions' 6,656 numbers besides.
 * FLOPs: three times the forward that it counts. */
static void mediums_bytes_are_the_specifications(void **state) {
    (void)state;
    const Psd *s = &psds[MEDIUM];
    json_t *root = estimate("train_psd pretrain --size medium -b 512 -g 1");
    double positions = SEQUENCE * s->d, B = s->batch;
    assert_near((memory(root, "weights") - 6 * positions) / 1e6, 104.6 + 52.3, 0.1);
    assert_near((memory(root, "gradients") - 4 * positions) / 1e6, 104.6, 0.05);
    assert_near((memory(root, "optimizer") - 8 * positions) / 1e6, 209.3, 0.05);
    assert_near((number(root, "checkpoint_bytes") - 12 * positions) / 1e6, 314, 0.5);
    start();
    update(s->pretraining, s->pretraining + positions);
    assert_near(want[OP_adamw_update].bytes / 1e6, 785, 0.5);
    /* Its whole data set, 98,262 rows of 192 bins, is 75.5 MB; we keep all 200. */
    assert_near(98262.0 * 192 * 4 / 1e6, 75.5, 0.05);
    expect("data", memory(root, "data"), B * BINS * 4);
    /* Its lean plan keeps x, qkv, attention's output, the second sum and the MLP's input: 10 d of 2 bytes a token and
     * layer. Ours has the two norms' outputs and GELU's besides, 6 d: the backward reads them instead of making them
     * again, which costs 60 % of these bytes in memory that all cards have, and saves two passes. The last layer's MLP
     * has 7 of 31 rows only. */
    Blocks b = psd_encoder(s, 2 * B, B);
    double tokens = b.n * s->layers, unread = (b.n - b.read) * (2 + 2 * 4) * s->d * HALF, lean = 20 * s->d;
    assert_near(tokens, 126976, 0.5);
    assert_near(lean * tokens / 1e6, 1300, 1.0);
    assert_near(blocks_kept(&b), (32 * s->d + 4 * s->heads + 16) * tokens - unread, 0.01 * blocks_kept(&b));
    json_decref(root);
}

/* ---- photon decays ---- */

enum { CELLS = 64, FRAMES = 256, SIDE = 21, CHANNELS = 32, WINDOW = 14, MOMENTS = 2 * (WINDOW + WINDOW * WINDOW) };
enum { FLIM_PARAMETERS = 909057 - 768, RUNNING = 2 * 768 }; /* without the biases that norms take away again */

typedef struct {
    double frames, side, channels;
} Volume;

static double positions(Volume v) { return CELLS * v.frames * v.side * v.side; }
static double numbers(Volume v) { return positions(v) * v.channels; }

/* Pairs of an output and a tap that sees an input, along an axis. */
static double pairs(double in, int taps, int stride) {
    double n = 0;
    for (int at = 0; at < in; at += stride)
        for (int k = -(taps / 2); k <= taps / 2; k++) n += at + k >= 0 && at + k < in;
    return n;
}

/* Multiply-adds, without those with padding. */
static double products(Volume x, Volume y, int taps_t, int taps) {
    int stride_t = (int)ceil(x.frames / y.frames), stride = (int)ceil(x.side / y.side);
    double plane = pairs(x.side, taps, stride);
    return CELLS * x.channels * y.channels * pairs(x.frames, taps_t, stride_t) * plane * plane;
}

static void statistics(double n, double c, double bytes) { call(OP_batchnorm_statistics, 4 * n, bytes * n + 24 * c); }

static void convolve(Volume x, Volume y, int taps) {
    double w = x.channels * y.channels * taps * taps * taps;
    call(OP_conv3d_forward, 2 * products(x, y, taps, taps), HALF * (numbers(x) + numbers(y) + w));
    statistics(numbers(y), y.channels, HALF);
}

static void convolve_back(Volume x, Volume y, int taps, bool add) {
    double w = x.channels * y.channels * taps * taps * taps;
    call(OP_conv3d_backward, 4 * products(x, y, taps, taps) + (add ? numbers(x) : 0),
         HALF * (numbers(y) + (2 + add) * numbers(x) + w) + 8 * w);
}

/* Between convolutions: norm, leaky ReLU; the same backward, which finds the sum's sign again. */
static void activate(double n, double c, double bytes, bool drop, double dropped) {
    call(OP_norm_activate_forward, 3 * n + n + (drop ? n + dropped : 0), 2 * bytes * n + 16 * c);
    call(OP_norm_activate_backward, 3 * n + n + (drop ? n + dropped : 0) + n + 8 * n, 3 * bytes * n + 32 * c);
}

/* At a block's end: the second norm and what is added, which is the block's input or, with a norm of its own, its
 * shortcut; leaky ReLU; with a shortcut the larger of two frames; dropout of whole channels. n: numbers before it. */
static void end_block(Volume v, bool shortcut) {
    double n = numbers(v), out = shortcut ? n / 2 : n, dropped = CELLS * v.channels, c = v.channels;
    double behind = n + (shortcut ? out : 0) + out + dropped, sums = n * (shortcut ? 7 : 4);
    call(OP_norm_activate_forward, sums + behind, HALF * (2 * n + out) + (shortcut ? 32 : 16) * c);
    call(OP_norm_activate_backward, sums + behind + n + (shortcut ? 2 : 1) * 8 * n,
         HALF * (out + 2 * n) + (shortcut ? 64 : 32) * c + HALF * (n + n));
}

/* From x to y behind the pool. */
static void block(Volume x, Volume y) {
    bool shortcut = x.channels != y.channels;
    convolve(x, y, 3);
    activate(numbers(y), y.channels, HALF, false, 0);
    convolve(y, y, 3);
    if (shortcut) convolve(x, y, 1);
    end_block(y, shortcut);
    convolve_back(y, y, 3, false);
    if (shortcut) convolve_back(x, y, 1, false);
    convolve_back(x, y, 3, true);
}

/* The first two layers at once: the first one's output is made where it is wanted, and never stored. Behind it is the
 * norm, 3 FLOPs, and leaky ReLU. Its statistics follow from those of the windows of 14 numbers that it sees. */
static void stem(Volume x, Volume y) {
    Volume between = {x.frames, x.side, CHANNELS};
    double n = WINDOW, first = products(x, between, 7, 1), second = products(between, y, 3, 1),
           inside = numbers(between);
    double w = CHANNELS * n, w2 = CHANNELS * CHANNELS * 3, columns = 4 * CHANNELS;
    call(OP_stem_statistics, positions(x) * (n + n * (n + 1)) + CHANNELS * (2 * n + 2 * n * (n + 1) + 2),
         HALF * (numbers(x) + w) + 4 * MOMENTS + 6 * columns);
    call(OP_stem_forward, 2 * first + 4 * inside + 2 * second, HALF * (numbers(x) + numbers(y) + w + w2) + 4 * columns);
    call(OP_stem_backward, 4 * first + 4 * second + 6 * inside + CHANNELS * (2 * n * n + 2 * n + 8 * n),
         HALF * (numbers(x) + numbers(y) + w + w2) + 4 * MOMENTS + 8 * columns + 8 * (w + w2));
    statistics(numbers(y), y.channels, HALF);
    activate(numbers(y), y.channels, HALF, false, 0);
}

/* A product of f32 rows. */
static void linear_f32(double n, double in, double out, bool bias) {
    call(OP_linear_forward, 2 * n * in * out + bias * n * out, 4 * (n * in + in * out + n * out + bias * out));
    call(OP_linear_backward, 4 * n * in * out + bias * n * out,
         4 * (2 * n * in + n * out + in * out) + 8 * (in * out + bias * out));
}

/* Means over all positions, two layers in f32, the loss. */
static void head(Volume x) {
    double means = CELLS * x.channels, hidden = 64;
    call(OP_mean_rows_forward, numbers(x), HALF * (numbers(x) + means));
    call(OP_mean_rows_backward, means, HALF * (numbers(x) + means));
    call(OP_cast, 0, (HALF + 4) * means), call(OP_cast, 0, (HALF + 4) * means);
    linear_f32(CELLS, x.channels, hidden, false);
    statistics(CELLS * hidden, hidden, 4);
    activate(CELLS * hidden, hidden, 4, true, CELLS * hidden);
    linear_f32(CELLS, hidden, 1, true);
    call(OP_binary_cross_entropy_forward_backward, 9 * CELLS, 6 * 4 * CELLS);
    sum(CELLS), sum(CELLS);
}

static const Volume flim_input = {FRAMES, SIDE, 2};

static void flim_step(void) {
    Volume x = {FRAMES / 2, SIDE, 32}, second = {FRAMES / 2, 11, 64}, third = {FRAMES / 4, 6, 128};
    start();
    call(OP_augment_cells, 2 * positions(flim_input),
         2 * positions(flim_input) + HALF * numbers(flim_input) + CELLS * (4.0 + sizeof(FlimDraws))); /* u16 counts */
    stem(flim_input, x);
    block(x, x);
    block(x, second);
    block((Volume){FRAMES / 4, 11, 64}, third);
    head((Volume){FRAMES / 8, 6, 128});
    update(FLIM_PARAMETERS, FLIM_PARAMETERS + 15 + RUNNING);
    call(OP_copy_segments, 0, 8 * RUNNING), call(OP_copy_segments, 0, 8 * RUNNING + 4);
}

/* A layer's output with the mean and the deviation of its channels. */
static double layer(Volume v) { return line(HALF * numbers(v)) + 2 * f32(v.channels); }

/* All at the end of the forward, with the gradients' first steps: the input, as it is and mixed (the plan's batch is,
 * the step's is not); two buffers, each as large as the largest volume behind the stem, for gradients in turn; what
 * layers say and what the next are given. */
static double flim_activations(void) {
    Volume x = {FRAMES / 2, SIDE, 32}, second = {FRAMES / 2, 11, 64}, given = {FRAMES / 4, 11, 64},
           third = {FRAMES / 4, 6, 128}, last = {FRAMES / 8, 6, 128};
    double whole = line(HALF * numbers(x)), bytes = 2 * line(HALF * numbers(flim_input)) + 2 * whole;
    bytes += 2 * f32(CHANNELS) + f32(MOMENTS) + layer(x) + whole; /* the stem */
    bytes += 2 * layer(x) + whole + whole; /* two layers, what is between them; the next's input */
    bytes += 3 * layer(second) + line(HALF * numbers(second)) + line(HALF * numbers(given));
    bytes += 3 * layer(third) + line(HALF * numbers(third)) + line(HALF * numbers(last));
    bytes += 3 * f32(CELLS * 64) + 2 * f32(64);                   /* the hidden layer, activated, its gradient */
    bytes += 2 * line(HALF * CELLS * 128) + 2 * f32(CELLS * 128); /* means, in both types; their gradients */
    return bytes + 3 * f32(CELLS);                                /* logits, losses, hits */
}

static void flim_at_batch_64(void **state) {
    (void)state;
    json_t *root = estimate("train_cv -b 64 -g 1");
    expect("parameters", number(root, "parameters"), FLIM_PARAMETERS);
    flim_step();
    expect_operations(root);
    expect_states(root, FLIM_PARAMETERS + 15 + RUNNING);
    expect("activations", memory(root, "activations"), flim_activations());
    expect("data", memory(root, "data"), 2 * positions(flim_input)); /* the typical data are one batch */
    json_decref(root);
}

/* Multiply-adds of a cell with those with padding, of the convolutions' products; sum of those without. */
static double padded_products(Volume x, Volume y, int taps_t, int taps, double *inside) {
    *inside += products(x, y, taps_t, taps) / CELLS;
    return y.frames * y.side * y.side * x.channels * y.channels * taps_t * taps * taps;
}

/* The specification: 7,494,033,472 multiply-adds a cell forward, of which 6,635.7 million are not with padding; three
 * times that a step, as the first layer is done once more instead of its input's gradient. And 17.1 GB a step in 16
 * bits if the stem is made again and sums come with the convolutions. Ours needs less, as the stem's norm is never
 * read, its gradient never written, and a block's end finds its sum again instead of storing it; and more, 1.2 GB, as
 * what convolutions say is read again for its sums. */
static void flims_step_is_below_the_specifications(void **state) {
    (void)state;
    Volume a = {FRAMES, SIDE, 32}, b = {FRAMES / 2, SIDE, 32}, c = {FRAMES / 2, 11, 64}, d = {FRAMES / 4, 11, 64},
           e = {FRAMES / 4, 6, 128};
    double inside = 0, all = 128 * 64 + 64; /* the head's */
    all += padded_products(flim_input, a, 7, 1, &inside) + padded_products(a, b, 3, 1, &inside);
    for (int i = 0; i < 2; i++) all += padded_products(b, b, 3, 3, &inside);
    all += padded_products(b, c, 3, 3, &inside) + padded_products(c, c, 3, 3, &inside);
    all += padded_products(b, c, 1, 1, &inside) + padded_products(d, e, 3, 3, &inside);
    all += padded_products(e, e, 3, 3, &inside) + padded_products(d, e, 1, 1, &inside);
    expect("multiply-adds with padding, by the specification", all, 7494033472);
    assert_near(inside / 1e6, 6635.7, 0.05);
    flim_step();
    /* Norms and leaky ReLU between the stem's layers are 4 and 6 FLOPs a number; shortcuts' gradients are added to
     * those of the blocks' inputs, 1 a number. What is of channels, not of positions, is less than a millionth. */
    double others = 10 * numbers(a) + 2 * numbers(b) + numbers(d), done = -others;
    const int ops[] = {OP_conv3d_forward, OP_conv3d_backward, OP_stem_forward, OP_stem_backward};
    for (int i = 0; i < 4; i++) done += want[ops[i]].flops;
    assert_near(done, 3 * 2 * CELLS * inside, 1e-6 * done);
    assert_near(total().bytes / 1e9, 14.1, 0.05);
    assert_near(want[OP_batchnorm_statistics].bytes / 1e9, 1.2, 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gpt_at_its_full_size),
        cmocka_unit_test(the_gpts_step_is_the_specifications),
        cmocka_unit_test(pretraining_at_every_size),
        cmocka_unit_test(finetuning_at_every_size),
        cmocka_unit_test(mediums_flops_are_the_specifications),
        cmocka_unit_test(mediums_bytes_are_the_specifications),
        cmocka_unit_test(flim_at_batch_64),
        cmocka_unit_test(flims_step_is_below_the_specifications),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
