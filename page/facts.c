#include "page/facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "base/json.h"
#include "checkpoint/folder.h"
#include "page/log.h"
#include "report/html.h"

char *facts_value_text(const json_t *value) {
    if (!value) return xstrdup("");
    if (json_is_string(value)) return xstrdup(json_string_value(value));
    if (json_is_null(value)) return xstrdup("none");
    if (json_is_array(value)) {
        OWNED char *text = xstrdup("");
        size_t i;
        json_t *entry;
        json_array_foreach(value, i, entry) {
            OWNED char *one = facts_value_text(entry);
            xappend(&text, "%s%s", i ? ", " : "", one);
        }
        return xstrdup(*text ? text : "none");
    }
    return json_text("an option", value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
}

/* ---- numbers ---- */

/* Writes a number in large type, with a line below; value NULL: unknown. Frees both. */
static void card(FILE *out, const char *name, char *value, char *note) {
    html_print(out, "<div class=\"card\"><dt>%s</dt>", name);
    if (value)
        html_print(out, "<dd>%s</dd>", value);
    else
        fputs("<dd class=\"unknown\">unknown</dd>", out);
    if (note) html_print(out, "<dd class=\"note\">%s</dd>", note);
    fputs("</div>\n", out);
    FREE(value, note);
}

static void card_speed(FILE *out, const LoggedRun *run) {
    char text[32];
    bool known = isfinite(run->tokens_rate);
    const char *token = logged_run_text(run, "token_label"), *step = logged_run_text(run, "step_label");
    card(out, "Speed",
         known ? xformat("%s %s/s", format_count(run->tokens_rate, "", text), token ? token : "tokens") : NULL,
         known ? xformat("%.3g %s/s, medians", run->steps_rate, step ? step : "steps") : NULL);
}

static void card_utilisation(FILE *out, const LoggedRun *run) {
    const char *numbers = json_string_value(json_object_get(run->measured, "numbers"));
    const char *machine = json_string_value(json_object_get(run->measured, "machine"));
    char peak[32], *note = NULL;
    format_count(run->peak_flops, "FLOP/s", peak);
    if (run->peak_flops > 0)
        note = xformat("of %s, the stated %s peak of %s", peak, numbers ? numbers : "", machine ? machine : "the card");
    else if (isfinite(run->utilisation))
        note = xstrdup("of a peak that the log does not state");
    else if (json_object_get(run->measured, "peak_flops"))
        note = xformat("no peak is stated for %s", machine ? machine : "this machine");
    card(out, run->recomputes ? "HFU" : "MFU",
         isfinite(run->utilisation) ? xformat("%.1f %%", 100 * run->utilisation) : NULL, note);
}

static void card_memory(FILE *out, const LoggedRun *run) {
    char peak[32], planned[32], all[32];
    double device = logged_run_number(run, "device_bytes");
    bool measured = isfinite(run->peak_bytes), is_planned = isfinite(run->planned_bytes);
    format_bytes(run->peak_bytes, peak);
    format_bytes(run->planned_bytes, planned);
    format_bytes(device, all);
    card(out, "Memory",
         measured     ? xstrdup(peak)
         : is_planned ? xstrdup(planned)
                      : NULL,
         is_planned ? xformat("%s%s%s%s", measured ? "at most; planned " : "planned", measured ? planned : "",
                              isfinite(device) ? " of " : "", isfinite(device) ? all : "")
                    : NULL);
}

static void card_cost(FILE *out, const LoggedRun *run) {
    const char *currency = run->currency;
    bool known = isfinite(run->cost) && run->price > 0;
    char *note;
    if (known)
        note = xformat("at %.4g %s an hour", run->price, currency);
    else if (!currency)
        note = xstrdup("no price was given");
    else if (run->price > 0)
        note =
            xformat("a part of the run has no price in %s; the last part: %.2f %s", currency, run->part_cost, currency);
    else
        note = xstrdup("a part of the run has no price");
    card(out, run->end == RUN_UNENDED ? "Cost so far" : "Cost", known ? xformat("%.2f %s", run->cost, currency) : NULL,
         note);
}

void facts_numbers(FILE *out, const LoggedRun *run) {
    char time[32], each[32];
    bool best = run->best_step >= 0;
    fputs("<dl class=\"cards\">\n", out);
    card(out, best ? run->metric : "Best validation", best && isfinite(run->best) ? xformat("%.4g", run->best) : NULL,
         best ? isfinite(run->best_epoch)
                    ? xformat("best, at step %lld, epoch %.0f", (long long)run->best_step, run->best_epoch)
                    : xformat("best, at step %lld", (long long)run->best_step)
              : NULL);
    card(out, "Steps", xformat("%lld", (long long)run->step),
         run->total_steps < 0 ? NULL
         : isfinite(run->epoch)
             ? xformat("of %lld; %.0f epoch%s", (long long)run->total_steps, run->epoch, run->epoch == 1 ? "" : "s")
             : xformat("of %lld", (long long)run->total_steps));
    card(out, "Training time", xstrdup(format_duration(run->seconds, time)),
         run->step
             ? xformat("%s a step, validation included", format_milliseconds(run->seconds / (double)run->step, each))
             : NULL);
    card_speed(out, run);
    card_utilisation(out, run);
    card_memory(out, run);
    card_cost(out, run);
    fputs("</dl>\n", out);
}

/* ---- configuration ---- */

/* Returns whether the list `key` of the record has this name. */
static bool is_listed(const LoggedRun *run, const char *key, const char *name) {
    const json_t *list = json_object_get(run->start, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        if (one && !strcmp(one, name)) return true;
    }
    return false;
}

static void option_row(FILE *out, const char *name, const json_t *value, const json_t *other, const char *source) {
    OWNED char *text = facts_value_text(value), *unset = other ? facts_value_text(other) : NULL;
    html_print(out, "<tr><th scope=\"row\">%s</th><td>%s", name, text);
    if (other) html_print(out, "</td><td>%s", unset);
    if (source) fprintf(out, "</td><td>%s", source);
    fputs("</td></tr>\n", out);
}

static void all_options(FILE *out, const json_t *options) {
    const char *name;
    json_t *value;
    fprintf(out, "<details><summary>All %zu options</summary>\n", json_object_size(options));
    html_table_begin(out, "All options", "option|value");
    json_object_foreach((json_t *)(uintptr_t)options, name, value) { option_row(out, name, value, NULL, NULL); }
    html_table_end(out);
    fputs("</details>\n", out);
}

void facts_configuration(FILE *out, const LoggedRun *run, int level) {
    const json_t *options = logged_run_options(run);
    json_t *defaults = json_object_get(run->start, "defaults"), *unset;
    const char *name;
    fprintf(out, "<h%d>Configuration</h%d>\n", level, level);
    if (!options) {
        fputs("<p>Unknown: neither log.jsonl nor a checkpoint has the options.</p>\n", out);
        return;
    }
    if (!defaults)
        fputs("<p>Which options differ from their defaults is unknown: the log is of an older program.</p>\n", out);
    else if (!json_object_size(defaults))
        fputs("<p>All options have their defaults.</p>\n", out);
    else {
        html_table_begin(out, "Options that differ from their defaults", "option|value|default|from");
        json_object_foreach(defaults, name, unset) {
            option_row(out, name, json_object_get(options, name), unset,
                       is_listed(run, "given", name)     ? "given"
                       : is_listed(run, "adopted", name) ? "the base checkpoint"
                                                         : "chosen by the program");
        }
        html_table_end(out);
    }
    all_options(out, options);
}

/* ---- origin ---- */

/* Returns the checksum in the metadata of a checkpoint's weights, and their step: "step 500, 0a1b..."; NULL: there are
 * none. free(). Reads the header only. */
static char *weights_text(const LoggedRun *run, const char *link) {
    enum { LARGEST = 1 << 26 };
    OWNED char *path = xformat("%s/%s/model.safetensors", run->directory, link), *header = NULL;
    char *text = NULL;
    uint64_t size = 0;
    size_t all;
    int file = checkpoint_file_open(path, &all, NULL);
    if (file >= 0 && read(file, &size, sizeof size) == sizeof size && size < LARGEST && size < all)
        header = xmalloc(size);
    if (header && read(file, header, size) == (ssize_t)size) {
        json_auto_t *root = json_loadb(header, size, 0, NULL);
        const json_t *metadata = json_object_get(root, "__metadata__");
        const char *sum = json_string_value(json_object_get(metadata, "xxh3_64"));
        const char *step = json_string_value(json_object_get(metadata, "step"));
        if (sum) text = xformat("%s%s, weights %s", step ? "step " : "", step ? step : "", sum);
    }
    if (file >= 0) close(file);
    return text;
}

static void fact_text(FILE *out, const LoggedRun *run, const char *name, const char *key) {
    html_fact(out, name, logged_run_text(run, key));
}

static void fact_owned(FILE *out, const char *name, char *value) {
    html_fact(out, name, value);
    free(value);
}

/* Returns a hash of the start record, or the number under the same key of the checkpoint in hexadecimal; free(). */
static char *hash_text(const LoggedRun *run, const char *key) {
    const char *text = logged_run_text(run, key);
    json_int_t number = json_integer_value(json_object_get(run->state, key));
    if (text) return xstrdup(text);
    return !run->start && number ? xformat("%016llx", (unsigned long long)number) : NULL;
}

static char *revision_text(const LoggedRun *run) {
    const char *version = logged_run_text(run, "version"), *revision = logged_run_text(run, "revision");
    if (!revision) revision = json_string_value(json_object_get(run->state, "revision"));
    const char *program = logged_run_text(run, "program");
    return revision ? xformat("%s%s%s%srevision %s", program ? program : "", program ? " " : "", version ? version : "",
                              version ? ", " : "", revision)
                    : NULL;
}

static char *model_text(const LoggedRun *run) {
    const char *model = logged_run_text(run, "model");
    double all = logged_run_number(run, "parameters"), trained = logged_run_number(run, "parameters_trained");
    return model ? xformat("%s, %.0f parameters, %.0f of them trained", model, all, trained) : NULL;
}

static void facts_data(FILE *out, const LoggedRun *run) {
    double n = logged_run_number(run, "samples"), validation = logged_run_number(run, "validation_samples");
    if (isnan(n)) n = json_number_value(json_object_get(run->state, "n_samples"));
    fact_owned(out, "Training samples", n > 0 ? xformat("%.0f", n) : NULL);
    fact_owned(out, "Validation samples", validation >= 0 ? xformat("%.0f", validation) : NULL);
    fact_owned(out, "Hash of the samples' names and lengths", hash_text(run, "data_hash"));
    fact_owned(out, "Hash of the training data", hash_text(run, "content_hash"));
    if (!(validation == 0)) fact_owned(out, "Hash of the validation data", hash_text(run, "validation_hash"));
    const char *base = logged_run_text(run, "base_checkpoint"), *hash = logged_run_text(run, "base_hash");
    if (base) fact_owned(out, "Started from", xformat("%s%s%s", base, hash ? ", weights " : "", hash ? hash : ""));
    fact_owned(out, "Best checkpoint", weights_text(run, BEST_LINK));
    fact_owned(out, "Last checkpoint", weights_text(run, LAST_LINK));
}

/* Returns the options that differ between two starts: "learning-rate 0.001 to 0.0001"; free(). */
static char *changes_text(const json_t *before, const json_t *after) {
    json_t *old = json_object_get(before, "options"), *new = json_object_get(after, "options"), *value;
    char *text = xstrdup("");
    const char *name;
    json_object_foreach(old, name, value) {
        json_t *other = json_object_get(new, name);
        if (!strcmp(name, "resume") || !other || json_equal(value, other)) continue;
        OWNED char *a = facts_value_text(value), *b = facts_value_text(other);
        xappend(&text, "%s%s %s to %s", *text ? "; " : "", name, a, b);
    }
    return text;
}

static void cell(FILE *out, const json_t *record, const char *key) {
    const char *text = json_string_value(json_object_get(record, key));
    html_print(out, "<td>%s</td>", text ? text : "unknown");
}

static void restarts(FILE *out, const LoggedRun *run, int level) {
    const json_t *before = NULL;
    json_t *record;
    size_t i;
    if (run->starts < 2) return;
    fprintf(out, "<h%d>Restarts</h%d>\n", level + 1, level + 1);
    html_table_begin(out, "Starts of this run", "at step|date|revision|machine|changed options");
    json_array_foreach(run->records, i, record) {
        if (!log_is_kind(record, "start")) continue;
        OWNED char *changes = changes_text(before, record);
        fprintf(out, "<tr><th scope=\"row\">%lld</th>", (long long)json_integer_value(json_object_get(record, "step")));
        cell(out, record, "date");
        cell(out, record, "revision");
        cell(out, record, "machine");
        html_print(out, "<td>%s</td></tr>\n", *changes ? changes : "none");
        before = record;
    }
    html_table_end(out);
}

/* Returns the ranks of the last part, with the slowest and the share of the time that went into exchanges at the end;
 * NULL: there was one. free() */
static char *ranks_text(const LoggedRun *run) {
    double ranks = logged_run_number(run, "ranks"), slowest = NAN, share = NAN;
    const char *over = logged_run_text(run, "ranks_over");
    json_t *record;
    size_t i;
    if (!(ranks > 1)) return NULL;
    json_array_foreach(run->records, i, record) {
        const json_t *rank = json_object_get(record, "ranks/slowest"),
                     *of = json_object_get(record, "ranks/exchange_share");
        if (rank) slowest = json_number_value(rank), share = json_number_value(of);
    }
    char *text = xformat("%.0f, over %s", ranks, over ? over : "an unknown library");
    if (isfinite(share))
        xappend(&text, "; rank %.0f is the slowest; exchanges take %.0f %% of a step", slowest, 100 * share);
    return text;
}

static void facts_ranks(FILE *out, const LoggedRun *run) {
    char *text = ranks_text(run);
    if (text) fact_owned(out, "Ranks", text);
}

void facts_origin(FILE *out, const LoggedRun *run, int level) {
    const char *command = logged_run_text(run, "command");
    fprintf(out, "<h%d>Origin</h%d>\n", level, level);
    if (command) html_print(out, "<pre tabindex=\"0\"><code>%s</code></pre>\n", command);
    fputs("<dl class=\"facts\">\n", out);
    if (!command) html_fact(out, "Command", NULL);
    fact_owned(out, "Program", revision_text(run));
    fact_text(out, run, run->starts > 1 ? "Last started" : "Started", "date");
    fact_owned(out, "Restarts", run->starts ? xformat("%d", run->starts - 1) : NULL);
    fact_text(out, run, "Machine", "machine");
    fact_text(out, run, "Device", "device");
    facts_ranks(out, run);
    fact_text(out, run, "Host", "host");
    fact_text(out, run, "Current folder", "directory");
    html_fact(out, "Folder of the run", run->directory);
    fact_owned(out, "Model", model_text(run));
    facts_data(out, run);
    fputs("</dl>\n", out);
    restarts(out, run, level);
}
