#include "data/audio/sound_view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sound_read_at(int fd, int64_t at, void *bytes, size_t n) { return pread(fd, bytes, n, at) == (ssize_t)n; }

int64_t sound_find(int fd, int64_t from, const void *bytes, size_t n) {
    enum { BLOCK = 1 << 20 };
    OWNED char *block = xmalloc(BLOCK);
    const char *found = NULL;
    ssize_t got;
    while ((got = pread(fd, block, BLOCK, from)) >= (ssize_t)n && !(found = memmem(block, (size_t)got, bytes, n)))
        from += got - (ssize_t)n + 1;
    return found ? from + (found - block) : -1;
}

bool sound_is_tag(const unsigned char *bytes, const char *tag) { return !memcmp(bytes, tag, 4); }

static SoundPiece *add_piece(SoundView *view, int64_t size) {
    view->pieces = xgrow(view->pieces, (size_t)view->count, sizeof *view->pieces);
    SoundPiece *piece = &view->pieces[view->count++];
    *piece = (SoundPiece){.start = view->size, .size = size};
    view->size += size;
    return piece;
}

void sound_view_range(SoundView *view, int64_t from, int64_t size) {
    SoundPiece *last = view->count ? &view->pieces[view->count - 1] : NULL;
    if (last && !last->bytes && last->from + last->size == from) {
        last->size += size;
        view->size += size;
    } else if (size > 0) {
        add_piece(view, size)->from = from;
    }
}

void sound_view_bytes(SoundView *view, const void *bytes, int64_t size) {
    add_piece(view, size)->bytes = memcpy(xmalloc((size_t)size), bytes, (size_t)size);
}

static sf_count_t view_size(void *context) { return ((SoundView *)context)->size; }

static sf_count_t view_tell(void *context) { return ((SoundView *)context)->at; }

static sf_count_t view_seek(sf_count_t offset, int whence, void *context) {
    SoundView *v = context;
    sf_count_t to = offset + (whence == SEEK_CUR ? v->at : whence == SEEK_END ? v->size : 0);
    return to < 0 ? -1 : (v->at = to);
}

/* Returns the last piece that begins at or before the position. */
static const SoundPiece *piece_at(const SoundView *v, int64_t at) {
    int64_t low = 0, high = v->count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        *(v->pieces[middle].start <= at ? &low : &high) = middle;
    }
    return &v->pieces[low];
}

static sf_count_t view_read(void *bytes, sf_count_t n, void *context) {
    SoundView *v = context;
    sf_count_t done = 0;
    while (done < n && v->at < v->size) {
        const SoundPiece *piece = piece_at(v, v->at);
        int64_t skip = v->at - piece->start, part = piece->size - skip;
        if (part > n - done) part = n - done;
        if (piece->bytes)
            memcpy((char *)bytes + done, piece->bytes + skip, (size_t)part);
        else
            part = pread(v->fd, (char *)bytes + done, (size_t)part, piece->from + skip);
        if (part <= 0) break;
        done += part;
        v->at += part;
    }
    return done;
}

SNDFILE *sound_view_open(SoundView *view, int fd, SF_INFO *info) {
    SF_VIRTUAL_IO io = {view_size, view_seek, view_read, NULL, view_tell}; /* it writes nothing */
    view->fd = fd;
    view->at = 0;
    return sf_open_virtual(&io, SFM_READ, info, view);
}

SoundView *sound_parts_add(SoundParts *parts) {
    parts->views = xgrow(parts->views, (size_t)parts->count, sizeof *parts->views);
    SoundView *view = &parts->views[parts->count++];
    *view = (SoundView){0};
    return view;
}

void sound_parts_close(SoundParts *parts) {
    for (int64_t i = 0; i < parts->count; i++) {
        for (int64_t k = 0; k < parts->views[i].count; k++) free(parts->views[i].pieces[k].bytes);
        free(parts->views[i].pieces);
    }
    free(parts->views);
    *parts = (SoundParts){0};
}
