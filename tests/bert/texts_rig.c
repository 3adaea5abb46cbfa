#include "tests/bert/texts_rig.h"

Tokenizer *letters_open(void) {
    static const char *const specials[] = {"<s>", "<pad>", "</s>", "<unk>"};
    char *added = xstrdup(""), *vocabulary = xstrdup("");
    for (int id = 0; id < ID_VOCABULARY; id++) {
        char letter[8];
        snprintf(letter, sizeof letter, "%c", 'a' + id - ID_A);
        const char *piece = id < ID_A ? specials[id] : id <= ID_Z ? letter : id == ID_MASK ? "<mask>" : "ệ";
        char *longer = xformat("%s%s\"%s\":%d", vocabulary, id ? "," : "", piece, id);
        free(vocabulary);
        vocabulary = longer;
        if (id >= ID_A && id != ID_MASK) continue;
        longer = xformat("%s%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", added, id ? "," : "", id, piece);
        free(added);
        added = longer;
    }
    char *text =
        xformat("{\"added_tokens\":[%s],\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":"
                "\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":false,\"continuing_subword_prefix\":\"\",\"vocab\":{"
                "%s},\"merges\":[]}}",
                added, vocabulary);
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(text_file("tokenizer.json", text), &error);
    if (!tokenizer) fail_msg("%s", error.text);
    free(text);
    free(added);
    free(vocabulary);
    return tokenizer;
}

TokenizedTexts texts_of_lengths(const int *lengths, int n) {
    TokenizedTexts t = {.n = n, .first = xcalloc((size_t)n + 1, sizeof *t.first)};
    for (int i = 0; i < n; i++) t.first[i + 1] = t.first[i] + lengths[i];
    t.ids = xmalloc((size_t)t.first[n] * sizeof *t.ids);
    for (int64_t i = 0; i < t.first[n]; i++) t.ids[i] = ID_A + (int32_t)(i % 20);
    for (int i = 0; i < n; i++) {
        t.ids[t.first[i]] = ID_BEGIN;
        t.ids[t.first[i + 1] - 1] = ID_END;
    }
    return t;
}

char *segmenter_folder(const char *word) {
    static const char head[52] =
        "\xAC\xED\0\5\x73\x72\0\x11java.util.HashSet\xBA\x44\x85\x95\x96\xB8\xB7\x34\3\0\0\x78\x70\x77\x0C"
        "\0\0\0\x10\x3F\x40\0\0\0\0\0\1";
    char bytes[256], *folder = kept_folder(), *vocabulary = kept_path(folder, "VnVocab"),
                     *rules = kept_path(folder, "Model.RDR");
    const size_t size = strlen(word);
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + 52, (const char[]){0x74, 0, (char)size}, 3);
    memcpy(bytes + 55, word, size);
    bytes[55 + size] = 0x78;
    write_bytes(vocabulary, bytes, 56 + size);
    write_text(rules, "True : object.conclusion = \"NN\"\n\tobject.tag == \"I\" : object.conclusion = \"I\"\n");
    return folder;
}

const char *text_file(const char *name, const char *text) {
    char *folder = kept_folder(), *path = kept_path(folder, name);
    write_bytes(path, text, strlen(text));
    return path;
}
