#include "tests/gpt/train_rig.h"

#include <float.h>

#include "data/formats/tensor_file_open.h"
#include "kernels/philox.h"

const char *const gpt_model_options =
    "--model-dim 64 --layers 2 --heads 4 --number-text-tokens 50 --number-mel-codes 42 --max-text-tokens 40 "
    "--max-mel-tokens 80 --epochs 1000 --warmup-steps 2 --learning-rate 1e-3 --threads 2";
const char *const gpt_short_run = "--max-steps 12 --log-interval 1 --save-interval 3 --val-interval 4 --val-ratio 0.2";

static uint32_t draw(uint64_t sample, uint64_t element, uint32_t below) {
    return philox_bits(sample, PURPOSE_TEST, 9, element) % below;
}

/* One utterance's four files and its manifest line. long_codes: so many codes, 0: 10 to 59. */
void gpt_write_sample(FILE *manifest, const char *directory, int i, int long_codes) {
    int32_t text[30], codes[400];
    float condition[32 * GPT_D_MODEL], emotion[GPT_D_MODEL];
    int text_len = 3 + (int)draw((uint64_t)i, 0, 20),
        code_len = long_codes ? long_codes : 10 + (int)draw((uint64_t)i, 1, 50);
    for (int t = 0; t < text_len; t++) text[t] = 3 + (int32_t)draw((uint64_t)i, 100 + (uint64_t)t, GPT_TEXT_PIECES - 3);
    for (int t = 0; t < code_len; t++) codes[t] = (text[t % text_len] * 7 + t / 8) % GPT_CODES;
    for (int t = 0; t < 32 * GPT_D_MODEL; t++)
        condition[t] = philox_normal((uint64_t)i, PURPOSE_TEST, 1, (uint64_t)t) * 0.1f;
    for (int t = 0; t < GPT_D_MODEL; t++) emotion[t] = philox_normal((uint64_t)i, PURPOSE_TEST, 2, (uint64_t)t) * 0.1f;
    char name[32];
    snprintf(name, sizeof name, "t%d.npy", i);
    write_npy(directory, name, "<i4", text, 1, text_len, 0);
    snprintf(name, sizeof name, "c%d.npy", i);
    write_npy(directory, name, "<i4", codes, 1, code_len, 0);
    snprintf(name, sizeof name, "k%d.npy", i);
    write_npy(directory, name, "<f4", condition, 2, 32, GPT_D_MODEL);
    snprintf(name, sizeof name, "e%d.npy", i);
    write_npy(directory, name, "<f4", emotion, 1, GPT_D_MODEL, 0);
    fprintf(manifest,
            "{\"id\": \"utterance_%d\", \"audio_path\": \"a%d.wav\", \"text\": \"x\", \"speaker\": \"s\", "
            "\"language\": \"am\", "
            "\"duration\": %.3f, \"text_ids_path\": \"t%d.npy\", \"text_len\": %d, \"codes_path\": \"c%d.npy\", "
            "\"code_len\": %d, "
            "\"condition_path\": \"k%d.npy\", \"condition_len\": 32, \"emo_vec_path\": \"e%d.npy\"}\n",
            i, i, (code_len + 1) / 50.0, i, text_len, i, code_len, i, i);
}
/* A directory with manifest.jsonl and its files. */
char *gpt_make_data(int long_codes) {
    char *directory = scratch_directory(), *path = kept_path(directory, "manifest.jsonl");
    FILE *manifest = fopen(path, "w");
    assert_non_null(manifest);
    for (int i = 0; i < GPT_SAMPLES; i++) gpt_write_sample(manifest, directory, i, long_codes);
    assert_int_equal(fclose(manifest), 0);
    return directory;
}

char *gpt_write_overflowing_base(const char *run, const char *directory) {
    char *base = kept_path(directory, "base.safetensors"), *path = keep(path_through(run, "last/model.safetensors"));
    Error error;
    TensorFile file;
    assert_true(tensor_file_open(path, &file, &error));
    TensorToWrite tensors[64];
    float *bad = NULL;
    for (int i = 0; i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        tensors[i] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[i].dims, t->dims, sizeof t->dims);
        if (strcmp(t->name, "gpt.ln_f.weight")) continue;
        bad = xmalloc(t->bytes);
        memcpy(bad, t->data, t->bytes);
        for (int64_t k = 0; k < t->count; k++) bad[k] = FLT_MAX;
        tensors[i].data = bad;
    }
    assert_non_null(bad);
    assert_true(safetensors_write(base, tensors, file.n_tensors, NULL, NULL, 0, &error));
    tensor_file_close(&file);
    free(bad);
    return base;
}

int gpt_fixture_open(void **state) {
    (void)state;
    heed_signals();
    fixture.program = program_at("train_gpt");
    fixture.options = xformat("%s -b 3 -g 2", gpt_model_options);
    fixture.short_run = gpt_short_run;
    fixture.loss = "train/mel_loss";
    fixture.data = gpt_make_data(0);
    fixture.manifest = path_join(fixture.data, "manifest.jsonl");
    return 0;
}
