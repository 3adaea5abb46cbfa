/* Which documents are dropped as copies of others, and which are held out. */
#include "data/slm/scan.h"

#include "data/slm/corpus.h"
#include "tests/test.h"

static const char LONG[] =
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
    "foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of "
    "Light, it was the season of Darkness, it was the spring of hope, it was the winter of despair, "
    "we had everything before us, we had nothing before us, we were all going direct to Heaven";

TEST(near_identical_texts_are_found) {
    char upper[sizeof LONG * 2], changed[sizeof LONG], half[sizeof LONG];
    int n = 0;
    for (const char *c = LONG; *c; c++)
        n += sprintf(upper + n, *c == ' ' ? "\n " : *c == ',' ? ";" : "%c", *c >= 'a' && *c <= 'z' ? *c - 32 : *c);
    strcpy(changed, LONG);
    changed[sizeof LONG / 2] = '#'; /* a misread letter */
    strcpy(half, LONG);
    for (size_t i = 0; i < sizeof half / 2; i++)
        if (half[i] != ' ') half[i] = (char)('a' + i * 7 % 26);
    const struct {
        const char *text;
        Seen exact, near;
    } cases[] = {{LONG, SEEN_NEW, SEEN_NEW},
                 {LONG, SEEN_EXACT, SEEN_EXACT},
                 {upper, SEEN_NEW, SEEN_NEAR},
                 {changed, SEEN_NEW, SEEN_NEAR},
                 {half, SEEN_NEW, SEEN_NEW},
                 {"Amen.", SEEN_NEW, SEEN_NEW},
                 {"amen", SEEN_NEW, SEEN_NEAR},
                 {"Amin", SEEN_NEW, SEEN_NEW},
                 {"***", SEEN_NEW, SEEN_NEW},
                 {"* *", SEEN_NEW, SEEN_NEW},
                 {"\u00c9T\u00c9", SEEN_NEW, SEEN_NEW},
                 {"\u00e9t\u00e9!", SEEN_NEW, SEEN_NEAR},
                 {"Amen.", SEEN_EXACT, SEEN_EXACT}};
    for (Duplicates mode = DUPLICATES_KEEP; mode <= DUPLICATES_NEAR; mode++) {
        SeenDocuments *seen = seen_open(mode);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            Signature s;
            signature_compute(cases[i].text, strlen(cases[i].text), mode == DUPLICATES_NEAR, &s);
            Seen want = mode == DUPLICATES_KEEP ? SEEN_NEW : mode == DUPLICATES_EXACT ? cases[i].exact : cases[i].near;
            Seen got = seen_add(seen, &s);
            if (got != want) fail_msg("mode %d, text %zu: %d, not %d", mode, i, got, want);
        }
        seen_close(seen);
    }
}

/* Texts of random letters of which two share a known part of their shingles: those above 0.9 are found, and none below
 * 0.6; the signature's estimate of 64 minima has a standard deviation of about 0.05. */
TEST(similarity_decides) {
    enum { LETTERS = 4000, PAIRS = 400 };
    uint64_t x = 1;
    int found[2] = {0, 0};
    for (int pair = 0; pair < PAIRS; pair++) {
        char *a = xmalloc(LETTERS), *b = xmalloc(LETTERS);
        for (int i = 0; i < LETTERS; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            a[i] = (char)('a' + (x >> 33) % 26);
        }
        memcpy(b, a, LETTERS);
        /* the last part of b is new: of 2 n - common shingles `common` are shared */
        int common = pair % 2 ? LETTERS * 95 / 100 : LETTERS * 3 / 4; /* similarity 0.90 and 0.60 */
        for (int i = common; i < LETTERS; i++) b[i] = (char)('a' + (a[i] - 'a' + 1 + i % 25) % 26);
        SeenDocuments *seen = seen_open(DUPLICATES_NEAR);
        Signature s;
        signature_compute(a, LETTERS, true, &s);
        assert_int_equal(seen_add(seen, &s), SEEN_NEW);
        signature_compute(b, LETTERS, true, &s);
        found[pair % 2] += seen_add(seen, &s) == SEEN_NEAR;
        seen_close(seen);
        free(a);
        free(b);
    }
    if (found[0] > 2 || found[1] < PAIRS / 2 - 10) fail_msg("found %d of 200 and %d of 200", found[0], found[1]);
}

/* Documents that share 45 of 64 minima with all others are compared with a few of them, or a quadratic algorithm would
 * need minutes here. Those that share 60 with one of them are found by what is their own. */
TEST(boilerplate_hides_no_near_identical_texts) {
    enum { N = 100000, COMMON = 45 };
    SeenDocuments *seen = seen_open(DUPLICATES_NEAR);
    for (uint32_t i = 0; i < N; i++) {
        Signature s = {.hash = i + 1};
        for (uint32_t k = 0; k < SIGNATURE_MINIMA; k++)
            s.minima[k] = k < COMMON ? k : COMMON + SIGNATURE_MINIMA * i + k;
        assert_int_equal(seen_add(seen, &s), SEEN_NEW);
        s.hash += N;
        for (int k = 0; k < 4; k++) s.minima[(i + (uint32_t)k) % SIGNATURE_MINIMA] = UINT32_MAX;
        if (i % 10 == 0) assert_int_equal(seen_add(seen, &s), SEEN_NEAR);
    }
    seen_close(seen);
}

static Scan scan_path(const char *path, const char *held_out, ScanOptions options, int n_threads) {
    CorpusFiles files = {0};
    Error error;
    if ((held_out && !corpus_files_add(&files, held_out, true, &error)) ||
        !corpus_files_add(&files, path, false, &error) || !corpus_files_measure(&files, 1, &error))
        fail_msg("%s", error.text);
    const Corpus corpus = {
        .files = &files, .split_at = SPLIT_AT_LINE, .text_field = "text", .nfc = true, .n_threads = n_threads};
    Scan scan;
    if (!scan_documents(&corpus, &options, &scan, &error)) fail_msg("%s", error.text);
    corpus_files_close(&files);
    return scan;
}

TEST(documents_are_held_out_by_their_text) {
    enum { N = 5000 };
    const char *folder = run_directory(), *path = kept_path(folder, "x.txt"), *reversed = kept_path(folder, "y.txt");
    FILE *x = fopen(path, "w"), *y = fopen(reversed, "w");
    for (int i = 0; i < N; i++) {
        fprintf(x, "text number %d\n", i);
        fprintf(y, "text number %d\n", N - 1 - i);
    }
    fclose(x);
    fclose(y);
    Scan a = scan_path(path, NULL, (ScanOptions){.val_ratio = 0.1}, 1),
         b = scan_path(reversed, NULL, (ScanOptions){.val_ratio = 0.1}, 3);
    assert_true(a.n == N && b.n == N);
    for (int i = 0; i < N; i++) assert_int_equal(a.fates[i], b.fates[N - 1 - i]);
    assert_near(a.counts[FATE_VAL], 500, 85); /* four standard deviations */
    assert_int_equal(a.counts[FATE_TRAIN] + a.counts[FATE_VAL], N);
    scan_close(&b);
    b = scan_path(path, NULL, (ScanOptions){.val_ratio = 0.2}, 1); /* a larger share only adds documents */
    for (int i = 0; i < N; i++) assert_true(a.fates[i] != FATE_VAL || b.fates[i] == FATE_VAL);
    scan_close(&a);
    scan_close(&b);
}

TEST(one_of_few_documents_is_held_out_and_one_is_not) {
    const char *path = kept_path(run_directory(), "x.txt");
    write_text(path, "a\nbb\nccc\n");
    for (double ratio = 1e-9; ratio < 1; ratio += 0.9 - 1e-6) {
        Scan s = scan_path(path, NULL, (ScanOptions){.val_ratio = ratio}, 1);
        assert_true(s.counts[FATE_VAL] >= 1 && s.counts[FATE_TRAIN] >= 1);
        int64_t bytes[2] = {0}, counts[2] = {0};
        for (int64_t i = 0; i < s.n; i++) {
            bytes[s.fates[i]] += i + 1;
            counts[s.fates[i]]++;
        }
        assert_memory_equal(bytes, s.bytes, sizeof bytes);
        assert_memory_equal(counts, s.counts, sizeof counts);
        scan_close(&s);
    }
    Scan s = scan_path(path, NULL, (ScanOptions){.val_ratio = 0}, 1);
    assert_int_equal(s.counts[FATE_VAL], 0);
    scan_close(&s);
}

TEST(each_document_has_one_fate) {
    const char *folder = run_directory(), *path = kept_path(folder, "x.txt"), *held_out = kept_path(folder, "v.txt");
    write_text(path, "abc\n \u00e9 e \nabc\nABC!\nx\nheld\n%s\n", LONG);
    write_text(held_out, "held\nabd\n");
    static const unsigned char want[3][9] = {
        {1, 1, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 3, 0, 2, 3, 0}, {1, 1, 0, 0, 3, 4, 2, 3, 0}};
    for (Duplicates d = DUPLICATES_KEEP; d <= DUPLICATES_NEAR; d++) {
        Scan s = scan_path(path, held_out, (ScanOptions){.duplicates = d, .min_characters = d ? 2 : 0}, 2);
        assert_int_equal(s.n, 9);
        assert_memory_equal(s.fates, want[d], 9);
        scan_close(&s);
    }
}
