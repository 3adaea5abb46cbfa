/* Any bytes as a line, and as changes to the two files of a word segmenter's model; the first byte chooses the file. No
 * byte of a line is lost but blanks and control characters, and lines of UTF-8 become lines of UTF-8. */
#include <unistr.h>

#include "data/segment/segmenter.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/segmenter_files.h"

static const char rules[] = "True : object.conclusion = \"NN\"\n"
                            "\tobject.tag == \"I\" : object.conclusion = \"I\"\n"
                            "\t\tobject.prevWord1 == \"a\" and object.word == \"b\" : object.conclusion = \"B\"\n"
                            "\t\t\tobject.nextWord2 == \"\" and object.prevTag2 == \"B\" : object.conclusion = \"I\"\n"
                            "\tobject.tag == \"B\" : object.conclusion = \"B\"\n"
                            "\t\tobject.nextWord1 == \".\" : object.conclusion = \"I\"\n";
static char *vocabulary;
static size_t vocabulary_size;
static char *rules_path, *vocabulary_path;

static void make_files(void) {
    static const char *const words[] = {"a b", "b a", "a b a b", "học sinh"};
    vocabulary = segmenter_vocabulary(words, 4, &vocabulary_size);
    rules_path = path_join(fuzz_directory(), "Model.RDR");
    vocabulary_path = path_join(fuzz_directory(), "VnVocab");
}

/* Returns the bytes above the blank. */
static char *signs_of(const char *text, size_t size, size_t *n) {
    char *signs = xmalloc(size + 1);
    *n = 0;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] > ' ') signs[(*n)++] = text[i];
    return signs;
}

static void check_line(const Segmenter *segmenter, const char *text, size_t size) {
    size_t out_size, n, out_n;
    char *out = segmenter_tokens(segmenter, text, size, &out_size), *signs = signs_of(text, size, &n),
         *out_signs = signs_of(out, out_size, &out_n);
    if (n != out_n || memcmp(signs, out_signs, n) != 0) abort();
    free(out);
    free(signs);
    free(out_signs);
    const bool is_utf8 = !u8_check((const uint8_t *)text, size);
    for (int mode = SEGMENT_LINE; mode <= SEGMENT_TOKENIZED; mode++) {
        out = segmenter_run(segmenter, (SegmentMode)mode, text, size, &out_size);
        if (out[out_size] || (is_utf8 && u8_check((const uint8_t *)out, out_size))) abort();
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error error = {.text = ""};
    if (!vocabulary) make_files();
    if (!size) return 0;
    fuzz_write(rules_path, rules, sizeof rules - 1);
    fuzz_write(vocabulary_path, vocabulary, vocabulary_size);
    if (data[0] & 64)
        fuzz_write_chosen(rules_path, rules, sizeof rules - 1, data, size);
    else
        fuzz_write_chosen(vocabulary_path, vocabulary, vocabulary_size, data, size);
    Segmenter *segmenter = segmenter_open(fuzz_directory(), &error);
    if (!segmenter && !error.text[0]) abort();
    if (segmenter) check_line(segmenter, (const char *)data + 1, size - 1);
    segmenter_close(segmenter);
    return 0;
}
