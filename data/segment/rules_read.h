/* The reader of a file Model.RDR. */
#ifndef DATA_SEGMENT_RULES_READ_H
#define DATA_SEGMENT_RULES_READ_H

#include "data/segment/rules.h"

/* Reads the rules; their words get the first numbers of the lexicon, which must be empty. NULL: an error that names the
 * line. */
Rules *rules_read(const char *bytes, size_t size, Lexicon *lexicon, Error *error);

#endif
