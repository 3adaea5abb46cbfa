/* Takes any bytes as a text to normalise and as a name. The results are UTF-8, and one safe component of a path. */
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/file.h"
#include "base/file_name.h"
#include "data/text/normalize.h"

static void check_text(const char *text, char *(*normalise)(const char *, Error *)) {
    Error error = {.text = ""};
    char *out = normalise(text, &error);
    if (!out && !error.text[0]) abort();
    if (out && u8_check((const uint8_t *)out, strlen(out))) abort();
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    check_text(text, text_clean);
    check_text(text, text_normalize_amharic);
    char *name = file_name_of(text);
    if (!*name || strchr(name, '/') || *name == '.' || *name == '-' || strlen(name) > 160) abort();
    if (!u8_check((const uint8_t *)text, strlen(text)) && u8_check((const uint8_t *)name, strlen(name))) abort();
    free(name);
    free(text);
    return 0;
}
