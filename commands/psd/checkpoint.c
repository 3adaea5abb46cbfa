/* The model of a checkpoint. Options that are not given become those of the checkpoint. An option that is given must
 * agree with it, because weights can fit a model that computes something else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "commands/adopt.h"
#include "commands/psd/psd.h"
#include "data/psd/manifest.h"

/* ---- named sizes ---- */

enum { DIMENSIONS = 8 };
static const char *const dimension_names[DIMENSIONS] = {
    "d-model", "n-layers", "n-heads", "ffn-dim", "decoder-dim", "decoder-layers", "projection-dim", "hidden-dim"};

static void dimensions_of(const PsdSize *size, int64_t out[DIMENSIONS]) {
    const int sizes[DIMENSIONS] = {size->d_model,     size->n_layers,       size->n_heads,        size->d_ff,
                                   size->decoder_dim, size->decoder_layers, size->projection_dim, size->head_dim};
    for (int k = 0; k < DIMENSIONS; k++) out[k] = sizes[k];
}

void psd_size_resolve(PsdOptions *o) {
    int64_t *const values[DIMENSIONS] = {&o->model.d_model,        &o->model.n_layers,    &o->model.n_heads,
                                         &o->model.ffn_dim,        &o->model.decoder_dim, &o->model.decoder_layers,
                                         &o->model.projection_dim, &o->model.hidden_dim};
    int64_t sizes[DIMENSIONS];
    dimensions_of(psd_size(o->model.size), sizes); /* --size allows no other name */
    for (int k = 0; k < DIMENSIONS; k++)
        if (!*values[k]) *values[k] = sizes[k];
}

/* ---- options from the shapes of tensors ---- */

/* Returns the first dimension of the tensor with this name; 0 if there is none. */
static int64_t rows_in(const TensorFile *file, const char *name) { return adopt_dimension(file, "", name, 0); }

/* Returns the options as a config.json would have them. Shapes do not tell the number of attention heads: it is that of
 * the named size which agrees in everything else, or left out. */
static json_t *options_of_shapes(const TensorFile *file) {
    json_t *options = json_object();
    int64_t hidden = rows_in(file, "classifier.head.0.weight"),
            layers = adopt_count_layers(file, "", "encoder.layers.", ".ffn.0.weight");
    int64_t projector = rows_in(file, "encoder.projector.weight"),
            d_ff = rows_in(file, "encoder.layers.0.ffn.0.weight");
    int64_t d_model = projector ? projector : rows_in(file, "patch_embed.projection.weight");
    const PsdSize *size = layers ? psd_size_of_encoder(d_model, layers, d_ff) : NULL;
    if (projector || layers) json_object_set_new(options, "encoder", json_string(projector ? "cnn" : "transformer"));
    adopt_set_number(options, "d-model", d_model);
    adopt_set_number(options, "n-layers", layers);
    adopt_set_number(options, "ffn-dim", d_ff);
    adopt_set_number(options, "hidden-dim", hidden);
    if (hidden) json_object_set_new(options, "head", json_string("mlp"));
    if (rows_in(file, "classifier.head.weight")) json_object_set_new(options, "head", json_string("linear"));
    if (size) json_object_set_new(options, "size", json_string(size->name));
    if (size) adopt_set_number(options, "n-heads", size->n_heads);
    return options;
}

/* ---- options from a checkpoint ---- */

static const char *checkpoint_option(const PsdOptions *o) {
    return o->command == PSD_FINETUNE ? "pretrained" : "checkpoint";
}

static json_t *options_of_file(const PsdOptions *o) {
    const char *checkpoint = o->train.base_checkpoint;
    TensorFile file;
    MUST_OR(checkpoint_open_base(checkpoint, &file, &error), "--%s %s: %s", checkpoint_option(o), checkpoint,
            error.text);
    json_t *options = options_of_shapes(&file);
    tensor_file_close(&file);
    bool transformer = json_object_get(options, "n-layers") != NULL;
    if (transformer && !json_object_get(options, "n-heads") && !options_given(&o->set, "n-heads") &&
        !options_given(&o->set, "size"))
        die_usage(
            "--%s %s: the number of attention heads does not follow from the shapes of its tensors: give --n-heads",
            checkpoint_option(o), checkpoint);
    return options;
}

const char *const PSD_MODEL_OPTIONS[] = {
    "size",           "encoder",        "d-model", "n-layers",   "n-heads", "ffn-dim", "decoder-dim",
    "decoder-layers", "projection-dim", "head",    "hidden-dim", "hop",     "limit",   NULL};

const DescriptionRules PSD_DESCRIPTION = {.model = "psd", .labels = PSD_LABEL_NAMES, .n_labels = PSD_CLASSES};

/* Options that need not be the checkpoint's: a size counts by its dimensions, and finetune may make a new head. */
static const char *const size_option[] = {"size", NULL}, *const size_and_head[] = {"size", "head", "hidden-dim", NULL};

/* Dies if a dimension of --size that is not given by itself is not the checkpoint's. */
static void check_size(const PsdOptions *o, const CheckpointOptions *from) {
    int64_t sizes[DIMENSIONS];
    if (!options_given(&o->set, "size")) return;
    dimensions_of(psd_size(o->model.size), sizes);
    OWNED char *size = xformat("size %s", o->model.size);
    for (int k = 0; k < DIMENSIONS; k++) {
        bool new_head = o->command == PSD_FINETUNE && !strcmp(dimension_names[k], "hidden-dim");
        if (new_head || options_given(&o->set, dimension_names[k])) continue;
        json_auto_t *given = json_integer((json_int_t)sizes[k]);
        checkpoint_options_check(from, dimension_names[k], given, size);
    }
}

void psd_checkpoint_adopt(PsdOptions *o) {
    const char *checkpoint = o->train.base_checkpoint;
    if (!checkpoint_exists(checkpoint)) return; /* not there yet, or the one who reads it complains */
    CheckpointOptions from = checkpoint_options_read(checkpoint, &PSD_DESCRIPTION, PSD_MODEL_OPTIONS);
    if (!from.options) from.options = options_of_file(o);
    checkpoint_options_validate(&from, &o->set);
    check_size(o, &from);
    checkpoint_options_adopt(&from, &o->set, o->command == PSD_FINETUNE ? size_and_head : size_option);
    json_decref(from.options);
}

/* ---- what the tensors must be ---- */

ImportRules psd_checkpoint_rules(const PsdOptions *o) {
    /* The encoder, then what is trained with it; the CNN embeds no patches. */
    static const char *const both[] = {"encoder.", "patch_embed.", "classifier."},
                             *const cnn[] = {"encoder.", "classifier."},
                             *const all[] = {"encoder.", "patch_embed.", "decoder.", "projection_head."};
    static const char *const modules[] = {"decoder.", "projection_head.", "classifier.", "class_weights"};
    bool is_cnn = !strcmp(o->model.encoder, "cnn");
    ImportRules rules = {.extra = modules, .n_extra = 4};
    if (o->command == PSD_FINETUNE) rules.only = is_cnn ? cnn : both, rules.n_only = is_cnn ? 1 : 2;
    if (o->command == PSD_PRETRAIN) rules.only = all, rules.n_only = 4, rules.optional = all + 2, rules.n_optional = 2;
    return rules;
}

void psd_checkpoint_check(const PsdOptions *o, Model *model) {
    ImportRules rules = psd_checkpoint_rules(o);
    OWNED char *option = xformat("--%s", options_holding(&o->set, &o->train.base_checkpoint)->row.name);
    adopt_check_tensors(option, o->train.base_checkpoint, NULL, model, &rules);
}

/* ---- the head ---- */

bool psd_checkpoint_has_head(const char *path, const Model *model) {
    TensorFile file;
    MUST_OR(checkpoint_open_base(path, &file, &error), "--pretrained %s: %s", path, error.text);
    int expected = 0, present = 0, matching = 0;
    for (int i = 0; i < model->params.count; i++) {
        const Param *p = &model->params.items[i];
        const StoredTensor *found = p->group ? checkpoint_tensor(&file, p->name) : NULL;
        expected += p->group > 0;
        present += found != NULL;
        matching += found && found->rank == p->rank && !memcmp(found->dims, p->dims, (size_t)p->rank * sizeof *p->dims);
    }
    if (present)
        printf("[Base] %s has a head, which %s\n", path,
               matching == expected ? "is used" : "does not fit and is left out");
    tensor_file_close(&file);
    return matching == expected;
}
