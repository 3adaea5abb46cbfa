#include "data/audio/mpeg_frames.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WINDOW = 1 << 16,
    HEADER = 4,
    NOTE_SIZE = 64 /* at least, of a frame that describes others */,
    LARGEST_FRAME = 4096
};

/* Reads a file forwards. */
typedef struct {
    int fd;
    int64_t at, end; /* of bytes[0] in the file; of what is to be read */
    int64_t n;
    unsigned char bytes[WINDOW];
} Window;

/* Returns the n bytes at `at`, or NULL if so many are not there. */
static const unsigned char *look(Window *w, int64_t at, int64_t n) {
    if (at < 0 || at + n > w->end) return NULL;
    if (at < w->at || at + n > w->at + w->n) {
        int64_t want = w->end - at < WINDOW ? w->end - at : WINDOW;
        w->at = at;
        w->n = pread(w->fd, w->bytes, (size_t)want, at);
    }
    return at + n <= w->at + w->n ? w->bytes + (at - w->at) : NULL;
}

int mpeg_header_layer(const unsigned char *h) {
    int version = h[1] >> 3 & 3, layer = 4 - (h[1] >> 1 & 3), rate = h[2] >> 2 & 3;
    return h[0] != 0xff || h[1] < 0xe0 || version == 1 || layer == 4 || h[2] >> 4 == 15 || rate == 3 ? 0 : layer;
}

int64_t mpeg_id3_size(const unsigned char *b) {
    if (memcmp(b, "ID3", 3) != 0) return 0;
    int64_t size = (int64_t)(b[6] & 127) << 21 | (b[7] & 127) << 14 | (b[8] & 127) << 7 | (b[9] & 127);
    return 10 + size + (b[5] & 16 ? 10 : 0);
}

typedef struct {
    unsigned char header[HEADER];
    int layer, samples;
    int64_t size; /* bytes with the header */
    int note;     /* where Xing or Info stands, if the frame has it */
} Frame;

/* Fills the sizes of a frame by its header. Returns false if it is none, or of free format, which declares no size. */
static bool parse_frame(const unsigned char *h, Frame *frame) {
    static const short kbits[2][3][15] = {
        {{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448}, /* version 1, layers 1 to 3 */
         {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
         {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}},
        {{0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256}, /* versions 2 and 2.5 */
         {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
         {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}}};
    static const int rates[] = {44100, 48000, 32000};
    int version = h[1] >> 3 & 3, layer = mpeg_header_layer(h);
    if (!layer) return false;
    bool low = version != 3, mono = h[3] >> 6 == 3;
    int kbit = kbits[low][layer - 1][h[2] >> 4], padding = h[2] >> 1 & 1;
    int rate = rates[h[2] >> 2 & 3] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    *frame = (Frame){.layer = layer, .samples = layer == 1 ? 384 : layer == 3 && low ? 576 : 1152};
    memcpy(frame->header, h, HEADER);
    frame->size = layer == 1 ? (12000 * kbit / rate + padding) * 4 : frame->samples / 8 * 1000 * kbit / rate + padding;
    frame->note = HEADER + (low ? mono ? 9 : 17 : mono ? 17 : 32);
    return kbit > 0 && frame->size > HEADER;
}

/* Returns whether one decoder reads both: version, layer, rate, and one channel or two. */
static bool is_alike(const Frame *a, const Frame *b) {
    return (a->header[1] & 0xfe) == (b->header[1] & 0xfe) && (a->header[2] & 0x0c) == (b->header[2] & 0x0c) &&
           (a->header[3] >> 6 == 3) == (b->header[3] >> 6 == 3);
}

/* Returns the size of a tag, 0 if there is none. */
static int64_t tag_size(Window *w, int64_t at) {
    const unsigned char *b = look(w, at, 10);
    int64_t id3 = b ? mpeg_id3_size(b) : 0;
    if (id3) return id3;
    if ((b = look(w, at, 3)) && !memcmp(b, "TAG", 3)) return 128;
    if ((b = look(w, at, 32)) && !memcmp(b, "APETAGEX", 8))
        return 32 + (b[23] & 32 ? b[12] | b[13] << 8 | b[14] << 16 | (int64_t)b[15] << 24 : 0);
    return 0;
}

/* Returns whether a whole frame is there that another one, a tag or the end follows. */
static bool find_frame(Window *w, int64_t at, Frame *frame) {
    Frame next;
    const unsigned char *b = look(w, at, HEADER);
    if (!b || !parse_frame(b, frame) || at + frame->size > w->end) return false;
    int64_t behind = at + frame->size;
    if (behind == w->end || tag_size(w, behind)) return true;
    b = look(w, behind, HEADER);
    return b && parse_frame(b, &next) && is_alike(frame, &next);
}

/* Returns whether the frame holds no sound but describes what follows, and its number of frames; 0: not given. */
static bool describes(Window *w, int64_t at, const Frame *frame, int64_t *frames) {
    const unsigned char *b = frame->layer == 3 ? look(w, at, frame->size) : NULL;
    *frames = 0;
    if (!b) return false;
    if (frame->size >= 36 + 18 && !memcmp(b + 36, "VBRI", 4)) return true;
    const unsigned char *note = b + frame->note;
    if (frame->size < frame->note + 12 || (memcmp(note, "Xing", 4) != 0 && memcmp(note, "Info", 4) != 0)) return false;
    for (const unsigned char *zero = b + HEADER + 2; zero < note; zero++)
        if (*zero) return false;
    if (note[7] & 1) *frames = (int64_t)note[8] << 24 | note[9] << 16 | note[10] << 8 | note[11];
    return true;
}

/* A part while its frames are counted. */
typedef struct {
    Frame first;
    int64_t note_at, note_size; /* of the frame that describes it; size 0: there is none */
    int64_t declared, frames;
    SoundView sound;
} Part;

/* Makes the frame that describes a part: the part's own, if that declares all frames, with the bytes that there are, or
 * one that declares only their number. */
static void describe(Window *w, const Part *part, SoundView *view) {
    unsigned char note[LARGEST_FRAME] = {0};
    bool own = part->note_size && part->note_size <= (int64_t)sizeof note && part->declared + 1 >= part->frames;
    Frame frame = part->first;
    if (own) {
        const unsigned char *b = look(w, part->note_at, part->note_size);
        if (!b || !parse_frame(memcpy(note, b, (size_t)part->note_size), &frame)) return;
    } else {
        memcpy(note, part->first.header, HEADER);
        note[1] |= 1; /* without a checksum */
        for (int kbit = 1; kbit < 15; kbit++) {
            note[2] = (unsigned char)(kbit << 4 | (part->first.header[2] & 0x0c));
            if (parse_frame(note, &frame) && frame.size >= NOTE_SIZE) break;
        }
        memcpy(note + frame.note, "Xing\0\0\0\1", 8);
        for (int i = 0; i < 4; i++) note[frame.note + 8 + i] = (unsigned char)(part->frames >> 8 * (3 - i));
    }
    unsigned char *bytes = note + frame.note + 12;
    if (own && note[frame.note + 7] & 2)
        for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)((frame.size + part->sound.size) >> 8 * (3 - i));
    sound_view_bytes(view, note, frame.size);
}

/* Appends the part, if it has frames, to the parts. */
static void end_part(Window *w, Part *part, MpegCount *count, SoundParts *parts) {
    if (part->frames) {
        SoundView *view = sound_parts_add(parts);
        if (part->first.layer == 3) describe(w, part, view);
        for (int64_t i = 0; i < part->sound.count; i++)
            sound_view_range(view, part->sound.pieces[i].from, part->sound.pieces[i].size);
        if (parts->count == 1) {
            count->declared = part->declared * part->first.samples;
            count->frame = part->first.samples;
            count->layer = part->first.layer;
        }
        count->samples += part->frames * part->first.samples;
    }
    free(part->sound.pieces);
    *part = (Part){0};
}

bool mpeg_frames_count(int fd, int64_t begin, int64_t end, int64_t max_samples, MpegCount *count, SoundParts *parts) {
    OWNED Window *w = xmalloc(sizeof *w);
    Part part = {0};
    Frame frame;
    bool follows = false; /* the frame before ends here */
    *count = (MpegCount){0};
    *parts = (SoundParts){0};
    w->fd = fd, w->at = begin, w->n = 0, w->end = end;
    for (int64_t at = begin, skip, declared; look(w, at, HEADER);) {
        const unsigned char *b = look(w, at, HEADER);
        bool whole = follows && parse_frame(b, &frame) && is_alike(&frame, &part.first) && at + frame.size <= end;
        if (!whole && !find_frame(w, at, &frame)) {
            follows = false;
            skip = tag_size(w, at);
            at += skip ? skip : 1;
            continue;
        }
        bool note = describes(w, at, &frame, &declared);
        if (note || !is_alike(&frame, &part.first)) {
            end_part(w, &part, count, parts);
            part = (Part){.first = frame, .declared = declared, .note_at = at, .note_size = note ? frame.size : 0};
        }
        if (!note) {
            sound_view_range(&part.sound, at, frame.size);
            part.frames++;
        }
        at += frame.size;
        follows = true;
        if (count->samples + part.frames * frame.samples >= max_samples) break;
    }
    end_part(w, &part, count, parts);
    count->joined = parts->count > 1;
    return parts->count > 0;
}
