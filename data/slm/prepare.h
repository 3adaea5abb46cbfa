/* The work of train_slm prepare: from a corpus to the folder of data/slm/prepared.h.
 *
 * The folder depends on the texts, the tokenizer and the options only, not on the number of threads. A killed run
 * begins again; a run whose inputs are those of the record does nothing. */
#pragma once

#include "base/json.h"
#include "base/options.h"
#include "data/slm/scan.h"

enum { SLM_MIN_FREQUENCY = 2 }; /* of pairs of pieces that become a token */

typedef struct {
    OptionList input, val_file, specials;
    const char *output, *tokenizer, *end_of_text,
        *text_field; /* tokenizer NULL: train one; end_of_text NULL: its own */
    const char *input_format, *split_at, *normalize, *duplicates; /* as they are typed */
    int64_t vocabulary, min_characters, shard_tokens, threads;
    double val_ratio, max_unknown;
    bool parse_specials, overwrite, skip_bad;
} SlmPrepareOptions;

/* Prepares the folder and returns its record (prepared.json); json_decref. *already: it was there, and nothing was
 * done. Ends the program if that is impossible. */
json_t *slm_prepare_folder(const SlmPrepareOptions *options, bool *already);
