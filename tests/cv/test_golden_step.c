/* train_cv seen from outside: the specification's golden step, and folds that have cells of others. */
#include "data/cv/cells.h"

#include "tests/cv/rig.h"
#include "tests/cv/train_rig.h"
#include "tests/documented.h"

static void write_golden_cell(const char *directory, const char *name, int n) {
    static float counts[21 * 21 * 256];
    char *path = kept_path(directory, name);
    const int64_t dims[] = {21, 21, 256};
    Error error;
    for (int i = 0; i < 21 * 21 * 256; i++) counts[i] = (float)cv_golden_count(n, i % 256, i / 256 / 21, i / 256 % 21);
    make_directories(directory);
    if (!npy_write(path, "<f4", counts, 3, dims, &error)) fail_msg("%s", error.text);
}

/* The four cells are D1's; another two each D2's and D3's. */
static void write_golden_cells(const char *root) {
    static const char *const names[] = {"d01m1_in_cell_1.npy", "d01m1_act_cell_2.npy", "d01m1_in_cell_3.npy",
                                        "d01m1_act_cell_4.npy"};
    for (int donor = 1; donor <= 3; donor++) {
        char *directory = kept_format("%s/isolated_cells_D%d", root, donor);
        for (int n = 0; n < (donor == 1 ? 4 : 2); n++) write_golden_cell(directory, names[n], n + 4 * (donor > 1));
    }
}

TEST(copies_in_several_folds_are_one_warning) {
    const char *directory = run_directory();
    char *cells = kept_path(directory, "cells");
    write_golden_cells(cells); /* those of D2 and D3 are the same */
    must("--data %s -o %s/run --protocol reference --cv-donors D1,D2,D3 --filter off -b 2 --channels 8,8,8 --dry-run",
         cells, directory);
    assert_contains(fixture.output, "the scores of their split are too good: fold D1: 2 val cells, fold D2: 2 test "
                                    "cells, fold D3: 2 test cells\n");
    assert_null(strstr(strstr(fixture.output, "the same counts as") + 1, "the same counts as"));
}

/* The formula's weights as the reference has them, with the biases that ours does without. */
static char *write_golden_weights(const char *directory) {
    enum { MOST = 96 };
    Model *model = cv_open(&cv_full_config);
    const ParamTable *table = &model->params;
    float *flat = xcalloc((size_t)table->flat_count, sizeof *flat);
    static float biases[CV_DEAD_BIASES][512];
    static char names[CV_DEAD_BIASES][96];
    TensorToWrite tensors[MOST];
    int n = 0, j = 0, layer = 0;
    Error error;
    for (int i = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        TensorToWrite *to = &tensors[n++];
        *to = (TensorToWrite){.name = p->name, .dtype = "F32", .rank = p->rank, .data = flat + p->offset};
        memcpy(to->dims, p->dims, (size_t)p->rank * sizeof *p->dims);
        bool gain = p->rank == 1 && strstr(p->name, ".weight"), variance = strstr(p->name, "running_var");
        double scale = p->buffer ? 0 : p->columns ? 1 / sqrt((double)p->columns) : 0.1;
        for (int64_t k = 0; k < p->count; k++)
            flat[p->offset + k] = (float)((gain || variance) + scale * cv_golden_uniform((uint64_t)j, (uint64_t)k));
        j += !p->buffer;
        if (p->buffer || !p->columns || layer == CV_DEAD_BIASES) continue;
        snprintf(names[layer], sizeof names[0], "%s.bias", cv_network_dead_biases()[layer].layer);
        for (int64_t k = 0; k < p->rows; k++)
            biases[layer][k] = (float)(0.1 * cv_golden_uniform((uint64_t)j, (uint64_t)k));
        tensors[n++] = (TensorToWrite){names[layer], "F32", 1, {p->rows}, biases[layer]};
        layer++, j++;
    }
    assert_true(n <= MOST && layer == CV_DEAD_BIASES && j == 46);
    char *path = kept_path(directory, "golden.safetensors");
    if (!safetensors_write(path, tensors, n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    free(flat);
    model->close(model);
    return path;
}

/* Section 2.6: what a correct float32 network's gradients may be off. */
TEST(the_golden_step_comes_out_of_the_program) {
    const char *directory = run_directory();
    char *cells = kept_path(directory, "cells"), *weights = write_golden_weights(directory);
    char *dump = kept_path(directory, "dump.safetensors");
    write_golden_cells(cells);
    must("--data %s -o %s/run --protocol split --train-donors D1 --val-donors D2 --test-donors D3 --base-checkpoint %s "
         "--sampler none --augment=false --mixup=false --dropout 0 --head-dropout 0 --filter off --tta=false -b 4 "
         "--threshold 0.5 --epochs 1 --extensions 0 --debug-dump %s",
         cells, directory, weights, dump);
    assert_contains(fixture.output, "11 absorbed by running means");
    TensorFile got = open_file(dump), golden = open_golden("flim_full");
    assert_dumps_documented(&got, 1, "### Dump of train_cv");
    float *loss = floats(&got, "", "loss"), *norm = floats(&got, "", "grad_norm"),
          *want_loss = floats(&golden, "", "loss"), *want_norm = floats(&golden, "", "norm");
    assert_near(loss[0], want_loss[0], 1e-5);
    assert_near(norm[0], want_norm[0], 1e-2 * (double)want_norm[0]);
    int compared = 0;
    for (int i = 0; i < golden.n_tensors; i++) {
        const StoredTensor *want = &golden.tensors[i];
        if (strncmp(want->name, "grad.", 5) != 0) continue;
        float *whole = floats(&got, "", want->name), *thin = floats(&golden, "", want->name);
        const StoredTensor *ours = find(&got, "", want->name);
        int64_t stride = ours->count > want->count ? 97 : 1;
        for (int64_t k = 0; k < want->count; k++) whole[k] = whole[k * stride];
        assert_close(want->name, whole, thin, want->count, 1e-2);
        free(whole);
        free(thin);
        compared++;
    }
    assert_int_equal(compared, 46 - CV_DEAD_BIASES);
    void *owned[] = {weights, loss, norm, want_loss, want_norm};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    tensor_file_close(&got);
    tensor_file_close(&golden);
}
