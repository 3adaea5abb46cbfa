#include "page/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/format.h"
#include "base/version.h"
#include "page/compare.h"
#include "page/curves.h"
#include "page/facts.h"
#include "page/folders.h"
#include "page/logged_run.h"
#include "page/names.h"
#include "page/results.h"
#include "page/room.h"
#include "page/style.h"
#include "page/verdict.h"
#include "report/html.h"

enum { FRAME = 8192 /* bytes of what stands around the parts, with the list of what is left out */ };

typedef struct {
    Folders folders;
    LoggedRun *runs; /* of the folders with log.jsonl */
    int n;
    bool is_running; /* the run of the first folder; or what trains in the folders within, none of them now */
    char *title;
    Room room;
    PageSummary summary;
} Page;

/* ---- reading ---- */

/* Finds the folders of the page, and its title, which names those that were given. */
static bool find_folders(Page *p, const PageRequest *request, Error *error) {
    char **names = names_make(request->directories, request->n);
    bool ok = true;
    for (int i = 0; i < request->n; i++) {
        const char *name = request->n > 1 ? names[i] : "";
        ok = ok && folders_add(&p->folders, request->directories[i], name, request->depth, error);
        xappend(&p->title, "%s%s", i ? ", " : "", names[i]);
    }
    names_free(names, request->n);
    names_drop_repeated(&p->folders);
    return ok;
}

/* Returns why a folder's log cannot be read, without the path, since the page names the folder; free(). */
static char *problem_of(const Folder *folder, const Error *error) {
    size_t size = strlen(folder->path);
    bool named = !strncmp(error->text, folder->path, size) && error->text[size] == '/';
    return xstrdup(named ? error->text + size + 1 : error->text);
}

static bool read_runs(Page *p, Error *error) {
    p->runs = xcalloc((size_t)p->folders.n + 1, sizeof *p->runs);
    for (int f = 0; f < p->folders.n; f++) {
        Folder *folder = &p->folders.items[f];
        if (folder->problem || !folder_has(folder, "log.jsonl")) continue;
        const char *name = *folder->name ? folder->name : p->title;
        if (logged_run_open(&p->runs[p->n], folder->path, name, error))
            p->n++;
        else if (folder->is_within)
            folder->problem = problem_of(folder, error);
        else
            return false;
    }
    return true;
}

/* Returns whether it is the run itself that writes the page. */
static bool is_running(const Page *p, const LoggedRun *run) {
    return p->is_running && !strcmp(run->directory, p->folders.items[0].path);
}

/* Sorts runs by the date of their start, where it is known. */
static void sort_runs(Page *p) {
    for (int i = 1; i < p->n; i++)
        for (int k = i; k > 0; k--) {
            LoggedRun *a = &p->runs[k - 1], *b = &p->runs[k], swap = *a;
            if (!a->date || !b->date || strcmp(a->date, b->date) <= 0) break;
            *a = *b;
            *b = swap;
        }
}

static bool page_open(Page *p, const PageRequest *request, Error *error) {
    *p = (Page){.is_running = request->is_running};
    if (!find_folders(p, request, error) || !read_runs(p, error)) return false;
    if (request->n == 1) sort_runs(p); /* several are in the order in which they were given */
    return true;
}

static void page_close(Page *p) {
    for (int i = 0; i < p->n; i++) logged_run_close(&p->runs[i]);
    FREE(p->runs, p->title);
    folders_free(&p->folders);
}

/* ---- sections ---- */

static void write_head(const Page *p, FILE *out) {
    const char *program = p->n ? logged_run_text(&p->runs[0], "program") : NULL;
    html_print(out,
               "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
               "<meta name=\"color-scheme\" content=\"light dark\">\n"
               "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
               "media-src data:\">\n<title>%s</title>\n<style>",
               p->title);
    fputs(PAGE_STYLE, out);
    fputs(PAGE_STYLE_FIGURES, out);
    fputs("</style></head>\n<body><main>\n<header>", out);
    if (program) html_print(out, "<p class=\"program\">%s</p>", program);
    html_print(out, "<h1>%s</h1>\n", p->title);
}

static void write_findings(const Page *p, FILE *out) {
    Part items;
    int n = 0;
    part_begin(&items);
    for (int i = 0; i < p->n; i++) n += verdict_findings(items.out, &p->runs[i], p->n > 1 ? p->runs[i].name : "");
    part_end(&items);
    if (n) fprintf(out, "<ul class=\"findings\">\n%s</ul>\n", items.text);
    free(items.text);
}

/* Returns the result of all that is on the page: of the only folder that was given, or of the only run. free() */
static char *lead_of(const Page *p) {
    const Folder *folder = p->folders.items;
    if (*folder->name) return NULL; /* of several, each has a result of its own */
    char *lead = results_lead(folder);
    for (int f = 1; f < p->folders.n && p->n == 1 && !lead; f++)
        if (!strcmp(folder[f].path, p->runs[0].directory)) lead = results_lead(&folder[f]);
    return lead;
}

static void write_verdict(const Page *p, FILE *out) {
    OWNED char *verdict = p->n == 1 ? verdict_text(&p->runs[0], is_running(p, &p->runs[0]))
                          : p->n    ? compare_verdict(p->runs, p->n, false)
                                    : xstrdup("Results only: no training was logged here.");
    OWNED char *lead = lead_of(p);
    html_print(out, "<p class=\"verdict\">%s</p>", verdict);
    if (lead) html_print(out, "<p class=\"verdict\">Result: %s</p>", lead);
    fputs("</header>\n", out);
}

static void write_numbers(const Page *p, FILE *out) {
    if (p->n == 1) facts_numbers(out, &p->runs[0]);
    if (p->n < 2) return;
    fputs("<section><h2>Trainings</h2>\n", out);
    compare_numbers(out, p->runs, p->n, false);
    fputs("</section>\n", out);
}

/* Writes where the numbers come from: of one run, or the options in which several differ. */
static void write_origin(const Page *p, FILE *out) {
    if (!p->n) return;
    fputs("<section>", out);
    if (p->n == 1) {
        facts_configuration(out, &p->runs[0], 2);
        fputs("</section>\n<section>", out);
        facts_origin(out, &p->runs[0], 2);
    } else {
        fputs("<h2>Configuration</h2>\n", out);
        compare_options(out, p->runs, p->n);
    }
    fputs("</section>\n", out);
}

/* Writes a section if there is room for it. */
static void place(Page *p, FILE *out, const char *name, void (*write)(const Page *p, FILE *out)) {
    Part part;
    part_begin(&part);
    write(p, part.out);
    part_place(&part, &p->room, out, name);
}

enum { DRAWN = 12 /* runs in one chart, so that their lines can be told apart */ };

static RunCurves make_curves(const Page *p) {
    OWNED RunLog *logs = xcalloc((size_t)p->n + 1, sizeof *logs);
    for (int i = 0; i < p->n; i++)
        logs[i] = (RunLog){.name = p->runs[i].name,
                           .records = p->runs[i].records,
                           .token = logged_run_text(&p->runs[i], "token_label"),
                           .baseline = logged_run_text(&p->runs[i], "baseline"),
                           .baseline_metric = logged_run_text(&p->runs[i], "baseline_metric"),
                           .baseline_value = logged_run_number(&p->runs[i], "baseline_value")};
    return run_curves_make(logs, p->n < DRAWN ? p->n : DRAWN);
}

static void write_chart(Page *p, FILE *out, const Plot *plot) {
    Part part;
    Error error;
    part_begin(&part);
    fputs("<figure>", part.out);
    Plot narrow = *plot;
    narrow.narrow = true;
    bool drawn = plot_draw(part.out, &narrow, 1, plot->title, &error);
    fputs("</figure>\n", part.out);
    if (drawn) {
        part_place(&part, &p->room, out, plot->title);
        return;
    }
    part_end(&part);
    free(part.text);
    room_leave_out(&p->room, plot->title, error.text);
}

static void write_curves(Page *p, FILE *out) {
    RunCurves curves = make_curves(p);
    if (curves.n) {
        fputs("<section><h2>Curves</h2>\n<div class=\"figures curves\">\n", out);
        for (int i = 0; i < curves.n; i++) write_chart(p, out, &curves.plots[i]);
        fputs("</div>\n<p class=\"note\">Points that share a column of pixels are drawn as their mean, within the band "
              "from the least to the greatest of them.",
              out);
        if (p->n > DRAWN) fprintf(out, " The first %d of %d trainings are drawn.", DRAWN, p->n);
        fputs("</p></section>\n", out);
    }
    run_curves_free(&curves);
}

static void write_results(Page *p, FILE *out) {
    Part results, samples;
    part_begin(&results);
    part_begin(&samples);
    p->summary.results = results_write(results.out, &p->room, &p->folders);
    int sounds = samples_write(samples.out, &p->room, &p->folders, p->is_running);
    part_end(&results);
    part_end(&samples);
    if (results.size) fprintf(out, "<section><h2>Results</h2>\n%s</section>\n", results.text);
    if (sounds) fprintf(out, "<section><h2>Samples</h2>\n<div class=\"figures\">%s</div></section>\n", samples.text);
    p->summary.results += sounds;
    FREE(results.text, samples.text);
}

/* Writes the facts of each of several runs, in closed elements. */
static void write_each(Page *p, FILE *out) {
    if (p->n < 2) return;
    fputs("<section><h2>Each training</h2>\n", out);
    for (int i = 0; i < p->n; i++) {
        const LoggedRun *run = &p->runs[i];
        OWNED char *verdict = verdict_text(run, is_running(p, run));
        Part part;
        part_begin(&part);
        html_print(part.out, "<details><summary>%s <small>%s</small></summary>\n", run->name, verdict);
        facts_numbers(part.out, run);
        facts_configuration(part.out, run, 3);
        facts_origin(part.out, run, 3);
        fputs("</details>\n", part.out);
        part_place(&part, &p->room, out, run->name);
    }
    fputs("</section>\n", out);
}

static void write_end(const Page *p, FILE *out, const char *left_out) {
    char now[32];
    if (p->room.n_left_out)
        fprintf(out,
                "<section><h2>Not on this page</h2>\n<p>A page has at most %d KB. These are in the folder of the "
                "run:</p>\n<ul>%s</ul></section>\n",
                PAGE_LIMIT / 1000, left_out);
    fprintf(out, "<footer>Written %s by train.c %s, revision %s, from log.jsonl and the result files%s.</footer>\n",
            format_now(now), version_number, version_revision, p->is_running ? ", while the run went on" : "");
    fputs("</main></body></html>\n", out);
}

/* ---- all of it ---- */

/* Fills the parts of the page in the order in which they take room, which is not that of the page. */
static void fill(Page *p, Part *head, Part *body, Part *origin) {
    write_head(p, head->out);
    write_verdict(p, head->out);
    part_end(head);
    size_t taken = FRAME + head->size;
    p->room.left = taken < PAGE_LIMIT ? PAGE_LIMIT - taken : 0;
    for (int f = 0; f < p->folders.n; f++)
        if (p->folders.items[f].problem)
            room_leave_out(&p->room, p->folders.items[f].name, p->folders.items[f].problem);
    place(p, body->out, "findings", write_findings);
    place(p, body->out, "numbers", write_numbers);
    place(p, origin->out, "configuration and origin", write_origin);
    part_end(origin);
    write_curves(p, body->out);
    write_results(p, body->out);
    write_each(p, body->out);
    room_end(&p->room);
    part_end(body);
}

static bool compose(Page *p, const char *path, Error *error) {
    Part head, body, origin, end, left_out, page;
    Part *parts[] = {&head, &body, &origin, &end, &left_out, &page};
    enum { SHOWN = 4, PARTS = 6 };
    for (int i = 0; i < PARTS; i++) part_begin(parts[i]);
    p->room.left_out = left_out.out;
    fill(p, &head, &body, &origin);
    part_end(&left_out);
    write_end(p, end.out, left_out.text);
    part_end(&end);
    for (int i = 0; i < SHOWN; i++) fwrite(parts[i]->text, 1, parts[i]->size, page.out);
    part_end(&page);
    p->summary.bytes = page.size;
    bool ok = p->n || p->summary.results ||
              error_set(error, "%s: neither log.jsonl nor results are there, nor in the folders within",
                        p->folders.items[0].path);
    ok = ok && file_write_atomic(path, page.text, page.size, error);
    for (int i = 0; i < PARTS; i++) free(parts[i]->text);
    return ok;
}

bool page_write(const char *path, const PageRequest *request, PageSummary *summary, Error *error) {
    Page page;
    bool ok = page_open(&page, request, error) && compose(&page, path, error);
    page.summary.trainings = page.n;
    page.summary.left_out = page.room.n_left_out;
    if (ok && summary) *summary = page.summary;
    page_close(&page);
    return ok;
}

bool page_write_in(const char *directory, int depth, bool is_running, Error *error) {
    OWNED char *path = path_join(directory, "report.html");
    return page_write(path, &(PageRequest){&directory, 1, depth, is_running}, NULL, error);
}

bool page_write_or_warn(const char *directory, int depth, bool is_running) {
    Error error;
    bool ok = page_write_in(directory, depth, is_running, &error);
    if (!ok) warn("report.html could not be written: %s", error.text);
    return ok;
}
