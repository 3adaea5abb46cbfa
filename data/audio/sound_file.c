#include "data/audio/sound_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OGG_HEADER = 27, OGG_LARGEST_PAGE = OGG_HEADER + 255 + 255 * 255 };

static int64_t size_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_size;
}

static bool check_chunks(const SoundChunks *chunks, double seconds, Error *error) {
    int64_t there = chunks->there, declared = chunks->declared;
    if (there >= declared) return true;
    if ((double)(declared - there) * seconds < SOUND_MIN_MISSING_SECONDS * (double)there) return true;
    return error_set(error, "is cut off: %lld of %lld bytes of sound are there", (long long)there, (long long)declared);
}

/* Returns the size of the page of an Ogg file that begins with these n bytes. */
static int page_size(const unsigned char *page, int n) {
    int size = OGG_HEADER, segments = n >= OGG_HEADER ? page[26] : 0;
    for (int i = 0; i < segments && OGG_HEADER + i < n; i++) size += page[OGG_HEADER + i];
    return size + segments;
}

/* Checks that the last page of an Ogg file is whole. */
static bool check_last_page(int fd, Error *error) {
    OWNED unsigned char *tail = xmalloc(OGG_LARGEST_PAGE);
    int64_t size = size_of(fd);
    int n = (int)(size < OGG_LARGEST_PAGE ? size : OGG_LARGEST_PAGE), last = n - 4;
    if (n < 4 || !sound_read_at(fd, size - n, tail, (size_t)n)) return true;
    while (last >= 0 && !sound_is_tag(tail + last, "OggS")) last--;
    int page = last >= 0 ? page_size(tail + last, n - last) : 0;
    return n - last >= page ||
           error_set(error, "is cut off: %d of %d bytes of its last page are there", n - last, page);
}

bool sound_file_is_whole(int fd, const SF_INFO *info, const SoundChunks *chunks, double seconds, Error *error) {
    bool ogg = (info->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG;
    return ogg ? check_last_page(fd, error) : check_chunks(chunks, seconds, error);
}

void sound_file_count_frames(int fd, const SF_INFO *info, const SoundChunks *chunks, int64_t max_frames,
                             bool *says_frames, SoundParts *parts) {
    int coding = info->format & SF_FORMAT_SUBMASK;
    bool mpeg = coding >= 0x0080 && coding <= 0x0082; /* SF_FORMAT_MPEG_LAYER_I to III, which older headers lack */
    MpegCount count;
    *parts = (SoundParts){0};
    *says_frames = info->frames < INT64_MAX / 2;
    if (!mpeg) return;
    int64_t end = chunks->at ? chunks->at + chunks->there : size_of(fd);
    bool found = mpeg_frames_count(fd, chunks->at, end, max_frames, &count, parts);
    int64_t known = !found ? 0 : count.declared ? count.declared : info->frames;
    *says_frames &= found && count.declared;
    if (!found || known >= max_frames || (!count.joined && count.samples <= known + count.frame))
        sound_parts_close(parts);
}

/* Returns how many bytes at the beginning of a file of this kind are the same in all such files; 0: not known. */
static int64_t signature_size(const unsigned char *head) {
    static const struct {
        const char *tag;
        int64_t size;
    } kinds[] = {{"OggS\0\2", 6}, {"fLaC", 8}, {".snd", 8}, {"caff", 20}, {"riff", 16}, {"NIST", 16}, {"Crea", 20}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (sound_is_tag(head, kinds[i].tag)) return kinds[i].size;
    return 0;
}

bool sound_file_split(int fd, SoundParts *parts) {
    enum { HEAD = 32 };
    unsigned char head[HEAD], page[OGG_HEADER + 255];
    int64_t n = sound_read_at(fd, 0, head, HEAD) ? signature_size(head) : 0, begin = 0, last = 0, at = 0;
    *parts = (SoundParts){0};
    while (n && (at = sound_find(fd, at + 1, head, (size_t)n)) > 0) {
        ssize_t there = pread(fd, page, sizeof page, last);
        /* The streams of one Ogg file, such as a film's, begin one after the other. */
        if (!sound_is_tag(head, "OggS") || last + page_size(page, (int)there) != at) {
            sound_view_range(sound_parts_add(parts), begin, at - begin);
            begin = at;
        }
        last = at;
    }
    if (begin) sound_view_range(sound_parts_add(parts), begin, size_of(fd) - begin);
    return begin > 0;
}
