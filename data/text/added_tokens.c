#include "data/text/added_tokens.h"

#include <stdlib.h>

#include "base/json.h"

static int by_id(const void *a, const void *b) {
    const AddedToken *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static bool take_tokens(const json_t *root, AddedTokens *tokens, Error *error) {
    const char *text;
    json_t *value;
    if (!json_is_object(root)) return error_set(error, "added_tokens.json: expected an object of TOKEN: id");
    tokens->items = xcalloc(json_object_size(root), sizeof *tokens->items);
    json_object_foreach((json_t *)(uintptr_t)root, text, value) {
        const json_int_t id = json_integer_value(value);
        if (!*text || !json_is_integer(value) || id < 0 || id >= VOCABULARY_MAX)
            return error_set(error, "added_tokens.json: expected \"%.100s\": id, a number from 0 to %d", text,
                             VOCABULARY_MAX - 1);
        tokens->items[tokens->n++] = (AddedToken){xstrdup(text), (int32_t)id};
    }
    if (tokens->n) qsort(tokens->items, (size_t)tokens->n, sizeof *tokens->items, by_id);
    for (int i = 1; i < tokens->n; i++)
        if (tokens->items[i].id == tokens->items[i - 1].id)
            return error_set(error, "added_tokens.json: \"%.100s\" and \"%.100s\" have one id, %d",
                             tokens->items[i - 1].text, tokens->items[i].text, (int)tokens->items[i].id);
    return true;
}

bool added_tokens_read(const char *path, AddedTokens *tokens, Error *error) {
    json_auto_t *root = json_read(path, JSON_REJECT_DUPLICATES, error);
    *tokens = (AddedTokens){.n = 0};
    if (!root) return error_before(error, "added_tokens.json: ");
    bool ok = take_tokens(root, tokens, error);
    if (!ok) added_tokens_free(tokens);
    return ok;
}

void added_tokens_free(AddedTokens *tokens) {
    for (int i = 0; i < tokens->n; i++) free(tokens->items[i].text);
    free(tokens->items);
    *tokens = (AddedTokens){.n = 0};
}
