/* Runs the tokenizers for the scripts of tests/reference. Texts come from a file and end with zero bytes.
 *
 * - tokenize ids TOKENIZER TEXTS: prints the ids of each text, a line each.
 * - tokenize texts TOKENIZER TEXTS: prints each text, encoded and decoded again, with a zero byte behind it.
 * - tokenize time TOKENIZER FILE: prints processor seconds: to open the tokenizer, for FILE as one text, for its lines.
 * - tokenize train FILE VOCABULARY THREADS OUTPUT: trains byte-level BPE on the lines of FILE; prints seconds.
 * - tokenize codes FILE MERGES THREADS FOLDER: the same with files of fastBPE; pairs occur twice at least. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "data/text/bpe_train.h"
#include "data/text/fastbpe_train.h"
#include "data/text/tokenizer.h"

static Tokenizer *open_tokenizer(const char *path) {
    Error error;
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    if (!tokenizer) die("%s: %s", path, error.text);
    return tokenizer;
}

static char *read_texts(const char *path, size_t *size) {
    char *bytes;
    MUST_OR(read_file(path, &bytes, size, &error), "%s: %s", path, error.text);
    return bytes;
}

/* Returns the end of the text that begins at `at`. */
static const char *text_end(const char *at, const char *end, char separator) {
    const char *stop = memchr(at, separator, (size_t)(end - at));
    return stop ? stop : end;
}

static void print_texts(const char *path, const char *texts, bool decoded) {
    Tokenizer *tokenizer = open_tokenizer(path);
    OWNED_BY(token_ids_free) TokenIds ids = {0};
    size_t size;
    OWNED char *bytes = read_texts(texts, &size);
    for (const char *at = bytes, *end = bytes + size, *stop; at < end; at = stop + 1) {
        stop = text_end(at, end, 0);
        ids.n = 0;
        tokenizer_encode(tokenizer, at, (size_t)(stop - at), true, &ids);
        for (int64_t i = 0; i < ids.n && !decoded; i++) printf(i ? " %d" : "%d", (int)ids.ids[i]);
        OWNED char *text = tokenizer_decode(tokenizer, ids.ids, ids.n, &size);
        if (decoded)
            fwrite(text, 1, size + 1, stdout);
        else
            putchar('\n');
    }
    if (ids.dropped || ids.unknown)
        fprintf(stderr, "%lld characters dropped, %lld ids unknown\n", (long long)ids.dropped, (long long)ids.unknown);
    tokenizer_close(tokenizer);
}

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Returns the seconds for the texts of a file, encoded with an empty cache. */
static double time_texts(const Tokenizer *tokenizer, const char *bytes, size_t size, bool lines) {
    OWNED_BY(token_ids_free) TokenIds ids = {0};
    const double start = processor_seconds();
    for (const char *at = bytes, *end = bytes + size, *stop; at < end; at = stop + 1) {
        stop = lines ? text_end(at, end, '\n') : end;
        ids.n = 0;
        tokenizer_encode(tokenizer, at, (size_t)(stop - at), true, &ids);
    }
    return processor_seconds() - start;
}

static void print_times(const char *path, const char *file) {
    size_t size;
    OWNED char *bytes = read_texts(file, &size);
    const double start = processor_seconds();
    Tokenizer *tokenizer = open_tokenizer(path);
    const double opened = processor_seconds() - start;
    const double whole = time_texts(tokenizer, bytes, size, false);
    printf("%.6f %.6f %.6f\n", opened, whole, time_texts(tokenizer, bytes, size, true));
    tokenizer_close(tokenizer);
}

/* ---- training ---- */

typedef struct {
    BpeTrainer *bpe; /* or */
    FastBpeTrainer *codes;
} Trainer;

static void add_line(const Trainer *trainer, int thread, const char *line, size_t size) {
    if (trainer->bpe)
        bpe_trainer_add(trainer->bpe, thread, line, size);
    else
        fastbpe_trainer_add(trainer->codes, thread, line, size);
}

static void add_lines(const Trainer *trainer, const char *bytes, size_t size, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int thread = 0; thread < threads; thread++) {
        const char *end = bytes + size * (size_t)(thread + 1) / (size_t)threads, *stop;
        const char *at = bytes + size * (size_t)thread / (size_t)threads;
        if (thread) at = text_end(at, bytes + size, '\n') + 1; /* lines belong to the part that they begin in */
        for (; at <= end && at < bytes + size; at = stop + 1) {
            stop = text_end(at, bytes + size, '\n');
            add_line(trainer, thread, at, (size_t)(stop - at));
        }
    }
}

/* n: pieces of byte-level BPE, or merges of fastBPE. */
static void train(const char *file, bool codes, int n, int threads, const char *output) {
    static const char *const specials[] = {"<|endoftext|>"};
    const BpeTraining bpe = {n, 0, specials, 1, threads};
    const FastBpeTraining fastbpe = {n, 2, threads};
    FastBpeLearned learned;
    size_t size;
    OWNED char *bytes = read_texts(file, &size);
    const double start = seconds_now();
    const Trainer trainer = {.bpe = codes ? NULL : bpe_trainer_open(&bpe),
                             .codes = codes ? fastbpe_trainer_open(&fastbpe) : NULL};
    add_lines(&trainer, bytes, size, threads);
    const double counted = seconds_now() - start;
    MUST(codes ? fastbpe_trainer_learn(trainer.codes, &learned, &error) &&
                     fastbpe_trainer_write(trainer.codes, output, &error)
               : bpe_trainer_write(trainer.bpe, output, &n, &error));
    printf("%d pieces; %.3f s to count words, %.3f s to merge and write\n", codes ? learned.pieces : n, counted,
           seconds_now() - start - counted);
    if (codes)
        fastbpe_trainer_close(trainer.codes);
    else
        bpe_trainer_close(trainer.bpe);
}

int main(int argc, char **argv) {
    const char *command = argc > 3 ? argv[1] : "";
    if (!strcmp(command, "ids") && argc == 4)
        print_texts(argv[2], argv[3], false);
    else if (!strcmp(command, "texts") && argc == 4)
        print_texts(argv[2], argv[3], true);
    else if (!strcmp(command, "time") && argc == 4)
        print_times(argv[2], argv[3]);
    else if (!strcmp(command, "train") && argc == 6)
        train(argv[2], false, atoi(argv[3]), atoi(argv[4]), argv[5]);
    else if (!strcmp(command, "codes") && argc == 6)
        train(argv[2], true, atoi(argv[3]), atoi(argv[4]), argv[5]);
    else
        die_usage("tokenize ids|texts TOKENIZER TEXTS, time TOKENIZER FILE, train FILE VOCABULARY THREADS OUTPUT, or "
                  "codes FILE MERGES THREADS FOLDER");
    return 0;
}
