/* For tests of what a checkpoint's config.json and decision.json may say: copies of checkpoints with a field changed.
 */
#pragma once

#include "tests/train_rig.h"

/* A change of a file, which is written without its checksum, as by hand. */
typedef struct {
    const char *object; /* the object that has the field; "": the whole; NULL: the value stands for the whole */
    const char *field;
    const char *value;   /* JSON; NULL: the field is deleted */
    const char *message; /* that is expected */
} JsonEdit;

/* Runs the commands that must refuse an edited copy of a checkpoint. */
typedef void EditUse(const char *edited, const JsonEdit *edit);

/* Fails unless a command has ended with status 1 and the message of an edit. */
void assert_edit_refused(int status, const JsonEdit *edit);
/* Uses copies of a checkpoint with each of n edits of its config.json, and with those that no model allows. */
void refuse_config_edits(const char *checkpoint, const char *model, const JsonEdit *edits, size_t n, EditUse *use);
/* The same of its decision.json. */
void refuse_decision_edits(const char *checkpoint, const JsonEdit *edits, size_t n, EditUse *use);
