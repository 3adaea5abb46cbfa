#include "data/audio/sound_chunks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 12, CHUNK = 8, LARGEST_FORMAT = 1024, ODD = 4096 /* bytes looked at, of what is in no chunk */ };

/* Sizes from here on mean that the length was unknown when the header was written: most programs write -1, sox and
 * espeak 2^31 - 4096, sox in AIFF 2^31 - 2^24 + 8, arecord 2^31. */
static const uint64_t STREAM_SIZE = 0x7f000000;

static uint64_t number(const unsigned char *bytes, int n, bool big_endian) {
    uint64_t value = 0;
    for (int i = 0; i < n; i++) value |= (uint64_t)bytes[i] << 8 * (big_endian ? n - 1 - i : i);
    return value;
}

/* While the chunks are read. */
typedef struct {
    int fd;
    int64_t at, end, begin; /* begin: of the AIFF file that is read, of several that were joined */
    unsigned char magic[4];
    bool aiff, big_endian, odd; /* odd: libsndfile would not read all of it */
    uint64_t long_size;         /* of RF64, in a chunk of its own */
    unsigned char format[LARGEST_FORMAT];
    size_t format_size; /* with the header of the chunk */
    SoundChunks *out;
    SoundView *view; /* of the present format; NULL: none yet */
} Chunks;

/* Names of chunks have letters and digits, seldom another sign: sound looks like one only by chance. */
static bool is_name(const unsigned char *tag) {
    for (int i = 0; i < 4; i++)
        if (!isalnum(tag[i]) && (!tag[i] || !strchr(" -_.()", tag[i]))) return false;
    return true;
}

/* Returns whether chunks follow each other from here to the end. */
static bool chunks_follow(const Chunks *c, int64_t at) {
    unsigned char chunk[CHUNK];
    while (at < c->end) {
        if (!sound_read_at(c->fd, at, chunk, CHUNK)) return c->end - at < 2; /* a pad byte */
        if (!is_name(chunk)) return false;
        int64_t size = (int64_t)number(chunk + 4, 4, c->big_endian);
        if (size > c->end - at - CHUNK) return false;
        at += CHUNK + size + size % 2;
    }
    return true;
}

/* Goes behind a chunk: an odd one has a pad byte, which is zero; some programs forget it. */
static void skip_chunk(Chunks *c, uint64_t size) {
    unsigned char next[CHUNK];
    c->at += (int64_t)size;
    if (!(size % 2)) return;
    bool forgotten = sound_read_at(c->fd, c->at, next, sizeof next) && next[0] && is_name(next) &&
                     (sound_is_tag(next, c->aiff ? "SSND" : "data") ||
                      (int64_t)number(next + 4, 4, c->big_endian) <= c->end - c->at - CHUNK);
    c->odd |= forgotten;
    c->at += !forgotten;
}

/* Counts what is behind the last chunk. Zeros fill up a sector, and tags of other formats are no sound. */
static void count_behind(Chunks *c) {
    static const char *const tags[] = {"ID3", "TAG", "APETAGEX", "LYRICSBEGIN", "3DI"};
    OWNED unsigned char *bytes = xcalloc(ODD, 1);
    ssize_t n = pread(c->fd, bytes, ODD, c->at);
    bool counts = n > 0;
    for (size_t i = 0; counts && i < sizeof tags / sizeof *tags; i++)
        counts = memcmp(bytes, tags[i], strlen(tags[i])) != 0;
    bool sounds = false;
    for (int64_t at = c->at; counts && !sounds && n > 0; n = pread(c->fd, bytes, ODD, at += n))
        for (ssize_t i = 0; i < n; i++) sounds |= bytes[i] != 0;
    if (sounds) c->out->behind = c->end - c->at;
}

/* Begins the view of a format: a head, the chunk of the format, and the header of a chunk with the sound, whose sizes
 * end_view sets. */
static void begin_view(Chunks *c) {
    unsigned char head[HEAD] = {0}, sound[CHUNK] = "data";
    memcpy(head, c->big_endian ? "RIFX" : "RIFF", 4);
    memcpy(head + CHUNK, "WAVE", 4);
    c->view = sound_parts_add(&c->out->parts);
    sound_view_bytes(c->view, head, HEAD);
    sound_view_bytes(c->view, c->format, (int64_t)c->format_size);
    sound_view_bytes(c->view, sound, CHUNK);
}

static void put_size(const Chunks *c, unsigned char *bytes, int64_t size) {
    if (size >= (int64_t)STREAM_SIZE) size = (int64_t)STREAM_SIZE; /* of a format with long sizes: that is enough */
    for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)(size >> 8 * (c->big_endian ? 3 - i : i));
}

static void end_view(Chunks *c) {
    if (!c->view) return;
    put_size(c, c->view->pieces[0].bytes + 4, c->view->size - CHUNK);
    put_size(c, c->view->pieces[2].bytes + 4, c->view->size - c->view->pieces[2].start - CHUNK);
    c->view = NULL;
}

/* Returns whether another file of this kind begins here, joined to the one before. */
static bool begins_file(const Chunks *c, int64_t at) {
    unsigned char head[HEAD];
    return sound_read_at(c->fd, at, head, HEAD) && !memcmp(head, c->magic, sizeof c->magic) &&
           (c->aiff ? sound_is_tag(head + CHUNK, "AIFF") || sound_is_tag(head + CHUNK, "AIFC")
                    : sound_is_tag(head + CHUNK, "WAVE"));
}

/* Returns where sound of unknown length ends: at the next file, or the end. */
static int64_t end_of_sound(const Chunks *c) {
    int64_t at = c->at;
    while ((at = sound_find(c->fd, at, c->magic, sizeof c->magic)) >= 0 && !begins_file(c, at)) at++;
    return at < 0 ? c->end : at;
}

/* Takes the sound of a chunk. Returns whether it ends there, so that another chunk may follow. */
static bool take_sound(Chunks *c, uint64_t size) {
    bool is_long = c->long_size && size == UINT32_MAX, first = !c->out->at;
    const int64_t rest = c->end - c->at, declared = is_long ? (int64_t)c->long_size : (int64_t)size;
    bool missing = !size && rest > 0 && !chunks_follow(c, c->at),
         unknown = missing || (is_long ? c->long_size >= INT64_MAX : size >= STREAM_SIZE);
    int64_t there = unknown ? end_of_sound(c) - c->at : declared < rest ? declared : rest;
    c->odd |= missing;
    if (first || declared > there || unknown) { /* a later chunk that is cut off, too */
        c->out->declared = unknown ? 0 : declared;
        c->out->there = there;
        c->out->at = c->at;
    }
    if (!c->aiff && c->format_size) {
        c->odd |= c->view != NULL;
        if (!c->view) begin_view(c);
        sound_view_range(c->view, c->at, there);
    }
    if (unknown)
        c->at += there;
    else if (declared <= rest)
        skip_chunk(c, (uint64_t)declared);
    return unknown ? there < rest : declared <= rest;
}

/* Takes the format. One that is not the first is that of another file, joined to this one. */
static void take_format(Chunks *c, uint64_t size) {
    size_t n = (size_t)size + CHUNK;
    unsigned char format[LARGEST_FORMAT];
    if (n + n % 2 > sizeof format || !sound_read_at(c->fd, c->at - CHUNK, format, n)) return;
    if (n % 2) format[n++] = 0;
    if (c->format_size == n && !memcmp(c->format, format, n)) return;
    if (c->format_size && !c->out->parts.count) return; /* before the sound the first counts */
    end_view(c);
    memcpy(c->format, format, n);
    c->format_size = n;
}

/* Makes a part of what ends here, of joined AIFF files. Each has its own format, with the number of its frames. */
static void end_aiff(Chunks *c) {
    sound_view_range(sound_parts_add(&c->out->parts), c->begin, c->at - c->begin);
    c->begin = c->at;
}

/* Reads one chunk. Returns whether another may follow. */
static bool take_chunk(Chunks *c) {
    unsigned char chunk[CHUNK], sizes[16];
    if (!sound_read_at(c->fd, c->at, chunk, CHUNK)) return false;
    uint64_t size = number(chunk + 4, 4, c->big_endian);
    if (!is_name(chunk)) {
        if (c->out->there) count_behind(c);
        return false;
    }
    if (c->out->at && begins_file(c, c->at)) {
        if (c->aiff) end_aiff(c);
        c->odd = true;
        c->at += HEAD;
        return true;
    }
    c->at += CHUNK;
    if (sound_is_tag(chunk, "ds64") && sound_read_at(c->fd, c->at, sizes, sizeof sizes))
        c->long_size = number(sizes + 8, 8, false);
    if (sound_is_tag(chunk, c->aiff ? "SSND" : "data")) return take_sound(c, size);
    if (sound_is_tag(chunk, "fmt ")) take_format(c, size);
    if ((int64_t)size > c->end - c->at) return false; /* behind the sound it may be cut off */
    skip_chunk(c, size);
    return true;
}

/* AU has no chunks, but a size. */
static bool read_au(Chunks *c, const unsigned char *head) {
    int64_t declared = (int64_t)number(head + 8, 4, true);
    c->at = (int64_t)number(head + 4, 4, true);
    if (c->at < 24 || c->at > c->end) return false;
    *c->out = (SoundChunks){.at = c->at, .there = c->end - c->at};
    if (!declared || declared >= (int64_t)STREAM_SIZE) return true;
    c->out->declared = declared;
    if (declared >= c->out->there) return true;
    c->out->there = declared;
    c->at += declared;
    count_behind(c);
    return true;
}

bool sound_chunks_read(int fd, SoundChunks *out) {
    Chunks c = {.fd = fd, .at = HEAD, .out = out};
    unsigned char head[HEAD];
    struct stat status;
    *out = (SoundChunks){0};
    if (fstat(fd, &status) || !sound_read_at(fd, 0, head, HEAD)) return false;
    c.end = status.st_size;
    if (sound_is_tag(head, ".snd")) return read_au(&c, head);
    c.aiff = sound_is_tag(head, "FORM");
    c.big_endian = c.aiff || sound_is_tag(head, "RIFX");
    c.odd = sound_is_tag(head, "BW64");
    if (!c.big_endian && !c.odd && !sound_is_tag(head, "RIFF") && !sound_is_tag(head, "RF64")) return false;
    if (!c.aiff && !sound_is_tag(head + CHUNK, "WAVE")) return false;
    memcpy(c.magic, head, sizeof c.magic);
    while (take_chunk(&c)) continue;
    c.at = c.end;
    if (c.begin) end_aiff(&c);
    end_view(&c);
    if (!c.odd) sound_parts_close(&out->parts);
    return out->at > 0;
}
