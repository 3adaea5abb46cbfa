/* train_psd evaluate and calibrate: scores are those of the predictions, and any checkpoint with the weights will do.
 */
#include "tests/page_rig.h"
#include "tests/psd/train_rig.h"

static double read_number(const char *directory, const char *file, const char *section, const char *key) {
    char *path = kept_path(directory, file);
    json_t *root = json_load_file(path, 0, NULL), *value = json_object_get(json_object_get(root, section), key);
    if (!json_is_number(value)) fail_msg("%s: no %s.%s", path, section, key);
    double number = json_number_value(value);
    json_decref(root);
    return number;
}

/* Computes the expected scores from the rows. */
static void check_scores(const char *directory, const PsdPredicted *said, int n) {
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
TEST(scores_are_those_of_the_predictions) {
    char *run = kept_folder(), *best = kept_path(run, "best"), *to = kept_path(run, "evaluation");
    char *on_validation = kept_path(run, "validation"), *calibration = kept_path(run, "calibration");
    PsdPredicted said[64];
    psd_must("%s -o %s --d-model 24 --n-layers 2 --n-heads 2 --ffn-dim 40 --hidden-dim 20 -b 30 --epochs 15 "
             "--learning-rate 5e-3",
             psd_toy_options("finetune"), run);
    psd_must("%s --checkpoint %s -o %s", psd_toy_options("evaluate"), best, to);
    int n = psd_read_predictions(to, said, 64);
    assert_int_equal(n, 54);
    for (int i = 0; i < n; i++)
        assert_true(said[i].id % TOY_ROWS >= 13 && said[i].truth == said[i].id / TOY_ROWS % PSD_CLASSES);
    check_scores(to, said, n);
    assert_true(read_number(to, "pooled_finetuned.json", "scores", "accuracy") > 0.5);
    double encoder[8], head[8]; /* from scratch both learn alike */
    int lines = logged(run, "train", "train/lr", encoder, 8);
    assert_true(lines > 0 && logged(run, "train", "train/lr_1", head, 8) == lines);
    for (int i = 0; i < lines; i++) assert_true(encoder[i] == head[i]);
    /* a report is named for the kind of its split file */
    char *split = kept_path(run, "by_file_seed3_frac1.0.json"), *named = kept_path(run, "named");
    if (run_command(fixture.output, sizeof fixture.output, "cp %s/pooled.json %s", fixture.data, split))
        fail_msg("%s", fixture.output);
    psd_must("%s --checkpoint %s -o %s --split %s", psd_toy_options("evaluate"), best, named, split);
    char *report = kept_path(named, "by_file_finetuned.md"), *text = kept_text(report);
    assert_contains(text, "# finetuned: by_file\n");
    /* on the rows to which it was fitted, a temperature can only help */
    psd_must("%s --checkpoint %s -o %s --eval-split val", psd_toy_options("evaluate"), best, on_validation);
    psd_must("%s --checkpoint %s -o %s --eval-split val", psd_toy_options("calibrate"), best, calibration);
    double before = read_number(calibration, "calibration.json", "temp_scaling", "nll_before");
    assert_near(before, read_number(on_validation, "pooled_finetuned.json", "scores", "nll"), 1e-12);
    assert_true(read_number(calibration, "calibration.json", "temp_scaling", "nll") < before);
    /* the best checkpoint is the one whose macro F1 was the highest */
    double f1[16], highest = 0;
    int epochs = logged(run, "val", "val/macro_f1", f1, 16);
    for (int i = 0; i < epochs; i++) highest = f1[i] > highest ? f1[i] : highest;
    assert_near(read_number(on_validation, "pooled_finetuned.json", "scores", "macro_f1"), highest, 1e-8);
}

/* The module was compiled, and its hyper-parameters name a file that has moved away. */
TEST(a_lightning_checkpoint_is_evaluated) {
    static const char *const ends[] = {"ckpt", "safetensors"};
    static const char *const shape = "--n-heads 2"; /* the tensors determine all else */
    char *to[2], *run = kept_folder();
    for (int i = 0; i < 2; i++) {
        to[i] = scratch_directory();
        assert_int_equal(psd_program("%s --checkpoint tests/reference/golden/torch_classifier.%s -o %s",
                                     psd_toy_options("evaluate"), ends[i], to[i]),
                         2);
        assert_contains(fixture.output,
                        "the number of attention heads does not follow from the shapes of its tensors: give --n-heads");
        assert_int_equal(psd_program("%s --checkpoint tests/reference/golden/torch_classifier.%s %s --ffn-dim 32 -o %s",
                                     psd_toy_options("evaluate"), ends[i], shape, to[i]),
                         2);
        assert_contains(fixture.output, "which has ffn-dim 24: leave it out");
        psd_must("%s --checkpoint tests/reference/golden/torch_classifier.%s %s -o %s", psd_toy_options("evaluate"),
                 ends[i], shape, to[i]);
        assert_contains(
            fixture.output,
            "[Model] from the shapes of its tensors: encoder \"transformer\", d-model 16, n-layers 1, ffn-dim 24");
        assert_contains(fixture.output, "25 tensors loaded");
    }
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cmp %s/predictions_finetuned.csv %s/predictions_finetuned.csv", to[0], to[1]),
                     0);
    psd_must(
        "%s --pretrained tests/reference/golden/torch_classifier.ckpt %s --hidden-dim 8 -o %s/a -b 60 --max-steps 1",
        psd_toy_options("finetune"), shape, run);
    assert_contains(fixture.output, "has a head, which is used");
    psd_must(
        "%s --pretrained tests/reference/golden/torch_classifier.ckpt %s --hidden-dim 9 -o %s/b -b 60 --max-steps 1",
        psd_toy_options("finetune"), shape, run);
    assert_contains(fixture.output, "has a head, which does not fit and is left out");
    free(to[0]);
    free(to[1]);
}

/* A checkpoint without some of its tensors, under another name. */
static char *without(const char *checkpoint, const char *part) {
    char *folder = keep(follow_link(checkpoint));
    TensorFile file = open_in(folder, "model.safetensors");
    TensorToWrite *kept = xcalloc((size_t)file.n_tensors, sizeof *kept);
    char *path = kept_format("%s/without_%s.safetensors", folder, part);
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
TEST(only_files_that_are_read_must_exist) {
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
        char *run = kept_folder(), *last = kept_path(run, "last"), *to[] = {path_join(run, "a"), path_join(run, "b")};
        psd_must("%s -o %s %s -b 60 --max-steps 1", psd_toy_options("finetune"), run, all[i].options);
        char *path = without(last, all[i].part);
        psd_must("%s --checkpoint %s -o %s", psd_toy_options("evaluate"), last, to[0]);
        assert_int_equal(psd_program("%s --checkpoint %s -o %s", psd_toy_options("evaluate"), path, to[1]),
                         all[i].status);
        assert_contains(fixture.output, all[i].missing);
        if (!all[i].status)
            assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                         "cmp %s/predictions_finetuned.csv %s/predictions_finetuned.csv", to[0], to[1]),
                             0);
        char *owned[] = {to[0], to[1], path};
        for (int k = 0; k < 3; k++) free(owned[k]);
    }
}

/* A rate of almost nothing leaves random weights. */
TEST(a_classifier_at_chance_is_called_so_last) {
    char *run = kept_folder(), *best = kept_path(run, "best"), *to = kept_path(run, "evaluation");
    static const char cause[] =
        "Likely cause: a learning rate of 1e-09, which is low for random weights: try 0.0005; and "
        "only ";
    psd_must("%s -o %s --size tiny -b 30 --epochs 1 --learning-rate 1e-9", psd_toy_options("finetune"), run);
    const char *said = strstr(fixture.output, "[Report] the classifier is at chance: balanced accuracy ");
    assert_non_null(said);
    assert_contains(said, cause);
    assert_memory_equal(strchr(said, '\n'), "\nNext: ", 7); /* which every training ends with */
    char *trained = read_page(run);
    assert_contains(trained, cause);
    psd_must("%s --checkpoint %s -o %s", psd_toy_options("evaluate"), best, to);
    const char *last = strstr(fixture.output, "[Report] the classifier is at chance: balanced accuracy ");
    assert_non_null(last);
    assert_contains(last, cause);
    assert_string_equal(strchr(last, '\n'), "\n");
    char *report = kept_path(to, "pooled_finetuned.md"), *markdown = kept_text(report), *page = read_page(to);
    assert_contains(markdown, cause);
    assert_contains(page, cause);
}

/* `run` has no --epochs. */
TEST(the_advice_of_a_run_names_its_own_options) {
    char *run = kept_folder();
    psd_must("run --manifest %s/toy.safetensors --split %s/pooled.json -o %s --size tiny -b 15 -g 2 --val-batch-size "
             "20 --scratch "
             "--finetune-epochs 1 --learning-rate 1e-9",
             fixture.data, fixture.data, run);
    assert_contains(fixture.output, ": give more --finetune-epochs\n");
    assert_null(strstr(fixture.output, "more --epochs"));
    assert_contains(fixture.output, "effective batch 15 x 2 = 30"); /* with what makes a batch fit that does not */
    assert_contains(fixture.output, " --val-batch-size=20 ");
}

int main(void) { return tests_run(psd_make_toy, NULL); }
