#include "data/gpt/manifest_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "data/gpt/prepare_outputs.h"
#include "data/split.h"
#include "kernels/philox.h"

static const char LINE[] = "a line of the manifest";

static void add_line(Bytes *text, json_t *line) {
    OWNED char *dumped = json_text(LINE, line, JSON_COMPACT | JSON_REAL_PRECISION(12));
    bytes_add(text, dumped, strlen(dumped));
    bytes_add(text, "\n", 1);
    json_decref(line);
}

static bool text_write(Bytes *text, const char *directory, PrepareOutput output, Error *error) {
    OWNED char *path = prepare_output_path(directory, output), *bytes = text->at;
    return file_write_atomic(path, bytes ? bytes : "", text->n, error);
}

static json_t *seconds_of(const Clip *clip) { return json_real((double)clip->samples / MEL_RATE); }

static json_t *file_of(PrepareOutput folder, const Clip *clip) {
    return json_sprintf("%s/%s.npy", prepare_output_name(folder), clip->recording->id);
}

static json_t *audio_of(const ManifestOptions *o, const Clip *clip) {
    OWNED char *path = path_relative(o->directory, clip->audio_path);
    return json_string(path);
}

/* Returns where a part of a file begins; its duration says where it ends. */
static json_t *offset_of(const Clip *clip) {
    return recording_is_part(clip->recording) && !clip->is_cut ? json_real(clip->recording->from) : NULL;
}

static json_t *single_line(const ManifestOptions *o, const Clip *clip) {
    const Recording *r = clip->recording;
    return json_build(LINE, "{s:s, s:o*, s:s, s:s, s:s, s:o*, s:o, s:o, s:i, s:o, s:I, s:o, s:i, s:o}", "id", r->id,
                      "audio_path", audio_of(o, clip), "text", clip->text, "speaker", r->speaker, "language",
                      r->language ? r->language : o->language, "offset", offset_of(clip), "duration", seconds_of(clip),
                      "text_ids_path", file_of(OUTPUT_TEXT_IDS, clip), "text_len", clip->n_ids, "codes_path",
                      file_of(OUTPUT_CODES, clip), "code_len", (json_int_t)clip->n_codes, "condition_path",
                      file_of(OUTPUT_CONDITION, clip), "condition_len", CONDITIONING_ROWS, "emo_vec_path",
                      file_of(OUTPUT_EMO_VEC, clip));
}

static json_t *pair_line(const ManifestOptions *o, const Clip *prompt, const Clip *target) {
    const Recording *from = prompt->recording, *to = target->recording;
    json_t *line =
        json_build(LINE, "{s:o, s:s, s:s, s:o*, s:o, s:i, s:o, s:o*, s:o}", "id",
                   json_sprintf("%s__%s", to->id, from->id), "speaker", to->speaker, "prompt_id", from->id,
                   "prompt_audio_path", audio_of(o, prompt), "prompt_condition_path", file_of(OUTPUT_CONDITION, prompt),
                   "prompt_condition_len", CONDITIONING_ROWS, "prompt_emo_vec_path", file_of(OUTPUT_EMO_VEC, prompt),
                   "prompt_offset", offset_of(prompt), "prompt_duration", seconds_of(prompt));
    json_object_update_new(
        line, json_build(LINE, "{s:s, s:o*, s:s, s:o, s:i, s:o, s:I, s:o, s:o*, s:o}", "target_id", to->id,
                         "target_audio_path", audio_of(o, target), "target_text", target->text, "target_text_ids_path",
                         file_of(OUTPUT_TEXT_IDS, target), "target_text_len", target->n_ids, "target_codes_path",
                         file_of(OUTPUT_CODES, target), "target_code_len", (json_int_t)target->n_codes,
                         "target_emo_vec_path", file_of(OUTPUT_EMO_VEC, target), "target_offset", offset_of(target),
                         "target_duration", seconds_of(target)));
    return line;
}

/* Draws `count` different numbers below n (Floyd's sampling, Communications of the ACM 30(9), 1987). The random numbers
 * depend on the seed and the target alone. */
static void draw_others(uint64_t seed, uint32_t target, int64_t n, int64_t count, int64_t *out) {
    for (int64_t i = 0; i < count; i++) {
        int64_t last = n - count + i;
        Philox r = philox(seed, PURPOSE_PAIRS, target, (uint64_t)i);
        out[i] = (int64_t)(((uint64_t)r.x[0] << 32 | r.x[1]) % (uint64_t)(last + 1));
        for (int64_t j = 0; j < i; j++)
            if (out[j] == out[i]) {
                out[i] = last;
                break;
            }
    }
}

/* A clip of a split. members[begin .. begin + size) are the clips of its speaker in that split. */
typedef struct {
    const Clip *clip;
    int64_t begin, size;
} Member;

static int by_speaker(const void *a, const void *b) {
    const Member *x = a, *y = b;
    int order = strcmp(x->clip->recording->speaker, y->clip->recording->speaker);
    return order ? order : (x->clip > y->clip) - (x->clip < y->clip);
}

static int by_clip(const void *a, const void *b) {
    const Member *x = *(Member *const *)a, *y = *(Member *const *)b;
    return (x->clip > y->clip) - (x->clip < y->clip);
}

static void group_by_speaker(Member *members, int64_t n) {
    qsort(members, (size_t)n, sizeof *members, by_speaker);
    for (int64_t begin = 0, end; begin < n; begin = end) {
        const char *speaker = members[begin].clip->recording->speaker;
        for (end = begin; end < n && !strcmp(members[end].clip->recording->speaker, speaker);) end++;
        for (int64_t i = begin; i < end; i++) {
            members[i].begin = begin;
            members[i].size = end - begin;
        }
    }
}

static int64_t write_pairs_of(const ManifestOptions *o, const Clip *clips, const Member *members, const Member *target,
                              Bytes *text) {
    int64_t others = target->size - 1, count = others < o->pairs_per_target ? others : o->pairs_per_target;
    OWNED int64_t *drawn = xmalloc((size_t)(count + 1) * sizeof *drawn);
    draw_others(o->seed, (uint32_t)(target->clip - clips), others, count, drawn);
    for (int64_t i = 0; i < count; i++) {
        const Member *prompt = members + target->begin + drawn[i];
        if (prompt >= target) prompt++;
        add_line(text, pair_line(o, prompt->clip, target->clip));
    }
    return count;
}

/* Writes the pairs of members[n], one split, in the order of their clips. */
static bool write_pairs(const ManifestOptions *o, const Clip *clips, Member *members, int64_t n, PrepareOutput output,
                        int64_t *pairs, int64_t *lone, bool *own_prompts, Error *error) {
    Bytes text = {0};
    OWNED const Member **targets = xmalloc((size_t)n * sizeof *targets);
    group_by_speaker(members, n);
    for (int64_t i = 0; i < n; i++) targets[i] = &members[i];
    qsort(targets, (size_t)n, sizeof *targets, by_clip);
    for (int64_t i = 0; i < n; i++) {
        int64_t count = write_pairs_of(o, clips, members, targets[i], &text);
        *pairs += count;
        *lone += targets[i]->size == 1;
    }
    if (n && !*pairs) {
        for (int64_t i = 0; i < n; i++) add_line(&text, pair_line(o, targets[i]->clip, targets[i]->clip));
        *pairs = n, *lone = 0, *own_prompts = true;
    }
    return text_write(&text, o->directory, output, error);
}

bool manifests_write(const Clip *clips, int64_t n, const ManifestOptions *o, ManifestReport *report, Error *error) {
    Bytes all = {0}, side[2] = {{0}, {0}};
    Member *members[2] = {xmalloc((size_t)n * sizeof(Member)), xmalloc((size_t)n * sizeof(Member))};
    int64_t counts[2] = {0, 0};
    *report = (ManifestReport){0};
    for (int64_t i = 0; i < n; i++) {
        if (clips[i].reject != CLIP_KEPT) continue;
        int which = split_is_validation(clips[i].recording->id, o->val_ratio);
        json_t *line = single_line(o, &clips[i]);
        add_line(&all, json_incref(line));
        add_line(&side[which], line);
        members[which][counts[which]++] = (Member){.clip = &clips[i]};
    }
    report->train = counts[0];
    report->val = counts[1];
    bool ok = text_write(&side[0], o->directory, OUTPUT_TRAIN_MANIFEST, error);
    ok = text_write(&side[1], o->directory, OUTPUT_VAL_MANIFEST, ok ? error : NULL) && ok;
    ok = text_write(&all, o->directory, OUTPUT_MANIFEST, ok ? error : NULL) && ok;
    ok = ok &&
         write_pairs(o, clips, members[0], counts[0], OUTPUT_TRAIN_PAIRS, &report->train_pairs, &report->lone_train,
                     &report->own_prompts, error) &&
         write_pairs(o, clips, members[1], counts[1], OUTPUT_VAL_PAIRS, &report->val_pairs, &report->lone_val,
                     &report->own_prompts, error);
    free(members[0]);
    free(members[1]);
    return ok;
}
