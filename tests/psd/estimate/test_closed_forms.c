/* The work of a step of the models of power spectra against closed forms, and these beside the specification's own
 * numbers, with the reason where ours differ by design. */
#include "tests/closed_forms_rig.h"

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
    forms_gather(2 * patches, 8, 4);
    forms_call(OP_cast, 0, (4 + HALF) * patches * PATCH);
    forms_linear(patches, PATCH, s->d);
    if (bare) forms_place(bare * VISIBLE, s->d);
    forms_place(whole * PATCHES, s->d);
    forms_embed(whole, s->d, true); /* CLS */
    forms_norm(whole * SEQUENCE, s->d);
    forms_drop(whole * SEQUENCE, s->d);
    forms_blocks(&b);
    forms_norm(b.read, s->d);

    forms_norm_back(b.read, s->d, false);
    if (bare) forms_linear_back(bare * VISIBLE, PATCH, s->d, false);
    forms_drop(whole * SEQUENCE, s->d);
    forms_norm_back(whole * SEQUENCE, s->d, false);
    forms_embed_back(whole, s->d, false, true);
    forms_gather(whole * PATCHES, s->d, HALF);
    forms_linear_back(whole * PATCHES, PATCH, s->d, false);
}

static double encode_kept(const Psd *s, double whole, double bare) {
    Blocks b = psd_encoder(s, whole, bare);
    double patches = whole * PATCHES + bare * VISIBLE, tokens = whole * SEQUENCE;
    return forms_f32(patches * PATCH) + forms_halves(patches, PATCH) + forms_halves(patches, s->d) +
           forms_halves(b.n, s->d) + forms_halves(tokens, s->d) + 2 * forms_f32(tokens) + forms_blocks_kept(&b) +
           forms_halves(b.read, s->d) + 2 * forms_f32(b.read);
}

/* Behind the output's gradient: the last norm's, the blocks', and, when they are done, the embedding's. */
static double encode_back(const Psd *s, double whole, double bare) {
    Blocks b = psd_encoder(s, whole, bare);
    double embedding =
        forms_halves(b.n, s->d) + forms_halves(whole * SEQUENCE, s->d) + forms_halves(whole * PATCHES, s->d);
    return forms_halves(b.read, s->d) + forms_larger(forms_blocks_back(&b), embedding);
}

/* The masked autoencoder: the decoder's rows, of which 7 of 12 are read. */
static void mae(const Psd *s) {
    Blocks b = psd_decoder(s);
    double visible = s->batch * VISIBLE, masked = s->batch * MASKED, numbers = masked * PATCH;
    forms_gather(2 * masked, 8, 4);
    forms_linear(visible, s->d, s->e);
    forms_place(visible, s->e);
    forms_embed(masked, s->e, true);
    forms_blocks(&b);
    forms_linear(masked, s->e, PATCH);
    forms_call(OP_squared_error_forward_backward, 4 * numbers, (2 * HALF + 4) * numbers + 4 * masked);
    forms_sum(masked);
    forms_linear_back(masked, s->e, PATCH, true);
    forms_gather(visible, s->e, HALF);
    forms_embed_back(masked, s->e, false, true);
    forms_embed_back(b.n, s->e, false, false); /* the positions, of all rows */
    forms_linear_back(visible, s->d, s->e, true);
}

static double mae_bytes(const Psd *s) {
    Blocks b = psd_decoder(s);
    double visible = s->batch * VISIBLE, masked = s->batch * MASKED;
    return forms_f32(masked * PATCH) + 2 * forms_halves(visible, s->e) + forms_halves(b.n, s->e) +
           forms_blocks_kept(&b) + forms_halves(masked, PATCH) + forms_f32(masked) + forms_halves(masked, s->e) +
           forms_blocks_back(&b);
}

/* The contrast of n = 2 B projected rows, in f32. */
static void sicr(const Psd *s) {
    double n = 2 * s->batch, pairs = n * (n - 1), q = s->q, nq = n * q;
    forms_linear_gelu(n, s->d, s->d, false);
    forms_linear(n, s->d, q);
    forms_call(OP_normalize_rows_forward, 3 * nq + 2 * n, (HALF + 4) * nq + 4 * n);
    forms_call(OP_nt_xent_forward, pairs * (2 * q + 4) + 3 * n, 4 * nq + 8 * n);
    forms_sum(n);
    forms_call(OP_nt_xent_backward, pairs * (4 * q + 6) + nq, 8 * nq + 4 * n);
    forms_call(OP_normalize_rows_backward, 5 * nq + n, (HALF + 8) * nq + 4 * n);
    forms_gelu_linear_back(n, s->d, q, false);
    forms_linear_back(n, s->d, s->d, true);
}

static double sicr_bytes(const Psd *s) {
    double n = 2 * s->batch;
    return 3 * forms_halves(n, s->d) + 2 * forms_halves(n, s->q) + 2 * forms_f32(n * s->q) + 3 * forms_f32(n);
}

static double psd_encoder_parameters(const Psd *s) {
    double d = s->d, F = s->ff;
    return d * (PATCH + 4) + s->layers * (4 * d * d + 2 * d * F + 9 * d + F) + 2 * d;
}

/* The matrices of the encoder, but those after GELU. */
static double psd_encoder_matrices(const Psd *s) { return s->d * PATCH + s->layers * (4 * s->d * s->d + s->d * s->ff); }

static void update_pretraining(const Psd *s) {
    double d = s->d, e = s->e, decoder = d * e + s->decoder_layers * 6 * e * e + e * PATCH;
    forms_update(s->pretraining, s->pretraining + SEQUENCE * d, psd_encoder_matrices(s) + decoder + d * d,
                 s->layers * d * s->ff + s->decoder_layers * 2 * e * e + d * s->q);
}

static void pretraining_step(const Psd *s) {
    forms_start();
    encode(s, 2 * s->batch, s->batch);
    mae(s);
    sicr(s);
    update_pretraining(s);
}

/* The specification's closed forms; the flat buffer has the table of 13 positions besides. */
TEST(pretraining_at_every_size) {
    for (int i = 0; i < N_PSDS; i++) {
        const Psd *s = &psds[i];
        double d = s->d, e = s->e, B = s->batch;
        double decoder = e * (d + 14) + s->decoder_layers * (8 * e * e + 11 * e) + 16 * e + 16;
        double parameters = psd_encoder_parameters(s) + decoder + d * d + d + d * s->q + s->q;
        json_t *root = forms_estimate(kept_format("train_psd pretrain --size %s -b %.0f -g 1", s->size, B));
        forms_expect("parameters, by the specification", parameters, s->pretraining);
        forms_expect("parameters", forms_number(root, "parameters"), parameters);
        pretraining_step(s);
        forms_expect_operations(root);
        forms_expect_states(root, parameters + SEQUENCE * d);
        double behind = forms_larger(forms_larger(mae_bytes(s), sicr_bytes(s)), encode_back(s, 2 * B, B));
        forms_expect("activations", forms_memory(root, "activations"),
                     encode_kept(s, 2 * B, B) + forms_halves((2 + VISIBLE) * B, d) + behind);
        forms_expect("data", forms_memory(root, "data"), B * BINS * 4); /* the typical data are one batch */
        json_decref(root);
    }
}

/* The classes' weights have a line of their own. */
static double classifier_flat(const Psd *s) { return s->classifier + (16 - CLASSES) + SEQUENCE * s->d + 16; }

static void finetuning_step(const Psd *s) {
    double B = s->batch;
    forms_start();
    encode(s, B, 0);
    forms_linear_gelu(B, s->d, s->head, true);
    forms_linear(B, s->head, CLASSES);
    forms_call(OP_cross_entropy_forward_backward, (5 * CLASSES + 2) * B, (2 * HALF * CLASSES + 12 + 4) * B);
    forms_sum(B), forms_sum(B);
    forms_gelu_linear_back(B, s->head, CLASSES, true);
    forms_linear_back(B, s->d, s->head, true);
    forms_update(s->classifier, classifier_flat(s), psd_encoder_matrices(s) + s->d * s->head,
                 s->layers * s->d * s->ff + s->head * CLASSES);
}

TEST(finetuning_at_every_size) {
    for (int i = 0; i < N_PSDS; i++) {
        const Psd *s = &psds[i];
        double d = s->d, B = s->batch, head = s->head;
        double parameters = psd_encoder_parameters(s) + d * head + head + CLASSES * head + CLASSES;
        double flat = classifier_flat(s);
        json_t *root = forms_estimate(kept_format("train_psd finetune --size %s -b %.0f -g 1", s->size, B));
        forms_expect("parameters, by the specification", parameters, s->classifier);
        finetuning_step(s);
        forms_expect_operations(root);
        forms_expect_states(root, flat);
        double of_head = 3 * forms_halves(B, head) + forms_halves(B, CLASSES) + 2 * forms_f32(B) +
                         forms_halves(B, d); /* to its gradient */
        forms_expect("activations", forms_memory(root, "activations"),
                     encode_kept(s, B, 0) + of_head + encode_back(s, B, 0));
        json_decref(root);
    }
}

/* Products, forward and backward, that the rows do not need which nobody reads behind the last block's attention. */
static double left_out(const Blocks *b) { return 3 * (b->n - b->read) * (2 * b->c * b->c + 4 * b->c * b->ff); }

/* Its 2.430 and 1.010 TFLOP a step, of which ours leaves those products out; biases, norms, GELU, dropout, attention's
 * scores once more and AdamW are less than 1 % of the rest. */
TEST(mediums_flops_are_the_specifications) {
    const Psd *s = &psds[MEDIUM];
    Blocks pretraining = psd_encoder(s, 2 * s->batch, s->batch), decoder = psd_decoder(s),
           finetuning = psd_encoder(s, s->batch, 0);
    double want_pretraining = 2.430e12 - left_out(&pretraining) - left_out(&decoder);
    double want_finetuning = 1.010e12 - left_out(&finetuning);
    pretraining_step(s);
    assert_near(forms_total().flops, want_pretraining, 0.01 * want_pretraining);
    finetuning_step(s);
    assert_near(forms_total().flops, want_finetuning, 0.01 * want_finetuning);
}

/* Its table of bytes is of Medium at B = 512, to tenths of a megabyte. Ours has the positions' 6,656 numbers besides.
 * FLOPs: three times the forward that it counts. */
TEST(mediums_bytes_are_the_specifications) {
    const Psd *s = &psds[MEDIUM];
    json_t *root = forms_estimate("train_psd pretrain --size medium -b 512 -g 1");
    double positions = SEQUENCE * s->d, B = s->batch;
    assert_near((forms_memory(root, "weights") - 6 * positions) / 1e6, 104.6 + 52.3, 0.1);
    assert_near((forms_memory(root, "gradients") - 4 * positions) / 1e6, 104.6, 0.05);
    assert_near((forms_memory(root, "optimizer") - 8 * positions) / 1e6, 209.3, 0.05);
    assert_near((forms_number(root, "checkpoint_bytes") - 12 * positions) / 1e6, 314, 0.5);
    forms_start();
    update_pretraining(s);
    assert_near(forms_want[OP_adamw_update].bytes / 1e6, 785, 0.5);
    /* Its whole data set, 98,262 rows of 192 bins, is 75.5 MB; we keep all 200. */
    assert_near(98262.0 * 192 * 4 / 1e6, 75.5, 0.05);
    forms_expect("data", forms_memory(root, "data"), B * BINS * 4);
    /* Its lean plan keeps x, qkv, attention's output, the second sum and the MLP's input: 10 d of 2 bytes a token and
     * layer. Ours has the two norms' outputs and GELU's besides, 6 d: the backward reads them instead of making them
     * again, which costs 60 % of these bytes in memory that all cards have, and saves two passes. The last layer's MLP
     * has 7 of 31 rows only. */
    Blocks b = psd_encoder(s, 2 * B, B);
    double tokens = b.n * s->layers, unread = (b.n - b.read) * (2 + 2 * 4) * s->d * HALF, lean = 20 * s->d;
    assert_near(tokens, 126976, 0.5);
    assert_near(lean * tokens / 1e6, 1300, 1.0);
    assert_near(forms_blocks_kept(&b), (32 * s->d + 4 * s->heads + 16) * tokens - unread, 0.01 * forms_blocks_kept(&b));
    json_decref(root);
}

TEST(products_are_aligned) {
    static const char *const lines[] = {"train_psd pretrain --size small",
                                        "train_psd pretrain --config configs/psd_pretrain_l4.yaml",
                                        "train_psd pretrain --config configs/psd_pretrain_l40s.yaml",
                                        "train_psd finetune --config configs/psd_finetune_l4.yaml",
                                        "train_psd finetune --config configs/psd_finetune_l40s.yaml",
                                        "train_psd finetune --encoder cnn"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) forms_expect_aligned(lines[i]);
}
