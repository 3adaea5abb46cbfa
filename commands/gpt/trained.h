/* A trained model that --checkpoint names: its weights' path, its sizes, and what it was trained with. */
#pragma once

#include "base/options.h"
#include "commands/gpt/base.h"
#include "model/gpt.h"

typedef struct {
    const char *checkpoint, *tokenizer;
    int64_t heads;
} GptTrainedOptions;

typedef struct {
    char *path; /* of the checkpoint */
    GptBase says;
    GptConfig config; /* dropout and the weights of the losses mean nothing */
} GptTrained;

/* Adds --checkpoint, --tokenizer and --heads. */
void gpt_trained_options_add(OptionSet *set, GptTrainedOptions *options);

/* Reads what the checkpoint says; of a run's folder the best weights are taken, or the last if it has not validated,
 * and which they are is printed. Dies if it is no model of train_gpt. */
GptTrained gpt_trained_read(const GptTrainedOptions *options);
void gpt_trained_close(GptTrained *trained);

/* Returns a fact of its config.json (commands/gpt/origin.h), or NULL. */
const char *gpt_trained_fact(const GptTrained *trained, const char *name);
/* Returns the first manifest of the training as seen from where it was started, without a label, or NULL; free(). */
char *gpt_trained_manifest(const GptTrained *trained);
/* Return the path of the tokenizer, or of codebook.npy: the given one, or that of the training; free(). Die if the
 * former is unknown or not there, or has another checksum than that of the training; a tokenizer must also have as many
 * pieces as the model. The codebook is NULL if none is given and the training does not say where it was. */
char *gpt_trained_tokenizer(const GptTrained *trained, const char *given);
char *gpt_trained_codebook(const GptTrained *trained, const char *given);
