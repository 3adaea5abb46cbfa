/* Reads any bytes as comments in all kinds of files; the first byte chooses. What was read is UTF-8, in the order
 * of the file, and tables and lines that a training may use have no empty text or label. */
#include <unistr.h>

#include "data/bert/comments.h"
#include "tests/fuzz/fuzz_file.h"

static void check(const Comments *c, bool labels_needed) {
    for (int64_t i = 0; i < c->n; i++) {
        if (c->lines[i] < 1 || (i && c->lines[i] < c->lines[i - 1])) abort();
        if (i && c->lines[i] == c->lines[i - 1] && !ends_with(c->path, ".json")) abort(); /* of an array */
        if (u8_check((const uint8_t *)c->texts[i], strlen(c->texts[i]))) abort();
        if (labels_needed && (!*c->texts[i] || !*c->labels[i])) abort();
        if (c->ids && u8_check((const uint8_t *)c->ids[i], strlen(c->ids[i]))) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"x.csv", "x.tsv", "x.jsonl", "x.txt", "x.json", "y.csv"};
    static const char *const good[] = {
        "id,text,label\n1,\"a \"\"b\"\"\n\",0\n2,c,1\n",
        "text\tid\tlabel\na\tb\tc\n",
        "{\"text\":\"a\\n\\u00e1\",\"label\":1,\"id\":\"x\"}\n{\"text\":\"b\",\"label\":\"c\",\"id\":-5}\n",
        "a\n\nb",
        "[{\"text\":\"a\",\"label\":1.5,\"id\":true,\"x\":NaN},\n{\"text\":\"b\",\"label\":\"c\",\"id\":7}]",
        "sep=;\ntext;id;label\na,b;1;0\nc;2;o\u0300\u00a0\n"};
    enum { KINDS = sizeof names / sizeof *names };
    static char *paths[KINDS];
    if (!paths[0])
        for (int i = 0; i < KINDS; i++) {
            paths[i] = path_join(fuzz_directory(), names[i]);
            if (symlink(fuzz_file("", 0), paths[i])) abort();
        }
    if (!size) return 0;
    const int kind = (data[0] & 15) % KINDS;
    const bool labels_needed = data[0] & 16;
    const CommentColumns columns = {.id = data[0] & 32 ? "id" : NULL, .skip_bad = data[0] & 64};
    size_t n;
    char *chosen = fuzz_chosen(good[kind], strlen(good[kind]), data + 1, size - 1, &n);
    fuzz_file(chosen, n);
    free(chosen);
    Comments c;
    Error error = {.text = ""};
    if (comments_read(paths[kind], &columns, labels_needed ? LABELS_NEEDED : LABELS_UNUSED, &c, &error)) {
        if (c.n < 1) abort();
        check(&c, labels_needed);
        comments_free(&c);
    } else if (!error.text[0]) {
        abort();
    }
    return 0;
}
