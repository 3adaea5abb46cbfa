/* The Amharic front end: pairs of an input and the output of the Python code of IndexTTS2, including its quirks. */
#include "tests/test.h"

#include "data/text/normalize.h"

static void check(char *(*function)(const char *, Error *), const char *in, const char *want) {
    Error error;
    char *got = function(in, &error);
    if (!got) fail_msg("\"%s\": %s", in, error.text);
    if (strcmp(got, want) != 0) fail_msg("\"%s\" became \"%s\" instead of \"%s\"", in, got, want);
    free(got);
}

static void normal(const char *in, const char *want) { check(text_normalize_amharic, in, want); }

TEST(clean_trims_and_removes_the_speaker) {
    check(text_clean, " \t\n ሰላም ነው\u2003\x1f", "ሰላም ነው");
    check(text_clean, "ሀ\u3000ለ\u00a0ሐ", "ሀ ለ ሐ");
    check(text_clean, "Speaker 12: ሰላም", "ሰላም");
    check(text_clean, "sPK٣\u2003： ሰላም", "ሰላም");   /* any decimal digit, full-width colon */
    check(text_clean, "\u017fpea\u212aer1:ሀ", "ሀ"); /* letters that case folding turns into s and k */
    check(text_clean, "speaker: ሰላም", "speaker: ሰላም");
    check(text_clean, "speaker ፩: ሰላም", "speaker ፩: ሰላም"); /* an Ethiopic numeral is no decimal digit */
    check(text_clean, "ተናጋሪ 1: ሰላም", "ተናጋሪ 1: ሰላም");
    check(text_clean, "speaker 1: speaker 2: ሀ", "speaker 2: ሀ");
    check(text_clean, " speaker 7: ", "");
    check(text_clean, "", "");
}

TEST(ethiopic_punctuation_becomes_ascii) {
    normal("ሰላም፣ እንዴት ነህ፧ ደህና።", "ሰላም, እንዴት ነህ? ደህና.");
    normal("አንድ፡ሁለት፨", "አንድ ሁለት!");
    normal("«ና» አለ", "«ና» አለ"); /* guillemets stay */
}

TEST(the_table_is_applied_once) {
    normal("ሀ፤ ለ፥ ሐ፦", "ሀ; ለ: ሐ:"); /* : and ; from Ethiopic marks stay */
    normal("ሀ; ለ: ሐ：", "ሀ, ለ, ሐ,");
    normal("ሀ፡፡ለ", "ሀ  ለ"); /* whitespace is collapsed before this step */
    normal("ሀለ፡፡", "ሀለ");
    normal("ሀ，，，ለ", "ሀ,,,ለ");
    normal("ሀ,,,ለ", "ሀ…ለ");
    normal("ሀ....ለ..", "ሀ….ለ..");
    normal("ሀ……ለ…", "ሀ…ለ…");
    normal("ሀ,,,,,ለ", "ሀ…,,ለ");
}

TEST(quotes_and_brackets_become_apostrophes) {
    normal("“ሀ” \"ለ\" ‘ሐ’ （መ）(ሠ)《ረ》【ሰ】[ሸ]「ቀ」", "'ሀ' 'ለ' 'ሐ' 'መ''ሠ''ረ''ሰ''ሸ''ቀ'");
}

TEST(both_speaker_tags_are_removed) {
    normal("speaker 1: ተናጋሪ 2： ሰላም ነው", "ሰላም ነው"); /* one in clean_text, one in the normaliser */
    normal("speaker 1: speaker 2: speaker 3: ሰላም", "SPEAKER 3, ሰላም");
    normal("ተናጋሪ 1:", "");
}

TEST(unicode_is_composed_then_made_upper_case) {
    normal("e\u0301a \u00df \ufb01 \u0149 \u0390", "\u00c9A SS FI \u02bcN \u0399\u0308\u0301"); /* full case mappings */
    normal("ab\u212b", "ABÅ");
    normal("ab\u037e\u0387", "AB,-"); /* their composed forms are in the table */
    normal("ሰላም world", "ሰላም WORLD");
}

TEST(east_asian_characters_are_words) {
    normal("ሰላም你好ab", "ሰላም 你 好 AB");
    normal("\u1112\u1161\u11ab글", "한 글");       /* composed first */
    normal("ሀ\uAB01\uAB02ለ", "ሀ \uAB01 \uAB02 ለ"); /* Ethiopic Extended-A lies in one of the ranges */
    normal("ሀ\u2D80\u1380ለ", "ሀ\u2D80\u1380ለ");
    normal("a\U00020001b\U0001F600", "A \U00020001 B\U0001F600");
}

TEST(one_character_is_not_changed) {
    normal(" a ", "a");
    normal("።", "።");
    normal("speaker 1: ß", "ß");
    normal("\u3000", "");
    normal("a\u0301", "Á"); /* two code points: the front end changes the text */
}

TEST(invalid_utf8_is_refused) {
    static const struct {
        const char *text, *message;
    } cases[] = {{"ab\xff", "byte 0xff at offset 2"},
                 {"\xe1\x88", "byte 0xe1 at offset 0"},          /* cut */
                 {"ሰ\xed\xa0\x80", "byte 0xed at offset 3"},     /* a surrogate */
                 {"a\xc0\xaf", "byte 0xc0 at offset 1"},         /* overlong */
                 {"\xf4\x90\x80\x80", "byte 0xf4 at offset 0"}}; /* above U+10FFFF */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {""};
        assert_null(text_normalize_amharic(cases[i].text, &error));
        assert_contains(error.text, cases[i].message);
        assert_null(text_clean(cases[i].text, &error));
    }
}
