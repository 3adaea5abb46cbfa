#include "data/audio/conversion.h"

#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>

#include "data/audio/mpeg_frames.h"
#include "data/text/encoding.h"

/* MPEG and OPUS are SF_FORMAT_MPEG and SF_FORMAT_OPUS, which headers of older versions of libsndfile do not have. */
enum { HEAD = 4096, MPEG = 0x230000, OPUS = 0x64 };

/* Returns whether this build of libsndfile has a format, which is a container or a codec. */
static bool library_has(int format) {
    bool container = format & SF_FORMAT_TYPEMASK;
    int count = 0;
    sf_command(NULL, container ? SFC_GET_FORMAT_MAJOR_COUNT : SFC_GET_FORMAT_SUBTYPE_COUNT, &count, sizeof count);
    for (int i = 0; i < count; i++) {
        SF_FORMAT_INFO info = {.format = i};
        sf_command(NULL, container ? SFC_GET_FORMAT_MAJOR : SFC_GET_FORMAT_SUBTYPE, &info, sizeof info);
        if (info.format == format) return true;
    }
    return false;
}

/* ADTS, the stream format of AAC, begins with twelve bits 1 and a layer of two bits 0, which no MPEG audio has. */
static bool is_adts(const unsigned char *head) { return head[0] == 0xff && (head[1] & 0xf6) == 0xf0; }

/* Returns whether a CAF file says that it has a codec that libsndfile does not read. */
static bool is_coded_caf(const unsigned char *head) {
    static const char *const read[] = {"lpcm", "alac", "alaw", "ulaw"};
    if (memcmp(head, "caff", 4) != 0 || memcmp(head + 8, "desc", 4) != 0) return false;
    const unsigned char *codec = head + 28;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!memcmp(codec, read[i], 4)) return false;
    for (int i = 0; i < 4; i++)
        if (codec[i] < ' ' || codec[i] > '~') return false;
    return true;
}

/* Returns whether a CAF file leaves its length open (-1), as one that was written into a pipe may. libsndfile does not
 * read that. */
static bool is_open_caf(const unsigned char *head, size_t n) {
    static const unsigned char open[] = "data\xff\xff\xff\xff\xff\xff\xff\xff";
    return !memcmp(head, "caff", 4) && memmem(head, n, open, sizeof open - 1);
}

/* Returns whether a WAV file says that it has a codec that libsndfile does not read. It reads PCM, ADPCM (2, 0x11,
 * 0x38, 0x40), floats, A-law and mu-law (6, 7) and GSM (0x31); 0xfffe has a longer header. */
static bool is_coded_wav(const unsigned char *head, size_t n) {
    if (memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0) return false;
    const unsigned char *chunk = memmem(head, n, "fmt ", 4);
    if (!chunk || (size_t)(chunk - head) + 10 > n) return false;
    int codec = chunk[8] | chunk[9] << 8;
    static const int read[] = {0, 1, 2, 3, 6, 7, 0x11, 0x31, 0x38, 0x40, 0xfffe};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (codec == read[i]) return false;
    return true;
}

const char *conversion_kind(int fd, bool *damaged) {
    static const struct {
        int at;
        const char *tag, *kind;
    } kinds[] = {{4, "ftyp", "MPEG-4 (M4A, MP4, MOV, 3GP)"},
                 {0, "\x1a\x45\xdf\xa3", "Matroska or WebM"},
                 {0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", "Windows Media (WMA)"},
                 {0, "#!AMR", "AMR"},
                 {0, "ADIF", "AAC"},
                 {28, "Speex   ", "Speex"},
                 {29, "FLAC", "FLAC in Ogg"},
                 {0, "NIST_1A\n", "SPHERE (NIST)"},
                 {0, "wvpk", "WavPack"},
                 {0, "MAC ", "Monkey's Audio"},
                 {0, "TTA1", "True Audio"},
                 {0, "FLV", "Flash video"},
                 {0, ".RMF", "RealMedia"},
                 {0, "\x0b\x77", "AC-3"},
                 {0, "\x7f\xfe\x80\x01", "DTS"}};
    unsigned char head[HEAD] = {0};
    ssize_t n = pread(fd, head, sizeof head, 0);
    *damaged = false;
    if (n < 40) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!memcmp(head + kinds[i].at, kinds[i].tag, strlen(kinds[i].tag))) return kinds[i].kind;
    if (is_coded_caf(head)) return "CAF with a codec";
    if (is_open_caf(head, (size_t)n)) return "CAF of unknown length";
    if (is_coded_wav(head, (size_t)n)) return "WAV with a codec other than PCM";
    if (!memcmp(head + 28, "OpusHead", 8)) {
        *damaged = library_has(OPUS);
        return "Opus";
    }
    int64_t tag = mpeg_id3_size(head);
    if (tag && pread(fd, head, 4, tag) < 4) memset(head, 0, 4);
    if (is_adts(head)) return "AAC";
    /* Layer 1 is not in use, and its first bytes, FF FE, are those of a text in UTF-16. */
    if (!tag && mpeg_header_layer(head) < 2) return NULL;
    *damaged = library_has(MPEG);
    return "MP3";
}

bool conversion_none(int fd, Error *words) {
    enum { SHOWN = 60 };
    char head[HEAD + 1] = "";
    ssize_t n = pread(fd, head, HEAD, 0);
    const char *foreign = n > 0 ? encoding_of_foreign(head, (size_t)n) : NULL; /* UTF-16 may be sound */
    if (foreign) {
        (void)error_set(words, "%s", foreign);
        return true;
    }
    if (n <= 0 || memchr(head, 0, (size_t)n)) return false;
    const char *torn = (const char *)u8_check((const uint8_t *)head, (size_t)n);
    if (torn && (n < HEAD || torn + 4 <= head + n)) return false; /* a character may end behind the head */
    for (const char *c = head; c < head + n; c++)
        if ((unsigned char)*c < ' ' && !strchr("\t\n\r\f", *c)) return false;
    const char *begin = head + strspn(head, " \t\n\r\f\xef\xbb\xbf");
    size_t shown = strcspn(begin, "\r\n");
    for (shown = shown < SHOWN ? shown : SHOWN; shown && (begin[shown] & 0xc0) == 0x80;) shown--;
    bool page = encoding_is_web_page(head, (size_t)n);
    (void)error_set(words, "is a %s, which begins \"%.*s\"%s", page ? "web page (HTML)" : "text", (int)shown, begin,
                    page ? ": the download has failed, or asks for a login; get the sound again" : "");
    return true;
}

/* Returns the ending of a converted file: another than that of the source, and lossless. */
static const char *converted_extension(const char *extension) {
    return strcasecmp(extension, ".wav") != 0 ? ".wav" : ".flac";
}

/* Returns the path as one word of the shell that ffmpeg takes for a file; free(). Text before a colon would be a
 * protocol. */
static char *ffmpeg_word(const char *path) {
    OWNED char *file = xformat("%s%s", *path != '/' && strchr(path, ':') ? "./" : "", path);
    return shell_path(file);
}

char *conversion_command(const char *path, int rate) {
    const char *dot = path_extension(path);
    if (!dot) dot = path + strlen(path);
    OWNED char *converted = xformat("%.*s%s", (int)(dot - path), path, converted_extension(dot)),
               *from = ffmpeg_word(path), *to = ffmpeg_word(converted);
    return xformat("ffmpeg -i %s -ac 1 -ar %d %s", from, rate, to);
}

char *conversion_loop(const char *folder, const char *extension, bool below, int rate) {
    OWNED char *where = ffmpeg_word(folder), *pattern = xformat("*%s", extension), *name = shell_word(pattern);
    return xformat("find -L %s %s-name %s -exec sh -c 'ffmpeg -i \"$1\" -ac 1 -ar %d \"${1%%.*}%s\"' sh {} ';'", where,
                   below ? "" : "-maxdepth 1 ", name, rate, converted_extension(extension));
}
