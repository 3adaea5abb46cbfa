#include "tests/documented.h"

#include <ctype.h>

#include "data/formats/safetensors.h"
#include "tests/helpers.h"

/* Returns the lines between a heading and the next one; free(). */
static char *section(const char *heading) {
    char *page = read_text("docs/formats.md"), *start = xformat("\n%s\n", heading), *at = strstr(page, start);
    if (!at) fail_msg("docs/formats.md has no heading '%s'", heading);
    at += strlen(start);
    char *end = strstr(at, "\n#"), *text = strndup(at, end ? (size_t)(end - at) : strlen(at));
    free(start);
    free(page);
    return text;
}

/* Fails unless a row has the name, `in backquotes`, in its first column, and the type, if it is not NULL, at the start
 * of its second. */
static void assert_row(const char *text, const char *heading, const char *name, const char *type) {
    char *quoted = xformat("`%s`", name), *typed = xformat("| `%s` | %s", name, type ? type : "");
    bool found = type && strstr(text, typed);
    for (const char *line = text; line && !found && !type; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *cell = *line == '|' ? strstr(line, quoted) : NULL,
                   *bar = *line == '|' ? strchr(line + 1, '|') : NULL;
        found = cell && bar && cell < bar;
    }
    if (!found) fail_msg("docs/formats.md, %s: no row of %s %s", heading, quoted, type ? type : "");
    free(quoted);
    free(typed);
}

void assert_store_documented(const TensorFile *store, const char *heading) {
    char *text = section(heading);
    for (int i = 0; i < store->n_tensors; i++)
        assert_row(text, heading, store->tensors[i].name, store->tensors[i].dtype);
    for (int i = 0; i < store->n_metadata; i++)
        if (strcmp(store->metadata_keys[i], SAFETENSORS_SUM_KEY) != 0)
            assert_row(text, heading, store->metadata_keys[i], NULL);
    free(text);
}

/* "block.3.output" -> "block.L.output" */
static void number_to_letter(const char *name, char out[128]) {
    size_t n = 0;
    for (; *name && n < 127; name++)
        if (!isdigit((unsigned char)*name) || !n || out[n - 1] != '.')
            out[n++] = *name;
        else
            for (out[n++] = 'L'; isdigit((unsigned char)name[1]);) name++;
    out[n] = 0;
}

void assert_dump_documented(const TensorFile *dump, const char *heading) {
    static const char *const shared[][2] = {
        {"grad.", "grad.PARAMETER"}, {"frozen_rows.", "frozen_rows.PARAMETER"}, {"sum.", "sum.METRIC"}};
    char *text = section(heading), *all = section("## The debug dump"), name[128];
    int seen = 0;
    for (int i = 0; i < dump->n_tensors; i++) {
        const StoredTensor *t = &dump->tensors[i];
        const char *inner = !strncmp(t->name, "micro", 5) ? strchr(t->name, '.') + 1 : NULL;
        if (inner && !strncmp(inner, "batch.", 6)) {
            assert_row(text, heading, inner + strlen("batch."), t->dtype);
        } else if (inner) {
            number_to_letter(inner, name);
            assert_row(text, heading, name, NULL);
        } else {
            const char *row = t->name;
            for (int k = 0; k < 3; k++)
                if (!strncmp(t->name, shared[k][0], strlen(shared[k][0]))) row = shared[k][1];
            assert_row(all, "## The debug dump", row, t->dtype);
        }
        seen += inner != NULL;
    }
    assert_true(seen > 5);
    assert_row(text, heading, "offsets", "I32");
    free(all);
    free(text);
}
