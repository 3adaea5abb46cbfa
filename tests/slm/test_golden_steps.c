/* train_slm against the independent implementation in float64 (tests/reference/make_golden_slm.py), read from the files
 * that it writes: the first step's loss and gradients, five steps of AdamW and of Muon. The stream is a token file,
 * which is one text, packed into contexts; or, with a tokenizer that knows where texts end, five, each trained on
 * alone. */
#include "tests/golden.h"
#include "tests/train_rig.h"

typedef struct {
    const char *name, *options;
    bool biases, documents; /* documents: with a tokenizer, and so with the ends of documents */
} Golden;

static const Golden plain = {"plain", "--heads 4 --gelu erf", false, false};
static const Golden biased = {"biased", "--heads 2 --biases --gelu tanh --documents separate", true, true};

/* The values of make_golden_slm.py. Every epoch is one step. */
static const char *const options =
    "--vocabulary 53 --layers 2 --d-model 32 --context 12 --dropout 0 --threads 1 --log-interval 1 --max-steps 10 "
    "--warmup-steps 2 --learning-rate 1e-3 --min-lr 0.1 --weight-decay 0.1 --grad-clip 1 --save-interval 1 "
    "--keep-checkpoints 20";

static TensorFile golden_file;

/* ---- data and weights ---- */

/* Writes a tokenizer of 52 letters, in which id 52 ends a text. */
static void write_tokenizer(const char *folder) {
    FILE *file = fopen(kept_path(folder, "tokenizer.json"), "w");
    assert_non_null(file);
    fprintf(file, "{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (int i = 0; i < 52; i++) fprintf(file, "\"%c\": %d, ", (i < 26 ? 'a' : 'A') + i % 26, i);
    fprintf(file, "\"<|endoftext|>\": 52}, \"merges\": []}, "
                  "\"added_tokens\": [{\"id\": 52, \"content\": \"<|endoftext|>\", \"special\": true}]}\n");
    assert_int_equal(fclose(file), 0);
}

static void write_data(const char *folder, const Golden *g) {
    const StoredTensor *stream = find(&golden_file, "", "stream");
    uint16_t ids[64];
    assert_true(stream->count <= 64);
    for (int64_t i = 0; i < stream->count; i++) ids[i] = (uint16_t)((const int32_t *)stream->data)[i];
    write_bytes(kept_path(folder, "train.bin"), ids, (size_t)stream->count * sizeof *ids);
    if (g->documents) write_tokenizer(folder);
}

/* Trains from the golden weights. Returns the folder of data, weights, dump and run. */
static char *train(const Golden *g, const char *optimizer, const char *more) {
    char *root = kept_folder();
    write_data(root, g);
    write_golden_base(&golden_file, root, g->biases ? NULL : ".bias");
    must_run(
        "%s --data %s --base-checkpoint %s/base.safetensors -o %s/run --debug-dump %s/dump %s %s --optimizer %s %s",
        program_at("train_slm"), root, root, root, root, options, g->options, optimizer, more);
    return root;
}

/* ---- what came out ---- */

static void check_first_step(const char *root, const Golden *g) {
    TensorFile base = open_in(root, "base.safetensors"), dump = open_in(root, "dump");
    char *prefix = kept_format("%s.grad.", g->name),
         *means = kept_format("%s.%s.means", g->name, g->documents ? "separate" : "packed");
    for (int i = 0; i < base.n_tensors; i++) {
        const char *name = base.tensors[i].name;
        float *want = floats(&golden_file, prefix, name), *got = floats(&dump, "grad.", name);
        assert_close(name, got, want, base.tensors[i].count, golden_tolerance);
        free(want);
        free(got);
    }
    float *loss = floats(&dump, "", "loss"), *want = floats(&golden_file, "", means);
    assert_close("loss", loss, want, 1, 1e-5);
    free(loss);
    free(want);
    tensor_file_close(&base);
    tensor_file_close(&dump);
}

static void check_golden(const Golden *g, const char *optimizer, const char *more) {
    char *root = train(g, optimizer, more), *run = kept_path(root, "run");
    char *prefix = kept_format("%s.%s.", g->name, optimizer);
    check_first_step(root, g);
    check_golden_log(&golden_file, run, "train/loss", prefix, "losses");
    check_golden_log(&golden_file, run, "train/grad_norm", prefix, "norms");
    check_golden_log(&golden_file, run, "train/lr", "", "rates");
    check_golden_moves(&golden_file, root, "run", prefix, 2e-4);
}

TEST(five_steps_of_adamw_are_the_golden_ones) {
    check_golden(&plain, "adamw", "-b 3");
    check_golden(&biased, "adamw", "-b 3");
}

TEST(five_steps_of_muon_are_the_golden_ones) {
    check_golden(&plain, "muon", "-b 3");
    check_golden(&biased, "muon", "-b 3");
}

TEST(micro_batches_add_up_to_the_golden_steps) {
    check_golden(&plain, "adamw", "-b 1 -g 3 --grad-checkpointing");
    check_golden(&plain, "muon", "-b 1 -g 3 --grad-checkpointing");
}

TEST(a_resumed_run_takes_the_golden_steps) {
    static const char *const optimizers[] = {"adamw", "muon"};
    for (int i = 0; i < 2; i++) {
        char *root = train(&biased, optimizers[i], "-b 3"), *prefix = kept_format("biased.%s.", optimizers[i]);
        must_run("%s --data %s --resume %s/run/step_00000003 -o %s/resumed %s %s --optimizer %s -b 3",
                 program_at("train_slm"), root, root, root, options, biased.options, optimizers[i]);
        check_golden_moves(&golden_file, root, "resumed", prefix, 2e-4);
    }
}

static int open_file_of_goldens(void **state) {
    (void)state;
    golden_file = open_golden("slm");
    return 0;
}

static int close_file_of_goldens(void **state) {
    (void)state;
    tensor_file_close(&golden_file);
    return 0;
}

int main(void) { return tests_run(open_file_of_goldens, close_file_of_goldens); }
