/* The folder that the commands `export` of all programs fill. */
#pragma once

#include "base/json.h"
#include "base/options.h"

/* Adds --output and --config, which every command `export` has. */
void export_options_add(OptionSet *set, const char **output);

/* Copies a file, whole or not at all. */
bool export_copy(const char *from, const char *to, Error *error);
/* Writes an object as FOLDER/NAME, and releases it. */
bool export_json(const char *folder, const char *name, json_t *object, Error *error);
/* Fills the folder of --output by `write`. The folder must be empty, or left unfinished by an export of the same
 * weights (checkpoint_base_sum) that was stopped. */
bool export_folder(const char *output, uint64_t weights, bool (*write)(const void *context, Error *error),
                   const void *context, Error *error);
