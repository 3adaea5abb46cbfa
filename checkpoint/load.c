/* Reads checkpoints back: exactly, to go on with a run, or by the rules for a base checkpoint, to start one from it.
 *
 * The mismatches of all tensors are collected before anything fails, so that one message shows the whole difference
 * (usually a wrong number of layers or another vocabulary). */
#include "checkpoint/load.h"

#include "base/file.h"
#include "checkpoint/folder.h"
#include "data/formats/tensor_file_open.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Mismatches of tensors: the first few as text, the others as a number. */
typedef struct {
    char text[400];
    size_t used;
    int count, listed;
} Complaints;

PRINTF_LIKE(2, 3) static void complain(Complaints *c, const char *format, ...) {
    char line[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    c->count++;
    if (c->used + strlen(line) + 24 > sizeof c->text) return;
    c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, "%s%s", c->used ? "; " : "", line);
    c->listed++;
}

static bool no_complaints(const Complaints *c, const char *what, Error *error) {
    if (!c->count) return true;
    return error_set(error, "%s: %d tensor%s not fit: %s%s", what, c->count, c->count == 1 ? " does" : "s do", c->text,
                     c->count > c->listed ? "; ..." : "");
}

static bool same_shape(const StoredTensor *tensor, const Param *param) {
    bool same = tensor->rank == param->rank;
    for (int i = 0; same && i < param->rank; i++) same = tensor->dims[i] == param->dims[i];
    return same;
}

static void complain_shape(Complaints *complaints, const StoredTensor *tensor, const Param *param) {
    char there[128], here[128];
    complain(complaints, "%s is %s there, %s in the model", tensor->name,
             shape_text(tensor->dtype, tensor->rank, tensor->dims, there),
             shape_text("F32", param->rank, param->dims, here));
}

/* ---- a run's own checkpoint ---- */

/* Copies the tensors PREFIX + parameter into a flat buffer (zero between parameters). */
static void take_exactly(const TensorFile *file, const char *prefix, const ParamTable *table, float *flat,
                         Complaints *complaints) {
    memset(flat, 0, (size_t)table->flat_count * sizeof *flat);
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, param->name);
        const StoredTensor *tensor = tensor_file_find(file, name);
        if (!tensor)
            complain(complaints, "%s is not there", name);
        else if (!same_shape(tensor, param) || strcmp(tensor->dtype, "F32"))
            complain_shape(complaints, tensor, param);
        else
            memcpy(flat + param->offset, tensor->data, tensor->bytes);
    }
}

/* Opens a file of one of our checkpoints. All metadata must be as this program writes them, so that every changed byte
 * is found. */
static bool open_part(const char *path, const char *name, int64_t step, TensorFile *file, Error *error) {
    char part[PATH_MAX], text[24];
    Error reason;
    if (snprintf(part, sizeof part, "%s/%s", path, name) >= (int)sizeof part)
        return error_set(error, "the path is too long");
    if (!tensor_file_open(part, file, &reason)) return error_set(error, "%s: %s", name, reason.text);
    snprintf(text, sizeof text, "%lld", (long long)step);
    const char *made_at = tensor_file_metadata(file, "step"), *format = tensor_file_metadata(file, "format");
    bool ours = format && !strcmp(format, "pt") && tensor_file_metadata(file, SAFETENSORS_SUM_KEY);
    if (ours && made_at && !strcmp(made_at, text)) return true;
    tensor_file_close(file);
    if (!ours || !made_at)
        return error_set(error, "%s: its metadata are not those of a checkpoint of ours: it is damaged", name);
    return error_set(error, "%s is not of step %lld, as state.json is: files of different checkpoints", name,
                     (long long)step);
}

static bool load_optimizer(const char *path, int64_t step, const CheckpointBuffers *into, Error *error) {
    TensorFile file = {0};
    Complaints complaints = {.count = 0};
    if (!open_part(path, "optimizer.safetensors", step, &file, error)) return false;
    take_exactly(&file, "exp_avg.", into->table, into->m, &complaints);
    take_exactly(&file, "exp_avg_sq.", into->table, into->v, &complaints);
    bool ok = no_complaints(&complaints, "optimizer.safetensors", error);
    if (ok && file.n_tensors != 2 * into->table->count)
        ok = error_set(error, "optimizer.safetensors has %d tensors; the model has %d parameters with two each",
                       file.n_tensors, into->table->count);
    tensor_file_close(&file);
    return ok;
}

/* Lists shallow copies of the tensors that the table does not know. */
static void list_carried(CarriedTensors *carried, const ParamTable *table) {
    const TensorFile *file = &carried->file;
    carried->tensors = xcalloc((size_t)file->n_tensors, sizeof *carried->tensors);
    for (int i = 0; i < file->n_tensors; i++)
        if (params_find(table, file->tensors[i].name) < 0) carried->tensors[carried->n++] = file->tensors[i];
}

void carried_close(CarriedTensors *carried) {
    free(carried->tensors);
    tensor_file_close(&carried->file);
    *carried = (CarriedTensors){.n = 0};
}

bool checkpoint_load(const char *path, const CheckpointBuffers *into, TrainState *state, CarriedTensors *carried,
                     Error *error) {
    Complaints complaints = {.count = 0};
    TensorFile *file = &carried->file;
    *carried = (CarriedTensors){.n = 0};
    *state = (TrainState){0};
    bool ok = state_read(path, state, error) && open_part(path, "model.safetensors", state->step, file, error);
    if (ok) {
        take_exactly(file, "", into->table, into->weights, &complaints);
        ok = no_complaints(&complaints, "model.safetensors", error) && load_optimizer(path, state->step, into, error);
    }
    if (!ok) {
        tensor_file_close(file);
        free(state->options_json);
        state->options_json = NULL;
        return false;
    }
    list_carried(carried, into->table);
    return true;
}

/* ---- a base checkpoint ---- */

typedef struct {
    const ParamTable *table;
    const ImportRules *rules;
    float *weights;
    bool *seen; /* [table->count] */
    ImportReport *report;
    Complaints complaints;
} Import;

/* Keys of larger dictionaries under which a state dict may lie. */
static const char *const keys[] = {"model.", "state_dict.", "model_state_dict."};

/* Returns the key under which the state dict lies; "": at top level. */
static const char *find_prefix(const TensorFile *file, const ParamTable *table) {
    for (int i = 0; i < table->count; i++)
        if (tensor_file_find(file, table->items[i].name)) return "";
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (int i = 0; i < file->n_tensors; i++)
            if (!strncmp(file->tensors[i].name, keys[k], strlen(keys[k]))) return keys[k];
    return "";
}

/* Removes `part` from the name wherever it occurs, except its last `keep` characters. */
static void drop(char *name, const char *part, size_t keep) {
    size_t length = strlen(part);
    char *to = name;
    for (const char *from = name; *from;)
        if (!strncmp(from, part, length))
            from += length - keep;
        else
            *to++ = *from++;
    *to = 0;
}

bool checkpoint_name_is(const char *stored, const char *name) {
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!strncmp(stored, keys[k], strlen(keys[k]))) {
            stored += strlen(keys[k]);
            break;
        }
    for (bool begins = true;; begins = false) {
        for (size_t n; (n = !strncmp(stored, "_orig_mod.", 10)         ? 10
                            : begins && !strncmp(stored, "module.", 7) ? 7
                                                                       : 0);)
            stored += n;
        if (*stored != *name || !*name) return *stored == *name;
        stored++;
        name++;
    }
}

const StoredTensor *checkpoint_tensor(const TensorFile *file, const char *name) {
    for (int i = 0; i < file->n_tensors; i++)
        if (checkpoint_name_is(file->tensors[i].name, name)) return &file->tensors[i];
    return NULL;
}

/* Changes the name to the reference's: removes the prefix, and what compiled, parallel and LoRA modules add. Returns
 * false for tensors to skip. */
static bool normalize_name(char *name, const char *prefix) {
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length)) return false;
    memmove(name, name + length, strlen(name) - length + 1);
    if (!strncmp(name, "inference_model.", 16) || strstr(name, ".lora_") || !strcmp(name, "gpt.wte.weight"))
        return false;
    drop(name, "_orig_mod.", 0);
    const char *behind = name;
    while (!strncmp(behind, "module.", 7)) behind += 7;
    memmove(name, behind, strlen(behind) + 1);
    drop(name, ".base_layer.", 1);
    return true;
}

void checkpoint_normalize(TensorFile *file, const ParamTable *table, ImportReport *report) {
    const char *prefix = find_prefix(file, table);
    int kept = 0;
    for (int i = 0; i < file->n_tensors; i++) {
        char *name = file->tensors[i].name;
        bool moment = *prefix && !strncmp(name, "optimizer", 9); /* optimizer, _states or _state_dict */
        if (normalize_name(name, prefix)) {
            file->tensors[kept++] = file->tensors[i];
        } else {
            free(name);
            report->skipped++;
            report->moments += moment;
        }
    }
    file->n_tensors = kept;
}

static bool is_resizable(const Import *import, const StoredTensor *tensor, const Param *param, int *which) {
    const ImportRules *rules = import->rules;
    for (*which = 0; *which < rules->n_resizable; ++*which)
        if (!strcmp(rules->resizable[*which], param->name)) break;
    if (*which == rules->n_resizable || tensor->rank != param->rank) return false;
    for (int d = 1; d < param->rank; d++)
        if (tensor->dims[d] != param->dims[d]) return false;
    return true;
}

/* Fails if a weight is not finite. Otherwise the samples would be blamed for losses that are not finite. */
static bool check_finite(const StoredTensor *tensor, const float *values, int64_t n, Error *error) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return error_set(
                error,
                "tensor '%s': value %lld of %lld is %g, and weights must be finite; they are of a training "
                "that failed, or damaged: take an earlier checkpoint",
                tensor->name, (long long)i, (long long)n, (double)values[i]);
    return true;
}

/* Imports a matrix that the file stores transposed: [columns, rows] of the parameter. */
static bool import_transposed(Import *import, const StoredTensor *tensor, const Param *param, Error *error) {
    int64_t rows = param->dims[0], columns = param->dims[1];
    if (tensor->rank != 2 || param->rank != 2 || tensor->dims[0] != columns || tensor->dims[1] != rows) {
        complain_shape(&import->complaints, tensor, param);
        return true;
    }
    float *values = xmalloc((size_t)tensor->count * sizeof *values);
    bool ok = stored_to_f32(tensor, values, error) && check_finite(tensor, values, tensor->count, error);
    if (ok) conventions_transpose(values, columns, rows, import->weights + param->offset);
    free(values);
    import->report->loaded++;
    import->report->transposed++;
    return ok;
}

static bool import_tensor(Import *import, const StoredTensor *tensor, int index, Error *error) {
    const Param *param = &import->table->items[index];
    const ImportConventions *conventions = import->rules->conventions;
    int which = 0;
    if (import->report->conventions.transposed && conventions_may_transpose(conventions, param->name)) {
        import->seen[index] = true;
        return import_transposed(import, tensor, param, error);
    }
    bool resizable = is_resizable(import, tensor, param, &which), same = same_shape(tensor, param);
    import->seen[index] = true;
    if (!same && !resizable) {
        complain_shape(&import->complaints, tensor, param);
        return true;
    }
    if (resizable && which == 0) import->report->base_rows = tensor->dims[0];
    StoredTensor rows = *tensor; /* the leading rows that both tables have */
    if (!same && tensor->dims[0] > param->dims[0]) {
        rows.dims[0] = param->dims[0];
        rows.count = param->count;
    }
    *(same ? &import->report->loaded : &import->report->resized) += 1;
    float *weights = import->weights + param->offset;
    return stored_to_f32(&rows, weights, error) && check_finite(tensor, weights, rows.count, error);
}

/* Returns the index of the prefix that a name has, or -1. */
static int prefix_of(const char *const *prefixes, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return i;
    return -1;
}

/* Returns whether the rules import tensors of this name. */
static bool is_wanted(const ImportRules *rules, const char *name) {
    return !rules->n_only || prefix_of(rules->only, rules->n_only, name) >= 0;
}

static void drop_unwanted(const ImportRules *rules, TensorFile *file, ImportReport *report) {
    int kept = 0;
    for (int i = 0; i < file->n_tensors; i++) {
        if (is_wanted(rules, file->tensors[i].name)) {
            file->tensors[kept++] = file->tensors[i];
        } else {
            free(file->tensors[i].name);
            report->unwanted++;
        }
    }
    file->n_tensors = kept;
}

static void complain_missing(Import *import) {
    const ImportRules *rules = import->rules;
    bool begun[IMPORT_OPTIONAL] = {false}; /* the file has some of an optional prefix */
    for (int i = 0; i < import->table->count; i++) {
        int optional = prefix_of(rules->optional, rules->n_optional, import->table->items[i].name);
        if (optional >= 0 && import->seen[i]) begun[optional] = true;
    }
    for (int i = 0; i < import->table->count && rules->n_only; i++) {
        const Param *param = &import->table->items[i];
        char shape[128];
        int optional = prefix_of(rules->optional, rules->n_optional, param->name);
        if (param->buffer && !param->moves) continue; /* a constant, which the model sets itself */
        if (optional >= 0 && !begun[optional]) continue;
        if (!import->seen[i] && is_wanted(rules, param->name))
            complain(&import->complaints, "%s, %s in the model, is not there", param->name,
                     shape_text("F32", param->rank, param->dims, shape));
    }
}

/* Returns the running mean of the model's norm of this name; NULL: there is none. */
static const Param *running_mean_of(const Import *import, const char *norm, int length) {
    char name[128];
    snprintf(name, sizeof name, "%.*s.running_mean", length, norm);
    int index = params_find(import->table, name);
    return index < 0 ? NULL : &import->table->items[index];
}

/* Absorbs a bias before a norm: norm(x + bias) with a running mean equals norm(x) with the mean minus the bias. */
static bool absorb_bias(Import *import, const StoredTensor *bias, const char *norm, Error *error) {
    const Param *param = running_mean_of(import, norm, (int)strlen(norm));
    assert(param);
    if (!same_shape(bias, param)) {
        complain_shape(&import->complaints, bias, param);
        return true;
    }
    float *mean = import->weights + param->offset, *values = xmalloc((size_t)(bias->count + 1) * sizeof *values);
    bool ok = stored_to_f32(bias, values, error) && check_finite(bias, values, bias->count, error);
    for (int64_t i = 0; ok && i < bias->count; i++) mean[i] -= values[i];
    free(values);
    import->report->absorbed++;
    return ok;
}

/* Returns the rule for the bias of this name; NULL: there is none. */
static const AbsorbedBias *absorbed_of(const ImportRules *rules, const char *name) {
    return absorbed_find(rules->absorbed, rules->n_absorbed, name, ".bias");
}

static bool absorb_biases(Import *import, const TensorFile *file, Error *error) {
    for (int i = 0; i < file->n_tensors; i++) {
        const AbsorbedBias *rule = absorbed_of(import->rules, file->tensors[i].name);
        if (rule && !absorb_bias(import, &file->tensors[i], rule->norm, error)) return false;
    }
    return true;
}

/* Returns whether the tensor is torch's counter of the batches that one of the model's norms has seen. */
static bool is_counter(const Import *import, const char *name) {
    static const char counter[] = ".num_batches_tracked";
    return ends_with(name, counter) && running_mean_of(import, name, (int)(strlen(name) - strlen(counter)));
}

/* Removes the counters and the absorbed biases from the tensors that the table does not know. Returns the new count. */
static int drop_expected(const Import *import, StoredTensor *tensors, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool counter = is_counter(import, tensors[i].name);
        import->report->counters += counter;
        if (!counter && !absorbed_of(import->rules, tensors[i].name)) tensors[kept++] = tensors[i];
    }
    return kept;
}

static bool import_tensors(Import *import, TensorFile *file, Error *error) {
    ImportReport *report = import->report;
    checkpoint_normalize(file, import->table, report);
    const ImportConventions *conventions = import->rules->conventions;
    if (conventions && !conventions_apply(conventions, import->table, file, &report->conventions, error)) return false;
    drop_unwanted(import->rules, file, report);
    if (!tensor_file_index(file, error)) return false;
    for (int i = 0; i < file->n_tensors; i++) {
        int index = params_find(import->table, file->tensors[i].name);
        if (index >= 0 && !import_tensor(import, &file->tensors[i], index, error)) return false;
    }
    if (!absorb_biases(import, file, error)) return false;
    complain_missing(import);
    if (!no_complaints(&import->complaints, "its tensors", error)) return false;
    return report->loaded + report->resized > 0 ||
           error_set(error, "none of its %d tensors is one of the model's (%s, ...)",
                     file->n_tensors + report->skipped + report->unwanted, import->table->items[0].name);
}

static char *list_missing(const Import *import) {
    char text[400] = "";
    size_t used = 0;
    int listed = 0;
    for (int i = 0; i < import->table->count; i++) {
        if (import->seen[i]) continue;
        const Param *param = &import->table->items[i];
        import->report->missing++;
        if (used + strlen(param->name) + 24 > sizeof text) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s", used ? ", " : "", param->name,
                                 param->buffer ? " (a buffer)" : "");
        listed++;
    }
    return xformat("%s%s", text, listed < import->report->missing ? ", ..." : "");
}

char *checkpoint_weights(const char *path) {
    static const char *const names[] = {"model.safetensors", "pytorch_model.bin"};
    char *found = checkpoint_follow(path), *inside = NULL;
    for (int i = 0; i < 2 && !inside; i++) {
        inside = path_join(found, names[i]);
        if (!access(inside, F_OK)) break;
        free(inside);
        inside = NULL;
    }
    if (inside) free(found);
    return inside ? inside : found;
}

bool checkpoint_open_base(const char *path, TensorFile *file, Error *error) {
    static const char *const links[] = {"best", "last"};
    char *weights = checkpoint_weights(path);
    bool ok = tensor_file_open(weights, file, error), is_run = false;
    if (ok && strcmp(weights, path) != 0) file_keep(weights, "weights to start from");
    free(weights);
    for (int i = 0; i < 2 && !ok && !is_run; i++) {
        char *link = path_join(path, links[i]);
        is_run = !access(link, F_OK);
        if (is_run) error_set(error, "it is the directory of a run, not of a checkpoint; did you mean %s?", link);
        free(link);
    }
    return ok;
}

char *checkpoint_folder(const char *path) {
    char *found = checkpoint_follow(path);
    for (size_t n = strlen(found); n > 1 && found[n - 1] == '/';) found[--n] = 0; /* its parent is the run's folder */
    if (path_is_folder(found)) return found;
    char *folder = path_directory(found);
    free(found);
    return folder;
}

bool checkpoint_exists(const char *path) {
    char *found = checkpoint_follow(path);
    bool exists = !access(found, F_OK);
    free(found);
    return exists;
}

uint64_t checkpoint_base_sum(const TensorFile *file) {
    const char *stated = tensor_file_metadata(file, SAFETENSORS_SUM_KEY);
    return stated ? strtoull(stated, NULL, 16) : 0;
}

bool checkpoint_import(const char *path, const CheckpointBuffers *into, const ImportRules *rules,
                       CarriedTensors *carried, ImportReport *report, Error *error) {
    TensorFile *file = &carried->file;
    *carried = (CarriedTensors){.n = 0};
    *report = (ImportReport){0};
    if (!checkpoint_open_base(path, file, error)) return false;
    Import import = {.table = into->table, .rules = rules, .weights = into->weights, .report = report};
    import.seen = xcalloc((size_t)into->table->count, sizeof(bool));
    bool ok = import_tensors(&import, file, error);
    if (ok) {
        report->sum = checkpoint_base_sum(file);
        report->missing_names = list_missing(&import);
        list_carried(carried, into->table);
        report->carried = carried->n = drop_expected(&import, carried->tensors, carried->n);
    } else {
        tensor_file_close(file);
    }
    free(import.seen);
    return ok;
}
