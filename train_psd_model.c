/* The model of train_psd: its size, and what a checkpoint says of it. Options that are not given are as the checkpoint
 * has them; one that is given must agree with it, because weights can fit a model that computes something else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "train_psd.h"

/* ---- sizes ---- */

enum { DIMENSIONS = 8 };
static const char *const dimension_names[DIMENSIONS] = {
    "d-model", "n-layers", "n-heads", "ffn-dim", "decoder-dim", "decoder-layers", "projection-dim", "hidden-dim"};

static void dimensions_of(const PsdSize *size, int64_t out[DIMENSIONS]) {
    const int of_size[DIMENSIONS] = {size->d_model,     size->n_layers,       size->n_heads,        size->d_ff,
                                     size->decoder_dim, size->decoder_layers, size->projection_dim, size->head_dim};
    for (int k = 0; k < DIMENSIONS; k++) out[k] = of_size[k];
}

void psd_resolve_size(PsdRun *o) {
    int64_t *const values[DIMENSIONS] = {&o->d_model,     &o->n_layers,       &o->n_heads,        &o->ffn_dim,
                                         &o->decoder_dim, &o->decoder_layers, &o->projection_dim, &o->hidden_dim};
    int64_t of_size[DIMENSIONS];
    dimensions_of(psd_size(o->size), of_size); /* the options' table allows no other name */
    for (int k = 0; k < DIMENSIONS; k++)
        if (!*values[k]) *values[k] = of_size[k];
}

/* ---- what shapes say ---- */

/* The first dimension of the tensor of this name; 0: there is none. */
static int64_t rows_in(const TensorFile *file, const char *name) {
    for (int i = 0; i < file->n_tensors; i++)
        if (file->tensors[i].rank && checkpoint_name_is(file->tensors[i].name, name)) return file->tensors[i].dims[0];
    return 0;
}

static void set_number(json_t *options, const char *name, int64_t value) {
    if (value) json_object_set_new(options, name, json_integer((json_int_t)value));
}

static int64_t layers_in(const TensorFile *file) {
    int64_t n = 0;
    for (char name[64]; n < PSD_MOST_LAYERS; n++) {
        snprintf(name, sizeof name, "encoder.layers.%lld.ffn.0.weight", (long long)n);
        if (!rows_in(file, name)) break;
    }
    return n;
}

/* Options as a state.json would have them. Shapes cannot tell into how many heads the attention is divided: it is taken
 * for that of the named size which is like it in all else. */
static json_t *options_of_shapes(const TensorFile *file) {
    json_t *options = json_object();
    int64_t hidden = rows_in(file, "classifier.head.0.weight"), layers = layers_in(file);
    int64_t projector = rows_in(file, "encoder.projector.weight"),
            d_ff = rows_in(file, "encoder.layers.0.ffn.0.weight");
    int64_t d_model = projector ? projector : rows_in(file, "patch_embed.projection.weight");
    const PsdSize *size = layers ? psd_size_of_encoder(d_model, layers, d_ff) : NULL;
    if (projector || layers) json_object_set_new(options, "encoder", json_string(projector ? "cnn" : "transformer"));
    set_number(options, "d-model", d_model);
    set_number(options, "n-layers", layers);
    set_number(options, "ffn-dim", d_ff);
    set_number(options, "hidden-dim", hidden);
    if (hidden) json_object_set_new(options, "head", json_string("mlp"));
    if (rows_in(file, "classifier.head.weight")) json_object_set_new(options, "head", json_string("linear"));
    if (size) json_object_set_new(options, "size", json_string(size->name));
    if (size) set_number(options, "n-heads", size->n_heads);
    return options;
}

/* ---- what a checkpoint says ---- */

/* The options in the state.json in a checkpoint's directory, or beside a file of it; NULL: there is none. */
static json_t *options_of_state(const char *checkpoint) {
    char *beside = path_directory(checkpoint);
    char *path[] = {path_join(checkpoint, "state.json"), path_join(beside, "state.json")};
    json_t *state = NULL, *options;
    Error error;
    for (int i = 0; i < 2 && !state; i++)
        if (!access(path[i], F_OK) && !(state = json_read(path[i], 0, &error))) die("%s: %s", path[i], error.text);
    options = json_incref(json_object_get(state, "options"));
    json_decref(state);
    free(path[0]);
    free(path[1]);
    free(beside);
    return options;
}

static const char *checkpoint_option(const PsdRun *o, const Option *rows, int n) {
    for (int i = 0; i < n; i++)
        if (rows[i].value == (const void *)&o->train.base_checkpoint) return rows[i].name;
    return "checkpoint";
}

static json_t *options_of_file(const PsdRun *o, const Option *rows, int n) {
    const char *checkpoint = o->train.base_checkpoint;
    TensorFile file;
    Error error;
    if (!checkpoint_open_base(checkpoint, &file, &error))
        die("--%s %s: %s", checkpoint_option(o, rows, n), checkpoint, error.text);
    json_t *options = options_of_shapes(&file);
    tensor_file_close(&file);
    bool transformer = json_object_get(options, "n-layers") != NULL;
    if (transformer && !json_object_get(options, "n-heads") && !psd_given(o, "n-heads") && !psd_given(o, "size"))
        die_usage("--%s %s: how many heads its attention has cannot be told from the shapes of its tensors: give "
                  "--n-heads",
                  checkpoint_option(o, rows, n), checkpoint);
    return options;
}

/* Whether a checkpoint decides this option: the shape of the model, and how its spectra were made. */
static bool belongs_to_model(const Option *row) {
    static const char *const others[] = {"size", "hop", "limit"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(row->name, others[i])) return true;
    return row->section && row->type != OPTION_FLOAT;
}

/* Dies if an option that is given, or a dimension of --size that is, is not the checkpoint's `value`. */
static void check_given(const PsdRun *o, const Option *row, bool size_given, const json_t *value) {
    int64_t of_size[DIMENSIONS];
    json_t *given = NULL;
    bool sized = false;
    dimensions_of(psd_size(o->size), of_size);
    if (row->given && strcmp(row->name, "size")) given = option_to_json(row);
    for (int k = 0; k < DIMENSIONS && !given && size_given; k++)
        if (!strcmp(row->name, dimension_names[k])) {
            given = json_integer((json_int_t)of_size[k]);
            sized = true;
        }
    if (given && !json_equal(given, value)) {
        char *is = json_text(row->name, given, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        char *was = json_text(row->name, value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        char *size = sized ? xformat("size %s (%s %s)", o->size, row->name, is) : xformat("%s %s", row->name, is);
        die_usage("--%s contradicts %s, which has %s %s: leave it out", size, o->train.base_checkpoint, row->name, was);
    }
    json_decref(given);
}

void psd_adopt_model(const PsdRun *o, Option *rows, int n) {
    const char *checkpoint = o->train.base_checkpoint;
    int n_adopted = 0;
    Error error;
    if (access(checkpoint, F_OK)) return; /* not yet there, or who reads it will tell */
    json_t *options = options_of_state(checkpoint);
    bool stated = options != NULL, size_given = psd_given(o, "size");
    if (!stated) options = options_of_file(o, rows, n);
    for (int i = 0; i < n; i++) {
        const json_t *value = json_object_get(options, rows[i].name);
        bool of_head = rows[i].section && !strcmp(rows[i].section, "head"); /* of which it may get another */
        if (value && belongs_to_model(&rows[i]) && !(of_head && o->command == FINETUNE))
            check_given(o, &rows[i], size_given, value);
    }
    for (int i = 0; i < n; i++) {
        const json_t *value = json_object_get(options, rows[i].name);
        if (!value || !belongs_to_model(&rows[i]) || rows[i].given) continue;
        if (!option_from_json(&rows[i], value, &error))
            die("what the state.json of %s says of its options: %s", checkpoint, error.text);
        rows[i].given = true; /* as if it had been typed; a text is for options_free */
        char *text = json_text(rows[i].name, value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        printf("%s %s %s",
               n_adopted++ ? ","
               : stated    ? "[Model] as its checkpoint says:"
                           : "[Model] as its tensors are:",
               rows[i].name, text);
        free(text);
    }
    if (n_adopted) printf("\n");
    json_decref(options);
}
