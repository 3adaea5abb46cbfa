/* Reads lines in blocks, segments the lines of a block on all threads, and writes them in their order. */
#include "commands/bert/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>

#include "base/file.h"
#include "base/format.h"
#include "base/options.h"
#include "base/program.h"
#include "base/threads.h"
#include "commands/bert/texts.h"
#include "data/text/encoding.h"

enum { BLOCK = 1 << 22 };

typedef struct {
    const char *model, *mode, *input, *output;
    int64_t threads;
} Options;

#define FIELD(name) offsetof(Options, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "model", .letter = 'm', .type = OPTION_TEXT, .offset = FIELD(model), .metavar = "DIR", .required = true,
     .help = "folder with RDRsegmenter's files Model.RDR and VnVocab"},
    {.name = "mode", .type = OPTION_CHOICE, .offset = FIELD(mode), .default_value = "line",
     .metavar = "line|sentences|tokenized|tokens",
     .help = "line: a line out for each line in; sentences: one for each sentence, none for a blank line; tokenized: the "
             "lines are in tokens already, split at blanks; tokens: only cut the lines into tokens"},
    {.name = "input", .letter = 'i', .type = OPTION_TEXT, .offset = FIELD(input), .default_value = "-",
     .metavar = "PATH", .positional = true,
     .help = "text file in UTF-8; -: standard input"},
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .default_value = "-",
     .metavar = "FILE",
     .help = "segmented text; -: standard output"},
    {.name = "threads", .type = OPTION_INT, .offset = FIELD(threads), .default_value = "0", .max = 1024, .metavar = "N",
     .help = "threads; 0: all cores; does not change the output"},
};
// clang-format on

typedef struct {
    const char *text;
    size_t size;
    char *out; /* NULL: it is not UTF-8 */
    size_t out_size;
} Line;

typedef struct {
    const Options *options;
    Segmenter *segmenter;
    int threads, input; /* input: a file descriptor */
    char *block;
    size_t filled, capacity;
    Line *lines; /* of the block */
    int64_t n;
    FileWriter *writer; /* NULL: to the stream */
    FILE *stream;
    int64_t lines_read, lines_written, words;
} Filter;

static const char *input_name(const Filter *f) {
    return strcmp(f->options->input, "-") ? f->options->input : "standard input";
}

/* Returns where the line ends that begins at `at`: at \n, \r or both; NULL: not before `end`. */
static const char *line_end(const char *at, const char *end) {
    while (at < end && *at != '\n' && *at != '\r') at++;
    return at < end ? at : NULL;
}

/* Reads until the block is full and a line ends in it, or until no more has come yet. Returns false at the end of the
 * input. */
static bool fill(Filter *f) {
    for (;;) {
        if (f->capacity - f->filled < BLOCK) {
            f->capacity = 2 * f->capacity + 2 * BLOCK;
            f->block = xrealloc(f->block, f->capacity);
        }
        char *more = f->block + f->filled;
        const ssize_t n = read(f->input, more, BLOCK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) die("%s: %s", input_name(f), strerror(errno));
        if (!n) return false;
        f->filled += (size_t)n;
        if (line_end(more, more + n)) return true;
    }
}

/* Splits the block into lines. Returns the bytes that they take; last: the input ends with the block. */
static size_t split(Filter *f, bool last) {
    const char *at = f->block, *end = f->block + f->filled;
    f->n = 0;
    while (at < end) {
        const char *stop = line_end(at, end);
        if (!last && (!stop || (*stop == '\r' && stop + 1 == end))) break; /* \n may follow */
        if (!stop) stop = end;
        f->lines = xgrow(f->lines, (size_t)f->n, sizeof *f->lines);
        f->lines[f->n++] = (Line){at, (size_t)(stop - at), NULL, 0};
        at = stop < end ? stop + (*stop == '\r' && stop + 1 < end && stop[1] == '\n') + 1 : end;
    }
    return (size_t)(at - f->block);
}

static void segment_lines(Filter *f) {
    const char mode = f->options->mode[0], *name = f->options->mode;
    const SegmentMode how = mode == 's' ? SEGMENT_SENTENCES : mode == 'l' ? SEGMENT_LINE : SEGMENT_TOKENIZED;
    const bool only_tokens = !strcmp(name, "tokens");
#pragma omp parallel for num_threads(f->threads) schedule(dynamic, 64)
    for (int64_t i = 0; i < f->n; i++) {
        Line *line = &f->lines[i];
        if (u8_check((const uint8_t *)line->text, line->size)) continue;
        line->out = only_tokens ? segmenter_tokens(f->segmenter, line->text, line->size, &line->out_size)
                                : segmenter_run(f->segmenter, how, line->text, line->size, &line->out_size);
    }
}

static _Noreturn void refuse(const Filter *f, const Line *line) {
    const uint8_t *text = (const uint8_t *)line->text, *bad = u8_check(text, line->size);
    die("%s:%lld: byte 0x%02x at offset %td of the line is not UTF-8; %s", input_name(f), (long long)f->lines_read + 1,
        bad ? *bad : 0, bad ? bad - text : 0, encoding_advice(line->text, line->size));
}

/* Dies if the first bytes are no text. */
static void check_kind(const Filter *f) {
    const char *binary = encoding_of_binary(f->block, f->filled);
    if (binary) die("%s: the input %s", input_name(f), binary);
}

static void put(Filter *f, const char *text, size_t size) {
    if (f->writer)
        file_put(f->writer, text, size);
    else
        fwrite(text, 1, size, f->stream); /* finish looks for errors */
}

static void write_lines(Filter *f) {
    const bool sentences = !strcmp(f->options->mode, "sentences");
    for (int64_t i = 0; i < f->n; i++, f->lines_read++) {
        Line *line = &f->lines[i];
        if (!line->out) refuse(f, line);
        if (line->out_size || !sentences) {
            line->out[line->out_size] = '\n'; /* in place of the zero byte */
            put(f, line->out, line->out_size + 1);
            f->lines_written++;
            f->words += line->out_size > 0;
            for (size_t k = 0; k < line->out_size; k++) {
                f->words += line->out[k] == ' ' || line->out[k] == '\n';
                f->lines_written += line->out[k] == '\n';
            }
        }
        free(line->out);
    }
}

static void open_files(Filter *f) {
    Error error;
    size_t size;
    f->input = strcmp(f->options->input, "-") ? file_open(f->options->input, &size, &error) : STDIN_FILENO;
    if (f->input < 0) die("%s: %s", f->options->input, error.text);
    if (!strcmp(f->options->output, "-")) {
        f->stream = program_results();
        return;
    }
    f->writer = xcalloc(1, sizeof *f->writer);
    if (!file_begin(f->writer, f->options->output, 0, &error)) die("--output: %s", error.text);
}

static void finish(Filter *f) {
    if (f->writer) MUST(file_end(f->writer, &error));
    if (f->stream) program_flush(f->stream, true, "the text");
    if (f->input != STDIN_FILENO) close(f->input);
    FREE(f->writer, f->block, f->lines);
    segmenter_close(f->segmenter);
}

int bert_segment(int argc, char **argv) {
    static const OptionsHeader header = {"train_bert segment", "--model DIR <comments.txt >segmented.txt [options]",
                                         "--model rdrsegmenter <comments.txt >segmented.txt",
                                         "Joins the syllables of Vietnamese words with _, as RDRsegmenter does."};
    Options o = {0};
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    Filter f = {.options = &o, .threads = threads_take((int)o.threads, "--threads")};
    char seconds[32];
    const double start = seconds_now();
    f.segmenter = bert_segmenter_open("--model", o.model);
    open_files(&f);
    bert_segmenter_print(f.segmenter, o.model);
    for (bool more = true; more;) {
        more = fill(&f);
        if (!f.lines_read) check_kind(&f);
        const size_t taken = split(&f, !more);
        segment_lines(&f);
        write_lines(&f);
        if (f.stream) fflush(f.stream); /* the reader may wait for it */
        memmove(f.block, f.block + taken, f.filled -= taken);
    }
    finish(&f);
    printf("[Segment] %lld line%s to %lld line%s with %lld words in %s\n", (long long)f.lines_read,
           format_plural(f.lines_read), (long long)f.lines_written, format_plural(f.lines_written), (long long)f.words,
           format_duration(seconds_now() - start, seconds));
    options_free(&set, argc, argv);
    return 0;
}
