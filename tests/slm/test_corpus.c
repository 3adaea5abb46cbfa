/* Reading documents from files: which files, how they are cut and cleaned. */
#include "data/slm/corpus.h"

#include <sys/stat.h>
#include <unictype.h>
#include <uninorm.h>
#include <unistd.h>
#include <unistr.h>
#include <zlib.h>

#include "data/slm/clean.h"
#include "data/slm/scan.h"
#include "tests/test.h"

static Error error;

static CorpusFiles files_of(const char *path, bool held_out) {
    CorpusFiles files = {0};
    if (!corpus_files_add(&files, path, held_out, &error) || !corpus_files_measure(&files, 1, &error))
        fail_msg("%s", error.text);
    return files;
}

/* ---- files ---- */

TEST(a_folder_gives_its_texts_in_order) {
    static const char *const names[] = {"b.txt", "A.TXT.GZ", "sub/deep/c.jsonl", "sub/d.ndjson.gz", "e.text", "f.md",
                                        "g.pdf", "h",        ".hidden.txt",      ".git/i.txt",      "j.gz",   "txt"},
                             *const want[] = {"A.TXT.GZ", "b.txt",           "e.text",
                                              "f.md",     "sub/d.ndjson.gz", "sub/deep/c.jsonl"};
    const char *folder = run_directory();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_directories(keep(path_directory(kept_path(folder, names[i]))));
        write_text(kept_path(folder, names[i]), "x");
    }
    CorpusFiles files = files_of(folder, false);
    assert_int_equal(files.n, 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(files.files[i].name, want[i]);
        assert_int_equal(files.files[i].format, i < 4 ? CORPUS_TEXT : CORPUS_JSON);
        assert_int_equal(files.files[i].size, 1);
    }
    assert_int_equal(files.left_out, 6);
    assert_string_equal(files.first_left_out, kept_path(folder, ".git"));
    corpus_files_close(&files);
    files = files_of(kept_path(folder, "h"), true); /* named itself */
    assert_true(files.n == 1 && files.files->held_out && files.files->format == CORPUS_TEXT);
    corpus_files_close(&files);
    make_directories(kept_path(folder, "empty"));
    assert_false(corpus_files_add(&files, kept_path(folder, "empty"), false, &error));
    assert_contains(error.text, "holds no text files; expected names that end in .txt, .text, .md, .jsonl or .ndjson, "
                                "or in one of these and .gz");
    if (!has_links()) print_message("SKIPPED: a link, on a disk without them\n");
    if (has_links()) {
        assert_int_equal(symlink("..", kept_path(folder, "sub/loop")), 0);
        assert_false(corpus_files_add(&files, folder, false, &error));
        assert_contains(error.text, "contains a link to itself");
    }
    corpus_files_close(&files);
    assert_true(corpus_files_add(&files, kept_path(folder, "absent.txt"), false, &error));
    assert_false(corpus_files_measure(&files, 1, &error));
    assert_contains(error.text, "absent.txt: ");
    corpus_files_close(&files);
}

/* ---- documents ---- */

typedef struct {
    char *text; /* "[line:text]..." */
    size_t size;
    FILE *out;
} Listing;

static void nothing(void *context, int thread, const Document *d, void *result) {
    (void)context, (void)thread, (void)d, (void)result;
}

static bool list_document(void *context, const Document *d, void *result, Error *error) {
    FILE *out = ((Listing *)context)->out;
    (void)result, (void)error;
    fprintf(out, "[%lld:", (long long)d->line);
    fwrite(d->text, 1, d->size, out);
    fputc(']', out);
    return true;
}

/* Returns the documents of a path as a listing, or the error. */
static char *documents(const char *path, SplitAt split_at, int n_threads, Error *error) {
    Listing listing = {0};
    CorpusFiles files = files_of(path, false);
    const Corpus corpus = {
        .files = &files, .split_at = split_at, .text_field = "text", .nfc = true, .n_threads = n_threads};
    const CorpusPass pass = {.purpose = "Testing", .context = &listing, .work = nothing, .take = list_document};
    listing.out = open_memstream(&listing.text, &listing.size);
    bool ok = corpus_pass(&corpus, &pass, error);
    fclose(listing.out);
    corpus_files_close(&files);
    if (ok) return keep(listing.text);
    free(listing.text);
    return NULL;
}

/* Returns the path of a file in a folder for all files that tests write and read once. */
static const char *once(const char *name) {
    static const char *folder;
    if (!folder) folder = run_directory();
    return kept_path(folder, name);
}

static void assert_documents(const char *name, const void *bytes, size_t size, SplitAt split_at, const char *want) {
    const char *path = once(name);
    write_bytes(path, bytes, size);
    char *got = documents(path, split_at, 1, &error);
    if (!got) fail_msg("%s", error.text);
    assert_string_equal(got, want);
}

static void assert_refused(const char *name, const void *bytes, size_t size, const char *reason) {
    const char *path = once(name);
    Error error = {.text = ""};
    write_bytes(path, bytes, size);
    assert_null(documents(path, SPLIT_AT_BLANK_LINES, 2, &error));
    assert_contains(error.text, path);
    assert_contains(error.text, reason);
}

#define TEXT(text) (text), sizeof(text) - 1

TEST(texts_are_cut_as_documented) {
    static const char text[] = "\xef\xbb\xbf\n a\r\nb\n \t\r\n\n\nc \n\nd";
    assert_documents("x.txt", TEXT(text), SPLIT_AT_FILE, "[1:\n a\nb\n \t\n\n\nc \n\nd]");
    assert_documents("x.txt", TEXT(text), SPLIT_AT_BLANK_LINES, "[2: a\nb][7:c ][9:d]");
    assert_documents("x.txt", TEXT(text), SPLIT_AT_LINE, "[2: a][3:b][7:c ][9:d]");
    assert_documents("x.txt", TEXT("a\rb\n"), SPLIT_AT_LINE, "[1:a\rb]");
    assert_documents("x.txt", TEXT("a\r\r\nb\r\n\rc\r"), SPLIT_AT_FILE, "[1:a\nb\n\rc\r]");
    assert_documents("x.txt", TEXT(""), SPLIT_AT_FILE, "[1:]");
    assert_documents("x.txt", TEXT(""), SPLIT_AT_LINE, "");
    assert_documents("x.txt", TEXT("\n\n"), SPLIT_AT_BLANK_LINES, "");
    assert_documents("x.txt", TEXT("\n\n"), SPLIT_AT_FILE, "[1:\n\n]");
    static const char records[] = "\xef\xbb\xbf{\"text\": \"a\\r\\nb\\n\\n\", \"id\": 3}\r\n\n{\"text\": "
                                  "\"\"}\n{\"text\":\"e\\u0301\\ud83d\\ude00\"}";
    for (SplitAt cut = SPLIT_AT_FILE; cut <= SPLIT_AT_LINE; cut++)
        assert_documents("x.jsonl", TEXT(records), cut, "[1:a\nb\n\n][3:][4:\u00e9\U0001f600]");
}

/* Arrays of JSON, lines of JSON as C4 names them, and tables; the first line of a record is told. */
TEST(records_are_what_their_files_are) {
    static const char lines[] = "{\"text\": \"a\", \"url\": \"b\"}\n\n{\"text\": \"c\"}\n",
                      array[] = " [\n{\"text\": \"a\\nb\"},\n\n {\"id\": [1, \"]\"],\n \"text\": \"c\"} ]\n",
                      table[] = "\xef\xbb\xbfid,text\r\n1,\"a, \"\"b\"\"\r\n\r\nc\"\r\n\r\n2,d\r\n3,\n4, e ";
    for (SplitAt cut = SPLIT_AT_FILE; cut <= SPLIT_AT_LINE; cut++) {
        assert_documents("x.json", TEXT(lines), cut, "[1:a][3:c]");
        assert_documents("x.json.gz", TEXT(array), cut, "[2:a\nb][4:c]");
        assert_documents("x.jsonl", TEXT(array), cut, "[2:a\nb][4:c]");
        assert_documents("x.csv", TEXT(table), cut, "[2:a, \"b\"\n\nc][6:d][7:][8: e ]");
    }
    assert_documents("x.json", TEXT("[]"), SPLIT_AT_FILE, "");
    assert_documents("x.json", TEXT("\n"), SPLIT_AT_FILE, "");
    assert_documents("x.csv", TEXT("id;text\n1;a,b\n"), SPLIT_AT_FILE, "[2:a,b]");
    assert_documents("x.csv", TEXT("sep=;\ntext;id\na;1\n"), SPLIT_AT_FILE, "[3:a]");
    assert_documents("x.csv", TEXT("sep=;x,text\n1,a\n"), SPLIT_AT_FILE, "[2:a]"); /* a name of a column */
    assert_documents("x.csv", TEXT("\n\ntext\na;b\n"), SPLIT_AT_FILE, "[4:a;b]");
    assert_documents("x.csv", TEXT("text\n"), SPLIT_AT_FILE, "");
    assert_documents("x.tsv.gz", TEXT("text\tid\na, b\t1\n\"c\td\"\t2"), SPLIT_AT_FILE, "[2:a, b][3:c\td]");
    assert_documents("x.TSV", TEXT("text,id\n\"a\nb\",1\n"), SPLIT_AT_FILE, "[2:a\nb]");
}

TEST(a_damaged_record_is_named_by_its_line) {
    assert_refused("x.csv", TEXT("id,body\n1,a\n"),
                   "line 1: there is no column \"text\"; the columns are: id, body (--text-field NAME)");
    assert_refused("x.csv", TEXT("text,text\n1,a\n"), "line 1: the column \"text\" is there twice");
    assert_refused("x.csv", TEXT(""), "line 1: the file is empty; expected a line of column names");
    assert_refused("x.csv", TEXT("text,id\na,1\nb\n"),
                   "line 3: has 1 fields; the line of column names has 2; a field with separators in it needs quotes");
    assert_refused("x.csv", TEXT("text,id\n\"a\nb\",1\nc \"d\",2\n"), "line 4:3: a quote inside a field");
    assert_refused("x.csv", TEXT("text,id\na,1\n\"b\n,2\nc,3\n"), "line 3:1: the quote is not closed");
    assert_refused("x.csv", TEXT("text\na\0b\n"), "line 2: has a zero byte");
    assert_refused("x.csv", TEXT("text\ncaf\xe9\n"), "line 2, byte 8 of the file: 0xe9 begins no UTF-8 character");
    assert_refused("x.json", TEXT("[{\"text\": \"a\"},\n{\"text\": "), "line 2: the array is not closed");
    assert_refused("x.json", TEXT("[{\"text\": \"a\"}]\n{}"), "line 2: found '{', expected nothing behind the \"]\"");
    assert_refused("x.json", TEXT("[{\"text\": \"a\"}\n{}]"), "line 2: found '{', expected \",\" or \"]\"");
    assert_refused("x.json", TEXT("[{\"text\": \"a\"},\n{\"body\": \"b\"}]"), "line 2: the record has no text 'text'");
    assert_refused("x.json", TEXT("[{\"text\": \"a\"},\n{\"text\":\n b}]"), "line 3, column 2: \"text\": ");
    assert_refused("x.json", TEXT("[\"a\"]"), "line 1, column 2: is no JSON object");
    assert_refused("x.json", TEXT("[{\"text\": \"\u12a0\"}, {\"text\": b}]"), "line 1, column 26: \"text\": ");
    assert_refused("x.json", TEXT("[{\"text\": \"\u12a0\"}, {\"body\": \"b\"}]"),
                   "line 1, column 17: the record has no text 'text'");
    assert_refused("x.json", TEXT("{\n\"text\": \"a\"\n}\n"), "expected a JSON object per line, or an array of them");
}

/* Files of other kinds are not read as text. */
TEST(what_is_no_text_is_named_by_its_first_bytes) {
    assert_refused("x.txt", TEXT("p\0h\0o\0n\0g\0"), "x.txt: is UTF-16: convert it with iconv -f UTF-16LE");
    assert_refused("x.jsonl.zst", TEXT("\x28\xb5\x2f\xfd\x04\x58"), "is compressed with zstd: unpack it with unzstd");
    assert_refused("x.txt", TEXT("%PDF-1.4\n1 0 obj\n"), "is a PDF");
    assert_refused("x.csv", TEXT("PK\3\4\x14\0"), "is a zip archive, as spreadsheets");
    assert_refused("x.txt", TEXT("\360\342y ngon, th\375\365ng"),
                   "0xf0 begins no UTF-8 character; it seems to be "
                   "Vietnamese of Windows: convert it with iconv -f CP1258");
}

TEST(a_name_that_says_nothing_needs_the_format_of_records) {
    static const struct {
        const char *text, *says; /* NULL: plain text */
    } cases[] = {
        {"{\"text\": \"a\"}\n", "begins as JSON: say --input-format json, or --input-format text if it is plain"},
        {" [\n {\"text\": \"a\"}]", "begins as JSON"},
        {"\xef\xbb\xbf{}", "begins as JSON"},
        {"id,text\r\n1,\"a, b\"\r\n", "begins as a table: say --input-format csv"},
        {"id;text\n1;a\n", "begins as a table: say --input-format csv"},
        {"\"id\"\ttext\n1\ta\n", "begins as a table: say --input-format tsv"},
        {"", NULL},
        {"a", NULL},
        {"one,two\nthree four\n", NULL},
        {"Hello, world\nand, so on\n", NULL},
        {"{\\bf x}\n", NULL},
        {"[[Category:A]]\n", NULL},
        {"[2020-01-01] a\n", NULL},
        {"{ a: 1 }\n", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = once("part-00000");
        CorpusFiles files = {0};
        write_text(path, "%s", cases[i].text);
        assert_true(corpus_files_add(&files, path, false, &error));
        bool ok = corpus_files_measure(&files, 1, &error);
        assert_int_equal(ok, !cases[i].says);
        if (!ok) assert_contains(error.text, cases[i].says);
        if (ok) assert_int_equal(files.files->format, CORPUS_TEXT);
        corpus_files_close(&files);
    }
}

TEST(a_format_that_is_told_precedes_the_names) {
    const char *folder = run_directory();
    static const char *const names[] = {"a.txt", "b.json.gz", "c.csv", "d.jsonl", "e.tsv", "f"};
    static const int counts[] = {
        [CORPUS_BY_NAME] = 2, [CORPUS_TEXT] = 1, [CORPUS_JSON] = 2, [CORPUS_CSV] = 1, [CORPUS_TSV] = 1};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_text(kept_path(folder, names[i]), "{\"text\": \"a\"}\n");
    for (CorpusFormat format = CORPUS_BY_NAME; format <= CORPUS_TSV; format++) {
        CorpusFiles files = {.format = format};
        if (!corpus_files_add(&files, folder, false, &error)) fail_msg("%s", error.text);
        assert_int_equal(files.n, counts[format]);
        assert_int_equal(files.left_out, 6 - counts[format]);
        assert_true(corpus_files_add(&files, kept_path(folder, "f"), false, &error));
        if (format) assert_int_equal(files.files[files.n - 1].format, format);
        assert_int_equal(corpus_files_measure(&files, 1, &error), format != CORPUS_BY_NAME);
        corpus_files_close(&files);
    }
    CorpusFiles files = {.format = CORPUS_CSV};
    make_directories(kept_path(folder, "empty"));
    assert_false(corpus_files_add(&files, kept_path(folder, "empty"), false, &error));
    assert_contains(error.text, "holds no text files; expected names that end in .csv, or in one of these and .gz");
    files.format = CORPUS_JSON;
    assert_false(corpus_files_add(&files, kept_path(folder, "empty"), false, &error));
    assert_contains(error.text, "expected names that end in .jsonl, .ndjson or .json, or in one");
    corpus_files_close(&files);
}

TEST(texts_are_composed) {
    assert_documents("x.txt", TEXT("e\u0301 \u212b \u1100\u1161\u11a8 q\u0323\u0307"), SPLIT_AT_FILE,
                     "[1:\u00e9 \u00c5 \uac01 q\u0323\u0307]");
    /* what is passed over as composed stays as it is, alone and behind any of its kind */
    for (ucs4_t c = 1; c < 0x30000; c++) {
        uint8_t text[12];
        int n = u8_uctomb(text, c, sizeof text);
        size_t size;
        if (n < 1 || !clean_is_composed((char *)text, (size_t)n)) continue;
        uint8_t *normal = u8_normalize(UNINORM_NFC, text, (size_t)n, NULL, &size);
        if (size != (size_t)n || memcmp(normal, text, size) != 0 || uc_combining_class(c)) fail_msg("U+%04X", c);
        free(normal);
        for (ucs4_t before = 'A'; before < 0x250; before++)
            if (uc_composition(before, c)) fail_msg("U+%04X U+%04X", before, c);
    }
}

/* Documents whose ends are at all places of the buffer. */
TEST(long_lines_are_read_whole) {
    enum { LINES = 7, LONGEST = 300000 };
    char *text = xmalloc(LINES * (LONGEST + 20)), *want = xmalloc(LINES * (LONGEST + 20)), *at = text, *listed = want;
    for (int i = 0; i < LINES; i++) {
        int n = i == 3 ? 1 : LONGEST - 1000 * i;
        listed += sprintf(listed, "[%d:", i + 1);
        memset(at, 'a' + i, (size_t)n);
        memset(listed, 'a' + i, (size_t)n);
        at += n;
        listed += n;
        *at++ = '\n';
        *listed++ = ']';
    }
    *listed = 0;
    assert_documents("x.txt", text, (size_t)(at - text), SPLIT_AT_LINE, want);
    free(text);
    free(want);
}

/* The same of records. */
TEST(long_records_are_read_whole) {
    enum { RECORDS = 3, LONGEST = 300000 };
    char *text = xmalloc(RECORDS * (LONGEST + 40)), *want = xmalloc(RECORDS * (LONGEST + 20));
    for (int table = 0; table < 2; table++) {
        char *at = text + sprintf(text, table ? "text\n" : "["), *listed = want;
        for (int i = 0; i < RECORDS; i++) {
            int n = LONGEST - 1000 * i;
            at += sprintf(at, "%s%s", i && !table ? ",\n" : "", table ? "\"" : "{\"text\": \"");
            listed += sprintf(listed, "[%d:", table ? 2 * i + 2 : i + 1);
            memset(at, 'a' + i, (size_t)n);
            memset(listed, 'a' + i, (size_t)n);
            if (table) at[1000] = listed[1000] = '\n';
            at += n;
            listed += n;
            at = stpcpy(at, table ? "\"\n" : "\"}");
            *listed++ = ']';
        }
        at = stpcpy(at, table ? "" : "]");
        *listed = 0;
        assert_documents(table ? "x.csv" : "x.json", text, (size_t)(at - text), SPLIT_AT_LINE, want);
    }
    free(text);
    free(want);
}

TEST(compressed_texts_are_the_same) {
    const char *folder = run_directory(), *path = kept_path(folder, "x.txt.gz");
    for (int member = 0; member < 2; member++) { /* two members, as of cat a.gz b.gz */
        gzFile gz = gzopen(path, member ? "ab" : "wb");
        gzputs(gz, member ? "b\n\nc" : "a\n");
        gzclose(gz);
    }
    char *got = documents(path, SPLIT_AT_BLANK_LINES, 1, &error);
    assert_string_equal(got, "[1:a\nb][4:c]");
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(truncate(path, status.st_size - 4), 0);
    assert_null(documents(path, SPLIT_AT_FILE, 1, &error));
    assert_contains(error.text, "x.txt.gz: its compressed data are cut off");
    char *bytes = kept_text(path);
    bytes[15] ^= 0x55;
    write_bytes(path, bytes, (size_t)status.st_size - 4);
    assert_null(documents(path, SPLIT_AT_FILE, 1, &error));
    assert_contains(error.text, "its compressed data are");
    write_text(path, "plain, whatever its name");
    got = documents(path, SPLIT_AT_FILE, 1, &error);
    assert_string_equal(got, "[1:plain, whatever its name]");
}

TEST(bad_texts_are_refused_with_their_place) {
    assert_refused("x.txt", TEXT("a\n\nb\nc\xe9 d\n"), "line 4, byte 6 of the file: 0xe9 begins no UTF-8 character");
    assert_refused("x.txt",
                   TEXT("\xef\xbb\xbf"
                        "ab\xc3"),
                   "line 1, byte 5 of the file: 0xc3");
    assert_refused("x.txt",
                   TEXT("\xff\xfe"
                        "a\0b\0"),
                   "x.txt: is UTF-16: convert it with iconv -f UTF-16 ");
    assert_refused("x.jsonl", TEXT("{\"text\": \"\"}\n\n{\"text\": \"\xc0\x80\"}\n"),
                   "line 3, byte 24 of the file: 0xc0");
    assert_refused("x.jsonl", TEXT("{\"text\": \"\"}\n{\"text\": 3, \"body\": \"b\", \"title\": \"t\"}\n"),
                   "line 2: the record has no text 'text'; its texts are: 'body', 'title' (--text-field NAME)");
    assert_refused("x.jsonl", TEXT("{\"x\": 3}\n"), "line 1: the record has no text 'text'; its texts are: none");
    assert_refused("x.jsonl", TEXT("\"text\"\n"), "line 1: is no JSON object");
    assert_refused("x.jsonl", TEXT("{\"text\": \"a\"}\n{\"text\": \"a\n"), "line 2, column ");
    assert_refused("x.jsonl", TEXT("{\"text\": \"a\"} {}\n"), "line 1, column ");
}

static bool list_good(void *context, const Document *d, void *result, Error *error) {
    return d->bad ? !d->size && d->number == 1 : list_document(context, d, result, error);
}

/* A record with a bad text is an error that names --skip-bad, which leaves it out and counts it. */
TEST(a_bad_record_is_left_out_if_it_may) {
    static const char *const bad[][2] = {
        {"{\"text\": \"x \\ud83d\"}", "line 2, column 10: \"text\": "},
        {"null", "line 2: is no JSON object"},
        {"{\"text\": NaN, \"body\": \"b\"}", "line 2: the record has no text 'text'; its texts are: 'body'"},
        {"{\"text\": \"x\"", "line 2, column 13: expected \",\" or \"}\" behind a value"},
        {"{\"text\": \"x\", \"text\": \"y\"}", "line 2, column 23: \"text\" is there twice"},
        {"{\"text\": \"\xff\"}", "line 2, byte "}};
    const char *path = kept_path(run_directory(), "bad.jsonl");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Error error = {""};
        BadRecords left_out = {0};
        Listing listing = {0};
        write_text(path, "{\"text\": \"a\"}\n%s\n{\"x\": NaN, \"n\": 99999999999999999999, \"text\": \"b\"}\n",
                   bad[i][0]);
        assert_null(documents(path, SPLIT_AT_FILE, 1, &error));
        assert_contains(error.text, bad[i][1]);
        assert_contains(error.text, "; --skip-bad leaves such records out, and counts them");
        CorpusFiles files = files_of(path, false);
        const Corpus corpus = {.files = &files, .text_field = "text", .n_threads = 2, .bad = &left_out};
        const CorpusPass pass = {.purpose = "Testing", .context = &listing, .work = nothing, .take = list_good};
        listing.out = open_memstream(&listing.text, &listing.size);
        for (int again = 0; again < 2; again++)
            if (!corpus_pass(&corpus, &pass, &error)) fail_msg("%s", error.text);
        fclose(listing.out);
        assert_string_equal(listing.text, "[1:a][3:b][1:a][3:b]");
        assert_int_equal(left_out.n, 1); /* of the last pass */
        assert_contains(left_out.first, path);
        assert_contains(left_out.first, bad[i][1]);
        free(left_out.first);
        free(listing.text);
        corpus_files_close(&files);
    }
}

/* Files of zero bytes that take no room on the disk. */
TEST(a_document_that_is_too_large_is_named_by_its_line) {
    static const struct {
        const char *name, *advice;
    } cases[] = {{"large.txt", "choose another --split-at"}, {"large.jsonl", "divide the record"}};
    for (int i = 0; i < 2; i++) {
        const char *path = kept_path(run_directory(), cases[i].name);
        write_text(path, i ? "{\"text\": \"\"}\n\n" : "a\n\n");
        assert_int_equal(truncate(path, (off_t)CORPUS_MAX_DOCUMENT + 64), 0);
        assert_null(documents(path, SPLIT_AT_BLANK_LINES, 1, &error));
        assert_contains(error.text, path);
        assert_contains(error.text, "line 3: the document that begins here has more than 256 MB");
        assert_contains(error.text, cases[i].advice);
        assert_int_equal(unlink(path), 0);
    }
}

TEST(a_file_that_changes_is_noticed) {
    const char *path = kept_path(run_directory(), "x.txt");
    write_text(path, "before");
    CorpusFiles files = files_of(path, false);
    const Corpus corpus = {.files = &files, .text_field = "text", .n_threads = 1};
    const CorpusPass pass = {.purpose = "Testing", .work = nothing};
    assert_true(corpus_pass(&corpus, &pass, &error));
    write_text(path, "behind");
    assert_false(corpus_pass(&corpus, &pass, &error));
    assert_contains(error.text, "the file changed while it was read");
    corpus_files_close(&files);
}

typedef struct {
    const Scan *scan;
    int64_t counts[FATES];
} Fates;

static bool count_fate(void *context, const Document *d, void *result, Error *error) {
    Fates *fates = context;
    (void)result, (void)error;
    fates->counts[scan_fate(fates->scan, d)]++;
    return true;
}

TEST(documents_that_were_not_scanned_have_no_part) {
    const char *path = kept_path(run_directory(), "x.txt");
    write_text(path, "one\ntwo\n");
    CorpusFiles files = files_of(path, false);
    const Corpus corpus = {.files = &files, .split_at = SPLIT_AT_LINE, .n_threads = 1};
    Scan scan;
    Fates fates = {.scan = &scan};
    assert_true(scan_documents(&corpus, &(ScanOptions){0}, &scan, &error));
    const CorpusPass pass = {.purpose = "Testing", .context = &fates, .work = nothing, .take = count_fate};
    FILE *file = fopen(path, "a");
    for (int i = 0; i < 5000; i++) fprintf(file, "%d\n", i);
    fclose(file);
    assert_false(corpus_pass(&corpus, &pass, &error));
    assert_contains(error.text, "the file changed while it was read");
    assert_int_equal(fates.counts[FATE_TRAIN], 2);
    assert_int_equal(fates.counts[FATE_SHORT], 5000);
    scan_close(&scan);
    corpus_files_close(&files);
}

TEST(documents_come_in_order_from_any_number_of_threads) {
    const char *folder = run_directory();
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen(kept_path(folder, i == 0 ? "a.txt" : i == 1 ? "b.jsonl" : "c.txt"), "w");
        for (int k = 0; k < 40000; k++) /* several batches */
            fprintf(file, i == 1 ? "{\"text\": \"record %d of the second\"}\n" : "line %d of a file with lines\n",
                    k * (i + 1));
        fclose(file);
    }
    char *one = documents(folder, SPLIT_AT_LINE, 1, &error);
    assert_non_null(one);
    for (int threads = 2; threads <= 8; threads *= 2) {
        char *more = documents(folder, SPLIT_AT_LINE, threads, &error);
        assert_string_equal(one, more);
    }
}
