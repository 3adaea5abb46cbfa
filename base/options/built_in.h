/* The files of configs/, which are in every program: --config NAME reads one, --config list prints their names. */
#pragma once

#include <stdbool.h>

/* The text begins with a comment: what the settings are for, up to a colon or full stop, and the command that uses them
 * (./train_slm --data ...), which says whose they are. */
typedef struct {
    const char *name, *text; /* slm_t4: configs/slm_t4.yaml */
} BuiltInConfig;

/* Ends with a name of NULL. tools/embed_configs.sh writes it. */
extern const BuiltInConfig built_in_configs[];

/* Returns the text of the settings of this name, or NULL if there are none or a file of this name is here. */
const char *built_in_config(const char *name);
/* Returns whether a program or command ("train_psd pretrain") can use the settings. */
bool built_in_is_for(const char *text, const char *program);
/* Prints the settings for a program or command, a line each. */
void built_in_print(const char *program);
/* Returns the name of a program's settings that is nearest to another name, or NULL. */
const char *built_in_nearest(const char *name, const char *program);
