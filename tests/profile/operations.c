/* Calls each operation of kernels/ops.h at the widths of the trainings that need it, with so few rows that its kernels
 * can be executed as PTX. */
#include "tests/cuda/schedules.h"
#include "tests/profile/profile.h"

/* ---- tensors on the card ---- */

static Tensor of(DType type, int64_t rows, int64_t columns) { return normal(type, rows, columns).cuda; }
static Tensor floats_of(int64_t n) { return of(DTYPE_F32, n, 0); }
static Tensor below(int64_t n, int32_t limit) { return pair_below(&rig, n, limit).cuda; }

static Tensor integers(int64_t n, int32_t first, int32_t stride, int32_t limit) {
    int32_t *values = xmalloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = (int32_t)((first + i * stride) % limit);
    Tensor t = pair_integers(&rig, values, n).cuda;
    free(values);
    return t;
}
static Tensor ascending(int64_t n) { return integers(n, 0, 1, INT32_MAX); }
static Tensor shuffled(int64_t n) { return integers(n, 7, 31, (int32_t)n); } /* n is no multiple of 31 */

static Tensor number(float x) {
    Pair p = pair_poisoned(&rig, DTYPE_F32, 1, 0);
    *floats(p) = x;
    pair_upload(&rig, p);
    return p.cuda;
}

static Dropout drop(float p) {
    static const uint32_t step = 7;
    return on_cuda(&rig, (Dropout){p, 11, PURPOSE_DROPOUT | 3 << 8, &step});
}

/* ---- the models' widths ---- */

enum { ROWS = 1024, WIDTH = 1024, HEAD = 64, VOCABULARY = 8192, IDS = 4096 };

static void casts(DType type) { cast(rig.cuda, of(type, ROWS * WIDTH, 0), floats_of(ROWS * WIDTH)); }

static void embeddings(DType type) {
    Tensor x = of(type, ROWS, WIDTH), ids = below(ROWS, IDS), rows = ascending(ROWS), positions = below(ROWS, 512);
    Tensor table = of(DTYPE_F32, IDS, WIDTH), places = of(DTYPE_F32, 512, WIDTH);
    embedding_forward(rig.cuda, x, rows, ids, table, positions, places);
    embedding_backward(rig.cuda, table, places, x, rows, ids, positions);
}

static void rows(DType type) {
    Tensor x = of(type, ROWS, WIDTH), y = of(type, ROWS / 2, WIDTH), some = integers(ROWS / 2, 0, 2, INT32_MAX);
    place_rows(rig.cuda, x, y, some, below(ROWS / 2, 512), of(DTYPE_F32, 512, WIDTH));
    gather_rows(rig.cuda, y, x, some);
    scatter_rows(rig.cuda, x, y, some);
    mean_rows_forward(rig.cuda, of(type, ROWS / 64, WIDTH), x, 64);
    mean_rows_backward(rig.cuda, x, of(type, ROWS / 64, WIDTH), 64);
}

static void elementwise(DType type) {
    Tensor x = of(type, ROWS, WIDTH), y = of(type, ROWS, WIDTH), z = of(type, ROWS, WIDTH);
    dropout(rig.cuda, y, x, drop(0.1f));
    residual_forward(rig.cuda, z, x, y, drop(0.1f));
    for (GeluKind kind = GELU_TANH; kind <= GELU_ERF; kind++) {
        profile_shape = kind == GELU_TANH ? "tanh" : "erf";
        gelu_forward(rig.cuda, y, x, kind);
        gelu_backward(rig.cuda, z, y, x, kind);
    }
    profile_shape = "";
    tanh_forward(rig.cuda, y, x);
    tanh_backward(rig.cuda, z, x, y);
    leaky_relu_forward(rig.cuda, y, x, 0.01f);
    leaky_relu_backward(rig.cuda, z, y, x, 0.01f);
}

static void layernorms(DType type) {
    Tensor x = of(type, ROWS, WIDTH), y = of(type, ROWS, WIDTH), dx = of(type, ROWS, WIDTH);
    Tensor gain = floats_of(WIDTH), bias = floats_of(WIDTH);
    LayerNormOutput output = {y, floats_of(ROWS), floats_of(ROWS)};
    layernorm_forward(rig.cuda, output, x, gain, bias);
    residual_layernorm_forward(rig.cuda, dx, output, x, dx, gain, bias, drop(0.1f));
    layernorm_backward(rig.cuda, (NormGradients){dx, floats_of(WIDTH), floats_of(WIDTH)}, dx, y, x, output.mean,
                       output.rstd, gain);
}

/* Products of the shape of a feed-forward layer, with its weight in both layouts. */
static void linears(DType type) {
    enum { IN = 1024, HIDDEN = 1024 };
    Tensor x = of(type, ROWS, IN), y = of(type, ROWS, HIDDEN), hidden = of(type, ROWS, HIDDEN);
    Tensor bias = of(type, HIDDEN, 0);
    for (WeightLayout layout = WEIGHT_IN_OUT; layout <= WEIGHT_OUT_IN; layout++) {
        bool in_out = layout == WEIGHT_IN_OUT;
        profile_shape = in_out ? "weight [in, out]" : "weight [out, in]";
        Tensor w = of(type, in_out ? IN : HIDDEN, in_out ? HIDDEN : IN);
        LayerGradients gradients = {x, of(DTYPE_F32, w.dims[0], w.dims[1]), floats_of(HIDDEN)};
        linear_forward(rig.cuda, y, x, w, bias, layout);
        if (in_out) linear_backward(rig.cuda, gradients, y, x, w, layout);
    }
    profile_shape = "tanh, dropout";
    Tensor w = of(type, IN, HIDDEN), w2 = of(type, HIDDEN, IN), dy = of(type, ROWS, IN);
    GeluDropout activation = {GELU_TANH, drop(0.1f)};
    linear_gelu_forward(rig.cuda, y, hidden, x, w, bias, WEIGHT_IN_OUT, activation);
    gelu_linear_backward(rig.cuda, (LayerGradients){y, of(DTYPE_F32, HIDDEN, IN), floats_of(IN)}, dy, y, hidden, w2,
                         WEIGHT_IN_OUT, activation);
}

static void attention_of(DType type, int count, int length, int heads, int size, bool causal, float p) {
    int32_t offsets[257];
    int64_t n = (int64_t)count * length, c = (int64_t)heads * size;
    for (int s = 0; s <= count; s++) offsets[s] = s * length;
    Pair on_card = pair_integers(&rig, offsets, count + 1);
    Sequences sequences = {on_card.cuda, offsets, count};
    Attention attention = {heads, causal, 1 / sqrtf((float)size)};
    AttentionActivations forward = {of(type, n, 3 * c), of(type, n, c), of(DTYPE_F32, heads, n)};
    profile_shape = keep_text(xformat("%d rows%s%s", length, causal ? ", causal" : "", p > 0 ? ", dropout" : ""));
    attention_forward(rig.cuda, forward.out, forward.lse, forward.qkv, sequences, attention, drop(p));
    attention_backward(rig.cuda, of(type, n, 3 * c), of(type, n, c), forward, sequences, attention, drop(p));
}

static void causal_attention(DType type) { attention_of(type, 2, 256, 8, HEAD, true, 0); }
static void dropping_attention(DType type) { attention_of(type, 2, 256, 8, HEAD, true, 0.1f); }
/* The 13 tokens of a spectrum, the 128 of a comment. */
static void short_attention(DType type) { attention_of(type, 256, 13, 8, HEAD, false, 0.1f); }
static void text_attention(DType type) { attention_of(type, 2, 128, 12, HEAD, false, 0.1f); }

static void generation(DType type) {
    enum { COUNT = 16, CAPACITY = 256, C = 16 * HEAD };
    Tensor kv = of(type, COUNT * CAPACITY, 2 * C), qkv = of(type, COUNT, 3 * C);
    cache_rows(rig.cuda, of(type, 2 * ROWS, 2 * C), of(type, ROWS, 3 * C), ascending(ROWS));
    CachedKeys keys = {kv, ascending(COUNT), integers(COUNT, CAPACITY, 0, INT32_MAX), CAPACITY, CAPACITY};
    attention_cached_forward(rig.cuda, of(type, COUNT, C), qkv, keys, (Attention){16, true, 0.125f});
}

static void windows(DType type) {
    Window window = {256, 3, 2, 1};
    int64_t positions = window_positions(window);
    Tensor x = of(type, 8 * 256, 256), y = of(type, 8 * positions, 3 * 256);
    unfold_forward(rig.cuda, y, x, window);
    unfold_backward(rig.cuda, x, y, window);
}

/* ---- cells ---- */

enum { SAMPLES = 2, BINS = 32, SIDE = 21, PLANE = SIDE * SIDE, CHANNELS = 32 };

static void convolution_of(DType type, int in, int out, Convolution c) {
    int64_t taps = (int64_t)c.taps[0] * c.taps[1] * c.taps[2], positions = SAMPLES, in_rows = SAMPLES;
    for (int axis = 0; axis < 3; axis++) {
        positions *= convolution_positions(c, axis);
        in_rows *= c.in[axis];
    }
    Tensor x = of(type, in_rows, in), w = of(type, out, in * taps), y = of(type, positions, out);
    profile_shape = keep_text(
        xformat("%d to %d, %dx%dx%d%s", in, out, c.taps[0], c.taps[1], c.taps[2], c.stride[1] > 1 ? ", stride 2" : ""));
    conv3d_forward(rig.cuda, y, x, w, tensor_none(), c);
    conv3d_backward(rig.cuda, (LayerGradients){of(type, in_rows, in), of(DTYPE_F32, out, in * taps), tensor_none()}, y,
                    x, w, c, true);
}

/* The second convolution of the first block, and the first and the shortcut of the next. */
static void block_convolution(DType type) {
    convolution_of(type, 32, 32, (Convolution){{BINS, SIDE, SIDE}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}});
}
static void halving_convolution(DType type) {
    convolution_of(type, 32, 64, (Convolution){{BINS, SIDE, SIDE}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}});
}
static void shortcut_convolution(DType type) {
    convolution_of(type, 32, 64, (Convolution){{BINS, SIDE, SIDE}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}});
}

static void stems(DType type) {
    Stem stem = {2 * BINS, PLANE, 0.01f};
    Tensor x = of(type, SAMPLES * 2 * BINS * PLANE, STEM_INPUTS), w = of(type, CHANNELS, STEM_WINDOW);
    Tensor mean = floats_of(CHANNELS), rstd = floats_of(CHANNELS), moments = floats_of(STEM_MOMENTS);
    Tensor gain = floats_of(CHANNELS), bias = floats_of(CHANNELS), w2 = of(type, CHANNELS, 3 * CHANNELS);
    Tensor y = of(type, SAMPLES * BINS * PLANE, CHANNELS);
    StemWeights weights = {w, mean, rstd, gain, bias, w2};
    StemGradients gradients = {of(DTYPE_F32, CHANNELS, STEM_WINDOW), floats_of(CHANNELS), floats_of(CHANNELS),
                               of(DTYPE_F32, CHANNELS, 3 * CHANNELS)};
    stem_statistics(rig.cuda, (BatchStatistics){mean, rstd, floats_of(CHANNELS), floats_of(CHANNELS), 0.1f}, moments, x,
                    w, stem);
    stem_forward(rig.cuda, y, x, weights, stem);
    stem_backward(rig.cuda, gradients, y, x, weights, moments, stem);
}

static void pools(DType type) {
    Tensor x = of(type, SAMPLES * BINS * PLANE, CHANNELS), y = of(type, SAMPLES * BINS / 2 * PLANE, CHANNELS);
    max_pool_forward(rig.cuda, y, x, BINS, PLANE);
    max_pool_backward(rig.cuda, x, y, x, BINS, PLANE);
}

static void batchnorms(DType type) {
    int64_t n = SAMPLES * BINS * PLANE;
    Tensor x = of(type, n, CHANNELS), y = of(type, n, CHANNELS), gain = floats_of(CHANNELS), bias = floats_of(CHANNELS);
    BatchStatistics s = {floats_of(CHANNELS), floats_of(CHANNELS), floats_of(CHANNELS), floats_of(CHANNELS), 0.1f};
    batchnorm_forward(rig.cuda, y, s, x, gain, bias);
    batchnorm_statistics(rig.cuda, s, x);
    batchnorm_from_running(rig.cuda, s.rstd, s.running_var);
    batchnorm_apply(rig.cuda, y, x, s.running_mean, s.running_var, gain, bias);
    batchnorm_backward(rig.cuda, (NormGradients){x, floats_of(CHANNELS), floats_of(CHANNELS)}, y, x, s.mean, s.rstd,
                       gain);
}

/* The end of a block: the sum with the shortcut's norm, leaky ReLU, pool and dropout. */
static void activations(DType type) {
    int64_t n = SAMPLES * BINS * PLANE;
    Tensor gain = floats_of(CHANNELS), bias = floats_of(CHANNELS), mean = floats_of(CHANNELS),
           rstd = floats_of(CHANNELS);
    Normed a = {of(type, n, CHANNELS), mean, rstd, gain, bias}, b = {of(type, n, CHANNELS), mean, rstd, gain, bias};
    NormActivation how = {0.01f, BINS, PLANE, true, false, drop(0.2f)};
    profile_shape = "sum of two, pool";
    Tensor y = of(type, n / 2, CHANNELS);
    NormGradients da = {of(type, n, CHANNELS), floats_of(CHANNELS), floats_of(CHANNELS)};
    NormGradients db = {of(type, n, CHANNELS), floats_of(CHANNELS), floats_of(CHANNELS)};
    norm_activate_forward(rig.cuda, y, a, b, how);
    norm_activate_backward(rig.cuda, da, db, y, a, b, how);
    how.pool = false;
    profile_shape = "of one";
    norm_activate_forward(rig.cuda, db.dx, a, (Normed){0}, how);
    norm_activate_backward(rig.cuda, da, (NormGradients){0}, db.dx, a, (Normed){0}, how);
}

static void augmentations(DType type) {
    AugmentShape shape = {4 * BINS, SIDE, SIDE};
    AugmentDraws draws[SAMPLES];
    int64_t n = (int64_t)shape.T * PLANE;
    for (int s = 0; s < SAMPLES; s++)
        draws[s] = (AugmentDraws){3, 0.9f, 1, AUGMENT_FLIP_X, 1, 23, 1, 0.5f, {9, (uint32_t)s}, {8, 2}, 1, {0}};
    Pair words = pair_integers(&rig, (const int32_t *)draws, SAMPLES * AUGMENT_DRAW_WORDS);
    Tensor counts = tensor_2d(integers(SAMPLES * n / 2, 1, 65540, 1 << 23).data, DTYPE_U16, SAMPLES, n);
    Tensor x = of(type, SAMPLES * n, 2);
    augment_volumes(rig.cuda, x, counts, ascending(SAMPLES),
                    tensor_2d(words.cuda.data, DTYPE_I32, SAMPLES, AUGMENT_DRAW_WORDS), shape, false);
    mixup(rig.cuda, of(type, SAMPLES * n, 2), x, shuffled(SAMPLES), number(0.3f));
}

/* ---- losses ---- */

static void cross_entropies(DType type) {
    enum { TOKENS = 256 };
    Tensor logits = of(type, TOKENS, VOCABULARY), targets = below(TOKENS, VOCABULARY);
    Tensor loss = floats_of(TOKENS), correct = floats_of(TOKENS);
    cross_entropy_forward(rig.cuda, loss, correct, logits, logits.dims[1], targets, tensor_none());
    cross_entropy_forward_backward(rig.cuda, loss, correct, logits, logits.dims[1], targets, tensor_none(),
                                   number(0.7f), tensor_none());
}

static void losses_of_few_classes(DType type) {
    enum { N = 512, K = 6, BATCH = 256, FEATURES = 128 };
    Tensor loss = floats_of(N), correct = floats_of(N), scale = number(0.7f), none = tensor_none();
    Tensor logits = of(type, N, K), targets = of(DTYPE_F32, N, K), labels = below(N, K);
    cast(rig.cuda, tensor_1d(targets.data, DTYPE_F32, N * K), tensor_1d(of(type, N, K).data, type, N * K));
    soft_cross_entropy_forward(rig.cuda, loss, correct, logits, targets, labels);
    soft_cross_entropy_forward_backward(rig.cuda, loss, correct, logits, targets, labels, scale, none);
    Tensor one = of(type, N, 1), probabilities = floats_of(N);
    binary_cross_entropy_forward(rig.cuda, loss, correct, one, probabilities, probabilities);
    binary_cross_entropy_forward_backward(rig.cuda, loss, correct, one, probabilities, probabilities, scale, none);
    Tensor y = of(type, ROWS, 16), wanted = of(DTYPE_F32, ROWS, 16);
    squared_error_forward(rig.cuda, floats_of(ROWS), y, wanted);
    squared_error_forward_backward(rig.cuda, floats_of(ROWS), y, wanted, scale, none);
    Tensor features = of(type, BATCH, FEATURES), z = of(DTYPE_F32, BATCH, FEATURES), norm = floats_of(BATCH);
    normalize_rows_forward(rig.cuda, z, norm, features);
    normalize_rows_backward(rig.cuda, features, z, z, norm);
}

static void contrastive_loss(DType type) {
    enum { BATCH = 512, FEATURES = 128 };
    Tensor z = of(type, BATCH, FEATURES), loss = floats_of(BATCH), lse = floats_of(BATCH);
    nt_xent_forward(rig.cuda, loss, lse, z, 0.5f);
    nt_xent_backward(rig.cuda, of(type, BATCH, FEATURES), z, lse, 0.5f, number(0.7f), tensor_none());
}

/* ---- the optimizer ---- */

static void updates(DType type) {
    enum { N = 1 << 20 };
    const Segment segments[] = {{.begin = 0, .end = N, .weight_decay = 0.1f, .rate = 1}};
    AdamWBuffers b = {of(DTYPE_F32, N, 0), type == DTYPE_F32 ? tensor_none() : of(type, N, 0), of(DTYPE_F32, N, 0),
                      of(DTYPE_F32, N, 0), of(DTYPE_F32, N, 0)};
    adamw_update(rig.cuda, b, number(1), tensor_none(), segments, 1, (AdamW){1e-3f, 0.9f, 0.999f, 1e-8f, 1, 2, false});
    muon_update(rig.cuda, b, number(1), tensor_none(), (MuonMatrix){0, 512, 512, 512, 0.1f, 1, 0},
                (Muon){0.01f, 0.95f, 1});
}

static void norms_and_copies(DType type) {
    enum { N = 1 << 20 };
    const Segment segments[] = {{.begin = 0, .end = N, .rate = 1}};
    Tensor x = of(type, N, 0), y = of(type, N, 0), norm = number(1), scale = of(type, LOSS_SCALE_FIELDS, 0);
    sum_forward(rig.cuda, number(0), x);
    global_norm(rig.cuda, norm, x, tensor_none(), segments, 1);
    loss_scale_update(rig.cuda, scale, norm, tensor_none());
    norm_guard(rig.cuda, norm, number(0), of(type, 4, 0), true);
    copy_segments(rig.cuda, y, x, norm, segments, 1);
    clear_segments(rig.cuda, y, segments, 1);
}

const ProfileCase profile_cases[] = {
    {casts, EVERY_TYPE},
    {embeddings, EVERY_TYPE},
    {rows, EVERY_TYPE},
    {elementwise, EVERY_TYPE},
    {layernorms, EVERY_TYPE},
    {linears, EVERY_TYPE},
    {causal_attention, EVERY_TYPE},
    {dropping_attention, ONLY_16_BITS},
    {short_attention, EVERY_TYPE},
    {text_attention, ONLY_16_BITS},
    {generation, EVERY_TYPE},
    {windows, EVERY_TYPE},
    {block_convolution, EVERY_TYPE},
    {halving_convolution, ONLY_16_BITS},
    {shortcut_convolution, EVERY_TYPE},
    {stems, EVERY_TYPE},
    {pools, EVERY_TYPE},
    {batchnorms, EVERY_TYPE},
    {activations, EVERY_TYPE},
    {augmentations, EVERY_TYPE},
    {cross_entropies, EVERY_TYPE},
    {losses_of_few_classes, EVERY_TYPE},
    {contrastive_loss, ONLY_F32},
    {updates, EVERY_TYPE},
    {norms_and_copies, ONLY_F32},
};
const int n_profile_cases = sizeof profile_cases / sizeof *profile_cases;
