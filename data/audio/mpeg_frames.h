/* The frames of MPEG audio (MP3, MP2, MP1). libsndfile believes the first frame's note of how many follow (Xing, Info)
 * and, without one, estimates their number by the size of the first. Both are wrong for what encoders write into pipes
 * and for files joined by cat: so the frames of the file itself are counted. */
#pragma once

#include "data/audio/sound_view.h"

/* Returns the layer of the frame that begins with these 4 bytes; 0: none does. Free format counts. */
int mpeg_header_layer(const unsigned char *header);
/* Returns the size of the ID3 tag that begins with these 10 bytes; 0: none does. */
int64_t mpeg_id3_size(const unsigned char *bytes);

typedef struct {
    int64_t samples;  /* per channel, of all frames, but those that only describe others */
    int64_t declared; /* by the first frame; 0: it declares none */
    int frame;        /* samples of a frame */
    int layer;
    bool joined; /* frames describe what follows in more places than the first, or rate or channels change */
} MpegCount;

/* Counts the frames in bytes begin to end - 1 of an open file, at least as many as have max_samples. Each part gets
 * what follows a frame that describes it (Xing, Info, VBRI), or a change of rate or channels, with such a frame that
 * declares what is there. Returns false if there are no frames. sound_parts_close() */
bool mpeg_frames_count(int fd, int64_t begin, int64_t end, int64_t max_samples, MpegCount *count, SoundParts *parts);
