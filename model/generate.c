/* Every pass has its integers in one buffer, which is uploaded at once. All addresses stay the same, so that the device
 * may repeat a step: its shape is the number of sequences and the bound of their lengths, which is rounded up. */
#include "model/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"

enum { BOUND = 256 }; /* lengths are rounded up to a multiple for attention, whose work this does not change */

/* Integers of a pass: the same place on the host and on the device. */
typedef struct {
    int32_t *host;
    Tensor device;
} Integers;

/* Rows of x that are embedded from one table. */
typedef struct {
    Integers rows, ids, positions;
    int64_t n;
} Gather;

/* The rows of a pass. A pass over prompts has sequences and their last rows, a step has slots and lengths. */
typedef struct {
    int64_t n; /* rows */
    int sequences;
    bool prompts;
    Gather gathers[GENERATION_TABLES];
    Integers vector_rows, offsets, last, cache_rows, slots, lengths;
    int64_t n_vectors, longest;
} Input;

/* A sequence that is being generated. */
typedef struct {
    int prompt;     /* -1: the slot is free */
    int64_t length; /* rows cached */
    int64_t count;  /* ids of the last table that were input: the position of the next one */
    int32_t next;   /* the newest id, not yet input */
} Slot;

struct Generator {
    GenerationModel model;
    Tensor weights, matmul_weights; /* see Context */
    Device *device;
    GenerationSize size;
    DType type; /* of activations */
    void *cache, *memory;
    size_t cache_bytes;
    Arena arena;
    Tensor kv, logits, wide, vectors; /* T; T [sequences, V]; the same in f32; f32 [.., C] */
    Tensor integers;                  /* on the device */
    int32_t *host_integers;
    int64_t n_integers; /* used by the pass */
    float *host_logits;
    uint8_t *seen;
    int32_t *room, *chosen;
    Slot *slots;
};

/* ---- memory ---- */

static int width_of(const GenerationModel *m) { return m->blocks->config.d_model; }

static size_t cache_bytes(const GenerationModel *m, DType type, const GenerationSize *s) {
    return (size_t)m->blocks->n_blocks * (size_t)s->sequences * (size_t)s->longest * 2 * (size_t)width_of(m) *
           dtype_size(type);
}

static int64_t most_integers(const GenerationSize *s) {
    return 4 * s->prompt_rows + 6 * (int64_t)s->sequences + 16 * (3 * GENERATION_TABLES + 6);
}

/* Pushes what all passes share at the beginning of the arena. */
static void push_buffers(Generator *g) {
    int64_t s = g->size.sequences, v = g->model.columns;
    g->kv = tensor_2d(g->cache, g->type, g->model.blocks->n_blocks * s * g->size.longest, 2 * width_of(&g->model));
    g->integers = arena_1d(&g->arena, DTYPE_I32, most_integers(&g->size));
    g->logits = g->wide = arena_2d(&g->arena, g->type, s, v);
    if (g->type != DTYPE_F32) g->wide = arena_2d(&g->arena, DTYPE_F32, s, v);
    if (g->model.vector_rows)
        g->vectors = arena_2d(&g->arena, DTYPE_F32, s * g->model.vector_rows, width_of(&g->model));
}

static Integers integers(Generator *g, int64_t n) {
    Integers i = {g->host_integers + g->n_integers,
                  tensor_1d((int32_t *)g->integers.data + g->n_integers, DTYPE_I32, n)};
    g->n_integers += (n + 15) / 16 * 16;
    return i;
}

/* ---- passes ---- */

typedef struct {
    Generator *g;
    const Input *input;
} Work;

static void embed(const Generator *g, const Context *context, const Input *in, Tensor x) {
    for (int t = 0; t < g->model.n_tables; t++) {
        const Gather *gather = &in->gathers[t];
        const GenerationTable *table = &g->model.tables[t];
        bool placed = table->positions >= 0;
        if (!gather->n) continue;
        embedding_forward(context->device, x, in->prompts ? gather->rows.device : tensor_none(), gather->ids.device,
                          context_weight(context, table->ids), placed ? gather->positions.device : tensor_none(),
                          placed ? context_weight(context, table->positions) : tensor_none());
    }
    if (in->n_vectors)
        scatter_rows(context->device, x, tensor_rows(g->vectors, 0, in->n_vectors), in->vector_rows.device);
}

/* Queues a pass, which leaves its logits in g->wide. */
static void queue(void *argument) {
    const Work *work = argument;
    Generator *g = work->g;
    const Input *in = work->input;
    Pass pass = {.train = false};
    Sequences sequences = {in->offsets.device, in->offsets.host, in->prompts ? in->sequences : 0};
    KvCache cache = {.kv = g->kv, .rows = in->cache_rows.device, .capacity = g->size.longest, .longest = in->longest};
    Context context = {.device = g->device,
                       .arena = &g->arena,
                       .table = &g->model.model->params,
                       .weights = g->weights,
                       .matmul_weights = g->matmul_weights,
                       .pass = &pass};
    BlockRows rows = {.sequences = sequences, .cache = &cache};
    size_t mark = arena_mark(&g->arena);
    if (in->prompts)
        rows.outputs = in->last.device;
    else
        cache.slots = in->slots.device, cache.lengths = in->lengths.device;
    Tensor x = context_push(&context, in->n, width_of(&g->model)), logits = tensor_rows(g->logits, 0, in->sequences);
    embed(g, &context, in, x);
    x = blocks_forward(g->model.blocks, &context, &rows, x);
    g->model.head(g->model.model, &context, logits, x);
    int64_t n = tensor_numel(logits);
    if (g->type != DTYPE_F32)
        cast(g->device, tensor_1d(g->wide.data, DTYPE_F32, n), tensor_1d(logits.data, g->type, n));
    arena_release(&g->arena, mark);
}

static void run_pass(Generator *g, const Input *in) {
    Work work = {g, in};
    struct {
        const Generator *g;
        int64_t sequences, longest;
    } key = {g, in->sequences, in->longest};
    g->device->upload(g->device, g->integers.data, g->host_integers, (size_t)g->n_integers * sizeof(int32_t));
    if (g->device->repeat && !in->prompts)
        g->device->repeat(g->device, &key, sizeof key, false, queue, &work);
    else
        queue(&work);
    g->device->download(g->device, g->host_logits, g->wide.data,
                        (size_t)in->sequences * (size_t)g->model.columns * sizeof(float));
}

static Gather gather_of(Generator *g, int64_t n) {
    return (Gather){.rows = integers(g, n), .ids = integers(g, n), .positions = integers(g, n), .n = n};
}

static Input step_input(Generator *g, int n, int64_t longest) {
    g->n_integers = 0;
    Input in = {
        .n = n, .sequences = n, .cache_rows = integers(g, n), .slots = integers(g, n), .lengths = integers(g, n)};
    int64_t bound = (longest + BOUND - 1) / BOUND * BOUND;
    in.longest = bound < g->size.longest ? bound : g->size.longest;
    in.gathers[g->model.n_tables - 1] = gather_of(g, n);
    return in;
}

static Input prompt_input(Generator *g, int n, int64_t rows, const int64_t ids[GENERATION_TABLES], int64_t vectors) {
    g->n_integers = 0;
    Input in = {.n = rows,
                .sequences = n,
                .prompts = true,
                .vector_rows = integers(g, vectors),
                .n_vectors = vectors,
                .offsets = integers(g, n + 1),
                .last = integers(g, n),
                .cache_rows = integers(g, rows)};
    for (int t = 0; t < GENERATION_TABLES; t++) in.gathers[t] = gather_of(g, ids[t]);
    return in;
}

/* Queues the largest passes. Their rows are not embedded, which takes no memory. */
static void rehearse(void *argument) {
    Generator *g = argument;
    int64_t rows = g->size.prompt_rows, none[GENERATION_TABLES] = {0};
    int n = g->size.sequences < rows ? g->size.sequences : (int)rows;
    Input prompts = prompt_input(g, n, rows, none, 0);
    for (int s = 0; s <= n; s++) prompts.offsets.host[s] = (int32_t)(rows * s / n);
    queue(&(Work){g, &prompts});
    Input step = step_input(g, g->size.sequences, g->size.longest);
    queue(&(Work){g, &step});
}

/* ---- opening ---- */

int64_t prompt_rows(const GenerationPrompt *prompt) {
    int64_t rows = 0;
    for (int i = 0; i < prompt->n_parts; i++) rows += prompt->parts[i].n;
    return rows;
}

/* Returns the rows that a sequence can have: a prompt's, and the ids that the model can still read behind it. */
static int64_t rows_at_most(const GenerationModel *m, const GenerationPrompt *p) {
    return prompt_rows(p) - p->parts[p->n_parts - 1].n + m->context;
}

GenerationSize generation_size(const GenerationModel *model, const GenerationPrompt *prompts, int n, int at_once,
                               int64_t max_new) {
    enum { PASS_ROWS = 2048 };
    GenerationSize size = {.sequences = n < at_once ? n : at_once};
    int64_t together = 0;
    for (int i = 0; i < n; i++) {
        int64_t rows = prompt_rows(&prompts[i]), most = rows_at_most(model, &prompts[i]);
        int64_t wanted = rows + max_new - 1; /* the last id is no input */
        if (wanted > most) wanted = most > rows ? most : rows;
        if (wanted > size.longest) size.longest = wanted;
        if (rows > size.prompt_rows) size.prompt_rows = rows;
        together += rows;
    }
    int64_t pass = together < PASS_ROWS ? together : PASS_ROWS;
    if (pass > size.prompt_rows) size.prompt_rows = pass;
    return size;
}

GenerationMemory generation_memory(const GenerationModel *model, DType half, const GenerationSize *size) {
    Device *dry = dry_device_open();
    int64_t n = model->model->params.flat_count;
    Generator g = {.model = *model, .device = dry, .size = *size, .type = half};
    GenerationMemory memory = {.cache = cache_bytes(model, half, size)};
    dry->half = half;
    g.weights = g.matmul_weights = tensor_1d(dry->allocate(dry, (size_t)n * 4), DTYPE_F32, n);
    if (half != DTYPE_F32) g.matmul_weights = tensor_1d(dry->allocate(dry, (size_t)n * 2), half, n);
    g.cache = dry->allocate(dry, memory.cache);
    g.arena = arena_open(dry, 0, "generation");
    g.host_integers = xcalloc((size_t)most_integers(size), sizeof *g.host_integers);
    push_buffers(&g);
    rehearse(&g);
    memory.activations = g.arena.peak;
    free(g.host_integers);
    arena_close(&g.arena);
    device_close(dry);
    return memory;
}

static bool check_size(const GenerationModel *m, const GenerationSize *s, GenerationMemory need, size_t available,
                       Error *error) {
    char total[32], cache[32], rest[32], have[32];
    if (need.cache + need.activations <= available) return true;
    return error_set(error,
                     "generation needs %s, of which %s are for the keys and values of %d sequences of %lld rows in %d "
                     "blocks and %s for everything else, and %s are available: generate fewer sequences at once, or "
                     "fewer new tokens",
                     format_bytes((double)(need.cache + need.activations), total),
                     format_bytes((double)need.cache, cache), s->sequences, (long long)s->longest, m->blocks->n_blocks,
                     format_bytes((double)need.activations, rest), format_bytes((double)available, have));
}

Generator *generator_open(const GenerationModel *model, Device *device, const GenerationSize *size, size_t available,
                          Error *error) {
    Tensor half = model->model->half_weights;
    DType type = tensor_given(half) ? half.dtype : DTYPE_F32;
    if ((int64_t)size->sequences * size->longest > INT32_MAX) {
        (void)error_set(error, "%d sequences of %lld rows are more than 2^31 rows: generate fewer at once",
                        size->sequences, (long long)size->longest);
        return NULL;
    }
    GenerationMemory need = generation_memory(model, type, size);
    if (!check_size(model, size, need, available, error)) return NULL;
    Generator *g = xcalloc(1, sizeof *g);
    size_t s = (size_t)size->sequences, v = (size_t)model->vocabulary;
    *g = (Generator){.model = *model,
                     .weights = model->model->weights,
                     .matmul_weights = tensor_given(half) ? half : model->model->weights,
                     .device = device,
                     .size = *size,
                     .type = type};
    g->cache_bytes = need.cache;
    g->cache = device->allocate(device, need.cache);
    g->arena = arena_open(device, need.activations, "generation");
    push_buffers(g);
    g->host_integers = xcalloc((size_t)most_integers(size), sizeof *g->host_integers);
    g->host_logits = xmalloc(s * (size_t)model->columns * sizeof *g->host_logits);
    g->room = xmalloc(s * v * sizeof *g->room);
    g->seen = xmalloc(s * v);
    g->chosen = xmalloc(s * sizeof *g->chosen);
    g->slots = xcalloc(s, sizeof *g->slots);
    if (!device->measure) return g;
    size_t scratch = device->measure(device, rehearse, g);
    need.activations += scratch;
    if (check_size(model, size, need, available, error)) {
        device->reserve(device, scratch, 0);
        return g;
    }
    generator_close(g);
    return NULL;
}

void generator_close(Generator *g) {
    if (!g) return;
    if (g->device->forget) g->device->forget(g->device); /* recorded steps use the memory */
    arena_close(&g->arena);
    g->device->release(g->device, g->cache, g->cache_bytes);
    void *const owned[] = {g->host_integers, g->host_logits, g->room, g->seen, g->chosen, g->slots, g};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

/* ---- one call ---- */

typedef struct {
    Generator *g;
    const GenerationPrompt *prompts;
    const GenerationOptions *options;
    Generated *generated;
    int n, next; /* prompts; the first one that has not begun */
    int *taking; /* [sequences], the slots of the current pass */
} Job;

static bool check_part(const GenerationModel *m, const PromptPart *part, int i, Error *error) {
    if (!part->ids) return true;
    if (part->table < 0 || part->table >= m->n_tables)
        return error_set(error, "prompt %d: table %d, expected 0 .. %d", i + 1, part->table, m->n_tables - 1);
    const GenerationTable *table = &m->tables[part->table];
    const Param *params = m->model->params.items;
    int64_t rows = params[table->ids].rows;
    for (int64_t k = 0; k < part->n; k++)
        if (part->ids[k] < 0 || part->ids[k] >= rows)
            return error_set(error, "prompt %d: id %d at %lld, expected 0 .. %lld", i + 1, part->ids[k], (long long)k,
                             (long long)rows - 1);
    if (table->positions >= 0 && part->n > params[table->positions].rows)
        return error_set(error, "prompt %d has %lld ids in a row, and the model has %lld positions for them", i + 1,
                         (long long)part->n, (long long)params[table->positions].rows);
    return true;
}

static bool check_prompt(const Generator *g, const GenerationPrompt *p, int i, Error *error) {
    const GenerationModel *m = &g->model;
    const PromptPart *last = p->n_parts ? &p->parts[p->n_parts - 1] : NULL;
    int64_t vectors = 0, rows = prompt_rows(p);
    if (!last || !last->n || !last->ids || last->table != m->n_tables - 1)
        return error_set(error, "prompt %d is empty: the model needs at least one id to continue", i + 1);
    if (last->n > m->context)
        return error_set(error, "prompt %d has %lld ids, and the model's context is %lld: shorten it", i + 1,
                         (long long)last->n, (long long)m->context);
    if (rows > g->size.longest || rows > g->size.prompt_rows)
        return error_set(error, "prompt %d has %lld rows, more than the %lld that generation was opened for", i + 1,
                         (long long)rows,
                         (long long)(g->size.longest < g->size.prompt_rows ? g->size.longest : g->size.prompt_rows));
    for (int k = 0; k < p->n_parts; k++) {
        if (!check_part(m, &p->parts[k], i, error)) return false;
        if (!p->parts[k].ids) vectors += p->parts[k].n;
    }
    if (vectors > m->vector_rows)
        return error_set(error, "prompt %d has %lld vectors, expected at most %lld", i + 1, (long long)vectors,
                         (long long)m->vector_rows);
    return true;
}

static bool is_among(int32_t id, const int32_t *ids, int n) {
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

static void end_sequence(Job *job, Slot *slot, GenerationEnd end) {
    job->generated[slot->prompt].end = end;
    slot->prompt = -1;
}

/* Adds an id to a sequence, which may end with it. */
static void append(Job *job, int at, int32_t id) {
    Slot *slot = &job->g->slots[at];
    const GenerationOptions *o = job->options;
    Generated *to = &job->generated[slot->prompt];
    if (is_among(id, o->stops, o->n_stops)) {
        end_sequence(job, slot, GENERATION_STOP);
        return;
    }
    to->ids[to->n++] = id;
    job->g->seen[(int64_t)at * job->g->model.vocabulary + id] = 1;
    slot->next = id;
    if (o->on_id) o->on_id(o->context, slot->prompt, id);
    if (to->n == o->max_new)
        end_sequence(job, slot, GENERATION_LIMIT);
    else if (slot->count == job->g->model.context || slot->length == job->g->size.longest)
        end_sequence(job, slot, GENERATION_CONTEXT);
}

/* Draws the next id of n sequences from the logits of a pass. */
static bool draw(Job *job, int n, Error *error) {
    Generator *g = job->g;
    const GenerationOptions *o = job->options;
    int64_t v = g->model.vocabulary;
    int bad = -1;
#pragma omp parallel for num_threads(o->n_threads ? o->n_threads : g->device->n_threads) schedule(dynamic)
    for (int i = 0; i < n; i++) {
        float *logits = g->host_logits + i * g->model.columns;
        const Slot *slot = &g->slots[job->taking[i]];
        for (int k = 0; k < o->n_forbidden; k++) logits[o->forbidden[k]] = -INFINITY;
        Draw draw = {job->prompts[slot->prompt].sequence, (uint64_t)slot->count};
        g->chosen[i] = sample_id(&o->sampling, draw, logits, (int)v, g->seen + job->taking[i] * v, g->room + i * v);
    }
    for (int i = 0; i < n; i++) {
        if (g->chosen[i] < 0 && bad < 0) bad = g->slots[job->taking[i]].prompt;
        if (bad < 0) append(job, job->taking[i], g->chosen[i]);
    }
    if (bad < 0) return true;
    return error_set(error,
                     "prompt %d: the model's logits are not finite numbers; its weights are damaged, or too "
                     "large for the type that it computes in",
                     bad + 1);
}

/* Sets a slot's sequence to a prompt, and what it has seen to the ids of the last part. */
static void begin_sequence(Job *job, int at, int prompt) {
    Generator *g = job->g;
    const GenerationPrompt *p = &job->prompts[prompt];
    const PromptPart *last = &p->parts[p->n_parts - 1];
    uint8_t *seen = g->seen + (int64_t)at * g->model.vocabulary;
    g->slots[at] = (Slot){.prompt = prompt, .length = prompt_rows(p), .count = last->n};
    memset(seen, 0, (size_t)g->model.vocabulary);
    for (int64_t i = 0; i < last->n; i++)
        if (last->ids[i] < g->model.vocabulary) seen[last->ids[i]] = 1;
    job->generated[prompt].ids = xmalloc((size_t)(job->options->max_new + 1) * sizeof(int32_t));
}

/* Lets waiting prompts take free slots, as many as a pass has rows for. Returns how many. */
static int admit(Job *job) {
    Generator *g = job->g;
    int64_t rows = 0;
    int n = 0;
    for (int at = 0; at < g->size.sequences && job->next < job->n; at++) {
        if (g->slots[at].prompt >= 0) continue;
        rows += prompt_rows(&job->prompts[job->next]);
        if (rows > g->size.prompt_rows) break;
        begin_sequence(job, at, job->next++);
        job->taking[n++] = at;
    }
    return n;
}

/* Adds the rows of a prompt, from row *row of the pass on. */
static void fill_prompt(Generator *g, Input *in, const GenerationPrompt *p, int64_t *row, int64_t *vectors,
                        int64_t ids[GENERATION_TABLES]) {
    for (int k = 0; k < p->n_parts; k++) {
        const PromptPart *part = &p->parts[k];
        if (!part->ids && part->n) {
            Tensor to = tensor_rows(g->vectors, *vectors, part->n);
            g->device->upload(g->device, to.data, part->vectors, tensor_bytes(to));
        }
        for (int64_t i = 0; i < part->n; i++, ++*row) {
            if (!part->ids) {
                in->vector_rows.host[(*vectors)++] = (int32_t)*row;
                continue;
            }
            Gather *gather = &in->gathers[part->table];
            int64_t at = ids[part->table]++;
            gather->rows.host[at] = (int32_t)*row;
            gather->ids.host[at] = part->ids[i];
            gather->positions.host[at] = (int32_t)i;
        }
    }
}

static void prompts_pass(Job *job, int n) {
    Generator *g = job->g;
    int64_t rows = 0, vectors = 0, ids[GENERATION_TABLES] = {0};
    for (int i = 0; i < n; i++) {
        const GenerationPrompt *p = &job->prompts[g->slots[job->taking[i]].prompt];
        for (int k = 0; k < p->n_parts; k++) *(p->parts[k].ids ? &ids[p->parts[k].table] : &vectors) += p->parts[k].n;
        rows += prompt_rows(p);
    }
    Input in = prompt_input(g, n, rows, ids, vectors);
    memset(ids, 0, sizeof ids);
    rows = vectors = 0;
    for (int i = 0; i < n; i++) {
        int64_t first = rows, base = job->taking[i] * g->size.longest;
        in.offsets.host[i] = (int32_t)first;
        fill_prompt(g, &in, &job->prompts[g->slots[job->taking[i]].prompt], &rows, &vectors, ids);
        for (int64_t r = first; r < rows; r++) in.cache_rows.host[r] = (int32_t)(base + r - first);
        in.last.host[i] = (int32_t)rows - 1;
    }
    in.offsets.host[n] = (int32_t)rows;
    run_pass(g, &in);
}

/* Computes the newest id of every sequence. Returns how many there are. */
static int step_pass(Job *job) {
    Generator *g = job->g;
    int64_t longest = 0;
    int n = 0;
    for (int at = 0; at < g->size.sequences; at++) {
        if (g->slots[at].prompt < 0) continue;
        job->taking[n++] = at;
        if (++g->slots[at].length > longest) longest = g->slots[at].length;
    }
    if (!n) return 0;
    Input in = step_input(g, n, longest);
    Gather *gather = &in.gathers[g->model.n_tables - 1];
    for (int i = 0; i < n; i++) {
        Slot *slot = &g->slots[job->taking[i]];
        gather->ids.host[i] = slot->next;
        gather->positions.host[i] = (int32_t)slot->count++;
        in.slots.host[i] = job->taking[i];
        in.lengths.host[i] = (int32_t)slot->length;
        in.cache_rows.host[i] = (int32_t)(job->taking[i] * g->size.longest + slot->length - 1);
    }
    run_pass(g, &in);
    return n;
}

static bool check_options(const Generator *g, const GenerationOptions *o, Error *error) {
    if (!sampling_is_valid(&o->sampling, error)) return false;
    if (o->max_new < 1) return error_set(error, "%lld new tokens, expected at least 1", (long long)o->max_new);
    for (int i = 0; i < o->n_forbidden; i++)
        if (o->forbidden[i] < 0 || o->forbidden[i] >= g->model.vocabulary)
            return error_set(error, "the forbidden id %d is not below %d", o->forbidden[i], g->model.vocabulary);
    return true;
}

bool generator_run(Generator *g, const GenerationPrompt *prompts, int n, const GenerationOptions *options,
                   Generated *generated, Error *error) {
    if (!check_options(g, options, error)) return false;
    for (int i = 0; i < n; i++)
        if (!check_prompt(g, &prompts[i], i, error)) return false;
    memset(generated, 0, (size_t)n * sizeof *generated);
    for (int at = 0; at < g->size.sequences; at++) g->slots[at].prompt = -1;
    OWNED int *taking = xcalloc((size_t)g->size.sequences, sizeof *taking);
    Job job = {g, prompts, options, generated, .n = n, .taking = taking};
    bool ok = true;
    for (int more = 1; more && ok;) {
        more = admit(&job);
        if (more)
            prompts_pass(&job, more);
        else
            more = step_pass(&job);
        if (more) ok = draw(&job, more, error);
    }
    if (!ok) generated_free(generated, n);
    return ok;
}

void generated_free(Generated *generated, int n) {
    for (int i = 0; i < n; i++) free(generated[i].ids);
}
