/* The reference's checkpoint of a FLIM classifier (tests/reference/make_pth.py: a few channels, biases far from 0):
 * ours says of cells what the reference said, and goes on saying it after an export and another import. */
#include "kernels/device_open.h"
#include "tests/cv/rig.h"
#include "tests/model_rig.h"

#include "checkpoint/load.h"
#include "checkpoint/pth_export.h"

static Error error;

enum { CELLS = 3 };
static const CvConfig config = {.channels = {8, 2, 3}, .bins = 16, .side = 5};

static struct {
    ModelRig rig;
    Batch batch;
    float *x;
    TensorFile golden;
    char *path; /* of the export */
} f;

/* Rows of logarithms and footprints, from counts u8 [CELLS, bins, side, side]. */
static float *rows_of(const uint8_t *counts) {
    const int64_t plane = config.side * config.side, positions = config.bins * plane;
    float *x = xmalloc((size_t)(2 * CELLS * positions) * sizeof *x);
    for (int64_t i = 0; i < CELLS * positions; i++) {
        int64_t sum = 0;
        for (int64_t t = 0; t < config.bins; t++) sum += counts[i / positions * positions + t * plane + i % plane];
        x[2 * i] = log1pf(counts[i]) / 10;
        x[2 * i + 1] = sum > 0;
    }
    return x;
}

static int set_up(void **state) {
    (void)state;
    static const float no_targets[CELLS] = {0};
    char *directory = kept_folder();
    f.golden = open_golden("torch_flim");
    f.x = rows_of(find(&f.golden, "", "counts")->data);
    f.rig = model_rig_open(cv_open_for_inputs(&config), cpu_device_open(0), (size_t)1 << 24);
    f.batch = cv_batch(&config, f.x, no_targets, no_targets, CELLS);
    f.path = path_join(directory, "again.pth");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    batch_close(&f.batch);
    tensor_file_close(&f.golden);
    model_rig_close(&f.rig);
    free(f.x);
    free(f.path);
    return 0;
}

/* Other tensors are carried along. absorbed: how many of the reference's biases are known as such. */
static ImportReport import(const char *path, int absorbed) {
    static const char *const all[] = {""};
    const ImportRules rules = {
        .extra = all, .n_extra = 1, .absorbed = cv_network_dead_biases(), .n_absorbed = absorbed};
    const CheckpointBuffers into = {.table = &f.rig.model->params, .weights = f.rig.model->weights.data};
    ImportReport report;
    CarriedTensors carried;
    if (!checkpoint_import(path, &into, &rules, &carried, &report, &error)) fail_msg("%s: %s", path, error.text);
    carried_close(&carried);
    free(report.missing_names);
    return report;
}

static void evaluate(float logits[CELLS]) {
    Pass pass = model_rig_pass(&f.rig, f.batch.counts, 1);
    pass.train = false;
    pass.outputs = tensor_2d(logits, DTYPE_F32, CELLS, 1);
    model_rig_run(&f.rig, &f.batch, &pass);
}

static const char reference[] = "tests/reference/golden/torch_flim.pth";

/* PyTorch's float32 and ours are each within 2e-6 of float64 (measured of the reference's whole network). */
static const double tolerance = 4e-6;

TEST_WITH(the_references_weights_give_the_same_outputs, set_up, tear_down) {
    float logits[CELLS], *want = floats(&f.golden, "", "logits");
    ImportReport report = import(reference, CV_DEAD_BIASES);
    assert_int_equal(report.loaded, f.rig.model->params.count);
    assert_int_equal(report.absorbed, 11);
    assert_int_equal(report.counters, 11);
    assert_int_equal(report.carried, 0);
    assert_int_equal(report.moments, 6);
    evaluate(logits);
    for (int i = 0; i < CELLS; i++) assert_near(logits[i], want[i], tolerance);

    report = import(reference, CV_DEAD_BIASES - 1); /* as if the classifier's bias were not known */
    assert_int_equal(report.carried, 1);
    evaluate(logits);
    for (int i = 0; i < CELLS; i++) assert_true(fabsf(logits[i] - want[i]) > 1000 * (float)tolerance);
    free(want);
}

TEST_WITH(an_export_is_imported_to_the_bit, set_up, tear_down) {
    Model *model = f.rig.model;
    size_t bytes = tensor_bytes(model->weights);
    float before[CELLS], after[CELLS], *weights = xmalloc(bytes);
    import(reference, CV_DEAD_BIASES);
    evaluate(before);
    memcpy(weights, model->weights.data, bytes);
    const PthExport what = {.table = &model->params,
                            .weights = weights,
                            .absorbed = cv_network_dead_biases(),
                            .n_absorbed = CV_DEAD_BIASES};
    if (!pth_export(f.path, &what, &error)) fail_msg("%s", error.text);
    TensorFile file = open_file(f.path);
    assert_int_equal(file.n_tensors, 79);
    tensor_file_close(&file);
    memset(model->weights.data, 0xff, bytes);
    assert_int_equal(import(f.path, CV_DEAD_BIASES).absorbed, 11);
    for (int i = 0; i < model->params.count; i++) {
        const Param *param = &model->params.items[i];
        assert_memory_equal((float *)model->weights.data + param->offset, weights + param->offset,
                            (size_t)param->count * sizeof(float));
    }
    evaluate(after);
    assert_memory_equal(after, before, sizeof after);
    free(weights);
}

/* The reference's own names in its own order: the tensors of its file, in file order, are those of ours. */
TEST_WITH(an_export_has_the_references_tensors_in_its_order, set_up, tear_down) {
    import(reference, CV_DEAD_BIASES);
    const PthExport what = {.table = &f.rig.model->params,
                            .weights = f.rig.model->weights.data,
                            .absorbed = cv_network_dead_biases(),
                            .n_absorbed = CV_DEAD_BIASES};
    if (!pth_export(f.path, &what, &error)) fail_msg("%s", error.text);
    TensorFile ours = open_file(f.path), theirs = open_file(reference);
    int first = 0; /* of the model's, behind what comes before it in their file */
    while (strncmp(theirs.tensors[first].name, "model_state_dict.", 17)) first++;
    for (int i = 0; i < ours.n_tensors; i++) {
        const StoredTensor *a = &ours.tensors[i], *b = &theirs.tensors[first + i];
        assert_string_equal(a->name, b->name);
        assert_string_equal(a->dtype, b->dtype);
        assert_int_equal(a->rank, b->rank);
        for (int d = 0; d < a->rank; d++) assert_int_equal(a->dims[d], b->dims[d]);
    }
    tensor_file_close(&ours);
    tensor_file_close(&theirs);
}
