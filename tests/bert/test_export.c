/* train_bert export: what it writes is what transformers writes of the same model, an import of it has the same weights
 * bit by bit, and nothing wrong is written. tests/reference/check_bert_export.py loads such folders in transformers. */
#include "data/text/sentencepiece.h"
#include "tests/bert/use_rig.h"

static void assert_text(const char *name, const char *want) { assert_string_equal(kept_text(bert_path(name)), want); }

/* Fails unless every tensor of a file is in another one, bit by bit. */
static void assert_has_tensors(const char *all, const char *some) {
    TensorFile x = open_file(some), y = open_file(all);
    for (int i = 0; i < x.n_tensors; i++) {
        const StoredTensor *p = &x.tensors[i], *q = find(&y, "", p->name);
        assert_string_equal(p->dtype, q->dtype);
        assert_int_equal(p->rank, q->rank);
        assert_memory_equal(p->dims, q->dims, (size_t)p->rank * sizeof *p->dims);
        if (memcmp(p->data, q->data, p->bytes)) fail_msg("%s differs", p->name);
    }
    tensor_file_close(&x);
    tensor_file_close(&y);
}

TEST(a_folder_is_as_transformers_saves_it) {
    bert_must_use("export --checkpoint " GOLDEN "bert_hf -o %s", bert_path("hf"));
    assert_contains(fixture.output, "5443 parameters in 41 tensors");
    must_run("ls -A %s | tr '\\n' ' '", bert_path("hf"));
    assert_string_equal(fixture.output, "bpe.codes config.json model.safetensors special_tokens_map.json "
                                        "tokenizer_config.json vocab.txt ");
    must_run("cd %s && cmp bpe.codes $OLDPWD/" GOLDEN "bert_hf/bpe.codes && cmp vocab.txt $OLDPWD/" GOLDEN
             "bert_hf/vocab.txt",
             bert_path("hf"));
    assert_has_tensors(bert_path("hf/model.safetensors"), GOLDEN "bert_hf/model.safetensors");
    assert_has_tensors(GOLDEN "bert_hf/model.safetensors", bert_path("hf/model.safetensors"));
    TensorFile file = open_file(bert_path("hf/model.safetensors"));
    assert_string_equal(tensor_file_metadata(&file, "format"), "pt");
    tensor_file_close(&file);
    assert_text("hf/tokenizer_config.json",
                "{\n  \"tokenizer_class\": \"PhobertTokenizer\",\n  \"model_max_length\": 12,\n"
                "  \"clean_up_tokenization_spaces\": false,\n  \"bos_token\": \"<s>\",\n  \"cls_token\": \"<s>\",\n"
                "  \"eos_token\": \"</s>\",\n  \"sep_token\": \"</s>\",\n  \"pad_token\": \"<pad>\",\n"
                "  \"mask_token\": \"<mask>\",\n  \"unk_token\": \"<unk>\"\n}\n");
}

/* Every field that transformers wrote and the model depends on has its value. */
TEST(the_configuration_is_that_of_transformers) {
    static const char *const names[] = {"architectures",
                                        "attention_probs_dropout_prob",
                                        "bos_token_id",
                                        "eos_token_id",
                                        "dtype",
                                        "hidden_act",
                                        "hidden_dropout_prob",
                                        "hidden_size",
                                        "id2label",
                                        "layer_norm_eps",
                                        "initializer_range",
                                        "intermediate_size",
                                        "num_attention_heads",
                                        "num_hidden_layers",
                                        "pad_token_id",
                                        "model_type",
                                        "max_position_embeddings",
                                        "tie_word_embeddings",
                                        "type_vocab_size",
                                        "vocab_size"};
    bert_must_use("export --checkpoint " GOLDEN "bert_hf -o %s", bert_path("config"));
    json_t *ours = json_load_file(bert_path("config/config.json"), 0, NULL),
           *theirs = json_load_file(GOLDEN "bert_hf/config.json", 0, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!json_equal(json_object_get(ours, names[i]), json_object_get(theirs, names[i])))
            fail_msg("%s is another", names[i]);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(ours, "label2id"), "hate, \"loud\"")), 2);
    json_decref(ours);
    json_decref(theirs);
}

TEST(an_export_of_an_export_is_the_same) {
    static const char *const models[][2] = {{"bert_hf", ""}, {"bert_masked", "--tokenizer " GOLDEN "bert_hf"}};
    for (int k = 0; k < 2; k++) {
        const char *first = bert_path(kept_format("%s1", models[k][0])),
                   *second = bert_path(kept_format("%s2", models[k][0]));
        bert_must_use("export --checkpoint " GOLDEN "%s %s -o %s", models[k][0], models[k][1], first);
        bert_must_use("export --checkpoint %s -o %s", first, second);
        must_run("diff -r %s %s", first, second);
    }
    assert_has_tensors(GOLDEN "bert_masked/pytorch_model.bin", bert_path("bert_masked1/model.safetensors"));
    must_run("grep -c RobertaForMaskedLM %s && ! grep -l id2label %s", bert_path("bert_masked1/config.json"),
             bert_path("bert_masked1/config.json"));
    TensorFile file = open_file(bert_path("bert_masked1/model.safetensors"));
    assert_null(tensor_file_find(&file, "lm_head.decoder.weight")); /* tied */
    assert_non_null(tensor_file_find(&file, "lm_head.bias"));
    tensor_file_close(&file);
}

/* The folder is all that predictions need: rules of texts, names of classes, threshold and temperature. */
TEST(a_run_is_exported_with_its_decision) {
    const char *run = bert_trained(), *out = bert_path("exported"), *texts = kept_path(fixture.data, "test.csv");
    bert_must_use("export --checkpoint %s -o %s", run, out);
    assert_contains(fixture.output, "the best weights of the run");
    bert_must_use("predict --checkpoint %s %s -o %s", run, texts, bert_path("run.csv"));
    bert_must_use("predict --checkpoint %s %s -o %s", out, texts, bert_path("out.csv"));
    must_run("cmp %s %s && grep -c threshold %s && grep -c '\"max-len\": 24' %s/config.json", bert_path("run.csv"),
             bert_path("out.csv"), bert_path("out.csv"), out);
    assert_int_equal(bert_use("predict --checkpoint %s --compat %s -o %s", out, texts, bert_path("no.csv")), 2);
    assert_contains(fixture.output, "--compat true contradicts ");
    bert_must_use("--data %s --base-checkpoint %s --max-steps 1 --threads 1 -b 8 -o %s", fixture.data, out,
                  bert_path("again"));
    assert_contains(fixture.output, "41 tensors loaded, 0 resized");
}

/* AutoTokenizer does not read a SentencePiece model, which no line of the export may promise. */
TEST(a_sentencepiece_model_is_exported_with_a_warning) {
    char *path = kept_path(fixture.data, "train.csv"), *texts = kept_text(path);
    const char *model = bert_path("pieces.model"), *run = bert_path("pieces"), *out = bert_path("with_pieces");
    Error error;
    if (!sentencepiece_train_bpe(texts, strlen(texts), model, 60, &error)) fail_msg("%s", error.text);
    bert_must_use("--data %s --tokenizer %s --layers 1 --d-model 16 --heads 2 --max-steps 1 --threads 1 -o %s",
                  fixture.data, model, run);
    bert_must_use("export --checkpoint %s -o %s", run, out);
    assert_contains(fixture.output, "AutoTokenizer.from_pretrained does not read tokenizer.model");
    assert_contains(fixture.output, "AutoModelForSequenceClassification.from_pretrained reads it");
    must_run("cmp %s %s/tokenizer.model", model, out);
}

TEST(exports_that_would_be_wrong_are_refused) {
    must_run("mkdir %s && echo 1 >%s/theirs && cp -r " GOLDEN "bert_hf %s && rm %s/*.json", bert_path("taken"),
             bert_path("taken"), bert_path("bare"), bert_path("bare"));
    const Refusal refusals[] = {
        {1, "--checkpoint nowhere", "--checkpoint nowhere: No such file"},
        {1, kept_format("--checkpoint %s", bert_path("taken")), "it holds neither a run nor a checkpoint"},
        {1, "--checkpoint " GOLDEN "weights.safetensors", "it is no model that this program reads"},
        {2, kept_format("--checkpoint %s", bert_path("bare")), "does not follow from its tensors: give --heads"},
        {2, "--checkpoint " GOLDEN "bert_hf --heads 4", "--heads 4 contradicts "},
        {2, "--checkpoint " GOLDEN "bert_masked", "which tokenizer it was trained with: give --tokenizer"},
        {1, "--checkpoint " GOLDEN "bert_old --heads 2 --tokenizer " GOLDEN "bert_hf",
         "it has neither a classifier nor the head of a masked language model"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(bert_use("export %s -o %s", refusals[i].options, bert_path("x")), &refusals[i]);
    assert_int_equal(access(bert_path("x"), F_OK), -1);
    const Refusal taken = {1, "", "it holds theirs already; choose a new"};
    assert_refused(bert_use("export --checkpoint " GOLDEN "bert_hf -o %s", bert_path("taken")), &taken);
}

int main(void) { return tests_run(bert_fixture_open, NULL); }
