/* Streams of token ids: what has been prepared, as the trainer reads it.
 *
 * A split ("train", "val") is one stream. The id at position p + 1 is the target of position p. Shards of `train_slm
 * prepare` (data/slm/shard.h) hold an end-of-text id before every document and one after the last, so that every token
 * of a text, and one end-of-text per document, is predicted exactly once. In files of other programs
 * (data/slm/foreign.h) a document begins at position 0 and at every end-of-text id; if that id is unknown, the whole
 * stream is one document. */
#pragma once

#include "data/slm/foreign.h"

typedef struct {
    int64_t n_tokens; /* at least 2 */
    int64_t n_documents;
    const int64_t *first; /* [n_documents + 1] document d is positions first[d] .. first[d + 1] - 1; the last entry is
                             n_tokens - 1, the position that is only a target */
    const int64_t *bytes; /* [n_documents] UTF-8 bytes of its text; NULL: unknown */
    int vocabulary;       /* every id is 0 .. vocabulary - 1 */
    int32_t end_of_text;  /* -1: none, or unknown */
    uint64_t tokenizer_hash; /* 0: unknown */
    void *state;
} SlmStream;

/* Opens a split of a folder: the shards SPLIT_00000.safetensors ... that prepare wrote, or the files of another
 * program: SPLIT.bin, SPLIT_NUMBER.bin, NAME_SPLIT.bin or NAME_SPLIT_NUMBER.bin, sorted by name, in the folder or in
 * its tokenized_data/, or else the same with .npy. split NULL: `path` is one file, a whole stream. Reads everything
 * once: checksums, counts, whether every id is below the vocabulary. foreign: what the caller knows, NULL: nothing.
 * Returns NULL with an error that names the file. */
SlmStream *slm_stream_open(const char *path, const char *split, const SlmForeign *foreign, Error *error);
/* Returns whether the folder has files of this split. Opens none. */
bool slm_stream_exists(const char *path, const char *split);
/* Copies the ids of n positions. Safe from several threads. */
void slm_stream_read(const SlmStream *stream, int64_t position, int64_t n, int32_t *ids);
void slm_stream_close(SlmStream *stream); /* NULL: does nothing */

/* Makes a stream in memory from copies: for tests, texts to evaluate, generated documents. first [n_documents + 1];
 * bytes [n_documents], or NULL. */
SlmStream *slm_stream_of(const int32_t *ids, int64_t n_tokens, const int64_t *first, const int64_t *bytes,
                         int64_t n_documents, int vocabulary, int32_t end_of_text);
