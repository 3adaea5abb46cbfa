#include "data/audio/sound_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OGG_HEADER = 27, OGG_LARGEST_PAGE = OGG_HEADER + 255 + 255 * 255 };

/* Shorter missing sound is ignored: programs that count a header as sound are off by so much. */
static const double MIN_MISSING_SECONDS = 0.02;

/* Sizes from here on mean that the length was unknown when the header was written: most programs write -1, sox and
 * espeak 2^31 - 4096, arecord 2^31. */
static const uint64_t STREAM_SIZE = 0x7fff0000;

static uint64_t number(const unsigned char *bytes, int n, bool big_endian) {
    uint64_t value = 0;
    for (int i = 0; i < n; i++) value |= (uint64_t)bytes[i] << 8 * (big_endian ? n - 1 - i : i);
    return value;
}

/* Reads without moving the position at which the library reads. */
static bool read_at(int fd, int64_t at, void *bytes, size_t n) { return pread(fd, bytes, n, at) == (ssize_t)n; }

static int64_t size_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_size;
}

static bool is_tag(const unsigned char *bytes, const char *tag) { return !memcmp(bytes, tag, 4); }

/* Finds the chunk with the sound in a RIFF, RF64 or AIFF file: its declared size, and the bytes from there to the end
 * of the file. Returns false if there is none, or if its size is not known. */
static bool find_sound(int fd, uint64_t *declared, uint64_t *there) {
    unsigned char head[12], chunk[8], sizes[16];
    if (!read_at(fd, 0, head, sizeof head)) return false;
    bool aiff = is_tag(head, "FORM"), big_endian = aiff || is_tag(head, "RIFX");
    if (!big_endian && !is_tag(head, "RIFF") && !is_tag(head, "RF64")) return false;
    int64_t end = size_of(fd);
    uint64_t long_size = 0; /* of RF64, in a chunk of its own */
    for (int64_t at = sizeof head; read_at(fd, at, chunk, sizeof chunk);) {
        uint64_t size = number(chunk + 4, 4, big_endian);
        at += (int64_t)sizeof chunk;
        if (is_tag(chunk, "ds64") && read_at(fd, at, sizes, sizeof sizes)) long_size = number(sizes + 8, 8, false);
        if (is_tag(chunk, aiff ? "SSND" : "data")) {
            bool is_long = long_size && size == UINT32_MAX;
            *declared = is_long ? long_size : size;
            *there = (uint64_t)(end - at);
            return *declared && (is_long ? long_size < INT64_MAX : size < STREAM_SIZE);
        }
        at += (int64_t)(size + size % 2);
    }
    return false;
}

static bool check_chunks(int fd, const SF_INFO *info, Error *error) {
    uint64_t declared, there;
    if (!find_sound(fd, &declared, &there) || there >= declared) return true;
    double seconds = (double)info->frames / info->samplerate;
    if ((double)(declared - there) * seconds < MIN_MISSING_SECONDS * (double)there) return true;
    return error_set(error, "is cut off: %lld of %lld bytes of sound are there", (long long)there, (long long)declared);
}

/* Checks that the last page of an Ogg file is whole. */
static bool check_last_page(int fd, Error *error) {
    unsigned char *tail = xmalloc(OGG_LARGEST_PAGE);
    int64_t size = size_of(fd);
    int n = (int)(size < OGG_LARGEST_PAGE ? size : OGG_LARGEST_PAGE), last = n - 4;
    bool ok = true;
    if (n >= 4 && read_at(fd, size - n, tail, (size_t)n)) {
        while (last >= 0 && !is_tag(tail + last, "OggS")) last--;
        int page = OGG_HEADER, segments = last >= 0 && n - last >= OGG_HEADER ? tail[last + 26] : 0;
        for (int i = 0; i < segments && last + OGG_HEADER + i < n; i++) page += tail[last + OGG_HEADER + i];
        if (last >= 0 && n - last < page + segments)
            ok = error_set(error, "is cut off: %d of %d bytes of its last page are there", n - last, page + segments);
    }
    free(tail);
    return ok;
}

bool sound_file_is_whole(int fd, const SF_INFO *info, Error *error) {
    bool ogg = (info->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG;
    return ogg ? check_last_page(fd, error) : check_chunks(fd, info, error);
}

/* An MP3 may declare its number of frames in its first frame, which follows a tag that may be long. Else the library
 * estimates the number. */
static bool mp3_says_frames(int fd) {
    unsigned char head[256] = {0};
    int64_t at = 0;
    if (read_at(fd, 0, head, 10) && !memcmp(head, "ID3", 3))
        at = 10 + ((int64_t)head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]);
    return read_at(fd, at, head, sizeof head) &&
           (memmem(head, sizeof head, "Xing", 4) || memmem(head, sizeof head, "Info", 4));
}

bool sound_file_says_frames(int fd, const SF_INFO *info) {
    int coding = info->format & SF_FORMAT_SUBMASK;
    bool mpeg = coding >= 0x0080 && coding <= 0x0082; /* SF_FORMAT_MPEG_LAYER_I to III, which older headers lack */
    return info->frames < INT64_MAX / 2 && (!mpeg || mp3_says_frames(fd));
}
