/* Options that a checkpoint decides: what is not given is taken from it, and what contradicts it is refused. Its
 * tensors must be those of the model of these options. */
#pragma once

#include "base/options.h"
#include "checkpoint/description.h"
#include "checkpoint/load.h"
#include "model/model.h"

/* The facts that a checkpoint states about its model. */
typedef struct {
    const char *checkpoint;   /* its path */
    const char *const *names; /* options that decide what the model computes; ends with NULL */
    json_t *options;          /* name: value; names that are missing are not known */
    const char *source;       /* of the values, for people; NULL: the checkpoint */
    bool stated;              /* by its config.json; otherwise they follow from the shapes of its tensors */
} CheckpointOptions;

/* Returns a checkpoint's config.json; NULL: it has none. Dies if the file breaks the rules (description_read). */
json_t *adopt_description(const char *checkpoint, const DescriptionRules *rules);
/* Reads the options in a checkpoint's config.json; json_decref(options). options: NULL if there is no config.json. Dies
 * if the file breaks the rules. */
CheckpointOptions checkpoint_options_read(const char *checkpoint, const DescriptionRules *rules,
                                          const char *const *names);
/* The same with a config.json that has been read; NULL: there is none. */
CheckpointOptions checkpoint_options_of(const json_t *description, const char *checkpoint, const char *const *names);
/* Dies if a value is not of the type or in the range of the option with its name in `rules`, those of the training. */
void checkpoint_options_validate(const CheckpointOptions *from, const OptionSet *rules);
/* Dies if `given`, a value that stands for this option, is not the checkpoint's. what: how it was given, "size tiny
 * (d-model 32)"; NULL: as the option itself. */
void checkpoint_options_check(const CheckpointOptions *from, const char *name, const json_t *given, const char *what);
/* Dies if an option that was given contradicts the checkpoint. The last of the names that are left out is NULL; NULL:
 * none. */
void checkpoint_options_check_given(const CheckpointOptions *from, const OptionSet *set, const char *const *unchecked);
/* Does that check, then sets all other options to what the checkpoint says, and prints them. */
void checkpoint_options_adopt(const CheckpointOptions *from, OptionSet *set, const char *const *unchecked);

/* Dies if the tensors of the weights that `option`, "--base-checkpoint", names are not those of the model by the rules.
 * Closes the model, which is made for this check alone. file: the opened weights, which can then only be closed; NULL:
 * opened from the path here. A path that is NULL or leads nowhere is left to the one who reads it. */
void adopt_check_tensors(const char *option, const char *path, TensorFile *file, Model *model,
                         const ImportRules *rules);

/* Returns the tensor that is called ROOT NAME ("transformer." "wte.weight") or NAME alone; NULL: there is none. */
const StoredTensor *adopt_tensor(const TensorFile *file, const char *root, const char *name);
/* Returns a dimension of that tensor, a matrix; 0: there is none, or it is no matrix. */
int64_t adopt_dimension(const TensorFile *file, const char *root, const char *name, int axis);
/* Returns how many tensors BEFORE n AFTER there are from n = 0 on, at most BLOCKS_MAX. */
int64_t adopt_count_layers(const TensorFile *file, const char *root, const char *before, const char *after);
/* Sets an option to a number that a shape tells; 0 or less: unknown. */
void adopt_set_number(json_t *options, const char *name, int64_t value);
/* Returns the number of attention heads of the sizes that GPT-2, RoBERTa and PhoBERT share; 0: it is another size. */
int64_t adopt_known_heads(int64_t layers, int64_t width);
