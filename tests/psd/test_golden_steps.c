/* train_psd against the independent implementation in torch (tests/reference/make_golden_psd.py): losses, gradients and
 * five optimizer steps. */
#include "model/psd/cnn.h"
#include "tests/psd/train_rig.h"

typedef struct {
    const char *name, *options;
    int columns; /* of the losses */
    int least;   /* gradients that the file has */
} Golden;

static Model *golden_cnn(bool pretraining) {
    static const PsdPretrainConfig mpae = {.encoder = {.cnn = true, .d_model = 16},
                                           .decoder_dim = 16,
                                           .decoder_layers = 1,
                                           .projection_dim = 12,
                                           .sicr_weight = 0.1f,
                                           .temperature = 0.07f};
    static const PsdClassifierConfig classifier = {.encoder = {.cnn = true, .d_model = 32}, .head_dim = 24};
    return pretraining ? psd_pretrain_open(&mpae) : psd_classifier_open(&classifier);
}

/* Copies the weights of a golden file, which has others behind the training, and what was computed. */
static char *copy_base(const char *directory, const char *name) {
    static const char *const modules[] = {"encoder.",         "patch_embed.", "decoder.",
                                          "projection_head.", "classifier.",  "class_weights"};
    enum { MOST = 96 };
    char *path = kept_path(directory, "base.safetensors");
    TensorFile golden = open_golden(name);
    TensorToWrite tensors[MOST];
    Error error;
    int n = 0;
    for (int i = 0; i < golden.n_tensors; i++) {
        const StoredTensor *t = &golden.tensors[i];
        bool weights = false;
        for (int k = 0; k < 6; k++) weights = weights || !strncmp(t->name, modules[k], strlen(modules[k]));
        if (!weights) continue;
        assert_true(n < MOST);
        tensors[n] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[n++].dims, t->dims, sizeof t->dims);
    }
    if (!safetensors_write(path, tensors, n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    tensor_file_close(&golden);
    return path;
}

/* The weights that a golden run starts from: in the file itself, or formulas. */
static char *write_base(const char *directory, const Golden *g) {
    if (!strstr(g->options, "cnn")) return copy_base(directory, g->name);
    Model *model = golden_cnn(g->columns == 3);
    const ParamTable *table = &model->params;
    char *path = kept_path(directory, "base.safetensors");
    float *flat = xcalloc((size_t)table->flat_count, sizeof *flat);
    TensorToWrite *tensors = xcalloc((size_t)table->count, sizeof *tensors);
    Error error;
    params_initialize(table, flat, 1, 1);
    fill_parameters(table, flat);
    for (int i = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        tensors[i] = (TensorToWrite){.name = p->name, .dtype = "F32", .rank = p->rank, .data = flat + p->offset};
        memcpy(tensors[i].dims, p->dims, (size_t)p->rank * sizeof *p->dims);
    }
    if (!safetensors_write(path, tensors, table->count, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    model->close(model);
    free(flat);
    free(tensors);
    return path;
}

/* The eight golden spectra to train on, and their partners behind them. */
static void write_golden_data(const char *directory, const char *name) {
    GoldenSpectra g = golden_spectra(name);
    char *store = kept_path(directory, "store.safetensors"), *split = kept_path(directory, "split.json");
    for (int64_t i = 8 * g.store.n_visible; i < g.store.n * g.store.n_visible; i++)
        g.store.visible[i] = g.store.visible[i % g.store.n_visible]; /* of the partners: any */
    psd_write_store(store, &g.store, "[\"one\"]");
    write_text(split, "{\"train\": [0, 1, 2, 3, 4, 5, 6, 7], \"val\": [], \"test\": []}");
    golden_spectra_close(&g);
}

/* Every tensor PREFIX + name of the golden file against the same of another; of large ones only every so many-th number
 * is in it. The third of the keys' bias is left out where it is noise (tests/golden.h). Returns how many. */
static int compare_files(const TensorFile *golden, const char *prefix, const TensorFile *file, const char *as,
                         bool noise) {
    int n = 0;
    double worst = 0;
    for (int t = 0; t < golden->n_tensors; t++) {
        const StoredTensor *tensor = &golden->tensors[t];
        size_t length = strlen(prefix);
        if (strncmp(tensor->name, prefix, length) || strstr(tensor->name, "num_batches_tracked") ||
            strstr(tensor->name, "eval_logits"))
            continue;
        const char *name = tensor->name + length;
        float *want = floats(golden, "", tensor->name), *got = floats(file, as, name);
        int64_t count = find(file, as, name)->count, step = tensor->count == count ? 1 : GOLDEN_STRIDE;
        assert_int_equal(tensor->count, (count + step - 1) / step);
        for (int64_t e = 0; e < tensor->count; e++) {
            bool key = noise && strstr(name, "in_proj_bias") && e / (count / 3) == 1;
            got[e] = key ? want[e] : got[e * step];
        }
        double error = relative_error(got, want, tensor->count);
        if (!(error <= golden_tolerance)) fail_msg("%s%s: relative error %.3g", prefix, name, error);
        worst = error > worst ? error : worst;
        free(want);
        free(got);
        n++;
    }
    print_message("%s* of %d tensors: largest relative error %.2g\n", prefix, n, worst);
    return n;
}

/* Rows of an activation, which are in the order of the batch, against the golden ones, which are in the data's. */
static void check_activation(const TensorFile *golden, const char *want_name, const TensorFile *dump, const char *name,
                             int64_t from) {
    const int32_t *spectra = find(dump, "", "micro0.batch.spectra")->data;
    float *want = floats(golden, "", want_name), *got = floats(dump, "micro0.", name);
    int64_t width = find(golden, "", want_name)->count / 8;
    for (int b = 0; b < 8; b++)
        assert_close(want_name, got + (from + b) * width, want + spectra[b] * width, width, golden_tolerance);
    free(want);
    free(got);
}

static void check_steps(const TensorFile *golden, const char *run, int columns) {
    static const char *const names[2][2] = {{"train/loss", NULL}, {"train/mae_loss", "train/sicr_loss"}};
    float *losses = floats(golden, "", "losses"), *norms = floats(golden, "", "norms");
    double values[8];
    for (int m = 0; m < (columns == 3 ? 2 : 1); m++) {
        assert_int_equal(logged(run, "train", names[columns == 3][m], values, 8), 5);
        for (int k = 0; k < 5; k++) {
            double want = (double)losses[columns * k + m];
            assert_near(values[k], want, golden_tolerance * want);
        }
    }
    assert_int_equal(logged(run, "train", "train/grad_norm", values, 8), 5);
    for (int k = 0; k < 5; k++) assert_near(values[k], norms[k], golden_tolerance * (double)norms[k]);
    free(losses);
    free(norms);
}

/* Compares the outputs for the same spectra after five steps, in evaluation: batch norms use their running statistics.
 */
static void check_evaluation(const TensorFile *golden, const char *run) {
    float *logits = floats(golden, "", "after.eval_logits");
    PsdPredicted said[8];
    psd_must("evaluate -m %s/store.safetensors --split %s/split.json --checkpoint %s/run/last --eval-split train -o %s",
             run, run, run, run);
    assert_int_equal(psd_read_predictions(run, said, 8), 8);
    for (int i = 0; i < 8; i++) {
        double sum = 0;
        assert_int_equal(said[i].id, i);
        for (int c = 0; c < PSD_CLASSES; c++) sum += exp((double)logits[i * PSD_CLASSES + c]);
        for (int c = 0; c < PSD_CLASSES; c++)
            assert_near(said[i].p[c], exp((double)logits[i * PSD_CLASSES + c]) / sum, golden_tolerance);
    }
    free(logits);
}

/* Five steps of one batch; a million epochs of which five are trained have no cosine to speak of: (pi 4e-6)^2. */
static void check_golden(const Golden *g) {
    char *run = kept_folder(), *base = write_base(run, g);
    bool pretraining = g->columns == 3;
    write_golden_data(run, g->name);
    psd_must("%s -m %s/store.safetensors --split %s/split.json -o %s/run -b 8 --epochs 1000000 --max-steps 5 "
             "--learning-rate 1e-3 --min-learning-rate 0 --weight-decay 1e-2 --dropout 0 --log-interval 1 --threads 1 "
             "--debug-dump %s/dump %s %s %s",
             pretraining ? "pretrain" : "finetune --head-dropout 0 --class-weights 0.5,1,1.5,2,0.8,1.2", run, run, run,
             run, pretraining ? "--base-checkpoint" : "--pretrained", base, g->options);
    if (!pretraining) assert_contains(fixture.output, "has a head, which is used");
    char *to = kept_path(run, "run"), *last = kept_path(to, "last");
    TensorFile golden = open_golden(g->name), dump = open_in(run, "dump"), after = open_in(last, "model.safetensors");
    assert_true(compare_files(&golden, "grad.", &dump, "grad.", false) >= g->least);
    assert_true(compare_files(&golden, "after.", &after, "", true) >= g->least);
    check_steps(&golden, to, g->columns);
    if (pretraining) {
        check_activation(&golden, "step0.z", &dump, "sicr.z", 0);
        check_activation(&golden, "step0.z_positive", &dump, "sicr.z", 8);
        check_activation(&golden, "step0.prediction", &dump, "mae.predicted", 0);
        check_activation(&golden, "step0.target", &dump, "mae.targets", 0);
    } else {
        check_activation(&golden, "step0.logits", &dump, "logits", 0);
        check_evaluation(&golden, run);
    }
    float *loss = floats(&dump, "", "loss"), *losses = floats(&golden, "", "losses");
    assert_near(*loss, losses[g->columns - 1], golden_tolerance * (double)losses[g->columns - 1]);
    free(loss);
    free(losses);
    tensor_file_close(&golden);
    tensor_file_close(&dump);
    tensor_file_close(&after);
}

TEST(five_steps_are_the_golden_ones) {
    static const Golden all[] = {
        {"psd_mpae", "--size tiny --mask-ratio 0.5", 3, 41},
        {"psd_mpae2",
         "--d-model 24 --n-layers 2 --n-heads 2 --ffn-dim 40 --decoder-dim 16 --decoder-layers 2 --projection-dim 12",
         3, 65},
        {"psd_mpae_cnn", "--encoder cnn --d-model 16 --decoder-dim 16 --decoder-layers 1 --projection-dim 12", 3, 59},
        {"psd_classifier", "--d-model 64 --n-layers 2 --n-heads 4 --ffn-dim 128 --hidden-dim 48 --encoder-lr-scale 0.1",
         1, 35},
        {"psd_cnn", "--encoder cnn --d-model 32 --hidden-dim 24 --encoder-lr-scale 0.1", 1, 36},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_golden(&all[i]);
}

int main(void) { return tests_run(psd_make_toy, NULL); }
