/* train_gpt prepare --indextts2 as a user meets it, with tiny networks in the place of the published ones: what it
 * writes, what it reuses, and what it refuses. */
#include <sys/stat.h>

#include "data/ledger.h"
#include "tests/gpt/indextts2_rig.h"
#include "tests/gpt/published_rig.h"
#include "tests/sounds.h"

static Error error;

/* ---- what it writes ---- */

TEST(what_was_computed_is_told) {
    const char *told;
    published_reference(&told);
    assert_contains(told, "[Device] cpu: 1 thread");
    assert_contains(told, "; products of f32, of the conditioning f32\n");
    assert_contains(told, "[Memory] weights ");
    assert_contains(told, "[Features] of the first 30.3 s: channels have the mean ");
    assert_contains(told, "[Codes] of IndexTTS2's semantic codec: ");
    assert_contains(told, " of 64 are used\n[Codes] 16 clips coded, 0 reused\n");
    assert_contains(told, "[Data] 16 of 22 clips, 30.6 s, 4 speakers: 9 for training, 7 for validation\n");
    assert_null(strstr(told, "--codebook"));
    json_t *stats = corpus_read_json("reference", "stats.json");
    assert_int_equal(corpus_number(stats, "total"), CORPUS_KEPT);
    assert_int_equal(corpus_number(stats, "entries"), PUBLISHED_CODES);
    assert_int_equal(corpus_number(stats, "d_model"), PUBLISHED_WIDTH);
    assert_true(json_is_null(json_object_get(stats, "codebook")));
    assert_string_equal(corpus_text(stats, "gpt_checkpoint"), published_path(corpus_folder("published"), INDEX_GPT));
    json_decref(stats);
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(access(corpus_path("reference", i ? "codebook.json" : "codebook.npy"), F_OK), 0);
}

TEST(the_time_and_what_it_costs_are_told) {
    published_prepare("priced", "--price 1000000EUR");
    assert_contains(fixture.output, "[Features] 30.6 s of speech in ");
    const char *cost = strstr(fixture.output, " x real time, ");
    double amount = 0;
    assert_non_null(cost);
    assert_int_equal(sscanf(cost, " x real time, %lf EUR", &amount), 1);
    assert_true(amount > 0);
    published_prepare("unpriced", "--price l4=0.80");
    assert_contains(fixture.output, " x real time\n");
}

TEST(every_manifest_names_files_of_the_right_shapes) {
    json_t *lines = corpus_read_lines(published_reference(NULL), "manifest.jsonl"), *line;
    size_t i;
    assert_int_equal(json_array_size(lines), CORPUS_KEPT);
    json_array_foreach(lines, i, line) {
        static const struct {
            const char *folder, *length;
            char kind;
            int64_t columns;
        } files[] = {{"text_ids", "text_len", 'i', 0},
                     {"codes", "code_len", 'i', 0},
                     {"condition", "condition_len", 'f', PUBLISHED_WIDTH},
                     {"emo_vec", NULL, 'f', 0}};
        int64_t dims[2];
        for (int f = 0; f < 4; f++) {
            free(corpus_read_array("reference", files[f].folder, corpus_ids[i], files[f].kind, dims));
            assert_int_equal(dims[0], files[f].length ? corpus_number(line, files[f].length) : PUBLISHED_WIDTH);
            assert_int_equal(dims[1], files[f].columns);
        }
    }
    json_decref(lines);
}

/* ---- the numbers ---- */

/* Fails unless an output has the bits of a clip of what the networks compute. */
static void check_directly(PublishedNets *nets, const char *output, const char *id, const char *sound) {
    PublishedResults want = published_compute(nets, sound);
    int64_t dims[3];
    int32_t *codes = corpus_read_array(output, "codes", id, 'i', dims);
    float *condition = corpus_read_array(output, "condition", id, 'f', dims + 1),
          *emotion = corpus_read_array(output, "emo_vec", id, 'f', dims + 1);
    assert_int_equal(dims[0], want.rows);
    assert_memory_equal(codes, want.codes, (size_t)want.rows * sizeof *codes);
    assert_memory_equal(condition, want.condition, 32 * PUBLISHED_WIDTH * sizeof(float));
    assert_memory_equal(emotion, want.emotion, PUBLISHED_WIDTH * sizeof(float));
    FREE(codes, condition, emotion);
    published_results_free(&want);
}

TEST(files_hold_what_the_networks_compute_of_each_clip_alone) {
    PublishedNets nets;
    published_nets_open(&nets);
    published_reference(NULL);
    for (int i = 0; i < 4; i++) check_directly(&nets, "reference", corpus_ids[i], published_sound(i));
    published_nets_close(&nets);
}

/* An independent computation in float64 has the same sound: 65 frames, so that half a row is masked. */
TEST(codes_and_emotion_are_the_golden_ones) {
    enum { SAMPLES = 16080, ROWS = 33 };
    TensorFile front = open_golden("speech_front"), chain = open_golden("indextts2");
    float *sound = floats(&front, "", "a_24k"), *margins = floats(&chain, "a.", "margin");
    char *path = corpus_folder("golden.wav");
    int64_t dims[2];
    write_sound(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 24000, 1, sound, SAMPLES);
    write_text(corpus_folder("golden.tsv"), "a\ts\tgolden.wav\tሰላም ለዓለም\n");
    int status = published_try("golden", "golden.tsv", "published", "--min-duration 0.5 --max-silence 1");
    if (status) fail_msg("%s", fixture.output);
    int32_t *codes = corpus_read_array("golden", "codes", "a", 'i', dims);
    assert_int_equal(dims[0], ROWS);
    for (int i = 0; i < ROWS; i++) {
        assert_true(margins[i] >= 1e-4f);
        assert_int_equal(codes[i], ((const int32_t *)find(&chain, "a.", "codes")->data)[i]);
    }
    float *emotion = corpus_read_array("golden", "emo_vec", "a", 'f', dims);
    check_golden_numbers(&chain, "a.emo", emotion, PUBLISHED_WIDTH);
    FREE(sound, margins, codes, emotion);
    tensor_file_close(&front);
    tensor_file_close(&chain);
}

TEST(one_and_two_workers_write_the_same_bytes) {
    published_reference(NULL);
    published_prepare("two", "--num-workers 2");
    corpus_assert_same("two", "reference");
}

/* ---- runs over what is there ---- */

TEST(a_second_run_computes_nothing_and_changes_no_file) {
    published_prepare("again", "--num-workers 2");
    char *path = corpus_path("again", "condition/spk001_000001.npy");
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    published_prepare("again", "--num-workers 2");
    assert_contains(fixture.output, "[Audio] 0 clips read, 20 reused\n");
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
    assert_null(strstr(fixture.output, "[Device]")); /* and reads no weights into one */
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    corpus_assert_same("again", published_reference(NULL));
}

TEST(missing_and_damaged_files_are_made_again) {
    static const char *const folders[] = {"emo_vec", "condition", "text_ids", "codes"};
    published_prepare("missing", "--num-workers 2");
    for (int i = 0; i < 4; i++) {
        char *path = corpus_path("missing", kept_format("%s/%s.npy", folders[i], corpus_ids[5])), *bytes;
        size_t size;
        assert_true(read_file(path, &bytes, &size, &error));
        bytes[size - 3] ^= 1;
        if (i % 2)
            write_bytes(path, bytes, size);
        else
            assert_int_equal(unlink(path), 0);
        published_prepare("missing", "--num-workers 2");
        assert_contains(fixture.output,
                        i == 2 ? "[Codes] 0 clips coded, 16 reused; of 1 of them only the text ids were written\n"
                               : "[Codes] 1 clips coded, 15 reused; 1 of them were coded before");
        corpus_assert_same("missing", published_reference(NULL));
        free(bytes);
    }
}

/* Each file decides about numbers; the clips are coded anew, and with the former weights as they were. */
TEST(other_weights_are_seen) {
    static const struct {
        IndexFile file;
        const char *scaled, *folder;
    } cases[] = {{INDEX_GPT, "emo_layer.weight", "emo_vec"},
                 {INDEX_STATISTICS, "mean", "condition"},
                 {INDEX_W2V, "encoder.layers.1.ffn1.output_dense.weight", "condition"},
                 {INDEX_CODEC, "encoder.1.weight", "codes"}};
    const char *all = "[Codes] 16 clips coded, 0 reused; 16 of them were coded before, but their audio, "
                      "or the weights of IndexTTS2 has changed";
    published_prepare("weights", "--num-workers 2");
    for (int i = 0; i < INDEX_FILES; i++) {
        char *folder = published_folder(kept_format("published%d", i)),
             *name = kept_format("%s/%s.npy", cases[i].folder, corpus_ids[3]), *before, *after;
        size_t size, now;
        published_write(folder, cases[i].file, &(PublishedChange){.scaled = cases[i].scaled, .factor = -1.25f});
        assert_true(read_file(corpus_path("weights", name), &before, &size, &error));
        int status = published_try("weights", "list.tsv", kept_format("published%d", i), "--num-workers 2");
        if (status) fail_msg("%s", fixture.output);
        assert_contains(fixture.output, all);
        assert_true(read_file(corpus_path("weights", name), &after, &now, &error));
        if (now == size && !memcmp(before, after, size)) fail_msg("%s decides nothing", cases[i].scaled);
        FREE(before, after);
    }
    published_prepare("weights", "--num-workers 2");
    assert_contains(fixture.output, all);
    corpus_assert_same("weights", published_reference(NULL));
}

TEST(a_changed_recording_is_seen) {
    static const char swap[] = "cd %s/audio && mv %s.wav x.wav && mv %s.wav %s.wav && mv x.wav %s.wav";
    const char *a = corpus_ids[0], *b = corpus_ids[4];
    published_prepare("sound", "--num-workers 2");
    for (int i = 0; i < 2; i++) {
        must_run(swap, corpus_root, a, b, a, b);
        published_prepare("sound", "--num-workers 2");
        assert_contains(fixture.output, "[Audio] 2 clips read, 18 reused\n");
        assert_contains(fixture.output, "[Codes] 2 clips coded, 14 reused; 2 of them were coded before");
    }
    corpus_assert_same("sound", published_reference(NULL));
}

/* Another text is another tokenizer, too. */
TEST(another_text_changes_no_codes) {
    published_prepare("texts", "--num-workers 2");
    must_run("sed '/%s/s/$/ ሰላም/' %s/list.tsv >%s/texts.tsv", corpus_ids[2], corpus_root, corpus_root);
    for (int i = 0; i < 2; i++) {
        int status = published_try(i ? "texts" : "texts_alone", "texts.tsv", "published", "");
        if (status) fail_msg("%s", fixture.output);
    }
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused; of ");
    assert_contains(fixture.output, " of them only the text ids were written\n");
    corpus_assert_same("texts", "texts_alone");
}

TEST(two_at_once_are_refused) {
    published_reference(NULL);
    Ledger *ledger = ledger_open(corpus_path("reference", ".prepare_ledger.jsonl"), &error);
    assert_non_null(ledger);
    assert_int_equal(published_try("reference", "list.tsv", "published", ""), 1);
    assert_contains(fixture.output, "another process is at work in this directory");
    ledger_close(ledger);
}

/* ---- weights that are refused ---- */

/* Fails unless a run ends with this status and one line with these words, and has made no output. */
static void check_refused(const char *weights, const char *more, int status, const char *first, const char *second) {
    int got = published_try("refused", "list.tsv", weights, more);
    const char *said = strstr(fixture.output, "train_gpt prepare: ");
    if (got != status || !said) fail_msg("exit status %d:\n%s", got, fixture.output);
    assert_contains(said, first);
    assert_contains(said, second);
    if (status == 1 && strchr(said, '\n') != said + strlen(said) - 1) fail_msg("more than one line:\n%s", said);
    assert_null(strstr(fixture.output, "[Audio]"));
    assert_int_not_equal(access(corpus_folder("refused"), F_OK), 0);
}

TEST(missing_weights_are_named_with_their_source) {
    static const char *const wanted[INDEX_FILES] = {
        [INDEX_GPT] = "gpt.pth (huggingface.co/IndexTeam/IndexTTS-2)",
        [INDEX_STATISTICS] = "wav2vec2bert_stats.pt (huggingface.co/IndexTeam/IndexTTS-2)",
        [INDEX_W2V] = "w2v-bert-2.0 with its model.safetensors (huggingface.co/facebook/w2v-bert-2.0)",
        [INDEX_CODEC] = "semantic_codec/model.safetensors (huggingface.co/amphion/MaskGCT)"};
    for (int i = 0; i < INDEX_FILES; i++) {
        char *folder = published_folder("lacking");
        assert_int_equal(unlink(published_path(folder, (IndexFile)i)), 0);
        check_refused("lacking", "", 1, "lacking: not found there, nor in a cache of Hugging Face: ", wanted[i]);
        assert_null(strstr(fixture.output, wanted[(i + 1) % INDEX_FILES]));
    }
    check_refused("nowhere", "", 1, "--indextts2 ", "nowhere: is no folder\n");
}

/* Under other names, by config.yaml, in a cache of the hub beside them, and in the user's, whose last copy counts. */
TEST(weights_are_found_where_programs_and_downloads_put_them) {
    static const char *const steps[] = {
        "mkdir -p facebook && mv w2v-bert-2.0 facebook",
        "mkdir deep && mv gpt.pth deep/my.pth && printf 'dataset:\\n  rate: 24000\\ngpt_checkpoint: deep/my.pth\\n' "
        ">config.yaml",
        "d=hf_cache/models--amphion--MaskGCT/snapshots/abc && mkdir -p $d && mv semantic_codec $d",
        "d=$HOME/.cache/huggingface/hub/models--IndexTeam--IndexTTS-2/snapshots && mkdir -p $d/1 $d/2 && "
        "echo old >$d/1/wav2vec2bert_stats.pt && mv wav2vec2bert_stats.pt $d/2",
        "d=hf_cache/models--facebook--w2v-bert-2.0/snapshots && mkdir -p $d/1 $d/2 && >$d/2/config.json && "
        "mv facebook/w2v-bert-2.0/* $d/1 && rm -r facebook"};
    static const char *const found[] = {"/spread/facebook/w2v-bert-2.0/model.safetensors, ", "/spread/deep/my.pth, ",
                                        "/spread/hf_cache/models--amphion--MaskGCT/snapshots/abc/semantic_codec/"
                                        "model.safetensors\n",
                                        "/models--IndexTeam--IndexTTS-2/snapshots/2/wav2vec2bert_stats.pt, ",
                                        "/models--facebook--w2v-bert-2.0/snapshots/1/model.safetensors, "};
    char *folder = published_folder("spread");
    for (int i = 0; i < 5; i++) {
        must_run("cd %s && %s", folder, steps[i]);
        int status = published_try(published_reference(NULL), "list.tsv", "spread", "");
        if (status) fail_msg("%s", fixture.output);
        assert_contains(fixture.output, found[i]);
        assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
    }
    must_run("mv %s '%s[v2]'", folder, folder);
    if (published_try(published_reference(NULL), "list.tsv", "spread[v2]", "")) fail_msg("%s", fixture.output);
    published_prepare("reference", "");
    must_run("rm -r %s/.cache", corpus_root);
}

static const struct {
    IndexFile file;
    PublishedChange change;
    const char *first, *second;
} unfit[] = {
    {INDEX_W2V,
     {.without = "encoder.layers.2.final_layer_norm.bias"},
     "model.safetensors does not fit w2v-BERT",
     "1 of 100 tensors: encoder.layers.2.final_layer_norm.bias is missing"},
    {INDEX_W2V,
     {.shorter = "encoder.layers.0.ffn1.output_dense.bias"},
     "model.safetensors does not fit w2v-BERT",
     "encoder.layers.0.ffn1.output_dense.bias is F32 [31], expected [32]"},
    {INDEX_CODEC,
     {.without = "encoder.0.convnext.2.gamma"},
     "model.safetensors does not fit",
     "encoder.0.convnext.2.gamma is missing"},
    {INDEX_CODEC,
     {.more = "encoder.0.convnext.3.gamma"},
     "model.safetensors does not fit",
     "it has encoder.0.convnext.3.gamma, and there are 3 such blocks in IndexTTS2's"},
    {INDEX_CODEC,
     {.prefix = "model.", .more = "down.weight"},
     "model.safetensors is of IndexTTS 2.5",
     "give semantic_codec/model.safetensors (huggingface.co/amphion/MaskGCT)"},
    {INDEX_GPT,
     {.without = "conditioning_encoder.encoders.1.norm_ff.bias"},
     "gpt.pth does not fit",
     "conditioning_encoder.encoders.1.norm_ff.bias is missing"},
    {INDEX_GPT,
     {.shorter = "perceiver_encoder.latents"},
     "gpt.pth does not fit",
     "perceiver_encoder.latents is F32 [31, 20], expected [32, 20]"},
    {INDEX_GPT,
     {.more = "emo_conditioning_encoder.encoders.2.norm_ff.weight"},
     "gpt.pth does not fit",
     "there are 2 such blocks in IndexTTS2's (huggingface.co/IndexTeam/IndexTTS-2)"},
    {INDEX_GPT,
     {.more = "spk_emb_proj.weight"},
     "gpt.pth is of IndexTTS 2.5, which has 25 codes a second",
     "give the gpt.pth of IndexTTS2"},
    {INDEX_GPT,
     {.prefix = "module.", .more = "lang_embedding.weight"},
     "gpt.pth is of IndexTTS 2.5",
     "give the gpt.pth of IndexTTS2"},
    {INDEX_GPT,
     {.without = "emo_layer.weight"},
     "gpt.pth is of IndexTTS 1 or 1.5, which has no emotions",
     "give the gpt.pth of IndexTTS2"},
    {INDEX_STATISTICS,
     {.without = "var"},
     "wav2vec2bert_stats.pt: expected the tensors mean and var",
     "32 numbers each"},
    {INDEX_STATISTICS,
     {.shorter = "mean"},
     "wav2vec2bert_stats.pt: expected the tensors mean and var",
     "32 numbers each"},
    {INDEX_STATISTICS,
     {.scaled = "var", .factor = 0},
     "wav2vec2bert_stats.pt: number 0: ",
     "variance 0, expected a variance above 0"},
    {INDEX_STATISTICS, {.scaled = "mean", .factor = INFINITY}, "wav2vec2bert_stats.pt: number 0: mean ", "inf"},
};

TEST(weights_that_do_not_fit_are_refused) {
    for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
        char *folder = published_folder("unfit");
        published_write(folder, unfit[i].file, &unfit[i].change);
        check_refused("unfit", "", 1, unfit[i].first, unfit[i].second);
    }
}

TEST(truncated_weights_are_refused) {
    for (int i = 0; i < INDEX_FILES; i++) {
        char *folder = published_folder("cut"), *path = published_path(folder, (IndexFile)i);
        struct stat status;
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(truncate(path, status.st_size / 2), 0);
        check_refused("cut", "", 1, path, "");
        if (i != INDEX_GPT) continue; /* which is looked into if another one is missing */
        assert_int_equal(unlink(published_path(folder, INDEX_CODEC)), 0);
        check_refused("cut", "", 1, "not found there", "semantic_codec/model.safetensors (");
    }
}

/* The files of 2.5 have other names: the version is told although some are missing. */
TEST(a_folder_of_another_version_is_told_as_such) {
    char *folder = published_folder("other");
    published_write(folder, INDEX_GPT, &(PublishedChange){.more = "lang_embedding.weight"});
    assert_int_equal(unlink(published_path(folder, INDEX_CODEC)), 0);
    check_refused("other", "", 1, "gpt.pth is of IndexTTS 2.5", "give the gpt.pth of IndexTTS2");
}

TEST(names_may_have_prefixes) {
    static const struct {
        IndexFile file;
        const char *prefix;
    } cases[] = {{INDEX_GPT, "model."}, {INDEX_GPT, "module."}, {INDEX_W2V, "wav2vec2_bert."}, {INDEX_CODEC, "model."}};
    published_reference(NULL);
    for (int i = 0; i < 4; i++) {
        char *folder = published_folder("prefixed"), *output = kept_format("prefixed%d", i);
        published_write(folder, cases[i].file, &(PublishedChange){.prefix = cases[i].prefix});
        int status = published_try(output, "list.tsv", "prefixed", "--num-workers 2");
        if (status) fail_msg("%s", fixture.output);
        assert_contains(fixture.output, " --base-checkpoint ");
        must_run("cd %s && diff -r -q -x .prepare_ledger.jsonl -x stats.json %s reference", corpus_root, output);
    }
}

/* ---- features that are refused ---- */

static int count_files(const char *folder) {
    must_run("ls %s | wc -l", corpus_folder(folder));
    return atoi(fixture.output);
}

/* Also by a second run, which would reuse what the first one had written. */
TEST(features_without_the_statistics_are_refused) {
    char *folder = published_folder("variances");
    for (int i = 0; i < 2; i++) {
        published_write(folder, INDEX_STATISTICS, &(PublishedChange){.scaled = "var", .factor = i ? 0.1f : 10});
        for (int again = 0; again < 2; again++) {
            assert_int_equal(published_try("variances_out", "list.tsv", "variances", ""), 1);
            assert_contains(fixture.output, "; the statistics of IndexTTS2 say 0 and 1\n");
            assert_contains(fixture.output, "the features are not those that ");
            assert_contains(fixture.output, "wav2vec2bert_stats.pt is of: a variance of 0.5 to 2 was expected");
            assert_int_equal(count_files("variances_out/codes"), 0);
        }
    }
    must_run("head -5 %s/list.tsv >%s/few.tsv", corpus_root, corpus_root);
    assert_int_equal(published_try("few", "few.tsv", "variances", ""), 0); /* of too little speech */
    assert_contains(fixture.output, "; the statistics of IndexTTS2 say 0 and 1\n");
}

TEST(features_that_are_not_finite_are_refused) {
    static const struct {
        IndexFile file;
        const char *scaled, *told;
    } cases[] = {
        {INDEX_GPT, "emovec_layer.bias", "the weights of the GPT's encoders in "},
        {INDEX_W2V, "encoder.layers.1.final_layer_norm.weight", "the weights of w2v-BERT or the semantic codec in "},
        {INDEX_CODEC, "encoder.1.weight", "the weights of w2v-BERT or the semantic codec in "}};
    for (int i = 0; i < 3; i++) {
        char *folder = published_folder("infinite"), *output = kept_format("infinite%d", i);
        published_write(folder, cases[i].file, &(PublishedChange){.scaled = cases[i].scaled, .factor = INFINITY});
        assert_int_equal(published_try(output, "list.tsv", "infinite", ""), 1);
        assert_contains(fixture.output, "/spk001_000001.wav: its features are not finite: ");
        assert_contains(fixture.output, cases[i].told);
        assert_int_equal(count_files(kept_format("%s/codes", output)), 0);
    }
}

/* ---- options ---- */

TEST(options_of_codebooks_and_of_networks_exclude_each_other) {
    static const char *const of_codebook[] = {"--codebook tests/test.c", "--codebook-size 32", "--kmeans-iterations 3",
                                              "--frames-per-entry 5", "--d-model 64"};
    static const char *const of_networks[] = {"--device cpu", "--no-tf32", "--no-half"};
    for (int i = 0; i < 5; i++)
        check_refused("published", of_codebook[i], 2, "is of a codebook, and with --indextts2 the codes are those of",
                      kept_format("%.*s ", (int)strcspn(of_codebook[i], " "), of_codebook[i]));
    check_refused("published", "--min-duration 0.1", 2, "--min-duration 0.1: ", "no clip of less than 0.11 s");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(corpus_try_prepare("refused", "list.tsv", of_networks[i]), 2);
        assert_contains(fixture.output, "is of the networks of --indextts2, which is not given");
        assert_int_not_equal(access(corpus_folder("refused"), F_OK), 0);
    }
}

/* A codebook beside manifests says that their codes are its own. */
TEST(codes_of_two_kinds_do_not_come_together) {
    corpus_prepare("own", "");
    must_run("cp -r %s/own %s/own_before && cp -r %s/%s %s/theirs", corpus_root, corpus_root, corpus_root,
             published_reference(NULL), corpus_root);
    assert_int_equal(published_try("own", "list.tsv", "published", ""), 1);
    assert_contains(fixture.output, "own/codebook.npy: codes of a codebook are there, and --indextts2 makes others: "
                                    "choose another --output\n");
    assert_null(strstr(fixture.output, "[Audio]"));
    corpus_assert_same("own", "own_before");
    assert_int_equal(corpus_try_prepare("theirs", "list.tsv", ""), 1);
    assert_contains(fixture.output, "theirs: a run with --indextts2 has written there");
    corpus_assert_same("theirs", "reference");
    published_prepare("theirs", "");
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
}

/* ---- lengths ---- */

/* Returns the rows of n samples at 24 kHz: 2 n / 3 at 16 kHz, frames of 400 every 160, and a row of two frames. */
static int64_t rows_of(int64_t n) { return (1 + ((2 * n + 2) / 3 - 400) / 160 + 1) / 2; }

TEST(clips_may_be_short_and_long) {
    static const int samples[] = {1200, 2399, 2640, 2641, 2880, 3120, 24000, 24240, 24480, 719999, 720000};
    enum { N = sizeof samples / sizeof *samples, TOO_SHORT = 2 };
    FILE *list = fopen(corpus_folder("lengths.tsv"), "w");
    assert_non_null(list);
    for (int i = 0; i < N; i++) {
        float *sound = make_babble((uint64_t)i, 24000, samples[i]);
        write_sound(corpus_folder(kept_format("c%d.wav", i)), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 24000, 1, sound,
                    samples[i]);
        fprintf(list, "c%d\ts\tc%d.wav\tሰላም ለዓለም ዛሬ ጥሩ\n", i, i);
        free(sound);
    }
    assert_int_equal(fclose(list), 0);
    int status = published_try("lengths", "lengths.tsv", "published",
                               "--min-duration 0.11 --max-duration 30 --min-chars-per-second 0 "
                               "--max-chars-per-second 1000 --num-workers 2");
    if (status) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "[Filter] 2 rejected: shorter than --min-duration\n");
    assert_contains(fixture.output, "[Codes] 9 clips coded, 0 reused\n");
    PublishedNets nets;
    published_nets_open(&nets);
    for (int i = TOO_SHORT; i < N; i++) {
        int64_t dims[2];
        free(corpus_read_array("lengths", "codes", kept_format("c%d", i), 'i', dims));
        assert_int_equal(dims[0], rows_of(samples[i]));
        check_directly(&nets, "lengths", kept_format("c%d", i), kept_format("c%d.wav", i));
    }
    published_nets_close(&nets);
}

/* ---- the training that follows ---- */

/* The training starts from gpt.pth, which tells its sizes, all but the heads, as it is not of the published size. */
TEST(the_next_command_trains) {
    const char *told;
    published_reference(&told);
    const char *next = strstr(told, "Next: ");
    assert_non_null(next);
    char *command = kept_format("%.*s", (int)strcspn(next, "\n") - (int)strlen("Next: "), next + strlen("Next: ")),
         *base = kept_format(" --base-checkpoint %s --heads 1 ", published_path(corpus_folder("published"), INDEX_GPT));
    assert_contains(command, base);
    assert_null(strstr(command, "--layers"));
    assert_null(strstr(command, "--model-dim"));
    assert_null(strstr(command, "--learning-rate"));
    must_run("p=$(realpath %s) && cd %s && %s --max-steps 6 --threads 2", program_at(published_program), corpus_root,
             kept_format("$p%s", command + strcspn(command, " ")));
    assert_contains(fixture.output, "layers 6");
    assert_contains(fixture.output, "IndexTTS2's semantic codes: its vocoder makes sound of them");
    assert_null(strstr(fixture.output, "warning"));
}

int main(void) { return tests_run(published_open, NULL); }
