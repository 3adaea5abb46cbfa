#include "checkpoint/conventions.h"

#include <stdlib.h>
#include <string.h>

static bool ends_like(const char *const *ends, const char *name) {
    for (; ends && *ends; ends++)
        if (ends_with(name, *ends)) return true;
    return false;
}

bool conventions_may_transpose(const ImportConventions *c, const char *name) { return ends_like(c->transposed, name); }

void conventions_transpose(const float *in, int64_t rows, int64_t columns, float *out) {
    enum { BLOCK = 16 }; /* a cache line of floats */
    for (int64_t i = 0; i < rows; i += BLOCK)
        for (int64_t j = 0; j < columns; j += BLOCK)
            for (int64_t r = i; r < rows && r < i + BLOCK; r++)
                for (int64_t c = j; c < columns && c < j + BLOCK; c++) out[c * rows + r] = in[r * columns + c];
}

bool tensor_is_zero(const StoredTensor *tensor) {
    const unsigned char *bytes = tensor->data;
    size_t element = tensor->bytes / (size_t)(tensor->count ? tensor->count : 1);
    for (size_t i = 0; i < tensor->bytes; i++) {
        bool sign = i % element == element - 1; /* -0 is 0, too */
        if (sign ? bytes[i] & 0x7f : bytes[i]) return false;
    }
    return true;
}

/* Returns the index of the beginning in the list that the name has, or -1. */
static int beginning_of(const char *const *beginnings, const char *name) {
    for (int i = 0; beginnings && beginnings[i]; i++)
        if (!strncmp(name, beginnings[i], strlen(beginnings[i]))) return i;
    return -1;
}

/* Puts the root before the names that have one, if none begins with it. */
static void add_root(const ImportConventions *c, TensorFile *file) {
    if (!c->root) return;
    for (int i = 0; i < file->n_tensors; i++)
        if (!strncmp(file->tensors[i].name, c->root, strlen(c->root))) return;
    for (int i = 0; i < file->n_tensors; i++) {
        if (beginning_of(c->rootless, file->tensors[i].name) >= 0) continue;
        char *name = xformat("%s%s", c->root, file->tensors[i].name);
        free(file->tensors[i].name);
        file->tensors[i].name = name;
    }
}

static void rename_ends(const NamePair *ends, TensorFile *file) {
    for (; ends && ends->theirs; ends++)
        for (int i = 0; i < file->n_tensors; i++) {
            char *name = file->tensors[i].name;
            if (!ends_with(name, ends->theirs)) continue;
            file->tensors[i].name = xformat("%.*s%s", (int)(strlen(name) - strlen(ends->theirs)), name, ends->ours);
            free(name);
        }
}

static const StoredTensor *find(const TensorFile *file, const char *name) {
    for (int i = 0; i < file->n_tensors; i++)
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
    return NULL;
}

static bool same_numbers(const StoredTensor *a, const StoredTensor *b) {
    return b && !strcmp(a->dtype, b->dtype) && a->rank == b->rank &&
           !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) &&
           (a->data == b->data || !memcmp(a->data, b->data, a->bytes));
}

/* Returns the pair whose copy has this name, or NULL. */
static const NamePair *copy_of(const ImportConventions *c, const char *name) {
    for (const NamePair *pair = c->copies; pair && pair->theirs; pair++)
        if (!strcmp(pair->theirs, name)) return pair;
    return NULL;
}

static bool check_copy(const NamePair *pair, const TensorFile *file, const StoredTensor *copy, Error *error) {
    const StoredTensor *original = find(file, pair->ours);
    return same_numbers(copy, original) ||
           error_set(error,
                     original ? "%s differs from %s, and in the model they are one tensor: it was trained with a head "
                                "of its own, which this model does not have"
                              : "%s is there without %s, and in the model they are one tensor",
                     pair->theirs, pair->ours);
}

/* Returns whether the tensor is the bias of a weight of the model, which has none. */
static bool is_lacking_bias(const ParamTable *table, const char *name) {
    static const char bias[] = ".bias";
    if (!ends_with(name, bias) || params_find(table, name) >= 0) return false;
    OWNED char *weight = xformat("%.*s.weight", (int)(strlen(name) - strlen(bias)), name);
    return params_find(table, weight) >= 0;
}

/* Sets *keep to whether the tensor is of the model, or unknown. False if the model can neither take it nor do without
 * it. */
static bool judge(const ImportConventions *c, const ParamTable *table, const TensorFile *file,
                  const StoredTensor *tensor, ConventionsReport *report, bool *keep, Error *error) {
    const char *name = tensor->name;
    *keep = params_find(table, name) >= 0;
    if (*keep) return true;
    const NamePair *copy = copy_of(c, name);
    int ignored = beginning_of(c->ignored, name);
    if (copy) return report->copies++, check_copy(copy, file, tensor, error);
    if (ends_like(c->constants, name)) return report->constants++, true;
    if (ignored >= 0) return report->ignored[ignored]++, true;
    *keep = !c->biases || !is_lacking_bias(table, name);
    if (*keep) return true;
    report->zero_biases++;
    return tensor_is_zero(tensor) ||
           error_set(error, "%s is not 0, and the model has no biases: give --%s", name, c->biases);
}

/* Returns whether the file stores the matrices transposed. */
static bool is_transposed(const ImportConventions *c, const ParamTable *table, const TensorFile *file) {
    for (int i = 0; i < file->n_tensors; i++) {
        const StoredTensor *tensor = &file->tensors[i];
        int index = conventions_may_transpose(c, tensor->name) ? params_find(table, tensor->name) : -1;
        if (index < 0 || tensor->rank != 2 || tensor->dims[0] == tensor->dims[1]) continue;
        const Param *param = &table->items[index];
        return tensor->dims[0] == param->dims[1] && tensor->dims[1] == param->dims[0];
    }
    return false;
}

bool conventions_apply(const ImportConventions *c, const ParamTable *table, TensorFile *file, ConventionsReport *report,
                       Error *error) {
    OWNED bool *keep = xcalloc((size_t)file->n_tensors + 1, sizeof *keep);
    int kept = 0;
    *report = (ConventionsReport){0};
    rename_ends(c->ends, file);
    add_root(c, file);
    for (int i = 0; i < file->n_tensors; i++)
        if (!judge(c, table, file, &file->tensors[i], report, &keep[i], error)) return false;
    for (int i = 0; i < file->n_tensors; i++)
        if (keep[i])
            file->tensors[kept++] = file->tensors[i];
        else
            free(file->tensors[i].name);
    file->n_tensors = kept;
    report->transposed = is_transposed(c, table, file);
    return true;
}
