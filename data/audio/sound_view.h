/* Files as libsndfile is to see them: ranges of an open file, and bytes put between them. So sounds are read whole that
 * the library would cut, because a header says something else than what the file holds. */
#pragma once

#include <sndfile.h>

#include "base/base.h"

/* Reads n bytes without moving the position at which libsndfile reads. Returns whether all are there. */
bool sound_read_at(int fd, int64_t at, void *bytes, size_t n);
/* Returns where the n bytes stand in the file from byte `from` on; -1: nowhere. */
int64_t sound_find(int fd, int64_t from, const void *bytes, size_t n);
/* Returns whether the bytes begin with the 4 characters of a tag. */
bool sound_is_tag(const unsigned char *bytes, const char *tag);

typedef struct {
    int64_t start, size;  /* in the view */
    int64_t from;         /* in the file, unless there are bytes */
    unsigned char *bytes; /* NULL: a range of the file */
} SoundPiece;

typedef struct {
    SoundPiece *pieces; /* [count] */
    int64_t count, size, at;
    int fd;
} SoundView;

/* The sounds that follow each other in a file. */
typedef struct {
    SoundView *views; /* [count] */
    int64_t count;
} SoundParts;

/* Appends a range of the file, or a copy of bytes. */
void sound_view_range(SoundView *view, int64_t from, int64_t size);
void sound_view_bytes(SoundView *view, const void *bytes, int64_t size);
/* Opens the view of a file for reading. Returns NULL if libsndfile does not. */
SNDFILE *sound_view_open(SoundView *view, int fd, SF_INFO *info);

/* Appends an empty view. Views move when the next one is added. */
SoundView *sound_parts_add(SoundParts *parts);
void sound_parts_close(SoundParts *parts);
