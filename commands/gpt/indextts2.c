#include "commands/gpt/indextts2.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "base/file.h"
#include "checkpoint/load.h"
#include "data/formats/tensor_file_open.h"

/* ---- finding ---- */

enum { MOST_PLACES = 8 };

/* The places of a file, as patterns of glob below the folder, and below caches of the hub; and whose it is. */
static const struct {
    const char *name; /* for messages */
    const char *key;  /* of config.yaml, whose value is a path below its folder; NULL: there is none */
    const char *places[MOST_PLACES];
    const char *in_cache; /* below a cache of the hub; NULL: it is in none */
    const char *from;
} files[INDEX_FILES] = {
    [INDEX_GPT] = {"gpt.pth",
                   "gpt_checkpoint",
                   {"gpt.pth", "gpt.safetensors"},
                   "models--IndexTeam--IndexTTS-2/snapshots/*/gpt.pth",
                   "huggingface.co/IndexTeam/IndexTTS-2"},
    [INDEX_STATISTICS] = {"wav2vec2bert_stats.pt",
                          "w2v_stat",
                          {"wav2vec2bert_stats.pt"},
                          "models--IndexTeam--IndexTTS-2/snapshots/*/wav2vec2bert_stats.pt",
                          "huggingface.co/IndexTeam/IndexTTS-2"},
    [INDEX_W2V] = {"w2v-bert-2.0 with its model.safetensors",
                   NULL,
                   {"w2v-bert-2.0", "w2v-bert-2", "facebook/w2v-bert-2.0", "facebook--w2v-bert-2.0"},
                   "models--facebook--w2v-bert-2.0/snapshots/*",
                   "huggingface.co/facebook/w2v-bert-2.0"},
    [INDEX_CODEC] = {"semantic_codec/model.safetensors",
                     NULL,
                     {"semantic_codec/model.safetensors", "semantic_codec.safetensors",
                      "semantic_codec_model.safetensors", "MaskGCT/semantic_codec/model.safetensors",
                      "amphion/MaskGCT/semantic_codec/model.safetensors",
                      "amphion--MaskGCT/semantic_codec/model.safetensors"},
                     "models--amphion--MaskGCT/snapshots/*/semantic_codec/model.safetensors",
                     "huggingface.co/amphion/MaskGCT"},
};

/* Returns a path as a pattern that no other path matches; free(). */
static char *as_pattern(const char *path) {
    char *pattern = xmalloc(2 * strlen(path) + 1), *to = pattern;
    for (; *path; *to++ = *path++)
        if (strchr("*?[\\", *path)) *to++ = '\\';
    *to = 0;
    return pattern;
}

/* Returns the file of weights that a pattern below a directory leads to, the last of several; free(). NULL: to none. */
static char *follow(const char *directory, const char *pattern) {
    OWNED char *literal = as_pattern(directory), *full = path_join(literal, pattern);
    glob_t found;
    char *path = NULL;
    if (!glob(full, 0, NULL, &found))
        for (size_t i = found.gl_pathc; i-- > 0 && !path;) {
            path = checkpoint_weights(found.gl_pathv[i]);
            if (!access(path, R_OK) && !path_is_folder(path)) break;
            free(path);
            path = NULL;
        }
    globfree(&found);
    return path;
}

/* Returns the value of a key at the top of a YAML file; free(). NULL: it has none. */
static char *yaml_value(const char *path, const char *key) {
    yaml_parser_t parser;
    yaml_document_t document;
    char *value = NULL;
    FILE *file = fopen(path, "rb");
    if (!file || !yaml_parser_initialize(&parser)) return file ? (fclose(file), NULL) : NULL;
    yaml_parser_set_input_file(&parser, file);
    if (yaml_parser_load(&parser, &document)) {
        const yaml_node_t *root = yaml_document_get_root_node(&document);
        bool is_map = root && root->type == YAML_MAPPING_NODE;
        for (yaml_node_pair_t *p = is_map ? root->data.mapping.pairs.start : NULL;
             p && p < root->data.mapping.pairs.top && !value; p++) {
            const yaml_node_t *k = yaml_document_get_node(&document, p->key),
                              *v = yaml_document_get_node(&document, p->value);
            if (k->type == YAML_SCALAR_NODE && v->type == YAML_SCALAR_NODE &&
                !strcmp((char *)k->data.scalar.value, key))
                value = xstrdup((char *)v->data.scalar.value);
        }
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    fclose(file);
    return value;
}

/* Returns the caches of the hub, as its programs look for them; each free(). */
static int caches(const char *folder, char *to[4]) {
    const char *hub = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *user = getenv("HOME");
    int n = 0;
    to[n++] = path_join(folder, "hf_cache");
    if (hub) to[n++] = xstrdup(hub);
    if (home) to[n++] = path_join(home, "hub");
    if (user) to[n++] = path_join(user, ".cache/huggingface/hub");
    return n;
}

/* Returns where a file lies; free(). NULL: nowhere. */
static char *find_file(const char *folder, const char *config, IndexFile file) {
    OWNED char *named = files[file].key && config ? yaml_value(config, files[file].key) : NULL;
    OWNED char *literal = named ? as_pattern(named) : NULL;
    char *found = literal ? follow(folder, literal) : NULL;
    for (int i = 0; i < MOST_PLACES && files[file].places[i] && !found; i++)
        found = follow(folder, files[file].places[i]);
    char *in[4];
    int n = caches(folder, in);
    for (int i = 0; i < n && !found; i++) found = follow(in[i], files[file].in_cache);
    for (int i = 0; i < n; i++) free(in[i]);
    return found;
}

/* ---- other versions ---- */

/* Returns which other version of IndexTTS a gpt.pth is of; NULL: of none. */
static const char *other_version(const TensorFile *gpt) {
    if (checkpoint_tensor(gpt, "lang_embedding.weight") || checkpoint_tensor(gpt, "spk_emb_proj.weight"))
        return "IndexTTS 2.5, which has 25 codes a second, and vectors of speakers in place of conditioning latents";
    if (checkpoint_tensor(gpt, "perceiver_encoder.latents") && !checkpoint_tensor(gpt, "emo_layer.weight"))
        return "IndexTTS 1 or 1.5, which has no emotions";
    return NULL;
}

static bool is_of_2(const TensorFile *gpt, Error *error) {
    const char *other = other_version(gpt);
    return !other ||
           error_set(error, "%s is of %s: give the gpt.pth of IndexTTS2 (%s)", gpt->path, other, files[INDEX_GPT].from);
}

/* Returns whether nothing tells that a gpt.pth is of another version. */
static bool may_be_of_2(const char *path, Error *error) {
    OWNED_BY(tensor_file_close) TensorFile file = {0};
    Error unread; /* index_weights_check says so */
    return !path || !tensor_file_open(path, &file, &unread) || is_of_2(&file, error);
}

/* ---- the files ---- */

bool index_weights_find(const char *folder, IndexWeights *weights, Error *error) {
    OWNED char *config = path_join(folder, "config.yaml");
    char missing[900] = "";
    *weights = (IndexWeights){{NULL}};
    if (!path_is_folder(folder)) return error_set(error, "--indextts2 %s: is no folder", folder);
    for (int i = 0; i < INDEX_FILES; i++) {
        weights->paths[i] = find_file(folder, access(config, R_OK) ? NULL : config, (IndexFile)i);
        size_t used = strlen(missing);
        if (!weights->paths[i])
            snprintf(missing + used, sizeof missing - used, "%s%s (%s)", used ? ", " : "", files[i].name,
                     files[i].from);
    }
    if (!*missing) return true;
    if (may_be_of_2(weights->paths[INDEX_GPT], error)) /* of another version, others are missing */
        error_set(error, "--indextts2 %s: not found there, nor in a cache of Hugging Face: %s", folder, missing);
    index_weights_close(weights);
    return false;
}

void index_weights_close(IndexWeights *weights) {
    for (int i = 0; i < INDEX_FILES; i++) free(weights->paths[i]);
    *weights = (IndexWeights){{NULL}};
}

/* ---- reading ---- */

/* Reads the statistics mean and variance [hidden]. */
static bool read_statistics(const char *path, int64_t hidden, float *mean, float *variance, Error *error) {
    TensorFile file;
    Error why;
    if (!tensor_file_open(path, &file, &why)) return error_set(error, "%s: %s", path, why.text);
    const StoredTensor *m = tensor_file_find(&file, "mean"), *v = tensor_file_find(&file, "var");
    bool ok = m && v && m->count == hidden && v->count == hidden;
    if (!ok)
        error_set(error, "%s: expected the tensors mean and var, %lld numbers each", path, (long long)hidden);
    else if (!stored_to_f32(m, mean, &why) || !stored_to_f32(v, variance, &why))
        ok = error_set(error, "%s: %s", path, why.text);
    for (int64_t i = 0; ok && i < hidden; i++)
        if (!(variance[i] > 0 && isfinite(variance[i]) && isfinite(mean[i])))
            ok = error_set(error, "%s: number %lld: mean %g, variance %g, expected a variance above 0", path,
                           (long long)i, (double)mean[i], (double)variance[i]);
    tensor_file_close(&file);
    return ok;
}

/* Names of parameters may begin with one of these. */
static const char *const w2v_prefixes[] = {"", "wav2vec2_bert.", NULL};
static const char *const gpt_prefixes[] = {"",           "model.",           "module.",     "model.module.",
                                           "_orig_mod.", "model._orig_mod.", "state_dict.", "model_state_dict.",
                                           NULL};
static const char *const codec_prefixes[] = {"", "model.", NULL};

/* A file of weights with the network that it is for. */
typedef struct {
    Network *network;
    IndexFile file;
    const char *const *prefixes;
} Part;

/* A network whose file may be of one with more blocks: then it has this tensor. */
typedef struct {
    IndexFile file;
    int blocks;
    const char *before, *behind; /* the number of a block */
} Blocks;

/* Refuses files that have all tensors of a part, and more of the same network. */
static bool has_no_more(const Part *part, const NetworkFile *from, Error *error) {
    const FeaturesConfig *config = &FEATURES_INDEXTTS2;
    const Blocks last[] = {
        {INDEX_CODEC, config->codec.blocks, "encoder.0.convnext.", ".gamma"},
        {INDEX_GPT, config->voice.condition.blocks, "conditioning_encoder.encoders.", ".norm_ff.weight"},
        {INDEX_GPT, config->voice.emotion.blocks, "emo_conditioning_encoder.encoders.", ".norm_ff.weight"}};
    const char *path = from->file->path;
    OWNED char *down = xformat("%sdown.weight", from->prefix);
    if (part->file == INDEX_CODEC && tensor_file_find(from->file, down))
        return error_set(error, "%s is of IndexTTS 2.5, whose codec has 25 codes a second: give %s (%s)", path,
                         files[INDEX_CODEC].name, files[INDEX_CODEC].from);
    for (int i = 0; i < 3; i++) {
        OWNED char *name = xformat("%s%s%d%s", from->prefix, last[i].before, last[i].blocks, last[i].behind);
        if (last[i].file == part->file && tensor_file_find(from->file, name))
            return error_set(error, "%s does not fit %s: it has %s, and there are %d such blocks in IndexTTS2's (%s)",
                             path, part->network->name, name, last[i].blocks, files[part->file].from);
    }
    return true;
}

static void list_parts(Features *features, Part parts[3]) {
    parts[0] = (Part){&features->w2v.network, INDEX_W2V, w2v_prefixes};
    parts[1] = (Part){&features->codec.network, INDEX_CODEC, codec_prefixes};
    parts[2] = (Part){&features->voice.network, INDEX_GPT, gpt_prefixes};
}

/* Opens the file of a part and checks its tensors. With `read`, reads them. */
static bool take_part(const IndexWeights *weights, const Part *part, bool read, Error *error) {
    const char *path = weights->paths[part->file];
    TensorFile file;
    Error why;
    if (!tensor_file_open(path, &file, &why)) return error_set(error, "%s: %s", path, why.text);
    const char *prefix = network_prefix(part->network, &file, part->prefixes);
    NetworkFile from = {&file, prefix ? prefix : ""};
    WeightSource source = network_file_source(&from);
    bool ok = (part->file != INDEX_GPT || is_of_2(&file, error)) && network_check(part->network, &from, error) &&
              has_no_more(part, &from, error) && (!read || network_read(part->network, &source, error));
    tensor_file_close(&file);
    return ok;
}

bool index_weights_check(const IndexWeights *weights, Error *error) {
    const FeaturesConfig *config = &FEATURES_INDEXTTS2;
    OWNED float *statistics = xmalloc((size_t)config->w2v.hidden * 2 * sizeof *statistics);
    Device *dry = dry_device_open();
    Features features;
    Part parts[3];
    features_open(&features, config, dry, DTYPE_F32, DTYPE_F32, NULL, NULL);
    list_parts(&features, parts);
    bool ok = read_statistics(weights->paths[INDEX_STATISTICS], config->w2v.hidden, statistics,
                              statistics + config->w2v.hidden, error);
    for (int i = 0; i < 3 && ok; i++) ok = take_part(weights, &parts[i], false, error);
    features_close(&features);
    device_close(dry);
    return ok;
}

bool index_weights_read(const IndexWeights *weights, Features *features, Device *device, DType type, DType voice_type,
                        size_t pass_bytes, Error *error) {
    const FeaturesConfig *config = &FEATURES_INDEXTTS2;
    int64_t hidden = config->w2v.hidden;
    OWNED float *statistics = xmalloc((size_t)hidden * 2 * sizeof *statistics);
    Part parts[3];
    if (!read_statistics(weights->paths[INDEX_STATISTICS], hidden, statistics, statistics + hidden, error))
        return false;
    features_open(features, config, device, type, voice_type, statistics, statistics + hidden);
    list_parts(features, parts);
    for (int i = 0; i < 3; i++)
        if (!take_part(weights, &parts[i], true, error)) {
            features_close(features);
            return false;
        }
    features->w2v.mean = features->w2v.variance = NULL;
    features_reserve(features, pass_bytes);
    features_prepare(features);
    return true;
}
