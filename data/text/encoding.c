#include "data/text/encoding.h"

#include <string.h>
#include <strings.h>
#include <unistr.h>

#include "data/text/characters.h"

#define ICONV(name) "convert it with iconv -f " name " -t UTF-8 FILE >NEW"

/* ---- by the first bytes ---- */

typedef struct {
    const char *bytes;
    size_t size;
    const char *advice;
} FirstBytes;

static const FirstBytes
    marks[] =
        {
            {"\xff\xfe\0\0", 4, "is UTF-32: " ICONV("UTF-32")},
            {"\0\0\xfe\xff", 4, "is UTF-32: " ICONV("UTF-32")},
            {"\xff\xfe", 2, "is UTF-16: " ICONV("UTF-16")},
            {"\xfe\xff", 2, "is UTF-16: " ICONV("UTF-16")},
            {NULL, 0, NULL},
},
    foreign[] = {
        {"\x1f\x8b", 2, "is compressed with gzip: unpack it with gunzip"},
        {"\x28\xb5\x2f\xfd", 4, "is compressed with zstd: unpack it with unzstd"},
        {"\xfd"
         "7zXZ",
         5, "is compressed with xz: unpack it with unxz"},
        {"BZh91AY", 7, "is compressed with bzip2: unpack it with bunzip2"},
        {"PK\3\4", 4,
         "is a zip archive, as spreadsheets and office documents are: save the table as CSV in UTF-8 or the text as "
         "plain "
         "text, or unpack it with unzip"},
        {"\xd0\xcf\x11\xe0", 4,
         "is a document of an older Office: save the table as CSV in UTF-8, or the text as plain text"},
        {"PAR1\x15", 5,
         "is a Parquet table: python3 -c \"import pandas; pandas.read_parquet('FILE').to_json('NEW.jsonl', "
         "orient='records', lines=True, force_ascii=False)\" makes lines of JSON"},
        {"ARROW1\0", 7, "is an Arrow table: save it as lines of JSON or as CSV"},
        {"SQLite format 3\0", 16, "is a database of SQLite: save the table as CSV"},
        {"%PDF-", 5, "is a PDF: pdftotext makes text of it"},
        {"{\\rtf", 5, "is RTF: save it as plain text in UTF-8"},
        {"\x93NUMPY", 6, "is an array of NumPy (.npy): write its values as text, lines of JSON or CSV"},
        {"\x89HDF\r\n", 6, "is HDF5: write its values as text, lines of JSON or CSV"},
        {"\x89PNG\r\n", 6, "is a picture, not a text"},
        {"\xff\xd8\xff", 3, "is a picture, not a text"},
        {"version https://git-lfs.", 24,
         "is a pointer of Git LFS, which stands for a file that was not fetched: fetch it with git lfs pull"},
        {NULL, 0, NULL},
};

/* Returns the advice of the first row whose bytes are these. */
static const char *advice_of(const FirstBytes *rows, const char *bytes, size_t size) {
    while (rows->bytes && (size < rows->size || memcmp(bytes, rows->bytes, rows->size) != 0)) rows++;
    return rows->advice;
}

static bool is_sound(const char *bytes, size_t size) {
    static const FirstBytes sounds[] = {
        {"fLaC\0", 5, ""}, {"OggS\0", 5, ""}, {"ID3\3", 4, ""}, {"ID3\4", 4, ""}, {NULL, 0, NULL}};
    return (size >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WAVE", 4)) || advice_of(sounds, bytes, size);
}

/* Returns the advice for what is known by bytes behind the first. */
static const char *inner_kind(const char *bytes, size_t size) {
    enum { ZIP_HEADER = 30, TAR_MAGIC = 257 };
    size_t name =
        size > ZIP_HEADER ? ZIP_HEADER + (unsigned char)bytes[26] + 256 * (size_t)(unsigned char)bytes[27] : 0;
    if (name >= ZIP_HEADER + 4 && name <= size && !memcmp(bytes, "PK\3\4", 4) && !memcmp(bytes + name - 4, ".npy", 4))
        return "is an archive of NumPy arrays (.npz): write its values as text, lines of JSON or CSV";
    if (size >= TAR_MAGIC + 5 && !memcmp(bytes + TAR_MAGIC, "ustar", 5)) return "is an archive: unpack it with tar -xf";
    return NULL;
}

/* Returns the advice for UTF-16 without a byte order mark: many zero bytes, all of them at odd or all at even places.
 */
static const char *wide_text(const char *bytes, size_t size) {
    enum { SEEN = 4096, FEW = 4, ONE_IN = 20 };
    size_t n = size < SEEN ? size : SEEN, zeros[2] = {0, 0};
    for (size_t i = 0; i < n; i++) zeros[i % 2] += !bytes[i];
    for (int odd = 0; odd < 2; odd++)
        if (!zeros[!odd] && zeros[odd] >= FEW && 2 * ONE_IN * zeros[odd] >= n)
            return odd ? "is UTF-16: " ICONV("UTF-16LE") : "is UTF-16: " ICONV("UTF-16BE");
    return NULL;
}

bool encoding_is_web_page(const char *bytes, size_t size) {
    static const char *const begins[] = {"<!doctype html", "<html"};
    for (; size && strchr(" \t\n\r\f\xef\xbb\xbf", *bytes) && *bytes; size--) bytes++;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (size >= strlen(begins[i]) && !strncasecmp(bytes, begins[i], strlen(begins[i]))) return true;
    return false;
}

const char *encoding_of_foreign(const char *bytes, size_t size) {
    const char *inner = inner_kind(bytes, size);
    return inner ? inner : advice_of(foreign, bytes, size);
}

const char *encoding_of_binary(const char *bytes, size_t size) {
    const char *advice = encoding_of_foreign(bytes, size);
    if (!advice) advice = advice_of(marks, bytes, size);
    if (advice) return advice;
    if (is_sound(bytes, size))
        return "is a sound, not a text: give a list that names the sounds with their texts, or their folder";
    return wide_text(bytes, size);
}

/* ---- by the letters ---- */

typedef struct {
    int64_t high;       /* bytes from 0x80 on */
    int64_t letters;    /* they, and ASCII's letters */
    int64_t utf8, torn; /* characters of UTF-8, and bytes that belong to none */
    int64_t undefined;  /* bytes that windows-1252 does not have */
    int64_t foreign;    /* bytes that cp1258 does not have, and cp1250 does */
    int64_t vietnamese; /* in cp1258: đ at the beginning of a word, where western languages have no ð; ươ */
    int64_t tones;      /* bytes behind a vowel that are tone marks in cp1258 */
} Letters;

static bool is_letter(unsigned char b) { return b >= 0xc0 || (unsigned)(b | 32) - 'a' < 26u; }

static bool is_vowel(unsigned char b) {
    return b && strchr("aeiouyAEIOUY\xc2\xc3\xca\xd4\xd5\xdd\xe2\xe3\xea\xf4\xf5\xfd", b);
}

static Letters count_letters(const char *bytes, size_t size) {
    Letters l = {0};
    for (size_t i = 0; i < size; i++) {
        unsigned char before = i ? (unsigned char)bytes[i - 1] : 0, b = (unsigned char)bytes[i],
                      next = i + 1 < size ? (unsigned char)bytes[i + 1] : 0;
        l.letters += is_letter(b) || b >= 0x80;
        if (b < 0x80) continue;
        l.high++;
        l.undefined += strchr("\x81\x8d\x8f\x90\x9d", b) != NULL;
        l.foreign += strchr("\x8a\x8e\x9a\x9e", b) != NULL;
        l.vietnamese += (b == 0xf0 || b == 0xd0) && !is_letter(before) && is_letter(next);
        l.vietnamese += (b | 32) == 0xfd && (next | 32) == 0xf5;
        l.tones += strchr("\xcc\xd2\xde\xec\xf2", b) && is_vowel(before);
    }
    uint32_t c;
    const char *end = bytes + size;
    for (size_t n; (n = character_at(bytes, end, &c)); bytes += n) {
        l.utf8 += n > 1;
        l.torn += c == CHARACTER_NONE;
    }
    return l;
}

const char *encoding_advice(const char *bytes, size_t size) {
    enum { BEFORE = 64, BEHIND = 1 << 16, FEW = 20 /* of the bytes from 0x80 on, one in so many */ };
    const char *binary = encoding_of_binary(bytes, size);
    if (binary) return binary;
    const char *bad = (const char *)u8_check((const uint8_t *)bytes, size), *end = bytes + size;
    if (!bad) return "take it out";
    const char *begin = bad - bytes > BEFORE ? bad - BEFORE : bytes;
    Letters l = count_letters(begin, (size_t)(end - bad > BEHIND ? bad + BEHIND - begin : end - begin));
    if (l.utf8 > l.torn)
        return "most of it is UTF-8, so a character is cut off or damaged: mend it, or leave such bytes out with "
               "iconv -c -f UTF-8 -t UTF-8 FILE >NEW";
    bool mixed = 3 * l.high <= 2 * l.letters; /* Russian, for example, has hardly a letter of ASCII */
    if (l.vietnamese && !l.foreign && mixed && FEW * (l.vietnamese + l.tones) >= l.high)
        return "it seems to be Vietnamese of Windows: " ICONV("CP1258");
    if (l.undefined) return "which encoding it has is not known: file -i FILE guesses it, then " ICONV("ENCODING");
    return "it may be Western text of Windows: " ICONV("WINDOWS-1252") ", and look at the result";
}

bool encoding_check_line(const char *line, size_t size, Error *error) {
    const char *wrong = (const char *)u8_check((const uint8_t *)line, size);
    if (wrong)
        return error_set(error, "byte %lld is not UTF-8; %s", (long long)(wrong - line + 1),
                         encoding_advice(line, size));
    return !memchr(line, 0, size) || error_set(error, "has a zero byte");
}
