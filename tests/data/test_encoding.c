/* The warnings about files that are not UTF-8; texts which are UTF-8 are left alone. */
#include "data/text/encoding.h"

#include "data/text/utf8.h"
#include "tests/test.h"

typedef struct {
    const char *bytes;
    size_t size;
    const char *says;
} Case;

#define BYTES(text) (text), sizeof(text) - 1

TEST(files_are_known_by_their_first_bytes) {
    static const Case cases[] = {
        {BYTES("\xff\xfeh\0i\0"), "is UTF-16: convert it with iconv -f UTF-16 -t UTF-8 FILE >NEW"},
        {BYTES("\xfe\xff\0h\0i"), "is UTF-16: convert it with iconv -f UTF-16 "},
        {BYTES("\xff\xfe\0\0h\0\0\0"), "is UTF-32: "},
        {BYTES("p\0h\0\xdf\x1e \0n\0g\0o\0n\0\n\0"), "iconv -f UTF-16LE"}, /* no byte order mark */
        {BYTES("\0p\0h\x1e\xdf\0 \0n\0g\0o\0n\0\n"), "iconv -f UTF-16BE"},
        {BYTES("\x20\x12\x61\x13\x0d\x12 \0\x40\x12\x61\x13\x62\x13\x0a\0\x20\x12\x61\x13 \0\x20\x12\x0a\0\x20\x12"),
         "iconv -f UTF-16LE"},
        {BYTES("\x1f\x8b\x08\0\0\0\0\0"), "is compressed with gzip: unpack it with gunzip"},
        {BYTES("\x28\xb5\x2f\xfd\x24\x10"), "is compressed with zstd: unpack it with unzstd"},
        {BYTES("\xfd"
               "7zXZ\0\0"),
         "is compressed with xz"},
        {BYTES("BZh91AY&SY"), "is compressed with bzip2"},
        {BYTES("PK\3\4\x14\0\6\0"),
         "is a zip archive, as spreadsheets and office documents are: save the table as CSV"},
        {BYTES("PK\3\4\x14\0\0\0\0\0\0\0!\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\5\0\0\0x.npyxx"),
         "is an archive of NumPy arrays (.npz)"},
        {BYTES("\x93NUMPY\1\0"), "is an array of NumPy (.npy)"},
        {BYTES("\x89HDF\r\n\x1a\n"), "is HDF5"},
        {BYTES("RIFF\x24\0\0\0WAVEfmt "), "is a sound, not a text"},
        {BYTES("OggS\0\2"), "is a sound, not a text"},
        {BYTES("version https://git-lfs.github.com/spec/v1\noid"), "is a pointer of Git LFS"},
        {BYTES("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "is a document of an older Office"},
        {BYTES("PAR1\x15\4\x15\x10"), "is a Parquet table: python3 -c"},
        {BYTES("ARROW1\0\0"), "is an Arrow table"},
        {BYTES("SQLite format 3\0\x10"), "is a database of SQLite"},
        {BYTES("%PDF-1.7\n%\xe2\xe3"), "is a PDF: pdftotext makes text of it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *says = encoding_of_binary(cases[i].bytes, cases[i].size);
        if (!says) fail_msg("case %zu is not known", i);
        assert_contains(says, cases[i].says);
        assert_ptr_equal(encoding_advice(cases[i].bytes, cases[i].size), says);
    }
}

TEST(texts_are_no_files_of_other_programs) {
    static const Case cases[] = {
        {BYTES(""), NULL},
        {BYTES("a"), NULL},
        {BYTES("a\0b\0c"), NULL}, /* too few zeros to be sure */
        {BYTES("a\0bc\0d\0ef\0gh\0i\0"), NULL},
        {BYTES("\xef\xbb\xbfph\xe1\xbb\x9f"), NULL},
        {BYTES("PAR1 is a kind of archive"), NULL},
        {BYTES("PK"), NULL},
        {BYTES("BZh is no word"), NULL},
        {BYTES("SQLite format 3 and others"), NULL},
        {BYTES("# %PDF-1.7\n"), NULL},
        {BYTES("\xe1\x88\xb0\xe1\x88\x8b\xe1\x88\x9d"), NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (encoding_of_binary(cases[i].bytes, cases[i].size)) fail_msg("case %zu is taken for something else", i);
}

/* The same sentences, as programs of Windows write them. */
TEST(encodings_of_windows_are_told_apart) {
    static const char vietnamese[] = "-f CP1258 -t UTF-8", western[] = "-f WINDOWS-1252 -t UTF-8",
                      other[] = "which encoding it has is not known: file -i";
    static const Case cases[] = {
        {BYTES("ph\365\322 \365\322 \360\342y ngon\nc\364 b\341n h\340ng d\352\336 th\375\365ng\n\360\363ng g\363i "
               "c\342\322n th\342\362n, n\375\365\354c l\350o nha\362t\n"),
         vietnamese},
        {BYTES("ph? ? \360\342y ngon\nc\364 b\341n h\340ng d? th\375\365ng\n\360\363ng g\363i c?n th?n, n\375?c"),
         vietnamese}, /* written by a program that lost the tones */
        {BYTES("\320\335\325\314NG \320I, \320E\362P L\303\354M"), vietnamese},
        {BYTES("Le caf\351 o\371 j'ai mang\351 co\373te cher, \347a va; l'\234uvre d'\351t\351"), western},
        {BYTES("Per\362 pu\362 darsi che ci\362 sia cos\354; luned\354 sar\340 pi\371, perci\362, virt\371"), western},
        {BYTES("As a\347\365es n\343o s\343o li\347\365es: p\365e, m\343e, cora\347\343o, av\364"), western},
        {BYTES("\336a\360 er \375mislegt a\360 gerast \355 dag, \376\363tt ve\360ri\360 s\351 g\363\360ur "), western},
        {BYTES("Gr\366\337e f\374r 5 \200, \204sch\366n\223"), western},
        {BYTES("\320ak \360avo \350ovjek \346evap \232uma \236ivotinja go\360ina"), western}, /* Croatian */
        {BYTES("\320\363\361\361\352\350\351 \360\340\361\361\352\340\347 \356 \360\345\352\345, \375\365, "
               "\360\340\341\356\362\340"),
         western}, /* Russian: the result is to be looked at */
        {BYTES("Gr\224\341e f\201r \215"), other},
        {BYTES("Ph\341\273\237 \341\273\237 \304\221\303\242y ngon, c\303\264 b\303"),
         "a character is cut off or damaged: mend it, or leave such bytes out with iconv -c -f UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_contains(encoding_advice(cases[i].bytes, cases[i].size), cases[i].says);
}

TEST(the_letters_around_the_first_bad_byte_decide) {
    enum { SIZE = 300000 };
    char *text = xmalloc(SIZE);
    memset(text, 'a', SIZE);
    memcpy(text + SIZE - 20, "\n\360\363ng g\363i th\375\365ng\n", 16);
    assert_contains(encoding_advice(text, SIZE), "CP1258");
    Error error;
    assert_false(utf8_check(text, SIZE, &error));
    assert_contains(error.text,
                    "2: is not UTF-8; it seems to be Vietnamese of Windows: convert it with iconv -f CP1258");
    free(text);
}

TEST(a_line_is_checked_with_the_place_of_the_byte) {
    Error error;
    assert_true(encoding_check_line(BYTES("ph\xe1\xbb\x9f"), &error));
    assert_false(encoding_check_line(BYTES("caf\xe9 cr\xe8me"), &error));
    assert_contains(error.text, "byte 4 is not UTF-8; it may be Western text of Windows: convert it with iconv");
    assert_false(encoding_check_line(BYTES("a\0b"), &error));
    assert_string_equal(error.text, "has a zero byte");
    assert_false(utf8_check(BYTES("p\0h\0o\0n\0g\0"), &error));
    assert_contains(error.text, "1: the file is UTF-16: convert it with iconv -f UTF-16LE");
    assert_false(utf8_check(BYTES("a\nb\0c"), &error));
    assert_string_equal(error.text, "2: has a zero byte; take it out");
}
