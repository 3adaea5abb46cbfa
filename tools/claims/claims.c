#include "tools/claims/claims.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "estimate/estimate.h"

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
static int counts[2][VERDICTS], claims, section_runs; /* counts: of ours, of the guides' own programs */
typedef enum { PROSE, RUNS, CLAIMS } Table;
static Table table; /* the table that is being written */

static void paragraph_of(FILE *to, const char *format, va_list arguments) {
    enum { COLUMNS = 120 };
    OWNED char *text = vxformat(format, arguments);
    char *line;
    for (line = text; strlen(line) > COLUMNS;) {
        char *end = line + COLUMNS;
        while (end > line && *end != ' ') end--;
        fprintf(to, "%.*s\n", (int)(end - line), line);
        line = end + 1;
    }
    fprintf(to, "%s\n\n", line);
}

void paragraph(FILE *to, const char *format, ...) {
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

/* Writes the head of a table, after an empty line if another table of the section came before. */
static void begin_table(Table kind, const char *head) {
    if (table == kind) return;
    fprintf(body, "%s%s", table == PROSE ? "" : "\n", head);
    table = kind;
}

/* A number for one of the two programs, and the verdict. */
typedef struct {
    Verdict verdict;
    char cell[256];
} Judged;

static double theirs = NAN; /* of the next claim: see claim_theirs */

void claim_theirs(double number) { theirs = number; }

/* by: how far off, "" if that is not told. */
static Judged judged(Verdict verdict, const char *gives, const char *by) {
    Judged j = {.verdict = verdict};
    snprintf(j.cell, sizeof j.cell, "%s%s**%s**%s", gives, *gives ? ": " : "", verdict_names[verdict], by);
    return j;
}

/* other: of the guide's own program; NULL: not known. */
static void claim(const char *says, Judged ours, const Judged *other, const char *why, va_list more) {
    begin_table(CLAIMS, "| # | the guide says | ours | the guide's own program | why |\n|---|---|---|---|---|\n");
    counts[0][ours.verdict]++;
    if (other) counts[1][other->verdict]++;
    fprintf(body, "| %d | %s | %s | %s | ", ++claims, says, ours.cell, other ? other->cell : "-");
    vfprintf(body, why, more);
    fputs(" |\n", body);
    theirs = NAN;
}

static Judged judge_time(double least, double most, double estimate, double floor) {
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
    return judged(verdict, gives, by);
}

void claim_time(const char *says, double least, double most, double estimate, double floor, const char *why, ...) {
    OWNED char *gives = xformat("at least %s", seconds(isnan(theirs) ? 0 : theirs));
    Judged other = judged(most < theirs ? IMPOSSIBLE : PLAUSIBLE, gives, "");
    va_list more;
    va_start(more, why);
    claim(says, judge_time(least, most, estimate, floor), isnan(theirs) ? NULL : &other, why, more);
    va_end(more);
}

static Judged judge_range(int within, Text text, double least, double most, double got) {
    double tolerance = 1 + within / 100.0;
    char by[64] = "";
    Verdict verdict = got < least ? TOO_HIGH : TOO_LOW;
    if (got >= least / tolerance && got <= most * tolerance)
        verdict = PLAUSIBLE;
    else if (got > 0)
        snprintf(by, sizeof by, " by %s", times(got < least ? least / got : got / most));
    return judged(verdict, text(got), by);
}

void claim_range(int within, Text text, const char *says, double least, double most, double got, const char *why, ...) {
    Judged other = judge_range(within, text, least, most, theirs);
    va_list more;
    va_start(more, why);
    claim(says, judge_range(within, text, least, most, got), isnan(theirs) ? NULL : &other, why, more);
    va_end(more);
}

static Judged judge_fits(const Run *run, double needs) {
    char gives[96];
    snprintf(gives, sizeof gives, "%s of %s", bytes(needs), bytes(run->available));
    return judged(needs <= run->available ? FITS : DOES_NOT_FIT, gives, "");
}

void claim_fits(const char *says, const Run *run, const char *why, ...) {
    Judged other = judge_fits(run, theirs);
    va_list more;
    va_start(more, why);
    claim(says, judge_fits(run, run->memory), isnan(theirs) ? NULL : &other, why, more);
    va_end(more);
}

void claim_unknown(const char *says, const char *why, ...) {
    va_list more;
    va_start(more, why);
    claim(says, judged(NOT_ARITHMETIC, "", ""), NULL, why, more);
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
    OWNED char *quiet = xformat("%s 2>/dev/null", command);
    FILE *pipe = popen(quiet, "r");
    json_t *root = pipe ? json_loadf(pipe, 0, &error) : NULL;
    int status = pipe ? pclose(pipe) : 1;
    if (!root || status) die("%s: failed: run it to see why", command);
    return root;
}

static int op_named(const char *name, const char *command) {
    for (int op = 0; op < OP_COUNT; op++)
        if (!strcmp(op_names[op], name)) return op;
    die("%s: there is no operation '%s'", command, name);
}

static bool is_convolution(int op) {
    WorkKind kind = work_kind(op);
    return kind >= WORK_CONVOLUTION && kind <= WORK_STEM_BACKWARD;
}

static void sum_up(Run *run, const Machine *machine, const Work *work) {
    run->peak = machine_peak_flops(machine);
    for (int op = 0; op < OP_COUNT; op++) {
        run->flops += work->ops[op].all.flops;
        if (is_convolution(op)) run->convolutions += work->ops[op].all.flops;
    }
}

/* Reads what several cards take; nothing of one. */
static void read_shared(Run *run, const json_t *shared, const char *command) {
    const json_t *ways = json_object_get(shared, "ways"), *time = json_object_get(shared, "time");
    const char *const which[] = {"one_card", "asked", "chosen"};
    double steps[3];
    if (!time) return;
    for (int i = 0; i < 3; i++) {
        const json_t *way = json_array_get(ways, (size_t)member(shared, which[i], command));
        steps[i] = member(json_object_get(way, "time"), "step_seconds", command);
    }
    run->exposed = member(time, "step_seconds", command) - member(time, "compute_seconds", command);
    run->sent = member(time, "sent_bytes", command);
    run->gain = steps[0] / steps[1], run->chosen_gain = steps[0] / steps[2];
}

static Run run_of_json(const json_t *root, const char *command) {
    const json_t *card = json_array_get(json_object_get(root, "gpus"), 0), *row;
    const json_t *memory = json_object_get(root, "memory_bytes"), *step = json_object_get(root, "step");
    const char *type = word(card, "type", command);
    Run run = {.card = card_of_key(word(card, "gpu", command)),
               .step = member(card, "step_seconds", command),
               .floor = member(card, "floor_seconds", command),
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
    double validations = json_number_value(json_object_get(root, "validations"));
    run.seconds = json_number_value(json_object_get(card, "seconds"));
    read_shared(&run, json_object_get(card, "shared"), command);
    if (validations > 0) run.held_out = json_number_value(json_object_get(card, "validation_seconds")) / validations;
    bool tf32 = !strcmp(type, "TF32");
    Machine machine = {.card = run.card,
                       .half = tf32 || !strcmp(type, "f32") ? DTYPE_F32 : card_half(run.card),
                       .tf32 = tf32,
                       .workers = 1};
    OWNED Work *work = xcalloc(1, sizeof *work);
    size_t i;
    json_array_foreach(json_object_get(card, "operations"), i, row) {
        int op = op_named(word(row, "operation", command), command);
        work_add_calls(&work->ops[op], (CallWork){member(row, "calls", command), member(row, "flops", command),
                                                  member(row, "bytes", command)});
        if (op == OP_sum_squares) run.norm_seconds = member(row, "seconds", command);
    }
    run.update_bytes = work->ops[OP_adamw_update].all.bytes;
    run.cleared = work->ops[OP_clear_segments].all.bytes;
    run.normed = work->ops[OP_sum_squares].all.bytes;
    sum_up(&run, &machine, work);
    return run;
}

Run run_computed(const char *card, const char *arguments) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    OWNED char *command = xformat("'%s'/%s --estimate --json --gpu %s", build, arguments, card);
    json_auto_t *root = json_of(command);
    return run_of_json(root, command);
}

Run run_program(const char *card, const char *format, ...) {
    va_list list;
    va_start(list, format);
    OWNED char *arguments = vxformat(format, list);
    va_end(list);
    OWNED char *shown = xformat("`./%s --estimate --gpu %s`", arguments, card);
    return add_run(run_computed(card, arguments), shown);
}

Preparation preparation_computed(const char *card, double hours, const char *options) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    OWNED char *command = xformat("'%s'/train_gpt prepare --indextts2 DIR --estimate --json --hours %g --gpu %s %s",
                                  build, hours, card, options);
    json_auto_t *root = json_of(command);
    const json_t *of = json_array_get(json_object_get(root, "gpus"), 0), *network;
    Preparation p = {.flops = member(of, "flops", command),
                     .computing = member(of, "computing_seconds", command),
                     .floor = member(of, "floor_seconds", command),
                     .measuring = member(of, "measuring_seconds", command),
                     .seconds = member(of, "seconds", command)};
    double passes = member(of, "passes", command);
    size_t i;
    json_array_foreach(json_object_get(of, "networks"), i, network) if (i < 3) p.networks[i] =
        passes * member(network, "seconds", command);
    return p;
}

/* ---- the document ---- */

void claims_begin(void) {
    body = open_memstream(&body_text, &body_size);
    if (!body) die("no memory");
}

char *claims_end(void) {
    fclose(body);
    return body_text;
}

int claims_number(void) { return claims; }

void claims_print_verdicts(void) {
    printf("| verdict | ours | theirs | means |\n|---|---|---|---|\n");
    for (int i = 0; i < VERDICTS; i++) {
        printf("| %s | %d | %d | ", verdict_names[i], counts[0][i], counts[1][i]);
        if (i == PLAUSIBLE)
            printf("a time from our estimate to twice that; an amount within %d %%, a ratio within %d %% of what is "
                   "computed |\n",
                   AMOUNT_WITHIN, RATIO_WITHIN);
        else
            printf("%s |\n", verdict_means[i]);
    }
}
