/* train_bert against transformers' RoBERTa in float64 (tests/reference/make_golden_bert.py), read from the files that
 * it writes: the first step's loss and gradients, and five steps of AdamW. The texts are words of one token each; every
 * epoch is one step. */
#include "data/bert/batch.h"
#include "tests/golden.h"
#include "tests/train_rig.h"

enum { FIRST_WORD = 4, WORDS = 48, VOCABULARY = 53 };

/* The values of make_golden_bert.py. */
static const char *const options =
    "--heads 4 --max-len 16 --dropout 0 --head-dropout 0 --threads 1 --log-interval 1 --max-steps 10 --epochs 10 "
    "--split-shares 100,0,0 --class-weights 0.6,1.1,2.8 --label-smoothing 0.1 --weight-decay 0.01 --grad-clip 1 "
    "--schedule linear --warmup-steps 0 --save-interval 1 --keep-checkpoints 20";

static TensorFile golden_file;

static const int32_t *ints(const char *name) { return find(&golden_file, "", name)->data; }

/* ---- data and weights ---- */

static FILE *create(const char *folder, const char *name) {
    FILE *file = fopen(kept_path(folder, name), "w");
    assert_non_null(file);
    return file;
}

/* Returns the word of an id: a letter, or "ab" for the last, which is merged of two. */
static const char *word(int32_t id) {
    static char letter[2];
    int place = id - FIRST_WORD;
    assert_true(place >= 0 && place < WORDS);
    letter[0] = (char)((place < 26 ? 'a' : 'A') + place % 26);
    return place == WORDS - 1 ? "ab" : letter;
}

/* Writes PhoBERT's files. */
static void write_tokenizer(const char *folder) {
    FILE *vocabulary = create(folder, "vocab.txt"), *codes = create(folder, "bpe.codes");
    for (int i = 0; i < WORDS; i++) fprintf(vocabulary, "%s %d\n", word(FIRST_WORD + i), WORDS - i);
    fprintf(codes, "a b</w> 1\n");
    assert_int_equal(fclose(vocabulary) + fclose(codes), 0);
}

static void write_data(const char *folder) {
    const int32_t *ids = ints("ids"), *offsets = ints("offsets"), *labels = ints("labels");
    FILE *file = create(folder, "train.csv");
    fprintf(file, "text,label\n");
    for (int64_t s = 0; s + 1 < find(&golden_file, "", "offsets")->count; s++) {
        for (int32_t i = offsets[s] + 1; i < offsets[s + 1] - 1; i++)
            fprintf(file, "%s%s", i > offsets[s] + 1 ? " " : "", word(ids[i]));
        fprintf(file, ",%d\n", labels[s]);
    }
    assert_int_equal(fclose(file), 0);
}

/* Trains from the golden weights. Returns the folder of data, weights, dump and run. */
static char *train(const char *more) {
    char *root = kept_folder();
    write_tokenizer(root);
    write_data(root);
    write_golden_base(&golden_file, root, "lm_head"); /* the classifier */
    must_run("%s --data %s/train.csv --tokenizer %s --base-checkpoint %s/base.safetensors -o %s/run --debug-dump "
             "%s/dump %s %s",
             program_at("train_bert"), root, root, root, root, root, options, more);
    return root;
}

/* ---- what came out ---- */

static void check_first_step(const char *root) {
    TensorFile dump = open_in(root, "dump");
    static const char prefix[] = "classes.grad.";
    int n = 0;
    for (int i = 0; i < golden_file.n_tensors; i++) {
        const char *name = golden_file.tensors[i].name;
        if (strncmp(name, prefix, sizeof prefix - 1) != 0) continue;
        name += sizeof prefix - 1;
        float *want = floats(&golden_file, prefix, name), *got = floats(&dump, "grad.", name);
        assert_close(name, got, want, golden_file.tensors[i].count, golden_tolerance);
        free(want);
        free(got);
        n++;
    }
    assert_int_equal(n, 39);
    float *loss = floats(&dump, "", "loss"), *want = floats(&golden_file, "", "classes.means");
    assert_close("loss", loss, want, 1, 1e-5);
    free(loss);
    free(want);
    tensor_file_close(&dump);
}

/* Rounding of weights limits how well small moves are known (test_golden.c). */
static void check_golden(const char *prefix, const char *more, double tolerance) {
    char *root = train(more), *run = kept_path(root, "run");
    check_first_step(root);
    check_golden_log(&golden_file, run, "train/loss", prefix, "losses");
    check_golden_log(&golden_file, run, "train/grad_norm", prefix, "norms");
    check_golden_log(&golden_file, run, "train/lr", prefix, "rates");
    check_golden_moves(&golden_file, root, "run", prefix, tolerance);
}

TEST(five_steps_are_the_golden_ones) {
    check_golden("classes.small.", "-b 6 --learning-rate 2e-5 --compact-vocabulary=false", 2e-3);
    check_golden("classes.large.", "-b 6 --learning-rate 1e-3 --compact-vocabulary=false", 2e-4);
}

/* The weights of a step's classes divide its loss, not those of a micro-batch. */
TEST(micro_batches_add_up_to_the_golden_steps) {
    check_golden("classes.large.",
                 "-b 2 -g 3 --loss-norm batch --grad-checkpointing --learning-rate 1e-3 --compact-vocabulary=false",
                 2e-4);
}

TEST(a_resumed_run_takes_the_golden_steps) {
    static const char *const more = "-b 6 --learning-rate 1e-3 --compact-vocabulary=false";
    char *root = train(more);
    must_run("%s --data %s/train.csv --tokenizer %s --base-checkpoint %s/base.safetensors --resume "
             "%s/run/step_00000003 -o %s/resumed %s %s",
             program_at("train_bert"), root, root, root, root, root, options, more);
    check_golden_moves(&golden_file, root, "resumed", "classes.large.", 2e-4);
}

/* Rows of tokens that no text has stay as they are; all else moves, bit for bit, as if weight decay had moved them. */
TEST(unused_rows_stay_and_all_else_has_the_same_bits) {
    static const char table[] = "roberta.embeddings.word_embeddings.weight";
    char *roots[] = {train("-b 6 --learning-rate 1e-3 --compact-vocabulary=false"),
                     train("-b 6 --learning-rate 1e-3 --compact-vocabulary")};
    TensorFile base = open_in(roots[0], "base.safetensors"), files[2];
    for (int i = 0; i < 2; i++) {
        files[i] = open_in(kept_path(roots[i], "run/step_00000005"), "model.safetensors");
    }
    bool used[VOCABULARY] = {false};
    for (int64_t i = 0; i < find(&golden_file, "", "ids")->count; i++) used[ints("ids")[i]] = true;
    for (int t = 0; t < base.n_tensors; t++) {
        const char *name = base.tensors[t].name;
        const StoredTensor *all = find(&files[0], "", name), *compact = find(&files[1], "", name),
                           *start = &base.tensors[t];
        int64_t rows = strcmp(name, table) != 0 ? 1 : VOCABULARY, row = all->count / rows;
        for (int64_t r = 0; r < rows; r++) {
            const StoredTensor *want = rows > 1 && !used[r] ? start : all;
            const float *a = (const float *)want->data + r * row, *b = (const float *)compact->data + r * row;
            if (memcmp(a, b, (size_t)row * sizeof *a) != 0) fail_msg("%s: row %d", name, (int)r);
        }
    }
    tensor_file_close(&base);
    for (int i = 0; i < 2; i++) {
        tensor_file_close(&files[i]);
        free(roots[i]);
    }
}

/* Returns whether a step has left this row of a table as it was. */
static bool row_stays(const TensorFile *before, const TensorFile *after, const char *name, int64_t row) {
    const StoredTensor *a = find(before, "", name), *b = find(after, "", name);
    size_t bytes = (size_t)a->dims[1] * sizeof(float);
    return !memcmp((const char *)a->data + (size_t)row * bytes, (const char *)b->data + (size_t)row * bytes, bytes);
}

/* Hugging Face's tokenizer and model together make of "a <pad> b" <s> a <pad> b </s> at the positions 2 3 1 4 5. */
TEST(a_pad_that_a_text_writes_out_is_not_trained) {
    static const char places[] = "roberta.embeddings.position_embeddings.weight",
                      tokens[] = "roberta.embeddings.word_embeddings.weight";
    char *root = kept_folder(), *data = kept_path(root, "train.csv");
    write_tokenizer(root);
    write_text(data, "text,label\na <pad> b,0\nb <pad> <pad> a,1\nc <pad>,2\n");
    write_golden_base(&golden_file, root, "lm_head");
    must_run("%s --data %s --tokenizer %s --base-checkpoint %s/base.safetensors -o %s/run %s --weight-decay 0 --compat "
             "--max-steps 1",
             program_at("train_bert"), data, root, root, root, options);
    char *checkpoint = kept_path(root, "run/step_00000001");
    TensorFile before = open_in(root, "base.safetensors"), after = open_in(checkpoint, "model.safetensors");
    assert_true(row_stays(&before, &after, places, BERT_PAD) && row_stays(&before, &after, tokens, BERT_PAD));
    for (int64_t row = 2; row <= 5; row++) assert_false(row_stays(&before, &after, places, row));
    assert_true(row_stays(&before, &after, places, 6)); /* no text has more than four tokens besides <pad> */
    assert_false(row_stays(&before, &after, tokens, FIRST_WORD));
    tensor_file_close(&before);
    tensor_file_close(&after);
}

static int open_file_of_goldens(void **state) {
    (void)state;
    golden_file = open_golden("bert");
    return 0;
}

static int close_file_of_goldens(void **state) {
    (void)state;
    tensor_file_close(&golden_file);
    return 0;
}

int main(void) { return tests_run(open_file_of_goldens, close_file_of_goldens); }
