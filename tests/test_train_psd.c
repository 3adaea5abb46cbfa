/* train_psd seen from outside: losses, gradients and five optimizer steps against the independent implementation in
 * torch (tests/reference/make_golden_psd.py); schedules; runs that are stopped and resumed; whole runs over sensors;
 * what evaluation says; and a clear line for everything that can be wrong. */
#include <inttypes.h>

#include "base/file.h"
#include "model/cnn.h"
#include "tests/psd_rig.h"
#include "tests/train_rig.h"
#include "train/checkpoint_state.h"

static char output[1 << 16];
static char *data; /* the directory of the toy data */

/* Runs train_psd; the exit status. What it said is in `output`. */
static int psd(const char *format, ...) PRINTF_LIKE(1, 2);
static int psd(const char *format, ...) {
    char options[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(options, sizeof options, format, arguments);
    va_end(arguments);
    return run_command(output, sizeof output, "%s %s", program_at("train_psd"), options);
}

#define must(...)                                                                                                      \
    do {                                                                                                               \
        int status_ = psd(__VA_ARGS__);                                                                                \
        if (status_) fail_msg("exit status %d:\n%s", status_, output);                                                 \
    } while (0)

/* ---- data ---- */

static void write_store(const char *path, const PsdStore *s, const char *sensors) {
    int32_t *files = xcalloc((size_t)s->n, sizeof *files);
    float *snr = xcalloc((size_t)s->n, sizeof *snr);
    for (int64_t i = 0; i < s->n; i++) snr[i] = (float)(i % 30);
    TensorToWrite tensors[8] = {{"psd", "F32", 2, {s->n, PSD_BINS}, s->psd}, {"label", "I32", 1, {s->n}, s->labels},
                                {"sensor", "I32", 1, {s->n}, s->sensors},    {"file", "I32", 1, {s->n}, files},
                                {"row", "I32", 1, {s->n}, s->rows},          {"snr", "F32", 1, {s->n}, snr}};
    if (s->positive) tensors[6] = (TensorToWrite){"positive", "I32", 1, {s->n}, s->positive};
    if (s->positive) tensors[7] = (TensorToWrite){"visible", "I32", 2, {s->n, s->n_visible}, s->visible};
    const char *const keys[] = {"sensors"}, *const values[] = {sensors};
    Error error;
    if (!safetensors_write(path, tensors, s->positive ? 8 : 6, keys, values, 1, &error)) fail_msg("%s", error.text);
    free(files);
    free(snr);
}

/* Three sensors with all six classes, ROWS of each; a class is a bump of its own width. Row i has the class
 * i / ROWS % 6 and the sensor i / ROWS / 6. */
enum { SENSORS = 3, ROWS = 16, TOY = SENSORS * PSD_CLASSES * ROWS };

static void write_toy(const char *path, int32_t first_label) {
    PsdStore s = {.n = TOY, .psd = xmalloc(TOY * PSD_BINS * sizeof(float))};
    s.labels = xcalloc(TOY, sizeof(int32_t));
    s.sensors = xcalloc(TOY, sizeof(int32_t));
    s.rows = xcalloc(TOY, sizeof(int32_t));
    for (int i = 0; i < TOY; i++) {
        s.labels[i] = i / ROWS % PSD_CLASSES;
        s.sensors[i] = i / ROWS / PSD_CLASSES;
        s.rows[i] = i;
        double width = 8 + 14 * s.labels[i];
        for (int k = 0; k < PSD_BINS; k++) {
            float noise = philox_normal((uint64_t)i, PURPOSE_TEST, 0, (uint64_t)k);
            s.psd[i * PSD_BINS + k] =
                (float)(2 * exp(-pow((k - 100) / width, 2)) + 0.3 * sin(0.05 * k * (1 + s.sensors[i]))) + 0.6f * noise;
        }
    }
    s.labels[0] = first_label;
    write_store(path, &s, "[\"s00\", \"s01\", \"s02\"]");
    free(s.psd);
    free(s.labels);
    free(s.sensors);
    free(s.rows);
}

/* Of every class of every sensor but `without`, the rows [from, to) of ROWS, as "name": [...]. */
static void print_part(FILE *file, const char *name, int only, int without, int from, int to) {
    fprintf(file, "\"%s\": [", name);
    for (int i = 0, n = 0; i < TOY; i++) {
        int sensor = i / ROWS / PSD_CLASSES, row = i % ROWS;
        if (sensor == without || (only >= 0 && sensor != only) || row < from || row >= to) continue;
        fprintf(file, "%s%d", n++ ? ", " : "", i);
    }
    fprintf(file, "]");
}

static FILE *open_data(const char *name) {
    char *path = path_join(data, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    free(path);
    return file;
}

/* pooled.json: 180 rows to train on, 54, 54. loso.json: 156, 36 and the sensor's 96. few.json: K of each class. */
static void write_splits(void) {
    FILE *pooled = open_data("pooled.json"), *loso = open_data("loso.json"), *few = open_data("few.json");
    static const struct {
        const char *name;
        int from, to;
    } parts[] = {{"{\"train", 0, 10}, {"val", 10, 13}, {"test", 13, ROWS}};
    fprintf(pooled, "{");
    for (int p = 0; p < 3; p++) {
        print_part(pooled, parts[p].name + (p == 0 ? 2 : 0), -1, -1, parts[p].from, parts[p].to);
        fprintf(pooled, p < 2 ? ", " : "}");
    }
    for (int s = 0; s < SENSORS; s++) {
        fprintf(loso, "%s\"s%02d\": {", s ? ", " : "{", s);
        print_part(loso, "train", -1, s, 0, 13);
        fprintf(loso, ", ");
        print_part(loso, "val", -1, s, 13, ROWS);
        fprintf(loso, ", ");
        print_part(loso, "test", s, -1, 0, ROWS);
        fprintf(loso, "}");
        fprintf(few, "%s\"s%02d\": {", s ? ", " : "{", s);
        for (int k = 0; k < 4; k++) {
            static const int shots[] = {5, 10, 50, 100};
            fprintf(few, "%s\"%d\": {", k ? ", " : "", shots[k]);
            print_part(few, "finetune", s, -1, 0, shots[k]);
            fprintf(few, ", ");
            print_part(few, "test", s, -1, shots[k], ROWS);
            fprintf(few, "}");
        }
        fprintf(few, "}");
    }
    fprintf(loso, "}");
    fprintf(few, "}");
    assert_int_equal(fclose(pooled) | fclose(loso) | fclose(few), 0);
}

static int make_toy(void **state) {
    (void)state;
    data = scratch_directory();
    char *toy = path_join(data, "toy.safetensors"), *with_unknown = path_join(data, "unknown.safetensors");
    write_toy(toy, 0);
    write_toy(with_unknown, 6);
    write_splits();
    free(toy);
    free(with_unknown);
    return 0;
}

/* What most runs have in common: the toy data, its pooled split, and a model that takes a millisecond. */
static const char *toy_options(const char *command) {
    static char text[8][512];
    static int at;
    char *out = text[at++ % 8];
    snprintf(out, sizeof text[0], "%s -m %s/toy.safetensors --split %s/pooled.json --threads 1", command, data, data);
    return out;
}

/* ---- predictions ---- */

/* A row of predictions_TAG.csv. */
typedef struct {
    int id, truth, predicted;
    double p[PSD_CLASSES];
} Said;

static int class_of(const char *name) {
    static const char *const names[] = {"dab", "dvbt", "fm", "gsm", "lte", "tetra"};
    for (int c = 0; c < PSD_CLASSES; c++)
        if (!strcmp(name, names[c])) return c;
    fail_msg("%s is no class", name);
    return -1;
}

/* Rows of id,sensor,snr,truth,prediction,p_dab,...; how many. */
static int read_predictions(const char *directory, Said *said, int most) {
    char *path = path_join(directory, "predictions_finetuned.csv"), *text = read_text(path);
    int n = 0;
    assert_int_equal(strncmp(text, "id,sensor,snr,truth,prediction,p_dab,", 37), 0);
    for (char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1, n++) {
        char truth[16], predicted[16];
        assert_true(n < most);
        Said *s = &said[n];
        assert_int_equal(sscanf(line, "%d,%*[^,],%*[^,],%15[^,],%15[^,],%lf,%lf,%lf,%lf,%lf,%lf", &s->id, truth,
                                predicted, &s->p[0], &s->p[1], &s->p[2], &s->p[3], &s->p[4], &s->p[5]),
                         9);
        s->truth = class_of(truth);
        s->predicted = class_of(predicted);
    }
    free(text);
    free(path);
    return n;
}

/* ---- the golden steps ---- */

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

/* The weights that a golden run starts from: in the file itself, or formulas. */
static char *write_base(const char *directory, const Golden *g) {
    if (!strstr(g->options, "cnn")) return xformat("tests/reference/golden/%s.safetensors", g->name);
    Model *model = golden_cnn(g->columns == 3);
    const ParamTable *table = &model->params;
    char *path = path_join(directory, "base.safetensors");
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
    char *store = path_join(directory, "store.safetensors"), *split = path_join(directory, "split.json");
    for (int64_t i = 8 * g.store.n_visible; i < g.store.n * g.store.n_visible; i++)
        g.store.visible[i] = g.store.visible[i % g.store.n_visible]; /* of the partners: any */
    write_store(store, &g.store, "[\"one\"]");
    write_text(split, "{\"train\": [0, 1, 2, 3, 4, 5, 6, 7], \"val\": [], \"test\": []}");
    golden_spectra_close(&g);
    free(store);
    free(split);
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

/* What the weights after five steps say of the same spectra, in evaluation: batch norms by their running statistics. */
static void check_evaluation(const TensorFile *golden, const char *run) {
    float *logits = floats(golden, "", "after.eval_logits");
    Said said[8];
    must("evaluate -m %s/store.safetensors --split %s/split.json --checkpoint %s/run/last --part train -o %s", run, run,
         run, run);
    assert_int_equal(read_predictions(run, said, 8), 8);
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
    char *run = scratch_directory(), *base = write_base(run, g);
    bool pretraining = g->columns == 3;
    write_golden_data(run, g->name);
    must("%s -m %s/store.safetensors --split %s/split.json -o %s/run -b 8 --epochs 1000000 --max-steps 5 "
         "--learning-rate 1e-3 --min-learning-rate 0 --weight-decay 1e-2 --dropout 0 --log-interval 1 --threads 1 "
         "--debug-dump %s/dump %s %s %s",
         pretraining ? "pretrain" : "finetune --head-dropout 0 --class-weights 0.5,1,1.5,2,0.8,1.2", run, run, run, run,
         pretraining ? "--base-checkpoint" : "--pretrained", base, g->options);
    if (!pretraining) assert_contains(output, "has a head: taken along");
    char *to = path_join(run, "run"), *last = path_join(to, "last");
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
    char *owned[] = {run, base, to, last};
    for (int i = 0; i < 4; i++) free(owned[i]);
}

static void five_steps_are_the_golden_ones(void **state) {
    (void)state;
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

/* ---- schedules ---- */

/* To the digits that the reference's schedules were printed with, seven or eight at least. */
static void check_rates(const char *run, const char *key, const double *want, int n, int epochs, double relative) {
    double rates[64];
    assert_int_equal(logged(run, "train", key, rates, 64), epochs);
    for (int e = 0; e < n; e++)
        if (want[e] > 0) assert_near(rates[e], want[e], relative * want[e]);
}

/* An epoch is one step: -b takes all samples. */
static void rates_follow_the_epochs(void **state) {
    (void)state;
    static const double pretraining[20] = {2e-6,      4.16e-5,     8.12e-5,     1.208e-4,    1.604e-4,
                                           2e-4,      1.978257e-4, 1.913978e-4, 1.809972e-4, 1.670785e-4,
                                           1.5025e-4, 1.312472e-4, 1.109006e-4, 9.009942e-5, 6.975281e-5,
                                           5.075e-5,  3.392150e-5, 2.000281e-5, 9.602227e-6, 3.174314e-6};
    static const double encoder[50] = {2e-5, 1.9980365948e-5, [25] = 1.005e-5, [48] = 1.7845872e-7, 1.1963405e-7};
    static const double head[50] = {2e-4, 1.9980277151e-4, [25] = 1.0005e-4, [48] = 8.8813560e-7, 2.9722849e-7};
    char *run = scratch_directory(), *base = path_join(run, "last"), *tuned = scratch_directory();
    must("%s -o %s --size tiny -b 180 --epochs 20 --warmup-epochs 5 --log-interval 1", toy_options("pretrain"), run);
    check_rates(run, "train/lr", pretraining, 20, 20, 5e-7);
    must("%s -o %s -b 180 --pretrained %s --log-interval 1 --early-stopping-patience 0", toy_options("finetune"), tuned,
         base);
    assert_contains(output, "[Model] as its checkpoint says:");
    check_rates(tuned, "train/lr", encoder, 50, 50, 3e-8);
    check_rates(tuned, "train/lr_1", head, 50, 50, 3e-8);
    free(run);
    free(base);
    free(tuned);
}

/* ---- pretraining ---- */

/* Before anything is learned, all spectra look alike: any of the others is as likely the partner. */
static void the_contrast_starts_at_chance(void **state) {
    (void)state;
    char *run = scratch_directory();
    double loss = 0;
    must("%s -o %s --size small -b 64 --max-steps 1", toy_options("pretrain"), run);
    assert_int_equal(logged(run, "train", "train/sicr_loss", &loss, 1), 1);
    assert_near(loss, log(2 * 64 - 1), 0.05 * log(2 * 64 - 1));
    free(run);
}

static void the_masked_loss_falls(void **state) {
    (void)state;
    char *run = scratch_directory();
    double losses[32];
    must("%s -o %s --size tiny -b 32 --epochs 20 --learning-rate 3e-3", toy_options("pretrain"), run);
    assert_int_equal(logged(run, "train", "train/mae_loss", losses, 32), 20); /* a line an epoch, of 5 steps */
    assert_true(losses[19] < 0.8 * losses[0]);
    free(run);
}

/* Masks and partners of the validation are the same every time: weights that stay give the same numbers. */
static void validation_measures_the_same_every_time(void **state) {
    (void)state;
    char *run = scratch_directory();
    double masked[4], contrast[4], trained[4];
    must("%s -o %s --size tiny -b 60 --epochs 3 --learning-rate 0 --min-learning-rate 0 --weight-decay 0 --dropout 0 "
         "--log-interval 3",
         toy_options("pretrain"), run);
    assert_int_equal(logged(run, "val", "val/mae_loss", masked, 4), 3);
    assert_int_equal(logged(run, "val", "val/sicr_loss", contrast, 4), 3);
    assert_int_equal(logged(run, "train", "train/mae_loss", trained, 4), 3);
    for (int i = 1; i < 3; i++) {
        assert_true(masked[i] == masked[0] && contrast[i] == contrast[0]);
        assert_true(trained[i] != trained[0]); /* other masks every epoch */
    }
    free(run);
}

/* A step that is skipped leaves the running statistics as they are, and the weights are as they were initialised. */
static void a_step_that_is_skipped_changes_nothing(void **state) {
    (void)state;
    char *run = scratch_directory(), *first = path_join(run, "step_00000001"), *last = path_join(run, "last");
    int status = run_command(output, sizeof output,
                             "%s %s -o %s --encoder cnn --d-model 16 --hidden-dim 8 -b 60 --epochs 1 --save-interval 1 "
                             "--skip-nonfinite --class-weights 3e38,3e38,3e38,3e38,3e38,3e38 "
                             "--early-stopping-patience 0",
                             program_at("train_psd"), toy_options("finetune"), run);
    assert_int_equal(status, 1); /* nothing was trained */
    assert_contains(output, "step=3 skipped: the loss or its gradient is not finite (3 skipped so far)");
    TensorFile before = open_in(first, "model.safetensors"), after = open_in(last, "model.safetensors");
    int statistics = 0;
    for (int i = 0; i < after.n_tensors; i++) {
        const StoredTensor *t = &after.tensors[i];
        const float *values = t->data;
        assert_memory_equal(values, find(&before, "", t->name)->data, t->bytes);
        if (!strstr(t->name, "running_")) continue;
        statistics++;
        for (int64_t e = 0; e < t->count; e++) assert_true(values[e] == (strstr(t->name, "var") ? 1 : 0));
    }
    assert_int_equal(statistics, 2 * CNN_UNITS);
    tensor_file_close(&before);
    tensor_file_close(&after);
    char *owned[] = {run, first, last};
    for (int i = 0; i < 3; i++) free(owned[i]);
}

static void a_frozen_encoder_stays(void **state) {
    (void)state;
    char *base = scratch_directory(), *run = scratch_directory(), *from = path_join(base, "last"),
         *to = path_join(run, "last");
    must("%s -o %s --size tiny -b 60 --epochs 1", toy_options("pretrain"), base);
    must("%s -o %s -b 60 --epochs 2 --pretrained %s --freeze-encoder --learning-rate 1e-2", toy_options("finetune"),
         run, from);
    TensorFile before = open_in(from, "model.safetensors"), after = open_in(to, "model.safetensors");
    int same = 0;
    for (int i = 0; i < after.n_tensors; i++) {
        const char *name = after.tensors[i].name;
        if (strncmp(name, "encoder.", 8) && strncmp(name, "patch_embed.", 12)) continue;
        assert_memory_equal(after.tensors[i].data, find(&before, "", name)->data, after.tensors[i].bytes);
        same++;
    }
    assert_int_equal(same, 20);
    tensor_file_close(&before);
    tensor_file_close(&after);
    /* and says the same whatever its dropout */
    static const char *const dropouts[] = {"0", "0.5"};
    float *said[2];
    int64_t count = 0;
    for (int i = 0; i < 2; i++) {
        must("%s -o %s/%s -b 60 --max-steps 1 --pretrained %s --freeze-encoder --dropout %s --debug-dump %s/dump",
             toy_options("finetune"), run, dropouts[i], from, dropouts[i], run);
        TensorFile dump = open_in(run, "dump");
        count = find(&dump, "", "micro0.encoded")->count;
        said[i] = floats(&dump, "", "micro0.encoded");
        tensor_file_close(&dump);
    }
    assert_int_equal(count, 60 * 32);
    assert_memory_equal(said[0], said[1], (size_t)count * sizeof(float));
    void *owned[] = {base, run, from, to, said[0], said[1]};
    for (int i = 0; i < 6; i++) free(owned[i]);
}

/* Of three of dab and one of dvbt: 1/3 and 1, times 3/2, so that those of both classes sum to two. */
static void rare_classes_weigh_more(void **state) {
    (void)state;
    char *split = path_join(data, "uneven.json");
    write_text(split, "{\"train\": [0, 1, 2, %d], \"val\": [], \"test\": []}", ROWS);

    static const struct {
        const char *given, *told;
    } ways[] = {{"", "dab 3 (0.5000), dvbt 1 (1.5000), fm 0 (1.0000), gsm 0 (1.0000)"},
                {"--class-weights none", "dab 3 (1.0000), dvbt 1 (1.0000), fm 0 (1.0000)"},
                {"--class-weights 1,2,3,4,5,6", "dab 3 (1.0000), dvbt 1 (2.0000), fm 0 (3.0000)"}};
    for (int i = 0; i < 3; i++) {
        char *line = xformat("finetune -m %s/toy.safetensors --split %s --size tiny -b 4 --dry-run %s", data, split,
                             ways[i].given);
        must("%s", line);
        assert_contains(output, ways[i].told);
        free(line);
    }
    free(split);
}

/* ---- the same bits ---- */

typedef struct {
    const char *command, *key;
    char options[512];
    int steps; /* of the whole run */
} Steady;

/* An epoch is five steps. Of finetune no validation after the first is better, so that it ends by its patience. */
static Steady pretraining_run(void) {
    Steady s = {.command = "pretrain", .key = "train/mae_loss", .steps = 40};
    snprintf(s.options, sizeof s.options, "%s --size tiny -b 32 --epochs 8 --log-interval 1", toy_options(s.command));
    return s;
}

static Steady finetuning_run(void) {
    Steady s = {.command = "finetune", .key = "train/loss", .steps = 20};
    snprintf(s.options, sizeof s.options,
             "%s --size tiny -b 32 --epochs 30 --log-interval 1 --early-stopping-patience 3 --learning-rate 1e-9",
             toy_options(s.command));
    return s;
}

/* Trains; returns the run. */
static char *steady(const Steady *s, const char *more) {
    char *run = scratch_directory();
    must("%s -o %s %s", s->options, run, more);
    return run;
}

static void assert_same_run(const Steady *s, const char *a, const char *b) {
    double x[64], y[64];
    assert_same_result(a, b);
    assert_int_equal(logged(a, "train", s->key, x, 64), s->steps);
    assert_int_equal(logged(b, "train", s->key, y, 64), s->steps);
    for (int i = 0; i < s->steps; i++) assert_true(x[i] == y[i]);
}

/* Starts the program, and sends it a signal at a step; what it says goes to DIRECTORY/output. Its exit status. */
static int psd_and_signal(const char *directory, const char *run, int step, const char *options) {
    char *command = xformat("exec %s %s >%s/output 2>&1", program_at("train_psd"), options, directory);
    pid_t child = fork();
    int status;
    if (!child) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    wait_for_step(run, child, step);
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    free(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_stopped_run_goes_on_as_if_never_stopped(void **state) {
    (void)state;
    Steady kinds[] = {pretraining_run(), finetuning_run()};
    for (int k = 0; k < 2; k++) {
        const Steady *s = &kinds[k];
        char *whole = steady(s, "");
        if (k) assert_contains(output, "no better macro_f1 for 3 validations: stopped at epoch 3");
        for (int step = 3; step < 14; step += 5) { /* early: it must not end before the signal comes */
            char *run = scratch_directory(), *options = xformat("%s -o %s", s->options, run);
            assert_int_equal(psd_and_signal(run, run, step, options), 128 + SIGTERM);
            must("%s --resume auto", options);
            assert_same_run(s, run, whole);
            free(run);
            free(options);
        }
        char *capped = steady(s, "--max-steps 10"); /* the end of an epoch */
        must("%s -o %s --resume auto", s->options, capped);
        assert_same_run(s, capped, whole);
        must("%s -o %s --resume auto%s", s->options, capped, k ? " --pretrained /moved/away" : ""); /* nothing left */
        assert_same_run(s, capped, whole);
        free(capped);
        free(whole);
    }
}

/* While a checkpoint is written, the next step's forward is under way. */
static void checkpoints_are_of_one_step(void **state) {
    (void)state;
    char *run[2];
    for (int i = 0; i < 2; i++) {
        run[i] = scratch_directory();
        must("%s -o %s --encoder cnn -b 8 --max-steps 12 --save-interval 1 --keep-checkpoints 99",
             toy_options("finetune"), run[i]);
    }
    int status = run_command(output, sizeof output, "cd %s && for f in step_*/model.safetensors; do cmp $f %s/$f; done",
                             run[0], run[1]);
    if (status || output[0]) fail_msg("%s", output);
    for (int i = 0; i < 2; i++) free(run[i]);
}

static void workers_and_threads_change_no_bit(void **state) {
    (void)state;
    static const char *const ways[] = {"--num-workers 1", "--num-workers 3", "--threads 2", "--grad-checkpointing"};
    Steady kinds[] = {pretraining_run(), finetuning_run()};
    for (int k = 0; k < 2; k++) {
        char *first = steady(&kinds[k], "");
        for (int i = 0; i < 4; i++) {
            char *run = steady(&kinds[k], ways[i]);
            assert_same_run(&kinds[k], run, first);
            free(run);
        }
        free(first);
    }
}

/* ---- evaluation ---- */

static double read_number(const char *directory, const char *file, const char *section, const char *key) {
    char *path = path_join(directory, file);
    json_t *root = json_load_file(path, 0, NULL), *value = json_object_get(json_object_get(root, section), key);
    if (!json_is_number(value)) fail_msg("%s: no %s.%s", path, section, key);
    double number = json_number_value(value);
    json_decref(root);
    free(path);
    return number;
}

/* What the scores must be, from the rows. */
static void check_scores(const char *directory, const Said *said, int n) {
    double right = 0, nll = 0, brier = 0, f1 = 0, ece = 0, bins[15][3] = {{0}};
    int classes = 0;
    for (int i = 0; i < n; i++) {
        double top = 0;
        for (int c = 0; c < PSD_CLASSES; c++) {
            brier += pow(said[i].p[c] - (c == said[i].truth), 2) / n;
            top = said[i].p[c] > top ? said[i].p[c] : top;
        }
        assert_true(said[i].p[said[i].predicted] == top);
        bool hit = said[i].predicted == said[i].truth;
        right += hit;
        nll -= log(said[i].p[said[i].truth]) / n;
        int bin = (int)ceil(top * 15) - 1; /* (low, high] */
        bins[bin][0] += 1;
        bins[bin][1] += hit;
        bins[bin][2] += top;
    }
    for (int b = 0; b < 15; b++) ece += fabs(bins[b][1] - bins[b][2]) / n;
    for (int c = 0; c < PSD_CLASSES; c++) {
        double hits = 0, either = 0;
        for (int i = 0; i < n; i++) {
            hits += said[i].truth == c && said[i].predicted == c;
            either += (said[i].truth == c) + (said[i].predicted == c);
        }
        classes += either > 0;
        f1 += either > 0 ? 2 * hits / either : 0;
    }
    const struct {
        const char *key;
        double want;
    } scores[] = {{"accuracy", right / n},    {"nll", nll}, {"brier", brier},
                  {"macro_f1", f1 / classes}, {"ece", ece}, {"n", n}};
    for (int i = 0; i < 6; i++)
        assert_near(read_number(directory, "pooled_finetuned.json", "scores", scores[i].key), scores[i].want, 1e-9);
}

/* The model is the checkpoint's: no size is given. */
static void scores_are_those_of_the_predictions(void **state) {
    (void)state;
    char *run = scratch_directory(), *best = path_join(run, "best"), *to = path_join(run, "evaluation");
    char *on_validation = path_join(run, "validation"), *calibration = path_join(run, "calibration");
    Said said[64];
    must("%s -o %s --d-model 24 --n-layers 2 --n-heads 2 --ffn-dim 40 --hidden-dim 20 -b 30 --epochs 15 "
         "--learning-rate 5e-3",
         toy_options("finetune"), run);
    must("%s --checkpoint %s -o %s", toy_options("evaluate"), best, to);
    int n = read_predictions(to, said, 64);
    assert_int_equal(n, 54);
    for (int i = 0; i < n; i++)
        assert_true(said[i].id % ROWS >= 13 && said[i].truth == said[i].id / ROWS % PSD_CLASSES);
    check_scores(to, said, n);
    assert_true(read_number(to, "pooled_finetuned.json", "scores", "accuracy") > 0.5);
    double encoder[8], head[8]; /* from scratch both learn alike */
    int lines = logged(run, "train", "train/lr", encoder, 8);
    assert_true(lines > 0 && logged(run, "train", "train/lr_1", head, 8) == lines);
    for (int i = 0; i < lines; i++) assert_true(encoder[i] == head[i]);
    /* judged on what it was fitted to, a temperature can only help */
    must("%s --checkpoint %s -o %s --part val", toy_options("evaluate"), best, on_validation);
    must("%s --checkpoint %s -o %s --part val", toy_options("calibrate"), best, calibration);
    double before = read_number(calibration, "calibration.json", "temp_scaling", "nll_before");
    assert_near(before, read_number(on_validation, "pooled_finetuned.json", "scores", "nll"), 1e-12);
    assert_true(read_number(calibration, "calibration.json", "temp_scaling", "nll") < before);
    /* the best checkpoint is the one whose macro F1 was the highest */
    double f1[16], highest = 0;
    int epochs = logged(run, "val", "val/macro_f1", f1, 16);
    for (int i = 0; i < epochs; i++) highest = f1[i] > highest ? f1[i] : highest;
    assert_near(read_number(on_validation, "pooled_finetuned.json", "scores", "macro_f1"), highest, 1e-8);
    char *owned[] = {run, best, to, on_validation, calibration};
    for (int i = 0; i < 5; i++) free(owned[i]);
}

/* Of a module that was compiled, and whose hyper-parameters name a file that has moved away. */
static void a_lightning_checkpoint_is_evaluated(void **state) {
    (void)state;
    static const char *const ends[] = {"ckpt", "safetensors"};
    static const char *const shape = "--n-heads 2"; /* all else is told by the tensors */
    char *to[2], *run = scratch_directory();
    for (int i = 0; i < 2; i++) {
        to[i] = scratch_directory();
        assert_int_equal(psd("%s --checkpoint tests/reference/golden/torch_classifier.%s -o %s",
                             toy_options("evaluate"), ends[i], to[i]),
                         2);
        assert_contains(output, "how many heads its attention has cannot be told from the shapes of its tensors: give "
                                "--n-heads");
        assert_int_equal(psd("%s --checkpoint tests/reference/golden/torch_classifier.%s %s --ffn-dim 32 -o %s",
                             toy_options("evaluate"), ends[i], shape, to[i]),
                         2);
        assert_contains(output, "which has ffn-dim 24: leave it out");
        must("%s --checkpoint tests/reference/golden/torch_classifier.%s %s -o %s", toy_options("evaluate"), ends[i],
             shape, to[i]);
        assert_contains(output,
                        "[Model] as its tensors are: encoder \"transformer\", d-model 16, n-layers 1, ffn-dim 24");
        assert_contains(output, "25 tensors loaded");
    }
    assert_int_equal(run_command(output, sizeof output, "cmp %s/predictions_finetuned.csv %s/predictions_finetuned.csv",
                                 to[0], to[1]),
                     0);
    must("%s --pretrained tests/reference/golden/torch_classifier.ckpt %s --hidden-dim 8 -o %s/a -b 60 --max-steps 1",
         toy_options("finetune"), shape, run);
    assert_contains(output, "has a head: taken along");
    must("%s --pretrained tests/reference/golden/torch_classifier.ckpt %s --hidden-dim 9 -o %s/b -b 60 --max-steps 1",
         toy_options("finetune"), shape, run);
    assert_contains(output, "has a head: another one, left aside");
    free(to[0]);
    free(to[1]);
    free(run);
}

/* A checkpoint without some of its tensors, under another name. */
static char *without(const char *checkpoint, const char *part) {
    TensorFile file = open_in(checkpoint, "model.safetensors");
    TensorToWrite *kept = xcalloc((size_t)file.n_tensors, sizeof *kept);
    char *path = xformat("%s/without_%s.safetensors", checkpoint, part);
    int n = 0;
    Error error;
    for (int i = 0; i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        if (strstr(t->name, part)) continue;
        kept[n] = (TensorToWrite){.name = t->name, .dtype = "F32", .rank = t->rank, .data = t->data};
        memcpy(kept[n++].dims, t->dims, (size_t)t->rank * sizeof *t->dims);
    }
    if (!safetensors_write(path, kept, n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
    free(kept);
    return path;
}

/* Inference reads no class weights, and knows its table of positions; running statistics it cannot know. */
static void only_what_is_read_must_be_there(void **state) {
    (void)state;
    static const struct {
        const char *options, *part, *missing;
        int status;
    } all[] = {
        {"--size tiny", "class_weights", ", 1 missing: class_weights (a buffer)\n", 0},
        {"--size tiny", "pos_enc", ", 1 missing: patch_embed.pos_enc.pe (a buffer)\n", 0},
        {"--encoder cnn --d-model 16 --hidden-dim 8", "stem.1.running_mean",
         "1 tensor does not fit: encoder.stem.1.running_mean, F32 [64] in the model, is not there", 1},
    };
    for (int i = 0; i < 3; i++) {
        char *run = scratch_directory(), *last = path_join(run, "last"),
             *to[] = {path_join(run, "a"), path_join(run, "b")};
        must("%s -o %s %s -b 60 --max-steps 1", toy_options("finetune"), run, all[i].options);
        char *path = without(last, all[i].part);
        must("%s --checkpoint %s -o %s", toy_options("evaluate"), last, to[0]);
        assert_int_equal(psd("%s --checkpoint %s -o %s", toy_options("evaluate"), path, to[1]), all[i].status);
        assert_contains(output, all[i].missing);
        if (!all[i].status)
            assert_int_equal(run_command(output, sizeof output,
                                         "cmp %s/predictions_finetuned.csv %s/predictions_finetuned.csv", to[0], to[1]),
                             0);
        char *owned[] = {run, last, to[0], to[1], path};
        for (int k = 0; k < 5; k++) free(owned[k]);
    }
}

/* ---- run ---- */

/* Options of a run of about 200 steps; the size stands in a file, and nothing may win over it. */
static const char *run_options(void) {
    static char text[1024];
    char *pretrain = path_join(data, "pretrain.yaml"), *finetune = path_join(data, "finetune.yaml");
    write_text(pretrain, "size: tiny\nbatch_size: 60\nepochs: 10\nlearning_rate: 1e-3\n");
    write_text(finetune, "batch_size: 60\nepochs: 40\nlearning_rate: 3e-3\nearly_stopping_patience: 0\n");
    snprintf(text, sizeof text, "run -m %s/toy.safetensors --pretrain-config %s --finetune-config %s --threads 1", data,
             pretrain, finetune);
    free(pretrain);
    free(finetune);
    return text;
}

/* The files of two directories are there, and the same. */
static void assert_same_files(const char *a, const char *b, const char *names) {
    int status = run_command(output, sizeof output, "for f in %s; do cmp %s/$f %s/$f || exit 1; done", names, a, b);
    if (status) fail_msg("%s", output);
}

static const char *const pooled_files =
    "pooled_finetuned.csv pooled_finetuned.json pooled_finetuned.md confusion_matrix_pooled_finetuned.svg "
    "reliability_pooled_finetuned.svg per_class_finetuned.csv per_sensor_finetuned.csv per_snr_finetuned.csv "
    "predictions_finetuned.csv calibration/calibration.json calibration/temp_scaling_results.csv "
    "pretrain/best/model.safetensors pretrain/last/optimizer.safetensors finetune/best/model.safetensors "
    "finetune/last/optimizer.safetensors";

/* The last state of a training says from now on that another one of its checkpoints is the best, which is returned.
 * free(); takes the directory's name. */
static char *name_another_best(char *directory) {
    char *last = path_join(directory, "last"), *file = path_join(last, "state.json"), name[64] = "";
    TrainState s;
    Error error;
    int64_t step = 0;
    assert_int_equal(run_command(output, sizeof output, "cd %s && ls -d step_* | grep -v $(readlink best)", directory),
                     0);
    assert_int_equal(sscanf(output, "%63s", name), 1);
    assert_int_equal(sscanf(name, "step_%" SCNd64, &step), 1);
    assert_true(state_read(last, &s, &error));
    s.best_step = step;
    char *text = state_to_json(&s);
    assert_true(file_write_atomic(file, text, strlen(text), &error));
    char *owned[] = {text, s.options_json, last, file, directory};
    for (int i = 0; i < 5; i++) free(owned[i]);
    return xstrdup(name);
}

static void a_whole_run_is_stopped_goes_on_and_is_not_done_twice(void **state) {
    (void)state;
    char *whole = scratch_directory(), *stopped = scratch_directory();
    must("%s --split %s/pooled.json -o %s", run_options(), data, whole);
    assert_same_files(whole, whole, pooled_files);
    char *options = xformat("%s --split %s/pooled.json -o %s", run_options(), data, stopped);
    static const char *const stages[] = {"pretrain", "finetune"};
    for (int i = 0; i < 2; i++) {
        char *stage = path_join(stopped, stages[i]), *path = path_join(stopped, "output");
        assert_int_equal(psd_and_signal(stopped, stage, 6, options), 128 + SIGTERM);
        char *said = read_text(path);
        assert_contains(said, "[Run] stopped by signal 15; the same command goes on");
        assert_true(!strstr(said, "[Calibration]"));
        free(said);
        free(path);
        free(stage);
    }
    must("%s", options);
    assert_same_files(whole, stopped, pooled_files);
    must("%s", options);
    assert_true(!strstr(output, "[Train]") && !strstr(output, "[Val]"));
    assert_same_files(whole, stopped, pooled_files);
    /* A link that a kill has left behind is mended; nothing goes on with other weights. */
    char *best = path_join(stopped, "pretrain/best");
    assert_int_equal(unlink(best) | symlink("step_99999999", best), 0);
    must("%s", options);
    assert_contains(output, "the link best was step_99999999 and is now step_");
    assert_same_files(whole, stopped, pooled_files);
    /* The same weights under another name are the same weights. */
    char *moved = xformat("%s/moved", data);
    assert_int_equal(rename(stopped, moved), 0);
    must("%s --split %s/pooled.json -o %s/./moved", run_options(), data, data);
    assert_true(!strstr(output, "[Train]") && !strstr(output, "[Val]"));
    assert_int_equal(rename(moved, stopped), 0);
    free(moved);
    /* A better encoder would leave the classifier of the one before. */
    char *another = name_another_best(path_join(stopped, "pretrain"));
    assert_int_equal(run_command(output, sizeof output, "%s %s", program_at("train_psd"), options), 1);
    assert_contains(output, another);
    assert_contains(output, ": remove it to train the classifier anew");
    /* And without the best there is none. */
    assert_int_equal(run_command(output, sizeof output, "rm -r %s/pretrain/%s", stopped, another), 0);
    assert_int_equal(run_command(output, sizeof output, "%s %s", program_at("train_psd"), options), 1);
    assert_contains(output, "says that the best weights are of step ");
    assert_contains(output, "/pretrain to train it anew");
    free(another);
    free(best);
    free(options);
    free(whole);
    free(stopped);
}

/* The rows of each training are 156 of the other sensors', those that are judged the sensor's own 96. */
static void a_sensor_left_out_is_only_judged(void **state) {
    (void)state;
    char *run = scratch_directory();
    must("%s --split %s/loso.json -o %s --protocol loso --num-loso-sensors 2", run_options(), data, run);
    assert_contains(output, "156 to train on, 36 to validate on, 96 to test on");
    assert_same_files(run, run,
                      "loso_results.csv loso_results.json loso_results.md s00/s00_finetuned.json "
                      "s01/s01_finetuned.json s01/calibration/calibration.json s01/pretrain/last/model.safetensors");
    char *third = path_join(run, "s02");
    assert_int_equal(access(third, F_OK), -1);
    for (int s = 0; s < 2; s++) {
        char *directory = xformat("%s/s%02d", run, s);
        Said said[128];
        int n = read_predictions(directory, said, 128);
        assert_int_equal(n, ROWS * PSD_CLASSES);
        for (int i = 0; i < n; i++) assert_int_equal(said[i].id / ROWS / PSD_CLASSES, s);
        free(directory);
    }
    free(third);
    free(run);
}

/* What a split calls its sensors leads to no other folder, and is no option. */
static void names_of_sensors_are_names(void **state) {
    (void)state;
    char *run = scratch_directory(), *results = path_join(run, "results");
    if (run_command(output, sizeof output,
                    "sed 's/\"s00\"/\"..\\/..\\/evil\"/; s/\"s01\"/\"--help\"/' %s/loso.json >%s/odd.json", data, run))
        fail_msg("%s", output);
    must("%s --split %s/odd.json -o %s --protocol loso --num-loso-sensors 2 --pretrain-epochs 1 --finetune-epochs 1",
         run_options(), run, results);
    assert_same_files(results, results,
                      "loso_results.csv %2E.%2F..%2Fevil/%2E.%2F..%2Fevil_finetuned.json "
                      "%2D-help/%2D-help_finetuned.json %2D-help/finetune/last/model.safetensors");
    assert_int_equal(run_command(output, sizeof output, "ls %s", run), 0);
    assert_string_equal(output, "odd.json\nresults\n");
    free(results);
    free(run);
}

/* A batch that is the whole epoch: the samples, and in pretraining their partners behind them. */
static void no_batch_has_the_sensor_left_out(void **state) {
    (void)state;
    static const char *const commands[] = {"pretrain", "finetune"};
    for (int k = 0; k < 2; k++) {
        char *run = scratch_directory();
        must("%s -m %s/toy.safetensors --split %s/loso.json --sensor s01 -o %s/run --size tiny -b 156 --max-steps 1 "
             "--threads 1 --debug-dump %s/dump",
             commands[k], data, data, run, run);
        TensorFile dump = open_in(run, "dump");
        const StoredTensor *spectra = find(&dump, "", "micro0.batch.spectra");
        assert_int_equal(spectra->count, k ? 156 : 312);
        int crossed = 0;
        for (int64_t i = 0; i < spectra->count; i++) {
            const int32_t *of = spectra->data;
            int sensor = of[i] / ROWS / PSD_CLASSES;
            assert_true(sensor == 0 || sensor == 2);
            assert_true(of[i] % ROWS < 13);
            if (i < 156) continue; /* a partner has the same class, and another sensor */
            assert_int_equal(of[i] / ROWS % PSD_CLASSES, of[i - 156] / ROWS % PSD_CLASSES);
            crossed += of[i - 156] / ROWS / PSD_CLASSES != sensor;
        }
        assert_int_equal(crossed, k ? 0 : 156);
        tensor_file_close(&dump);
        free(run);
    }
}

static void few_shots_tune_what_was_trained_on_the_others(void **state) {
    (void)state;
    char *run = scratch_directory();
    must("%s --split %s/few.json --loso-split %s/loso.json -o %s --protocol fewshot_loso --num-loso-sensors 1 "
         "--fewshot-seeds 2",
         run_options(), data, data, run);
    assert_contains(output, "50 rows a class leave none to test on: left out");
    assert_contains(output, "has a head: taken along");
    assert_same_files(run, run,
                      "fewshot_loso_results.csv fewshot_loso_results.json fewshot_loso_results.md "
                      "s00/s00_finetuned.json s00/shots_5_seed_42/last/model.safetensors "
                      "s00/shots_5_seed_43/s00_finetuned.json s00/shots_10_seed_43/predictions_finetuned.csv");
    static const int shots[] = {5, 10};
    for (int k = 0; k < 2; k++) {
        char *directory = xformat("%s/s00/shots_%d_seed_42", run, shots[k]);
        Said said[96];
        int n = read_predictions(directory, said, 96);
        assert_int_equal(n, (ROWS - shots[k]) * PSD_CLASSES);
        for (int i = 0; i < n; i++)
            assert_true(said[i].id < ROWS * PSD_CLASSES && said[i].id % ROWS >= shots[k]); /* of s00, not trained on */
        free(directory);
    }
    /* The second seed has other rows, drawn into a split of its own: more than none of them is among the file's. */
    char *path = xformat("%s/splits/fewshot_loso_seed43.json", run);
    PsdSplit drawn;
    Error error;
    int others = 0;
    if (!psd_split_read(path, "s00", 10, TOY, &drawn, &error)) fail_msg("%s", error.text);
    assert_int_equal(drawn.parts[PSD_TRAIN].n, 10 * PSD_CLASSES);
    for (int i = 0; i < 10 * PSD_CLASSES; i++) {
        assert_true(drawn.parts[PSD_TRAIN].at[i] < ROWS * PSD_CLASSES);
        others += drawn.parts[PSD_TRAIN].at[i] % ROWS >= 10;
    }
    assert_true(others > 0);
    psd_split_free(&drawn);
    /* What was tuned from one classifier is not taken for another's. */
    free(name_another_best(xformat("%s/s00/finetune", run)));
    assert_int_equal(psd("%s --split %s/few.json --loso-split %s/loso.json -o %s --protocol fewshot_loso "
                         "--num-loso-sensors 1 --fewshot-seeds 2",
                         run_options(), data, data, run),
                     1);
    assert_contains(output, "s00/shots_5_seed_42 did not begin from ");
    free(path);
    free(run);
}

/* ---- how the data were made ---- */

enum { SWEEPS = 48, SWEEP_BINS = 410 };

/* Row `other` is of another noise; -1: none. */
static void write_sweeps(const char *directory, int other) {
    static double sweeps[SWEEPS * SWEEP_BINS];
    for (int i = 0; i < SWEEPS * SWEEP_BINS; i++)
        sweeps[i] = (double)philox_normal(i / SWEEP_BINS == other ? 2 : 1, PURPOSE_TEST, 0, (uint64_t)i);
    write_npy(directory, "r.npy", "<f8", sweeps, 2, SWEEPS, SWEEP_BINS);
}

/* Recordings of two sensors, a manifest, a split that an index names; the samples as prepare_psd --compat makes them.
 */
static char *make_recordings(void) {
    char *directory = scratch_directory(), *manifest = path_join(directory, "m.csv");
    char *split = path_join(directory, "split.json"), rows[4096] = "npy_path,row_index,sensor_id,num_bins,label\n";
    for (int i = 0; i < SWEEPS; i++)
        sprintf(rows + strlen(rows), "r.npy,%d,%s,%d,%s\n", i, i % 2 ? "A" : "B", SWEEP_BINS, i % 4 / 2 ? "fm" : "dab");
    sprintf(rows + strlen(rows), "zero.npy,0,A,0,fm\n"); /* row SWEEPS, without a sample */
    write_sweeps(directory, -1);
    write_npy(directory, "zero.npy", "<f8", "", 2, 1, 0);
    write_text(manifest, "%s", rows);
    write_text(split, "{\"train\": [0, 1, 2, 3, 4, 5, 6, 7], \"val\": [8, 9, 10, 11], \"test\": [12, 13, 14, 15]}");
    PsdStore store;
    Error error;
    if (!psd_store_open(&store, manifest, &(bool){false}, &(double){0}, 1, &error)) fail_msg("%s", error.text);
    assert_true(psd_split_index_set(split, store.manifest_hash, &error));
    psd_store_close(&store);
    free(manifest);
    free(split);
    return directory;
}

/* As the last checkpoint records it. */
static void expect_recorded(const char *directory, const char *run, bool hop, double limit) {
    char *path = xformat("%s/%s/last/state.json", directory, run), *text = read_text(path);
    json_t *state = json_loads(text, 0, NULL), *options = json_object_get(state, "options");
    assert_true(json_is_true(json_object_get(options, "hop")) == hop);
    assert_true(json_number_value(json_object_get(options, "limit")) == limit);
    json_decref(state);
    free(text);
    free(path);
}

static void samples_are_what_the_checkpoint_records(void **state) {
    (void)state;
    char *to = make_recordings(), *options = xformat("--split %s/split.json --threads 1", to);
    char *train = xformat("%s --size tiny -b 4 --epochs 1 -o %s", options, to);
    must("pretrain -m %s/m.csv %s/1", to, train);
    assert_contains(output, "samples, from before, without --hop, with --limit 0");
    assert_null(strstr(output, "[Split]"));
    expect_recorded(to, "1", false, 0);
    must("pretrain -m %s/m.csv %s/2 --limit 5", to, train); /* asked for */
    assert_contains(output,
                    "m.psd.safetensors was made with other options; it is made anew, without --hop, with --limit 5");
    expect_recorded(to, "2", false, 5);
    must("pretrain -m %s/m.csv %s/3 --hop", to, train);
    assert_contains(output,
                    "m.psd.safetensors was made with other options; it is made anew, with --hop, with --limit 5");
    expect_recorded(to, "3", true, 5);
    must("finetune -m %s/m.psd.safetensors %s/4", to, train); /* the store itself, with nothing asked for */
    expect_recorded(to, "4", true, 5);
    assert_int_equal(psd("pretrain -m %s/m.psd.safetensors %s/5 --limit 20", to, train), 1);
    assert_contains(output,
                    "was made with --hop, with --limit 5, not with --hop, with --limit 20; leave these options");
    /* What a checkpoint was trained on is asked for as well. */
    must("pretrain -m %s/m.csv %s/6 --hop=false --limit 3", to, train);
    assert_int_equal(psd("evaluate -m %s/m.psd.safetensors %s --checkpoint %s/4/last -o %s/e", to, options, to, to), 1);
    assert_contains(output, "was made without --hop, with --limit 3, not with --hop, with --limit 5");
    must("evaluate -m %s/m.csv %s --checkpoint %s/4/last -o %s/e", to, options, to, to);
    assert_contains(output, "is made anew, with --hop, with --limit 5");
    assert_int_equal(psd("run -m %s/m.csv %s --size tiny --scratch --hop=false -o %s/r", to, options, to), 1);
    assert_contains(output, "is made anew, without --hop, with --limit 5"); /* its stages are told */
    assert_contains(output, "8 samples to train on are fewer than one batch of 512");
    free(train);
    free(options);
    free(to);
}

static void rows_of_another_manifest_are_refused(void **state) {
    (void)state;
    char *to = make_recordings(), *split = path_join(to, "split.json"), *index = path_join(to, "index.json");
    char *run = xformat("pretrain -m %s/m.csv --split %s --threads 1 --size tiny -b 4 --epochs 1 -o %s", to, split, to);
    Error error;
    assert_true(psd_split_index_set(split, 1, &error));
    assert_int_equal(psd("%s/1", run), 1);
    assert_contains(output, "split.json: was made of another manifest (0000000000000001, not ");
    assert_true(psd_split_index_set(split, 0, &error));
    must("%s/1", run);
    assert_contains(output, "[Split] ");
    assert_contains(output, "split.json: nothing says which manifest its rows are of");
    assert_int_equal(remove(index), 0);
    assert_true(psd_split_index_set(split, 0, &error) && access(index, F_OK)); /* nothing to say: none is made */
    must("%s/2", run);
    assert_contains(output, "split.json: nothing says which manifest its rows are of");
    free(to);
    free(split);
    free(index);
    free(run);
}

/* Rows 0 to 7 are trained on, 12 to 15 tested on. A store that is made anew of the same recordings is the same. */
static void replaced_recordings_are_not_taken_for_the_old_ones(void **state) {
    (void)state;
    char *to = make_recordings(), *stage = path_join(to, "stage.yaml"), *run;
    write_text(stage, "size: tiny\nbatch_size: 4\nepochs: 1\n");
    char *data_options = xformat("-m %s/m.csv --split %s/split.json --threads 1", to, to);
    run = xformat("run %s --pretrain-config %s --finetune-config %s -o %s/run", data_options, stage, stage, to);
    must("%s", run);
    assert_int_equal(run_command(output, sizeof output, "touch %s/r.npy && rm %s/m.psd.safetensors", to, to), 0);
    must("%s --hop=false --limit 0", run);
    assert_null(strstr(output, "[Train]"));
    assert_null(strstr(output, "other contents"));
    write_sweeps(to, 12); /* a classifier is judged on any data */
    must("%s", run);
    assert_contains(output, "it is made anew");
    assert_null(strstr(output, "[Train]"));
    write_sweeps(to, 8);
    must("%s", run);
    assert_contains(output, "/run/finetune/step_00000002: the data to validate on have other contents than before");
    write_sweeps(to, 0);
    assert_int_equal(psd("%s", run), 1);
    assert_contains(output, "/run/pretrain/step_00000002: the training data has the same samples and lengths as "
                            "before, but other contents");
    assert_contains(output, "start a new run in another --output-dir");
    assert_int_equal(psd("finetune %s --config %s --pretrained %s/run/pretrain/last -o %s/run/finetune --resume auto",
                         data_options, stage, to, to),
                     1);
    assert_contains(output, "/run/finetune/step_00000002: the training data has the same samples");
    assert_contains(output, "from the weights with --pretrained ");
    must("evaluate %s --checkpoint %s/run/finetune/last -o %s/e", data_options, to, to);
    must("finetune %s --config %s --pretrained %s/run/pretrain/last -o %s/other", data_options, stage, to, to);
    char *owned[] = {to, stage, data_options, run};
    for (int i = 0; i < 4; i++) free(owned[i]);
}

static void rows_without_samples_are_left_out(void **state) {
    (void)state;
    char *to = make_recordings(), *split = path_join(to, "zero.json");
    char *run = xformat("finetune -m %s/m.csv --split %s --threads 1 --size tiny -b 4 --epochs 1 -o %s", to, split, to);
    write_text(split, "{\"train\": [0, %d, 1, 2, 3], \"val\": [4], \"test\": []}", SWEEPS);
    must("%s/2", run);
    assert_contains(output, "1 rows of the split have no sample in the prepared data");
    assert_contains(output, "; 4 to train on, 1 to validate on");
    write_text(split, "{\"train\": [%d], \"val\": [4], \"test\": []}", SWEEPS);
    assert_int_equal(psd("%s/3", run), 1);
    assert_contains(output, "zero.json: no rows to train on");
    free(to);
    free(split);
    free(run);
}

/* ---- refusals ---- */

/* What a sample is, or a batch, may not change in a run that goes on. */
static void what_may_not_change_is_named(void **state) {
    (void)state;
    char *other = path_join(data, "other.json"), *pooled = path_join(data, "pooled.json");
    assert_int_equal(run_command(output, sizeof output, "cp %s %s", pooled, other), 0);
    const struct {
        const char *command, *split, *before, *after, *message;
    } all[] = {
        {"pretrain", "pooled", "", "--mask-ratio 0.5", "--mask-ratio was 0.6 and is now 0.5"},
        {"pretrain", "pooled", "", "--limit 10", "--limit was 20.0 and is now 10.0"},
        {"pretrain", "pooled", "", "--hop", "--hop was false and is now true"},
        {"pretrain", "pooled", "", "--encoder cnn", "--encoder was \"transformer\" and is now \"cnn\""},
        {"pretrain", "pooled", "", "--seed 7", "--seed was 42 and is now 7"},
        {"finetune", "pooled", "", "--class-weights none", "--class-weights was \"auto\" and is now \"none\""},
        {"finetune", "pooled", "", "--split other.json", "--split was \"pooled.json\" and is now \"other.json\""},
        {"finetune", "loso", "--sensor s00", "--sensor s01", "--sensor was \"s00\" and is now \"s01\""},
        {"finetune", "few", "--sensor s00 --shots 5", "--sensor s00 --shots 10", "--shots was 5 and is now 10"},
    };
    char *here = getcwd(NULL, 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *run = scratch_directory();
        for (int again = 0; again < 2; again++) {
            int status = run_command(output, sizeof output,
                                     "cd %s && %s/%s %s -m toy.safetensors --split %s.json -o %s --size tiny -b 30 "
                                     "--max-steps 1 --threads 1 --resume auto %s",
                                     data, here, program_at("train_psd"), all[i].command, all[i].split, run,
                                     again ? all[i].after : all[i].before);
            if (status != again) fail_msg("%s: exit status %d:\n%s", all[i].after, status, output);
        }
        assert_contains(output, "--resume: ");
        assert_contains(output, all[i].message);
        free(run);
    }
    char *owned[] = {other, pooled, here};
    for (int i = 0; i < 3; i++) free(owned[i]);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    char *yaml = path_join(data, "bad.yaml"), *far = path_join(data, "far.json"), *tiny = path_join(data, "tiny"),
         *refused = path_join(data, "refused"), *here = getcwd(NULL, 0);
    write_text(yaml, "epochs: 3\nwarmup_epoch: 5\n");
    char *batch = path_join(data, "batch.yaml");
    write_text(batch, "batch_size: 60\n");
    free(batch);
    write_text(far, "{\"train\": [0, %d], \"val\": [], \"test\": []}", TOY);
    must("%s -o %s --size tiny -b 64 --epochs 1", toy_options("pretrain"), tiny);
    if (run_command(output, sizeof output,
                    "cp -rL %s/last %s/huge && sed -i 's/\"size\": \"tiny\"/\"size\": \"huge\"/' %s/huge/state.json",
                    tiny, data, data))
        fail_msg("%s", output);
    const struct {
        int status;
        const char *command, *options, *message;
    } all[] = {
        {2, "pretrain", "--config bad.yaml", "bad.yaml:2: unknown key 'warmup_epoch'; did you mean 'warmup-epochs'?"},
        {2, "pretrain", "--precision bf16-mixed", "unknown option --precision"},
        {2, "pretrain", "--gradient-clip-val 1", "unknown option --gradient-clip-val"},
        {1, "pretrain", "-b 181", "180 samples to train on are fewer than one batch of 181; give -b 180 or less"},
        {1, "finetune", "-b 181", "180 samples to train on are fewer than one batch of 181; give -b 180 or less"},
        {2, "pretrain", "--mask-ratio 1", "--mask-ratio: expected 0.01 to 0.99, found 1"},
        {2, "pretrain", "--mask-ratio 0.05", "--mask-ratio 0.05 masks 0 of 12 patches"},
        {2, "pretrain", "--warmup-epochs 5 --epochs 5", "--warmup-epochs 5 are all of the 5 epochs"},
        {2, "finetune", "--warmup-epochs 50", "--warmup-epochs 50 are all of the 50 epochs"},
        {2, "pretrain", "--devices 2", "--devices: expected 1 to 1, found 2"},
        {1, "pretrain", "!-m toy.safetensors --split loso.json",
         "holds a split for each sensor, not one for all; choose a sensor (s00, s01, s02)"},
        {1, "pretrain", "!-m toy.safetensors --split loso.json --sensor s9",
         "has no split for the sensor s9; there are s00, s01, s02"},
        {1, "pretrain", "--sensor s00", "there is none of s00 alone"},
        {1, "finetune", "!-m toy.safetensors --split few.json --sensor s00", "choose how many"},
        {1, "finetune", "!-m toy.safetensors --split few.json --sensor s00 --shots 7",
         "there is no split of 7 shots, but of 5, 10, 50, 100"},
        {1, "pretrain", "!-m toy.safetensors --split far.json", "row 288 of part 'train' is none of the 288 there are"},
        {1, "pretrain", "!-m toy.safetensors --split none.json", "none.json: cannot open: No such file"},
        {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --d-model 128 --pretrained tiny/last",
         "--d-model 128 contradicts tiny/last, which has d-model 32: leave it out"},
        {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --n-heads 4 --pretrained tiny/last",
         "--n-heads 4 contradicts tiny/last, which has n-heads 2: leave it out"},
        {2, "evaluate", "!-m toy.safetensors --split pooled.json --n-heads 4 --checkpoint tiny/last",
         "--n-heads 4 contradicts tiny/last, which has n-heads 2: leave it out"},
        {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --encoder cnn --pretrained tiny/last",
         "--encoder \"cnn\" contradicts tiny/last, which has encoder \"transformer\": leave it out"},
        {1, "evaluate", "!-m toy.safetensors --split pooled.json --checkpoint huge",
         "what the state.json of huge says of its options: size: expected tiny|small|l4|medium|large, found 'huge'"},
        {2, "pretrain", "-o ''", "--output-dir: expected a name, found none"},
        {1, "finetune", "--pretrained /nowhere", "--pretrained /nowhere: cannot open"},
        {1, "finetune", "--pretrained tiny",
         "--pretrained tiny: it is the directory of a run, not of a checkpoint; did you mean tiny/best?"},
        {1, "pretrain", "--base-checkpoint tiny", "not of a checkpoint; did you mean tiny/best?"},
        {1, "evaluate", "--checkpoint tiny", "not of a checkpoint; did you mean tiny/best?"},
        {2, "pretrain", "-g 0", "--grad-accumulation: expected 1 to 65536, found 0"},
        {2, "evaluate", "-b 0", "--batch-size: expected 1 to 65536, found 0"},
        {1, "evaluate", "--checkpoint tiny/last",
         "--checkpoint tiny/last: its tensors: 4 tensors do not fit: "
         "classifier.head.0.weight, F32 [32, 32] in the model, is not there"},
        {2, "finetune", "--encoder cnn --freeze-encoder", "--freeze-encoder is for the transformer"},
        {2, "finetune", "--class-weights 1,2,3",
         "--class-weights: expected auto, none or 6 numbers above 0, found 1,2,3"},
        {2, "finetune", "--class-weights 1,2,3,4,5,0", "--class-weights: expected"},
        {2, "finetune", "!-m toy.safetensors", "which rows? give --split"},
        {2, "pretrain", "!--split pooled.json --dry-run", "no data: give the manifest with -m"},
        {2, "evaluate", "", "which model? give --checkpoint"},
        {2, "calibrate", "", "which model? give --checkpoint"},
        {1, "finetune", "!-m unknown.safetensors --split pooled.json",
         "manifest row 0 is of unknown class: it can be used in pretraining, not to classify"},
        {1, "run", "!-m toy.safetensors --split pooled.json -o refused --protocol loso",
         "holds one split for all sensors, none for each"},
        {2, "run", "!-m toy.safetensors --split pooled.json --protocol fewshot_loso",
         "--protocol fewshot_loso also needs --loso-split"},
        /* What is wrong with a later stage is said before the first begins. */
        {2, "run",
         "!-m toy.safetensors --split pooled.json -o refused --pretrain-config batch.yaml --finetune-config bad.yaml",
         "bad.yaml:2: unknown key 'warmup_epoch'"},
        {1, "run", "!-m toy.safetensors --split pooled.json -o refused --pretrain-config batch.yaml",
         "180 samples to train on are fewer than one batch of 512"},
        {1, "run",
         "!-m toy.safetensors --split loso.json --loso-split loso.json --protocol fewshot_loso -o refused "
         "--pretrain-config batch.yaml --finetune-config batch.yaml",
         "loso.json"},
        {2, "pretrain", "--encoder cnn --grad-checkpointing", "--grad-checkpointing is for the transformer"},
        {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --size small --pretrained tiny/last",
         "--size small (d-model 128) contradicts tiny/last, which has d-model 32: leave it out"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool own = all[i].options[0] == '!'; /* has all that it gets */
        int status = run_command(output, sizeof output, "cd %s && timeout 20 %s/%s %s %s %s", data, here,
                                 program_at("train_psd"), all[i].command,
                                 own ? "" : "-m toy.safetensors --split pooled.json -o refused --size tiny -b 60",
                                 all[i].options + own);
        if (status != all[i].status)
            fail_msg("%s %s: exit status %d:\n%s", all[i].command, all[i].options, status, output);
        assert_contains(output, all[i].message);
    }
    assert_int_equal(access(refused, F_OK), -1); /* nothing is left behind */
    char *owned[] = {yaml, far, tiny, refused, here};
    for (int i = 0; i < 5; i++) free(owned[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_steps_are_the_golden_ones),
        cmocka_unit_test(rates_follow_the_epochs),
        cmocka_unit_test(the_contrast_starts_at_chance),
        cmocka_unit_test(the_masked_loss_falls),
        cmocka_unit_test(validation_measures_the_same_every_time),
        cmocka_unit_test(a_step_that_is_skipped_changes_nothing),
        cmocka_unit_test(a_frozen_encoder_stays),
        cmocka_unit_test(rare_classes_weigh_more),
        cmocka_unit_test(a_stopped_run_goes_on_as_if_never_stopped),
        cmocka_unit_test(checkpoints_are_of_one_step),
        cmocka_unit_test(workers_and_threads_change_no_bit),
        cmocka_unit_test(scores_are_those_of_the_predictions),
        cmocka_unit_test(a_lightning_checkpoint_is_evaluated),
        cmocka_unit_test(only_what_is_read_must_be_there),
        cmocka_unit_test(a_whole_run_is_stopped_goes_on_and_is_not_done_twice),
        cmocka_unit_test(a_sensor_left_out_is_only_judged),
        cmocka_unit_test(names_of_sensors_are_names),
        cmocka_unit_test(no_batch_has_the_sensor_left_out),
        cmocka_unit_test(few_shots_tune_what_was_trained_on_the_others),
        cmocka_unit_test(samples_are_what_the_checkpoint_records),
        cmocka_unit_test(rows_without_samples_are_left_out),
        cmocka_unit_test(rows_of_another_manifest_are_refused),
        cmocka_unit_test(replaced_recordings_are_not_taken_for_the_old_ones),
        cmocka_unit_test(what_may_not_change_is_named),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, make_toy, NULL);
}
