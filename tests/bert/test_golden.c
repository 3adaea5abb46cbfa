/* The encoder with both heads against transformers' RoBERTa in float64 (tests/reference/make_golden_bert.py), which is
 * given the texts padded: logits, losses, every gradient, and five steps of AdamW. */
#include <math.h>

#include "kernels/device_open.h"
#include "tests/bert/rig.h"
#include "tests/golden.h"
#include "tests/norm.h"

enum { STEPS = 5, CLASSES = 3 };

typedef struct {
    const char *name;
    int classes;
} Task;

static const Task tasks[] = {{"classes", CLASSES}, {"masked", 0}};
enum { TASKS = sizeof tasks / sizeof *tasks };

static TensorFile golden;

static const int32_t *ints(const char *name) { return find(&golden, "", name)->data; }

/* The texts of the golden file, or the same with <pad> written out in them. */
static const int32_t *ids_of(const TensorFile *file, const Task *task) {
    return find(file, "", task->classes ? "ids" : "masked.ids")->data;
}

static Batch read_batch(const TensorFile *texts, const Task *task) {
    const int32_t *offsets = ints("offsets");
    int n = (int)find(&golden, "", "offsets")->count - 1;
    if (!task->classes)
        return bert_batch_of_masks(ids_of(texts, task), offsets, n, ints("masked.rows"), ints("masked.labels"),
                                   (int)find(&golden, "", "masked.rows")->count);
    float *weights = floats(&golden, "", "class_weights"), *smoothing = floats(&golden, "", "smoothing");
    Batch batch = bert_batch_of_classes(ids_of(texts, task), offsets, n, ints("labels"),
                                        &(BertLoss){CLASSES, weights, .smoothing = *smoothing});
    free(weights);
    free(smoothing);
    return batch;
}

static ModelRig open_rig(const Task *task, bool padding) {
    BertConfig config = bert_config_small(task->classes, 0);
    config.padding = padding;
    ModelRig rig = model_rig_open(bert_open(&config), cpu_device_open(0), 16 << 20);
    read_parameters(&golden, "weights.", &rig.model->params, rig.model->weights.data);
    return rig;
}

/* Numbers of a task to compare with. */
typedef struct {
    const Task *task;
    const TensorFile *file;
} Wanted;

static float *values_of(const Wanted *wanted, const char *what) {
    float *values = floats(wanted->file, kept_format("%s.", wanted->task->name), what);
    return values;
}

static void check_logits(void *context, const char *name, Tensor t) {
    if (strcmp(name, "logits") != 0) return;
    float *want = values_of(context, "logits");
    assert_close("logits", t.data, want, tensor_numel(t), 1e-5);
    free(want);
}

/* The bias of the keys adds the same number to all scores of a row, so its gradient is zero but for rounding. */
static bool is_key_bias(const Param *param) { return strstr(param->name, "self.key.bias") != NULL; }

static void check_key_gradients(const ModelRig *rig) {
    const float *gradients = rig->model->gradients.data;
    for (int i = 0; i < rig->model->params.count; i++) {
        const Param *param = &rig->model->params.items[i];
        for (int64_t e = 0; is_key_bias(param) && e < param->count; e++)
            assert_near(gradients[param->offset + e], 0, 1e-5);
    }
}

/* Runs a pass and compares the logits, the means and the gradients that the file has. Returns how many tensors were
 * compared. */
static int compare_pass(ModelRig *rig, const Batch *batch, const Wanted *wanted) {
    Pass pass = model_rig_pass(rig, batch->counts, 1);
    pass.dump = check_logits;
    pass.dump_context = (void *)(uintptr_t)wanted;
    model_rig_run(rig, batch, &pass);
    float *want = values_of(wanted, "means");
    for (int i = 0; i < BERT_METRICS; i++) {
        float mean = (float)((double)((float *)rig->sums.data)[i] / batch->counts[rig->model->metrics[i].count]);
        assert_close(rig->model->metrics[i].name, &mean, &want[i], 1, 1e-5);
    }
    char *prefix = kept_format("%s.grad.", wanted->task->name);
    int n = compare_parameters(prefix, wanted->file, prefix, &rig->model->params, rig->model->gradients.data, NULL);
    free(want);
    return n;
}

TEST(logits_losses_and_gradients_match) {
    for (int t = 0; t < TASKS; t++) {
        ModelRig rig = open_rig(&tasks[t], false);
        Batch batch = read_batch(&golden, &tasks[t]);
        int layers = 2;
        assert_int_equal(compare_pass(&rig, &batch, &(Wanted){&tasks[t], &golden}), rig.model->params.count - layers);
        check_key_gradients(&rig);
        batch_close(&batch);
        model_rig_close(&rig);
    }
}

/* ---- <pad> written out in a text ---- */

/* Gives the tokens of a batch the positions of a dataset of such texts. */
static void take_positions(const Batch *batch, bool padding) {
    const Tensor *fields = batch->fields;
    int n = batch->n_sequences;
    const int32_t *offsets = fields[BERT_OFFSETS].data;
    TokenizedTexts texts = {.padding = padding, .n = n, .first = xmalloc((size_t)(n + 1) * sizeof *texts.first)};
    int32_t *samples = xmalloc((size_t)n * sizeof *samples);
    for (int s = 0; s <= n; s++) texts.first[s] = offsets[s];
    for (int s = 0; s < n; s++) samples[s] = s;
    texts.ids = fields[BERT_IDS].data;
    Dataset *dataset = bert_labelled_open(&texts, NULL, &(BertLoss){.classes = 2});
    Batch other = batch_open(dataset->batch_bytes(dataset, samples, n), n);
    Error error;
    assert_true(dataset->fill(dataset, &other, samples, n, &error));
    memcpy(fields[BERT_POSITIONS].data, other.fields[BERT_POSITIONS].data, tensor_bytes(fields[BERT_POSITIONS]));
    batch_close(&other);
    dataset->close(dataset);
    free(texts.first);
    free(samples);
}

TEST(a_written_pad_has_no_place_and_no_gradient) {
    TensorFile file = open_golden("bert_pad");
    enum { EMBEDDINGS = 5 };
    for (int t = 0; t < TASKS; t++) {
        ModelRig rig = open_rig(&tasks[t], true);
        Batch batch = read_batch(&file, &tasks[t]);
        const ParamTable *params = &rig.model->params;
        const Param *places = &params->items[params_find(params, "roberta.embeddings.position_embeddings.weight")];
        const float *of_pad = (float *)rig.model->gradients.data + places->offset + BERT_PAD * places->dims[1];
        take_positions(&batch, true);
        assert_int_equal(compare_pass(&rig, &batch, &(Wanted){&tasks[t], &file}), EMBEDDINGS);
        for (int64_t c = 0; c < places->dims[1]; c++) assert_true(of_pad[c] == 0);
        batch_close(&batch);
        model_rig_close(&rig);
    }
    tensor_file_close(&file);
}

/* Compares how far the parameters have moved from `start`. Adam moves the bias of the keys by noise, by less than 1.02
 * rates (check_key_bias says why). */
static void check_moves(const char *prefix, const ModelRig *rig, const float *start, double rates, double tolerance) {
    const float *weights = rig->model->weights.data;
    double worst = 0;
    for (int i = 0; i < rig->model->params.count; i++) {
        const Param *param = &rig->model->params.items[i];
        const float *from = start + param->offset;
        float *got = xmalloc((size_t)param->count * sizeof *got), *want = NULL;
        for (int64_t e = 0; e < param->count; e++) got[e] = weights[param->offset + e] - from[e];
        if (is_key_bias(param)) {
            for (int64_t e = 0; e < param->count; e++) assert_near(got[e], 0, 1.02 * rates);
        } else {
            want = floats(&golden, prefix, param->name);
            for (int64_t e = 0; e < param->count; e++) want[e] -= from[e];
            double error = relative_error(got, want, param->count);
            if (!(error <= tolerance)) fail_msg("%s%s moved otherwise, by %.3g", prefix, param->name, error);
            worst = error > worst ? error : worst;
        }
        free(got);
        free(want);
    }
    print_message("%s: largest relative error of a move %.2g\n", prefix, worst);
}

/* The buffers that the steps of one rate need. */
typedef struct {
    Tensor m, v, norm;
    float *rates, *losses, *norms;
    Segment *segments;
    int n_segments;
} Steps;

static void take_step(ModelRig *rig, const Batch *batch, const Steps *s, int k) {
    Model *model = rig->model;
    Pass pass = model_rig_pass(rig, batch->counts, 1);
    model_rig_clear_gradients(rig);
    model_rig_run(rig, batch, &pass);
    float loss = (float)((double)*(float *)rig->sums.data / batch->counts[BERT_COUNT_WEIGHTS]);
    assert_close("loss", &loss, &s->losses[k], 1, golden_tolerance);
    global_norm(rig->device, s->norm, model->gradients, tensor_none(), s->segments, s->n_segments);
    assert_close("gradient norm", s->norm.data, &s->norms[k], 1, golden_tolerance);
    for (int i = 0; i < s->n_segments; i++) s->segments[i].learning_rate = s->rates[k];
    adamw_update(rig->device, (AdamWBuffers){.params = model->weights, .m = s->m, .v = s->v, .grads = model->gradients},
                 s->norm, tensor_none(), s->segments, s->n_segments,
                 (AdamW){.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .clip = 1, .step = k + 1});
}

static void take_five_steps(const Task *task, const char *size, double tolerance) {
    ModelRig rig = open_rig(task, false);
    Batch batch = read_batch(&golden, task);
    char *prefix = kept_format("%s.%s.", task->name, size), *after = kept_format("%safter.", prefix);
    Steps s = {.m = model_rig_flat(&rig),
               .v = model_rig_flat(&rig),
               .norm = tensor_1d(rig.device->allocate(rig.device, 64), DTYPE_F32, 1),
               .rates = floats(&golden, prefix, "rates"),
               .losses = floats(&golden, prefix, "losses"),
               .norms = floats(&golden, prefix, "norms")};
    s.n_segments = params_segments(&rig.model->params, 0.01f, &s.segments);
    float *start = copy_floats(rig.model->weights);
    double rates = 0;
    for (int k = 0; k < STEPS; k++) {
        take_step(&rig, &batch, &s, k);
        rates += (double)s.rates[k];
    }
    check_moves(after, &rig, start, rates, tolerance);
    model_rig_release_moments(&rig, s.m, s.v, s.norm);
    void *owned[] = {start, s.rates, s.losses, s.norms, s.segments};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    batch_close(&batch);
    model_rig_close(&rig);
}

/* A gain of 1 is stored to 6e-8, and moves by 9e-5 in five steps of up to 2e-5: each rounds off up to 3e-8 of it. */
TEST(five_steps_of_adamw_match) {
    for (int t = 0; t < TASKS; t++) {
        take_five_steps(&tasks[t], "small", 2e-3);
        take_five_steps(&tasks[t], "large", 2e-4);
    }
}

/* Three texts, two classes with balanced weights: the weighted mean is over the weights. */
TEST(the_loss_is_divided_by_the_weights) {
    static const float class_weights[] = {0.6046464850f, 2.8889956752f};
    static const int32_t ids[] = {0, 0, 0}, offsets[] = {0, 1, 2, 3}, labels[] = {0, 1, 0};
    const struct {
        const float *weights;
        double want;
    } cases[] = {{class_weights, 0.484524122}, {NULL, 0.700200120}};
    Device *device = cpu_device_open(1);
    for (int i = 0; i < 2; i++) {
        float logits[] = {0.3f, -0.2f, 1, 2, -0.5f, 0.5f}, loss[3], correct[3];
        Batch batch = bert_batch_of_classes(ids, offsets, 3, labels, &(BertLoss){2, cases[i].weights, 0});
        soft_cross_entropy_forward(device, tensor_1d(loss, DTYPE_F32, 3), tensor_1d(correct, DTYPE_F32, 3),
                                   tensor_2d(logits, DTYPE_F32, 3, 2), batch.fields[BERT_TARGETS],
                                   batch.fields[BERT_LABELS]);
        double sum = (double)loss[0] + (double)loss[1] + (double)loss[2];
        assert_near(sum / batch.counts[BERT_COUNT_WEIGHTS], cases[i].want, 1e-7);
        batch_close(&batch);
    }
    device_close(device);
}

static int open_file_of_goldens(void **state) {
    (void)state;
    golden = open_golden("bert");
    return 0;
}

static int close_file_of_goldens(void **state) {
    (void)state;
    tensor_file_close(&golden);
    return 0;
}

int main(void) { return tests_run(open_file_of_goldens, close_file_of_goldens); }
