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
    if (snprintf(part, sizeof part, "%s/%s", path, name) >= (int)sizeof part)
        return error_set(error, "the path is too long");
    if (!tensor_file_open(part, file, error)) return error_before(error, "%s: ", name);
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
    OWNED_BY(tensor_file_close) TensorFile file = {0};
    Complaints complaints = {.count = 0};
    if (!open_part(path, "optimizer.safetensors", step, &file, error)) return false;
    take_exactly(&file, "exp_avg.", into->table, into->m, &complaints);
    take_exactly(&file, "exp_avg_sq.", into->table, into->v, &complaints);
    return no_complaints(&complaints, "optimizer.safetensors", error) &&
           (file.n_tensors == 2 * into->table->count ||
            error_set(error, "optimizer.safetensors has %d tensors; the model has %d parameters with two each",
                      file.n_tensors, into->table->count));
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
    if (ok) take_exactly(file, "", into->table, into->weights, &complaints);
    if (ok && no_complaints(&complaints, "model.safetensors", error) &&
        load_optimizer(path, state->step, into, error)) {
        list_carried(carried, into->table);
        return true;
    }
    tensor_file_close(file);
    free(state->options_json);
    state->options_json = NULL;
    return false;
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

/* Changes the name to the reference's: removes the prefix, and what compiled, parallel and merged modules add. Returns
 * false for tensors to skip. */
static bool normalize_name(char *name, const char *prefix) {
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length)) return false;
    memmove(name, name + length, strlen(name) - length + 1);
    if (!strncmp(name, "inference_model.", 16) || !strcmp(name, "gpt.wte.weight")) return false;
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

/* Returns the running mean of the model's norm of this name; NULL: there is none. */
static const Param *running_mean_of(const Import *import, const char *norm, int length) {
    char name[128];
    snprintf(name, sizeof name, "%.*s.running_mean", length, norm);
    int index = params_find(import->table, name);
    return index < 0 ? NULL : &import->table->items[index];
}

/* Returns the rule for the bias of this name; NULL: there is none. */
static const AbsorbedBias *absorbed_of(const ImportRules *rules, const char *name) {
    return absorbed_find(rules->absorbed, rules->n_absorbed, name, ".bias");
}

/* Returns the running mean that absorbs the bias of this name; NULL: it is none of these biases. */
static const Param *absorbing_mean(const Import *import, const char *name) {
    const AbsorbedBias *rule = absorbed_of(import->rules, name);
    const Param *mean = rule ? running_mean_of(import, rule->norm, (int)strlen(rule->norm)) : NULL;
    assert(!rule || mean);
    return mean;
}

/* Returns whether the tensor is torch's counter of the batches that one of the model's norms has seen. */
static bool is_counter(const Import *import, const char *name) {
    static const char counter[] = ".num_batches_tracked";
    return ends_with(name, counter) && running_mean_of(import, name, (int)(strlen(name) - strlen(counter)));
}

/* ---- names and shapes ---- */

/* Complains of the tensors that are neither the model's nor allowed. Returns how many are the model's. */
static int complain_unknown(Import *import, const TensorFile *file) {
    const ImportRules *rules = import->rules;
    int known = 0;
    for (int i = 0; i < file->n_tensors; i++) {
        const char *name = file->tensors[i].name;
        if (params_find(import->table, name) >= 0)
            known++;
        else if (!absorbed_of(rules, name) && !is_counter(import, name) &&
                 prefix_of(rules->extra, rules->n_extra, name) < 0)
            complain(&import->complaints, "%s is not one of the model's tensors", name);
    }
    return known;
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

/* Returns whether the file stores the matrix transposed. */
static bool is_transposed(const Import *import, const Param *param) {
    return import->report->conventions.transposed && conventions_may_transpose(import->rules->conventions, param->name);
}

/* Returns the place of a table in the list of resizable ones whose shape the tensor has but for the rows; -1: it has
 * none. */
static int resizable_of(const Import *import, const StoredTensor *tensor, const Param *param) {
    const ImportRules *rules = import->rules;
    int which = 0;
    while (which < rules->n_resizable && strcmp(rules->resizable[which], param->name) != 0) which++;
    if (which == rules->n_resizable || tensor->rank != param->rank) return -1;
    for (int d = 1; d < param->rank; d++)
        if (tensor->dims[d] != param->dims[d]) return -1;
    return which;
}

static void check_shape(Import *import, const StoredTensor *tensor) {
    int index = params_find(import->table, tensor->name);
    const Param *param = index >= 0 ? &import->table->items[index] : absorbing_mean(import, tensor->name);
    if (!param) return;
    if (index >= 0) import->seen[index] = true;
    bool fits = index >= 0 && is_transposed(import, param)
                    ? tensor->rank == 2 && param->rank == 2 && tensor->dims[0] == param->dims[1] &&
                          tensor->dims[1] == param->dims[0]
                    : same_shape(tensor, param) || (index >= 0 && resizable_of(import, tensor, param) >= 0);
    if (!fits) complain_shape(&import->complaints, tensor, param);
}

static void complain_missing(Import *import) {
    const ImportRules *rules = import->rules;
    bool begun[IMPORT_OPTIONAL] = {false}; /* the file has some of an optional prefix */
    for (int i = 0; i < import->table->count; i++) {
        int optional = prefix_of(rules->optional, rules->n_optional, import->table->items[i].name);
        if (optional >= 0 && import->seen[i]) begun[optional] = true;
    }
    for (int i = 0; i < import->table->count; i++) {
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

/* Returns the known model that the file is of instead; NULL: none. */
static const OtherModel *other_model(const ImportRules *rules, const TensorFile *file) {
    for (int k = 0; k < rules->n_others; k++) {
        const OtherModel *other = &rules->others[k];
        bool has = false, lacks = true;
        for (int i = 0; i < file->n_tensors; i++) {
            has = has || prefix_of(&other->has, 1, file->tensors[i].name) >= 0;
            lacks = lacks && !(other->lacks && prefix_of(&other->lacks, 1, file->tensors[i].name) >= 0);
        }
        if (has && lacks) return other;
    }
    return NULL;
}

/* Checks the names and the shapes of all tensors, and leaves in the file those that are wanted. */
static bool check_tensors(Import *import, TensorFile *file, Error *error) {
    ImportReport *report = import->report;
    const ImportRules *rules = import->rules;
    char what[200] = "its tensors";
    checkpoint_normalize(file, import->table, report);
    if (rules->conventions && !conventions_apply(rules->conventions, import->table, file, &report->conventions, error))
        return false;
    const OtherModel *other = other_model(rules, file);
    if (other) snprintf(what, sizeof what, "it is %s, another model: give %s", other->name, other->instead);
    int n = file->n_tensors, known = complain_unknown(import, file);
    if (!known && !other)
        return error_set(error, "none of its %d tensors is one of the model's (%s, ...)", n + report->skipped,
                         import->table->items[0].name);
    drop_unwanted(rules, file, report);
    if (!tensor_file_index(file, error)) return false;
    for (int i = 0; i < file->n_tensors; i++) check_shape(import, &file->tensors[i]);
    complain_missing(import);
    return no_complaints(&import->complaints, what, error);
}

bool checkpoint_check(TensorFile *file, const ParamTable *table, const ImportRules *rules, Error *error) {
    ImportReport report = {0};
    OWNED bool *seen = xcalloc((size_t)table->count, sizeof *seen);
    Import import = {.table = table, .rules = rules, .report = &report, .seen = seen};
    return check_tensors(&import, file, error);
}

/* ---- numbers ---- */

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
    OWNED float *values = xmalloc((size_t)tensor->count * sizeof *values);
    bool ok = stored_to_f32(tensor, values, error) && check_finite(tensor, values, tensor->count, error);
    if (ok) conventions_transpose(values, param->dims[1], param->dims[0], import->weights + param->offset);
    import->report->loaded++;
    import->report->transposed++;
    return ok;
}

static bool import_tensor(Import *import, const StoredTensor *tensor, const Param *param, Error *error) {
    if (is_transposed(import, param)) return import_transposed(import, tensor, param, error);
    bool same = same_shape(tensor, param);
    if (resizable_of(import, tensor, param) == 0) import->report->base_rows = tensor->dims[0];
    StoredTensor rows = *tensor; /* the leading rows that both tables have */
    if (!same && tensor->dims[0] > param->dims[0]) {
        rows.dims[0] = param->dims[0];
        rows.count = param->count;
    }
    *(same ? &import->report->loaded : &import->report->resized) += 1;
    float *weights = import->weights + param->offset;
    return stored_to_f32(&rows, weights, error) && check_finite(tensor, weights, rows.count, error);
}

/* Absorbs a bias before a norm: norm(x + bias) with a running mean equals norm(x) with the mean minus the bias. */
static bool absorb_bias(Import *import, const StoredTensor *bias, const Param *param, Error *error) {
    float *mean = import->weights + param->offset;
    OWNED float *values = xmalloc((size_t)(bias->count + 1) * sizeof *values);
    bool ok = stored_to_f32(bias, values, error) && check_finite(bias, values, bias->count, error);
    for (int64_t i = 0; ok && i < bias->count; i++) mean[i] -= values[i];
    import->report->absorbed++;
    return ok;
}

static bool absorb_biases(Import *import, const TensorFile *file, Error *error) {
    for (int i = 0; i < file->n_tensors; i++) {
        const Param *mean = absorbing_mean(import, file->tensors[i].name);
        if (mean && !absorb_bias(import, &file->tensors[i], mean, error)) return false;
    }
    return true;
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
    if (!check_tensors(import, file, error)) return false;
    for (int i = 0; i < file->n_tensors; i++) {
        int index = params_find(import->table, file->tensors[i].name);
        if (index >= 0 && !import_tensor(import, &file->tensors[i], &import->table->items[index], error)) return false;
    }
    return absorb_biases(import, file, error);
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
    static const char *const names[] = {"model.safetensors",         "model.safetensors.index.json",
                                        "pytorch_model.bin",         "pytorch_model.bin.index.json",
                                        "adapter_model.safetensors", "adapter_model.bin"};
    OWNED char *found = checkpoint_hold(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (path_holds(found, names[i])) return path_join(found, names[i]);
    return xstrdup(found);
}

/* Refuses a LoRA adapter, whose matrices belong to another model's weights: with a folder's adapter_config.json,
 * Hugging Face's transformers would read that model and put the adapter on it. */
static bool refuse_adapter(const char *path, const TensorFile *file, Error *error) {
    static const char merge[] = "merge the adapter into its model with peft (model.merge_and_unload(), then "
                                "save_pretrained into a new folder), and give that folder";
    bool adapter = path_holds(path, "adapter_config.json");
    for (int i = 0; i < file->n_tensors; i++)
        if (strstr(file->tensors[i].name, ".lora_"))
            return error_set(error, "%s is a tensor of a LoRA adapter, which is not applied here: %s",
                             file->tensors[i].name, merge);
    return !adapter || error_set(error,
                                 "it holds adapter_config.json, of a LoRA adapter that is not applied here: %s; if "
                                 "these weights have it in them, give their file itself",
                                 merge);
}

bool checkpoint_open_base(const char *path, TensorFile *file, Error *error) {
    static const char *const links[] = {BEST_LINK, LAST_LINK};
    OWNED char *weights = checkpoint_weights(path);
    bool opened = tensor_file_open(weights, file, error), ok = opened && refuse_adapter(path, file, error);
    bool is_run = false;
    if (opened && !ok) tensor_file_close(file);
    if (!opened && strcmp(weights, path) != 0) error_before(error, "its %s: ", strrchr(weights, '/') + 1);
    if (ok && strcmp(weights, path) != 0) file_keep(weights, "weights to start from");
    for (int i = 0; i < 2 && !opened && !is_run; i++) {
        OWNED char *link = path_join(path, links[i]);
        is_run = !access(link, F_OK);
        if (is_run) error_set(error, "it is the directory of a run, not of a checkpoint; did you mean %s?", link);
    }
    return ok;
}

char *checkpoint_folder(const char *path) {
    OWNED char *found = checkpoint_hold(path);
    for (size_t n = strlen(found); n > 1 && found[n - 1] == '/';) found[--n] = 0; /* its parent is the run's folder */
    return path_is_folder(found) ? xstrdup(found) : path_directory(found);
}

bool checkpoint_exists(const char *path) {
    OWNED char *found = checkpoint_hold(path);
    return !access(found, F_OK);
}

bool checkpoint_check_base(const char *path, const ParamTable *table, const ImportRules *rules, Error *error) {
    OWNED_BY(tensor_file_close) TensorFile file = {0};
    return checkpoint_open_base(path, &file, error) && checkpoint_check(&file, table, rules, error);
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
    OWNED bool *seen = xcalloc((size_t)into->table->count, sizeof *seen);
    Import import = {.table = into->table, .rules = rules, .weights = into->weights, .report = report, .seen = seen};
    if (!import_tensors(&import, file, error)) {
        tensor_file_close(file);
        return false;
    }
    report->sum = checkpoint_base_sum(file);
    report->missing_names = list_missing(&import);
    list_carried(carried, into->table);
    report->carried = carried->n = drop_expected(&import, carried->tensors, carried->n);
    return true;
}
