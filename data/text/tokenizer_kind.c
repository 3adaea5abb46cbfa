#include "data/text/tokenizer_kind.h"

#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "data/text/encoding.h"

static bool begins(const char *bytes, size_t size, const char *with) {
    return size >= strlen(with) && !memcmp(bytes, with, strlen(with));
}

/* Returns whether the first line is letters of base64, a blank and a number: a rank of tiktoken. */
static bool is_rank(const char *line, size_t n) {
    size_t at = 0;
    while (at < n && (isalnum((unsigned char)line[at]) || (line[at] && strchr("+/=", line[at])))) at++;
    if (!at || at % 4 || at + 1 >= n || line[at] != ' ') return false;
    for (at++; at < n && isdigit((unsigned char)line[at]);) at++;
    return at == n;
}

/* Returns whether the first line is a piece, a tab and a score: SentencePiece's .vocab. */
static bool is_scored(const char *line, size_t n) {
    const char *tab = memchr(line, '\t', n);
    return tab && tab + 1 < line + n && strspn(tab + 1, "-+.0123456789e") == (size_t)(line + n - tab - 1);
}

static json_t *object_of(const char *bytes, size_t size) {
    return size && bytes[0] == '{' ? json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

bool tokenizer_is_vocab_json(const char *bytes, size_t size) {
    json_auto_t *object = object_of(bytes, size);
    json_t *id;
    const char *piece;
    bool all = json_object_size(object) > 0;
    json_object_foreach(object, piece, id) all = all && json_is_integer(id);
    return all;
}

const char *tokenizer_kind(const char *bytes, size_t size) {
    const char *binary = encoding_of_binary(bytes, size);
    if (binary) return binary;
    const char *end = memchr(bytes, '\n', size);
    size_t line = end ? (size_t)(end - bytes) : size;
    if (line && bytes[line - 1] == '\r') line--;
    if (tokenizer_is_vocab_json(bytes, size)) return TOKENIZER_VOCAB_JSON;
    if (begins(bytes, size, "{")) return "is JSON, as a Hugging Face tokenizer.json";
    if (begins(bytes, size, "#version:")) return "is a merges.txt, the merges of a tokenizer without its pieces";
    if (encoding_is_web_page(bytes, size)) return "is a web page: download the file itself";
    if (is_rank(bytes, line)) return "is a .tiktoken file, ranks of pieces without the rules that divide a text";
    if (is_scored(bytes, line)) return "is a SentencePiece .vocab, a list to read: the model is the .model beside it";
    return NULL;
}
