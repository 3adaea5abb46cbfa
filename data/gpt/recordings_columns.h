/* Judges the columns of a list when all lines are known: which one is the text, and whether it can be. */
#ifndef DATA_GPT_RECORDINGS_COLUMNS_H
#define DATA_GPT_RECORDINGS_COLUMNS_H

#include "data/gpt/list_reader.h"

/* Decides whether three fields between bars are id|text|normalized text, id|speaker|text or id|text|speaker, and sets
 * out->read_as. Refuses a text that the program has chosen and that is the same in all lines, or a tenth as long as
 * another column; of one that is named, sets out->doubt. Counts texts in quotes. The error begins with "LINE: ". */
bool recordings_settle_columns(ListReader *reader, Error *error);

#endif
