/* Which tokenizer and codes a training was on: its checkpoints say so, and what does not belong together is refused or
 * warned of. */
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/gpt/corpus.h"

/* Prepared data with a codebook, and without one, as prepare --indextts2 leaves it; weights without a
 * config.json and without our checksum, as IndexTTS2's are. */
static char *own, *semantic, *base;

static int open_fixture(void **state) {
    corpus_open(state);
    own = corpus_folder(corpus_reference(NULL));
    semantic = corpus_folder("semantic");
    base = corpus_folder("base.pth");
    char *run = corpus_folder("run");
    must_run("cp -r %s %s && rm %s/codebook.*", own, semantic, semantic);
    corpus_must_train(semantic, run, "");
    must_run("%s --checkpoint %s --output %s/exported && mv %s/exported/gpt.pth %s", program_at("train_gpt export"),
             run, corpus_root, corpus_root, base);
    return 0;
}

static int count(const char *text, const char *part) {
    int n = 0;
    while ((text = strstr(text, part))) n++, text++;
    return n;
}

/* Fails unless a JSON file has this text under the key; text NULL: unless it has no such key. */
static void assert_fact(const char *path, const char *key, const char *text) {
    json_error_t why;
    json_t *object = json_load_file(keep(follow_link(path)), 0, &why);
    if (!object) fail_msg("%s: %s", path, why.text);
    const char *found = json_string_value(json_object_get(object, key));
    if (!text)
        assert_null(found);
    else if (!found || strcmp(found, text))
        fail_msg("%s: %s is %s, expected %s", path, key, found ? found : "missing", text);
    json_decref(object);
}

/* Returns the checksum of a file below the root as 16 digits; free(). */
static char *sum_of(const char *folder, const char *name) {
    char *path = kept_path(folder, name), *bytes;
    size_t size;
    Error error;
    if (!read_file(path, &bytes, &size, &error)) fail_msg("%s: %s", path, error.text);
    char *text = xformat("%016llx", (unsigned long long)checksum(0, bytes, size));
    free(bytes);
    return text;
}

TEST(a_checkpoint_names_its_tokenizer_and_its_codes) {
    char *trained = corpus_folder("trained"), *mine = kept_path(trained, "last/config.json"),
         *theirs = corpus_folder("run/best/config.json"), *tokenizer = keep(sum_of(own, "bpe.model")),
         *codebook = keep(sum_of(own, "codebook.npy"));
    corpus_must_train(own, trained, "");
    assert_contains(fixture.output, "codebook.npy: codes of a codebook of train_gpt prepare: train_gpt decode makes");
    assert_int_equal(count(fixture.output, "[Codes]"), 1);
    assert_fact(mine, "tokenizer_xxh3_64", tokenizer);
    assert_fact(mine, "codes", "codebook");
    assert_fact(mine, "codebook_xxh3_64", codebook);
    assert_fact(theirs, "tokenizer_xxh3_64", tokenizer);
    assert_fact(theirs, "codes", "indextts2");
    assert_fact(theirs, "codebook_xxh3_64", NULL);
}

TEST(a_base_of_other_codes_is_warned_of_once) {
    char *output = corpus_folder("mixed"), *again = corpus_folder("again"),
         *options = kept_format("--base-checkpoint %s --max-steps 2", base),
         *same = kept_format("--base-checkpoint %s/last", output);
    corpus_must_train(own, output, options);
    assert_contains(fixture.output, "was trained on the semantic codes of IndexTTS2, and the manifests hold codes of "
                                    "the codebook ");
    assert_contains(fixture.output, "IndexTTS2 cannot make sound of what this training learns; for a model that "
                                    "IndexTTS2 speaks with, prepare the recordings with --indextts2");
    assert_contains(fixture.output, "It has no config.json of train_gpt, so it is taken as IndexTTS2's.");
    assert_int_equal(count(fixture.output, "warning"), 1);
    corpus_must_train(own, output, kept_format("--base-checkpoint %s --resume auto", base));
    assert_int_equal(count(fixture.output, "warning"), 0);
    corpus_must_train(own, again, same); /* the same codebook */
    assert_int_equal(count(fixture.output, "warning"), 0);
}

/* Trains on `data` from a base checkpoint, which must be warned of once for its unknown codes. */
static void assert_unknown(const char *data, const char *from, const char *known) {
    char *output = corpus_folder("unknown"), *options = kept_format("--base-checkpoint %s --max-steps 2", from);
    must_run("rm -rf %s", output);
    corpus_must_train(data, output, options);
    assert_contains(fixture.output, "does not say which codes it was trained on");
    assert_contains(fixture.output, known);
    assert_null(strstr(fixture.output, "was trained on the semantic codes"));
    assert_int_equal(count(fixture.output, "warning"), 1);
}

/* Removes the facts from a config.json, as checkpoints had none once. */
static void forget_facts(const char *path) {
    static const char *const facts[] = {"tokenizer_xxh3_64", "codes", "codebook_xxh3_64"};
    json_t *object = json_load_file(path, 0, NULL);
    assert_non_null(object);
    for (int i = 0; i < 3; i++) assert_int_equal(json_object_del(object, facts[i]), 0);
    json_sum_set(object, 17, 0);
    assert_int_equal(json_dump_file(object, path, JSON_INDENT(1) | JSON_REAL_PRECISION(17)), 0);
    json_decref(object);
}

TEST(a_base_of_ours_with_unknown_codes_is_not_taken_as_indextts2s) {
    char *trained = corpus_folder("known"), *bare = corpus_folder("bare.safetensors"), *old = corpus_folder("old"),
         *description = kept_path(old, "config.json");
    corpus_must_train(own, trained, "");
    must_run("cp %s/last/model.safetensors %s && cp -rL %s/last/. %s", trained, bare, trained, old);
    forget_facts(description);
    assert_unknown(own, bare, "the manifests hold codes of the codebook ");
    assert_unknown(own, old, "the manifests hold codes of the codebook ");
    assert_unknown(semantic, old, "the manifests hold the semantic codes of IndexTTS2: ");
}

/* IndexTTS2's codes and manifests without a codebook belong together; a config.json beside them may be anyone's. */
TEST(a_foreign_description_is_warned_of_once) {
    char *folder = corpus_folder("foreign"), *output = corpus_folder("from_foreign"),
         *options = kept_format("--base-checkpoint %s/gpt.pth --max-steps 2", folder);
    must_run("mkdir %s && cp %s %s/gpt.pth && echo '{\"model_type\": \"gpt2\"}' >%s/config.json", folder, base, folder,
             folder);
    corpus_must_train(semantic, output, options);
    assert_contains(fixture.output, "foreign/config.json is of another program, and is not read");
    assert_int_equal(count(fixture.output, "warning"), 1);
}

TEST(a_base_of_another_tokenizer_is_warned_of_once) {
    char *fewer = corpus_folder("fewer"), *first = corpus_folder("first"), *second = corpus_folder("second"),
         *options = kept_format("--base-checkpoint %s/last", first);
    corpus_prepare("fewer", "--vocabulary 55");
    must_run("cp %s/codebook.npy %s", own, fewer); /* the same codes */
    corpus_must_train(fewer, first, "");
    corpus_must_train(own, second, options);
    assert_contains(fixture.output, "/last was trained with another tokenizer: xxh3_64 ");
    assert_int_equal(count(fixture.output, "warning"), 1);
}

/* prepare trains a smaller vocabulary on the same texts to the first pieces of a larger one. */
TEST(ids_of_another_tokenizer_are_refused) {
    char *few = corpus_folder("few"), *other = corpus_folder("other_texts"), *list = corpus_folder("other.tsv"),
         *output = corpus_folder("refused"), *larger = kept_format("--tokenizer %s/bpe.model --dry-run", own);
    corpus_prepare("few", "--vocabulary 50");
    corpus_must_train(few, output, larger);
    must_run("sed 's/ሰላም/ፀሐይ/g;s/ቀን/ሌሊት/g' %s/list.tsv >%s", corpus_root, list);
    assert_int_equal(corpus_try_prepare("other_texts", "other.tsv", ""), 0);
    assert_int_equal(corpus_train(other, output, larger), 1);
    assert_contains(fixture.output, "other_texts/bpe.model made the text ids of its folder, and the tokenizer of this "
                                    "training is ");
    assert_int_equal(access(output, F_OK), -1);
}

TEST(codes_of_two_codebooks_are_refused) {
    char *output = corpus_folder("refused"),
         *more = kept_format("-m %s/manifest.jsonl -m %s/manifest.jsonl", own, semantic);
    assert_int_equal(corpus_train(own, output, more), 1);
    assert_contains(fixture.output, "semantic/manifest.jsonl holds the semantic codes of IndexTTS2");
    assert_contains(fixture.output, "Prepare all recordings with one codebook");
    assert_contains(fixture.output, "or prepare all with --indextts2");
}

/* The codes stay, but they are those of other sounds now. */
TEST(a_replaced_codebook_is_refused_on_resume) {
    char *data = corpus_folder("replaced"), *output = corpus_folder("stopped");
    must_run("cp -r %s %s", own, data);
    corpus_must_train(data, output, "--max-steps 2");
    must_run("printf x >>%s/codebook.npy", data);
    assert_int_equal(corpus_train(data, output, "--resume auto"), 1);
    assert_contains(fixture.output, ": codebook_xxh3_64 was \"");
    assert_contains(fixture.output, "put the old files back, or start a new run from the weights with "
                                    "--base-checkpoint ");
    must_run("truncate -s -1 %s/codebook.npy", data);
    corpus_must_train(data, output, "--resume auto");
}

int main(void) { return tests_run(open_fixture, NULL); }
