/* The config.json that Hugging Face's transformers put beside the weights of a model. */
#pragma once

#include "base/json.h"

/* Returns the config.json of a Hugging Face model beside the tensors, json_decref(), and sets *path, free(), to it.
 * NULL: there is none; one of this program is not meant. */
json_t *hf_config_read(const char *checkpoint, char **path);
/* Dies unless model_type is this one. */
void hf_config_check_type(const char *path, const json_t *config, const char *type);
/* Dies unless a number or a truth value is missing, or is the one value that the model of this program computes with.
 */
void hf_config_check(const char *path, const json_t *config, const char *name, double want);
/* Does the same with a text. */
void hf_config_check_text(const char *path, const json_t *config, const char *name, const char *want);
