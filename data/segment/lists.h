/* The facts that the segmenter is compiled with; the rest is in the files of its model. Lists, tone pairs, patterns and
 * procedure are those of RDRsegmenter (https://github.com/datquocnguyen/RDRsegmenter, Apache License 2.0; Nguyen et
 * al., LREC 2018). */
#pragma once

typedef struct {
    const char *const *entries; /* [n] */
    int n;
} SegmentList;

/* In lower case: places are joined like words of the vocabulary; capitalised words of `alone` begin no name; a middle
 * name behind a family name continues it. */
extern const SegmentList segment_places, segment_alone, segment_middle_names, segment_family_names;

/* Tokens that are cut out of longer ones, in the order in which they are searched. */
extern const SegmentList segment_abbreviations, segment_exceptions;

/* Spellings that the segmenter replaces: two letters with the tone mark on the first, and on the second. No two can
 * overlap, and no replacement makes another one. */
enum { SEGMENT_TONES = 16 };
extern const char *const segment_tones[SEGMENT_TONES][2];
