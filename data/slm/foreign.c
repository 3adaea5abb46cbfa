#include "data/slm/foreign.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mapping.h"
#include "data/formats/npy.h"
#include "data/formats/pickle.h"

/* ---- headers ---- */

enum { HEADER_BYTES = 1024 };

static const struct {
    int32_t magic, version;
    int width, vocabulary, end_of_text;
} layouts[] = {{20240520, 1, 2, 50257, 50256}, {20240801, 7, 4, 128256, 128000}};

/* Sets what the header of llm.c says; leaves a file without one alone. */
static bool take_llm_c(SlmShard *s, Error *error) {
    const char *bytes = s->file.owner;
    size_t size = s->file.owner_bytes;
    int32_t header[3] = {0};
    if (size >= sizeof header) memcpy(header, bytes, sizeof header);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (header[0] != layouts[i].magic) continue;
        if (header[1] != layouts[i].version)
            return error_set(error, "a file of llm.c with version %d; expected version %d", header[1],
                             layouts[i].version);
        s->width = layouts[i].width;
        s->vocabulary = layouts[i].vocabulary;
        s->end_of_text = layouts[i].end_of_text;
        s->n_ids = header[2];
        if (header[2] < 0 || size != HEADER_BYTES + (size_t)s->n_ids * (size_t)s->width)
            return error_set(error,
                             "its header announces %d ids of %d bytes behind %d bytes, and the file has %zu bytes: it "
                             "is cut off or damaged",
                             header[2], s->width, HEADER_BYTES, size);
        s->ids = bytes + HEADER_BYTES;
    }
    return true;
}

/* Sets what the header of a .npy file says; leaves a file without one alone. */
static bool take_npy(SlmShard *s, Error *error) {
    static const char magic[] = "\x93NUMPY";
    Npy npy;
    if (s->file.owner_bytes < sizeof magic || memcmp(s->file.owner, magic, sizeof magic - 1) != 0) return true;
    if (!npy_parse(s->file.owner, s->file.owner_bytes, &npy, error)) return false;
    bool known = (npy.kind == 'u' && npy.item_size == 2) || (strchr("ui", npy.kind) && npy.item_size == 4);
    if (!known || npy.big_endian)
        return error_set(error,
                         "its numbers are %s%d-bit %s; expected ids of uint16 or uint32: save them so with "
                         "array.astype(numpy.uint32)",
                         npy.big_endian ? "big-endian " : "", 8 * npy.item_size,
                         npy.kind == 'f'   ? "floats"
                         : npy.kind == 'b' ? "truth values"
                         : npy.kind == 'u' ? "unsigned integers"
                                           : "integers");
    if (npy.rank != 1) return error_set(error, "has %d dimensions; expected ids in a single row", npy.rank);
    if ((uintptr_t)npy.data % (unsigned)npy.item_size)
        return error_set(error, "its ids are not aligned to their size: save it again with numpy.save");
    s->width = npy.item_size;
    s->n_ids = npy.count;
    s->ids = npy.data;
    return true;
}

/* ---- without a header ---- */

/* Returns whether the upper parts of all numbers of `wide` bytes are zeros, those behind their first `width` bytes. */
static bool upper_parts_are_zero(const char *bytes, size_t size, size_t width, size_t wide) {
    for (size_t at = 0; at < size; at += wide)
        for (size_t i = width; i < wide; i++)
            if (bytes[at + i]) return false;
    return true;
}

/* Returns how many bytes the ids of a file seem to have, from its first MB and its last 64 kB: `width`, or more if they
 * can only be numbers whose upper parts are zeros. Few ids say nothing. */
static size_t seeming_width(const SlmShard *s, size_t width) {
    enum { FIRST = 1 << 20, LAST = 1 << 16, FEW = 32 };
    const char *bytes = s->file.owner;
    size_t size = s->file.owner_bytes, first = size < FIRST ? size : FIRST, last = size < LAST ? size : LAST;
    for (size_t wide = 8; wide > width; wide /= 2)
        if (size % wide == 0 && size >= FEW * wide && upper_parts_are_zero(bytes, first, width, wide) &&
            upper_parts_are_zero(bytes + size - last, last, width, wide))
            return wide;
    return width;
}

static bool take_headerless(SlmShard *s, const SlmForeign *foreign, Error *error) {
    bool told = foreign && foreign->width;
    s->width = told ? foreign->width : 2;
    size_t width = (size_t)s->width, size = s->file.owner_bytes,
           seems = told && width == 2 ? 2 : seeming_width(s, width);
    s->n_ids = (int64_t)(size / width);
    s->ids = s->file.owner;
    if (size % width)
        return error_set(error,
                         "has %zu bytes, %s, and no header: no file of uint%d ids, or cut off (texts become ids with "
                         "train_slm prepare)",
                         size, width == 2 ? "an odd number" : "no multiple of 4", 8 * s->width);
    if (seems == width) return true;
    return error_set(error, "its ids have %zu bits, not %zu: of each, the upper %zu are zeros%s", 8 * seems, 8 * width,
                     8 * (seems - width),
                     seems == 4 ? "; --token-bytes 4 reads it (and --token-bytes 2, if every other id really is 0)"
                                : ": save them as uint32, and read that with --token-bytes 4");
}

/* ---- the vocabulary ---- */

/* Reads "vocab_size" of a pickled dictionary. */
static bool read_meta(const char *path, int64_t *vocabulary, Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    Pickle pickle;
    if (!read_file(path, &bytes, &size, error)) return false;
    bool ok = pickle_parse(bytes, size, &pickle, error);
    const PickleNode *value = ok ? pickle_get(&pickle, &pickle.nodes[pickle.root], "vocab_size") : NULL;
    if (value && value->kind == PICKLE_INTEGER) *vocabulary = value->as.integer;
    if (ok && *vocabulary < 1) ok = error_set(error, "has no number \"vocab_size\" above 0");
    if (pickle.nodes) pickle_free(&pickle);
    return ok;
}

/* Takes the vocabulary of a headerless file from meta.pkl, unless it is known. */
static bool take_meta(const char *path, SlmShard *s, Error *error) {
    OWNED char *directory = path_directory(path), *meta = path_join(directory, "meta.pkl");
    if (s->vocabulary) return true;
    if (access(meta, F_OK))
        return error_set(error,
                         "%s: its vocabulary is unknown: the file does not tell it, and there is no %s; give its "
                         "tokenizer, or prepare it with train_slm prepare if it is text",
                         path, meta);
    return read_meta(meta, &s->vocabulary, error) || error_before(error, "%s: ", meta);
}

/* Checks the ids. certain: their width cannot be wrong, and nothing was cut off. */
static bool check(const SlmShard *s, bool certain, Error *error) {
    const bool headerless = s->ids == s->file.owner;
    Error why;
    if (s->vocabulary > INT32_MAX) return error_set(error, "vocabulary %lld is too large", (long long)s->vocabulary);
    if (s->width < slm_shard_width(s->vocabulary) && !certain)
        return error_set(error,
                         "is read as ids of 16 bits, and those of a vocabulary of %lld need more: %s larger ids may be "
                         "cut off, so make it again with 32 bits (--token-bytes 2, if there were none)",
                         (long long)s->vocabulary,
                         headerless ? "--token-bytes 4, if it has ids of 32 bits; if it has 16," : "");
    if (s->end_of_text >= s->vocabulary)
        return error_set(error, "the end-of-text id %lld is not below the vocabulary, %lld", (long long)s->end_of_text,
                         (long long)s->vocabulary);
    return slm_shard_check_ids(s, &why) || error_set(error, "%s%s", why.text,
                                                     !headerless     ? ""
                                                     : s->width == 2 ? "; --token-bytes 4 reads ids of 32 bits"
                                                                     : "; --token-bytes 2 reads ids of 16 bits");
}

bool slm_foreign_open(const char *path, const SlmForeign *foreign, SlmShard *s, Error *error) {
    *s = (SlmShard){.end_of_text = -1};
    bool ok = file_map(path, &s->file.owner, &s->file.owner_bytes, error) && take_llm_c(s, error);
    bool certain = s->vocabulary > 0 || (foreign && foreign->width);
    ok = ok && (s->ids || take_npy(s, error)) && (s->ids || take_headerless(s, foreign, error));
    if (foreign && foreign->vocabulary) s->vocabulary = foreign->vocabulary;
    if (foreign && foreign->end_of_text >= 0) s->end_of_text = foreign->end_of_text;
    if (!ok)
        error_before(error, "%s: ", path);
    else
        ok = take_meta(path, s, error) && (check(s, certain, error) || error_before(error, "%s: ", path));
    if (!ok) slm_shard_close(s);
    return ok;
}
