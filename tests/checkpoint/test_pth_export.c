/* Exports for torch: the reference's names in its order, and back again to the bit.
 * tests/reference/check_cv_export.py checks that torch loads them. */
#include "base/file.h"
#include "tests/files.h"

#include "checkpoint/load.h"
#include "checkpoint/pth_export.h"

static Error error;

/* A convolution [2, 1, 3] before a norm, then a linear layer: the reference has a bias and a counter besides. */
static ParamTable small_table(void) {
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 2, 3, "stem.0.weight");
    param_file_shape(&t, 3, (const int64_t[]){2, 1, 3});
    param_add_norm(&t, 2, "stem.1");
    param_add_buffer(&t, NULL, 2, 0, "stem.1.running_mean");
    t.items[t.count - 1].moves = true;
    param_add_buffer(&t, NULL, 2, 0, "stem.1.running_var");
    t.items[t.count - 1].moves = true;
    param_add_linear(&t, 2, 1, "head");
    return t;
}

static const AbsorbedBias absorbed[] = {{"stem.0", "stem.1"}};
static const PthValue values[] = {
    {.name = "epoch", .number = 12, .whole = true}, {.name = "val_f1", .number = 0.75}, {.name = "fold", .text = "D1"}};

typedef struct {
    ParamTable table;
    float *flat[3]; /* weights, m, v: all numbers differ */
    PthExport what;
    char *path;
} Exported;

static void export_small(Exported *e, bool with_moments) {
    *e = (Exported){.table = small_table()};
    for (int part = 0; part < 3; part++) {
        e->flat[part] = xaligned((size_t)e->table.flat_count * sizeof(float));
        for (int64_t i = 0; i < e->table.flat_count; i++) e->flat[part][i] = (float)(100 * part + i) / 7;
    }
    e->path = path_join(kept_folder(), "best.pth");
    e->what = (PthExport){.table = &e->table,
                          .weights = e->flat[0],
                          .m = with_moments ? e->flat[1] : NULL,
                          .v = with_moments ? e->flat[2] : NULL,
                          .learning_rate = 5e-5f,
                          .adamw = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .step = 31, .coupled = true},
                          .initial_rate = 1e-4,
                          .weight_decay = 1e-3,
                          .batches = 62,
                          .absorbed = absorbed,
                          .n_absorbed = 1,
                          .values = values,
                          .n_values = 3};
    if (!pth_export(e->path, &e->what, &error)) fail_msg("%s", error.text);
}

static void forget(Exported *e) {
    for (int part = 0; part < 3; part++) free(e->flat[part]);
    params_free(&e->table);
    free(e->path);
}

static void assert_param(const TensorFile *file, const char *prefix, const Exported *e, int part, int row,
                         const char *name) {
    const StoredTensor *tensor = find(file, prefix, name);
    const Param *param = &e->table.items[row];
    assert_int_equal(tensor->rank, param->rank);
    for (int d = 0; d < param->rank; d++) assert_int_equal(tensor->dims[d], param->dims[d]);
    assert_memory_equal(tensor->data, e->flat[part] + param->offset, tensor->bytes);
}

static void assert_zeros(const TensorFile *file, const char *prefix, const char *name) {
    const StoredTensor *tensor = find(file, prefix, name);
    assert_true(tensor->rank == 1 && tensor->dims[0] == 2);
    assert_memory_equal(tensor->data, ((float[]){0, 0}), 2 * sizeof(float));
}

TEST(the_model_has_the_references_tensors_in_its_order) {
    static const char *const names[] = {"stem.0.weight",
                                        "stem.0.bias",
                                        "stem.1.weight",
                                        "stem.1.bias",
                                        "stem.1.running_mean",
                                        "stem.1.running_var",
                                        "stem.1.num_batches_tracked",
                                        "head.weight",
                                        "head.bias"};
    Exported e;
    export_small(&e, false);
    TensorFile file = open_file(e.path);
    assert_int_equal(file.n_tensors, 9);
    for (int i = 0; i < 9; i++) {
        char name[64];
        snprintf(name, sizeof name, "model_state_dict.%s", names[i]);
        assert_string_equal(file.tensors[i].name, name);
    }
    for (int row = 0; row < e.table.count; row++)
        assert_param(&file, "model_state_dict.", &e, 0, row, e.table.items[row].name);
    assert_zeros(&file, "model_state_dict.", "stem.0.bias");
    const StoredTensor *counter = find(&file, "model_state_dict.", "stem.1.num_batches_tracked");
    assert_true(!strcmp(counter->dtype, "I64") && counter->rank == 0 && *(const int64_t *)counter->data == 62);
    tensor_file_close(&file);
    forget(&e);
}

TEST(the_optimizer_counts_parameters_as_torch_does) {
    static const int rows[] = {0, -1, 1, 2, 5, 6}; /* of the parameters; -1: the bias that ours has not */
    Exported e;
    export_small(&e, true);
    TensorFile file = open_file(e.path);
    assert_int_equal(file.n_tensors, 9 + 6 * 3);
    for (int i = 0; i < 6; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "optimizer_state_dict.state.%d.", i);
        const StoredTensor *step = find(&file, prefix, "step");
        assert_true(!strcmp(step->dtype, "F32") && step->rank == 0 && *(const float *)step->data == 31);
        if (rows[i] < 0) {
            assert_zeros(&file, prefix, "exp_avg");
            assert_zeros(&file, prefix, "exp_avg_sq");
        } else {
            assert_param(&file, prefix, &e, 1, rows[i], "exp_avg");
            assert_param(&file, prefix, &e, 2, rows[i], "exp_avg_sq");
        }
    }
    tensor_file_close(&file);
    forget(&e);
}

static bool holds(const char *path, const char *bytes, size_t size) {
    char *all;
    size_t total;
    assert_true(read_file(path, &all, &total, NULL));
    bool found = memmem(all, total, bytes, size);
    free(all);
    return found;
}

#define HOLDS(literal) assert_true(holds(e.path, literal, sizeof(literal) - 1))

TEST(values_and_groups_are_written) {
    Exported e;
    export_small(&e, true);
    HOLDS("X\5\0\0\0epochK\x0cX\6\0\0\0val_f1G\x3f\xe8\0\0\0\0\0\0X\4\0\0\0foldX\2\0\0\0D1u.");
    HOLDS("X\5\0\0\0betas(G\x3f\xec\xcc\xcc\xcc\xcc\xcc\xcdG\x3f\xef\xf7\xce\xd9\x16\x87\x2bt"); /* 0.9, 0.999 */
    HOLDS("decoupled_weight_decay\x89");
    HOLDS("X\6\0\0\0params](K\0K\1K\2K\3K\4K\5eue"); /* one group of all six, the last */
    forget(&e);
    export_small(&e, true);
    e.table.items[1].decay = e.table.items[2].decay = false; /* the norm */
    if (!pth_export(e.path, &e.what, &error)) fail_msg("%s", error.text);
    HOLDS("X\6\0\0\0params](K\0K\1K\4K\5eu}(");
    HOLDS("weight_decayG\0\0\0\0\0\0\0\0X");
    HOLDS("X\6\0\0\0params](K\2K\3eue");
    forget(&e);
}

TEST(exports_are_imported_to_the_bit) {
    static const char *const all[] = {""};
    Exported e;
    export_small(&e, true);
    float *weights = xaligned((size_t)e.table.flat_count * sizeof(float));
    CarriedTensors carried;
    ImportReport report;
    const ImportRules rules = {.only = all, .n_only = 1, .absorbed = absorbed, .n_absorbed = 1};
    if (!checkpoint_import(e.path, &(CheckpointBuffers){.table = &e.table, .weights = weights}, &rules, &carried,
                           &report, &error))
        fail_msg("%s", error.text);
    for (int row = 0; row < e.table.count; row++) {
        const Param *param = &e.table.items[row];
        assert_memory_equal(weights + param->offset, e.flat[0] + param->offset, (size_t)param->count * sizeof(float));
    }
    assert_int_equal(report.loaded, e.table.count);
    assert_int_equal(report.absorbed, 1);
    assert_int_equal(report.counters, 1);
    assert_int_equal(report.moments, 6 * 3);
    assert_true(carried.n == 0 && report.missing == 0);
    carried_close(&carried);
    free(report.missing_names);
    free(weights);
    forget(&e);
}

TEST(a_checkpoint_is_exported_as_it_is) {
    Exported e;
    export_small(&e, true);
    char *run = kept_folder(), *path = kept_path(run, "best.pth");
    const TrainState state = {.step = 33, .best_step = 33, .skipped_steps = 2, .micro_step = 62};
    Checkpointer *checkpointer = checkpointer_open(run, 1);
    checkpointer_save(checkpointer, &(CheckpointBuffers){&e.table, e.flat[0], e.flat[1], e.flat[2]}, &state);
    if (!checkpointer_wait(checkpointer, &error)) fail_msg("%s", error.text);
    checkpointer_close(checkpointer);
    char *best = keep(path_through(run, "best"));
    PthExport what = e.what; /* of which nothing is given that the checkpoint has */
    what.weights = what.m = what.v = NULL;
    what.batches = what.adamw.step = 0;
    if (!pth_export_checkpoint(path, best, what, &error)) fail_msg("%s", error.text);
    char *texts[2];
    size_t sizes[2];
    assert_true(read_file(e.path, &texts[0], &sizes[0], NULL) && read_file(path, &texts[1], &sizes[1], NULL));
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(texts[0], texts[1], sizes[0]);
    assert_false(pth_export_checkpoint(path, run, what, &error));
    assert_contains(error.text, run);
    assert_contains(error.text, "state.json");
    for (int i = 0; i < 2; i++) free(texts[i]);
    forget(&e);
}

TEST(a_file_that_cannot_be_written_is_named) {
    Exported e;
    export_small(&e, false);
    char *inside = kept_path(e.path, "x.pth");
    assert_false(pth_export(inside, &e.what, &error));
    assert_contains(error.text, inside);
    forget(&e);
}
