#include "data/gpt/recordings_foreign.h"

#include <ctype.h>
#include <string.h>

#include "data/formats/text_source.h"
#include "data/text/encoding.h"

#define MAKE_A_LIST                                                                                                    \
    "make a list of their texts, with the columns audio, start, end and text, and give it with --input "               \
    "(docs/train_gpt.md, \"What prepare reads\", has the lines of Python)"

const char *recordings_subtitles_advice(void) { return MAKE_A_LIST; }

/* A kind of file, by the end of its name, by its first bytes, or by the form of a line, in which '0' is a digit or
 * more, and others stand for themselves. */
typedef struct {
    const char *kind, *ending, *begin, *form;
    const char *before; /* with which lines before that line may begin */
} Kind;

static const Kind kinds[] = {
    {"subtitles (SubRip)", ".srt", NULL, "0:0:0,0 --> 0:0:0,0", "\r\n0123456789"}, /* behind blank lines and a number */
    {"subtitles (WebVTT)", ".vtt", "WEBVTT", NULL, NULL},
    {"subtitles (YouTube)", ".sbv", NULL, "0:0:0.0,0:0:0.0", ""},
    {"subtitles (SubStation Alpha)", ".ass", "[Script Info]", NULL, NULL},
    {"subtitles (SubStation Alpha)", ".ssa", NULL, NULL, NULL},
    {"lyrics with times (LRC)", ".lrc", NULL, "[0:0.0]", "["}, /* behind title and author */
    {"annotations of Praat (TextGrid)", ".textgrid", "File type = \"ooTextFile", NULL, NULL},
    {"annotations of ELAN", ".eaf", NULL, NULL, NULL},
    {"subtitles (TTML)", ".ttml", NULL, NULL, NULL},
    {"times of words (CTM)", ".ctm", NULL, NULL, NULL},
    {"times of utterances (STM)", ".stm", NULL, NULL, NULL},
    {"times of speakers (RTTM)", ".rttm", NULL, NULL, NULL},
    {"labels with times, as of Audacity", NULL, NULL, "0.0\t0.0\t", ""}, /* a row of a table may begin so */
};
enum { KINDS = sizeof kinds / sizeof *kinds };

bool recordings_name_subtitles(const char *path) {
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].ending && path_ending(path, kinds[i].ending)) return true;
    return false;
}

/* Returns whether a line begins in this form. */
static bool has_form(const char *line, const char *end, const char *form) {
    for (; *form; form++) {
        const char *begin = line;
        while (*form == '0' && line < end && isdigit((unsigned char)*line)) line++;
        if (*form == '0' ? line == begin : line == end || *line++ != *form) return false;
    }
    return true;
}

static bool is_kind(const Kind *kind, const char *path, const char *text, const char *end) {
    if (kind->ending && text_ending(path, kind->ending)) return true;
    size_t n = kind->begin ? strlen(kind->begin) : 0;
    if (n && (size_t)(end - text) >= n && !memcmp(text, kind->begin, n)) return true;
    while (kind->form && text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        if (has_form(text, stop, kind->form)) return true;
        if (!*text || !strchr(kind->before, *text)) break;
        text = stop + 1;
    }
    return false;
}

bool recordings_are_foreign(const char *path, const char *text, size_t size, Error *words) {
    for (int i = 0; i < KINDS; i++)
        if (is_kind(&kinds[i], path, text, text + size)) {
            (void)error_set(words, "the file holds %s, which name no sounds: %s", kinds[i].kind, MAKE_A_LIST);
            return true;
        }
    if (encoding_is_web_page(text, size))
        (void)error_set(words, "the file is a web page (HTML): the download has failed, or asks for a login; get the "
                               "list again");
    else if (size > 5 && !memcmp(text, "<?xml", 5))
        (void)error_set(words, "the file is XML, of which no kind is read: make a list of its texts, with the columns "
                               "audio and text");
    else
        return false;
    return true;
}
