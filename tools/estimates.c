/* Writes docs/ESTIMATES.md: `make estimates`. The trainers' part is what $BUILD/train_gpt, train_psd and train_cv say
 * with --estimate; the others' comes from their operations on the dry device. */
#include "tools/estimates.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops_table.h"
#include "train/log.h"

/* ---- numbers ---- */

/* One of many buffers, which take turns. */
static char *buffer(void) {
    enum { TURNS = 64, LENGTH = 48 };
    static char buffers[TURNS][LENGTH];
    static int turn;
    return buffers[turn++ % TURNS];
}

/* Whole numbers as they are, else three digits, of which zeros behind the point are left out. No exponent. */
const char *number(double x) {
    char *text = buffer();
    double scale = x ? pow(10, floor(log10(fabs(x))) - 2) : 1, whole = round(x);
    double rounded = fabs(x - whole) <= 1e-12 * fabs(x) ? whole : round(x / scale) * scale;
    if (fabs(rounded) >= 1e6)
        snprintf(text, 48, "%.0f,%03d,%03d", floor(rounded / 1e6), (int)fmod(rounded / 1e3, 1e3),
                 (int)fmod(rounded, 1e3));
    else if (fabs(rounded) >= 1e3)
        snprintf(text, 48, "%.0f,%03d", floor(rounded / 1e3), (int)fmod(rounded, 1e3));
    else
        snprintf(text, 48, fabs(rounded) >= 1e-3 || x == 0 ? "%.3g" : "%.1g", rounded);
    return text;
}

const char *seconds(double x) {
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{2 * DAY, DAY, "days"}, {2 * HOUR, HOUR, "h"}, {120, 60, "min"}, {0.9995, 1, "s"}, {0, 1e-3, "ms"}};
    size_t i = 0;
    char *text = buffer();
    while (x < units[i].from) i++;
    snprintf(text, 48, "%s %s", number(x / units[i].unit), units[i].name);
    return text;
}

const char *bytes(double x) { return format_bytes(x, buffer()); }

const char *percent(double share) {
    char *text = buffer();
    double x = fabs(share);
    snprintf(text, 48, "%.*f %%", x >= 0.0995 ? 0 : x >= 0.000995 || x == 0 ? 1 : 3, 100 * share);
    return text;
}

const char *dollars(double x) {
    char *text = buffer();
    snprintf(text, 48, x < 0.1 ? "$%.4f" : "$%.2f", x);
    return text;
}

const char *times(double x) {
    char *text = buffer();
    if (x < 9.995)
        snprintf(text, 48, "%.2fx", x);
    else
        snprintf(text, 48, "%sx", number(x));
    return text;
}

const char *count(double x) {
    char *text = buffer();
    snprintf(text, 48, x < 1e6 ? "%sK" : "%sM", number(x / (x < 1e6 ? 1e3 : 1e6)));
    return text;
}

/* ---- the document ---- */

typedef enum {
    PLAUSIBLE,
    OPTIMISTIC,
    IMPOSSIBLE,
    TOO_SLOW,
    TOO_HIGH,
    TOO_LOW,
    FITS,
    DOES_NOT_FIT,
    NOT_ARITHMETIC,
    VERDICTS
} Verdict;
static const char *const verdict_names[VERDICTS] = {"plausible", "optimistic",   "impossible",
                                                    "too slow",  "too high",     "too low",
                                                    "fits",      "does not fit", "not arithmetic"};
/* Percent: how far an amount and a ratio may be from what is computed, and what "faster" means at least. */
enum { AMOUNT_WITHIN = 25, RATIO_WITHIN = 8, GAIN_AT_LEAST = 10 };
static const char *const verdict_means[VERDICTS] = {
    [OPTIMISTIC] = "faster than our estimate, not than the card's stated rates",
    "faster than the card's stated rates allow for this work",
    "more than twice our estimate: the card can do it x times as fast",
    "x times what is computed",
    "what is computed is x times as much",
    "it needs no more memory than the card has",
    "it needs more memory than the card has",
    "it cannot be computed from sizes and rates; the reason says what would have to be so, if anything does",
};

static FILE *body;
static char *body_text;
static size_t body_size;
static int counts[VERDICTS], claims, section_runs;
typedef enum { PROSE, RUNS, CLAIMS } Table;
static Table table; /* that is being written */

/* In lines of at most 120 columns. */
static void paragraph(FILE *to, const char *format, ...) PRINTF_LIKE(2, 3);
static void paragraph_of(FILE *to, const char *format, va_list arguments) {
    enum { COLUMNS = 120 };
    char *text, *line;
    if (vasprintf(&text, format, arguments) < 0) die("no memory");
    for (line = text; strlen(line) > COLUMNS;) {
        char *end = line + COLUMNS;
        while (end > line && *end != ' ') end--;
        fprintf(to, "%.*s\n", (int)(end - line), line);
        line = end + 1;
    }
    fprintf(to, "%s\n\n", line);
    free(text);
}

static void paragraph(FILE *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    paragraph_of(to, format, arguments);
    va_end(arguments);
}

void section(const char *title, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(body, "\n## %s\n\n", title);
    paragraph_of(body, format, arguments);
    table = PROSE;
    section_runs = 0;
    va_end(arguments);
}

/* The head of a table; between two tables of a section an empty line. */
static void begin_table(Table kind, const char *head) {
    if (table == kind) return;
    fprintf(body, "%s%s", table == PROSE ? "" : "\n", head);
    table = kind;
}

static void claim(const char *says, Verdict verdict, const char *by, const char *gives, const char *why, va_list more) {
    begin_table(CLAIMS, "| # | the guide says | arithmetic gives | verdict | why |\n|---|---|---|---|---|\n");
    counts[verdict]++;
    fprintf(body, "| %d | %s | %s | **%s**%s | ", ++claims, says, gives, verdict_names[verdict], by);
    vfprintf(body, why, more);
    fputs(" |\n", body);
}

void claim_time(const char *says, double least, double most, double estimate, double floor, const char *why, ...) {
    double nearest = estimate < least ? least : estimate > most ? most : estimate;
    Verdict verdict = nearest < floor          ? IMPOSSIBLE
                      : nearest < estimate     ? OPTIMISTIC
                      : nearest > 2 * estimate ? TOO_SLOW
                                               : PLAUSIBLE;
    char by[64] = "", gives[96];
    if (verdict == OPTIMISTIC || verdict == IMPOSSIBLE)
        snprintf(by, sizeof by, ": needs %s of the stated rates", percent(floor / nearest));
    if (verdict == TOO_SLOW) snprintf(by, sizeof by, " by %s", times(least / estimate));
    snprintf(gives, sizeof gives, "%s (floor %s)", seconds(estimate), seconds(floor));
    va_list more;
    va_start(more, why);
    claim(says, verdict, by, gives, why, more);
    va_end(more);
}

/* Outside of the range, and of the tolerance around it: by how much. */
static Verdict compare(double least, double most, double got, double tolerance, char by[64]) {
    by[0] = 0;
    if (got >= least / (1 + tolerance) && got <= most * (1 + tolerance)) return PLAUSIBLE;
    if (got > 0) snprintf(by, 64, " by %s", times(got < least ? least / got : got / most));
    return got < least ? TOO_HIGH : TOO_LOW;
}

void claim_ratio(const char *says, double least, double most, double ratio, const char *why, ...) {
    char by[64];
    va_list more;
    va_start(more, why);
    Verdict verdict = compare(least, most, ratio, RATIO_WITHIN / 100.0, by);
    claim(says, verdict, by, times(ratio), why, more);
    va_end(more);
}

void claim_gain(const char *says, double ratio, const char *why, ...) {
    char by[64];
    va_list more;
    va_start(more, why);
    Verdict verdict = compare(1 + GAIN_AT_LEAST / 100.0, INFINITY, ratio, 0, by);
    claim(says, verdict, by, times(ratio), why, more);
    va_end(more);
}

void claim_amount(Text text, const char *says, double least, double most, double got, const char *why, ...) {
    char by[64];
    va_list more;
    va_start(more, why);
    Verdict verdict = compare(least, most, got, AMOUNT_WITHIN / 100.0, by);
    claim(says, verdict, by, text(got), why, more);
    va_end(more);
}

void claim_fits(const char *says, const Run *run, double needs, const char *why, ...) {
    char gives[96];
    va_list more;
    va_start(more, why);
    snprintf(gives, sizeof gives, "%s of %s", bytes(needs), bytes(run->available));
    claim(says, needs <= run->available ? FITS : DOES_NOT_FIT, "", gives, why, more);
    va_end(more);
}

void claim_unknown(const char *says, const char *why, ...) {
    va_list more;
    va_start(more, why);
    claim(says, NOT_ARITHMETIC, "", "-", why, more);
    va_end(more);
}

/* ---- runs ---- */

static Run add_run(Run run, const char *what) {
    begin_table(RUNS, "| run | configuration | a step | floor | memory | of which activations |\n"
                      "|---|---|---|---|---|---|\n");
    run.name = (char)('a' + section_runs++);
    if (run.name > 'z') die("%s: more runs than letters", what);
    fprintf(body, "| %c | %s | %s | %s | %s | %s |\n", run.name, what, seconds(run.step), seconds(run.floor),
            bytes(run.memory), bytes(run.activations));
    return run;
}

static double member(const json_t *object, const char *key, const char *command) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) die("%s: there is no number '%s' in what it prints", command, key);
    return json_number_value(value);
}

static const char *word(const json_t *object, const char *key, const char *command) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) die("%s: there is no text '%s' in what it prints", command, key);
    return text;
}

static json_t *json_of(const char *command) {
    json_error_t error;
    char *quiet = xformat("%s 2>/dev/null", command);
    FILE *pipe = popen(quiet, "r");
    json_t *root = pipe ? json_loadf(pipe, 0, &error) : NULL;
    int status = pipe ? pclose(pipe) : 1;
    free(quiet);
    if (!root || status) die("%s: failed: run it to see why", command);
    return root;
}

static int op_named(const char *name, const char *command) {
    for (int op = 0; op < ESTIMATE_OPS; op++)
        if (!strcmp(estimate_op_name(op), name)) return op;
    die("%s: there is no operation '%s'", command, name);
}

static bool is_convolution(int op) {
    WorkKind kind = work_kind(op);
    return kind >= WORK_CONVOLUTION && kind <= WORK_STEM_BACKWARD;
}

static void sum_up(Run *run, const Machine *machine, const Work *work) {
    run->floor = estimate_floor(machine, work);
    run->peak = estimate_peak(machine);
    for (int op = 0; op < ESTIMATE_OPS; op++) {
        run->flops += work->ops[op].all.flops;
        if (is_convolution(op)) run->convolutions += work->ops[op].all.flops;
    }
}

static Run run_of_json(const json_t *root, const char *command) {
    const json_t *card = json_array_get(json_object_get(root, "gpus"), 0), *row;
    const json_t *memory = json_object_get(root, "memory_bytes"), *step = json_object_get(root, "step");
    const char *type = word(card, "type", command);
    Run run = {.card = card_of_key(word(card, "gpu", command)),
               .step = member(card, "step_seconds", command),
               .launches = member(card, "launch_seconds", command),
               .memory_bound = member(card, "memory_seconds", command),
               .loader = member(card, "loader_seconds", command),
               .copy = member(card, "copy_seconds", command),
               .sequences = member(step, "sequences", command),
               .tokens = member(step, "tokens", command),
               .parameters = member(root, "parameters", command),
               .memory = member(memory, "total", command),
               .states = member(memory, "gradients", command) + member(memory, "optimizer", command),
               .activations = member(memory, "activations", command),
               .available = member(card, "available_bytes", command)};
    bool tf32 = !strcmp(type, "TF32");
    Machine machine = {.card = run.card,
                       .half = tf32 || !strcmp(type, "f32") ? DTYPE_F32 : card_half(run.card),
                       .tf32 = tf32,
                       .workers = 1};
    Work *work = xcalloc(1, sizeof *work);
    size_t i;
    json_array_foreach(json_object_get(card, "operations"), i, row) {
        int op = op_named(word(row, "operation", command), command);
        op_work_add(&work->ops[op], (CallWork){member(row, "calls", command), member(row, "flops", command),
                                               member(row, "bytes", command)});
    }
    run.update_bytes = work->ops[op_named("adamw_update", command)].all.bytes;
    sum_up(&run, &machine, work);
    free(work);
    return run;
}

Run run_program(const char *card, const char *format, ...) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    char *arguments, *command, *shown;
    va_list list;
    va_start(list, format);
    if (vasprintf(&arguments, format, list) < 0) die("no memory");
    va_end(list);
    command = xformat("'%s'/%s --estimate --json --gpu %s", build, arguments, card);
    shown = xformat("`./%s --estimate --gpu %s`", arguments, card);
    json_t *root = json_of(command);
    Run run = add_run(run_of_json(root, command), shown);
    json_decref(root);
    free(arguments);
    free(command);
    free(shown);
    return run;
}

static const char *precision_name(const Card *card, Precision precision) {
    return precision == IN_16_BITS                  ? dtype_name(card_half(card))
           : precision == IN_TF32 && card->tf32 > 0 ? "TF32"
                                                    : "f32";
}

static char *text_what(const TextModel *model, const Card *card, TextBatch b, Precision precision) {
    char more[32] = "";
    if (b.accumulation > 1) snprintf(more, sizeof more, ", %d micro-batches", b.accumulation);
    return xformat("%s, %d x %d tokens%s%s, %s on %s", model->name, b.sequences, b.length, more,
                   b.recompute ? ", gradient checkpointing" : "", precision_name(card, precision), card->key);
}

Run run_text(const TextModel *model, const char *key, TextBatch b, Precision precision) {
    const Card *card = card_of_key(key);
    b.half = precision == IN_16_BITS ? card_half(card) : DTYPE_F32;
    TextStep *step = xcalloc(1, sizeof *step);
    *step = text_step(model, b);
    Machine machine = {.card = card, .half = b.half, .tf32 = precision == IN_TF32, .workers = 8};
    WorkTime t = estimate_work(&machine, &step->step);
    Run run = {.card = card,
               .step = t.seconds,
               .launches = t.parts[BY_LAUNCHES],
               .memory_bound = t.parts[BY_MEMORY],
               .loader = t.loader,
               .copy = t.copy,
               .update_bytes = step->step.ops[op_named("adamw_update", key)].all.bytes,
               .sequences = step->step.sequences,
               .tokens = step->step.tokens,
               .parameters = step->parameters,
               .memory = (double)memory_total(&step->memory),
               .states = (double)(step->memory.gradients + step->memory.optimizer),
               .activations = (double)step->memory.activations,
               .available = estimate_available(card),
               .validation_seconds = estimate_work(&machine, &step->validation).seconds,
               .validation_activations = (double)step->evaluation.activations};
    sum_up(&run, &machine, &step->step);
    free(step);
    char *what = text_what(model, card, b, precision);
    run = add_run(run, what);
    free(what);
    return run;
}

/* ---- all of it ---- */

static void print_cards(void) {
    static const char *const used[] = {"t4",      "v100",    "a10",     "a30",     "a40", "a100-40",
                                       "a100-80", "rtx3090", "rtx4080", "rtx4090", "l4",  "l40s"};
    printf("| card | f32 | TF32 | 16 bits | sustained: tensor cores | f32 | GB/s | sustained | memory |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        const Card *c = card_of_key(used[i]);
        printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c->key, number(c->f32 / 1e12),
               c->tf32 > 0 ? number(c->tf32 / 1e12) : "none", number(c->half / 1e12), percent(c->of_tensor),
               percent(c->of_f32), number(c->bandwidth / 1e9), percent(c->of_bandwidth), bytes(c->memory));
    }
}

static void print_head(void) {
    const Card *l4 = card_of_key("l4"); /* any: they have these in common */
    printf("# The guides' claims, computed\n\n");
    paragraph(stdout, "Written by `make estimates` (`tools/estimates*.c`); `make test` fails if it is not what that "
                      "writes. No verdict is typed: each is computed from the numbers beside it.");
    paragraph(
        stdout,
        "Five guides to the reference trainers promise times, speed-ups, gigabytes, utilisation and dollars. Here is "
        "each of these %d claims beside what arithmetic gives for the guide's own configuration on the guide's own "
        "card. Nothing was measured on a GPU for this page. What a guide says of accuracy is left out.",
        claims);
    printf("## How to read it\n\n");
    paragraph(
        stdout,
        "A **step** is one of the optimizer, with all its micro-batches. Its time is the sum over its operations of "
        "the larger of FLOPs over the sustained rate and bytes over the sustained bandwidth, plus %s us a kernel "
        "([Before renting a card](../README.md#before-renting-a-card)). The **floor** is the same at the rates that "
        "the data sheet states, with launches for nothing. Every byte counts as going to memory: a model of which much "
        "stays in a large L2 can be faster than both. **Memory** is what is allocated for a step: weights, gradients, "
        "moments, activations, batches; of the card's own, %s are set aside for CUDA itself (assumed), and %s are kept "
        "free, as a "
        "run does.",
        number(l4->launch * 1e6), bytes((double)CARD_LOADED), bytes((double)CARD_KEPT));
    paragraph(stdout,
              "All numbers are of our programs' operations. The reference's programs, which the guides speak of, may "
              "recompute, pad or move more, and are then slower or larger than this; where their code tells by how "
              "much, the reason says so. A claim that is plausible for our program need not be for theirs.");
    paragraph(stdout,
              "A claim that is a range is judged by the end that is nearest to what is computed. Where a guide says "
              "faster, or less, and no number, %d %% is taken as meant. Letters are runs of the section's tables; "
              "their commands print all that was used, operation by operation.",
              GAIN_AT_LEAST);
    printf("| verdict | claims | means |\n|---|---|---|\n");
    for (int i = 0; i < VERDICTS; i++) {
        printf("| %s | %d | ", verdict_names[i], counts[i]);
        if (i == PLAUSIBLE)
            printf("a time from our estimate to twice that; an amount within %d %%, a ratio within %d %% of what is "
                   "computed |\n",
                   AMOUNT_WITHIN, RATIO_WITHIN);
        else
            printf("%s |\n", verdict_means[i]);
    }
    paragraph(stdout, "\nThe cards: TFLOP/s of dense products with f32 sums, and what is taken as sustained; the "
                      "sources are in `kernels/cards.c`. Attention is taken to sustain half of what products do; in "
                      "f32 and TF32, and on a V100, whose tensor cores ours does not use, half of what f32 does.");
    print_cards();
}

int main(void) {
    /* What this machine has measured of its own devices must not count. */
    if (setenv("XDG_CACHE_HOME", "/nonexistent", 1)) die("no memory");
    body = open_memstream(&body_text, &body_size);
    if (!body) die("no memory");
    estimates_amharic();
    estimates_psd();
    estimates_flim();
    estimates_phobert();
    estimates_slm();
    fclose(body);
    print_head();
    fputs(body_text, stdout);
    free(body_text);
    return fflush(stdout) ? 1 : 0;
}
