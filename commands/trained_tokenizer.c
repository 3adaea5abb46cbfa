#include "commands/trained_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "checkpoint/load.h"
#include "commands/export.h"
#include "commands/trained.h"

/* Returns where the tokenizer of a checkpoint is; free(). NULL: unknown. */
static char *find_tokenizer(const char *checkpoint) {
    OWNED char *folder = checkpoint_folder(checkpoint), *run = path_directory(folder);
    char *found = tokenizer_in(folder);
    if (!found) found = tokenizer_in(run);
    return found ? found : trained_text(checkpoint, "tokenizer");
}

/* Dies unless the model has a row for every token. It may have more rows if they only fill its table up, as the 50,304
 * rows that nanoGPT has for the 50,257 tokens of GPT-2. */
static void check_vocabulary(const TokenizedModel *model, const Tokenizer *tokenizer) {
    enum { FILLED_TO = 128 };
    int tokens = tokenizer_vocabulary(tokenizer), rows = model->vocabulary;
    if (rows >= tokens && rows <= (tokens + FILLED_TO - 1) / FILLED_TO * FILLED_TO) return;
    die("%s has %d tokens, and %s was trained with a vocabulary of %d: give its own with --tokenizer",
        tokenizer_file(tokenizer), tokens, model->checkpoint, rows);
}

/* Dies unless the tokenizer is the one of the training, if the model says which that was. */
static void check_hash(const TokenizedModel *model, const Tokenizer *tokenizer) {
    const char *hash = json_string_value(json_object_get(model->description, TOKENIZER_FACT));
    char found[17];
    snprintf(found, sizeof found, "%016llx", (unsigned long long)tokenizer_hash(tokenizer));
    if (hash && strcmp(hash, found) != 0)
        die("%s is not the tokenizer that %s was trained with: its hash is %s, not %s; give that one with --tokenizer",
            tokenizer_file(tokenizer), model->checkpoint, found, hash);
}

Tokenizer *trained_tokenizer(const TokenizedModel *model, const char *given) {
    OWNED char *path = given ? xstrdup(given) : find_tokenizer(model->checkpoint);
    Error error;
    if (!path)
        die_usage("%s does not say which tokenizer it was trained with: give --tokenizer; beside it is none "
                  "of " TOKENIZER_FILES,
                  model->checkpoint);
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    if (tokenizer) {
        check_vocabulary(model, tokenizer);
        check_hash(model, tokenizer);
    } else {
        die("--tokenizer %s: %s", path, error.text);
    }
    return tokenizer;
}

bool tokenizer_copy(const Tokenizer *tokenizer, const char *folder, Error *error) {
    const char *from[3], *const names[] = {tokenizer_name(tokenizer), "bpe.codes", "added_tokens.json"};
    int n = tokenizer_files(tokenizer, from);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        OWNED char *to = path_join(folder, names[i]);
        ok = export_copy(from[i], to, error);
    }
    return ok;
}
