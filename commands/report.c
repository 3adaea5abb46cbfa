#include "commands/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/options.h"
#include "page/page.h"

typedef struct {
    OptionList runs;
    const char *output;
} ReportOptions;

// clang-format off
static const OptionRow table[] = {
    {.name = "run", .type = OPTION_LIST, .offset = offsetof(ReportOptions, runs), .metavar = "DIR", .positional = true,
     .help = "the folder that -o of a training named, or one that holds such folders; repeatable: side by side"},
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = offsetof(ReportOptions, output),
     .metavar = "FILE",
     .help = "page to write; default: report.html in the folder of the run, or in the current one for several"},
};
// clang-format on

int report_command(int argc, char **argv) {
    const OptionsHeader header = {
        argv[0], "DIR [DIR ...] [-o FILE]", "run other_run -o comparison.html",
        "Writes one page about runs, from their log.jsonl and result files: verdict, curves, results, configuration, "
        "origin."};
    ReportOptions o = {0};
    PageSummary summary;
    char size[32];
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    int n = o.runs.count;
    if (!n) die_usage("which runs? give their folders: report DIR");
    if (o.output && !strcmp(o.output, "-"))
        die_usage("--output -: a page is written to a file, not to standard output");
    OWNED char *path = o.output ? xstrdup(o.output)
                       : n > 1  ? xstrdup("report.html")
                                : path_join(o.runs.text[0], "report.html");
    PageRequest request = {.directories = o.runs.text, .n = n, .depth = PAGE_DEPTH};
    MUST(page_write(path, &request, &summary, &error));
    printf("[Report] %s: %s, %d training%s, %d result%s", path, format_bytes((double)summary.bytes, size),
           summary.trainings, summary.trainings == 1 ? "" : "s", summary.results, summary.results == 1 ? "" : "s");
    if (summary.left_out) printf("; %d left out, named on the page", summary.left_out);
    printf("\n");
    options_free(&set, argc, argv);
    return 0;
}
