/* Any bytes as a text, as JSON Lines, as an array of JSON, as a table, and as all of them compressed; the first byte
 * chooses. Every document that is found is
 * composed UTF-8 with \n at its line ends, and documents are numbered in order. */
#include <stdlib.h>
#include <string.h>
#include <uninorm.h>
#include <unistr.h>

#include "data/slm/corpus.h"
#include "data/slm/duplicates.h"
#include "tests/fuzz/fuzz_file.h"

static int64_t next;

static void work(void *context, int thread, const Document *d, void *result) {
    const Corpus *corpus = context;
    Signature signature;
    (void)thread, (void)result;
    if (d->size && u8_check((const uint8_t *)d->text, d->size)) abort();
    if (memmem(d->text, d->size, "\r\n", 2)) abort();
    if (d->file->format == CORPUS_TEXT && corpus->split_at == SPLIT_AT_BLANK_LINES &&
        memmem(d->text, d->size, "\n\n", 2))
        abort();
    size_t n;
    uint8_t *text = u8_normalize(UNINORM_NFC, (const uint8_t *)d->text, d->size, NULL, &n);
    if (!text || n != d->size || memcmp(text, d->text, n) != 0) abort();
    free(text);
    signature_compute(d->text, d->size, true, &signature);
}

static bool take(void *context, const Document *d, void *result, Error *error) {
    (void)context, (void)result, (void)error;
    if (d->number != next++ || d->line < 1) abort();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"x.txt", "x.jsonl", "x.json", "x.csv", "x.tsv", "x"};
    static char *paths[6];
    for (int i = 0; !paths[5] && i < 6; i++) {
        paths[i] = path_join(fuzz_directory(), names[i]);
        if (symlink(fuzz_file("", 0), paths[i])) abort();
    }
    int choice = size ? data[0] : 0;
    CorpusFiles files = {0};
    Corpus corpus = {
        .files = &files, .split_at = (SplitAt)(choice % 3), .text_field = "text", .nfc = true, .n_threads = 1};
    Error error = {.text = ""};
    fuzz_file(data + (size > 0), size - (size > 0));
    if (!corpus_files_add(&files, paths[choice / 4 % 6], false, &error)) abort();
    next = 0;
    const CorpusPass pass = {.purpose = "Fuzzing", .context = &corpus, .work = work, .take = take};
    if ((!corpus_files_measure(&files, 1, &error) || !corpus_pass(&corpus, &pass, &error)) && !error.text[0]) abort();
    corpus_files_close(&files);
    return 0;
}
