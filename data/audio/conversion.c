#include "data/audio/conversion.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 4096 };

/* ADTS, the stream format of AAC, begins with twelve bits 1 and a layer of two bits 0, which no MPEG audio has. */
static bool is_adts(const unsigned char *head) { return head[0] == 0xff && (head[1] & 0xf6) == 0xf0; }

static bool is_mpeg_audio(const unsigned char *head) {
    return head[0] == 0xff && (head[1] & 0xe0) == 0xe0 && (head[1] & 0x06);
}

/* Returns whether a WAV file has a codec other than plain samples (1, 3, and 0xfffe, which has a longer header), so
 * that it is the codec that libsndfile refuses, not a damaged header. */
static bool is_coded_wav(const unsigned char *head, size_t n) {
    if (memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0) return false;
    const unsigned char *chunk = memmem(head, n, "fmt ", 4);
    if (!chunk || (size_t)(chunk - head) + 10 > n) return false;
    int codec = chunk[8] | chunk[9] << 8;
    return codec != 1 && codec != 3 && codec != 0xfffe;
}

const char *conversion_kind(int fd) {
    static const struct {
        int at;
        const char *tag, *kind;
    } kinds[] = {{4, "ftyp", "MPEG-4 (M4A, MP4, MOV, 3GP)"},
                 {0, "\x1a\x45\xdf\xa3", "Matroska or WebM"},
                 {0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", "Windows Media (WMA)"},
                 {0, "#!AMR", "AMR"},
                 {0, "ADIF", "AAC"},
                 {0, "ID3", "MP3"},
                 {28, "OpusHead", "Opus"},
                 {28, "Speex   ", "Speex"},
                 {29, "FLAC", "FLAC in Ogg"},
                 {0, "wvpk", "WavPack"},
                 {0, "MAC ", "Monkey's Audio"},
                 {0, "TTA1", "True Audio"},
                 {0, "FLV", "Flash video"},
                 {0, ".RMF", "RealMedia"},
                 {0, "\x0b\x77", "AC-3"},
                 {0, "\x7f\xfe\x80\x01", "DTS"},
                 {0, "caff", "CAF with a codec"}};
    unsigned char head[HEAD] = {0};
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 40) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!memcmp(head + kinds[i].at, kinds[i].tag, strlen(kinds[i].tag))) return kinds[i].kind;
    return is_adts(head)                   ? "AAC"
           : is_mpeg_audio(head)           ? "MP3"
           : is_coded_wav(head, (size_t)n) ? "WAV with a codec other than PCM"
                                           : NULL;
}

/* Returns the ending of a converted file: another than that of the source, and lossless. */
static const char *converted_extension(const char *extension) {
    return strcasecmp(extension, ".wav") != 0 ? ".wav" : ".flac";
}

/* Returns the path as one word of the shell that ffmpeg takes for a file; free(). Text before a colon would be a
 * protocol. */
static char *ffmpeg_word(const char *path) {
    char *file = xformat("%s%s", *path != '/' && strchr(path, ':') ? "./" : "", path), *word = shell_path(file);
    free(file);
    return word;
}

char *conversion_command(const char *path, int rate) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    if (!dot) dot = path + strlen(path);
    char *converted = xformat("%.*s%s", (int)(dot - path), path, converted_extension(dot));
    char *from = ffmpeg_word(path), *to = ffmpeg_word(converted);
    char *command = xformat("ffmpeg -i %s -ac 1 -ar %d %s", from, rate, to);
    free(converted);
    free(from);
    free(to);
    return command;
}

char *conversion_loop(const char *folder, const char *extension, int rate) {
    char *where = shell_path(folder), *pattern = xformat("*%s", extension), *name = shell_word(pattern);
    char *command = xformat("find %s -name %s -exec sh -c 'ffmpeg -i \"$1\" -ac 1 -ar %d \"${1%%.*}%s\"' sh {} ';'",
                            where, name, rate, converted_extension(extension));
    free(where);
    free(pattern);
    free(name);
    return command;
}
