#include "tests/gpt/published_rig.h"

#include "data/audio/audio.h"
#include "data/formats/torch_pth.h"
#include "kernels/cpu/device.h"
#include "model/gpt.h"
#include "tests/files.h"

enum { MOST = 512, SEED = 5 };

/* The tensors of a file, and the numbers that belong to no other file. */
typedef struct {
    TensorToWrite items[MOST];
    int n;
} Tensors;

static const struct {
    const char *name, *prefix; /* in a folder; of its tensors in the golden file */
    bool is_pth;
} files[INDEX_FILES] = {[INDEX_GPT] = {"gpt.pth", "gpt.", true},
                        [INDEX_STATISTICS] = {"wav2vec2bert_stats.pt", "stats.", true},
                        [INDEX_W2V] = {"w2v-bert-2.0/model.safetensors", "w2v.", false},
                        [INDEX_CODEC] = {"semantic_codec/model.safetensors", "codec.", false}};

static const char latents[] = "perceiver_encoder.latents";

char *published_path(const char *folder, IndexFile file) { return kept_path(folder, files[file].name); }

static void add(Tensors *to, const char *name, int rank, const int64_t *dims, const float *data) {
    assert_true(to->n < MOST);
    TensorToWrite *item = &to->items[to->n++];
    *item = (TensorToWrite){.name = name, .dtype = "F32", .rank = rank, .data = data};
    memcpy(item->dims, dims, (size_t)rank * sizeof *dims);
}

/* Repeats the few rows of the latents, each time a little larger. */
static void add_latents(Tensors *to, const StoredTensor *from) {
    const int64_t dims[2] = {32, from->dims[1]}, n = from->count;
    float *rows = (float *)keep((char *)xmalloc((size_t)(dims[0] * dims[1]) * sizeof *rows));
    for (int64_t i = 0; i < dims[0] * dims[1]; i++)
        rows[i] = ((const float *)from->data)[i % n] * (1 + 0.1f * (float)(i / n));
    add(to, latents, 2, dims, rows);
}

static void add_gpt(Tensors *to) {
    const GptConfig config = {.d_model = PUBLISHED_WIDTH,
                              .n_layers = PUBLISHED_LAYERS,
                              .n_heads = 1,
                              .text_vocabulary = 70,
                              .mel_codes = PUBLISHED_CODES + 2,
                              .max_text_tokens = 120,
                              .max_mel_tokens = 200,
                              .text_weight = 1};
    static Model *model; /* whose names are kept */
    if (!model) model = gpt_open(&config);
    const ParamTable *table = &model->params;
    float *flat = (float *)keep((char *)xcalloc((size_t)table->flat_count, sizeof *flat));
    params_initialize(table, flat, SEED, 1);
    for (int i = 0; i < table->count; i++)
        add(to, table->items[i].name, table->items[i].rank, table->items[i].dims, flat + table->items[i].offset);
}

static void scale(TensorToWrite *item, float factor) {
    int64_t n = 1;
    for (int i = 0; i < item->rank; i++) n *= item->dims[i];
    float *data = (float *)keep((char *)xmalloc((size_t)n * sizeof *data));
    for (int64_t i = 0; i < n; i++) data[i] = ((const float *)item->data)[i] * factor;
    item->data = data;
}

static bool is(const char *wanted, const char *name) { return wanted && !strcmp(wanted, name); }

static void apply(Tensors *to, const PublishedChange *change) {
    static const float zero;
    int n = 0;
    for (int i = 0; i < to->n; i++) {
        TensorToWrite item = to->items[i];
        if (is(change->without, item.name)) continue;
        if (is(change->shorter, item.name)) item.dims[0]--;
        if (is(change->scaled, item.name)) scale(&item, change->factor);
        to->items[n++] = item;
    }
    to->n = n;
    if (change->more) add(to, change->more, 1, (int64_t[]){1}, &zero);
    for (int i = 0; i < to->n && change->prefix; i++)
        to->items[i].name = kept_format("%s%s", change->prefix, to->items[i].name);
}

static bool write_pth(const char *path, const Tensors *tensors, Error *error) {
    PthWriter *w = pth_begin();
    pth_open(w, PTH_DICT);
    for (int i = 0; i < tensors->n; i++) {
        pth_text(w, tensors->items[i].name);
        pth_tensor(w, tensors->items[i]);
    }
    pth_close(w);
    return pth_write(w, path, error);
}

void published_write(const char *folder, IndexFile file, const PublishedChange *change) {
    TensorFile golden = open_golden("indextts2");
    Tensors tensors = {.n = 0};
    size_t prefix = strlen(files[file].prefix);
    for (int i = 0; i < golden.n_tensors; i++) {
        const StoredTensor *t = &golden.tensors[i];
        if (strncmp(t->name, files[file].prefix, prefix) != 0) continue;
        if (file == INDEX_GPT && !strcmp(t->name + prefix, latents))
            add_latents(&tensors, t);
        else
            add(&tensors, t->name + prefix, t->rank, t->dims, t->data);
    }
    if (file == INDEX_GPT) add_gpt(&tensors);
    if (change) apply(&tensors, change);
    char *path = published_path(folder, file), *directory = keep(path_directory(path));
    Error error;
    make_directories(directory);
    bool ok = files[file].is_pth ? write_pth(path, &tensors, &error)
                                 : safetensors_write(path, tensors.items, tensors.n, NULL, NULL, 0, &error);
    if (!ok) fail_msg("%s: %s", path, error.text);
    tensor_file_close(&golden);
}

char *published_folder(const char *name) {
    char *folder = corpus_folder(name);
    for (int i = 0; i < INDEX_FILES; i++) published_write(folder, (IndexFile)i, NULL);
    return folder;
}

/* ---- runs ---- */

const char *published_program = "tiny/train_gpt";
const char *published_options = "--vocabulary 60 --val-ratio 0.3 --max-duration 3 --min-words 2";

int published_open(void **state) {
    corpus_open(state);
    setenv("HOME", corpus_root, 1);
    unsetenv("HF_HOME");
    unsetenv("HF_HUB_CACHE");
    published_folder("published");
    return 0;
}

int published_try(const char *output, const char *list, const char *weights, const char *more) {
    return run_command(fixture.output, sizeof fixture.output, "%s prepare -i %s/%s -o %s/%s --indextts2 %s/%s %s %s",
                       program_at(published_program), corpus_root, list, corpus_root, output, corpus_root, weights,
                       published_options, more);
}

void published_prepare(const char *output, const char *more) {
    int status = published_try(output, "list.tsv", "published", more);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

const char *published_reference(const char **told) {
    static char *first;
    if (!first) {
        published_prepare("reference", "--num-workers 1");
        first = keep(xstrdup(fixture.output));
    }
    if (told) *told = first;
    return "reference";
}

/* ---- the networks ---- */

static void read_network(Network *network, IndexFile from) {
    TensorFile file = open_file(published_path(corpus_folder("published"), from));
    NetworkFile in = {&file, ""};
    WeightSource source = network_file_source(&in);
    Error error;
    if (!network_read(network, &source, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
}

void published_nets_open(PublishedNets *nets) {
    TensorFile statistics = open_file(published_path(corpus_folder("published"), INDEX_STATISTICS));
    *nets = (PublishedNets){.device = cpu_device_open(2),
                            .front = index_front_open(),
                            .mean = floats(&statistics, "", "mean"),
                            .variance = floats(&statistics, "", "var")};
    features_open(&nets->features, &FEATURES_INDEXTTS2, nets->device, DTYPE_F32, DTYPE_F32, nets->mean, nets->variance);
    read_network(&nets->features.w2v.network, INDEX_W2V);
    read_network(&nets->features.codec.network, INDEX_CODEC);
    read_network(&nets->features.voice.network, INDEX_GPT);
    features_reserve(&nets->features, 16 << 20);
    features_prepare(&nets->features);
    tensor_file_close(&statistics);
}

void published_nets_close(PublishedNets *nets) {
    features_close(&nets->features);
    device_close(nets->device);
    index_front_close(nets->front);
    FREE(nets->mean, nets->variance);
}

PublishedResults published_compute(PublishedNets *nets, const char *sound) {
    FrontClip clip;
    Audio audio;
    Error error;
    if (!audio_read(corpus_folder(sound), 0, 40, &audio, &error) ||
        !index_front_features(nets->front, audio.samples, audio.count, audio.rate, &clip, &error))
        fail_msg("%s: %s", sound, error.text);
    PublishedResults r = {.rows = clip.rows,
                          .codes = xmalloc((size_t)clip.rows * sizeof *r.codes),
                          .margins = xmalloc((size_t)clip.rows * sizeof *r.margins),
                          .condition = xmalloc(32 * PUBLISHED_WIDTH * sizeof *r.condition),
                          .emotion = xmalloc(PUBLISHED_WIDTH * sizeof *r.emotion)};
    FeatureClip item = {.x = clip.x,
                        .length = {clip.rows, clip.valid},
                        .codes = r.codes,
                        .margins = r.margins,
                        .condition = r.condition,
                        .emotion = r.emotion};
    features_compute(&nets->features, &item, 1);
    free(clip.x);
    audio_close(&audio);
    return r;
}

void published_results_free(PublishedResults *r) { FREE(r->codes, r->margins, r->condition, r->emotion); }

char *published_sound(int i) {
    static const char *const formats[] = {"wav", "flac", "ogg", "wav"};
    return kept_format("audio/%s.%s", corpus_ids[i], formats[i % 4]);
}
