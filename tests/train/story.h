/* Runs as trainings leave them, told by their losses, for tests of report.html. */
#pragma once

#include "tests/page_rig.h"

/* The curves of a run: losses at each of its validations. */
typedef struct {
    int validations; /* one every 10 steps */
    const double *train, *val;
    const char *rate; /* of learning */
    const char *end;  /* fields of the summary, ", ..."; NULL: killed */
    bool old;         /* of a program without start records */
} Story;

extern const double story_falling[5], story_flat[5];
extern const char story_ended[];   /* Story.end of a run that reached its last step */
extern const Story story_finished; /* such a run: the training loss falls, the validation loss gets flat */

/* Writes the log.jsonl of a folder. */
void story_write_in(const char *directory, const Story *story);
/* Writes the log into a new folder. Returns the folder. */
char *story_write(const Story *story);
/* Writes the page of a folder. Returns its text. */
char *story_page(const char *directory);
/* Writes a text file below a folder. */
void put_text(const char *directory, const char *name, const char *text);
