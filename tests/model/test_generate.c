/* Generation with a small model of two tables and vectors: against the full forward, in any company, and its ends. */
#include <math.h>

#include "kernels/device_open.h"
#include "kernels/philox.h"
#include "model/generate.h"
#include "tests/test.h"

static Error error;

enum { WIDTH = 32, HEADS = 2, LAYERS = 3, IDS = 50, OTHERS = 20, CONTEXT = 40, VECTORS = 3, MOST_LOGITS = 4096 };

static const BlockNames names = {.tensor = {"%d.norm1.weight", "%d.norm1.bias", "%d.qkv.weight", "%d.qkv.bias",
                                            "%d.out.weight", "%d.out.bias", "%d.norm2.weight", "%d.norm2.bias",
                                            "%d.fc1.weight", "%d.fc1.bias", "%d.fc2.weight", "%d.fc2.bias"}};

/* The logits of every row that generation asked for, in this order. */
static float seen_logits[MOST_LOGITS][IDS];
static int n_seen;

static void head(Model *model, const Context *context, Tensor logits, Tensor x) {
    (void)model;
    linear_forward(context->device, logits, x, context_matmul_weight(context, 0), tensor_none(), WEIGHT_OUT_IN);
    if (!context->device->ops || logits.dtype != DTYPE_F32) return; /* planning: there are no numbers */
    assert_true(n_seen + logits.dims[0] <= MOST_LOGITS);
    memcpy(seen_logits[n_seen], logits.data, tensor_bytes(logits));
    n_seen += (int)logits.dims[0];
}

typedef struct {
    Device *device;
    Model model;
    BlockStack blocks;
    GenerationModel generation;
    float *weights;
} Small;

static Small *small_open(bool pre_norm, int n_threads) {
    Small *s = xcalloc(1, sizeof *s);
    BlockConfig config = {.d_model = WIDTH,
                          .n_heads = HEADS,
                          .d_ff = 2 * WIDTH,
                          .pre_norm = pre_norm,
                          .biases = true,
                          .causal = true,
                          .layout = WEIGHT_OUT_IN,
                          .first_site = 1};
    s->device = cpu_device_open(n_threads);
    ParamTable *table = &s->model.params;
    param_add(table, INIT_NORMAL, 0.5f, true, IDS, WIDTH, "ids");
    param_add(table, INIT_NORMAL, 0.5f, true, CONTEXT, WIDTH, "positions");
    param_add(table, INIT_NORMAL, 0.5f, true, OTHERS, WIDTH, "others");
    s->blocks = block_stack_open("small", table, &config, LAYERS, &names);
    int64_t n = table->flat_count;
    s->weights = xaligned((size_t)n * sizeof(float));
    memset(s->weights, 0, (size_t)n * sizeof(float));
    for (int i = 0; i < table->count; i++)
        for (int64_t e = 0; e < table->items[i].count; e++)
            s->weights[table->items[i].offset + e] =
                0.3f * philox_normal(8, PURPOSE_TEST, (uint32_t)i, (uint64_t)e) + (table->items[i].init == INIT_ONE);
    s->model.weights = tensor_1d(s->weights, DTYPE_F32, n);
    s->generation = (GenerationModel){.model = &s->model,
                                      .blocks = &s->blocks,
                                      .tables = {{2, -1}, {0, 1}},
                                      .n_tables = 2,
                                      .vector_rows = VECTORS,
                                      .context = CONTEXT,
                                      .vocabulary = IDS,
                                      .columns = IDS,
                                      .head = head};
    n_seen = 0;
    return s;
}

static void small_close(Small *s) {
    block_stack_close(&s->blocks);
    params_free(&s->model.params);
    device_close(s->device);
    free(s->weights);
    free(s);
}

/* ---- prompts ---- */

enum { PROMPTS = 5 };
static const int32_t first_ids[PROMPTS][9] = {
    {4, 9, 1}, {7}, {3, 3, 8, 20, 31, 49, 0, 2, 5}, {11, 12}, {40, 41, 42, 43}};
static const int first_lengths[PROMPTS] = {3, 1, 9, 2, 4};
static const int32_t other_ids[4] = {19, 0, 7, 7};
static float vectors[VECTORS * WIDTH];

static GenerationPrompt prompt_of(int i) {
    for (int e = 0; e < VECTORS * WIDTH; e++) vectors[e] = philox_normal(9, PURPOSE_TEST, 0, (uint64_t)e);
    GenerationPrompt p = {.sequence = (uint32_t)i};
    if (i % 2 == 0) p.parts[p.n_parts++] = (PromptPart){.vectors = vectors, .n = 1 + i / 2};
    if (i % 3 != 1) p.parts[p.n_parts++] = (PromptPart){.ids = other_ids, .n = i % 3 + 1, .table = 0};
    p.parts[p.n_parts++] = (PromptPart){.ids = first_ids[i], .n = first_lengths[i], .table = 1};
    return p;
}

static GenerationOptions options_of(float temperature, int64_t max_new) {
    return (GenerationOptions){.sampling = {.repetition_penalty = 1, .temperature = temperature, .top_p = 1, .seed = 5},
                               .max_new = max_new};
}

static void generate(Small *s, const GenerationPrompt *prompts, int n, int at_once, const GenerationOptions *o,
                     Generated *out) {
    GenerationSize size = generation_size(&s->generation, prompts, n, at_once, o->max_new);
    Generator *g = generator_open(&s->generation, s->device, &size, SIZE_MAX, &error);
    if (!g) fail_msg("%s", error.text);
    if (!generator_run(g, prompts, n, o, out, &error)) fail_msg("%s", error.text);
    generator_close(g);
}

/* ---- against the full forward ---- */

/* Computes the logits of all rows of a prompt with the ids behind it, without a cache. */
static void full_forward(Small *s, const GenerationPrompt *p, const int32_t *ids, int64_t n_ids, float (*logits)[IDS]) {
    int64_t prefix = 0, prompt = prompt_rows(p), n = prompt + n_ids;
    Arena arena = arena_open(s->device, 8 << 20, "test");
    Tensor x = arena_2d(&arena, DTYPE_F32, n, WIDTH);
    for (int k = 0; k < p->n_parts; k++)
        for (int64_t i = 0; i < p->parts[k].n + (k == p->n_parts - 1 ? n_ids : 0); i++, prefix++) {
            const PromptPart *part = &p->parts[k];
            float *row = (float *)x.data + prefix * WIDTH;
            int32_t id = !part->ids ? 0 : i < part->n ? part->ids[i] : ids[i - part->n];
            const Param *tables = s->model.params.items;
            for (int c = 0; c < WIDTH; c++)
                row[c] = !part->ids    ? part->vectors[i * WIDTH + c]
                         : part->table ? s->weights[tables[0].offset + id * WIDTH + c] +
                                             s->weights[tables[1].offset + i * WIDTH + c]
                                       : s->weights[tables[2].offset + id * WIDTH + c];
        }
    int32_t offsets[2] = {0, (int32_t)n};
    Pass pass = {.train = false};
    Context context = context_of(&s->model, s->device, &arena, &pass);
    BlockRows rows = {.sequences = {tensor_1d(offsets, DTYPE_I32, 2), offsets, 1}};
    x = blocks_forward(&s->blocks, &context, &rows, x);
    Tensor out = arena_2d(&arena, DTYPE_F32, n, IDS);
    linear_forward(s->device, out, x, context_matmul_weight(&context, 0), tensor_none(), WEIGHT_OUT_IN);
    memcpy(logits, out.data, tensor_bytes(out));
    arena_close(&arena);
}

/* Every row of logits that generation computed is that of the full forward; five prompts of different lengths at once,
 * greedily. Rounding: some hundred operations on numbers of order 1, relative to the largest logit. */
TEST(cached_steps_equal_the_full_forward) {
    for (int pre_norm = 0; pre_norm < 2; pre_norm++) {
        Small *s = small_open(pre_norm, 2);
        GenerationPrompt prompts[PROMPTS];
        Generated out[PROMPTS];
        static float full[PROMPTS][64][IDS];
        GenerationOptions o = options_of(0, 12);
        for (int i = 0; i < PROMPTS; i++) prompts[i] = prompt_of(i);
        generate(s, prompts, PROMPTS, PROMPTS, &o, out);
        assert_int_equal(n_seen, PROMPTS * 12);
        for (int i = 0; i < PROMPTS; i++) full_forward(s, &prompts[i], out[i].ids, out[i].n, full[i]);
        double worst = 0, largest = 0;
        for (int row = 0; row < n_seen; row++) {
            const float *want = full[row % PROMPTS][prompt_rows(&prompts[row % PROMPTS]) - 1 + row / PROMPTS];
            for (int v = 0; v < IDS; v++) {
                worst = fmax(worst, fabs((double)seen_logits[row][v] - (double)want[v]));
                largest = fmax(largest, fabs((double)want[v]));
            }
        }
        print_message("largest difference %.2g of %.2g\n", worst, largest);
        assert_true(worst < 1e-5 * largest);
        for (int i = 0; i < PROMPTS; i++) {
            assert_int_equal(out[i].n, 12);
            assert_int_equal(out[i].end, GENERATION_LIMIT);
        }
        generated_free(out, PROMPTS);
        small_close(s);
    }
}

/* ---- company ---- */

static void expect_same(const Generated *a, const Generated *b) {
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->end, b->end);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
}

/* All at once, two at a time while the others wait, and alone, drawn by any number of threads: the same ids. */
TEST(company_changes_no_id) {
    Small *s = small_open(true, 2);
    GenerationPrompt prompts[PROMPTS];
    Generated all[PROMPTS], two[PROMPTS], one, again;
    GenerationOptions o = options_of(1, 15);
    o.stops = (const int32_t[]){17, 23}, o.n_stops = 2;
    o.sampling.top_p = 0.9f, o.sampling.repetition_penalty = 1.2f;
    for (int i = 0; i < PROMPTS; i++) prompts[i] = prompt_of(i);
    generate(s, prompts, PROMPTS, PROMPTS, &o, all);
    o.n_threads = 3;
    generate(s, prompts, PROMPTS, 2, &o, two);
    o.n_threads = 0;
    for (int i = 0; i < PROMPTS; i++) {
        generate(s, &prompts[i], 1, 1, &o, &one);
        expect_same(&two[i], &all[i]);
        expect_same(&one, &all[i]);
        generated_free(&one, 1);
    }
    prompts[0].sequence = 77; /* other numbers */
    generate(s, prompts, 1, 1, &o, &again);
    assert_false(again.n == all[0].n && !memcmp(again.ids, all[0].ids, (size_t)again.n * 4));
    generated_free(&again, 1);
    generated_free(all, PROMPTS);
    generated_free(two, PROMPTS);
    small_close(s);
}

/* ---- how sequences end, and what is told ---- */

typedef struct {
    int n;
    int32_t ids[PROMPTS][64];
    int counts[PROMPTS];
} Told;

static void tell(void *context, int prompt, int32_t id) {
    Told *told = context;
    told->ids[prompt][told->counts[prompt]++] = id;
}

TEST(sequences_end_at_stops_limits_and_the_context) {
    Small *s = small_open(true, 1);
    GenerationPrompt prompts[2] = {prompt_of(0), prompt_of(2)};
    Generated free_run[2], stopped[2];
    Told told = {0};
    GenerationOptions o = options_of(0, 1000);
    o.on_id = tell, o.context = &told;
    generate(s, prompts, 2, 2, &o, free_run);
    for (int i = 0; i < 2; i++) { /* the last row that fits gives an id, too */
        assert_int_equal(free_run[i].end, GENERATION_CONTEXT);
        assert_int_equal(free_run[i].n, CONTEXT - prompts[i].parts[prompts[i].n_parts - 1].n + 1);
        assert_int_equal(told.counts[i], free_run[i].n);
        assert_memory_equal(told.ids[i], free_run[i].ids, (size_t)free_run[i].n * 4);
    }
    int32_t stop = free_run[0].ids[4];
    int64_t first = 0;
    while (free_run[0].ids[first] != stop) first++;
    o.stops = &stop, o.n_stops = 1, o.on_id = NULL, o.max_new = 6;
    generate(s, prompts, 2, 2, &o, stopped);
    assert_int_equal(stopped[0].end, GENERATION_STOP);
    assert_int_equal(stopped[0].n, first);
    assert_memory_equal(stopped[0].ids, free_run[0].ids, (size_t)first * 4);
    generated_free(stopped, 2);
    o.forbidden = &stop, o.n_forbidden = 1;
    generate(s, prompts, 2, 2, &o, stopped);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stopped[i].end, GENERATION_LIMIT);
        assert_int_equal(stopped[i].n, 6);
        for (int k = 0; k < 6; k++) assert_true(stopped[i].ids[k] != stop);
    }
    generated_free(stopped, 2);
    generated_free(free_run, 2);
    small_close(s);
}

/* ---- what is refused ---- */

static void expect_refused(Generator *g, GenerationPrompt prompt, const GenerationOptions *o, const char *want) {
    GenerationPrompt prompts[2] = {prompt_of(0), prompt};
    Generated out[2];
    assert_false(generator_run(g, prompts, 2, o, out, &error));
    assert_contains(error.text, want);
}

TEST(bad_prompts_and_options_are_refused) {
    Small *s = small_open(true, 1);
    GenerationSize size = {.sequences = 2, .longest = 60, .prompt_rows = 50};
    Generator *g = generator_open(&s->generation, s->device, &size, SIZE_MAX, &error);
    GenerationOptions o = options_of(0, 3);
    int32_t ids[64] = {0}, high[] = {1, IDS}, low[] = {-1};
#define PROMPT(...)                                                                                                    \
    (GenerationPrompt){.parts = {__VA_ARGS__}, .n_parts = sizeof(PromptPart[]){__VA_ARGS__} / sizeof(PromptPart)}
    expect_refused(g, (GenerationPrompt){0}, &o, "prompt 2 is empty");
    expect_refused(g, PROMPT({.ids = ids, .table = 1}), &o, "prompt 2 is empty");
    expect_refused(g, PROMPT({.ids = ids, .n = 1, .table = 0}), &o, "prompt 2 is empty");
    expect_refused(g, PROMPT({.ids = ids, .n = 41, .table = 1}), &o,
                   "prompt 2 has 41 ids, and the model's context is 40");
    expect_refused(g, PROMPT({.ids = ids, .n = 30, .table = 0}, {.ids = ids, .n = 21, .table = 1}), &o,
                   "prompt 2 has 51 rows, more than the 50");
    expect_refused(g, PROMPT({.ids = ids, .n = 1, .table = 2}, {.ids = ids, .n = 1, .table = 1}), &o,
                   "prompt 2: table 2, expected 0 .. 1");
    expect_refused(g, PROMPT({.ids = high, .n = 2, .table = 1}), &o, "prompt 2: id 50 at 1, expected 0 .. 49");
    expect_refused(g, PROMPT({.ids = low, .n = 1, .table = 1}), &o, "prompt 2: id -1 at 0");
    expect_refused(g, PROMPT({.vectors = vectors, .n = 4}, {.ids = ids, .n = 1, .table = 1}), &o,
                   "prompt 2 has 4 vectors, expected at most 3");
    o.max_new = 0;
    expect_refused(g, prompt_of(1), &o, "0 new tokens, expected at least 1");
    o = options_of(-1, 3);
    expect_refused(g, prompt_of(1), &o, "the temperature is -1");
    o = options_of(0, 3);
    o.forbidden = high, o.n_forbidden = 2;
    expect_refused(g, prompt_of(1), &o, "the forbidden id 50 is not below 50");
    o.n_forbidden = 0;
    s->weights[s->model.params.items[0].offset + 3] = NAN;
    expect_refused(g, prompt_of(1), &o, "prompt 1: the model's logits are not finite numbers");
    generator_close(g);
    small_close(s);
}

/* The plan is what is allocated; too little is an error that says what to reduce. */
TEST(memory_is_planned) {
    Small *s = small_open(true, 1);
    GenerationSize size = {.sequences = 4, .longest = 50, .prompt_rows = 80};
    GenerationMemory need = generation_memory(&s->generation, DTYPE_F32, &size),
                     half = generation_memory(&s->generation, DTYPE_BF16, &size);
    assert_int_equal(need.cache, LAYERS * 4 * 50 * 2 * WIDTH * 4);
    assert_int_equal(half.cache, need.cache / 2);
    assert_true(half.activations < need.activations);
    size_t before = s->device->allocated;
    Generator *g = generator_open(&s->generation, s->device, &size, need.cache + need.activations, &error);
    assert_int_equal(s->device->allocated - before, need.cache + need.activations);
    generator_close(g);
    assert_int_equal(s->device->allocated, before);
    assert_null(generator_open(&s->generation, s->device, &size, need.cache + need.activations - 1, &error));
    assert_contains(error.text, "4 sequences of 50 rows in 3 blocks");
    assert_contains(error.text, "generate fewer sequences at once, or fewer new tokens");
    size.sequences = 1 << 26;
    assert_null(generator_open(&s->generation, s->device, &size, SIZE_MAX, &error));
    assert_contains(error.text, "generate fewer at once");
    small_close(s);
}
