/* The tokenizer of the data of a training, and what it does not know in them. */
#pragma once

#include "commands/slm/options.h"
#include "data/slm/stream.h"
#include "data/text/tokenizer.h"

/* Opens --tokenizer, else the one of the data: in the folder, or the characters in the meta.pkl beside token files of
 * nanoGPT. NULL: there is none. Dies if it cannot be read. */
Tokenizer *slm_tokens_open(const SlmOptions *options);
/* Copies the tokenizer into the folder of the run, so that the folder is all that generation and export need. */
void slm_tokens_keep(const Tokenizer *tokenizer, const char *output_dir);
/* Dies unless the data at `path` were made with the tokenizer; NULL: not known. */
void slm_tokens_check(const Tokenizer *tokenizer, const SlmStream *stream, const char *path);
/* Warns if many pieces of the splits are unknown, by the record of prepare, else by their ids. Dies if they are
 * --max-unknown or more. streams: NULL: there is none. */
void slm_tokens_check_unknown(const SlmOptions *options, const Tokenizer *tokenizer, SlmStream *const streams[2]);
