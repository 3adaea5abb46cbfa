#include "commands/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/options.h"
#include "train/page/page.h"

typedef struct {
    const char *output;
} ReportOptions;

static const OptionRow table[] = {
    {.name = "output",
     .letter = 'o',
     .type = OPTION_TEXT,
     .offset = offsetof(ReportOptions, output),
     .metavar = "FILE",
     .help = "page to write; default: report.html in the folder of the run, or in the current one for several"},
};

/* Moves the words before the first option to directories[]; returns how many they are. */
static int take_directories(int *argc, char **argv, const char **directories) {
    int n = 0;
    while (n + 1 < *argc && argv[n + 1][0] != '-') {
        directories[n] = argv[n + 1];
        n++;
    }
    memmove(argv + 1, argv + 1 + n, (size_t)(*argc - n) * sizeof *argv);
    *argc -= n;
    return n;
}

int report_command(int argc, char **argv) {
    static const OptionsHeader header = {
        "report", "PROGRAM report RUN [RUN ...] [-o FILE]",
        "Writes one page about runs, from their log.jsonl and result files: verdict, curves, results, configuration, "
        "origin. A RUN is the folder that -o of a training named, or one that holds such folders."};
    ReportOptions o = {0};
    PageSummary summary;
    Error error;
    char size[32];
    const char **directories = xcalloc((size_t)argc + 1, sizeof *directories);
    int n = take_directories(&argc, argv, directories);
    options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    if (!n) die_usage("which runs? give their folders first: report RUN -o FILE");
    char *path = o.output ? xstrdup(o.output)
                 : n > 1  ? xstrdup("report.html")
                          : path_join(directories[0], "report.html");
    PageRequest request = {.directories = directories, .n = n, .depth = PAGE_DEPTH};
    if (!page_write(path, &request, &summary, &error)) die("%s", error.text);
    printf("[Report] %s: %s, %d training%s, %d result%s", path, format_bytes((double)summary.bytes, size),
           summary.trainings, summary.trainings == 1 ? "" : "s", summary.results, summary.results == 1 ? "" : "s");
    if (summary.left_out) printf("; %d left out, named on the page", summary.left_out);
    printf("\n");
    free(path);
    free(directories);
    return 0;
}
