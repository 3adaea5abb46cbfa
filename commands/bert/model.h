/* The facts that a file of weights states about its model, and about how texts become ids. The file is a checkpoint of
 * train_bert, or a RoBERTa as Hugging Face's transformers writes it (model.safetensors or pytorch_model.bin, with
 * config.json). */
#pragma once

#include "checkpoint/load.h"
#include "commands/adopt.h"
#include "commands/bert/texts.h"
#include "data/bert/classes.h"
#include "model/bert.h"
#include "train/options.h"

/* Options that decide what the model computes, "vocabulary", "positions", "d-model", "layers", "heads" and "d-ff", then
 * those that decide the ids of a text (BERT_TEXT_RULES); the last is NULL. For Description.options. */
extern const char *const BERT_OPTIONS[];

/* Options that name the columns of texts and labels; the last is NULL. */
extern const char *const BERT_COLUMNS[];

/* The key in the config.json of an export under which our own description lies. */
#define BERT_EXPORTED "train_bert"
/* The problem_type of a config.json whose classes are decided each by itself. */
#define BERT_MULTI_LABEL "multi_label_classification"

/* How these files name the model's tensors. Without the prefix roberta., with gamma and beta of norms, with
 * position_ids among the tensors; the heads of other tasks are left out. A head that the file lacks altogether keeps
 * its initial values in a training. */
extern const ImportRules BERT_IMPORT_CLASSIFIER; /* of a model with classes */
extern const ImportRules BERT_IMPORT_MASKED;     /* of a masked language model */

typedef struct {
    CheckpointOptions options; /* BERT_OPTIONS as the file, its config.json and the user tell them; not all are known */
    json_t *description;       /* config.json of a checkpoint of ours, or train_bert's part of the config.json of an
                                * export; NULL: neither */
    Classes classes;           /* n 0: it has no classifier. Without names in the file these are "0", "1", ... */
    bool masked_head;          /* it has the head of a masked language model */
    bool multi_label;          /* its classes are decided each by itself, by a sigmoid (problem_type) */
    json_t *config;            /* config.json of Hugging Face's transformers; NULL: none */
} BertBase;

/* Reads what a file says of its model; bert_base_close. Dies if an option of BERT_OPTIONS that was given contradicts it
 * (only --max-len may), if the file is of another model, if its config.json is of other sizes, or if the number of
 * attention heads neither follows from it nor is given. All is zero if there is no such file, or path is NULL. */
BertBase bert_base_read(const char *path, const OptionSet *set);
/* Does that with --base-checkpoint, then sets the options of BERT_OPTIONS that the set has, and that were not given, to
 * what the file says. Dies if there are no weights, and says where PhoBERT's come from; a run that is resumed does not
 * need them. */
BertBase bert_base_adopt(const TrainOptions *options, OptionSet *set);
/* Returns the options of texts as they were given or, if not, as the file says. --max-len is at most what the model has
 * positions for; dies if more is given. The texts belong to `given` and the base. */
BertTextOptions bert_base_texts(const BertBase *base, const OptionSet *set, const BertTextOptions *given);
/* Dies if config.json of another program gives the token that begins, ends or fills a text, or the unknown one, another
 * id than the tokenizer does: the ids of texts would not be those of the training. */
void bert_base_check_tokenizer(const BertBase *base, const BertTexts *texts);
/* Returns a text among the options in an export's config.json; free(). NULL: it is not there. */
char *bert_exported_text(const char *path, const char *option);
/* Puts the classes of the texts into the order of the file's classifier, if both have the same names, and says so.
 * Returns whether the order is another one; then place[c] is the new place of class c. */
bool bert_base_order_classes(const BertBase *base, Classes *classes, int32_t place[BERT_MAX_CLASSES]);
/* Dies if the classes of the file's classifier are decided each by itself. option: names the file; remedy: what to do
 * instead. */
void bert_base_refuse_multi_label(const BertBase *base, const char *option, const char *remedy);
/* Dies if the file has a classifier of another number of classes than the texts have, or one whose classes are decided
 * each by itself, and warns if the texts' classes have other names or another order. */
void bert_base_check_classes(const BertBase *base, const Classes *classes);
void bert_base_close(BertBase *base);
/* Returns the configuration of the model in the file, without dropout; classes 0: with the masked-language head. */
BertConfig bert_base_config(const BertBase *base);
