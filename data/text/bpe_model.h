/* Byte-pair encoding as a Hugging Face tokenizer.json describes it, or as the files of fastBPE do (fastbpe_open.h), or
 * without any pair (character_table.h). Two kinds of tokenizer.json are supported, and what they do not cover is
 * refused by name:
 * - byte-level: the pieces are bytes, written as printable characters; texts are split by the regular expressions of
 *   words.h. Texts are bytes: those that are not UTF-8 are characters of no class, and ids decode to the same bytes,
 *   unless the file also asks for a normaliser or for a space before each text.
 * - character-level: the pieces are characters and their sequences, and those inside a word may have a prefix ("##").
 *   White space vanishes, and so do characters, and bytes that are not UTF-8, that have no piece, if the file names no
 *   unknown piece. The file does not say how to join the pieces again: decoding writes a space before each piece
 *   without the prefix.
 *
 * Normalisers: NFC, NFD (by libunistring's version of Unicode) and removal of combining marks. What a file says of
 * truncation, of padding and of special tokens around a text (post_processor) is not part of the ids of a text. */
#pragma once

#include "data/text/strings.h"
#include "data/text/words.h"

typedef enum { NORMAL_NONE, NORMAL_NFC, NORMAL_NFD } NormalForm;

/* A token that is found in the text before anything else is done to it. */
typedef struct {
    int32_t id;
    uint32_t size, piece; /* bytes; number of the piece */
    bool special;         /* only found if the caller wants special tokens */
    bool late;            /* searched after the others have been found */
    bool single_word;     /* not found where a character of a word stands before or behind it */
    bool lstrip, rstrip;  /* swallows the white space before, behind it */
} BpeAdded;

typedef struct {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank; /* + 1; 0: a free slot */
    int32_t id;    /* of the merged piece; fastBPE: symbol, as those of the pair */
} BpeMerge;

/* Decides the ids; the numbers among the settings are fixed, since they are hashed. */
typedef struct {
    int32_t byte_level, split; /* WordSplit */
    int32_t form, strip_marks; /* NormalForm */
    int32_t prefix_space, ignore_merges, fuse_unknown;
    int32_t unknown; /* id; -1: none, characters without a piece are dropped */
    char prefix[32]; /* of pieces inside a word */
} BpeSettings;

/* How fastBPE marks a symbol at the end of a word, and a piece that the next one continues. */
#define FASTBPE_END       "</w>"
#define FASTBPE_CONTINUES "@@"

typedef struct {
    BpeSettings settings;
    Strings pieces;     /* as the file writes them: the model's by id, then the added tokens that it does not have */
    int32_t *ids;       /* [pieces.n] */
    uint32_t n_model;   /* the first pieces are the model's */
    int vocabulary;     /* largest id + 1 */
    uint32_t *piece_of; /* [vocabulary] number of the piece + 1; 0: none */
    BpeMerge *merges;   /* [n_slots] hash table by pair, half full */
    size_t n_slots;
    BpeAdded *added;     /* [n_added], the longest first */
    bool starts[2][256]; /* [late][byte]: an added token begins with the byte */
    bool any[2];         /* [late] there is one */
    size_t n_added;
    int32_t byte_ids[256]; /* byte-level: id of a byte, -1: none */
    char *bytes;           /* byte-level: the bytes of all ids */
    size_t *bytes_at;      /* [vocabulary + 1] */
    /* fastBPE only: merges join symbols, and those that are left become pieces. */
    Strings symbols;          /* characters, and what merges make; the last one of a word ends with FASTBPE_END */
    int32_t (*symbol_ids)[2]; /* [symbols.n] id of the piece inside a word, and at its end; NULL: not fastBPE */
    uint64_t hash;
} Bpe;
